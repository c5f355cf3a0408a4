"""Claims of a pod are allocated from the pools of a node."""

from typing import Any

import msgspec
import pytest
from msgspec import structs
from phalanx.model.named_parts import plain
from phalanx.model.pods import PodClaim
from phalanx.model.supplies.devices import api
from phalanx.model.supplies.devices.allocator import CLAIM_SEARCH_STEPS_MAX, nodes_of
from phalanx.model.supplies.devices.claims import AllocatedDevice, devices_in_use
from phalanx.model.supplies.devices.pod_claims import Unresolved, allocate_for_pod, resolve
from phalanx.model.supplies.devices.pools import Binding, Inventory, NodeChoice
from phalanx.model.supplies.devices.read import read_taint_rule

from tests.model.devices import (
    CLASSES,
    DRIVER,
    MATCHER,
    allocated,
    answered,
    claim_of,
    class_of,
    device,
    node,
    place,
    request,
    slice_of,
    spec_of,
)

NUMA = "example.com/numa"


def gpus(*numbers: int) -> tuple[dict[str, Any], ...]:
    """One device for each of these NUMA nodes."""
    return tuple(device(f"d{index}", example_com__numa=number) for index, number in enumerate(numbers))


def test_devices_are_taken_in_the_order_of_the_pool() -> None:
    where = place(slice_of(*gpus(0, 0, 0)))
    assert allocated(where, spec_of(request(count=2))) == (("d0", "d1"),)
    assert allocated(where, spec_of(request()), spec_of(request(count=2))) == (("d0",), ("d1", "d2"))
    assert answered(where, spec_of(request(count=4))).reason == "not enough free devices match"


def test_devices_in_use_are_not_taken_except_for_admin_access() -> None:
    where = place(slice_of(*gpus(0, 0)), in_use=frozenset({(DRIVER, "n", "d0")}))
    assert allocated(where, spec_of(request())) == (("d1",),)
    assert allocated(where, spec_of(request(count=2, adminAccess=True))) == (("d0", "d1"),)


def test_a_constraint_makes_the_search_go_back() -> None:
    where = place(slice_of(*gpus(0, 1, 1)))
    match = [{"requests": ["r"], "matchAttribute": NUMA}]
    assert allocated(where, spec_of(request(count=2), constraints=match)) == (("d1", "d2"),)
    distinct = [{"distinctAttribute": NUMA}]
    assert allocated(where, spec_of(request(count=2), constraints=distinct)) == (("d0", "d1"),)
    assert answered(where, spec_of(request(count=3), constraints=distinct)).claims is None


def test_one_claim_leaves_what_the_next_one_needs() -> None:
    where = place(slice_of(device("d0", fast=True), device("d1", fast=False)))
    fast = request("fast", f'device.attributes["{DRIVER}"].fast')
    assert allocated(where, spec_of(request()), spec_of(fast)) == (("d1",), ("d0",))


def test_alternatives_are_tried_in_their_order() -> None:
    where = place(slice_of(*gpus(0, 0)))
    big = {"name": "two", "deviceClassName": "gpu", "count": 2}
    small = {"name": "one", "deviceClassName": "gpu"}
    choice = {"name": "r", "firstAvailable": [big, small]}
    assert allocated(where, spec_of(choice)) == (("d0", "d1"),)
    found = answered(where, spec_of(choice), spec_of(request()))
    assert found.claims is not None
    assert [each.request for each in found.claims[0]] == ["r/one"]


def test_all_devices_are_all_that_match() -> None:
    where = place(slice_of(*gpus(0, 1, 1)))
    some = request("r", f'device.attributes["example.com"].numa == 1', allocationMode="All")  # noqa: F541
    assert allocated(where, spec_of(some)) == (("d1", "d2"),)
    none = request("r", "false", allocationMode="All")
    assert answered(where, spec_of(none)).claims is None
    taken = place(slice_of(*gpus(0, 1, 1)), in_use=frozenset({(DRIVER, "n", "d2")}))
    assert answered(taken, spec_of(some)).claims is None


