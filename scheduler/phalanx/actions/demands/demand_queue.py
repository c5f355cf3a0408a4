"""The order in which demands are tried, recomputed as shares change.

Within a queue, unless its ordering is another (`lines.py`): rank, then stage (repairs, starts, surplus), then
the order of gangs. Between queues: those whose next demand is a repair of the highest rank first, so that no
filler takes the room of a gang that lost a member, and no repair that of more important work; surplus waits
for every queue whose next minimum is of equal or higher rank; among the rest the tree of queues decides,
level by level.
"""

from collections.abc import Collection, Iterable, Iterator

from phalanx.actions.demands.demand import Demand, Stage
from phalanx.actions.demands.lines import Entry, Key, Line, line_of
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, QueueName
from phalanx.model.queues import Ordering


class DemandQueue:
    """Iterate over it once; whatever is placed between two steps is reflected in the next."""

    def __init__(
        self,
        session: Session,
        demands: Iterable[Demand],
        *,
        ahead: Collection[GangId] = (),
        then: Collection[GangId] = (),
    ) -> None:
        """`ahead`: gangs that come first, next those of `then`; each after higher ranks of its queue."""
        self._session = session
        self._waiting: dict[QueueName, Line] = {}
        self._queue_keys: dict[QueueName, Key] = {}
        lines: dict[QueueName, list[Entry]] = {}
        for demand in demands:
            lines.setdefault(demand.gang.queue, []).append((_order(demand, session), demand))
        self._ahead: list[Demand] = []
        for queue in sorted(lines):
            known = session.queues.get(queue)
            is_strict = known is not None and known.ordering is Ordering.STRICT_FIFO
            first, rest = _split(lines[queue], (*ahead, *then), is_strict=is_strict)
            self._ahead += [demand for _, demand in sorted(first, key=lambda entry: entry[0])]
            if rest:
                self._waiting[queue] = line_of(known, rest, session)
        self._ahead.sort(key=lambda demand: demand.gang.id in then)

    @property
    def first(self) -> tuple[Demand, ...]:
        """Those that come first, with whatever of their queues is of higher rank."""
        return tuple(self._ahead)

    def __iter__(self) -> Iterator[Demand]:
        yield from self._ahead
        self._queue_keys.clear()
        while self._waiting:
            queue = self._next_queue()
            demand = self._waiting[queue].pop()
            if not self._waiting[queue]:
                del self._waiting[queue]
            yield demand
            for each in self._session.queues.path(queue):
                self._queue_keys.pop(each.name, None)

    def _next_queue(self) -> QueueName:
        if len(self._waiting) == 1:
            return next(iter(self._waiting))
        heads = {queue: line.head() for queue, line in self._waiting.items()}
        candidates = _repairs(heads) or _no_premature_surplus(heads)
        return min(candidates, key=lambda queue: (self._path_key(queue), heads[queue][0]))

    def _path_key(self, queue: QueueName) -> Key:
        """The keys of the queue and its ancestors, from the root down: comparing them descends the tree."""
        return tuple(self._queue_key(each.name) for each in reversed(self._session.queues.path(queue)))

    def _queue_key(self, name: QueueName) -> Key:
        key = self._queue_keys.get(name)
        queue = self._session.queues.get(name)
        if key is None and queue is not None:
            orders = self._session.plugins.queue_orders
            key = tuple(order.queue_order(queue, self._session) for order in orders)
            self._queue_keys[name] = key
        return key or ()


def _split(
    entries: list[Entry], ahead: Collection[GangId], *, is_strict: bool
) -> tuple[list[Entry], list[Entry]]:
    """Those ahead and whatever is of higher rank than some of them; and the others."""
    named = [key[0] for key, demand in entries if _is_ahead(demand, ahead)]
    if not named:
        return [], entries
    lowest = max(named)
    first = [
        entry
        for entry in entries
        if _is_ahead(entry[1], ahead)
        or (not is_strict and entry[0][0] < lowest and entry[1].stage is not Stage.SURPLUS)
    ]
    return first, [entry for entry in entries if entry not in first]


def _is_ahead(demand: Demand, ahead: Collection[GangId]) -> bool:
    return demand.gang.id in ahead and demand.stage is not Stage.SURPLUS


def _repairs(heads: dict[QueueName, Entry]) -> list[QueueName]:
    """Queues whose next demand is a repair, if no queue's is of a higher rank."""
    best = min(key[0] for key, _ in heads.values())
    return [
        queue for queue, (key, demand) in heads.items() if demand.stage is Stage.REPAIR and key[0] == best
    ]


def _no_premature_surplus(heads: dict[QueueName, Entry]) -> list[QueueName]:
    """Queues without those whose surplus would pass a minimum of equal or higher rank."""
    minimums = [key[0] for key, demand in heads.values() if demand.stage is not Stage.SURPLUS]
    if not minimums:
        return list(heads)
    best = min(minimums)
    return [
        queue for queue, (key, demand) in heads.items() if demand.stage is not Stage.SURPLUS or key[0] < best
    ]


def _order(demand: Demand, session: Session) -> Key:
    gang = demand.gang
    return (rank_of(gang, session), demand.stage, _gang_key(gang, session), gang.id)


def rank_of(gang: Gang, session: Session) -> Key:
    """What all plugins say of the gang's rank; smaller is served first."""
    return tuple(plugin.gang_rank(gang) for plugin in session.plugins.ranks)


def rank_changes_at(gang: Gang, session: Session) -> int | None:
    """When (ms) time alone changes the gang's rank."""
    changes = (plugin.rank_changes_at(gang) for plugin in session.plugins.rank_changes)
    return min((at for at in changes if at is not None), default=None)


def _gang_key(gang: Gang, session: Session) -> Key:
    return tuple(plugin.gang_key(gang) for plugin in session.plugins.gang_orders)
