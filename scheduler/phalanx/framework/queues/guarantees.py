"""Whether a gang stays within the guarantees of its queues: the condition of reclaim and of reservations.

Two queues are compared below their lowest common ancestor, since they share the guarantees above it.
"""

from collections.abc import Iterable

from phalanx.framework.evictions import Beneficiary
from phalanx.framework.view import SessionView
from phalanx.model.names import QueueName
from phalanx.model.queues import Queue, Selector


def below_common_ancestor(queue: QueueName, other: QueueName, view: SessionView) -> list[Queue]:
    """The queue and its ancestors that are not ancestors of the other queue."""
    shared = {ancestor.name for ancestor in view.queues.path(other)}
    return [ancestor for ancestor in view.queues.path(queue) if ancestor.name not in shared]


def are_within_guarantees(queues: Iterable[Queue], beneficiary: Beneficiary, view: SessionView) -> bool:
    """Whether each queue stays within its guarantee with the requests of the beneficiary."""
    return all(_is_within_guarantee(queue, beneficiary, view) for queue in queues)


def _is_within_guarantee(queue: Queue, beneficiary: Beneficiary, view: SessionView) -> bool:
    """Whether it is within the guarantee on all nodes, or of a flavor to which its pods are confined."""
    if _is_within_guarantee_on(queue, None, beneficiary, view):
        return True
    return any(
        _is_within_guarantee_on(queue, selector, beneficiary, view)
        and _is_confined(beneficiary, selector, view)
        for selector in view.ledger.guaranteed(queue.name)
    )


def _is_within_guarantee_on(
    queue: Queue, selector: Selector | None, beneficiary: Beneficiary, view: SessionView
) -> bool:
    """Whether usage and requests fit the guarantee, for each requested resource that is guaranteed.

    At least one must be guaranteed, and a device where devices are requested.
    """
    kept = view.fair_shares.of(queue.name, selector).guarantee
    used = view.ledger.usage(queue.name, selector)
    named = [name for name, amount in beneficiary.requested.items() if amount and kept.get(name)]
    requests_device = any(amount and "/" in name for name, amount in beneficiary.requested.items())
    if not named or (requests_device and not any("/" in name for name in named)):
        return False
    return all(used.get(name, 0) + beneficiary.requested[name] <= kept[name] for name in named)


def _is_confined(beneficiary: Beneficiary, selector: Selector, view: SessionView) -> bool:
    """Whether no node outside the flavor could take any of its pods if nothing else ran."""
    return not any(view.fair_shares.fits_elsewhere(selector, pod) for pod in beneficiary.pod_kinds)
