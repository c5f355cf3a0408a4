"""Whether work stays within what its queue is guaranteed: as reclaim and promised starts ask it.

Of two queues those that lie above both count for neither: what they are guaranteed both share.
"""

from collections.abc import Iterable

from phalanx.framework.evictions import Beneficiary
from phalanx.framework.view import SessionView
from phalanx.model.names import QueueName
from phalanx.model.queues import Queue, Selector


def apart(queue: QueueName, other: QueueName, view: SessionView) -> list[Queue]:
    """The queue and those above it that are not above the other one too."""
    shared = {each.name for each in view.queues.path(other)}
    return [each for each in view.queues.path(queue) if each.name not in shared]


def are_within(queues: Iterable[Queue], beneficiary: Beneficiary, view: SessionView) -> bool:
    """Each of them within its own guarantee with what the beneficiary asks for."""
    return all(_is_within(queue, beneficiary, view) for queue in queues)


def _is_within(queue: Queue, beneficiary: Beneficiary, view: SessionView) -> bool:
    """That over all nodes, or that of a flavor if no other nodes can take its pods."""
    if _is_within_part(queue, None, beneficiary, view):
        return True
    return any(
        _is_within_part(queue, selector, beneficiary, view) and _is_confined(beneficiary, selector, view)
        for selector in view.ledger.guaranteed(queue.name)
    )


def _is_within_part(
    queue: Queue, selector: Selector | None, beneficiary: Beneficiary, view: SessionView
) -> bool:
    """Of every resource that it asks for and that the queue guarantees there.

    There must be one, and a device where it asks for any: cores that are guaranteed bring no GPUs.
    """
    kept = view.fair_shares.of(queue.name, selector).guarantee
    used = view.ledger.usage(queue.name, selector)
    named = [name for name, amount in beneficiary.requested.items() if amount and kept.get(name)]
    asks_for_device = any(amount and "/" in name for name, amount in beneficiary.requested.items())
    if not named or (asks_for_device and not any("/" in name for name in named)):
        return False
    return all(used.get(name, 0) + beneficiary.requested[name] <= kept[name] for name in named)


def _is_confined(beneficiary: Beneficiary, selector: Selector, view: SessionView) -> bool:
    """Whether no other node could take any of its pods if nothing else ran."""
    return not any(view.fair_shares.fits_elsewhere(selector, pod) for pod in beneficiary.pod_kinds)
