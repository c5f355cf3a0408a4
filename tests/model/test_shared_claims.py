"""A claim that all members of a gang use is allocated once, and leaves the gang certain nodes."""

from collections.abc import Sequence
from typing import Any

import pytest
from phalanx.model.nodes import Node
from phalanx.model.supplies.devices.claims import AllocatedDevice, Allocation, Claim
from phalanx.model.supplies.devices.cluster import ClusterDevices, DeviceState, grants
from phalanx.model.supplies.devices.pools import NodeChoice, Slice
from phalanx.model.supplies.devices.shared_claims import Choice, ClaimSet

from tests.model.devices import CLASSES, DRIVER, MATCHER, claim_of, device, node, request, slice_of, spec_of

NODES = [node("n1", zone="east"), node("n2", zone="west"), node("n3", zone="east")]
EAST = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["east"]}]}]}


def state_of(*slices: Slice) -> DeviceState:
    return DeviceState(ClusterDevices(slices=slices, classes=CLASSES), MATCHER)


def local(name: str, *devices: str) -> Slice:
    return slice_of(*map(device, devices), name=name, pool={"name": name}, nodeName=name)


def choices(
    state: DeviceState, count: int = 1, nodes: Sequence[Node] = NODES
) -> list[tuple[list[str], list[str]]]:
    """Devices and nodes of each choice."""
    found = []
    for choice in shared(state, [claim_of(request(count=count))], nodes, ((0,),)):
        if choice:
            devices = sorted(each.device[2] for one in choice.values() for each in one.devices)
            allowed = [str(each.name) for each in nodes if all(n.nodes.allows(each) for n in choice.values())]
            found.append((devices, allowed))
    return found


def shared(
    state: DeviceState, claims: Sequence[Claim], nodes: Sequence[Node], sets: Sequence[tuple[int, ...]]
) -> list[Choice]:
    wanted = [ClaimSet(numbers, nodes) for numbers in sets]
    return list(state.shared(claims, wanted, lambda _set, left, _made: len(left)))


def test_devices_of_one_node_leave_this_node() -> None:
    state = state_of(local("n1", "a"), local("n3", "c"))
    assert choices(state) == [(["a"], ["n1"]), (["c"], ["n3"])]
    assert choices(state, count=2) == []


def test_devices_of_a_network_leave_all_its_nodes_and_come_first() -> None:
    zonal = slice_of(device("z"), name="z", pool={"name": "z"}, nodeSelector=EAST)
    state = state_of(local("n1", "a"), local("n2", "b"), zonal)
    assert choices(state) == [(["z"], ["n1", "n3"]), (["b"], ["n2"])]
    assert choices(state, count=2) == [(["a", "z"], ["n1"])]
    assert choices(state, nodes=NODES[1:2]) == [(["b"], ["n2"])]


def test_devices_that_each_name_their_nodes() -> None:
    anywhere, own = {**device("x"), "allNodes": True}, {**device("own"), "nodeName": "n2"}
    state = state_of(slice_of(own, anywhere, name="p", pool={"name": "p"}, perDeviceNodeSelection=True))
    assert choices(state) == [(["x"], ["n1", "n2", "n3"])]
    assert choices(state, count=2) == [(["own", "x"], ["n2"])]


