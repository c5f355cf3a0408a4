"""A gang that was placed before a reserved start because of its `runtime.max` does not end, and the leader is
killed in between: the next one evicts it too."""

import asyncio
from collections.abc import Mapping

import pytest
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.store import Key
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.world import World, WorldSettings, in_world

from tests.service.dialect_world import bound

pytestmark = pytest.mark.usefixtures("quiet")

LATE = Key("podgroups.scheduling.phalanx.dev", "default", "late")


def create(
    world: World, name: str, members: int, runtime: Mapping[str, str], run_s: float | None = None
) -> None:
    world.create([manifests.pod_group(name, min_member=members, runtime=runtime)])
    one = {"group": name, "requests": {"nvidia.com/gpu": "8"}, "run_s": run_s}
    world.create([manifests.job(name, members=members, **one)])


async def place_it_before_a_reserved_start(world: World, runtime_of_late: Mapping[str, str]) -> None:
    """`run` uses one of two nodes for ten minutes; `big` needs both; `late` says that it runs for five."""
    world.create([manifests.queue("default", backfill="Easy")])
    world.create([manifests.node("n1"), manifests.node("n2")])
    world.start()
    await asyncio.sleep(30)
    for name, members, runtime, run_s in (
        ("run", 1, {"max": "10m"}, 600.0),
        ("big", 2, {"max": "10m"}, None),
        ("late", 1, runtime_of_late, None),
    ):
        create(world, name, members, runtime, run_s)
        await asyncio.sleep(20)
    assert [bound(world, name) for name in ("run", "big", "late")] == [1, 0, 1]


@pytest.mark.parametrize("killed_after_s", [30, 270, 500])
def test_the_next_leader_evicts_it_for_the_reserved_start(killed_after_s: int) -> None:
    async def part(world: World) -> None:
        await place_it_before_a_reserved_start(world, {"max": "5m"})
        await asyncio.sleep(killed_after_s)
        leader = world.leader()
        assert leader is not None
        leader.kill()
        await asyncio.sleep(900 - killed_after_s)
        assert [bound(world, name) for name in ("big", "late")] == [2, 0]

    world = in_world(WorldSettings(seed=1, replicas=2, checks=ALL_CHECKS), part)
    assert world.violations.kept == []


def test_its_record_says_so_before_it_is_bound() -> None:
    async def part(world: World) -> None:
        await place_it_before_a_reserved_start(world, {"max": "5m"})
        record = (world.client.get(LATE) or {})["status"]["record"]
        assert len(record["letIn"]["before"]) == 1

    in_world(WorldSettings(seed=1, replicas=1, checks=ALL_CHECKS), part)


def test_others_use_what_is_reserved_while_an_estimate_is_not_kept() -> None:
    """`late` is expected to end in minute 20 at first, when `run` has ended in minute 10 and it has not."""

    async def part(world: World) -> None:
        await place_it_before_a_reserved_start(world, {"estimate": "5m"})
        create(world, "long", 1, {"max": "1h"})
        create(world, "short", 1, {"max": "5m"}, run_s=200.0)
        await asyncio.sleep(540)
        assert [bound(world, name) for name in ("run", "big", "late", "short")] == [1, 0, 1, 0]
        await asyncio.sleep(150)
        assert [bound(world, name) for name in ("big", "late", "short", "long")] == [0, 1, 1, 0]

    world = in_world(WorldSettings(seed=1, replicas=1, checks=ALL_CHECKS), part)
    assert world.violations.kept == []
