"""Claims to devices in whole cycles: gangs get exactly the devices that they need, and no device twice."""

from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.framework.statement import DoesNotFit
from phalanx.model.decisions import Certificate
from phalanx.model.names import NodeName
from phalanx.model.pods import PodClaim
from phalanx.model.reasons import Reason
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.devices.claims import Claim
from phalanx.model.supplies.devices.cluster import ClusterDevices
from phalanx.model.supplies.devices.pools import Slice
from phalanx.model.supplies.devices.session import counted_devices
from phalanx.model.supplies.devices.session.session_devices import claimed_devices

from tests.builders import Decided, Scenario
from tests.model.devices import CLASSES, claim_of, device, request, slice_of

PROOF = Certificate(terms=(), objective=(), bound=(), proven=True, by="test")


class World(Scenario):
    """A scenario with slices and claims."""

    def __init__(self, *levels: str) -> None:
        super().__init__(*levels)
        self.slices: list[Slice] = []
        self.device_claims: dict[str, Claim] = {}
        self.are_listed = True

    def device_slice(self, node: str, *devices: dict[str, Any], **more: Any) -> None:
        more = {"pool": {"name": node}, "nodeName": node, **more}
        self.slices.append(slice_of(*devices, name=node, **more))

    def claiming(self, gang: str, *requests: dict[str, Any], made: bool = True, **more: Any) -> None:
        """Each member of the gang has one claim."""
        members = []
        for pod in self.members(gang):
            name = f"{pod.name}-gpu"
            if made:
                claim = claim_of(*(requests or (request(),)), **more)
                self.device_claims[name] = replace(
                    claim, namespace="team", name=name, uid=f"uid-{name}", owner=pod.uid
                )
            entry = PodClaim("gpu", name if made else "", is_own=True)
            members.append(replace(pod, device_claims=(entry,)))
        self.change(gang, members=tuple(members))

    def sharing(self, gang: str, name: str, **more: Any) -> None:
        """All members of the gang have this claim, beside those that they have already."""
        self.device_claims[name] = replace(
            claim_of(request(), **more), namespace="team", name=name, uid=f"uid-{name}"
        )
        entry = PodClaim("shared", name)
        members = [replace(pod, device_claims=(*pod.device_claims, entry)) for pod in self.members(gang)]
        self.change(gang, members=tuple(members))

    def snapshot(self, shuffle: int = 0) -> Snapshot:
        devices = ClusterDevices(
            slices=tuple(self.slices),
            classes=CLASSES,
            claims=tuple(self.device_claims.values()),
            are_claimed=True,
            are_listed=self.are_listed,
        )
        made = super().snapshot(shuffle)
        return replace(made, supplies={**made.supplies, devices.supply: devices})


def allocated(decided: Decided, gang: str) -> list[tuple[str, str]]:
    """Node and device of each grant."""
    binds = [bind for each in decided.placements(gang) for bind in each.binds]
    found = []
    for bind in binds:
        for granted in bind.grants:
            assert granted.name == f"{bind.name}-gpu"
            assert granted.allocation is not None
            found += [(bind.node, each.device[2]) for each in granted.allocation.devices]
    return sorted(found)


def two_nodes() -> World:
    world = World()
    world.nodes("a", 2)
    world.device_slice("a-0", device("x0"), device("x1"))
    world.device_slice("a-1", device("y0"), device("y1"))
    return world


def test_each_member_gets_a_device_of_its_own() -> None:
    world = two_nodes()
    world.gang("g", 4)
    world.claiming("g")
    decided = world.decide()
    assert allocated(decided, "g") == [("a-0", "x0"), ("a-0", "x1"), ("a-1", "y0"), ("a-1", "y1")]


def test_a_gang_with_too_few_devices_waits_as_a_whole() -> None:
    world = two_nodes()
    world.gang("g", 5)
    world.claiming("g")
    verdict = world.decide().verdict("g")
    assert verdict.reason is Reason.ABOVE_CLUSTER_CAPACITY
    assert verdict.message == (
        "4 of 5 pods fit the empty cluster; 5 cpu, 5Gi memory needed, and devices for the claims of 5 pods"
    )


def test_gangs_of_one_cycle_share_the_devices() -> None:
    world = two_nodes()
    for name in ("g", "h", "i"):
        world.gang(name, 2)
        world.claiming(name)
    decided = world.decide()
    first, second = allocated(decided, "g"), allocated(decided, "h")
    assert len({*first, *second}) == 4
    assert decided.verdict("i").reason is Reason.INSUFFICIENT_CAPACITY


