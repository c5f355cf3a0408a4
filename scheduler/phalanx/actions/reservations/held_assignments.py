"""Where room was kept for members that do not exist yet: there it is kept again, and given to those who come.

Worked out anew in each cycle, the room of two gangs might be kept in another way, in which the members of one
of them that come first leave none to the other. So each cycle keeps the seats of the last one, as far as they
can still be had, and until a gang's turn comes nobody of the same or of lower rank gets them. Who is of
higher rank may.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping

from msgspec import Struct

from phalanx.actions.demands.demand import Demand
from phalanx.actions.demands.demand_queue import rank_of
from phalanx.actions.reservations.reservations import CapacityKey, capacity_delta, split
from phalanx.framework.queues.ledger import Account
from phalanx.framework.session import Session
from phalanx.framework.statement import Assignments, CapacityHold, Usage
from phalanx.model.gangs import Gang, MemberCount, count_members
from phalanx.model.gpu_shares import requests_share
from phalanx.model.memory import GangComposition
from phalanx.model.names import GangId, NodeName
from phalanx.model.pods import Pod
from phalanx.model.resources import NONE, Resources, add, fits, subtract
from phalanx.model.rules import Budget


class _Seat(Struct, frozen=True):
    """Room for one member on a node."""

    node: NodeName
    part: MemberCount


class _Budgets:
    """What the queues of a gang may still use: less than before, where it went to somebody of higher rank."""

    def __init__(self, session: Session, gang: Gang) -> None:
        rules = session.plugins.rules(gang)
        self._left = [(rule.nodes, dict(rule.remaining)) for rule in rules if isinstance(rule, Budget)]

    def take(self, node: NodeName, requests: Resources) -> bool:
        """Whether there is so much left for this node; then it is taken."""
        left = [amounts for nodes, amounts in self._left if nodes is None or node in nodes]
        asked = [(name, need) for name, need in requests.items() if need > 0]
        if any(need > amounts.get(name, need) for amounts in left for name, need in asked):
            return False
        for amounts in left:
            amounts.update({name: amounts[name] - need for name, need in asked if name in amounts})
        return True


class Beside(Struct, frozen=True):
    """Seats to leave alone, as negative changes; with an equal `key` they are the same."""

    key: Hashable
    room: Usage
    budgets: Mapping[Account, Resources]


class HeldAssignments:
    """Those of the last cycle that have not been taken by their gang's members or kept anew in this one."""

    def __init__(self, session: Session, claims: Mapping[GangId, GangComposition]) -> None:
        """`claims`: who claims room in this cycle, and where it was kept."""
        self._session = session
        self._ranks = {gang: rank_of(session.gangs[gang], session) for gang in claims}
        self._left: dict[GangId, list[_Seat]] = {}
        self._version = 0
        self._last: Beside | None = None
        taken: dict[NodeName, Resources] = {}
        for gang in sorted(claims, key=lambda gang: (self._ranks[gang], gang)):
            seats = [seat for seat in _seats_of(claims[gang], session) if self._take(seat, taken)]
            if seats:
                self._left[gang] = seats

    def _take(self, seat: _Seat, taken: dict[NodeName, Resources]) -> bool:
        """Whether the seat can still be had, beside those that are taken."""
        used = taken.get(seat.node, NONE)
        free = subtract(self._session.free(seat.node), used)
        if fits(seat.part.shape.requests, free):
            taken[seat.node] = add(used, seat.part.shape.requests)
            return True
        return False

    def beside(self, demand: Demand) -> Beside | None:
        """What this demand must leave alone; None for nothing."""
        if not self._left:
            return None
        rank = rank_of(demand.gang, self._session)
        gangs = [gang for gang in self._left if gang != demand.gang.id and self._ranks[gang] <= rank]
        key = (self._version, tuple(gangs))
        if gangs and (self._last is None or self._last.key != key):
            self._last = Beside(key, *self._changes(gangs))
        return self._last if gangs else None

    def _changes(self, gangs: Iterable[GangId]) -> tuple[Usage, Mapping[Account, Resources]]:
        cells: dict[CapacityKey, int] = {}
        for gang in gangs:
            used: dict[NodeName, Resources] = {}
            for seat in self._left[gang]:
                used[seat.node] = add(used.get(seat.node, NONE), seat.part.shape.requests)
            queue = self._session.gangs[gang].queue
            for cell, amount in capacity_delta(queue, used, used, self._session.ledger).items():
                cells[cell] = cells.get(cell, 0) - amount
        return split(cells)

    def came(self, demand: Demand) -> None:
        """Members are about to get nodes: as many seats of their roles are theirs."""
        for pod in _pods_of(demand) if demand.gang.id in self._left else ():
            self._pop(demand.gang.id, pod)

    def again(self, demand: Demand) -> Assignments:
        """The same seats for stand-ins as before, as many as can be had and are enough; none is left over.

        Where members turned out to be larger, there is room for them only beside what is kept for others.
        """
        seats: dict[NodeName, list[Pod]] = {}
        free: dict[NodeName, Resources] = {}
        budgets = _Budgets(self._session, demand.gang)
        for pod in _pods_of(demand):
            seat = self._pop(demand.gang.id, pod)
            if seat is None or not fits(pod.shape.requests, seat.part.shape.requests):
                continue
            if seat.node in self._session.eligibility(pod).rejected:
                continue
            left = free.get(seat.node, self._session.free(seat.node))
            if fits(pod.shape.requests, left) and budgets.take(seat.node, pod.shape.requests):
                free[seat.node] = subtract(left, pod.shape.requests)
                seats.setdefault(seat.node, []).append(pod)
        self._left.pop(demand.gang.id, None)
        self._version += 1
        return [(node, tuple(seats[node])) for node in sorted(seats)]

    def _pop(self, gang: GangId, pod: Pod) -> _Seat | None:
        left = self._left.get(gang, [])
        self._version += 1
        for index, seat in enumerate(left):
            if (seat.part.role, seat.part.subgroup) == (pod.role, pod.subgroup):
                return left.pop(index)
        return None


def room_of(kept: Iterable[CapacityHold]) -> dict[GangId, dict[NodeName, tuple[MemberCount, ...]]]:
    """By gang and node, what was kept."""
    found: dict[GangId, dict[NodeName, tuple[MemberCount, ...]]] = {}
    for each in kept:
        mine = found.setdefault(each.gang.id, {})
        for node, pods in each.assignments:
            mine[node] = (*mine.get(node, ()), *count_members(pods))
    return found


def _seats_of(seated: GangComposition, session: Session) -> Iterator[_Seat]:
    """Those that may be taken again without looking closer: no shares of devices, no NUMA zones."""
    for node, parts in seated.held.items():
        for part in parts if node in session.nodes else ():
            is_plain = not requests_share(part.shape.requests) and not (
                session.facts.numa_layouts and part.shape.numa
            )
            for _ in range(part.count if is_plain else 0):
                yield _Seat(node, part)


def _pods_of(demand: Demand) -> Iterator[Pod]:
    return (pod for batch in demand.batches for pod in batch.pods)
