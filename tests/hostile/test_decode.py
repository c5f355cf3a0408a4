"""Lines and pages with malformed bytes: one object is skipped or decoded leniently, the stream goes on."""

import json
from typing import Any

import pytest
from phalanx.kube.decode import KindDecoder, ObjectEvent, Undecodable, Unreadable, WatchLine
from phalanx.kube.errors import RETRY_AFTER_MAX_S, error_of, error_of_status
from phalanx.limits import GANG_PROBLEMS_MAX
from phalanx.model.api.core import Pod
from phalanx.model.api.kinds import KINDS
from phalanx.model.api.meta import Status, StatusDetails
from phalanx.model.api.native_pod_groups import NativePodGroup
from phalanx.model.api.values import seconds
from phalanx.model.events import Applied, Deleted
from phalanx.ports import Response

PODS = KindDecoder(KINDS["Pod"])
META = b'"metadata":{"name":"p","namespace":"n","resourceVersion":"5"}'
DEEP = [b"[" * depth + b"]" * depth for depth in (300, 5000, 100_000)]
DEEP += [b'{"a":' * depth + b"1" + b"}" * depth for depth in (300, 5000, 100_000)]


def pod(rest: bytes) -> bytes:
    return b"{" + META + b"," + rest + b"}"


def line(body: bytes, event: bytes = b"ADDED") -> WatchLine:
    return PODS.line(b'{"type":"' + event + b'","object":' + body + b"}")


def applied(seen: WatchLine) -> Pod:
    assert isinstance(seen, ObjectEvent)
    assert isinstance(seen.event, Applied)
    assert isinstance(seen.event.object, Pod)
    return seen.event.object


@pytest.mark.parametrize("deep", DEEP, ids=lambda deep: f"{deep[:1]!r} {len(deep)}")
def test_deep_nesting_in_an_unknown_field_is_ignored(deep: bytes) -> None:
    """A RecursionError is not a decode error; it ended the scheduler."""
    assert applied(line(pod(b'"x":' + deep))).metadata.name == "p"
    gone = line(pod(b'"x":' + deep), b"DELETED")
    assert isinstance(gone, ObjectEvent)
    assert gone.event == Deleted("Pod", "n", "p", "")
    page = PODS.page(b'{"items":[' + pod(b'"x":' + deep) + b"," + pod(b'"spec":{}') + b"]}")
    assert len(page.objects) == 2


def test_deep_nesting_in_a_known_field_is_a_decode_error() -> None:
    found = line(pod(b'"spec":{"nodeName":' + DEEP[2] + b"}"))
    assert isinstance(found, Unreadable)
    assert (found.namespace, found.name, found.version) == ("n", "p", "5")
    assert "$.object.spec.nodeName" in found.error


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b'"\xff"', "\ufffd"),
        (b'"a\xc3"', "a\ufffd"),
        (b'"\\ud800"', "\ufffd"),
        (b'"\\udc00x"', "\ufffdx"),
        (b'"\\ud83d\\ude00"', "😀"),
        (b'"\\u0000"', "\x00"),
    ],
)
def test_invalid_unicode_is_decoded_as_go_decodes_it(written: bytes, read: str) -> None:
    assert applied(line(pod(b'"spec":{"nodeName":' + written + b"}"))).spec.node_name == read
    page = PODS.page(b'{"items":[' + pod(b'"spec":{"nodeName":' + written + b"}") + b"]}")
    assert [found.spec.node_name for found in page.objects if isinstance(found, Pod)] == [read]


@pytest.mark.parametrize("written", [b"NaN", b"Infinity", b"-Infinity", b"1e400", b"9" * 400, b"9" * 5000])
def test_an_invalid_number_is_reported_with_its_field(written: bytes) -> None:
    for body in (b'"spec":{"priority":', b'"spec":{"overhead":{"cpu":1},"priority":'):
        found = line(pod(body + written + b"}"))
        assert isinstance(found, Unreadable)
        assert "$.object.spec.priority" in found.error
        assert found.name == "p"


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**63, 10**30])
def test_a_number_out_of_range_is_reported_with_its_field(number: int) -> None:
    found = line(pod(b'"spec":{"priority":%d}' % number))
    assert isinstance(found, Unreadable)
    assert "spec.priority" in found.error


