"""S22, S24: evictions for another gang are allowed, help it, and respect PodDisruptionBudgets."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from phalanx.framework.evictions import is_marked_for_eviction
from phalanx.framework.statement import total_requests
from phalanx.model.decisions import CycleResult, Evict
from phalanx.model.gangs import Gang
from phalanx.model.gpu_shares import pod_usage
from phalanx.model.memory import Move, Nomination
from phalanx.model.names import GangId, NodeName, PodUid, QueueName
from phalanx.model.numa import is_numa_resource
from phalanx.model.pods import Pod
from phalanx.model.queues import Queue
from phalanx.model.resources import NONE, Resources, add
from phalanx.model.snapshot import Snapshot

from phalanx_simulator.embedded.apiserver.selectors import label_selector
from phalanx_simulator.embedded.store import Change, ChangeType, Key, Object
from phalanx_simulator.invariants.bounds import DECIDED_S, GONE_KEPT_S
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.facts import PodFact
from phalanx_simulator.invariants.history import History
from phalanx_simulator.invariants.truth import Truth

MOVED: Final = "Consolidated"
"""The reason of evictions of gangs that start again elsewhere at once."""


class PreemptionsAreValid(Check):
    """S22: victims may be evicted, gangs stay whole or go, and the beneficiary then fits.

    A victim is of lower priority in the same queue, or of another queue, whose use stays at its guarantee;
    one that is moved is of no higher priority, and room is kept for it too. It may be preempted, and is not
    finishing; but who was told to go is evicted whatever was edited since. Of its gang all go, or those that
    stay are its minimum. On each node where the other gang will go, what is free, what is being deleted and
    what is evicted are enough for it and for all others for whom room is made there; later, work of higher
    priority in its queue may take of that.
    """

    name = "S22"

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        if any(placement.gang in snapshot.memory.nominations for placement in result.placements):
            self.reached("capacity-freed")
        preempting = [eviction for eviction in result.evictions if eviction.beneficiary]
        gone = {eviction.pod for eviction in result.evictions}
        for eviction in preempting:
            self._check_victim(eviction, snapshot, result)
        for gang_id in dict.fromkeys(eviction.gang for eviction in preempting):
            gang = snapshot.gangs.get(gang_id)
            if gang is not None:
                self._check_rest(gang, gone)
        if preempting:
            self._mark(preempting, snapshot)
            self._check_room(snapshot, result, gone)
            lost = [eviction for eviction in preempting if eviction.reason != MOVED]
            self._check_guarantees(snapshot, result, lost)

    def _mark(self, preempting: Sequence[Evict], snapshot: Snapshot) -> None:
        self.reached("gang-preempted")
        queues = {str(gang): gang.queue for gang in snapshot.gangs.values()}
        for eviction in preempting:
            victim = snapshot.gangs.get(eviction.gang)
            if eviction.reason == MOVED:
                self.reached("gang-moved")
            elif victim is not None and queues.get(eviction.beneficiary) != victim.queue:
                self.reached("gang-reclaimed")

    def _check_victim(self, eviction: Evict, snapshot: Snapshot, result: CycleResult) -> None:
        victim = snapshot.gangs.get(eviction.gang)
        helped = [gang for gang in snapshot.gangs.values() if str(gang) == eviction.beneficiary]
        if victim is None or not helped:
            self.violated(eviction.name, f"evicted for {eviction.beneficiary}, and one of them is not there")
            return
        was_told = any(pod.uid == eviction.pod and is_marked_for_eviction(pod) for pod in victim.members)
        if not was_told and (not victim.disruption.is_preemptible or victim.is_finishing):
            self.violated(eviction.name, f"evicted although {victim} is finishing or not preemptible")
        allows = _may_move if eviction.reason == MOVED else _may_evict
        moving = {*snapshot.memory.moves, *result.memory.moves}
        if eviction.reason == MOVED and eviction.gang not in moving:
            self.violated(eviction.name, f"evicted to be moved, and no room is kept for {victim}")
        if not was_told and not any(allows(gang, victim) for gang in helped):
            self.violated(eviction.name, f"{eviction.beneficiary} may not evict {victim}")

    def _check_rest(self, gang: Gang, gone: set[PodUid]) -> None:
        stay = [pod for pod in gang.members if pod.counts_for_gang and pod.uid not in gone]
        holds = any(pod.holds_node for pod in stay)
        if holds and not gang.minimum.is_reached(stay) and gang.disruption.eviction_mode == "All":
            self.violated(str(gang), f"{len(stay)} members stay, which are no minimum")

    def _check_room(self, snapshot: Snapshot, result: CycleResult, gone: set[PodUid]) -> None:
        before, after = snapshot.memory, result.memory
        new: dict[GangId, Nomination | Move] = {
            gang: nomination
            for gang, nomination in after.nominations.items()
            if nomination.decided == snapshot.now and nomination != before.nominations.get(gang)
        }
        started = {gang: move for gang, move in after.moves.items() if gang not in before.moves}
        new.update(started)
        going = {pod for nomination in after.nominations.values() for pod in nomination.victims}
        back = _given_back(snapshot, gone | going)
        taken = _taken(snapshot, result, [*after.nominations.values(), *started.values()])
        for gang, nomination in new.items():
            for node, amounts in nomination.usage.items():
                state = snapshot.nodes.get(node)
                room = add(state.free, back.get(node, NONE)) if state is not None else NONE
                counted = [name for name in amounts if amounts[name] and not is_numa_resource(name)]
                if any(room.get(name, 0) < taken[node].get(name, 0) for name in counted):
                    self.violated(gang, f"room is made for it on {node}, which has {room} for {taken[node]}")

    def _check_guarantees(self, snapshot: Snapshot, result: CycleResult, preempting: Sequence[Evict]) -> None:
        """Other queues keep their guarantees without the victims and the terminating pods."""
        placed = {bind.pod for placement in result.placements for bind in placement.binds}
        gone = {eviction.pod for eviction in preempting}
        helped = {str(gang): gang.queue for gang in snapshot.gangs.values()}
        spared = {
            name
            for eviction in preempting
            for name in _path(helped.get(eviction.beneficiary), snapshot.queues)
        }
        left: dict[QueueName, Resources] = {}
        lost: dict[QueueName, Resources] = {}
        for gang in snapshot.gangs.values():
            pods = [pod for pod in gang.members if (pod.holds_node and not pod.deleting) or pod.uid in placed]
            stays = total_requests([pod for pod in pods if pod.uid not in gone])
            goes = total_requests([pod for pod in pods if pod.uid in gone])
            for name in _path(gang.queue, snapshot.queues) if pods else ():
                left[name], lost[name] = add(left.get(name, NONE), stays), add(lost.get(name, NONE), goes)
        for queue in snapshot.queues.values():
            if queue.name in spared or result.queues[queue.name].unmet_guarantees:
                continue
            keeps = left.get(queue.name, NONE)
            for resource, amount in queue.guarantee.items():
                has = keeps.get(resource, 0)
                if lost.get(queue.name, NONE).get(resource, 0) and has < amount:
                    self.violated(queue.name, f"keeps {has} {resource} of its guarantee {amount}")


def _path(name: QueueName | None, queues: Mapping[QueueName, Queue]) -> list[QueueName]:
    """The queue and its ancestors, each once even in a cycle."""
    found: list[QueueName] = []
    while name is not None and name in queues and name not in found:
        found.append(name)
        name = queues[name].parent
    return found


def _may_evict(gang: Gang, victim: Gang) -> bool:
    return gang.queue != victim.queue or gang.priority > victim.priority


def _may_move(gang: Gang, victim: Gang) -> bool:
    return gang.priority >= victim.priority


def _given_back(snapshot: Snapshot, gone: set[PodUid]) -> dict[NodeName, Resources]:
    back: dict[NodeName, Resources] = {}
    for pod in _members(snapshot.gangs.values()):
        if pod.node is not None and pod.holds_node and (pod.deleting or pod.uid in gone):
            back[pod.node] = add(back.get(pod.node, NONE), pod_usage(pod))
    return back


def _taken(
    snapshot: Snapshot, result: CycleResult, nominations: Iterable[Nomination | Move]
) -> dict[NodeName, Resources]:
    """Resources per node of pods bound now and of beneficiaries."""
    taken: dict[NodeName, Resources] = {}
    for nomination in nominations:
        for node, amounts in nomination.usage.items():
            taken[node] = add(taken.get(node, NONE), amounts)
    targets = {bind.pod: bind.node for placement in result.placements for bind in placement.binds}
    for pod in _members(snapshot.gangs.values()):
        if pod.uid in targets:
            taken[targets[pod.uid]] = add(taken.get(targets[pod.uid], NONE), pod.shape.requests)
    return taken


def _members(gangs: Iterable[Gang]) -> list[Pod]:
    return [pod for gang in gangs for pod in gang.members]


BUDGETS: Final = "poddisruptionbudgets.policy"


class _BudgetStatus(Struct, frozen=True):
    """A budget's status at a revision of the store."""

    revision: int
    selector: Object | None
    allowed: int

    def is_about(self, pod: PodFact) -> bool:
        """Whether it protects the pod, if that is in its namespace."""
        return label_selector(self.selector)({"metadata": {"labels": dict(pod.labels)}})


