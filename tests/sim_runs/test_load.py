"""A small load of each kind, and failures that the load drill finds. `phalanx drill load` plays more."""

import asyncio
from functools import partial
from typing import Final

import pytest
from phalanx.cache.events import Deleted, Event
from phalanx.service.cluster_state import ClusterState, PhalanxObjects
from phalanx.service.cycle_loop import CycleLoop
from phalanx_simulator.drills.load_faults import LoadFault, LoadPlan, Program, load_plans
from phalanx_simulator.drills.loads import BOUNDS, Burst, Events, Load, Size, holdings
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.invariants.coverage import ProcessCoverage
from phalanx_simulator.runs.world import World, WorldSettings, in_world

SMALL: Final = Size(nodes=60, burst=300, events_per_s=40, seconds=10.0)
"""The smallest size with several pages of pods and a burst that one cycle cannot bind."""

SMALLEST: Final = Size(nodes=20, burst=100, events_per_s=0, seconds=0.0)

pytestmark = pytest.mark.usefixtures("quiet")


async def nothing(world: World, load: Load) -> None:
    """No fault."""


def problem_of_racks(program: Program = nothing, *, max_wait_s: float = 60.0, point: str = "") -> str:
    """The problem that the drill reports for ten concurrent gangs, with one fault and few checks."""
    make = partial(Burst, SMALLEST, members=10, level="rack")
    fault = LoadFault("by hand", program, max_wait_s, point)
    plan = LoadPlan("racks", 1, lambda patience: make(max_wait_s=patience), fault)
    return plan.outcome((ProcessCoverage,)).problem or ""


@pytest.mark.parametrize(
    "name",
    [
        "list: listed in pages, which expire",
        "events: all listed again",
        "burst of one gang: leader killed",
    ],
)
def test_each_kind_of_load_passes(name: str) -> None:
    [plan] = [plan for plan in load_plans(seed=1, size=SMALL) if plan.name == name]
    assert plan.outcome(ALL_CHECKS).problem is None


def test_the_drill_finds_data_of_deleted_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = PhalanxObjects.apply

    def keep(self: PhalanxObjects, event: Event) -> None:
        if isinstance(event, Deleted):
            vars(self).setdefault("kept", []).append(event)
        apply(self, event)

    monkeypatch.setattr(PhalanxObjects, "apply", keep)
    assert "objects.kept holds" in problem_of_racks()


def test_the_drill_finds_a_container_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = ClusterState.apply

    def hoard(self: ClusterState, event: Event) -> None:
        vars(self).setdefault("hoard", []).extend([event] * 10)
        apply(self, event)

    monkeypatch.setattr(ClusterState, "apply", hoard)
    assert "hoard holds" in problem_of_racks()


def test_the_drill_finds_a_lost_pod() -> None:
    async def lose_one(world: World, load: Load) -> None:
        pod = world.client.keys("pods")[-1]
        found = world.client.get(pod)
        assert found is not None
        world.client.delete(pod, uid=found["metadata"]["uid"])

    assert problem_of_racks(lose_one).startswith("1 pods that ran before were lost")


def test_the_drill_finds_a_starving_pod() -> None:
    assert problem_of_racks(max_wait_s=0.01).startswith("a pod waited")


def test_the_drill_finds_cycles_that_wait_for_a_pause_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    wait = CycleLoop._wait_for_trigger

    async def wait_for_silence(self: CycleLoop) -> None:
        await wait(self)
        while self._trigger.is_set():
            self._trigger.clear()
            await asyncio.sleep(1.0)

    monkeypatch.setattr(CycleLoop, "_wait_for_trigger", wait_for_silence)
    plan = LoadPlan("events", 1, lambda s: Events(SMALL, max_wait_s=s), LoadFault("none", nothing, 5.0))
    assert (plan.outcome(()).problem or "").startswith("a pod waited")


def test_the_drill_finds_a_fault_without_an_effect() -> None:
    assert "relisted was not reached" in problem_of_racks(point="relisted")

    async def wait(world: World, load: Load) -> None:
        await asyncio.Event().wait()

    assert "still waits for its moment" in problem_of_racks(wait)


def test_every_bound_names_an_existing_container() -> None:
    held: dict[str, int] = {}

    async def play(world: World) -> None:
        world.start()
        await asyncio.sleep(20.0)
        leader = world.leader()
        assert leader is not None
        assert leader.process is not None
        held.update(holdings(leader.process, world.loop, into_elements=True))

    in_world(WorldSettings(seed=1), play)
    assert [end for end in BOUNDS if not any(path.endswith(end) for path in held)] == []