def test_an_amount_beyond_64_bits_is_reported_with_its_field() -> None:
    """The cache encodes pod templates to compare them; this number raised an OverflowError there."""
    found = line(pod(b'"spec":{"overhead":{"cpu":%d}}' % 10**30))
    assert isinstance(found, Unreadable)
    assert "spec.overhead" in found.error


@pytest.mark.parametrize(
    "broken", [b"", b"{", b'{"type":"ADDED","object":{"metadata":{"na', b"[]", b"null", b"502", b'{"type":7}']
)
def test_a_line_that_is_not_an_event_is_undecodable(broken: bytes) -> None:
    with pytest.raises(Undecodable):
        PODS.line(broken)
    with pytest.raises(Undecodable):
        PODS.page(broken + b"{")


def test_one_malformed_object_of_a_page_does_not_hide_others() -> None:
    bad = [b'"x":"\\ud800"', b'"spec":{"priority":NaN}', b'"spec":{"priority":1' + b"0" * 400 + b"}"]
    good: Any = {"metadata": {"name": "good"}}
    page = PODS.page(b'{"items":[' + b",".join([*map(pod, bad), json.dumps(good).encode()]) + b"]}")
    assert [found.metadata.name for found in page.objects] == ["p", "good"]
    assert len(page.unreadable) == 2


@pytest.mark.parametrize(("asked", "waits"), [(-5, 0.0), (7, 7.0), (2**31 - 1, RETRY_AFTER_MAX_S)])
def test_retry_after_is_bounded(asked: int, waits: float) -> None:
    status = Status(code=429, details=StatusDetails(retry_after_seconds=asked))
    assert error_of_status(status).retry_after == waits


@pytest.mark.parametrize(
    "header", ["9" * 5000, "²", "１２", "-1", "", " 7 ", "Wed, 21 Oct 2026 07:28:00 GMT"]
)
def test_any_retry_after_header_is_accepted(header: str) -> None:
    error = error_of(Response(status=503, body=b"\xff" + DEEP[1], headers={"retry-after": header}))
    assert error.retry_after is None or 0 <= error.retry_after <= RETRY_AFTER_MAX_S


@pytest.mark.parametrize("body", [b"\xff", DEEP[2], b'{"message":"\\ud800"}', b'{"code":' + b"9" * 99 + b"}"])
def test_any_error_body_is_accepted(body: bytes) -> None:
    assert error_of(Response(status=502, body=body)).code == 502


@pytest.mark.parametrize(
    "time",
    ["0001-01-01T00:00:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-01-01T00:00:00"],
)
def test_extreme_times_and_times_without_a_zone_are_read(time: str) -> None:
    """A time without a zone was read in the zone of the machine, and failed in year 1."""
    meta = b'{"metadata":{"name":"p","creationTimestamp":"' + time.encode() + b'"}}'
    assert isinstance(seconds(applied(line(meta)).metadata.creation_timestamp), int)


# --- unknown fields of dialects -----------------------------------------------------------------------------


def group(name: str, spec: Any) -> Any:
    return {"metadata": {"name": name, "namespace": "n"}, "spec": spec}


def unknown(found: Any) -> tuple[str, ...]:
    assert isinstance(found, NativePodGroup)
    return found.unknown_fields


def test_unknown_fields_of_a_native_pod_group_are_named() -> None:
    decoder = KindDecoder(KINDS["NativePodGroup"])
    later = group("later", {"a": 1, "schedulingPolicy": {"gang": {"minCount": 2, "b": {}}}, "none": None})
    paths = ("spec.a", "spec.schedulingPolicy.gang.b")
    seen = decoder.line(json.dumps({"type": "MODIFIED", "object": later}).encode())
    assert isinstance(seen, ObjectEvent)
    assert isinstance(seen.event, Applied)
    assert unknown(seen.event.object) == paths
    plain = group("plain", {"schedulingPolicy": {"gang": {"minCount": 2}}})
    invalid = group("invalid", {"schedulingPolicy": 1})
    for others in ([], [invalid]):
        page = decoder.page(json.dumps({"items": [plain, later, *others]}).encode())
        assert [unknown(each) for each in page.objects] == [(), paths]
        assert len(page.unreadable) == len(others)


def test_many_unknown_fields_are_named_in_part() -> None:
    many = group("many", {f"field{number}": 1 for number in range(1000)})
    (found,) = KindDecoder(KINDS["NativePodGroup"]).page(json.dumps({"items": [many]}).encode()).objects
    assert len(unknown(found)) == GANG_PROBLEMS_MAX
