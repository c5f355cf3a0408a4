"""Evictions of pods of other schedulers, compared with the rule of docs/preemption.md by brute force.

The oracle works on the objects as an API server sends them, tries every set of pods, and shares no code with
the scheduler. All pods request GPUs of one kind, and there is one queue.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace
from phalanx.cli.static_cluster import StaticCluster
from phalanx.cycle import Engine
from phalanx.deciders.port import new_cache
from phalanx.framework.config import ConfigError, PluginConfig, SchedulerConfig, config_errors, convert
from phalanx.model.api.meta import KubeObject
from phalanx.model.decisions import CycleResult
from phalanx.model.events import Applied, Deleted
from phalanx.model.memory import Memory
from phalanx.model.names import NO_QUEUE, GangId
from phalanx.model.reasons import Reason
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.examples import holds
from tests.model.written import label, named, node, pod, pod_group

GPU = "nvidia.com/gpu"
NOW = 1_767_312_000_000
DELETED = {"deletionTimestamp": "2026-01-02T00:00:30Z", "deletionGracePeriodSeconds": 60}
DEFAULT: Sequence[dict[str, Any]] = ({},)


class Holder(Struct, frozen=True):
    """A pod on a node: of another scheduler, or a gang of one of ours."""

    name: str
    node: str
    gpus: int
    priority: int
    scheduler: str = "default-scheduler"
    namespace: str = "ops"
    owner: str = ""
    app: str = ""
    deleting: bool = False

    @property
    def is_ours(self) -> bool:
        return self.scheduler == "phalanx"

    def written(self) -> KubeObject:
        owners = [{"kind": self.owner, "name": "o", "uid": f"o-{self.name}", "controller": True}]
        meta = {"ownerReferences": owners if self.owner else [], **(DELETED if self.deleting else {})}
        return pod(
            self.name,
            namespace=self.namespace,
            labels={"app": self.app},
            requests={GPU: self.gpus},
            meta=meta,
            status={"phase": "Running"},
            nodeName=self.node,
            priority=self.priority,
            schedulerName=self.scheduler,
        )


class Case(Struct, frozen=True):
    """A cluster in which one gang waits."""

    nodes: dict[str, int]
    holders: tuple[Holder, ...]
    members: int
    gpus: int
    priority: int
    policy: str = "PreemptLowerPriority"
    limit: int = 1000
    entries: Sequence[dict[str, Any]] = DEFAULT

    @property
    def config(self) -> SchedulerConfig:
        return convert({"evictablePods": list(self.entries)})

    def objects(self) -> Iterator[KubeObject]:
        for name, gpus in self.nodes.items():
            yield node(name, status={"allocatable": {GPU: gpus, "pods": 110}})
        for holder in self.holders:
            yield holder.written()
        yield named("Queue", "default", spec={"limit": {GPU: self.limit}})
        yield pod_group("g", minMember=self.members)
        yield from self.pods()

    def pods(self) -> Iterator[KubeObject]:
        """The members of the gang."""
        for number in range(self.members):
            yield pod(
                f"g-{number}",
                labels={label("pod-group"): "g"},
                requests={GPU: self.gpus},
                priority=self.priority,
                preemptionPolicy=self.policy,
            )

    # --- the rule -----------------------------------------------------------------------------------------

    def _is_selected(self, holder: Holder) -> bool:
        if holder.is_ours or holder.owner in ("DaemonSet", "Node") or holder.namespace == "kube-system":
            return False
        return any(
            holder.priority < entry.get("belowPriority", 0)
            and holder.scheduler in (entry.get("schedulers") or [holder.scheduler])
            and holder.namespace in (entry.get("namespaces") or [holder.namespace])
            and entry.get("labels", {}).get("app", holder.app) == holder.app
            for entry in self.entries
        )

    def candidates(self) -> list[Holder]:
        """What the gang may evict."""
        if self.policy == "Never":
            return []
        return [
            holder
            for holder in self.holders
            if holder.priority < self.priority
            and not holder.deleting
            and (holder.is_ours or self._is_selected(holder))
        ]

    def fits(self, gone: Sequence[Holder] = (), *, later: bool = True) -> bool:
        """Whether the gang may start without these pods; `later`: when selected pods have terminated."""
        left, used = dict(self.nodes), self.members * self.gpus
        for holder in self.holders:
            if holder in gone or (later and holder.deleting and self._is_selected(holder)):
                continue
            left[holder.node] -= holder.gpus
            used += holder.gpus if holder.is_ours else 0
        return used <= self.limit and sum(each // self.gpus for each in left.values()) >= self.members

    def cost(self, gone: Sequence[Holder]) -> list[tuple[int, int]]:
        """GPUs and pods, of the highest priority first, and there first those of ours."""
        classes = sorted({(each.priority, each.is_ours) for each in self.holders}, reverse=True)
        lost = [[each.gpus for each in gone if (each.priority, each.is_ours) == one] for one in classes]
        return [(sum(gpus), len(gpus)) for gpus in lost]

    def least_cost(self) -> list[tuple[int, int]] | None:
        """That of the best set of victims; None if no set helps, or none is needed."""
        if self.fits():
            return None
        candidates = self.candidates()
        sets = (some for size in range(len(candidates) + 1) for some in combinations(candidates, size))
        return min((self.cost(some) for some in sets if self.fits(some)), default=None)


def random_case(random: Random) -> Case:
    nodes = {f"n{number}": random.randint(1, 5) for number in range(random.randint(1, 3))}
    left, holders = dict(nodes), list[Holder]()
    for number in range(random.randint(2, 9)):
        on = random.choice([*nodes])
        if left[on]:
            holders.append(_holder(random, f"h{number}", on, random.randint(1, min(2, left[on]))))
            left[on] -= holders[-1].gpus
    return Case(
        nodes,
        tuple(holders),
        members=random.randint(1, 3),
        gpus=random.choice((1, 1, 2, 3)),
        priority=random.choice((-5, -1, 0, 0, 0, 5, 5)),
        policy=random.choice((*["PreemptLowerPriority"] * 5, "Never")),
        limit=random.choice((1000, 1000, random.randint(1, 9))),
        entries=random.choice((DEFAULT, DEFAULT, (), _entries(random))),
    )


def _holder(random: Random, name: str, on: str, gpus: int) -> Holder:
    scheduler = random.choice(("default-scheduler", "default-scheduler", "volcano", "phalanx"))
    is_ours = scheduler == "phalanx"
    return Holder(
        name,
        on,
        gpus,
        priority=random.choice((-1000, -5, -1, -1, -1, 0)),
        scheduler=scheduler,
        namespace="team" if is_ours else random.choice(("ops", "ops", "web", "kube-system")),
        owner="" if is_ours else random.choice(("", "", "", "Job", "DaemonSet", "Node")),
        app=random.choice(("sweep", "")),
        deleting=not is_ours and random.random() < 0.1,
    )


def _entries(random: Random) -> list[dict[str, Any]]:
    conditions = {
        "belowPriority": random.choice((-4, 0, 4)),
        "schedulers": random.choice((["volcano"], ["default-scheduler"])),
        "namespaces": random.choice((["ops"], ["web", "ops"])),
        "labels": {"app": "sweep"},
    }
    return [
        {name: value for name, value in conditions.items() if random.random() < 0.5}
        for _ in range(random.randint(1, 2))
    ]


def cycles(case: Case, count: int) -> list[CycleResult]:
    """The first cycles, in which decided pods run and evicted ones are gone at once.

    If something is evicted, the pods that were being deleted are gone too.
    """
    cluster, engine, results = (
        StaticCluster(case.objects(), config=case.config, now=NOW),
        Engine(case.config),
        list[CycleResult](),
    )
    for _ in range(count):
        results.append(engine.decide(cluster.snapshot()))
        cluster.apply(results[-1])
        for each in case.holders if results[-1].evictions else ():
            if each.deleting:
                cluster._cache.apply(Deleted("Pod", each.namespace, each.name))
    return results


def evicted(case: Case, result: CycleResult) -> list[Holder]:
    names = {each.name for each in result.evictions}
    return [holder for holder in case.holders if holder.name in names]


def mistakes(case: Case) -> list[str]:
    """What differs from the rule."""
    first, then = cycles(case, 2)
    gone, least = evicted(case, first), case.least_cost()
    starts = sum(len(placement.binds) for placement in (*first.placements, *then.placements))
    found = []
    if any(each not in case.candidates() for each in gone):
        found.append("a pod is evicted that may not be")
    if least is None and gone:
        found.append("a pod is evicted in vain")
    if least is not None and case.cost(gone) != least:
        found.append(f"cost {case.cost(gone)}, not {least}")
    if least is not None and starts != case.members:
        found.append("the gang does not start whole")
    if least is None and bool(starts) != case.fits(later=False):
        found.append("the gang starts, or does not, without evictions")
    if then.evictions:
        found.append("more is evicted later")
    return found


@holds(300)
@given(seed=st.integers(0, 2**32))
def test_evictions_follow_the_rule(seed: int) -> None:
    assert mistakes(random_case(Random(seed))) == []


FULL = Case({"n": 4}, (Holder("h", "n", 4, -1),), members=1, gpus=4, priority=0)
ONLY = FULL.holders[0]


@pytest.mark.parametrize(
    ("fields", "entries", "expected"),
    [
        ({}, DEFAULT, True),
        ({}, (), False),
        ({"priority": 3}, ({"belowPriority": 4},), False),
        ({"priority": -1}, ({"belowPriority": -1},), False),
        ({}, ({"schedulers": ["default-scheduler"], "namespaces": ["ops"]},), True),
        ({}, ({"schedulers": ["volcano"]},), False),
        ({}, ({"namespaces": ["web"]},), False),
        ({}, ({"labels": {"app": "sweep"}},), False),
        ({"app": "sweep"}, ({"labels": {"app": "sweep"}},), True),
        ({}, ({"namespaces": ["web"]}, {"namespaces": ["ops"]}), True),
        ({"namespace": "kube-system"}, DEFAULT, False),
        ({"owner": "DaemonSet"}, DEFAULT, False),
        ({"owner": "Node"}, DEFAULT, False),
        ({"owner": "Job"}, DEFAULT, True),
        ({"deleting": True}, DEFAULT, False),
    ],
)
def test_which_pods_are_evictable(
    fields: dict[str, Any], entries: Sequence[dict[str, Any]], expected: bool
) -> None:
    case = replace(FULL, holders=(replace(ONLY, **fields),), entries=entries)
    assert bool(evicted(case, cycles(case, 1)[0])) is expected
    assert mistakes(case) == []


class Slowly:
    """The gang of FULL, cycle by cycle: what is decided happens only where the test says so."""

    def __init__(self) -> None:
        self.cache, self._engine, self._memory = new_cache(FULL.config), Engine(FULL.config), Memory()
        self.cache.apply_all(map(Applied, FULL.objects()))

    def decide(self, seconds: int) -> CycleResult:
        """The cycle so many seconds after the first one."""
        snapshot = self.cache.snapshot(now=NOW + 1000 * seconds, seed=0, memory=self._memory)
        result = self._engine.decide(snapshot)
        self._memory = result.memory
        return result


def reasons(result: CycleResult) -> list[tuple[str, Reason]]:
    return [(each.group, each.reason) for each in result.verdicts]


def test_the_capacity_is_held_until_the_pod_has_ended() -> None:
    slowly = Slowly()
    assert [each.name for each in slowly.decide(0).evictions] == ["h"]
    slowly.cache.apply(Applied(pod("later", requests={GPU: 4}, priority=0)))
    for change in (ONLY, replace(ONLY, deleting=True)):
        slowly.cache.apply(Applied(change.written()))
        result = slowly.decide(1)
        assert (result.evictions, result.placements) == ((), ())
        assert reasons(result)[0] == ("team/g", Reason.EVICTION_IN_PROGRESS)
    slowly.cache.apply(Deleted("Pod", "ops", "h"))
    assert [each.group for each in slowly.decide(2).placements] == ["team/g"]


def test_an_eviction_that_has_not_happened_is_decided_again_while_it_is_allowed() -> None:
    for priority, expected in ((0, ["h"]), (-1, [])):
        slowly = Slowly()
        slowly.decide(0)
        (waiting,) = replace(FULL, holders=(), priority=priority).pods()
        slowly.cache.apply(Applied(waiting))
        assert [each.name for each in slowly.decide(11).evictions] == expected


def test_members_beyond_the_minimum_evict_no_pods_of_others() -> None:
    objects = [
        *replace(FULL, members=0).objects(),
        node("m", status={"allocatable": {GPU: 4, "pods": 110}}),
        pod_group("g", minMember=1),
        *(pod(f"g-{each}", labels={label("pod-group"): "g"}, requests={GPU: 4}) for each in range(2)),
    ]
    cluster, engine = StaticCluster(objects, config=FULL.config, now=NOW), Engine(FULL.config)
    for _ in range(3):
        result = engine.decide(cluster.snapshot())
        cluster.apply(result)
        assert result.evictions == ()


def test_a_pod_that_is_only_nominated_is_not_evicted() -> None:
    """Its capacity is free for a gang of higher priority."""
    waits = pod(
        "w",
        namespace="ops",
        schedulerName="default-scheduler",
        priority=-1,
        requests={GPU: 4},
        status={"nominatedNodeName": "n"},
    )
    objects = [*replace(FULL, holders=()).objects(), waits]
    result = Engine(FULL.config).decide(StaticCluster(objects, config=FULL.config, now=NOW).snapshot())
    assert (result.evictions, len(result.placements)) == ((), 1)


def test_a_hard_budget_protects_a_pod_of_others() -> None:
    hard = PluginConfig("disruption-budgets", arguments={"enforcement": "hard"})
    budget = named(
        "PodDisruptionBudget", "b", namespace="ops", spec={"selector": {}}, status={"disruptionsAllowed": 0}
    )
    for plugins, expected in (((), 1), ((hard,), 0)):
        config = SchedulerConfig(plugins=plugins)
        cluster = StaticCluster([*FULL.objects(), budget], config=config, now=NOW)
        assert len(Engine(config).decide(cluster.snapshot()).evictions) == expected


@pytest.mark.parametrize(
    ("priority", "entries", "expected"),
    [(-1, DEFAULT, 4), (-1, (), 0), (0, DEFAULT, 0), (3, ({"belowPriority": 4},), 0)],
)
def test_shares_count_what_gives_way_to_priority_0(
    priority: int, entries: Sequence[dict[str, Any]], expected: int
) -> None:
    case = replace(FULL, holders=(replace(ONLY, priority=priority),), entries=entries)
    queue = named("Queue", "default", spec={"guarantee": {GPU: 4}})
    cluster = StaticCluster([*case.objects(), queue], config=case.config, now=NOW)
    (report,) = Engine(case.config).decide(cluster.snapshot()).queues.values()
    assert report.fair_share.get(GPU, 0) == expected


def test_the_cause_names_both_priorities_and_nothing_is_remembered_of_the_victim() -> None:
    result = cycles(FULL, 1)[0]
    said = "evicted so that team/g of queue default can start: its priority 0 is above -1 of ops/h"
    assert [each.message for each in result.evictions] == [said]
    assert result.memory.preempted == {}


def test_the_cache_keeps_evictable_pods_until_they_are_gone() -> None:
    cache = new_cache(SchedulerConfig())

    def known() -> list[GangId]:
        check_cache(cache)
        found = cache.snapshot(now=NOW, seed=0, memory=Memory()).evictable_pods
        assert all(gang.queue == NO_QUEUE for gang in found.values())
        return list(found)

    cache.apply(Applied(replace(ONLY, owner="DaemonSet").written()))
    assert known() == []
    assert cache.apply(Applied(ONLY.written())).capacity_grew, "a gang may wait for what became evictable"
    assert known() == ["uid-ops-h"]
    assert not cache.apply(Applied(replace(ONLY, deleting=True).written())).capacity_grew
    assert known() == ["uid-ops-h"]
    cache.apply(Deleted("Pod", "ops", "h"))
    assert known() == []


def test_the_configuration_refuses_kube_system() -> None:
    config = convert({"evictablePods": [{}, {"namespaces": ["ops", "kube-system"]}]})
    assert [each.path for each in config_errors(config)] == [("evictablePods", 1, "namespaces")]
    with pytest.raises(ConfigError, match="evictablePods"):
        convert({"evictablePods": [{"belowPriority": 1_000_000_001}]})
