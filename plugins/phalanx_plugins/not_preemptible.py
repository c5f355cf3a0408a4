"""Starts gangs that are not preemptible only inside the guarantees of their queues, where those have one.

What such a gang holds nobody can take back, so together they hold no more than the queue, and each one above
it, guarantees of what it guarantees, over all nodes and on those of each flavor. Other gangs of the queue do
not count: what they hold can be taken back. A guarantee that cannot be kept whole counts as far as it can.

A gang that has started gets lost members back, and all of them, whatever the guarantee is by then; nothing is
taken away where it was lowered. Surplus members are new.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from phalanx.framework.queues.ledger import Account
from phalanx.framework.session import Session
from phalanx.framework.statement import total_requests
from phalanx.framework.states import PodState
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName, QueueName
from phalanx.model.queues import Queue
from phalanx.model.resources import NONE, Resources, add
from phalanx.model.rules import Budget, Rule

Use = tuple[QueueName, NodeName, Resources]
"""What of a queue is used on a node."""

Booked = dict[Account, Resources]


class NotPreemptible:
    """One Budget rule per guarantee from the gang's queue to its root; no eviction gives any of it back."""

    name: Final = "not-preemptible"

    def __init__(self) -> None:
        self._before: Booked | None = None

    def rules(self, gang: Gang, session: Session) -> tuple[Rule, ...]:
        """What is left of each guarantee for such gangs now; negative where they hold more than that."""
        if gang.disruption.is_preemptible or _gets_members_back(gang, session):
            return ()
        path = session.queues.path(gang.queue)
        if not any(queue.guarantee or any(each.guarantee for each in queue.flavors) for queue in path):
            return ()
        used = self._used(gang, session)
        return tuple(rule for queue in path for rule in _budgets_of(queue, used, session))

    def _used(self, gang: Gang, session: Session) -> Booked:
        if self._before is None:
            self._before = _booked({}, _held(session.gangs.values()), session)
        own = _held([gang] if gang.id not in session.gangs else [])
        return _booked(self._before, [*own, *_taken(session), *_nominated(gang, session)], session)


def _gets_members_back(gang: Gang, session: Session) -> bool:
    """Whether it lacks members of its minimum which it had before."""
    if not gang.active:
        return gang.starts_over
    placed = PodState.ALLOCATED
    counted = [pod for pod in gang.members if pod.counts_for_gang or session.pod_state(pod) is placed]
    return not gang.minimum.is_reached(counted)


def _budgets_of(queue: Queue, used: Booked, session: Session) -> Iterator[Rule]:
    for flavor in (None, *queue.flavors):
        asked = queue.guarantee if flavor is None else flavor.guarantee
        selector = None if flavor is None else flavor.node_selector
        kept = session.fair_shares.of(queue.name, selector).guarantee
        mine = used.get((queue.name, selector), NONE)
        remaining = {each: kept.get(each, 0) - mine.get(each, 0) for each, amount in asked.items() if amount}
        if remaining:
            of_flavor = f" of flavor {flavor.name}" if flavor is not None else ""
            yield Budget(
                name=f"guarantee of queue {queue.name}{of_flavor} for gangs that are not preemptible",
                remaining=remaining,
                nodes=None if selector is None else session.ledger.nodes_of(selector),
            )


def _booked(before: Booked, uses: Iterable[Use], session: Session) -> Booked:
    totals = dict(before)
    for queue, node, amounts in uses:
        for account in session.ledger.accounts(queue, node):
            totals[account] = add(totals.get(account, NONE), amounts)
    return totals


def _held(gangs: Iterable[Gang]) -> Iterator[Use]:
    """What pods hold that had nodes before this cycle."""
    for gang in gangs:
        for pod in gang.members if not gang.disruption.is_preemptible else ():
            if pod.node is not None and pod.holds_node:
                yield gang.queue, pod.node, total_requests([pod])


def _taken(session: Session) -> Iterator[Use]:
    """What this cycle placed, and what it keeps for lost members."""
    for placement in session.placements:
        gang = session.gangs[placement.gang]
        pods = {} if gang.disruption.is_preemptible else {pod.uid: pod for pod in gang.members}
        for bind in placement.binds if pods else ():
            yield gang.queue, bind.node, total_requests([pods[bind.pod]])
    for kept in session.kept:
        for node, placeholders in kept.seats if not kept.gang.disruption.is_preemptible else ():
            yield kept.gang.queue, node, total_requests(placeholders)


def _nominated(gang: Gang, session: Session) -> Iterator[Use]:
    """What room is being made for, and so is as good as taken; but not by those of a higher priority."""
    nominations = session.snapshot.memory.nominations
    if gang.id in nominations:
        return
    for gang_id, each in nominations.items():
        other = session.gangs.get(gang_id)
        if other is None or other.disruption.is_preemptible or session.assigned_nodes(other):
            continue
        for node, amounts in each.seats.items() if other.priority >= gang.priority else ():
            yield other.queue, node, amounts