def test_devices_in_use_of_one_node_keep_the_counters_of_their_pool() -> None:
    uses = {"consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}]}
    own, anywhere = device("own") | uses | {"nodeName": "n1"}, device("x") | uses | {"allNodes": True}
    pool = {"name": "p", "resourceSliceCount": 2}
    counters = [{"name": "s", "counters": {"c": {"value": "1"}}}]
    slices = (
        slice_of(own, anywhere, name="p", pool=pool, perDeviceNodeSelection=True),
        slice_of(name="q", pool=pool, allNodes=True, sharedCounters=counters),
    )
    assert choices(state_of(*slices)) == [(["x"], ["n1", "n2", "n3"])]
    used = claim_of(
        request(),
        status={
            "allocation": {
                "devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "p", "device": "own"}]}
            }
        },
    )
    devices = ClusterDevices(slices=slices, classes=CLASSES, claims=(used,))
    assert choices(DeviceState(devices, MATCHER)) == []


def test_what_is_granted_names_new_allocations_only() -> None:
    results = [{"request": "r", "driver": DRIVER, "pool": "n1", "device": "a"}]
    old = claim_of(request(), status={"allocation": {"devices": {"results": results}}})
    state = DeviceState(
        ClusterDevices(slices=(local("n1", "a", "b"),), classes=CLASSES, claims=(old,)), MATCHER
    )
    claims = (old, claim_of(request()))
    answer = state.allocate(claims, state.on(NODES[0]))
    first, second = grants(claims, answer, NODES[0])
    assert first.allocation is None
    assert second.allocation == Allocation(
        (AllocatedDevice("r", (DRIVER, "n1", "b")),), NodeChoice(node="n1")
    )


def test_the_members_get_what_the_shared_claim_leaves() -> None:
    state = state_of(local("n1", "a", "b", "c"))
    (choice,) = shared(state, [claim_of(request())], NODES, ((0,),))
    devices = frozenset(each.device for each in choice[0].devices)
    place = state.on(NODES[0], besides=devices)
    assert place.in_use == {(DRIVER, "n1", "a")}
    assert state.slots([spec_of(request())]).count(place, 9).count == 2


def test_claims_of_different_members_are_chosen_together() -> None:
    """The first claim can have either device, and the second one only one of them."""
    east = slice_of(device("a"), device("b", test__fast=True), name="z", pool={"name": "z"}, allNodes=True)
    slow = claim_of(request("r", '"test" in device.attributes && has(device.attributes["test"].fast)'))
    for claims in ([claim_of(request()), slow], [slow, claim_of(request())]):
        (choice,) = shared(state_of(east), claims, NODES, ((0,), (1,)))
        names = [choice[number].devices[0].device[2] for number in (0, 1)]
        assert names == (["a", "b"] if claims[1] is slow else ["b", "a"])


def test_claims_of_different_members_may_leave_different_nodes() -> None:
    state = state_of(local("n1", "a"), local("n2", "b"))
    found = shared(state, [claim_of(request()), claim_of(request())], NODES, ((0,), (1,)))
    nodes = [(choice[0].nodes.node, choice[1].nodes.node) for choice in found]
    assert nodes == [("n1", "n2"), ("n2", "n1")]


def test_a_claim_of_several_sets_is_allocated_once_and_leaves_nodes_of_both() -> None:
    """Members with both claims need a node with devices of both; the others one of the second claim."""
    zonal = slice_of(device("z1"), device("z2"), name="z", pool={"name": "z"}, nodeSelector=EAST)
    nic = slice_of(device("nic"), name="n3", pool={"name": "n3"}, nodeName="n3", driver="nic")
    claims = [claim_of(request(device_class="nic")), claim_of(request("r", f'device.driver == "{DRIVER}"'))]
    (choice, *_) = shared(state_of(zonal, nic), claims, NODES, ((0, 1), (1,)))
    assert choice[0].nodes.node == "n3"
    assert choice[1].nodes.allows(NODES[0])


def test_a_set_without_devices_gets_none_and_the_others_do() -> None:
    state = state_of(local("n2", "b"))
    found = shared(state, [claim_of(request()), claim_of(request())], NODES, ((0,), (1,)))
    assert [sorted(choice) for choice in found] == [[0]]


@pytest.mark.parametrize("each_device", [False, True])
def test_a_claim_of_two_sets_gets_a_device_of_both_of_their_nodes(each_device: bool) -> None:
    """Each set has another claim that only its own node has a device for."""

    def only(name: str) -> dict[str, Any]:
        own = {"key": "zone", "operator": "In", "values": [name]}
        return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [own]}]}}

    nodes = NODES[:2]
    devices = [device("e") | only("east"), device("w") | only("west"), device("x") | {"allNodes": True}]
    if each_device:
        slices = [slice_of(*devices, name="p", pool={"name": "p"}, perDeviceNodeSelection=True)]
    else:
        where = [only("east"), only("west"), {"allNodes": True}]
        slices = [
            slice_of(device(each["name"]), name=each["name"], pool={"name": each["name"]}, **choice)
            for each, choice in zip(devices, where, strict=True)
        ]
    claims = [claim_of(request()) for _ in range(3)]

    def names(count: int, *sets: tuple[int, ...]) -> list[list[str]]:
        found = shared(state_of(*slices), claims[:count], nodes, sets)
        return [
            [choice[number].devices[0].device[2] for number in range(count)]
            for choice in found
            if len(choice) == count
        ]

    assert ["e", "x", "w"] in names(3, (0, 1), (1, 2))
    assert ["x", "w"] in names(2, (0,), (0, 1))
