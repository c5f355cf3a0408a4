"""Who is next in one queue, by its ordering. Smaller keys come first: rank, stage, order of gangs."""

from collections import deque
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Protocol

from phalanx.actions.demands.demand import Demand, Stage
from phalanx.framework.queues.division import IGNORED
from phalanx.framework.queues.water_filling import dominant_share
from phalanx.framework.session import Session
from phalanx.framework.statement import total_requests
from phalanx.framework.states import PodState
from phalanx.model.gangs import Gang
from phalanx.model.names import QueueName
from phalanx.model.queues import Ordering, Queue
from phalanx.model.resources import NONE, Resources, add

Key = tuple[Any, ...]
Entry = tuple[Key, Demand]


class Line(Protocol):
    """The demands of one queue. Ask for no head of an empty one."""

    def head(self) -> Entry:
        """Who is next, after all that was placed so far."""

    def pop(self) -> Demand:
        """Who was next; it is in line no more."""

    def __len__(self) -> int: ...


def line_of(queue: Queue | None, entries: Iterable[Entry], session: Session) -> Line:
    """The line of a queue; one that nobody knows is as the others."""
    if queue is not None and queue.ordering is Ordering.FAIR_USERS:
        return _UsersLine(queue, entries, session)
    if queue is not None and queue.ordering is Ordering.STRICT_FIFO:
        return _FixedLine(sorted(entries, key=lambda entry: entry[0][1:]))
    return _FixedLine(sorted(entries, key=lambda entry: entry[0]))


class _FixedLine:
    """Nothing that is placed changes it."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = deque(entries)

    def head(self) -> Entry:
        return self._entries[0]

    def pop(self) -> Demand:
        return self._entries.popleft()[1]

    def __len__(self) -> int:
        return len(self._entries)


class _UsersLine:
    """Users take turns: repairs first, surplus last, else whose dominant share in the queue is smallest."""

    def __init__(self, queue: Queue, entries: Iterable[Entry], session: Session) -> None:
        self._label = queue.user_label
        self._session = session
        self._lines: dict[str, deque[Entry]] = {}
        for entry in sorted(entries, key=lambda entry: entry[0]):
            self._lines.setdefault(user_of(entry[1].gang, self._label), deque()).append(entry)
        self._used = _held_by_users(queue.name, self._label, session)
        self._last: Demand | None = None

    def head(self) -> Entry:
        return self._lines[self._next_user()][0]

    def pop(self) -> Demand:
        user = self._next_user()
        _, demand = self._lines[user].popleft()
        if not self._lines[user]:
            del self._lines[user]
        self._last = demand
        return demand

    def __len__(self) -> int:
        return sum(len(line) for line in self._lines.values())

    def _next_user(self) -> str:
        self._count_last()
        return min(self._lines, key=lambda user: self._turn(user, *self._lines[user][0]))

    def _turn(self, user: str, key: Key, demand: Demand) -> tuple[Stage, Fraction, Key]:
        capacity = self._session.fair_shares.capacity
        used = {name: amount for name, amount in self._used.get(user, NONE).items() if name not in IGNORED}
        return demand.stage, dominant_share(used, capacity), key

    def _count_last(self) -> None:
        """What was placed of the demand that was handed out last."""
        if self._last is None:
            return
        pods = [pod for batch in self._last.batches for pod in batch.pods]
        placed = [pod for pod in pods if self._session.pod_state(pod) is PodState.ALLOCATED]
        user = user_of(self._last.gang, self._label)
        self._used[user] = add(self._used.get(user, NONE), total_requests(placed))
        self._last = None


def user_of(gang: Gang, label: str) -> str:
    """The value of the label on the first member that has it; all gangs without one are one user's."""
    values = (value for pod in gang.members for key, value in pod.all_labels if key == label)
    return next(values, "")


def _held_by_users(queue: QueueName, label: str, session: Session) -> dict[str, Resources]:
    held: dict[str, Resources] = {}
    for gang in session.gangs.values():
        if gang.queue == queue:
            user = user_of(gang, label)
            used = total_requests([pod for pod in gang.members if pod.holds_node])
            held[user] = add(held.get(user, NONE), used)
    return held
