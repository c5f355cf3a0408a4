"""Guarantees that wait for what gangs use beside devices that other guarantees cover: docs/guarantees.md.

Such gangs stay. The conditions of the queue whose guarantee waits, and of the one that is guaranteed the
devices, name the resource that is promised to both.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

from phalanx.framework.queues.covered_units import devices_of
from phalanx.framework.queues.fair_shares import FairShares
from phalanx.framework.queues.guarantees import Guarantees, below_common_ancestor
from phalanx.framework.queues.ledger import Ledger
from phalanx.framework.queues.queue_tree import QueueTree
from phalanx.limits import SHOWN_QUEUES
from phalanx.model.names import QueueName
from phalanx.model.queues import Queue
from phalanx.model.reasons import Objection, Reason


class _Session(Protocol):
    """The parts of the session that decide it."""

    queues: QueueTree
    ledger: Ledger

    @property
    def fair_shares(self) -> FairShares: ...
    @property
    def guarantees(self) -> Guarantees: ...


def unserved_guarantees(session: _Session) -> Mapping[QueueName, list[Objection]]:
    """By queue, what its guarantee lacks, or keeps others from."""
    found: dict[QueueName, list[Objection]] = {}
    waited_for: dict[tuple[QueueName, str], list[QueueName]] = {}
    for queue, resource in _waiting(session):
        available, carriers = _available(queue, resource, session)
        share = session.fair_shares.of(queue.name)
        if carriers and min(share.written[resource], share.demand[resource]) > available:
            found.setdefault(queue.name, []).append(_lacks(resource, carriers))
            for carrier in carriers:
                waited_for.setdefault((carrier, resource), []).append(queue.name)
    for (carrier, resource), queues in waited_for.items():
        found.setdefault(carrier, []).append(_holds(resource, queues))
    return found


def _waiting(session: _Session) -> Iterator[tuple[Queue, str]]:
    """The resources that a queue waits for within its guarantee, and of which not so much is free."""
    shares = session.fair_shares
    roots = [queue.name for queue in session.queues if session.queues.parent_of(queue.name) is None]
    for queue in session.queues:
        share, used = shares.of(queue.name), session.ledger.usage(queue.name)
        for name, most in sorted(share.written.items()):
            missing = min(most, share.demand.get(name, 0)) - used.get(name, 0)
            if missing > 0 and _some_carry(name, session):
                all_used = sum(session.ledger.usage(root).get(name, 0) for root in roots)
                if missing > shares.capacity.get(name, 0) - all_used:
                    yield queue, name


def _some_carry(resource: str, session: _Session) -> bool:
    """Whether the guarantees of a queue name a device and not the resource."""
    guaranteed = (queue.guaranteed_resources for queue in session.queues)
    return any(devices_of(names) and resource not in names for names in guaranteed)


def _available(queue: Queue, resource: str, session: _Session) -> tuple[int, list[QueueName]]:
    """What covered gangs of other queues leave, and the queues that are guaranteed devices beside which they
    use the resource."""
    available = session.fair_shares.capacity.get(resource, 0)
    carriers: dict[QueueName, None] = {}
    for gang in session.guarantees.running:
        theirs = below_common_ancestor(gang.queue, queue.name, session)
        if theirs and below_common_ancestor(queue.name, gang.queue, session):
            covered, carried = session.guarantees.protected_usage(gang, theirs[-1].name, resource)
            available -= covered
            if carried:
                carriers |= {each.name: None for each in theirs if devices_of(each.guaranteed_resources)}
    return available, sorted(carriers)


def _lacks(resource: str, carriers: list[QueueName]) -> Objection:
    return Objection(
        Reason.QUEUE_INVALID,
        f"spec.guarantee[{resource}]: gangs use it beside the devices that are guaranteed to "
        f"{_names(carriers)}",
        f"Name {resource} in the guarantees of devices too, so that all guarantees fit",
    )


def _holds(resource: str, waiting: list[QueueName]) -> Objection:
    return Objection(
        Reason.QUEUE_INVALID,
        f"spec.guarantee: it does not name {resource}, which its gangs use beside guaranteed devices and "
        f"which is guaranteed to {_names(waiting)}",
        f"Name {resource} in the guarantee of devices too, so that all guarantees fit",
    )


def _names(queues: list[QueueName]) -> str:
    more = len(queues) - SHOWN_QUEUES
    return ", ".join(queues[:SHOWN_QUEUES]) + (f" and {more} more" if more > 0 else "")
