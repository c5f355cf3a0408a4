"""Pods that name claims which were made for no pod: one claim for each pod, and one claim in two gangs."""

import pytest
from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.pods import PodClaim
from phalanx.model.reasons import Reason

from tests.actions.test_device_claims import World, allocated, on_node, two_nodes
from tests.model.devices import claim_of, request


def naming(world: World, gang: str, *, count: int = 1, claims: dict[str, str] | None = None) -> None:
    """Each member names a claim for it, or the one that is given for it."""
    members = []
    for pod in world.members(gang):
        name = (claims or {}).get(pod.name, f"{pod.name}-gpu")
        claim = replace(claim_of(request(count=count)), namespace="team", name=name, uid=f"uid-{name}")
        world.device_claims.setdefault(name, claim)
        members.append(replace(pod, device_claims=(PodClaim("gpu", name),)))
    world.change(gang, members=tuple(members))


def needs(world: World, gang: str) -> set[str]:
    """What the members of the gang need of devices, as the solver tells it apart."""
    [found] = [
        each for each in Session(world.snapshot(), SchedulerConfig()).gangs.values() if each.name == gang
    ]
    return {pod.shape.device_slot for pod in found.members}


def test_pods_with_equal_claims_of_their_own_are_interchangeable() -> None:
    world = two_nodes()
    world.gang("g", 4)
    naming(world, "g")
    assert len(needs(world, "g")) == 1
    assert allocated(world.decide(), "g") == [("a-0", "x0"), ("a-0", "x1"), ("a-1", "y0"), ("a-1", "y1")]


def test_a_claim_that_pods_of_two_gangs_name_gets_its_device_once() -> None:
    world = two_nodes()
    for gang in ("g", "h"):
        world.gang(gang, 1)
        naming(world, gang, claims={pod.name: "both" for pod in world.members(gang)})
    decided = world.decide()
    [first], [second] = decided.placements("g"), decided.placements("h")
    granted = [each.binds[0].grants[0].allocation for each in (first, second)]
    assert granted[0] is not None
    assert granted[0] == granted[1]
    assert first.binds[0].node == second.binds[0].node


def test_a_gang_that_is_not_looked_at_counts_as_a_user_too() -> None:
    world = two_nodes()
    for gang in ("g", "h"):
        world.gang(gang, 1)
        naming(world, gang, claims={pod.name: "both" for pod in world.members(gang)})
    snapshot = world.snapshot()
    looked_at = {name: gang for name, gang in snapshot.gangs.items() if gang.name == "g"}
    [found] = Session(snapshot, SchedulerConfig(), gangs=looked_at).gangs.values()
    assert [each.is_sole for each in found.members[0].device_claims] == [False]


def with_devices(world: World, gang: str, *where: tuple[str, str]) -> None:
    """Each member names a claim that has this device of this node already."""
    naming(world, gang)
    for pod, (node, name) in zip(world.members(gang), where, strict=True):
        key = pod.device_claims[0].claim
        found = claim_of(request(), status=on_node(node, name)).allocation
        world.device_claims[key] = replace(world.device_claims[key], allocation=found)


def test_pods_whose_claims_have_devices_of_one_node_are_interchangeable() -> None:
    """Each pod keeps the devices of the claim that it names."""
    world = two_nodes()
    where = [("a-0", "x0"), ("a-1", "y0"), ("a-0", "x1"), ("a-1", "y1")]
    world.gang("g", 4)
    with_devices(world, "g", *where)
    assert len(needs(world, "g")) == 2
    [placement] = world.decide().placements("g")
    assert {
        bind.name: (bind.node, [(each.name, each.allocation) for each in bind.grants])
        for bind in placement.binds
    } == {f"g-{index}": (node, [(f"g-{index}-gpu", None)]) for index, (node, _) in enumerate(where)}


def test_pods_of_two_gangs_keep_to_the_devices_of_their_claim() -> None:
    world = two_nodes()
    for gang in ("g", "h"):
        world.gang(gang, 1)
        naming(world, gang, claims={pod.name: "both" for pod in world.members(gang)})
    found = claim_of(request(), status=on_node("a-1", "y0")).allocation
    world.device_claims["both"] = replace(world.device_claims["both"], allocation=found)
    decided = world.decide()
    assert [*decided.binds.values()] == ["a-1", "a-1"]


def test_a_gang_whose_devices_are_on_a_full_node_waits() -> None:
    """It fits the empty cluster: without devices, its claims could get others."""
    world = two_nodes()
    world.gang("g", 2, cpu=40)
    with_devices(world, "g", ("a-0", "x0"), ("a-0", "x1"))
    verdict = world.decide().verdict("g")
    assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
    assert any(
        "the devices of its claims cannot be used from the node" in each.finding for each in verdict.evidence
    )


@pytest.mark.parametrize("count", [1, 2])
def test_a_claim_with_devices_keeps_its_pod_where_they_are(count: int) -> None:
    world = two_nodes()
    world.gang("g", 1)
    naming(world, "g", count=count)
    [grant] = world.decide().placements("g")[0].binds[0].grants
    again = two_nodes()
    again.gang("g", 1)
    naming(again, "g", count=count)
    [name] = again.device_claims
    again.device_claims[name] = replace(again.device_claims[name], allocation=grant.allocation)
    again.gang("h", 1)
    naming(again, "h", count=2)
    decided = again.decide()
    [bind] = decided.placements("g")[0].binds
    assert (bind.node, bind.grants[0].allocation) == ("a-0", None)
    assert {node for node, _ in allocated(decided, "h")} == {"a-1"}


def test_a_member_whose_claim_does_not_exist_keeps_its_gang_waiting() -> None:
    world = two_nodes()
    world.gang("g", 2)
    naming(world, "g")
    del world.device_claims[f"{world.members('g')[1].name}-gpu"]
    verdict = world.decide().verdict("g")
    assert verdict.reason is Reason.RESOURCE_CLAIM_NOT_READY
    assert "does not exist" in verdict.message
