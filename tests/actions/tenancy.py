"""Small clusters shared by several tenants, and an exhaustive search for victims that would help a gang.

Only devices count. Nothing is taken from the scheduler except the scaled guarantees and shares that it
reports.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any

from hypothesis import note
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace
from phalanx.model.api.pod_groups import Disruption
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, PodUid, QueueName
from phalanx.model.pods import Pod
from phalanx.model.queues import Backfill, Queue
from phalanx.model.resources import GPU
from phalanx.model.snapshot import Snapshot

from tests.builders import Decided, Scenario

GPUS = 4
MINUTE = 60_000
LEAVES = ("a", "b", "c")
APPS = ("x", "y")


@st.composite
def tenancies(draw: st.DrawFn, *, with_backfill: bool = False) -> Scenario:
    """Up to three queues, two of them perhaps below one, whose gangs request more than exists; some run.

    `with_backfill`: the queues may have backfill.
    """
    nodes = draw(st.integers(1, 3))
    scenario = Scenario().nodes("n", nodes, gpu=GPUS)
    leaves = LEAVES[: draw(st.integers(2, 3))]
    has_parent = draw(st.booleans())
    if has_parent:
        _queue(draw, scenario, "top", nodes)
    for name in leaves:
        backfill = draw(st.none() | st.sampled_from(Backfill)) if with_backfill else None
        parent = "top" if has_parent and name != "c" else None
        _queue(draw, scenario, name, nodes, parent=parent, backfill=backfill)
    free = {f"n-{index}": GPUS for index in range(nodes)}
    for index in range(draw(st.integers(2, 7))):
        _gang(draw, scenario, f"g{index}", leaves, free, app=APPS[index % len(APPS)])
    for app in APPS:
        allowed = draw(st.sampled_from([None, None, None, 0, 1, 2]))
        if allowed is not None:
            note(f"disruption budget of {app}: {allowed} pods")
            scenario.budget(app, allowed, app=app)
    return scenario


def _queue(
    draw: st.DrawFn,
    scenario: Scenario,
    name: str,
    nodes: int,
    parent: str | None = None,
    backfill: Backfill | None = None,
) -> None:
    guarantee = draw(st.integers(0, nodes * 2))
    limit = draw(st.none() | st.integers(1, nodes * GPUS))
    runtime = draw(st.sampled_from([0, 0, 0, 3]))
    fields: dict[str, Any] = {
        "weight": draw(st.integers(1, 3)),
        "guarantee": {GPU: guarantee} if guarantee else {},
        "limit": {GPU: limit} if limit is not None else {},
        "reclaim_min_runtime_ms": runtime * MINUTE,
        "backfill": backfill,
    }
    note(f"queue {name} below {parent}: guarantee {guarantee}, limit {limit}, {fields['weight']}, {runtime}")
    note(f"its backfill: {backfill}")
    scenario.queue(name, parent=parent, **fields)


def _gang(
    draw: st.DrawFn, scenario: Scenario, name: str, leaves: Sequence[str], free: dict[str, int], app: str
) -> None:
    """A gang that runs where capacity is free, or waits."""
    count, gpus = draw(st.integers(1, 3)), draw(st.integers(1, GPUS))
    least = draw(st.integers(1, count))
    on: list[str] = []
    for node in [*free] * count if draw(st.booleans()) else []:
        if len(on) < count and free[node] - gpus * on.count(node) >= gpus:
            on.append(node)
    on = on if len(on) >= least else []
    for node in on:
        free[node] -= gpus
    queue, priority = draw(st.sampled_from(leaves)), draw(st.integers(0, 2))
    disruption = Disruption(
        preemptible=draw(st.sampled_from([True, True, True, False])),
        min_runtime=draw(st.sampled_from(["0m", "0m", "3m"])),
    )
    policy = draw(st.sampled_from([None, None, None, "Never"]))
    scenario.gang(
        name,
        count,
        min=least,
        gpu=gpus,
        queue=queue,
        priority=priority,
        on=on,
        disruption=disruption,
        labels={"app": app},
        **({"preemption_policy": policy} if policy else {}),
    )
    note(f"{name}: {least} of {count} pods of {gpus} in {queue}, priority {priority}, on {on}, {disruption}")
    _begin(scenario)


def step(scenario: Scenario) -> Decided:
    """Run one cycle and apply its decisions; a minute passes."""
    decided = scenario.decide()
    for each in decided.result.evictions:
        note(f"minute {scenario.now // MINUTE}: {each.name} is evicted for {each.beneficiary}")
    for name in decided.placed():
        note(f"minute {scenario.now // MINUTE}: {name} on {decided.nodes(name)}")
    scenario.take(decided)
    _begin(scenario)
    scenario.capacity_version += bool(decided.evicted())
    scenario.now += MINUTE
    return decided


def _begin(scenario: Scenario) -> None:
    """Set the start time of pods that have got a node since the last call."""
    for name, gang in scenario._gangs.items():
        since = {pod.uid: pod.running_since or scenario.now // 1000 for pod in gang.members if pod.node}
        members = [replace(pod, running_since=since.get(pod.uid, 0)) for pod in gang.members]
        scenario.change(name, members=tuple(members))


class Group(Struct, frozen=True):
    """Pods of a gang that may be evicted together: one surplus pod, or the minimum after all surplus pods."""

    gang: Gang
    pods: tuple[Pod, ...]
    is_last: bool

    @property
    def gpus(self) -> int:
        """The GPUs that the pods hold."""
        return sum(pod.shape.requests[GPU] for pod in self.pods)


class Tenancy:
    """One snapshot, and the guarantees and fair shares that a cycle reported for it."""

    def __init__(self, snapshot: Snapshot, decided: Decided) -> None:
        self.snapshot = snapshot
        self.preempted = decided.result.memory.preempted
        reports = decided.result.queues
        self.guarantee = {name: each.guarantee.get(GPU, 0) for name, each in reports.items()}
        self.reserved_starts = [snapshot.gangs[gang] for gang in decided.result.memory.reserved_starts]
        self.fair_share = {name: each.fair_share.get(GPU, 0) for name, each in reports.items()}

    @cached_property
    def written(self) -> dict[QueueName, int]:
        """The guarantees as written, up to the limit; without one, the sum of the children's."""
        found: dict[QueueName, int] = {}
        for queue in sorted(self.snapshot.queues.values(), key=lambda each: -len(self.path(each.name))):
            below = (found[each.name] for each in self.snapshot.queues.values() if each.parent == queue.name)
            most = queue.guarantee[GPU] if GPU in queue.guarantee else sum(below)
            found[queue.name] = min(most, queue.limit.get(GPU, most))
        return found

    def path(self, queue: QueueName) -> list[Queue]:
        """Return the queue and its ancestors."""
        found = [self.snapshot.queues[queue]]
        while found[-1].parent is not None:
            found.append(self.snapshot.queues[found[-1].parent])
        return found

    def unshared_path(self, queue: QueueName, other: QueueName) -> list[QueueName]:
        """Return the queues of this queue's path that are not in the path of the other one."""
        shared = {each.name for each in self.path(other)}
        return [each.name for each in self.path(queue) if each.name not in shared]

    def used(self, queue: QueueName) -> int:
        """The GPUs that the queue and all queues below it use, summed pod by pod."""
        return sum(
            pod.shape.requests[GPU]
            for gang in self.snapshot.gangs.values()
            if any(each.name == queue for each in self.path(gang.queue))
            for pod in gang.members
            if pod.node is not None
        )

    def pods_below(self, queue: QueueName) -> dict[PodUid, int]:
        """The requested GPUs of all pods of the queue and of the queues below it."""
        return {
            pod.uid: pod.shape.requests[GPU]
            for gang in self.snapshot.gangs.values()
            if any(each.name == queue for each in self.path(gang.queue))
            for pod in gang.members
        }

    def covered(self, queue: QueueName) -> set[PodUid]:
        """The running pods that the guarantee of the queue covers, in the order of docs/guarantees.md."""
        children = [each.name for each in self.snapshot.queues.values() if each.parent == queue]
        first = {uid for child in children for uid in self.covered(child)}
        left, covered, missed = self.written[queue], set[PodUid](), set[GangId]()
        for gang, pods, is_surplus in sorted(
            self._parts(queue), key=lambda each: self._rank(*each, queue, first)
        ):
            amount = sum(pod.shape.requests[GPU] for pod in pods)
            if amount > left or (is_surplus and gang.id in missed):
                missed.add(gang.id)
            else:
                left -= amount
                covered.update(pod.uid for pod in pods)
        return covered

    def _rank(
        self, gang: Gang, pods: Sequence[Pod], is_surplus: bool, queue: QueueName, first: set[PodUid]
    ) -> tuple[Any, ...]:
        path = self.path(gang.queue)
        named = any(GPU in each.guarantee for each in path[: [each.name for each in path].index(queue) + 1])
        is_kept = named and gang.id in self.protected
        return (not is_kept, pods[0].uid not in first, is_surplus, -gang.priority, *self._started(gang))

    @staticmethod
    def _started(gang: Gang) -> tuple[Any, ...]:
        began = [pod.running_since for pod in gang.members if pod.node is not None]
        return (min(began), gang.created, gang.namespace, gang.name)

    @cached_property
    def protected(self) -> set[GangId]:
        """The gangs with `preemptible: false` that written guarantees bound and that fit in them together, as
        docs/preemption.md says: those that started first."""
        held, found = Counter[QueueName](), set[GangId]()
        running = [gang for gang in self.snapshot.gangs.values() if any(pod.node for pod in gang.members)]
        for gang in sorted(running, key=self._started):
            written = {
                each.name: each.guarantee[GPU] for each in self.path(gang.queue) if GPU in each.guarantee
            }
            uses = sum(pod.shape.requests[GPU] for pod in gang.members if pod.node is not None)
            is_bounded = written and not gang.disruption.is_preemptible
            if is_bounded and all(held[queue] + uses <= most for queue, most in written.items()):
                held.update(dict.fromkeys(written, uses))
                found.add(gang.id)
        return found

    def _parts(self, queue: QueueName) -> Iterator[tuple[Gang, Sequence[Pod], bool]]:
        for gang in self.snapshot.gangs.values():
            if any(each.name == queue for each in self.path(gang.queue)):
                held = [pod for pod in gang.members if pod.node is not None]
                if held:
                    yield gang, held[: gang.min_member], False
                yield from ((gang, [pod], True) for pod in held[gang.min_member :])

    def is_within_guarantee(self, gang: Gang) -> bool:
        """Whether the guarantee of some queue on its path covers the use and the minimum of the gang."""
        asked = gang.min_member * gang.members[0].shape.requests[GPU]
        path = [queue.name for queue in self.path(gang.queue)]
        return any(self.used(queue) + asked <= self.guarantee[queue] for queue in path)

    def waiting(self) -> Iterator[tuple[Gang, list[Pod]]]:
        """Yield the gangs of which no member runs, with the pods of their minimum."""
        for gang in self.snapshot.gangs.values():
            if not any(pod.node for pod in gang.members):
                yield gang, list(gang.members[: gang.min_member])

    def may_start(self, gang: Gang, asked: int, freed: Mapping[QueueName, int]) -> bool:
        """Whether the limits allow the start, and the rule for gangs that are not preemptible."""
        return all(
            self.used(queue.name) - freed.get(queue.name, 0) + asked <= queue.limit.get(GPU, asked + 10**6)
            for queue in self.path(gang.queue)
        ) and (gang.disruption.is_preemptible or self._is_guaranteed(gang, asked))

    def _is_guaranteed(self, gang: Gang, asked: int) -> bool:
        for queue in self.path(gang.queue):
            not_preemptible = sum(
                pod.shape.requests[GPU]
                for other in self.snapshot.gangs.values()
                if not other.disruption.is_preemptible
                and any(each.name == queue.name for each in self.path(other.queue))
                for pod in other.members
                if pod.node is not None
            )
            if not_preemptible + asked > queue.guarantee.get(GPU, not_preemptible + asked):
                return False
        return True

    def fits(self, pods: Sequence[Pod], gone: Sequence[Group] = ()) -> bool:
        """Whether the pods fit when these groups are evicted."""
        out = {pod.uid for group in gone for pod in group.pods}
        free = {name: state.node.allocatable[GPU] for name, state in self.snapshot.nodes.items()}
        for gang in self.snapshot.gangs.values():
            for pod in gang.members:
                if pod.node is not None and pod.uid not in out:
                    free[pod.node] -= pod.shape.requests[GPU]
        sizes = sorted((pod.shape.requests[GPU] for pod in pods), reverse=True)
        return _fit(tuple(sizes), tuple(sorted(free.values())))

    def groups(self, beneficiary: Gang) -> list[Group]:
        """Return groups of other queues that neither a rule of their own gang nor a guarantee protects."""
        found: list[Group] = []
        for gang in self.snapshot.gangs.values():
            held = [pod for pod in gang.members if pod.node is not None]
            is_protected = (
                not held
                or gang.queue == beneficiary.queue
                or not gang.disruption.is_preemptible
                or self.preempted.get(beneficiary.id) == gang.id
                or self._began(held) + self._runtime(gang) > self.snapshot.now
            )
            if not is_protected:
                covered = self.covered(self.unshared_path(gang.queue, beneficiary.queue)[-1])
                groups = [Group(gang, (pod,), False) for pod in held[gang.min_member :]]
                groups.append(Group(gang, tuple(held[: gang.min_member]), True))
                found += [each for each in groups if covered.isdisjoint(pod.uid for pod in each.pods)]
        return found

    def _began(self, held: Sequence[Pod]) -> int:
        return min(pod.running_since for pod in held) * 1000

    def _runtime(self, gang: Gang) -> int:
        reclaim = max(queue.reclaim_min_runtime_ms for queue in self.path(gang.queue))
        return max(gang.disruption.min_runtime_ms, reclaim)

    def could_help(
        self, gang: Gang, pods: Sequence[Pod], allows: Callable[["Tenancy", Gang, Sequence[Group]], bool]
    ) -> list[Group] | None:
        """Return groups whose eviction lets the gang start within the given rules, or None."""
        asked = sum(pod.shape.requests[GPU] for pod in pods)
        groups = self.groups(gang)
        for count in range(1, len(groups) + 1):
            for gone in combinations(groups, count):
                if (
                    _is_whole(gone, groups)
                    and self._is_within_budgets(gone)
                    and allows(self, gang, gone)
                    and self.may_start(gang, asked, self.freed(gone))
                    and self.fits(pods, gone)
                ):
                    return list(gone)
        return None

    def _is_within_budgets(self, gone: Sequence[Group]) -> bool:
        lost = Counter(dict(pod.labels.pairs)["app"] for group in gone for pod in group.pods)
        return all(lost[each.name] <= each.allowed for each in self.snapshot.disruption_budgets)

    def freed(self, gone: Sequence[Group]) -> dict[QueueName, int]:
        """The GPUs that the eviction releases, by queue on the paths of the groups."""
        found: dict[QueueName, int] = {}
        for group in gone:
            for queue in self.path(group.gang.queue):
                found[queue.name] = found.get(queue.name, 0) + group.gpus
        return found


def _is_whole(gone: Sequence[Group], groups: Sequence[Group]) -> bool:
    """Whether the minimum of each gang is evicted only together with all its surplus."""
    last: set[GangId] = {group.gang.id for group in gone if group.is_last}
    return all(group in gone for group in groups if group.gang.id in last)


@lru_cache(maxsize=100_000)
def _fit(sizes: tuple[int, ...], free: tuple[int, ...]) -> bool:
    """Try every pod on every node."""
    if not sizes:
        return True
    return any(
        _fit(sizes[1:], tuple(sorted((*free[:index], have - sizes[0], *free[index + 1 :]))))
        for index, have in enumerate(free)
        if have >= sizes[0]
    )
