"""Starts gangs that are not preemptible only within the guarantees of their queues, where those have one.

Capacity of such a gang cannot be reclaimed. So all such gangs together hold at most the guarantee of the
queue, and of each ancestor, for the guaranteed resources, on all nodes and on those of each flavor.
Preemptible gangs of the queue do not count, since their capacity can be reclaimed. A guarantee of 0 holds
back every such gang that requests the resource. Guarantees count as declared, also where those of siblings do
not fit and are scaled down: the first gangs that come use the capacity.

Lost members of a started gang are replaced even if the guarantee was lowered, and no running pod is evicted
for that. Surplus members are placed only within the guarantee.
"""

from collections.abc import Iterable, Iterator

from phalanx.framework.plugin import Plugin
from phalanx.framework.queues.ledger import Account
from phalanx.framework.states import PodState
from phalanx.framework.view import SessionView
from phalanx.model.charges import charged_for, plus_devices, total_charges, total_requests
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName, QueueName
from phalanx.model.queues import Queue
from phalanx.model.resources import NONE, Resources, add
from phalanx.rules.budget import Budget
from phalanx.rules.problem import Rule

Use = tuple[QueueName, NodeName, Resources]
"""Amounts that a queue uses on a node."""

Booked = dict[Account, Resources]


class NotPreemptible(Plugin):
    """One Budget rule per guarantee on the path from the gang's queue to the root."""

    name = "not-preemptible"
    lasting_answers = True

    def __init__(self) -> None:
        self._before: Booked | None = None

    def rules(self, gang: Gang, view: SessionView) -> tuple[Rule, ...]:
        """The rest of each guarantee for such gangs; negative if they hold more."""
        if gang.disruption.is_preemptible or _replaces_lost_members(gang, view):
            return ()
        path = view.queues.path(gang.queue)
        if not any(queue.guarantee or any(flavor.guarantee for flavor in queue.flavors) for queue in path):
            return ()
        used = self._used(gang, view)
        return tuple(rule for queue in path for rule in _budgets_of(queue, used, view))

    def _used(self, gang: Gang, view: SessionView) -> Booked:
        if self._before is None:
            self._before = _booked({}, _held(view.gangs.values()), view)
        own = _held([gang] if gang.id not in view.gangs else [])
        return _booked(self._before, [*own, *_taken(view), *_nominated(gang, view)], view)


def _replaces_lost_members(gang: Gang, view: SessionView) -> bool:
    """Whether members that replace lost or reserved ones are to be placed next, or only held.

    They are tried before everything else that the gang lacks.
    """
    record, placed = view.records.of(gang), PodState.ALLOCATED
    counted = [pod for pod in gang.members if pod.counts_for_gang or view.pod_state(pod) is placed]
    if gang.minimum.is_reached(counted):
        return False
    waiting = [pod for pod in gang.members if view.pod_state(pod) is PodState.WAITING and not pod.gated]
    return any(pod.uid in record.repairs for pod in waiting) or (not waiting and bool(record.places))


def _budgets_of(queue: Queue, used: Booked, view: SessionView) -> Iterator[Rule]:
    for flavor in (None, *queue.flavors):
        declared = queue.guarantee if flavor is None else flavor.guarantee
        selector = None if flavor is None else flavor.node_selector
        held = used.get((queue.name, selector), NONE)
        if declared:
            of_flavor = f" of flavor {flavor.name}" if flavor is not None else ""
            yield Budget(
                name=f"guarantee of queue {queue.name}{of_flavor} for gangs that are not preemptible",
                remaining={name: amount - held.get(name, 0) for name, amount in declared.items()},
                nodes=None if selector is None else view.ledger.nodes_of(selector),
            )


def _booked(before: Booked, uses: Iterable[Use], view: SessionView) -> Booked:
    totals = dict(before)
    for queue, node, amounts in uses:
        for account in view.ledger.accounts(queue, node):
            totals[account] = add(totals.get(account, NONE), amounts)
    return totals


def _held(gangs: Iterable[Gang]) -> Iterator[Use]:
    """The usage of pods that had nodes before this cycle."""
    for gang in gangs:
        for pod in gang.members if not gang.disruption.is_preemptible else ():
            if pod.node is not None and pod.holds_node:
                yield gang.queue, pod.node, charged_for(pod)


def _taken(view: SessionView) -> Iterator[Use]:
    """The usage of placements of this cycle, and of capacity held for lost members."""
    counted: dict[QueueName, set[str]] = {}
    for placement in view.placements:
        gang = view.gangs[placement.gang]
        pods = {} if gang.disruption.is_preemptible else {pod.uid: pod for pod in gang.members}
        for bind in placement.binds if pods else ():
            pod, claims = pods[bind.pod], counted.setdefault(gang.queue, set())
            yield gang.queue, bind.node, plus_devices(total_requests([pod]), [pod], claims)
    for hold in view.capacity_holds:
        for node, placeholders in hold.assignments if not hold.gang.disruption.is_preemptible else ():
            yield hold.gang.queue, node, total_charges(placeholders)


def _nominated(gang: Gang, view: SessionView) -> Iterator[Use]:
    """Nominated capacity of gangs of at least the same priority, which counts as used."""
    nominations = view.memory.nominations
    if gang.id in nominations:
        return
    for gang_id, nomination in nominations.items():
        other = view.gangs.get(gang_id)
        if other is None or other.disruption.is_preemptible or view.assigned_nodes(other):
            continue
        for node, amounts in nomination.usage.items() if other.priority >= gang.priority else ():
            yield other.queue, node, amounts
