"""The environments of `plays_world_*.py`: a simulated world, or a cache with consecutive cycles."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Assumed, Changes, Deleted
from phalanx.cycle import Engine
from phalanx.framework.config import SchedulerConfig
from phalanx.model.api.meta import KubeObject
from phalanx.model.decisions import CycleResult
from phalanx.model.memory import Memory
from phalanx.model.names import GangId
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.faults.edits import edit, with_metadata, with_spec
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.world import World, WorldSettings, in_world

Act = Callable[[World], Coroutine[Any, Any, str | None]]
"""Runs in a world; returns what is wrong in addition to what the checks find."""

DELETING = SchedulerConfig(suspend_evicted_workloads=False)
"""Evictions delete the pods, so that mistakes of these requests can be found."""

SETTLED_S = 4.0
GPU = "nvidia.com/gpu"
FULL = {GPU: "8"}
"""The requests of a pod that needs a complete node."""


def watched(act: Act, *, single_writer: bool = True, kills: bool = False) -> str | None:
    """The first violation of any check, else a scheduler that ended, else the result of the act.

    `kills`: the act ends schedulers itself.
    """
    said: list[str | None] = []

    async def play(world: World) -> None:
        said.append(await act(world))

    settings = WorldSettings(seed=1, checks=ALL_CHECKS, single_writer=single_writer, config=DELETING)
    world = in_world(settings, play)
    for violation in world.violations.kept:
        return f"{violation.check} {violation.subject}: {violation.message}"
    for replica in world.replicas:
        if replica.starts > 1 and not kills:
            return f"{replica.name} ended by itself and was started {replica.starts} times"
    return next(iter(said), None)


async def opened(world: World, *manifests: Object) -> None:
    """Create these objects, and wait for a leader."""
    world.create(manifests)
    world.start()
    await asyncio.sleep(SETTLED_S)


async def at_rest(world: World, after_s: float = 65.0) -> None:
    """Wait without changes, so that the checks can run."""
    await asyncio.sleep(after_s)
    world.at_rest()


def node_of(world: World, pod: str) -> str:
    """The node of a pod of the namespace `default`; empty without one."""
    found = world.client.get(Key("pods", "default", pod))
    return found["spec"].get("nodeName", "") if found is not None else ""


def change_spec(world: World, key: Key, **fields: Any) -> None:
    """Set fields of an object's spec; None removes one."""
    edit(world.client, key, lambda item: with_spec(item, **fields))


def change_labels(world: World, key: Key, **labels: str | None) -> None:
    """Set labels of an object; None removes one."""
    edit(world.client, key, lambda item: with_metadata(item, "labels", **labels))


class CycleRunner:
    """A cache that receives these objects, and cycles one after another, a second apart."""

    def __init__(self, *objects: KubeObject, config: SchedulerConfig | None = None) -> None:
        self.cache = Cache(scheduler_name="phalanx")
        self.memory = Memory()
        self._engine = Engine(config or SchedulerConfig())
        self.now = 1_800_000_000_000
        self.put(*objects)

    def put(self, *objects: KubeObject) -> Changes:
        """Apply these objects as if the API had sent them."""
        return self.cache.apply_all(Applied(item) for item in objects)

    def gone(self, item: KubeObject) -> Changes:
        """Apply the deletion of this object."""
        meta = item.metadata
        return self.cache.apply(Deleted(type(item).__name__, meta.namespace, meta.name, meta.uid))

    def cycle(self) -> CycleResult:
        """Decide; the memory is kept for the next cycle."""
        self.now += 1000
        snapshot = self.cache.snapshot(now=self.now, seed=0, memory=self.memory)
        result = self._engine.decide(snapshot)
        self.memory = result.memory
        return result

    def assume(self, result: CycleResult) -> None:
        """Assume the decisions, which the API does not show yet."""
        binds = [bind for placement in result.placements for bind in placement.binds]
        self.cache.apply_all(Assumed(bind) for bind in binds)

    def reason(self, result: CycleResult, gang: str) -> str:
        """The reason for which the gang waits after this cycle; empty without a verdict."""
        found = [each.reason.value for each in result.verdicts if each.gang == GangId(gang)]
        return found[0] if found else ""


def assignments(result: CycleResult) -> dict[str, str]:
    """The nodes of the pods that a cycle placed, by the pods' names."""
    return {bind.name: bind.node for placement in result.placements for bind in placement.binds}
