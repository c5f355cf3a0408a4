"""A small load of each kind, and that the drill can fail. A tenth of F13 is `phalanx drill load`."""

import asyncio
from functools import partial
from typing import Final

import pytest
from phalanx.cache.events import Event
from phalanx.service.cluster_state import ClusterState, PhalanxObjects
from phalanx.service.cycle_loop import CycleLoop
from phalanx_simulator.drills.load_faults import LoadFault, LoadPlan, Program, load_plans
from phalanx_simulator.drills.loads import BOUNDS, Burst, Events, Load, Size, holdings
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.invariants.coverage import ProcessCoverage
from phalanx_simulator.runs.world import World, WorldSettings, in_world

SMALL: Final = Size(nodes=60, burst=300, events_per_s=40, seconds=10.0)
"""The smallest whose pods do not fit into one page, and whose burst is not bound all at once."""

SMALLEST: Final = Size(nodes=20, burst=100, events_per_s=0, seconds=0.0)

pytestmark = pytest.mark.usefixtures("quiet")


async def nothing(world: World, load: Load) -> None:
    """No fault."""


def problem_of_racks(program: Program = nothing, *, max_wait_s: float = 60.0, point: str = "") -> str:
    """What the drill says of ten gangs that come at once, with one fault and hardly any check."""
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
def test_a_load_of_each_kind(name: str) -> None:
    [plan] = [plan for plan in load_plans(seed=1, size=SMALL) if plan.name == name]
    assert plan.outcome(ALL_CHECKS).problem is None


def test_what_is_kept_of_deleted_objects_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    delete = PhalanxObjects._forget_uid

    def keep(self: PhalanxObjects, key: tuple[str, str]) -> None:
        vars(self).setdefault("kept", []).append(key)
        delete(self, key)

    monkeypatch.setattr(PhalanxObjects, "_forget_uid", keep)
    assert "objects.kept holds" in problem_of_racks()


def test_a_queue_that_grows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = ClusterState.apply

    def hoard(self: ClusterState, event: Event) -> None:
        vars(self).setdefault("hoard", []).extend([event] * 10)
        apply(self, event)

    monkeypatch.setattr(ClusterState, "apply", hoard)
    assert "hoard holds" in problem_of_racks()


def test_a_pod_that_is_lost_is_found() -> None:
    async def lose_one(world: World, load: Load) -> None:
        pod = world.client.keys("pods")[-1]
        found = world.client.get(pod)
        assert found is not None
        world.client.delete(pod, uid=found["metadata"]["uid"])

    assert problem_of_racks(lose_one).startswith("1 pods that ran before did not")


def test_a_pod_that_starves_is_found() -> None:
    assert problem_of_racks(max_wait_s=0.01).startswith("a pod waited")


def test_cycles_that_wait_for_silence_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wait = CycleLoop._wait_for_trigger

    async def wait_for_silence(self: CycleLoop) -> None:
        await wait(self)
        while self._trigger.is_set():
            self._trigger.clear()
            await asyncio.sleep(1.0)

    monkeypatch.setattr(CycleLoop, "_wait_for_trigger", wait_for_silence)
    plan = LoadPlan("events", 1, lambda s: Events(SMALL, max_wait_s=s), LoadFault("none", nothing, 5.0))
    assert (plan.outcome(()).problem or "").startswith("a pod waited")


def test_a_fault_that_misses_is_found() -> None:
    assert "relisted was not reached" in problem_of_racks(point="relisted")

    async def wait(world: World, load: Load) -> None:
        await asyncio.Event().wait()

    assert "still waits for its moment" in problem_of_racks(wait)


def test_every_bound_is_of_something_that_exists() -> None:
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
