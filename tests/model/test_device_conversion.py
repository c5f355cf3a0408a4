"""Objects of Dynamic Resource Allocation become devices, classes and claims; bad ones become problems."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.model.api.kinds import DEVICE_KINDS, KINDS, WATCHED_KINDS
from phalanx.model.named_parts import plain
from phalanx.model.supplies.devices import api
from phalanx.model.supplies.devices.allocator import NodeDevices
from phalanx.model.supplies.devices.claims import ALL_DEVICES, devices_in_use
from phalanx.model.supplies.devices.cluster import ClusterDevices
from phalanx.model.supplies.devices.pod_claims import allocate_for_pod
from phalanx.model.supplies.devices.pools import Attribute, Inventory
from phalanx.model.supplies.devices.read import (
    read_claim_spec,
    read_device_class,
    read_resource_claim,
    read_slice,
)

from tests.cache.test_arbitrary_objects import structs_of
from tests.examples import holds
from tests.model.devices import DRIVER, MATCHER, claim_of, class_of, device, node, request, slice_of


def test_the_kinds_are_not_watched_while_pods_with_claims_are_refused() -> None:
    assert [KINDS[name].resource for name in DEVICE_KINDS] == [
        "resourceclaims.resource.k8s.io",
        "deviceclasses.resource.k8s.io",
        "resourceslices.resource.k8s.io",
        "devicetaintrules.resource.k8s.io",
    ]
    assert all(KINDS[name].optional for name in DEVICE_KINDS)
    assert not set(DEVICE_KINDS) & set(WATCHED_KINDS)


def test_names_without_a_domain_belong_to_the_driver() -> None:
    found = slice_of(
        {
            "name": "d",
            "attributes": {"model": {"string": "a"}, "example.com/numa": {"int": 1}, "new": {}},
            "capacity": {"memory": {"value": "1Gi"}},
        }
    )
    (one,) = found.devices
    assert one.attributes == {
        "example.com/numa": Attribute("int", 1),
        f"{DRIVER}/model": Attribute("string", "a"),
        f"{DRIVER}/new": Attribute("", None),
    }
    assert one.capacity == {f"{DRIVER}/memory": str(2**30 * 10**9)}


def test_a_name_with_the_domain_of_the_driver_goes_before_the_same_one_without() -> None:
    for names in (("model", f"{DRIVER}/model"), (f"{DRIVER}/model", "model")):
        values = {name: {"string": "full" if "/" in name else "short"} for name in names}
        (one,) = slice_of({"name": "d", "attributes": values}).devices
        assert one.attributes == {f"{DRIVER}/model": Attribute("string", "full")}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            {"devices": [{"name": "d", "capacity": {"memory": {"value": "much"}}}]},
            "spec.devices[0].capacity[memory].value: 'much' is not valid",
        ),
        (
            {"sharedCounters": [{"name": "s", "counters": {"c": {"value": "?"}}}]},
            "spec.sharedCounters[0].counters[c].value: '?' is not valid",
        ),
        ({"sharedCounters": [{"name": "s"}, {"name": "s"}]}, "spec.sharedCounters: has two sets of one name"),
        (
            {
                "nodeSelector": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Like"}]}]
                }
            },
            "spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].operator: 'Like'",
        ),
    ],
)
def test_errors_of_a_slice_name_the_field_and_no_device_of_its_pool_is_used(
    spec: dict[str, Any], problem: str
) -> None:
    written = {
        "metadata": {"name": "bad"},
        "spec": {"driver": DRIVER, "pool": {"name": "n", "resourceSliceCount": 1}, "allNodes": True} | spec,
    }
    if "nodeSelector" in spec:
        del written["spec"]["allNodes"]
    found = read_slice(msgspec.convert(written, api.ResourceSlice))
    assert plain(found.problems[0]).startswith(f"ResourceSlice bad: {problem}")
    for pool in Inventory([found]).pools(node()):
        assert found.problems[0] in pool.problem


@pytest.mark.parametrize(
    ("devices", "problem"),
    [
        ({"requests": [{"name": "r"}]}, "spec.devices.requests[0]: is of a kind that is not known"),
        (
            {"requests": [{"name": "r", "exactly": {}}]},
            "spec.devices.requests[0].exactly.deviceClassName: is empty",
        ),
        (
            {"requests": [request(allocationMode="Some")]},
            "spec.devices.requests[0].exactly.allocationMode: 'Some' is not ExactCount or All",
        ),
        (
            {"requests": [{"name": "r", "firstAvailable": [{"deviceClassName": "gpu", "count": -1}]}]},
            "spec.devices.requests[0].firstAvailable[0].count: -1 is negative",
        ),
        (
            {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": [{}]}}]},
            "spec.devices.requests[0].exactly.selectors[0]: is of a kind that is not known",
        ),
        ({"constraints": [{}]}, "spec.devices.constraints[0]: needs an attribute as domain/name"),
        (
            {"requests": [request(count=20), request("q", count=20)]},
            "spec.devices.requests: need more than 32 devices",
        ),
    ],
)
def test_errors_of_a_claim_name_the_field(devices: dict[str, Any], problem: str) -> None:
    found = read_claim_spec(msgspec.convert({"devices": devices}, api.ResourceClaimSpec))
    assert problem in found.problems


def test_a_field_that_is_not_supported_is_named() -> None:
    (text,) = claim_of(request(derivedAttributes=[{"name": "a/b", "expression": "1"}])).spec.unsupported
    path, _, problem = text.partition(": ")
    assert path == "spec.devices.requests[0].exactly.derivedAttributes"
    assert problem == "derived attributes are off in Kubernetes by default"


def test_a_claim_has_its_requests_constraints_and_allocation() -> None:
    found = claim_of(
        {
            "name": "r",
            "firstAvailable": [
                {"name": "s", "deviceClassName": "gpu", "count": 2},
                {"name": "t", "deviceClassName": "nic", "allocationMode": "All"},
            ],
        },
        constraints=[{"requests": ["r/s"], "matchAttribute": "a/b"}, {"distinctAttribute": "c/d"}],
        status={
            "allocation": {
                "devices": {
                    "results": [
                        {"request": "r/s", "driver": "x", "pool": "p", "device": "d"},
                        {"request": "r/s", "driver": "x", "pool": "p", "device": "e", "adminAccess": True},
                    ]
                }
            },
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
        },
    )
    ((first, second),) = found.spec.requests
    assert (first.name, first.parent, first.count) == ("r/s", "r", 2)
    assert (second.name, second.device_class, second.count) == ("r/t", "nic", ALL_DEVICES)
    matching, distinct = found.spec.constraints
    assert matching.concerns(first)
    assert not matching.concerns(second)
    assert distinct.concerns(second)
    assert list(devices_in_use([found])) == [("x", "p", "d")]
    assert found.reserved_for == ("u",)
    assert found.allocation is not None
    assert found.allocation.nodes.allows(node("any"))


def test_errors_of_a_class_name_it() -> None:
    found = read_device_class(
        msgspec.convert({"metadata": {"name": "gpu"}, "spec": {"selectors": [{}]}}, api.DeviceClass)
    )
    assert found.problems == ("DeviceClass gpu: spec.selectors[0]: is of a kind that is not known",)
    bad = class_of("gpu", "device.driver ==")
    (problem,) = MATCHER.problems(claim_of(request()).spec, {"gpu": bad})
    assert problem.startswith("DeviceClass gpu: spec.selectors[0].cel: does not compile: Syntax error")
    unknown = MATCHER.problems(claim_of(request()).spec, {})
    assert unknown == ("spec.devices.requests[0].exactly.deviceClassName: DeviceClass gpu does not exist",)


@holds(30, suppress_health_check=list(HealthCheck))
@given(
    slices=st.lists(structs_of(api.ResourceSlice), max_size=3),
    classes=st.lists(structs_of(api.DeviceClass), max_size=2),
    claims=st.lists(structs_of(api.ResourceClaim), min_size=1, max_size=2),
)
def test_arbitrary_objects_raise_no_exception(
    slices: list[api.ResourceSlice], classes: list[api.DeviceClass], claims: list[api.ResourceClaim]
) -> None:
    inventory = Inventory(read_slice(each) for each in slices)
    by_name = {each.metadata.name: read_device_class(each) for each in classes}
    found = [read_resource_claim(each) for each in claims]
    for name in ("a", "b"):
        where = NodeDevices(node(name), inventory.pools(node(name)), frozenset(devices_in_use(found)))
        answer = allocate_for_pod(found, where, classes=by_name, matcher=MATCHER)
        assert (answer.claims is None) == bool(answer.reason)
        msgspec.msgpack.encode((answer.claims, answer.reason))


@holds(30, suppress_health_check=list(HealthCheck))
@given(
    slices=st.lists(structs_of(api.ResourceSlice), max_size=2),
    claims=st.lists(structs_of(api.ResourceClaim), max_size=2),
)
def test_a_recording_keeps_them(slices: list[api.ResourceSlice], claims: list[api.ResourceClaim]) -> None:
    devices = ClusterDevices(
        slices=tuple(read_slice(each) for each in slices),
        classes={"gpu": class_of("gpu", "true")},
        claims=tuple(read_resource_claim(each) for each in claims),
    )
    written = msgspec.msgpack.encode(devices)
    read = msgspec.msgpack.decode(written, type=ClusterDevices)
    assert read == devices
    assert msgspec.msgpack.encode(read) == written


def test_the_builder_of_tests_writes_domains() -> None:
    assert device("d", example_com__numa=1)["attributes"] == {"example.com/numa": {"int": 1}}


def test_a_device_that_skips_node_operations_needs_a_kubelet_that_can() -> None:
    result = {"request": "r", "driver": "gpu.example.com", "pool": "a", "device": "d"}
    skipped = result | {"skipNodeOperations": ["Prepare"]}
    able = replace(node("a"), declared_features=("DRAOptionalNodeOperations",))
    for written, allowed in ((result, True), (skipped, False)):
        allocation = claim_of(
            request(), status={"allocation": {"devices": {"results": [written]}}}
        ).allocation
        assert allocation is not None
        assert allocation.nodes.allows(able)
        assert allocation.nodes.allows(node("a")) is allowed