def test_kinds_of_claims_share_the_devices_of_a_cycle() -> None:
    world = two_nodes()
    world.gang("one", 1)
    world.claiming("one")
    world.gang("two", 1)
    world.claiming("two", request(count=2))
    world.gang("more", 1)
    world.claiming("more", request(count=2))
    decided = world.decide()
    assert len(allocated(decided, "one")) == 1
    assert len(allocated(decided, "two")) == 2
    assert not decided.placements("more")


def test_devices_of_allocated_claims_are_in_use() -> None:
    world = two_nodes()
    world.gang("g", 4)
    world.claiming("g")
    results = [{"request": "r", "driver": "gpu.example.com", "pool": "a-1", "device": "y0"}]
    status = {"allocation": {"devices": {"results": results}}}
    world.device_claims["other"] = claim_of(request(), status=status)
    verdict = world.decide().verdict("g")
    assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
    assert verdict.message == "3 of 4 pods fit now; devices are free for the claims of 3 of 4 pods"
    world.change("g", min_member=3)
    decided = world.decide()
    assert ("a-1", "y0") not in allocated(decided, "g")
    assert len(allocated(decided, "g")) == 3


def test_devices_match_in_an_attribute() -> None:
    world = World()
    world.nodes("a", 1)
    world.device_slice("a-0", *(device(f"d{n}", test__numa=n % 2) for n in range(4)))
    world.gang("g", 2)
    world.claiming("g", request(count=2), constraints=[{"matchAttribute": "test/numa"}])
    binds = [bind for each in world.decide().placements("g") for bind in each.binds]
    found = [
        sorted(each.device[2] for each in granted.allocation.devices)
        for bind in binds
        for granted in bind.grants
        if granted.allocation is not None
    ]
    assert sorted(found) == [["d0", "d2"], ["d1", "d3"]]


def test_selectors_decide_which_nodes_have_devices() -> None:
    world = World()
    world.nodes("a", 2)
    world.device_slice("a-0", device("small", test__size=1))
    world.device_slice("a-1", device("large", test__size=2))
    world.gang("g", 1)
    world.claiming("g", request("r", 'device.attributes["test"].size > 1'))
    assert allocated(world.decide(), "g") == [("a-1", "large")]


ONE_OF = {
    "name": "r",
    "firstAvailable": [
        {"name": each, "deviceClassName": "gpu", "count": n} for n, each in ((2, "a"), (1, "b"))
    ],
}


@pytest.mark.parametrize("wanted", [request(), ONE_OF])
def test_a_device_that_several_nodes_can_use_is_given_to_one_pod(wanted: dict[str, Any]) -> None:
    world = World()
    world.nodes("a", 2, cpu=1)
    world.slices.append(slice_of(device("net"), name="net", pool={"name": "net"}, allNodes=True))
    for name in ("g", "h"):
        world.gang(name, 1)
        world.claiming(name, wanted)
    decided = world.decide()
    assert [device for _, device in allocated(decided, "g")] == ["net"]
    assert not decided.placements("h")
    assert "devices are free for the claims of 0 of 1 pods" in decided.verdict("h").message


