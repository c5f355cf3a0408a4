"""The reserved start of a gang whose members share a claim: the earliest one of all choices of its device."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.model.api.pod_groups import Runtime
from phalanx.model.names import GangId
from phalanx.model.pods import PodClaim
from phalanx.model.queues import Backfill

from tests.actions.test_device_claims import World
from tests.examples import holds
from tests.model.devices import claim_of, device, request

MINUTE = 60_000
CPU = 4
"""Cores of each node."""


def world_of(ends: Sequence[int], members: int, *, devices: Sequence[bool]) -> World:
    """Full nodes, each until its minute. Some have a device. The members of `g` share a claim to one."""
    world = World()
    world.queue("q", backfill=Backfill.EASY)
    for number, (end, has_device) in enumerate(zip(ends, devices, strict=True)):
        world.nodes(f"n{number}", 1, cpu=CPU)
        if has_device:
            world.device_slice(f"n{number}-0", device("d0"))
        runs = {"queue": "q", "cpu": CPU, "memory": 0, "runtime": Runtime(max=f"{end}m")}
        world.gang(f"run{number}", 1, on=[f"n{number}-0"], **runs)
        since = world.now // 1000
        world.change(
            f"run{number}",
            members=tuple(replace(pod, running_since=since) for pod in world.members(f"run{number}")),
        )
    world.gang("g", members, cpu=1, memory=0, queue="q")
    asked = replace(claim_of(request()), namespace="team", name="shared", uid="uid-shared")
    world.device_claims["shared"] = asked
    claims = (PodClaim("shared", "shared"),)
    return world.change("g", members=tuple(replace(pod, device_claims=claims) for pod in world.members("g")))


def start_of(world: World) -> int | None:
    """The minute of the reserved start."""
    reserved = world.decide().result.memory.reserved_starts.get(GangId("gang-g"))
    return None if reserved is None else (reserved.start - world.now) // MINUTE


@pytest.mark.parametrize("ends", [(600, 60), (60, 600), (600, 300, 60)])
def test_the_device_whose_node_is_free_first_is_reserved(ends: Sequence[int]) -> None:
    assert start_of(world_of(ends, 2, devices=[True] * len(ends))) == 60


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=4), st.integers(2, CPU + 1))
@holds(25)
def test_the_reserved_start_is_the_earliest_one(nodes: list[tuple[int, bool]], members: int) -> None:
    """All members run on the node of the device."""
    ends, devices = [end for end, _ in nodes], [has for _, has in nodes]
    free = [end for end, has in nodes if has and members <= CPU]
    assert start_of(world_of(ends, members, devices=devices)) == min(free, default=None)
