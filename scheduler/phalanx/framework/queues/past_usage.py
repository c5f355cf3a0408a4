"""The past usage of queues: an exponentially weighted moving average with a configured half-life.

The average moves towards the usage of the queue by half of the distance in each half-life, in integers.
Between two cycles the usage is that of the end of the first one. After a start of the scheduler the average
comes from the status of the queue, and the current usage stands for the time since then. A queue without a
status starts at 0.
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
    """The average of each queue with its descendants now; empty without a half-life (ms).

    `known` comes from the last cycle; `usage` gives the current usage of a queue.
    """
    if not half_life:
        return {}
    found: dict[QueueName, PastUsage] = {}
    for queue in queues:
        before = known.get(queue.name) or queue.past or PastUsage({}, now)
        used = before.using if before.using is not None else usage(queue.name)
        found[queue.name] = PastUsage(_average(before.amounts, used, now - before.at, half_life), now)
    return found


def _average(average: Resources, used: Resources, elapsed: int, half_life: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in sorted({*average, *used}):
        towards = used.get(name, 0) * past_unit(name)
        distance = average.get(name, 0) - towards
        left = decayed(abs(distance), elapsed, half_life)
        found[name] = towards + (left if distance > 0 else -left)
    return {name: amount for name, amount in found.items() if amount > 0}
