"""S22, S24: evictions for a beneficiary are allowed and sufficient, and respect PodDisruptionBudgets."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from phalanx.framework.charges import without_marked
from phalanx.framework.evictions import is_marked_for_eviction, surplus_members
from phalanx.limits import MAX_MIN_RUNTIME_DEFAULT_MS
from phalanx.model.charges import total_requests
from phalanx.model.decisions import CycleResult, Evict, EvictionReason, Placement
from phalanx.model.gangs import Gang
from phalanx.model.memory import Move, Nomination
from phalanx.model.names import DEFAULT_SCHEDULER_NAME, GangId, NodeName, PodUid, QueueName
from phalanx.model.pods import Pod
from phalanx.model.queues import Queue
from phalanx.model.resources import NONE, Resources, add
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.known import is_chosen_by_kubelet, offered_of, pod_usage

from phalanx_simulator.embedded.apiserver.selectors import label_selector
from phalanx_simulator.embedded.store import Change, ChangeType, Key, Object
from phalanx_simulator.invariants.bounds import DECIDED_S, GONE_KEPT_S
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.claim_facts import is_of_devices
from phalanx_simulator.invariants.facts import PodFact
from phalanx_simulator.invariants.history import History
from phalanx_simulator.invariants.truth import Truth

MOVED: Final = "Consolidated"
"""The reason of evictions of moved gangs, which start again on other nodes."""


class PreemptionsAreValid(Check):
    """S22: victims may be evicted, their gangs stay complete or are evicted whole, and the beneficiary fits.

    A victim has a lower priority in the same queue, or is in another queue, which keeps what its guarantee
    covered. Lost members that the same cycle replaces count as if they ran. A moved victim has no higher
    priority than the beneficiary, and capacity is held for it too. A victim is preemptible and not finishing,
    unless it was marked for eviction before. All members of its gang are evicted, or the remaining ones reach
    its minimum. A pod of another scheduler has a lower priority than the beneficiary, and one below zero. On
    each node of the nomination, the free capacity, that of terminating pods and that of victims cover the
    usage of all beneficiaries there. Later, gangs of higher priority in the beneficiary's queue may use some
    of it.
    """

    name = "S22"

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        if any(placement.gang in snapshot.memory.nominations for placement in result.placements):
            self.reached("capacity-freed")
        ended = (*result.evictions, *result.withdrawn)
        preempting = [eviction for eviction in ended if eviction.beneficiary]
        gone = {eviction.pod for eviction in ended}
        for eviction in preempting:
            self._check_victim(eviction, snapshot, result)
        for gang_id in dict.fromkeys(eviction.gang for eviction in preempting):
            gang = snapshot.gangs.get(gang_id)
            if gang is not None:
                self._check_rest(gang, gone)
        if preempting:
            self._count_coverage(preempting, snapshot)
            self._check_capacity(snapshot, result, gone)
            lost = [eviction for eviction in preempting if eviction.reason != MOVED]
            self._check_guarantees(snapshot, result, lost)

    def _count_coverage(self, preempting: Sequence[Evict], snapshot: Snapshot) -> None:
        self.reached("gang-preempted")
        queues = {str(gang): gang.queue for gang in snapshot.gangs.values()}
        for eviction in preempting:
            victim = _victim(eviction, snapshot)
            if eviction.reason == MOVED:
                self.reached("gang-moved")
            elif victim is not None and queues.get(eviction.beneficiary) != victim.queue:
                self.reached("gang-reclaimed")

    def _check_victim(self, eviction: Evict, snapshot: Snapshot, result: CycleResult) -> None:
        victim = _victim(eviction, snapshot)
        helped = [gang for gang in snapshot.gangs.values() if str(gang) == eviction.beneficiary]
        if victim is None or not helped:
            self.violated(
                eviction.name, f"evicted for {eviction.beneficiary}, and one of the two gangs does not exist"
            )
            return
        was_marked = any(pod.uid == eviction.pod and is_marked_for_eviction(pod) for pod in victim.members)
        never = all(_is_never_evicted(victim, gang, snapshot) for gang in helped)
        if not was_marked and (never or _is_finishing(victim, snapshot)):
            self.violated(eviction.name, f"evicted although {victim} is finishing or not preemptible")
        allows = _may_move if eviction.reason == MOVED else _may_evict
        if eviction.gang in snapshot.evictable_pods:
            allows = _outranks
        moving = {*snapshot.memory.moves, *result.memory.moves}
        if eviction.reason == MOVED and eviction.gang not in moving:
            self.violated(eviction.name, f"evicted to be moved, and no capacity is held for {victim}")
        late = snapshot.memory.let_in.get(eviction.gang)
        may_be_late = late is not None and any(gang.id in late.before for gang in helped)
        if not (was_marked or may_be_late or any(allows(gang, victim) for gang in helped)):
            self.violated(eviction.name, f"{eviction.beneficiary} may not evict {victim}")

    def _check_rest(self, gang: Gang, gone: set[PodUid]) -> None:
        stay = [
            pod
            for pod in gang.members
            if pod.counts_for_gang and pod.uid not in gone and pod.scheduler_name == DEFAULT_SCHEDULER_NAME
        ]
        holds = any(pod.holds_node for pod in stay)
        if holds and not gang.minimum.is_reached(stay) and gang.disruption.eviction_mode == "All":
            self.violated(str(gang), f"{len(stay)} members remain, fewer than its minimum")

    def _check_capacity(self, snapshot: Snapshot, result: CycleResult, gone: set[PodUid]) -> None:
        before, after = snapshot.memory, result.memory
        new: dict[GangId, Nomination | Move] = {
            gang: nomination
            for gang, nomination in after.nominations.items()
            if nomination.decided == snapshot.now and nomination != before.nominations.get(gang)
        }
        started = {gang: move for gang, move in after.moves.items() if gang not in before.moves}
        new.update(started)
        victims = {pod for nomination in after.nominations.values() for pod in nomination.victims}
        freed = _freed(snapshot, gone | victims)
        taken = _taken(snapshot, result, [*after.nominations.values(), *started.values()])
        for gang, nomination in new.items():
            for node, amounts in _on_nodes(nomination):
                state = snapshot.nodes.get(node)
                capacity = add(state.free, freed.get(node, NONE)) if state is not None else NONE
                counted = [
                    name
                    for name in amounts
                    if amounts[name]
                    and not (is_chosen_by_kubelet(name) or is_of_devices(name, node, snapshot))
                ]
                has = {name: capacity.get(name, 0) + offered_of(name) for name in counted}
                if any(has[name] < taken[node].get(name, 0) for name in counted):
                    self.violated(gang, f"nominated on {node}, which has {capacity} for {taken[node]}")

    def _check_guarantees(self, snapshot: Snapshot, result: CycleResult, preempting: Sequence[Evict]) -> None:
        """Check that each queue keeps, against other queues, what its guarantees of devices covered.

        By a guarantee the covered gangs stay; by a fair share their amount does, with what the cycle starts.
        Several gangs that evict in one cycle may each be right, one after the other: then only the first rule
        is checked.
        """
        gone = {eviction.pod for eviction in preempting}
        by_guarantee = {each.pod for each in preempting if each.message.endswith("its guarantee")}
        is_one = len({eviction.beneficiary for eviction in preempting}) == 1
        helped = {str(gang): gang.queue for gang in snapshot.gangs.values()}
        exempt = {
            name
            for eviction in preempting
            for name in _path(helped.get(eviction.beneficiary), snapshot.queues)
        }
        replaced = [each for each in result.placements if _replaces(each, snapshot)]
        before = _running_below(snapshot, replaced)
        after = _running_below(snapshot, result.placements)
        for queue in snapshot.queues.values():
            gangs = before.get(queue.name, []) if queue.name not in exempt else []
            for device, covered in _covered(queue, gangs).items():
                for gang, pods in covered:
                    if {pod.uid for pod in pods} & by_guarantee:
                        self.violated(queue.name, f"{gang} is evicted within the guarantee")
                kept = total_requests([pod for _, pods in covered for pod in pods]).get(device, 0)
                stay = [pod for each in after[queue.name] for pod in _holders(each) if pod.uid not in gone]
                if is_one and total_requests(stay).get(device, 0) < kept:
                    self.violated(queue.name, f"it keeps less {device} than its guarantee covered: {kept}")


def _running_below(snapshot: Snapshot, placements: Sequence[Placement]) -> dict[QueueName, list[Gang]]:
    """The gangs that hold nodes, by queue and ancestor, with members of these placements on their nodes."""
    gangs = dict(snapshot.gangs)
    for placement in placements:
        gang = gangs.get(placement.gang)
        if gang is not None:
            nodes = {bind.pod: bind.node for bind in placement.binds}
            members = (replace(pod, node=nodes.get(pod.uid, pod.node)) for pod in gang.members)
            gangs[gang.id] = replace(gang, members=tuple(members))
    below: dict[QueueName, list[Gang]] = {}
    for gang in gangs.values():
        for name in _path(gang.queue, snapshot.queues) if gang.nodes else ():
            below.setdefault(name, []).append(gang)
    return below


def _replaces(placement: Placement, snapshot: Snapshot) -> bool:
    """Whether it replaces lost members, or completes a gang that is partly bound: it is never given up.

    Starts and surplus cover nothing: no running gang becomes a victim because the cycle has placed them.
    """
    gang = snapshot.gangs.get(placement.gang)
    is_partly_bound = gang is not None and any(pod.counts_for_gang for pod in gang.members)
    return placement.cause == "replace" or (placement.cause == "start" and is_partly_bound)


def _covered(queue: Queue, gangs: Sequence[Gang]) -> dict[str, list[tuple[Gang, list[Pod]]]]:
    """By device, the members that fit in its guarantee, in queue order. For a parent all gangs or none, with
    their surplus, which may come before a gang if the guarantee of a child covers it.

    Gangs that are not preemptible go first with all their members, only as far as they fit: none is sure if
    not all fit. Members that are evicted one by one are taken one by one.
    """
    found: dict[str, list[tuple[Gang, list[Pod]]]] = {}
    for device, written in queue.guarantee.items():
        left = min(written, queue.limit.get(device, written))
        units = [(gang, pods) for gang in sorted(gangs, key=_rank) for pods in _taken_together(gang)]
        users = [(*unit, total_requests(unit[1]).get(device, 0)) for unit in units]
        users = [each for each in users if each[2] and "/" in device]
        is_parent = any(gang.queue != queue.name for gang, _, _ in users)
        kept = sum(amount for gang, _, amount in users if not gang.disruption.is_preemptible)
        in_all = total_requests([pod for gang in gangs for pod in _holders(gang)]).get(device, 0)
        if kept > left or (is_parent and in_all > left):
            continue
        for gang, pods, amount in users:
            if amount <= left:
                left -= amount
                found.setdefault(device, []).append((gang, pods))
    return found


def _holders(gang: Gang) -> list[Pod]:
    """The members that hold nodes and stay."""
    return [pod for pod in gang.members if pod.holds_node and not pod.deleting]


def _minimum(gang: Gang) -> list[Pod]:
    """The members that hold nodes and stay, without those beyond the minimum."""
    holders = _holders(gang)
    surplus = {pod.uid for pod in surplus_members(gang, holders)}
    return [pod for pod in holders if pod.uid not in surplus]


def _taken_together(gang: Gang) -> list[list[Pod]]:
    """The members that a guarantee covers together: surplus that is not preemptible is not evicted either."""
    if not gang.disruption.is_preemptible:
        return [_holders(gang)]
    if gang.disruption.eviction_mode == "Single":
        return [[pod] for pod in _holders(gang)]
    return [_minimum(gang)]


def _rank(gang: Gang) -> tuple[bool, int, float, int, str]:
    began = min(
        (pod.running_since for pod in gang.members if pod.running_since and pod.holds_node), default=inf
    )
    is_preemptible = gang.disruption.is_preemptible
    return (is_preemptible, -gang.priority, began, gang.complete_since, gang.uid)


def _path(name: QueueName | None, queues: Mapping[QueueName, Queue]) -> list[QueueName]:
    """The queue and its ancestors, each once even in a cycle."""
    found: list[QueueName] = []
    while name is not None and name in queues and name not in found:
        found.append(name)
        name = queues[name].parent
    return found


def _is_never_evicted(victim: Gang, helped: Gang, snapshot: Snapshot) -> bool:
    """Whether it is not preemptible, and all such gangs of its queues are within their written guarantees.

    Without a guarantee of devices below the common ancestor, other queues with a guarantee may evict it.
    """
    if victim.disruption.is_preemptible:
        return False
    path, shared = _path(victim.queue, snapshot.queues), _path(helped.queue, snapshot.queues)
    own = [snapshot.queues[name] for name in path if name not in shared]
    if victim.queue != helped.queue and not any(_guarantees_device(queue) for queue in own):
        return False
    for name in path:
        queue = snapshot.queues[name]
        held = total_requests(
            [
                pod
                for gang in snapshot.gangs.values()
                if not gang.disruption.is_preemptible and name in _path(gang.queue, snapshot.queues)
                for pod in gang.members
                if pod.holds_node
            ]
        )
        for guarantee in (queue.guarantee, *(flavor.guarantee for flavor in queue.flavors)):
            if any(held.get(resource, 0) > amount for resource, amount in guarantee.items()):
                return False
    return True


def _guarantees_device(queue: Queue) -> bool:
    amounts = [queue.guarantee, *(flavor.guarantee for flavor in queue.flavors)]
    return any("/" in name and amount for each in amounts for name, amount in each.items())


def _is_finishing(victim: Gang, snapshot: Snapshot) -> bool:
    """Whether successes have left fewer members than its minimum, so recently that it is not evicted.

    They protect a gang once: a record that tells an earlier time is of the first ones.
    """
    since = _below_minimum_since(victim)
    if since is None:
        return False
    record = snapshot.record_of(victim)
    since = min(since, record.finishing_since) if record is not None and record.finishing_since else since
    bounds = [snapshot.queues[name].max_min_runtime_ms for name in _path(victim.queue, snapshot.queues)]
    most = min((bound for bound in bounds if bound is not None), default=MAX_MIN_RUNTIME_DEFAULT_MS)
    return snapshot.now < since * 1000 + most


def _below_minimum_since(gang: Gang) -> int | None:
    """When the members that had not succeeded became fewer than its minimum, in seconds since the epoch."""
    left = [pod for pod in gang.members if pod.counts_for_gang]
    for pod in sorted(left, key=lambda pod: pod.ran[1] if pod.ran is not None else inf):
        if pod.ran is None:
            return None
        left.remove(pod)
        if not gang.minimum.is_reached(left):
            return pod.ran[1]
    return None


def _may_evict(gang: Gang, victim: Gang) -> bool:
    return gang.queue != victim.queue or gang.priority > victim.priority


def _victim(eviction: Evict, snapshot: Snapshot) -> Gang | None:
    return snapshot.gangs.get(eviction.gang) or snapshot.evictable_pods.get(eviction.gang)


def _outranks(gang: Gang, victim: Gang) -> bool:
    """Whether the gang may evict this pod of another scheduler, by the default configuration."""
    return gang.may_preempt and victim.priority < min(0, gang.priority) and victim.namespace != "kube-system"


def _may_move(gang: Gang, victim: Gang) -> bool:
    return gang.priority >= victim.priority


def _freed(snapshot: Snapshot, gone: set[PodUid]) -> dict[NodeName, Resources]:
    """Usage by node of terminating pods and of those in `gone`."""
    freed: dict[NodeName, Resources] = {}
    for pod in _members([*snapshot.gangs.values(), *snapshot.evictable_pods.values()]):
        if pod.node is not None and pod.holds_node and (pod.deleting or pod.uid in gone):
            freed[pod.node] = add(freed.get(pod.node, NONE), pod_usage(pod))
    return freed


def _taken(
    snapshot: Snapshot, result: CycleResult, nominations: Iterable[Nomination | Move]
) -> dict[NodeName, Resources]:
    """Usage by node of pods bound in this cycle and of beneficiaries."""
    taken: dict[NodeName, Resources] = {}
    for nomination in nominations:
        for node, amounts in _on_nodes(nomination):
            taken[node] = add(taken.get(node, NONE), amounts)
    targets = {bind.pod: bind.node for placement in result.placements for bind in placement.binds}
    for pod in _members(snapshot.gangs.values()):
        if pod.uid in targets:
            taken[targets[pod.uid]] = add(taken.get(targets[pod.uid], NONE), pod.shape.requests)
    return taken


def _on_nodes(nomination: Nomination | Move) -> Iterator[tuple[NodeName, Resources]]:
    """The nominated usage by node, without what only queues are charged for."""
    for node, amounts in nomination.usage.items():
        yield node, without_marked(amounts)


def _members(gangs: Iterable[Gang]) -> list[Pod]:
    return [pod for gang in gangs for pod in gang.members]


BUDGETS: Final = "poddisruptionbudgets.policy"


class _BudgetStatus(Struct, frozen=True):
    """A budget's status from a revision of the store on."""

    revision: int
    selector: Object | None
    allowed: int

    def selects(self, pod: PodFact) -> bool:
        """Whether the selector matches the pod; namespaces are not compared."""
        return label_selector(self.selector)({"metadata": {"labels": dict(pod.labels)}})


