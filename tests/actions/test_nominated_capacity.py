"""Capacity nominated for pods of other schedulers, compared with kube-scheduler's rule by brute force.

The oracle is the rule of docs/objects.md: to a pod of priority p, each nominated pod of priority p or higher
uses its node. It works on the objects as an API server sends them, and shares no code with the scheduler.
"""

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace
from phalanx.cache.cache import Cache
from phalanx.cli.static_cluster import StaticCluster, run_until_stable
from phalanx.cycle import Engine
from phalanx.deciders.port import new_cache
from phalanx.framework.config import SchedulerConfig
from phalanx.model.api.meta import KubeObject
from phalanx.model.decisions import CycleResult
from phalanx.model.events import Applied, Deleted
from phalanx.model.memory import Memory
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.examples import holds
from tests.model.written import label, node, pod, pod_group

RESOURCES = ("cpu", "example.com/gpu")
WITHOUT_EVICTIONS = SchedulerConfig(actions=())


class Foreign(Struct, frozen=True):
    """A pod of another scheduler: nominated, bound, or neither."""

    name: str
    priority: int
    requests: dict[str, int]
    nominated: str = ""
    node: str = ""
    gated: bool = False
    scheduler: str = "default-scheduler"

    @property
    def counts(self) -> bool:
        """Whether it withholds capacity from pods of its or a lower priority."""
        return bool(self.nominated) and not self.node and not self.gated

    def written(self) -> KubeObject:
        spec: dict[str, Any] = {"schedulerName": self.scheduler, "priority": self.priority}
        if self.gated:
            spec["schedulingGates"] = [{"name": "example.com/gate"}]
        if self.node:
            spec["nodeName"] = self.node
        status = {"phase": "Pending", "nominatedNodeName": self.nominated}
        return pod(self.name, namespace="web", requests=self.requests, status=status, **spec)


class Job(Struct, frozen=True):
    """A gang of equal pods."""

    name: str
    priority: int
    members: int
    requests: dict[str, int]

    def written(self) -> Iterator[KubeObject]:
        if self.members > 1:
            yield pod_group(self.name, uid=f"gang-{self.name}", minMember=self.members)
        labels = {label("pod-group"): self.name} if self.members > 1 else {}
        for number in range(self.members):
            name = f"{self.name}-{number}"
            yield pod(name, labels=labels, requests=self.requests, priority=self.priority)


def amounts(random: Random, most: int) -> dict[str, int]:
    return {name: random.randint(1, most) for name in RESOURCES if random.random() < 0.8}


def random_foreign(random: Random, number: int, nodes: Iterable[str]) -> Foreign:
    names = [*nodes, "", "gone"]
    return Foreign(
        name=f"foreign-{number}",
        priority=random.choice((0, 10, 20)),
        requests=amounts(random, 4),
        nominated=random.choice(names),
        node=random.choice(names[:-2]) if random.random() < 0.2 else "",
        gated=random.random() < 0.1,
        scheduler=random.choice(("default-scheduler", "volcano")),
    )


