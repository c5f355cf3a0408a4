"""The order in which a cycle tries demands. It follows the shares, which placements change.

Inside a queue, demands are ordered by rank, then by stage (repairs, starts, surplus), then by the order of
gangs, unless the queue has another ordering. Between queues:

1. Queues whose next demand is a repair of the highest rank are first. So no other gang takes the capacity of
   a gang that lost a member, and no repair takes the capacity of more important work.
2. Surplus is tried after the minimums of equal or higher rank of all queues.
3. Otherwise the queue tree decides, from the leaves up: siblings compare their next demands, and the first
   one is the next demand of their parent.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand, Stage, beneficiary_of, restricted_to
from phalanx.framework.evictions import Beneficiary
from phalanx.framework.queues.division import IGNORED
from phalanx.framework.queues.ledger import Account
from phalanx.framework.queues.queue_tree import QueueTree
from phalanx.framework.queues.water_filling import dominant_share
from phalanx.framework.session import Session
from phalanx.framework.states import PodState
from phalanx.model.charges import total_charges
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, QueueName
from phalanx.model.pods import Pod
from phalanx.model.queues import Ordering, Queue
from phalanx.model.resources import NONE, Resources, add

Key = tuple[Any, ...]
"""Compared element by element; smaller goes first: rank, stage, order of gangs."""

Entry = tuple[Key, Demand]

Charges = Mapping[Account, Resources]
"""Negative amounts by account: what is charged there."""

_Owner = tuple[str, str]
"""A user that the labels of namespaces name, or a namespace: ("user" or "namespace", name)."""


class DemandQueue:
    """All demands of a cycle in order. Iterate over it once, and try each demand before the next one."""

    def __init__(
        self,
        session: Session,
        demands: Iterable[Demand],
        *,
        nominated: Collection[GangId] = (),
        moved: Collection[GangId] = (),
        held: Mapping[GangId, Charges] = MappingProxyType({}),
        more: Callable[[QueueName], Sequence[Demand]] = lambda queue: (),
        equal: Callable[[Demand], Sequence[Demand]] = lambda demand: (),
    ) -> None:
        """`nominated` gangs come first, then `moved` ones, each after higher ranks of its queue.

        `held`: by gang, what is held for its lost or reserved members. It counts as used from the start.
        `more` gives more demands of a queue when all others but surplus were tried; empty for no more.
        `equal` gives more demands of its queue after this one was tried, of gangs that are equal to its gang.
        """
        self._session = session
        self._held = dict(held)
        self._more = more
        self._equal = equal
        self._exhausted: set[QueueName] = set()
        self._waiting: dict[QueueName, _QueueOrder] = {}
        by_queue: dict[QueueName, list[Entry]] = {}
        for demand in demands:
            parts = _parts(demand, session) if demand.gang.id in nominated else [demand]
            entries = by_queue.setdefault(demand.gang.queue, [])
            entries += [(_order(part, session), part) for part in parts]
        self._first: list[Demand] = []
        for name in sorted(by_queue):
            queue = session.queues.get(name)
            is_strict = queue is not None and queue.ordering is Ordering.STRICT_FIFO
            first, rest = _split(by_queue[name], (*nominated, *moved), is_strict=is_strict)
            self._first += [demand for _, demand in sorted(first, key=lambda entry: entry[0])]
            if rest:
                self._waiting[name] = _order_inside(queue, rest, session)
        self._first.sort(key=lambda demand: demand.gang.id in moved)

    @property
    def first(self) -> tuple[Demand, ...]:
        """Demands of nominated and moved gangs, and those of higher rank in their queues."""
        return tuple(self._first)

    def __iter__(self) -> Iterator[Demand]:
        for demand in self._first:
            self._count_as_held(demand)
            yield demand
        for name in list(self._waiting):
            self._refill(name)
        heads = {queue: order.head() for queue, order in self._waiting.items()}
        order = _TreeOrder(self._session.queues, heads, self._order_of)
        while heads:
            name = order.first(_repairs(heads) or _no_premature_surplus(heads))
            waiting = self._waiting[name]
            demand = waiting.pop()
            self._count_as_held(demand)
            yield demand
            heads.pop(name)
            waiting.add((_order(each, self._session), each) for each in self._equal(demand))
            self._refill(name)
            if waiting:
                heads[name] = waiting.head()
            order.changed(name)

    def _refill(self, name: QueueName) -> None:
        """Add more demands of the queue if only surplus is left of it."""
        waiting = self._waiting[name]
        if name in self._exhausted or (waiting and waiting.head()[1].stage is not Stage.SURPLUS):
            return
        demands = self._more(name)
        waiting.add((_order(demand, self._session), demand) for demand in demands)
        if not demands:
            self._exhausted.add(name)

    def _order_of(self, queue: Queue, start: Beneficiary) -> Key:
        """The order of the queue if what is held for gangs that were not tried yet counts as used.

        What is held for the start itself does not: its requests contain it.
        """
        held = [charges for gang, charges in self._held.items() if gang != start.gang.id]
        if not held:
            return self._session.hooks.queue_order(queue, start)
        with self._session.statement() as statement:
            for charges in held:
                statement.assume_free(usage={}, budgets=charges)
            found = self._session.hooks.queue_order(queue, start)
            statement.roll_back()
        return found

    def _count_as_held(self, demand: Demand) -> None:
        """Note that the capacity for these members is held from now on, and charged."""
        if all(pod.is_placeholder for batch in demand.batches for pod in batch.pods):
            self._held.pop(demand.gang.id, None)


# --- order between queues ---------------------------------------------------------------------------------


_Path = tuple[QueueName, ...]
"""The queues from a root down to a queue."""

_First = tuple[Key, Key, QueueName]
"""The next demand below a queue: the keys of the queues down to its own, its key without the rank, which does
not count between queues, and its queue."""


class _TreeOrder:
    """The order of the next demands of queues, by comparing siblings.

    A demand that is tried changes only the keys of its queue and of the queues above. So the first demands
    below all other queues are kept.
    """

    def __init__(
        self,
        queues: QueueTree,
        heads: Mapping[QueueName, Entry],
        order_of: Callable[[Queue, Beneficiary], Key],
    ) -> None:
        """`heads`: the next demand of each queue that has one; changes must be reported.

        `order_of` gives the key of a queue if this gang is the next to start.
        """
        self._heads = heads
        self._order_of = order_of
        self._candidates: set[QueueName] = set()
        self._first: dict[_Path, _First | None] = {}
        self._below: dict[_Path, dict[_Path, Queue]] = {}
        self._paths: dict[QueueName, tuple[_Path, ...]] = {}
        """Of each queue: its path, and before it those of the queues above, from the empty one on."""
        for name in heads:
            above = queues.path(name)[::-1]
            names = [queue.name for queue in above]
            paths = self._paths[name] = tuple(tuple(names[:count]) for count in range(len(names) + 1))
            for index, queue in enumerate(above):
                self._below.setdefault(paths[index], {})[paths[index + 1]] = queue
        self._own: dict[_Path, list[QueueName]] = {}
        """The queues whose demands are compared at this place: unknown queues are roots."""
        for name, paths in self._paths.items():
            self._own.setdefault(paths[-1], []).append(name)

    def first(self, candidates: Collection[QueueName]) -> QueueName:
        """The queue of the first demand of these queues."""
        now = set(candidates)
        for name in now ^ self._candidates:
            self.changed(name)
        self._candidates = now
        found = self._first_below(())
        assert found is not None, "there are candidates"
        return found[2]

    def changed(self, name: QueueName) -> None:
        """Forget the keys that the last demand of this queue may have changed."""
        for path in self._paths[name]:
            self._first.pop(path, None)

    def _first_below(self, path: _Path) -> _First | None:
        """The first demand of the queue and of those below, without the key of the queue itself."""
        found = [
            ((), self._heads[name][0][1:], name)
            for name in self._own.get(path, ())
            if name in self._candidates
        ]
        for child, queue in self._below.get(path, {}).items():
            if child not in self._first:
                self._first[child] = self._with_key(queue, self._first_below(child))
            first = self._first[child]
            found += [] if first is None else [first]
        return min(found, default=None)

    def _with_key(self, queue: Queue, first: _First | None) -> _First | None:
        if first is None:
            return None
        keys, key, name = first
        start = beneficiary_of(self._heads[name][1])
        return ((self._order_of(queue, start), *keys), key, name)


def _split(
    entries: list[Entry], prioritized: Collection[GangId], *, is_strict: bool
) -> tuple[list[Entry], list[Entry]]:
    """Split the entries: prioritized gangs and gangs of higher rank than one of them, and the others."""
    ranks = [key[0] for key, demand in entries if _is_prioritized(demand, prioritized)]
    if not ranks:
        return [], entries
    lowest = max(ranks)
    first = [
        entry
        for entry in entries
        if _is_prioritized(entry[1], prioritized)
        or (not is_strict and entry[0][0] < lowest and entry[1].stage is not Stage.SURPLUS)
    ]
    return first, [entry for entry in entries if entry not in first]


def _is_prioritized(demand: Demand, prioritized: Collection[GangId]) -> bool:
    return demand.gang.id in prioritized and (demand.stage is not Stage.SURPLUS or demand.is_nominated)


def _parts(demand: Demand, session: Session) -> list[Demand]:
    """Surplus members with nominated capacity, which come first, and the others, which do not."""
    nomination = session.memory.nominations.get(demand.gang.id)
    if demand.stage is not Stage.SURPLUS or nomination is None:
        return [demand]
    if demand.outer_subgroup:
        return [replace(demand, is_nominated=True)]
    nominated = {uid for uids in nomination.members.values() for uid in uids}
    all_of_it = {pod.uid for batch in demand.batches for pod in batch.pods}
    if demand.is_whole:
        return [replace(demand, is_nominated=bool(all_of_it & nominated))]
    others = all_of_it - nominated
    first, rest = restricted_to(demand, nominated), restricted_to(demand, others)
    return [*([replace(first, is_nominated=True)] if first else []), *([rest] if rest else [])]


def _repairs(heads: dict[QueueName, Entry]) -> list[QueueName]:
    """Queues whose next demand is a repair of the highest rank among all queues."""
    best = min(key[0] for key, _ in heads.values())
    return [
        queue for queue, (key, demand) in heads.items() if demand.stage is Stage.REPAIR and key[0] == best
    ]


def _no_premature_surplus(heads: dict[QueueName, Entry]) -> list[QueueName]:
    """All queues but those whose surplus would be tried before a minimum of equal or higher rank."""
    minimums = [key[0] for key, demand in heads.values() if demand.stage is not Stage.SURPLUS]
    if not minimums:
        return list(heads)
    best = min(minimums)
    return [
        queue for queue, (key, demand) in heads.items() if demand.stage is not Stage.SURPLUS or key[0] < best
    ]


# --- order inside a queue ---------------------------------------------------------------------------------


class _QueueOrder(Protocol):
    """The waiting demands of one queue. `head` and `pop` need at least one."""

    def head(self) -> Entry:
        """The next entry, given all placements so far."""

    def pop(self) -> Demand:
        """Remove the next demand and return it."""

    def add(self, entries: Iterable[Entry]) -> None:
        """Add entries."""

    def __len__(self) -> int: ...


def _order_inside(queue: Queue | None, entries: Iterable[Entry], session: Session) -> _QueueOrder:
    """The order that the queue asks for; by rank for an unknown queue."""
    if queue is not None and queue.ordering is Ordering.FAIR_USERS:
        return _FairUsersOrder(queue, entries, session)
    is_strict = queue is not None and queue.ordering is Ordering.STRICT_FIFO
    return _FixedOrder(entries, is_strict=is_strict)


class _FixedOrder:
    """An order that placements do not change: by rank, or by stage if it is strict."""

    def __init__(self, entries: Iterable[Entry], *, is_strict: bool) -> None:
        self._first = 1 if is_strict else 0
        self._entries: deque[Entry] = deque()
        self.add(entries)

    def add(self, entries: Iterable[Entry]) -> None:
        entries = list(entries)
        if not entries:
            return
        self._entries = deque(sorted([*self._entries, *entries], key=lambda entry: entry[0][self._first :]))

    def head(self) -> Entry:
        return self._entries[0]

    def pop(self) -> Demand:
        return self._entries.popleft()[1]

    def __len__(self) -> int:
        return len(self._entries)


class _FairUsersOrder:
    """Users take turns: repairs first, surplus last, otherwise the smallest dominant share in the queue.

    Owners take turns, and the users of one owner among themselves. So a user that a pod names gains nothing
    on other owners, which only an administrator can change. The dominant share is that of DRF (Ghodsi et al.,
    NSDI 2011).
    """

    def __init__(self, queue: Queue, entries: Iterable[Entry], session: Session) -> None:
        self._session = session
        self._identify = partial(_user_of, label=queue.user_label, session=session)
        self._entries: dict[_Owner, dict[str, deque[Entry]]] = {}
        self.add(entries)
        self._used: dict[_Owner, Resources] = {}
        self._used_by_users: dict[tuple[_Owner, str], Resources] = {}
        for gang in session.gangs.values():
            if gang.queue == queue.name:
                self._count(gang, [pod for pod in gang.members if pod.holds_node])
        self._last: Demand | None = None

    def add(self, entries: Iterable[Entry]) -> None:
        for entry in sorted(entries, key=lambda entry: entry[0]):
            owner, user = self._identify(entry[1].gang)
            queued = self._entries.setdefault(owner, {}).setdefault(user, deque())
            insort(queued, entry, key=lambda entry: entry[0])

    def head(self) -> Entry:
        owner, user = self._next()
        return self._entries[owner][user][0]

    def pop(self) -> Demand:
        owner, user = self._next()
        users = self._entries[owner]
        _, demand = users[user].popleft()
        if not users[user]:
            del users[user]
        if not users:
            del self._entries[owner]
        self._last = demand
        return demand

    def __len__(self) -> int:
        return sum(len(entries) for users in self._entries.values() for entries in users.values())

    def _next(self) -> tuple[_Owner, str]:
        self._count_last()
        chosen = {
            owner: min(users, key=partial(self._user_key, owner)) for owner, users in self._entries.items()
        }
        return min(chosen.items(), key=self._owner_key)

    def _user_key(self, owner: _Owner, user: str) -> tuple[Stage, Fraction, Key]:
        return self._key(self._used_by_users.get((owner, user), NONE), self._entries[owner][user][0])

    def _owner_key(self, chosen: tuple[_Owner, str]) -> tuple[Stage, Fraction, Key]:
        owner, user = chosen
        return self._key(self._used.get(owner, NONE), self._entries[owner][user][0])

    def _key(self, used: Resources, first: Entry) -> tuple[Stage, Fraction, Key]:
        key, demand = first
        counted = {name: amount for name, amount in used.items() if name not in IGNORED}
        return demand.stage, dominant_share(counted, self._session.fair_shares.capacity), key

    def _count(self, gang: Gang, pods: Sequence[Pod]) -> None:
        owner, user = self._identify(gang)
        charges = total_charges(pods)
        self._used[owner] = add(self._used.get(owner, NONE), charges)
        self._used_by_users[owner, user] = add(self._used_by_users.get((owner, user), NONE), charges)

    def _count_last(self) -> None:
        """Count the placed pods of the last demand as used by its user."""
        if self._last is not None:
            pods = [pod for batch in self._last.batches for pod in batch.pods]
            placed = [pod for pod in pods if self._session.pod_state(pod) is PodState.ALLOCATED]
            self._count(self._last.gang, placed)
            self._last = None


def _user_of(gang: Gang, *, label: str, session: Session) -> tuple[_Owner, str]:
    """Whom the gang belongs to, and its user among the users of that owner.

    If the namespace has the label, the owner is its value, and there are no other users. Otherwise the owner
    is the namespace, and the user is the label of the first member that has it; gangs without it share one
    user.
    """
    labels = session.namespace_labels.get(gang.namespace, {})
    if label in labels:
        return ("user", labels[label]), ""
    values = (value for pod in gang.members for key, value in pod.all_labels if key == label)
    return ("namespace", gang.namespace), next(values, "")


# --- keys of gangs ----------------------------------------------------------------------------------------


def _order(demand: Demand, session: Session) -> Key:
    order = session.hooks.gang_order(demand.gang)
    return (order.rank, demand.stage, order.key, demand.gang.id)


def rank_of(gang: Gang, session: Session) -> Key:
    """The rank of the gang by all plugins; smaller goes first."""
    return tuple(session.hooks.gang_order(gang).rank)


def rank_changes_at(gang: Gang, session: Session) -> int | None:
    """The time (ms) at which the rank of the gang changes by itself, or None."""
    return session.hooks.gang_order(gang).changes_at
