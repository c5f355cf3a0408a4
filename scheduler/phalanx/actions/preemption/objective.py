"""Compare sets of victims: one integer cost for each victim, whose sum is the objective of the search.

`docs/preemption.md` has the rule for users. Victims are in classes of importance: by priority, then by the
ranks of plugins, so that queues furthest above their share are first. The losses of more important classes
count more than any losses of others. Within a class the amounts of `_Losses` count, the first one most. So
the sum is a number with one digit for each class and amount, large enough for all victims together; the
solver compares digit by digit (`PreemptionProblem.scales`).
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.preemption.victims import Victim
from phalanx.framework.evictions import size_of
from phalanx.framework.queues.protected_gangs import start_time
from phalanx.framework.session import Session
from phalanx.model.api.pod_groups import DisruptionMode
from phalanx.model.gangs import Gang
from phalanx.model.names import QueueName
from phalanx.model.resources import Resources

_AMOUNTS: Final = 6
_Losses = tuple[int, int, int, int, int, int]
"""The loss by plugins (run time), the size, gangs that stop, the place of the queue's priority, age (s), and
whether the gang asks to stay and others like it do not."""


class RankedVictims(Struct, frozen=True):
    """Victims with their importance and their costs."""

    victims: tuple[Victim, ...]
    scales: tuple[int, ...]
    """The value of each digit of a sum of costs, ascending; the last one is more than all costs together."""


def ranked(victims: Sequence[Victim], session: Session) -> RankedVictims:
    """The victims, with costs that compare any sets of them.

    What does not run costs less than any eviction: only the number of such victims counts.
    """
    keys = [(each.gang.priority, *session.hooks.eviction_rank(each.gang)) for each in victims]
    places = {key: place for place, key in enumerate(sorted(set(keys)))}
    importance = [places[key] for key in keys]
    losses = _with_requests_to_stay(victims, importance, _losses(victims, session))
    scales = [1]
    costs = [0 if each.runs else 1 for each in victims]
    if not all(each.runs for each in victims):
        scales.append(1 + sum(costs))
    for place in range(len(places)):
        members = [index for index, each in enumerate(victims) if each.runs and importance[index] == place]
        for digit in reversed(range(_AMOUNTS)):
            total = sum(losses[index][digit] for index in members)
            for index in members if total else ():
                costs[index] += losses[index][digit] * scales[-1]
            if total:
                scales.append(scales[-1] * (1 + total))
    found = (
        replace(each, importance=place, cost=cost)
        for each, place, cost in zip(victims, importance, costs, strict=True)
    )
    return RankedVictims(tuple(found), tuple(scales))


def _losses(victims: Sequence[Victim], session: Session) -> list[_Losses]:
    now, places = session.snapshot.now, _places((each.queue for each in victims), session)
    return [
        (
            each.lost,
            sum(map(size_of, each.pods)),
            int(each.whole or each.gang.disruption.eviction_mode is DisruptionMode.SINGLE),
            places[each.queue],
            max(0, now - start_time(each.gang, now)) // 1000,
            0,
        )
        for each in victims
    ]


def _places(queues: Iterable[QueueName], session: Session) -> dict[QueueName, int]:
    """The places of these queues in the order of priorities, which compare from the root."""
    paths = {
        name: tuple(queue.priority for queue in reversed(session.queues.path(name))) for name in set(queues)
    }
    places = {path: place for place, path in enumerate(sorted(set(paths.values())))}
    return {name: places[path] for name, path in paths.items()}


def _with_requests_to_stay(
    victims: Sequence[Victim], importance: Sequence[int], losses: Sequence[_Losses]
) -> Sequence[_Losses]:
    """Exchange the losses of gangs of one namespace and queue that are equal in priority and devices.

    Those that ask not to be evicted count with the larger ones. The request changes nothing for others.
    """
    groups: dict[Hashable, list[int]] = {}
    for index, each in enumerate(victims):
        if each.runs and each.whole and len(each.pods) == len(each.holders):
            devices = frozenset(_devices(each.total).items())
            key = (each.gang.namespace, each.queue, importance[index], devices)
            groups.setdefault(key, []).append(index)
    found = list(losses)
    for group in groups.values():
        asks = [_asks_to_stay(victims[index].gang) for index in group]
        if any(asks) and not all(asks):
            order = sorted(zip(asks, group, strict=True), key=lambda pair: (pair[0], losses[pair[1]]))
            ascending = sorted(losses[index] for index in group)
            for (is_asked, index), loss in zip(order, ascending, strict=True):
                found[index] = (*loss[:-1], int(is_asked))
    return found


def _asks_to_stay(gang: Gang) -> bool:
    """Whether it asks not to be preemptible: victims are gangs that nothing protects."""
    return gang.prefers_to_stay or not gang.disruption.is_preemptible


def _devices(amounts: Resources) -> Resources:
    return {name: amount for name, amount in amounts.items() if "/" in name} or amounts