class World:
    """Nodes, pods of other schedulers, and gangs, with the cache and the memory of a scheduler."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.nodes = {
            f"n{number}": {name: random.randint(2, 8) for name in RESOURCES}
            for number in range(random.randint(1, 4))
        }
        self.foreign = {
            each.name: each
            for each in (random_foreign(random, number, self.nodes) for number in range(random.randint(0, 5)))
        }
        self.jobs = [
            Job(f"job-{number}", random.choice((0, 10, 20)), random.choice((1, 1, 2, 3)), amounts(random, 4))
            for number in range(random.randint(1, 5))
        ]
        self.placed: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        """The last reason of each waiting gang. A verdict is remembered until more may fit."""
        self._job_of = {f"{job.name}-{number}": job for job in self.jobs for number in range(job.members)}
        self.cache = new_cache(WITHOUT_EVICTIONS)
        self.engine, self.memory, self.now = Engine(WITHOUT_EVICTIONS), Memory(), 0
        self.cache.apply_all(map(Applied, self.objects()))

    def objects(self) -> list[KubeObject]:
        """All objects in random order."""
        found: list[KubeObject] = [
            node(name, status={"allocatable": {**offers, "pods": 100}}) for name, offers in self.nodes.items()
        ]
        found += [each.written() for each in self.foreign.values()]
        found += [item for job in self.jobs for item in job.written()]
        self.random.shuffle(found)
        return found

    def free(self, name: str, priority: int | None) -> dict[str, int]:
        """What a pod of this priority may use of the node; None ignores nominations."""
        free = dict(self.nodes[name])
        for each in self.foreign.values():
            is_nominated = each.counts and each.nominated == name
            if each.node == name or (is_nominated and priority is not None and each.priority >= priority):
                for resource, amount in each.requests.items():
                    free[resource] -= amount
        for member, where in self.placed.items():
            for resource, amount in self._job_of[member].requests.items() if where == name else ():
                free[resource] -= amount
        return free

    def fits(self, job: Job, priority: int | None) -> bool:
        """Whether all its members fit together."""
        count = 0
        for name in self.nodes:
            free = self.free(name, priority)
            pods = [free[resource] // amount for resource, amount in job.requests.items()]
            count += max(0, min(pods, default=job.members))
        return count >= job.members

    def waiting(self) -> list[Job]:
        return [job for job in self.jobs if f"{job.name}-0" not in self.placed]

    def decide(self) -> CycleResult:
        check_cache(self.cache)
        self.now += 60_000
        snapshot = self.cache.snapshot(now=self.now, seed=0, memory=self.memory)
        result = self.engine.decide(snapshot)
        self.memory = result.memory
        return result

    def disagreements(self, result: CycleResult) -> Iterator[str]:
        """Apply the decisions; yield each that the rule forbids, and each gang that waits but fits."""
        for placement in result.placements:
            for bind in placement.binds:
                job = self._job_of[bind.name]
                free = self.free(bind.node, job.priority)
                if any(amount > free[resource] for resource, amount in job.requests.items()):
                    yield f"{bind.name} took nominated capacity of {bind.node}: {free} for {job.requests}"
                self.placed[bind.name] = bind.node
                bound = pod(
                    bind.name,
                    labels={label("pod-group"): job.name} if job.members > 1 else {},
                    requests=job.requests,
                    priority=job.priority,
                    nodeName=bind.node,
                    status={"phase": "Running"},
                )
                self.cache.apply(Applied(bound))
        reasons = {verdict.group.removeprefix("team/"): verdict.reason for verdict in result.verdicts}
        for job in self.waiting():
            reason = reasons.get(job.name) or reasons[f"{job.name}-0"]
            if self.fits(job, job.priority):
                yield f"{job.name} waits though it fits ({reason})"
            expects_nomination = self.fits(job, None)
            is_remembered, self.reasons[job.name] = self.reasons.get(job.name) == reason, reason
            if not is_remembered and (reason == "CapacityNominated") is not expects_nomination:
                yield f"{job.name} waits for {reason}; fits without nominations: {expects_nomination}"

    def change_foreign(self) -> None:
        """Bind, delete or change one pod of another scheduler, or add one."""
        random = self.random
        name = random.choice([*self.foreign, "new"])
        known = self.foreign.get(name)
        if known is None:
            changed = random_foreign(random, 100 + self.now, self.nodes)
        elif random.random() < 0.3:
            del self.foreign[name]
            self.cache.apply(Deleted("Pod", "web", name))
            return
        elif known.node:
            return
        elif random.random() < 0.4:
            changed = replace(known, node=random.choice([known.nominated or "n0", *self.nodes]))
        else:
            changed = replace(
                known, nominated=random.choice(["", *self.nodes]), priority=random.choice((0, 10, 20))
            )
        self.foreign[changed.name] = changed
        self.cache.apply(Applied(changed.written()))


def disagreements(seed: int) -> list[str]:
    """What three cycles decide against the rule, with changes of other schedulers' pods in between."""
    world = World(Random(seed))
    found = list(world.disagreements(world.decide()))
    for _ in range(2):
        for _ in range(world.random.randint(1, 3)):
            world.change_foreign()
        found += world.disagreements(world.decide())
    return found