@pytest.mark.parametrize("most", [1, 256])
def test_a_pod_takes_a_device_of_its_node_if_others_need_those_of_the_network(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """In the order of pools, its first one is that of the network. `most`: devices of one search."""
    monkeypatch.setattr(counted_devices, "CLAIM_SEARCH_DEVICES_MAX", most)
    world = World()
    world.nodes("a", 2, cpu=1)
    world.slices.append(slice_of(device("net"), name="net", pool={"name": "0net"}, allNodes=True))
    world.device_slice("a-0", device("x"))
    world.gang("g", 2)
    world.claiming("g")
    assert allocated(world.decide(), "g") == [("a-0", "x"), ("a-1", "net")]


@pytest.mark.parametrize(
    ("wanted", "reason", "text"),
    [
        (
            request(device_class="none"),
            Reason.INVALID_OBJECT,
            "pod g-0: spec.resourceClaims[0]: ResourceClaim team/g-0-gpu: spec.devices.requests[0].exactly",
        ),
        (
            request("r", "device.("),
            Reason.INVALID_OBJECT,
            "team/g-0-gpu: spec.devices.requests[0].exactly.selectors[0].cel: does not compile",
        ),
        (
            request(derivedAttributes=[{"name": "a/b", "expression": "1"}]),
            Reason.UNSUPPORTED_FIELD,
            "spec.resourceClaims[0]: ResourceClaim team/g-0-gpu: spec.devices.requests[0].exactly.derived",
        ),
    ],
)
def test_a_claim_that_nobody_may_allocate(wanted: dict[str, Any], reason: Reason, text: str) -> None:
    world = two_nodes()
    world.gang("g", 2)
    world.claiming("g", wanted)
    world.gang("other", 1)
    world.claiming("other")
    decided = world.decide()
    assert decided.verdict("g").reason is reason
    assert text in decided.verdict("g").message
    assert decided.placements("other")


def test_a_pod_waits_until_its_claim_is_made() -> None:
    world = two_nodes()
    world.gang("g", 1)
    world.claiming("g", made=False)
    verdict = world.decide().verdict("g")
    assert verdict.reason is Reason.RESOURCE_CLAIM_NOT_READY
    assert "spec.resourceClaims[0]: its ResourceClaim has not been created yet" in verdict.message


def test_a_pod_is_tried_again_when_the_name_of_its_claim_arrives() -> None:
    world = two_nodes()
    world.gang("g", 1)
    world.claiming("g", made=False)
    assert world.decide().verdict("g").reason is Reason.RESOURCE_CLAIM_NOT_READY
    world.take(world.decide())
    world.claiming("g")
    assert allocated(world.decide(), "g")


@pytest.mark.parametrize("late", ["g-0", "g-2"])
def test_a_surplus_member_without_its_claim_does_not_keep_its_gang_waiting(late: str) -> None:
    world = two_nodes()
    world.gang("g", 3, min=2)
    world.claiming("g")
    del world.device_claims[f"{late}-gpu"]
    decided = world.decide()
    assert len(allocated(decided, "g")) == 2
    assert late not in {bind.name for each in decided.placements("g") for bind in each.binds}
    verdict = world.take(decided).decide().verdict("g")
    assert verdict.reason is Reason.RESOURCE_CLAIM_NOT_READY


def test_a_member_of_the_minimum_without_its_claim_keeps_its_gang_waiting() -> None:
    world = two_nodes()
    world.gang("g", 3)
    world.claiming("g")
    del world.device_claims["g-1-gpu"]
    verdict = world.decide().verdict("g")
    assert verdict.reason is Reason.RESOURCE_CLAIM_NOT_READY
    assert "g-1" in verdict.message


def test_pods_wait_until_claims_are_listed() -> None:
    world = two_nodes()
    world.gang("g", 1)
    world.claiming("g")
    world.are_listed = False
    assert world.decide().verdict("g").reason is Reason.RESOURCE_CLAIM_NOT_READY


def test_a_rolled_back_statement_gives_its_devices_back() -> None:
    world = two_nodes()
    world.gang("g", 2)
    world.claiming("g")
    session = Session(world.snapshot(), SchedulerConfig())
    gang = next(iter(session.gangs.values()))
    pods, node = gang.members, NodeName("a-0")
    need = claimed_devices(session).needs.of(pods[0].shape)

    def count() -> int:
        return claimed_devices(session).count(need, session.nodes[node].node)

    assert count() == 2
    with session.statement() as statement:
        statement.place(gang=gang, assignments=[(node, pods)], cause="", certificate=PROOF)
        assert count() == 0
        statement.roll_back()
    assert count() == 2
    both = (*pods, pods[0])
    with pytest.raises(DoesNotFit), session.statement() as statement:
        statement.place(gang=gang, assignments=[(node, both)], cause="", certificate=PROOF)


def test_members_share_a_claim_on_nodes_that_can_use_its_devices() -> None:
    world = four_nodes_with_fabrics()
    world.gang("g", 4)
    world.sharing("g", "link")
    (placement,) = world.decide().placements("g")
    assert {bind.node for bind in placement.binds} == {"right-0", "right-1"}
    granted = {bind.grants for bind in placement.binds}
    assert len(granted) == 1, "all members have the same allocation"
    ((grant,),) = granted
    assert grant.allocation is not None
    assert [each.device[1:] for each in grant.allocation.devices] == [("right", "link")]


def test_an_allocated_shared_claim_decides_where_its_pods_run() -> None:
    world = two_nodes()
    world.gang("g", 2)
    world.sharing("g", "c", status=on_node("a-1", "y0"))
    world.gang("more", 1)
    world.claiming("more", request(count=2))
    decided = world.decide()
    (placement,) = decided.placements("g")
    assert [bind.node for bind in placement.binds] == ["a-1", "a-1"]
    assert {each.allocation for bind in placement.binds for each in bind.grants} == {None}
    assert allocated(decided, "more") == [("a-0", "x0"), ("a-0", "x1")]


def test_gangs_of_one_cycle_get_one_allocation_of_a_claim_that_they_share() -> None:
    world = four_nodes_with_fabrics()
    for name in ("g", "h"):
        world.gang(name, 1)
        world.sharing(name, "link")
    decided = world.decide()
    binds = [
        bind for name in ("g", "h") for placement in decided.placements(name) for bind in placement.binds
    ]
    assert len({bind.grants for bind in binds}) == 1
    assert len(binds) == 2


def test_a_shared_device_is_not_given_to_two_claims() -> None:
    world = four_nodes_with_fabrics()
    for name, size in (("g", 2), ("h", 2), ("i", 1)):
        world.gang(name, size)
        world.sharing(name, name)
    decided = world.decide()
    devices = {
        each.device
        for name in ("g", "h")
        for bind in decided.placements(name)[0].binds
        for grant in bind.grants
        if grant.allocation is not None
        for each in grant.allocation.devices
    }
    assert len(devices) == 2
    verdict = decided.verdict("i")
    assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
    assert "devices are free for the claims of 0 of 1 pods" in verdict.message


def test_members_have_devices_of_their_own_beside_a_shared_claim() -> None:
    world = four_nodes_with_fabrics()
    for node in ("left-0", "left-1", "right-0", "right-1"):
        world.device_slice(node, device("x"), device("y"), driver="nic")
    world.gang("g", 4)
    world.claiming("g", request(device_class="nic"))
    world.sharing("g", "link")
    (placement,) = world.decide().placements("g")
    own = [grant for bind in placement.binds for grant in bind.grants if grant.name != "link"]
    assert len({each.allocation.devices for each in own if each.allocation is not None}) == 4
    assert {bind.node for bind in placement.binds} == {"right-0", "right-1"}


def test_too_many_pods_for_one_claim_are_refused() -> None:
    world = two_nodes()
    world.gang("g", 257, cpu=0)
    world.sharing("g", "c")
    verdict = world.decide().verdict("g")
    assert verdict.reason is Reason.INVALID_OBJECT
    assert "ResourceClaim team/c: 257 pods would use it; the limit of the API is 256" in verdict.message


def test_a_slice_that_contradicts_itself_is_named() -> None:
    world = World()
    world.nodes("a", 1)
    world.device_slice("a-0", device("x"), device("x"))
    world.gang("g", 1)
    world.claiming("g")
    world.gang("plain", 1)
    decided = world.decide()
    assert any(
        "duplicate device x in ResourceSlice a-0" in each.finding for each in decided.verdict("g").evidence
    )
    assert decided.placements("plain")


def on_node(node: str, name: str) -> dict[str, Any]:
    """The status of an allocated claim."""
    result = {"request": "r", "driver": "gpu.example.com", "pool": node, "device": name}
    named = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [named]}]},
        }
    }