class BudgetsAreRespected(Check):
    """S24: a process evicts no more running pods of a budget for other gangs than it allows.

    It allows what its status said at some moment since what the process had heard of when it decided, less
    those evicted by the process which were not being deleted yet at that moment. Only for budgets as the
    configuration has them by default, hard ones.
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
        known = self._decided.get(host, {})
        earlier = {uid: at for uid, at in known.items() if at > self.now - GONE_KEPT_S}
        new = [uid for uid in chosen if uid not in earlier]
        self._decided[host] = {**earlier, **dict.fromkeys(new, self.now)}
        revision = self.truth.received(host, "poddisruptionbudgets", before_s=DECIDED_S)
        for key, history in self._budgets.items():
            self._judge(key, history.since(revision), new, list(earlier))

    def _judge(
        self, key: Key, versions: Sequence[_BudgetStatus | None], new: Sequence[str], earlier: Sequence[str]
    ) -> None:
        """Check a budget, unless it was created since the snapshot."""
        least: tuple[int, _BudgetStatus] | None = None
        for status in versions:
            if status is None:
                return
            going = [
                *self._protected(key, status, new),
                *self._deleted(self._protected(key, status, earlier)),
            ]
            beyond = len(going) - status.allowed if self._protected(key, status, new) else 0
            if least is None or beyond < least[0]:
                least = beyond, status
        if least is not None and least[0] > 0:
            beyond, status = least
            allowed = f"it allows {status.allowed}"
            self.violated(f"budget {key.namespace}/{key.name}", f"{beyond} pods too many go, {allowed}")

    def _protected(self, key: Key, status: _BudgetStatus, pods: Iterable[str]) -> list[str]:
        """Pods of the budget that ran and were not being deleted at that revision."""
        found = [(uid, self.truth.pod_at(uid, status.revision)) for uid in pods]
        return [
            uid
            for uid, pod in found
            if isinstance(pod, PodFact)
            and pod.namespace == key.namespace
            and pod.phase == "Running"
            and not pod.is_deleting
            and status.is_about(pod)
        ]

    def _deleted(self, pods: Iterable[str]) -> list[str]:
        """Evicted pods that are being deleted or gone."""
        found = [(uid, self.truth.pods.get(uid)) for uid in pods]
        return [uid for uid, pod in found if pod is None or pod.is_deleting]


def _budget_status(revision: int, budget: Object) -> _BudgetStatus:
    status = budget.get("status") or {}
    is_old = status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0)
    allowed = 0 if is_old else int(status.get("disruptionsAllowed") or 0)
    return _BudgetStatus(revision, budget["spec"].get("selector"), allowed)