def test_taints_need_a_toleration() -> None:
    tainted = {**device("d0"), "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
    where = place(slice_of(tainted))
    assert answered(where, spec_of(request())).claims is None
    for toleration in ({"operator": "Exists"}, {"key": "k", "value": "v"}):
        assert allocated(where, spec_of(request(tolerations=[toleration]))) == (("d0",),)
    evicts = {**device("d0"), "taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}
    assert answered(place(slice_of(evicts)), spec_of(request())).claims is None
    other = {"key": "k", "value": "v", "effect": "NoExecute"}
    assert answered(where, spec_of(request(tolerations=[other]))).claims is None
    harmless = {**device("d0"), "taints": [{"key": "k", "effect": "None"}]}
    assert allocated(place(slice_of(harmless)), spec_of(request())) == (("d0",),)


@pytest.mark.parametrize(
    ("selector", "left"),
    [
        ({}, ()),
        ({"driver": DRIVER, "pool": "n", "device": "d0"}, ("d1",)),
        ({"pool": "other"}, ("d0",)),
        ({"driver": "other"}, ("d0",)),
        (None, ("d0",)),
    ],
)
def test_rules_taint_the_devices_that_they_select(selector: Any, left: tuple[str, ...]) -> None:
    taint = {"key": "k", "value": "v", "effect": "NoExecute"}
    spec = {"taint": taint} | ({"deviceSelector": selector} if selector is not None else {})
    written = msgspec.convert({"metadata": {"name": "r"}, "spec": spec}, api.DeviceTaintRule)
    rule = read_taint_rule(written)
    inventory = Inventory([slice_of(*gpus(0, 0))], [rule] if rule is not None else [])
    where = structs.replace(place(), pools=inventory.pools(node()))
    found = answered(where, spec_of(request()))
    assert (found.claims or ((),))[0][:1] == tuple(AllocatedDevice("r", (DRIVER, "n", name)) for name in left)


def test_devices_with_other_taints_are_not_equal() -> None:
    tainted = {**device("d1"), "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
    tolerant = request("r", tolerations=[{"operator": "Exists"}])
    where = place(slice_of(device("d0"), tainted))
    assert allocated(where, spec_of(tolerant), spec_of(request())) == (("d1",), ("d0",))


def partitions() -> Any:
    """Two halves and a whole of one GPU, as a driver of partitions publishes them."""

    def part(name: str, amount: str) -> dict[str, Any]:
        uses = [{"counterSet": "gpu", "counters": {"memory": {"value": amount}}}]
        return {**device(name, whole=name == "whole"), "consumesCounters": uses}

    pool = {"resourceSliceCount": 2}
    counters = [{"name": "gpu", "counters": {"memory": {"value": "80Gi"}}}]
    return (
        slice_of(part("half-0", "40Gi"), part("half-1", "40Gi"), part("whole", "80Gi"), pool=pool),
        slice_of(name="counters", pool=pool, sharedCounters=counters),
    )


def test_partitions_share_the_counters_of_their_pool() -> None:
    where = place(*partitions())
    assert allocated(where, spec_of(request(count=2))) == (("half-0", "half-1"),)
    assert answered(where, spec_of(request(count=3))).claims is None
    used = place(*partitions(), in_use=frozenset({(DRIVER, "n", "half-1")}))
    assert allocated(used, spec_of(request())) == (("half-0",),)
    assert answered(used, spec_of(request(count=2))).claims is None
    whole = request("r", f'device.attributes["{DRIVER}"].whole')
    assert allocated(where, spec_of(whole)) == (("whole",),)
    assert answered(used, spec_of(whole)).claims is None


def test_a_pool_waits_for_all_slices_of_its_newest_generation() -> None:
    old = slice_of(device("old"), name="a")
    new = slice_of(device("d0"), name="b", pool={"generation": 2, "resourceSliceCount": 2})
    found = answered(place(old, new), spec_of(request()))
    assert plain(found.reason) == (f"pool n of driver {DRIVER} is incomplete: 1 of 2 slices of generation 2")
    more = slice_of(device("d1"), name="c", pool={"generation": 2, "resourceSliceCount": 2})
    assert allocated(place(old, new, more), spec_of(request(count=2))) == (("d0", "d1"),)
    everything = answered(place(old, new), spec_of(request(allocationMode="All")))
    assert everything.is_error
    assert "asks for all devices, but pool n" in plain(everything.reason)


def test_a_pool_with_a_newer_generation_on_other_nodes_is_ignored() -> None:
    old = slice_of(device("old"), name="a", pool={"name": "p", "resourceSliceCount": 2})
    new = slice_of(name="b", pool={"name": "p", "generation": 2}, nodeName="other")
    local = slice_of(device("d0"), name="c")
    assert allocated(place(old, new, local), spec_of(request(allocationMode="All"))) == (("d0",),)


@pytest.mark.parametrize(
    ("slices", "problem"),
    [
        ([slice_of(device("d"), device("d"))], "duplicate device d in ResourceSlice s"),
        (
            [slice_of({**device("d"), "consumesCounters": [{"counterSet": "x"}]})],
            "device d uses the unknown counter set x",
        ),
    ],
)
def test_a_pool_that_contradicts_itself_is_not_used(slices: Any, problem: str) -> None:
    found = answered(place(*slices), spec_of(request()))
    assert plain(found.reason) == f"pool n of driver {DRIVER} is invalid: {problem}"
    assert not found.is_error


def test_a_selector_without_a_value_is_an_error_that_names_class_and_device() -> None:
    classes = {"gpu": class_of("gpu", "true", f'device.attributes["{DRIVER}"].fast')}
    found = answered(place(slice_of(device("d0"))), spec_of(request()), classes=classes)
    assert found.is_error
    assert found.reason == (
        f"DeviceClass gpu: spec.selectors[1].cel: has no value on device d0 of driver {DRIVER}: "
        'Key not found in map : "fast"'
    )


def test_a_claim_with_an_error_is_not_allocated() -> None:
    found = answered(place(slice_of(device("d0"))), spec_of(request("r", "device.driver +")))
    assert found.is_error
    assert found.reason.startswith("spec.devices.requests[0].exactly.selectors[0].cel: does not compile: ")


def test_devices_with_binding_conditions_are_allocated_with_them_after_those_of_other_pools() -> None:
    conditions = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
    prepared = slice_of({**device("d0"), **conditions}, device("d1"), name="a", pool={"name": "a"})
    where = place(prepared, slice_of(device("d2"), name="b", pool={"name": "b"}))
    found = answered(where, spec_of(request(count=3)))
    assert [(each.device[2], each.binding) for each in (found.claims or ((),))[0]] == [
        ("d2", None),
        ("d0", Binding(("attached",), ("broken",))),
        ("d1", None),
    ]


def test_a_search_ends_at_its_bound() -> None:
    """Pairs of equal attributes that no two devices have, among many that all differ in another one."""
    devices = [device(f"d{index}", example_com__numa=index, serial=index) for index in range(64)]
    match = [{"matchAttribute": NUMA, "requests": ["a"]}, {"distinctAttribute": f"{DRIVER}/serial"}]
    wanted = spec_of(request("b", count=8), request("a", count=2), constraints=match)
    found = answered(place(slice_of(*devices)), wanted)
    assert found.is_undecided
    assert found.reason == f"undecided after {CLAIM_SEARCH_STEPS_MAX} tried devices"


def test_equal_devices_are_not_tried_twice() -> None:
    """Without that, this would reach the bound: 16 of 32 equal devices can be chosen in many ways."""
    devices = [device(f"d{index}", serial=index) for index in range(32)]
    found = answered(place(slice_of(*devices)), spec_of(request("a", count=16), request("b", "false")))
    assert found.reason == "not enough free devices match"


def test_an_allocation_is_for_the_nodes_that_can_use_all_its_devices() -> None:
    east = {"key": "zone", "operator": "In", "values": ["east"]}
    terms = [{"matchExpressions": [east]}]
    zonal = slice_of(device("z"), name="z", pool={"name": "z"}, nodeSelector={"nodeSelectorTerms": terms})
    anywhere = slice_of(device("a"), name="a", pool={"name": "a"}, allNodes=True)
    local = slice_of(device("l"), name="l", pool={"name": "l"})
    here = node(zone="east")
    where = place(zonal, anywhere, local)

    def choice(*names: str) -> NodeChoice:
        pools = Inventory([each for each in (zonal, anywhere, local) if each.name in names]).pools(here)
        count = spec_of(request(count=len(names)))
        (devices,) = answered(type(where)(here, pools, frozenset()), count).candidates
        return nodes_of(devices, here)

    assert choice("l", "a", "z").node == "n"
    assert choice("a") == NodeChoice(all_nodes=True)
    assert choice("a", "z").allows(node("other", zone="east"))
    assert not choice("a", "z").allows(node("other", zone="west"))


def test_each_device_may_name_its_nodes() -> None:
    mine, others = {**device("d0"), "nodeName": "n"}, {**device("d1"), "nodeName": "other"}
    where = place(slice_of(others, mine, perDeviceNodeSelection=True))
    assert allocated(where, spec_of(request())) == (("d0",),)
    assert answered(where, spec_of(request(count=2))).claims is None


def test_an_allocated_claim_is_kept_where_its_nodes_are() -> None:
    named = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["other"]}]}]
    results = [{"request": "r", "driver": DRIVER, "pool": "n", "device": "d0"}]
    status = {"allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": named}}}
    claim = claim_of(request(), status=status)
    assert set(devices_in_use([claim])) == {(DRIVER, "n", "d0")}
    found = allocate_for_pod([claim], place(slice_of(device("d0"))), classes=CLASSES, matcher=MATCHER)
    assert found.reason == "ResourceClaim default/c is allocated for other nodes"


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (PodClaim("a", "", is_own=True), "its ResourceClaim has not been created yet"),
        (PodClaim("a", "gone"), "ResourceClaim gone does not exist"),
        (PodClaim("a", "c", is_own=True), "ResourceClaim default/c was not created for this pod"),
    ],
)
def test_claims_that_cannot_be_used_are_named(entry: PodClaim, problem: str) -> None:
    claim = claim_of(request())
    found = resolve(
        [PodClaim("needless", "", is_needless=True), entry],
        namespace="default",
        pod_uid="uid-p",
        find=lambda namespace, name: claim if (namespace, name) == ("default", "c") else None,
    )
    assert found == Unresolved(f"spec.resourceClaims[1]: {problem}")


def test_a_claim_that_many_pods_use_is_for_them_only() -> None:
    consumers = [{"resource": "pods", "name": f"p{index}", "uid": f"u{index}"} for index in range(256)]
    claim = claim_of(request(), status={"allocation": {}, "reservedFor": consumers})

    def resolved(uid: str) -> object:
        entries = [PodClaim("a", "c")]
        return resolve(entries, namespace="default", pod_uid=uid, find=lambda _namespace, _name: claim)

    assert resolved("u7") == (claim,)
    assert isinstance(resolved("new"), Unresolved)


@pytest.mark.parametrize("admin", [False, True])
def test_a_search_may_choose_more_devices_than_calls_can_be_nested(admin: bool) -> None:
    """Pods name any number of claims. Those of administrators may all have the same device."""
    found = allocated(
        place(slice_of(*[device(f"x{index:03}") for index in range(1 if admin else 256)])),
        *[spec_of(request(adminAccess=admin))] * 256,
    )
    assert found == tuple((f"x{0 if admin else index:03}",) for index in range(256))