def four_nodes_with_fabrics() -> World:
    """Two pairs of nodes, each with one device that both of its nodes can use; one node of a pair is full."""
    world = World()
    for name in ("left", "right"):
        world.nodes(name, 2, cpu=2, labels={"pair": name})
        pair = {"key": "pair", "operator": "In", "values": [name]}
        choice = {"nodeSelectorTerms": [{"matchExpressions": [pair]}]}
        world.slices.append(slice_of(device("link"), name=name, pool={"name": name}, nodeSelector=choice))
    world.gang("busy", 1, on=["left-0"])
    return world


def running_with_devices(world: World, name: str, devices: list[tuple[str, str]], **fields: Any) -> None:
    """A gang whose members run, each with one of these devices: node and name."""
    world.gang(name, len(devices), on=[node for node, _ in devices], **fields)
    world.claiming(name)
    for (node, device_name), pod in zip(devices, world.members(name), strict=True):
        key = f"{pod.name}-gpu"
        allocated_claim = claim_of(request(), status=on_node(node, device_name))
        world.device_claims[key] = replace(
            world.device_claims[key], allocation=allocated_claim.allocation, reserved_for=(pod.uid,)
        )


def test_a_gang_is_evicted_for_its_devices() -> None:
    world = two_nodes()
    running_with_devices(world, "low", [("a-0", "x0"), ("a-0", "x1")], priority=1)
    running_with_devices(world, "other", [("a-1", "y0"), ("a-1", "y1")], priority=7)
    world.gang("high", 2, priority=5)
    world.claiming("high")
    decided = world.decide()
    assert {each.name for each in decided.result.evictions} == {"low-0", "low-1"}


