"""Starts gangs that are not preemptible only inside the guarantees of their queues, where those have one.

What such a gang holds nobody can take back, so together they hold no more than the queue, and each one above
it, guarantees of what it guarantees, over all nodes and on those of each flavor. Other gangs of the queue do
not count: what they hold can be taken back. A guarantee that cannot be kept whole counts as far as it can.

A gang that has started gets lost members back, and all of them, whatever the guarantee is by then; nothing is
taken away where it was lowered. Surplus members are new.
"""

from collections.abc import Iterable, Iterator

from phalanx.framework.plugin import Plugin
from phalanx.framework.queues.ledger import Account
from phalanx.framework.statement import total_requests
from phalanx.framework.states import PodState
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName, QueueName
from phalanx.model.queues import Queue
from phalanx.model.resources import NONE, Resources, add
from phalanx.model.rules import Budget, Rule

Use = tuple[QueueName, NodeName, Resources]
"""What of a queue is used on a node."""

Booked = dict[Account, Resources]


class NotPreemptible(Plugin):
    """One Budget rule per guarantee from the gang's queue to its root; no eviction gives any of it back."""

    name = "not-preemptible"

    def __init__(self) -> None:
        self._before: Booked | None = None

    def rules(self, gang: Gang, view: SessionView) -> tuple[Rule, ...]:
        """What is left of each guarantee for such gangs now; negative where they hold more than that."""
        if gang.disruption.is_preemptible or _gets_members_back(gang, view):
            return ()
        path = view.queues.path(gang.queue)
        if not any(queue.guarantee or any(each.guarantee for each in queue.flavors) for queue in path):
            return ()
        used = self._used(gang, view)
        return tuple(rule for queue in path for rule in _budgets_of(queue, used, view))

    def _used(self, gang: Gang, view: SessionView) -> Booked:
        if self._before is None:
            self._before = _booked({}, _held(view.gangs.values()), view)
        own = _held([gang] if gang.id not in view.gangs else [])
        return _booked(self._before, [*own, *_taken(view), *_nominated(gang, view)], view)


def _gets_members_back(gang: Gang, view: SessionView) -> bool:
    """Whether it lacks members of its minimum which it had before."""
    if not gang.active:
        return gang.starts_over
    placed = PodState.ALLOCATED
    counted = [pod for pod in gang.members if pod.counts_for_gang or view.pod_state(pod) is placed]
    return not gang.minimum.is_reached(counted)


def _budgets_of(queue: Queue, used: Booked, view: SessionView) -> Iterator[Rule]:
    for flavor in (None, *queue.flavors):
        asked = queue.guarantee if flavor is None else flavor.guarantee
        selector = None if flavor is None else flavor.node_selector
        kept = view.fair_shares.of(queue.name, selector).guarantee
        mine = used.get((queue.name, selector), NONE)
        remaining = {each: kept.get(each, 0) - mine.get(each, 0) for each, amount in asked.items() if amount}
        if remaining:
            of_flavor = f" of flavor {flavor.name}" if flavor is not None else ""
            yield Budget(
                name=f"guarantee of queue {queue.name}{of_flavor} for gangs that are not preemptible",
                remaining=remaining,
                nodes=None if selector is None else view.ledger.nodes_of(selector),
            )


def _booked(before: Booked, uses: Iterable[Use], view: SessionView) -> Booked:
    totals = dict(before)
    for queue, node, amounts in uses:
        for account in view.ledger.accounts(queue, node):
            totals[account] = add(totals.get(account, NONE), amounts)
    return totals


def _held(gangs: Iterable[Gang]) -> Iterator[Use]:
    """What pods hold that had nodes before this cycle."""
    for gang in gangs:
        for pod in gang.members if not gang.disruption.is_preemptible else ():
            if pod.node is not None and pod.holds_node:
                yield gang.queue, pod.node, total_requests([pod])


def _taken(view: SessionView) -> Iterator[Use]:
    """What this cycle placed, and what it keeps for lost members."""
    for placement in view.placements:
        gang = view.gangs[placement.gang]
        pods = {} if gang.disruption.is_preemptible else {pod.uid: pod for pod in gang.members}
        for bind in placement.binds if pods else ():
            yield gang.queue, bind.node, total_requests([pods[bind.pod]])
    for kept in view.capacity_holds:
        for node, placeholders in kept.assignments if not kept.gang.disruption.is_preemptible else ():
            yield kept.gang.queue, node, total_requests(placeholders)


def _nominated(gang: Gang, view: SessionView) -> Iterator[Use]:
    """What room is being made for, and so is as good as taken; but not by those of a higher priority."""
    nominations = view.memory.nominations
    if gang.id in nominations:
        return
    for gang_id, each in nominations.items():
        other = view.gangs.get(gang_id)
        if other is None or other.disruption.is_preemptible or view.assigned_nodes(other):
            continue
        for node, amounts in each.seats.items() if other.priority >= gang.priority else ():
            yield other.queue, node, amounts