@holds(60)
@given(seed=st.integers(0, 2**32))
def test_nominated_capacity_is_respected_and_nothing_else_is_withheld(seed: int) -> None:
    assert disagreements(seed) == []


def evicted_in_vain(seed: int) -> list[str]:
    """Gangs for which others were evicted, and which have no nodes in the end."""
    world = World(Random(seed))
    cluster = StaticCluster(world.objects(), config=SchedulerConfig(), now=0)
    results, _ = run_until_stable(cluster, SchedulerConfig())
    placed = {placement.group for result in results for placement in result.placements}
    beneficiaries = {evict.beneficiary for result in results for evict in result.evictions}
    return sorted(beneficiaries - placed)


@holds(30)
@given(seed=st.integers(0, 2**32))
def test_nothing_is_evicted_for_a_gang_that_nominations_keep_from_starting(seed: int) -> None:
    assert evicted_in_vain(seed) == []


def nominated_to(cache: Cache, name: str) -> list[tuple[int, int]]:
    """Priorities and numbers of pods."""
    snapshot = cache.snapshot(now=0, seed=0, memory=Memory())
    return [(each.priority, each.count) for each in snapshot.nominated.get(name, ())]  # type: ignore[call-overload]


def test_only_the_configured_schedulers_are_believed() -> None:
    for believed, expected in ((None, [(5, 2)]), (("volcano",), [(5, 1)]), ((), [])):
        cache = new_cache(SchedulerConfig(nominating_schedulers=believed))
        for scheduler in ("default-scheduler", "volcano", "phalanx"):
            foreign = Foreign(scheduler, 5, {"cpu": 1}, nominated="n", scheduler=scheduler)
            cache.apply(Applied(foreign.written()))
        assert nominated_to(cache, "n") == expected


def test_a_nomination_that_ends_unblocks_waiting_gangs() -> None:
    cache = new_cache(SchedulerConfig())
    foreign = Foreign("f", 5, {"cpu": 1}, nominated="n")
    assert not cache.apply(Applied(foreign.written())).capacity_grew
    assert cache.apply(Applied(foreign.written())).nodes == ()
    assert cache.apply(Applied(replace(foreign, nominated="m").written())).capacity_grew
    assert cache.apply(Applied(replace(foreign, nominated="m", node="m").written())).capacity_grew
    cache.apply(Applied(foreign.written()))
    assert cache.apply(Applied(replace(foreign, node="m").written())).capacity_grew
    cache.apply(Applied(foreign.written()))
    assert cache.apply(Deleted("Pod", "web", "f")).capacity_grew
    assert nominated_to(cache, "n") == []


def test_a_nomination_counts_in_a_large_cluster_that_was_classified_before() -> None:
    """Node classes are kept from cycle to cycle, and only nodes that changed are classified again."""
    count, requests = 60, {RESOURCES[1]: 1}
    cache, engine, memory = new_cache(WITHOUT_EVICTIONS), Engine(WITHOUT_EVICTIONS), Memory()
    for number in range(count):
        cache.apply(Applied(node(f"n{number}", status={"allocatable": {**requests, "pods": 100}})))
    chosen: list[dict[str, str]] = []
    for number, nominated in enumerate(("", "n7")):
        if nominated:
            cache.apply(Applied(Foreign("foreign", 5, requests, nominated=nominated).written()))
        for job in [Job(f"job-{number}-{each}", 0, 1, requests) for each in range(1 + number * count)]:
            cache.apply_all(map(Applied, job.written()))
        result = engine.decide(cache.snapshot(now=number * 60_000, seed=0, memory=memory))
        memory = result.memory
        chosen.append({bind.name: bind.node for placed in result.placements for bind in placed.binds})
        for name, where in chosen[-1].items():
            bound = pod(name, requests=requests, nodeName=where, status={"phase": "Running"})
            cache.apply(Applied(bound))
    first, second = (set(each.values()) for each in chosen)
    assert "n7" not in first, "the test needs another free node"
    assert second == {f"n{number}" for number in range(count)} - first - {"n7"}
