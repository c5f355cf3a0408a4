"""The ConfigMap of records: what is written is read again, and no namespace takes the space of others."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.kube.record_store import RECORDS_BYTES_MAX
from phalanx.model.names import GangId
from phalanx.model.records import GangRecord, LetInRecord, PlacedMembers
from phalanx.model.stored_records import (
    ABOUT,
    RecordDocument,
    Records,
    changes_of_records,
    is_initialized,
    read_records,
    with_changes,
    within,
    written,
)

from tests.examples import holds

GPUS = {"cpu": 4000, "nvidia.com/gpu": 8}
NAMESPACES = ("a", "b", "c")

requests = st.dictionaries(
    st.sampled_from(("cpu", "memory", "nvidia.com/gpu")), st.integers(1, 1 << 40), max_size=3
)
members = st.builds(
    PlacedMembers,
    role=st.sampled_from(("", "ps", "worker")),
    subgroup=st.sampled_from(("", "left")),
    requests=requests,
    bound=st.integers(0, 9),
    reserved=st.integers(0, 9),
)
records = st.builds(
    GangRecord,
    queued_since=st.integers(0, 1 << 31),
    placed=st.lists(members, max_size=3).map(tuple),
    finishing_since=st.integers(0, 1 << 31),
    has_launched=st.booleans(),
    let_in=st.none()
    | st.builds(
        LetInRecord,
        ends=st.integers(1, 1 << 31),
        before=st.lists(st.just("0f4a4c2b6d8e9f10"), min_size=1, max_size=3).map(tuple),
        is_start=st.booleans(),
    ),
    evicting=st.integers(0, 9),
)
contents = st.dictionaries(
    st.sampled_from(NAMESPACES),
    st.dictionaries(st.uuids().map(lambda each: GangId(str(each))), records, max_size=8),
)


def document(content: dict[str, dict[GangId, GangRecord]], total: int = RECORDS_BYTES_MAX) -> RecordDocument:
    made = RecordDocument(total)
    for namespace, each in content.items():
        for gang, record in each.items():
            made.put(namespace, gang, record)
    return made


def job(number: int, namespace: str = "team") -> GangId:
    return GangId(f"Job.batch:{namespace}/00000000-0000-0000-0000-{number:012d}")


def started(bound: int = 8) -> GangRecord:
    return GangRecord(1_767_312_000, (PlacedMembers("worker", "", GPUS, bound),))


@given(contents)
@holds(100)
def test_what_is_written_is_read_again(content: dict[str, dict[GangId, GangRecord]]) -> None:
    data = document(content).data()
    assert is_initialized(data)
    assert read_records(data) == {namespace: each for namespace, each in content.items() if each}
    assert RecordDocument(RECORDS_BYTES_MAX, read_records(data)).data() == data


@given(contents, st.integers(60, 2000))
@holds(200)
def test_a_namespace_within_its_share_loses_nothing(
    content: dict[str, dict[GangId, GangRecord]], total: int
) -> None:
    """The oracle: each namespace alone, and an equal part of the whole for each that has records."""
    data = document(content, total).data()
    texts = {namespace: text for namespace, text in data.items() if namespace not in ABOUT}
    assert sum(len(text.encode()) for text in texts.values()) <= max(total, 30 * len(texts))
    alone = {
        namespace: document({namespace: each}).data().get(namespace, "")
        for namespace, each in content.items()
    }
    alone = {namespace: text for namespace, text in alone.items() if text}
    for namespace, text in alone.items():
        if len(text) <= total // len(alone):
            assert texts[namespace] == text
    kept = read_records(data)
    for namespace, each in content.items():
        assert all(each[gang] == record for gang, record in kept.get(namespace, {}).items())


def test_a_tenant_with_very_many_gangs_takes_nothing_from_the_others() -> None:
    large = {job(number, "large"): started(2) for number in range(10_000)}
    quiet = {job(number, "quiet"): started() for number in range(100)}
    data = document({"large": large, "quiet": quiet}).data()
    kept = read_records(data)
    assert sum(map(len, data.values())) <= RECORDS_BYTES_MAX + 100
    assert kept["quiet"] == quiet
    assert 4000 < len(kept["large"]) < 10_000
    assert list(kept["large"]) == list(large)[: len(kept["large"])]


@given(st.dictionaries(st.uuids().map(lambda each: GangId(str(each))), records), st.integers(0, 1500))
@holds(200)
def test_what_stays_of_a_namespace_is_all_that_fits(found: dict[GangId, GangRecord], size: int) -> None:
    kept = within(found, size)
    started = [gang for gang in found if found[gang].placed]
    ordered = [*started, *(gang for gang in found if gang not in started)]
    assert list(kept) == ordered[: len(kept)]
    if kept:
        assert len(written(kept).encode()) <= size
    if len(kept) < len(found):
        next_one = ordered[len(kept)]
        assert len(written({**kept, next_one: found[next_one]}).encode()) > size


def test_started_gangs_stay_before_waiting_ones() -> None:
    waiting = {job(number): GangRecord(1_767_312_000) for number in range(100)}
    data = document({"team": {**waiting, job(100): started()}}, 1000).data()
    assert job(100) in read_records(data)["team"]


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"team": '{"gangs":{"g":[1,0,[]]}}'},
        {"_about": '{"format":2}', "team": '{"gangs":{"g":[1,0,[]]}}'},
        {"_about": "x", "team": '{"gangs":{"g":[1,0,[]]}}'},
    ],
)
def test_another_format_counts_as_none(data: dict[str, str]) -> None:
    assert not is_initialized(data)
    assert read_records(data) == {}


@pytest.mark.parametrize("text", ["", "[]", '{"gangs":[]}', '{"gangs":{"g":[1,0,[["","",0,1,0]]]}}'])
def test_a_text_that_cannot_be_read_hides_no_other(text: str) -> None:
    good = document({"good": {job(1): started()}}).data()
    assert read_records({**good, "bad": text}) == {"good": {job(1): started()}}


def test_one_gang_takes_about_a_hundred_bytes() -> None:
    text = document({"team": {job(number): started() for number in range(1000)}}).data()["team"]
    assert len(text) < 100 * 1000
    assert json.loads(text)["requests"] == [GPUS]


def test_removed_records_and_their_namespace_go() -> None:
    made = document({"team": {job(1): started(), job(2): started()}})
    made.remove(job(1))
    made.remove(job(3))
    assert read_records(made.data()) == {"team": {job(2): started()}}
    made.remove(job(2))
    assert made.data() == ABOUT
    assert made.records() == {}


@given(st.dictionaries(st.integers(0, 9), records), st.dictionaries(st.integers(0, 9), records))
@holds(100)
def test_changes_lead_from_one_state_to_the_next(
    before: dict[int, GangRecord], after: dict[int, GangRecord]
) -> None:
    old, new = named(before), named(after)
    changes = changes_of_records(old, new)
    assert with_changes(old, changes) == new
    assert all(old.get(gang) != record for gang, record in changes.items())


def named(found: dict[int, Any]) -> Records:
    return {job(number): record for number, record in found.items()}
