"""One complete run: cluster, jobs and faults, rest, deletion; and its summary.

The same settings give the same run to the last bit, in any process.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig
from phalanx.model.decisions import CycleResult

from phalanx_simulator.embedded.apiserver.kinds import NATIVE_POD_GROUPS, VOLCANO_POD_GROUPS, ResourceType
from phalanx_simulator.embedded.controllers.resource_claims import CLAIMS as DEVICE_CLAIMS
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.faults.effects import FaultClient, FaultKubelets, InjectedEffects
from phalanx_simulator.faults.fault import Fault, FaultContext
from phalanx_simulator.faults.kinds import inject
from phalanx_simulator.faults.schedulers import REMOTE_INJECTORS
from phalanx_simulator.invariants.check import Check, Violation
from phalanx_simulator.runs.equipment import equip
from phalanx_simulator.runs.outcomes import Cost, Outcomes, OutcomeTracker, cost_of
from phalanx_simulator.runs.world import World, WorldSettings, in_world

WARM_UP_S: Final = 30.0
"""Simulated seconds before the first fault: nodes become ready and a leader is elected."""

REST_S: Final = 1800.0
"""Simulated seconds between the last fault and the checks at rest; pods of lost nodes stay for 300 of
them."""

EMPTYING_S: Final = 300.0
"""Simulated seconds between the deletion of all work and the checks at the end."""

KEPT_S: Final = 900.0
"""Simulated seconds for which users keep a finished job with its PodGroup."""

_WORKLOAD_KINDS: Final = (
    "jobs.batch",
    "pods",
    "podgroups.scheduling.phalanx.dev",
    NATIVE_POD_GROUPS.resource,
    VOLCANO_POD_GROUPS.resource,
    "poddisruptionbudgets.policy",
    DEVICE_CLAIMS,
)


class Submission(Struct, frozen=True):
    """Objects that a user creates together.

    `at_s` counts from the end of the warm-up.
    """

    at_s: float
    manifests: tuple[Object, ...]


class Scenario(Struct, frozen=True, kw_only=True):
    """Complete input of a run.

    Times of faults count from the end of the warm-up. During `seconds` jobs are submitted and faults begin.
    `rival`: another scheduler binds pods too. `dialect`: PodGroups of another API group
    that the API server serves. `has_claims`: gangs claim volumes and devices. `prepares_devices`: drivers
    prepare allocated devices before their pods are bound.
    """

    seed: int
    seconds: float
    cluster: tuple[Object, ...]
    submissions: tuple[Submission, ...]
    faults: tuple[Fault, ...] = ()
    checks: tuple[type[Check], ...] = ()
    config: SchedulerConfig = SchedulerConfig()
    rival: bool = False
    dialect: ResourceType | None = None
    has_claims: bool = False
    prepares_devices: bool = False


class Summary(Struct, frozen=True, rename="camel"):
    """Result of a run.

    `faults` counts effective faults by family, `coverage` counts coverage points. `twin` and `cost` are set
    on request: the outcomes of the same jobs on the same cluster without faults, and the losses compared with
    it.
    """

    seed: int
    decision_hash: str
    violations: tuple[Violation, ...]
    violation_count: int
    faults: Mapping[str, int]
    coverage: Mapping[str, int]
    outcomes: Outcomes
    cycles: int
    simulated_hours: float
    twin: Outcomes | None = None
    cost: Cost | None = None


Progress = Callable[[float], None]
"""Called with the simulated seconds that have passed."""

Tell = Callable[[float, str], None]
"""Called with the simulated second and one line of text for each event."""


def simulate(
    scenario: Scenario,
    *,
    progress: Progress = lambda _seconds: None,
    tell: Tell = lambda _at_s, _line: None,
) -> Summary:
    """Run a scenario from beginning to end."""
    run = _Run(scenario, progress, tell)
    settings = WorldSettings(
        seed=scenario.seed,
        checks=scenario.checks,
        config=scenario.config,
        single_writer=not scenario.rival,
    )
    world = in_world(settings, run.play)
    return Summary(
        seed=scenario.seed,
        decision_hash=world.log.digest,
        violations=tuple(world.violations.kept),
        violation_count=world.violations.count,
        faults=dict(sorted(run.faults.items())),
        coverage=dict(sorted(world.coverage.counts.items())),
        outcomes=run.outcomes,
        cycles=world.log.cycles,
        simulated_hours=round(world.loop.time() / 3600, 3),
    )


def with_twin(summary: Summary, scenario: Scenario) -> Summary:
    """Add the outcomes of the same scenario without faults, and the difference."""
    twin = simulate(replace(scenario, faults=())).outcomes
    return replace(summary, twin=twin, cost=cost_of(summary.outcomes, twin))


class _Run:
    outcomes: Outcomes
    _effects: InjectedEffects

    def __init__(self, scenario: Scenario, progress: Progress, tell: Tell) -> None:
        self.faults: dict[str, int] = {}
        self._scenario = scenario
        self._progress = progress
        self._tell = tell
        self._over = asyncio.Event()

    async def play(self, world: World) -> None:
        """All phases in their order."""
        tracker = OutcomeTracker(world.server.store, world.clock)
        self._effects = tracker.effects
        world.listen(lambda host, result: self._tell_decisions(world, host, result))
        if self._scenario.dialect is not None:
            world.server.types.add(self._scenario.dialect)
        if self._scenario.has_claims:
            equip(world, prepares=self._scenario.prepares_devices)
        world.create(self._scenario.cluster)
        world.start()
        world.go(self._tell_progress(world))
        world.go(_remove_ended_jobs(world))
        await asyncio.sleep(WARM_UP_S)
        world.go(self._submit(world))
        faults = [world.go(self._inject(fault, world)) for fault in self._scenario.faults]
        await asyncio.sleep(self._scenario.seconds)
        self._over.set()
        if faults:
            await asyncio.wait(faults)
        await asyncio.sleep(REST_S)
        world.at_rest()
        self.outcomes = tracker.outcomes()
        delete_everything(world)
        await asyncio.sleep(EMPTYING_S)
        world.at_end()

    async def _submit(self, world: World) -> None:
        began = world.loop.time()
        for submission in sorted(self._scenario.submissions, key=lambda one: one.at_s):
            await asyncio.sleep(began + submission.at_s - world.loop.time())
            world.create(submission.manifests)

    async def _inject(self, fault: Fault, world: World) -> None:
        await self._sleep(fault.at_s)
        if self._over.is_set():
            return
        self._tell(world.loop.time(), _words(fault))
        remote = REMOTE_INJECTORS.get(fault.kind)
        if remote is not None:
            has_hit = await remote(fault, world, self._sleep)
        else:
            has_hit = await self._apply(fault, world)
        if has_hit:
            self.faults[fault.family] = self.faults.get(fault.family, 0) + 1
            world.coverage.reached(f"fault {fault.kind}")
        else:
            self._tell(world.loop.time(), f"{fault.family} {fault.kind} of {fault.at_s:.0f} s had no effect")

    async def _apply(self, fault: Fault, world: World) -> bool:
        """Inject a fault in the cluster; false if it changed nothing, for instance for lack of a target."""
        effect = self._effects.begin(fault.number("detect_s"))
        client = FaultClient(world.server, world.client, partial(self._effects.hit, effect))
        kubelets = FaultKubelets(world.controllers.kubelets, client)
        random = world.random(f"{fault.kind}/{fault.at_s}/{fault.targets}")
        await inject(fault, FaultContext(client=client, kubelets=kubelets, random=random, sleep=self._sleep))
        self._effects.end(effect)
        return bool(client.changes)

    async def _sleep(self, seconds: float) -> None:
        """Wait, or return early when the fault phase ends, so that the fault is undone."""
        try:
            async with asyncio.timeout(seconds):
                await self._over.wait()
        except TimeoutError:
            return

    def _tell_decisions(self, world: World, host: str, result: CycleResult) -> None:
        for placement in result.placements:
            line = f"{host} places {len(placement.binds)} pods of {placement.group} ({placement.cause})"
            self._tell(world.loop.time(), line)
        for eviction in result.evictions:
            pod = f"{eviction.namespace}/{eviction.name}"
            self._tell(world.loop.time(), f"{host} evicts {pod}: {eviction.reason}, {eviction.message}")

    async def _tell_progress(self, world: World) -> None:
        while True:
            await asyncio.sleep(60.0)
            self._progress(world.loop.time())


def total_seconds(hours: float) -> float:
    """Approximate simulated seconds of a run with this many hours of jobs and faults."""
    return WARM_UP_S + hours * 3600 + REST_S + EMPTYING_S


def _words(fault: Fault) -> str:
    settings = " ".join(f"{name}={value}" for name, value in fault.settings.items())
    where = ", ".join(fault.targets[:3]) + (" ..." if len(fault.targets) > 3 else "")
    return f"{fault.family} {fault.kind} {where} for {fault.seconds:.0f} s {settings}"


async def _remove_ended_jobs(world: World) -> None:
    """Delete finished jobs, as users do; otherwise the objects of a simulated year accumulate."""
    ended: dict[Key, float] = {}
    while True:
        await asyncio.sleep(KEPT_S / 10)
        now = world.loop.time()
        for key in world.client.keys("jobs.batch"):
            if _has_ended(world.client.get(key) or {}):
                ended.setdefault(key, now)
        for key in [key for key, since in ended.items() if since < now - KEPT_S]:
            del ended[key]
            for resource in _WORKLOAD_KINDS:
                if resource not in ("pods", "poddisruptionbudgets.policy"):
                    _delete(world, Key(resource, key.namespace, key.name))


def _has_ended(job: Object) -> bool:
    conditions = job.get("status", {}).get("conditions", [])
    return any(
        condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
        for condition in conditions
    )


def delete_everything(world: World) -> None:
    """Delete all jobs, pods, PodGroups and PodDisruptionBudgets."""
    for resource in _WORKLOAD_KINDS:
        _delete_all(world, resource)


def _delete_all(world: World, resource: str) -> None:
    for key in world.client.keys(resource):
        _delete(world, key)


def _delete(world: World, key: Key) -> None:
    found = world.client.get(key)
    if found is not None:
        world.client.delete(key, uid=found["metadata"]["uid"])
