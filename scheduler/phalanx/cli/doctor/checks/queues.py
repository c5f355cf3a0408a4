"""No Queue contradicts itself or others, and each has a status."""

from collections.abc import Iterator
from typing import Final

from phalanx.cli.doctor.finding import Finding, Severity
from phalanx.cli.doctor.installation import Installation
from phalanx.service.queue_status import GUARANTEED, READY

_ACTIONS: Final = {
    READY: (Severity.ERROR, "Correct the Queue: its gangs do not start until then."),
    GUARANTEED: (Severity.WARNING, "Lower guarantees, or add nodes: other queues get less than they see."),
}


def check(seen: Installation) -> Iterator[Finding]:
    """The conditions that the scheduler wrote. A Queue without them was never seen by a scheduler."""
    for queue in seen.queues:
        name = f"Queue {queue.metadata.name}"
        conditions = {each.type: each for each in queue.status.conditions}
        for kind, (severity, action) in _ACTIONS.items():
            condition = conditions.get(kind)
            if condition is not None and condition.status == "False":
                yield Finding(severity, name, f"{condition.reason}: {condition.message}", action)
        if READY not in conditions:
            yield Finding(
                Severity.WARNING,
                name,
                "It has no status.",
                "See the findings about the Lease: the scheduler writes it within a second.",
            )
