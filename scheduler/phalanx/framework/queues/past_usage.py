"""What queues used lately, on average: use counts half as much after each half-life.

The average moves towards what the queue uses, by half of the distance in each half-life, in whole numbers.
From one cycle to the next that is what it used at the end of the first. When the scheduler has just started,
the average is taken from the queue's status, and what it uses now for what it used since then; a queue of
which nothing is told begins with nothing.
"""

from collections.abc import Callable, Iterable, Mapping

from phalanx.framework.decay import decayed
from phalanx.model.names import QueueName
from phalanx.model.queues import PastUsage, Queue, past_unit
from phalanx.model.resources import Resources


def past_usage(
    queues: Iterable[Queue],
    known: Mapping[QueueName, PastUsage],
    usage: Callable[[QueueName], Resources],
    *,
    now: int,
    half_life: int,
) -> Mapping[QueueName, PastUsage]:
    """The average of each queue with its descendants, as of now; nothing without a half-life (ms).

    `known` is what the last cycle handed on, `usage` what a queue uses now.
    """
    if not half_life:
        return {}
    found: dict[QueueName, PastUsage] = {}
    for queue in queues:
        before = known.get(queue.name) or queue.past or PastUsage({}, now)
        used = before.using if before.using is not None else usage(queue.name)
        found[queue.name] = PastUsage(_moved(before.amounts, used, now - before.at, half_life), now)
    return found


def _moved(average: Resources, used: Resources, elapsed: int, half_life: int) -> dict[str, int]:
    moved: dict[str, int] = {}
    for name in sorted({*average, *used}):
        towards = used.get(name, 0) * past_unit(name)
        distance = average.get(name, 0) - towards
        left = decayed(abs(distance), elapsed, half_life)
        moved[name] = towards + (left if distance > 0 else -left)
    return {name: amount for name, amount in moved.items() if amount > 0}
