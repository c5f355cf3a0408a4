"""Which running gangs with `disruption.preemptible: false` the guarantees of their queues protect.

Such a gang starts only within the guarantees that its queue and its ancestors name, but a running gang may
become one, and pods may be bound by hand. So such gangs are taken in the order of their starts, and those
are protected that fit together into the guarantees as declared. The rule is in docs/preemption.md.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from phalanx.framework.queues.ledger import Account, Ledger
from phalanx.framework.queues.queue_tree import QueueTree
from phalanx.model.charges import charged_for
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId
from phalanx.model.queues import Queue, Selector, allows_non_preemptible, counted_uses
from phalanx.model.resources import NONE, Resources, add


class _Session(Protocol):
    """The parts of the session that decide it."""

    @property
    def queues(self) -> QueueTree: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def now(self) -> int: ...
    @property
    def gangs_after_starts(self) -> Mapping[GangId, Gang]: ...


def protected_gangs(session: _Session) -> Iterator[GangId]:
    """The gangs with `preemptible: false` that fit the guarantees, taken in the order of their starts."""
    gangs = [
        gang
        for gang in session.gangs_after_starts.values()
        if not gang.disruption.is_preemptible and gang.nodes and _is_where_guaranteed(gang, session)
    ]
    held: dict[Account, Resources] = {}
    for gang in sorted(gangs, key=lambda each: (start_time(each, session.now), each.created, each.uid)):
        after = {
            account: add(held.get(account, NONE), amounts)
            for account, amounts in _usage(gang, session.ledger).items()
        }
        if all(_fits(queue, after) for queue in session.queues.path(gang.queue)):
            held.update(after)
            yield gang.id


def _is_where_guaranteed(gang: Gang, session: _Session) -> bool:
    """Whether guarantees of what it uses are named on its nodes; or if none is named, but allowed."""
    path = session.queues.path(gang.queue)
    named = {
        (queue.name, selector): {name for amounts in _declared(queue, selector) for name in amounts}
        for queue in path
        for selector in (None, *{flavor.node_selector for flavor in queue.flavors})
    }
    if not any(named.values()) or allows_non_preemptible(path):
        return True
    holding = {(pod.node, tuple(charged_for(pod))) for pod in gang.members if pod.holds_node and pod.node}
    return not any(
        all(names.isdisjoint(named.get(account, ())) for account in session.ledger.accounts(gang.queue, node))
        for node, names in counted_uses(holding)
    )


def start_time(gang: Gang, now: int) -> int:
    """When the gang started (ms); now if its first pods are about to be bound, 0 if nothing is known."""
    holding = [pod for pod in gang.members if pod.holds_node and not pod.assumed]
    if not holding:
        return now
    times = [gang.started_at, *(pod.bound_since or pod.running_since or pod.created for pod in holding)]
    return min([at for at in times if at], default=0) * 1000


def names_guarantee(queues: Iterable[Queue], selector: Selector | None, resource: str) -> bool:
    """Whether a queue declares a guarantee of the resource, on all nodes or for a flavor; 0 is one."""
    return any(resource in guarantee for queue in queues for guarantee in _declared(queue, selector))


def _declared(queue: Queue, selector: Selector | None) -> list[Resources]:
    if selector is None:
        return [queue.guarantee]
    return [flavor.guarantee for flavor in queue.flavors if flavor.node_selector == selector]


def _usage(gang: Gang, ledger: Ledger) -> dict[Account, Resources]:
    """What the gang holds, by the accounts that count it."""
    found: dict[Account, Resources] = {}
    for pod in gang.members:
        if pod.node is not None and pod.holds_node:
            for account in ledger.accounts(gang.queue, pod.node):
                found[account] = add(found.get(account, NONE), charged_for(pod))
    return found


def _fits(queue: Queue, held: Mapping[Account, Resources]) -> bool:
    """Whether the amounts are within the guarantees of the queue, on all nodes and per flavor."""
    return all(
        held.get((queue.name, selector), NONE).get(name, 0) <= amount
        for selector in (None, *{flavor.node_selector for flavor in queue.flavors})
        for guarantee in _declared(queue, selector)
        for name, amount in guarantee.items()
    )