def test_nobody_is_evicted_who_has_no_devices_that_help() -> None:
    world = two_nodes()
    running_with_devices(
        world, "other", [("a-0", "x0"), ("a-0", "x1"), ("a-1", "y0"), ("a-1", "y1")], priority=7
    )
    world.gang("plain", 2, on=["a-0", "a-1"], priority=1)
    world.gang("high", 2, priority=5)
    world.claiming("high")
    assert not world.decide().result.evictions


def test_a_shared_claim_takes_no_device_that_its_pod_has_for_itself() -> None:
    world = two_nodes()
    world.gang("g", 1)
    world.claiming("g")
    world.sharing("g", "c")
    (placement,) = world.decide().placements("g")
    (bind,) = placement.binds
    devices = [each.device for grant in bind.grants if grant.allocation for each in grant.allocation.devices]
    assert len(set(devices)) == 2
    assert [grant.name for grant in bind.grants] == ["g-0-gpu", "c"]


@pytest.mark.parametrize(
    ("conditions", "problem"),
    [
        ([("attached", "True")], ""),
        ([("attached", "True"), ("broken", "False")], ""),
        ([], "attached is not true yet"),
        ([("attached", "False")], "attached is not true yet"),
        ([("attached", "True"), ("broken", "True")], "broken says that it failed"),
    ],
)
def test_pods_wait_for_the_binding_conditions_of_an_allocation(
    conditions: list[tuple[str, str]], problem: str
) -> None:
    """Of a claim that somebody else has allocated, or another gang."""
    world = two_nodes()
    world.gang("g", 2)
    status = on_node("a-1", "y0")
    (result,) = status["allocation"]["devices"]["results"]
    result |= {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
    device_status = {key: result[key] for key in ("driver", "pool", "device")}
    written = [{"type": kind, "status": value} for kind, value in conditions]
    world.sharing("g", "c", status=status | {"devices": [device_status | {"conditions": written}]})
    decided = world.decide()
    if not problem:
        assert set(decided.nodes("g")) == {"a-1"}
        return
    verdict = decided.verdict("g")
    assert verdict.reason is Reason.RESOURCE_CLAIM_NOT_READY
    assert problem in verdict.message


@pytest.mark.parametrize(("allocated", "until"), [("1970-01-01T00:10:00Z", 1_200_000), (None, None)])
def test_a_gang_is_tried_again_when_devices_that_are_not_ready_are_given_back(
    allocated: str | None, until: int | None
) -> None:
    """As kube-scheduler does ten minutes after the allocation."""
    world = two_nodes()
    world.gang("g", 1)
    status = on_node("a-1", "y0")
    (result,) = status["allocation"]["devices"]["results"]
    result["bindingConditions"] = ["attached"]
    status["allocation"]["allocationTimestamp"] = allocated
    world.sharing("g", "c", status=status)
    (gang,) = world.snapshot().gangs.values()
    for now, expected in ((1_199_999, until), (1_200_000, None)):
        needs = claimed_devices(Session(replace(world.snapshot(), now=now), SchedulerConfig())).needs
        found = needs.objection(needs.with_needs(gang))
        assert found is not None
        assert found.until == expected


def test_conditions_of_another_device_do_not_count() -> None:
    world = two_nodes()
    world.gang("g", 1)
    status = on_node("a-1", "y0")
    (result,) = status["allocation"]["devices"]["results"]
    result["bindingConditions"] = ["attached"]
    other = {"driver": result["driver"], "pool": result["pool"], "device": "y1"}
    other["conditions"] = [{"type": "attached", "status": "True"}]
    world.sharing("g", "c", status=status | {"devices": [other]})
    assert world.decide().verdict("g").reason is Reason.RESOURCE_CLAIM_NOT_READY