class BudgetsAreRespected(Check):
    """S24: a process evicts no more running pods of a budget for other gangs than it allows.

    The limit is the number of allowed disruptions in any version of its status since the process's state at
    the decision, less the pods that the process had evicted and that were not yet being deleted in that
    version. With the default configuration only gangs that are moved must keep within budgets.
    """

    name = "S24"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._budgets: dict[Key, History[_BudgetStatus]] = {}
        self._decided: dict[str, dict[str, float]] = {}

    def on_change(self, change: Change) -> None:
        key = change.entry.key
        if key.resource != BUDGETS:
            return
        gone = change.type is ChangeType.DELETED
        status = None if gone else _budget_status(change.entry.revision, change.entry.data)
        self._budgets.setdefault(key, History()).add(change.entry.revision, status)

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        chosen = [eviction.pod for eviction in result.evictions if eviction.beneficiary]
        if not chosen:
            return
        moved = {each.pod for each in result.evictions if each.reason is EvictionReason.CONSOLIDATED}
        known = self._decided.get(host, {})
        earlier = {uid: at for uid, at in known.items() if at > self.now - GONE_KEPT_S}
        new = [uid for uid in chosen if uid not in earlier]
        self._decided[host] = {**earlier, **dict.fromkeys(new, self.now)}
        revision = self.truth.received(host, "poddisruptionbudgets.policy", before_s=DECIDED_S)
        judged = [uid for uid in new if self.context.hard_budgets or uid in moved]
        for key, history in self._budgets.items():
            self._judge(key, history.since(revision), judged, list(earlier))

    def _judge(
        self, key: Key, versions: Sequence[_BudgetStatus | None], new: Sequence[str], earlier: Sequence[str]
    ) -> None:
        """Check a budget that existed in all these versions."""
        least: tuple[int, _BudgetStatus] | None = None
        for status in versions:
            if status is None:
                return
            disrupted = [
                *self._protected(key, status, new),
                *self._deleted(self._protected(key, status, earlier)),
            ]
            beyond = len(disrupted) - status.allowed if self._protected(key, status, new) else 0
            if least is None or beyond < least[0]:
                least = beyond, status
        if least is not None and least[0] > 0:
            beyond, status = least
            allowed = f"it allows {status.allowed}"
            self.violated(
                f"budget {key.namespace}/{key.name}", f"{beyond} pods too many are evicted, {allowed}"
            )

    def _protected(self, key: Key, status: _BudgetStatus, pods: Iterable[str]) -> list[str]:
        """Pods of the budget that were running and not being deleted at that revision."""
        found = [(uid, self.truth.pod_at(uid, status.revision)) for uid in pods]
        return [
            uid
            for uid, pod in found
            if isinstance(pod, PodFact)
            and pod.namespace == key.namespace
            and pod.phase == "Running"
            and not pod.is_deleting
            and status.selects(pod)
        ]

    def _deleted(self, pods: Iterable[str]) -> list[str]:
        """Those of the pods that are being deleted or are deleted."""
        found = [(uid, self.truth.pods.get(uid)) for uid in pods]
        return [uid for uid, pod in found if pod is None or pod.is_deleting]


def _budget_status(revision: int, budget: Object) -> _BudgetStatus:
    status = budget.get("status") or {}
    is_old = status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0)
    allowed = 0 if is_old else int(status.get("disruptionsAllowed") or 0)
    return _BudgetStatus(revision, budget["spec"].get("selector"), allowed)
