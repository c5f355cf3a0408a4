"""Keep capacity holds on the same nodes from cycle to cycle.

If the nodes were computed again in each cycle, the holds of two gangs might change places, and the first new
members of one gang could take the capacity that the other gang needs. So each cycle holds the assignments of
the last one again, as far as they still fit. Before a gang is tried, no gang of the same or of lower rank
gets its held capacity; a gang of higher rank may get it.

Devices for claims of lost members are chosen again in each cycle, on the same nodes.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from phalanx.actions.demands.demand import Demand
from phalanx.actions.demands.demand_queue import rank_of
from phalanx.actions.problems.held_devices import hold_for_lost, reserve
from phalanx.actions.reservations.reservations import CapacityKey, capacity_delta, split
from phalanx.framework.evictions import Beneficiary
from phalanx.framework.placeholders import placeholder
from phalanx.framework.queues.ledger import Account
from phalanx.framework.session import Session
from phalanx.framework.statement import Statement, Usage
from phalanx.model.charges import charged_for
from phalanx.model.gangs import Gang, MemberCount, count_members
from phalanx.model.memory import GangComposition
from phalanx.model.names import GangId, NodeName
from phalanx.model.pods import Assignments, Pod
from phalanx.model.resources import NONE, Resources, add, fits, scale, subtract, sum_of
from phalanx.model.supplies.devices.session.changes import united
from phalanx.model.supplies.devices.session.grants import Places
from phalanx.model.supplies.devices.session.lost_members import claims_of_lost, with_claims
from phalanx.model.supplies.devices.session.session_devices import claimed_devices
from phalanx.rules.budget import budgets_in


class _Assignment(Struct, frozen=True):
    """A node on which capacity for one member is held."""

    node: NodeName
    member: MemberCount


class _TakenDevices(NamedTuple):
    """The assignments of a gang with claims, and the devices that are taken for them."""

    assignments: Sequence[_Assignment]
    devices: Places


class _Budgets:
    """What the queues of a gang may still use; gangs of higher rank may have used some of it."""

    def __init__(self, session: Session, gang: Gang) -> None:
        rules = session.hooks.rules(gang)
        self._left = [(rule.nodes, dict(rule.remaining)) for rule in budgets_in(rules)]

    def take(self, node: NodeName, requests: Resources) -> bool:
        """Take these requests on the node; False if a budget has too little left."""
        left = [amounts for nodes, amounts in self._left if nodes is None or node in nodes]
        requested = [(name, need) for name, need in requests.items() if need > 0]
        if any(need > amounts.get(name, need) for amounts in left for name, need in requested):
            return False
        for amounts in left:
            amounts.update({name: amounts[name] - need for name, need in requested if name in amounts})
        return True


class WithheldCapacity(Struct, frozen=True):
    """Held capacity that a demand must not use, as negative changes. Equal keys mean equal changes."""

    key: Hashable
    usage: Usage
    budgets: Mapping[Account, Resources]


class HeldAssignments:
    """The assignments of the last cycle that were neither given to members nor held again in this one."""

    def __init__(self, session: Session, holds: Mapping[GangId, GangComposition]) -> None:
        """`holds`: the gangs for which capacity is held in this cycle, and where it was held."""
        self._session = session
        self._ranks = {gang: rank_of(session.gangs[gang], session) for gang in holds}
        self._left: dict[GangId, list[_Assignment]] = {}
        self._version = 0
        self._last: WithheldCapacity | None = None
        self._devices: dict[GangId, _TakenDevices] = {}
        """The devices that are taken now because the present demand must not get them."""
        self.were_devices_withheld = False
        taken: dict[NodeName, Resources] = {}
        for gang in sorted(holds, key=lambda gang: (self._ranks[gang], gang)):
            with session.respecting_nominations(session.gangs[gang]):
                assignments = [
                    assignment
                    for assignment in _assignments_of(holds[gang], session)
                    if self._still_fits(assignment, taken)
                ]
            if assignments:
                self._left[gang] = assignments

    def _still_fits(self, assignment: _Assignment, taken: dict[NodeName, Resources]) -> bool:
        """Whether the assignment still fits beside those that are taken."""
        used = taken.get(assignment.node, NONE)
        free = subtract(self._session.free(assignment.node), used)
        if fits(assignment.member.shape.requests, free):
            taken[assignment.node] = add(used, assignment.member.shape.requests)
            return True
        return False

    def requests(self) -> list[Beneficiary]:
        """The gangs with held capacity, and what is held for each; the lowest rank first."""
        found = []
        for gang in sorted(self._left, key=lambda gang: (self._ranks[gang], gang), reverse=True):
            shapes = [assignment.member.shape.requests for assignment in self._left[gang]]
            found.append(Beneficiary(self._session.gangs[gang], sum_of(shapes)))
        return found

    def withheld_from(self, demand: Demand, given_up: Collection[GangId] = ()) -> WithheldCapacity | None:
        """The held capacity that this demand must not use, or None. `given_up`: gangs that yield to it."""
        if not self._left:
            return None
        gangs = self._withholding(demand, given_up)
        key = (self._version, tuple(gangs))
        if gangs and (self._last is None or self._last.key != key):
            self._last = WithheldCapacity(key, *self._changes(gangs))
        return self._last if gangs else None

    def _withholding(self, demand: Demand, given_up: Collection[GangId] = ()) -> list[GangId]:
        """The gangs whose held capacity the demand must not use."""
        if not self._left:
            return []
        rank = rank_of(demand.gang, self._session)
        others = [gang for gang in self._left if gang != demand.gang.id and gang not in given_up]
        return [gang for gang in others if self._ranks[gang] <= rank]

    def withhold_devices_from(self, demand: Demand | None) -> None:
        """Take the devices that are held on nodes of the last cycle and that this demand must not get, and
        release others that were taken so. None: release all."""
        withholding = self._withholding(demand) if demand is not None else []
        wanted = {gang: claiming for gang in withholding if (claiming := self._claiming(gang))}
        if not wanted and not self._devices:
            return
        with self._session.statement() as statement:
            for gang, (assignments, devices) in list(self._devices.items()):
                if wanted.get(gang) != assignments:
                    reserve(self._session, statement, devices, release=True)
                    del self._devices[gang]
            more = wanted.keys() - self._devices.keys()
            for gang in sorted(more, key=lambda gang: (self._ranks[gang], gang)):
                devices = self._take_devices(gang, wanted[gang], statement)
                self._devices[gang] = _TakenDevices(wanted[gang], devices)
                self.were_devices_withheld = True

    def give_up_devices(self, gangs: Iterable[GangId]) -> Statement:
        """Release what is taken for these gangs, for the present demand. It may be rolled back."""
        with self._session.statement() as statement:
            for gang in gangs:
                if gang in self._devices:
                    reserve(self._session, statement, self._devices[gang].devices, release=True)
        return statement

    def devices_given_up(self, gangs: Iterable[GangId]) -> None:
        """The devices that were released for the present demand stay so."""
        for gang in gangs:
            self._devices.pop(gang, None)

    def _claiming(self, gang: GangId) -> list[_Assignment]:
        return [each for each in self._left[gang] if each.member.claims is not None]

    def _take_devices(self, gang: GangId, assignments: Sequence[_Assignment], statement: Statement) -> Places:
        of, taken = self._session.gangs[gang], list[Places]()
        for number, each in enumerate(assignments):
            made = placeholder(of, f"held-{number}", each.member)
            pod = with_claims(self._session, made, each.member.claims, of.queue)
            taken.append(hold_for_lost(self._session, statement, [(each.node, (pod,))]))
        return united(taken)

    def _changes(self, gangs: Iterable[GangId]) -> tuple[Usage, Mapping[Account, Resources]]:
        delta: dict[CapacityKey, int] = {}
        for gang in gangs:
            used: dict[NodeName, Resources] = {}
            for assignment in self._left[gang]:
                used[assignment.node] = add(used.get(assignment.node, NONE), assignment.member.shape.requests)
            queue = self._session.gangs[gang].queue
            for key, amount in capacity_delta(queue, used, used, self._session.ledger).items():
                delta[key] = delta.get(key, 0) - amount
        return split(delta)

    def release_for(self, demand: Demand) -> None:
        """Release one assignment for each pod of the demand, of the same role and subgroup."""
        for pod in _pods_of(demand) if demand.gang.id in self._left else ():
            self._pop(demand.gang.id, pod)

    def hold_again(self, demand: Demand) -> Assignments:
        """The assignments of the placeholders to the nodes of the last cycle, as far as they still fit.

        A placeholder with larger requests than before gets none, and none where its claims have no devices.
        """
        assignments: dict[NodeName, list[Pod]] = {}
        free: dict[NodeName, Resources] = {}
        budgets = _Budgets(self._session, demand.gang)
        claims = claims_of_lost(self._session)
        for pod in _pods_of(demand):
            is_claiming = claims(pod) is not None
            assignment = self._pop(demand.gang.id, pod, is_claiming=is_claiming)
            if assignment is None or not fits(pod.shape.requests, assignment.member.shape.requests):
                continue
            if assignment.node in self._session.eligibility(pod).rejected:
                continue
            beside = assignments.get(assignment.node, ())
            if is_claiming and not self._have_devices(assignment.node, (*beside, pod)):
                continue
            left = free.get(assignment.node, self._session.free(assignment.node))
            if fits(pod.shape.requests, left) and budgets.take(assignment.node, charged_for(pod)):
                free[assignment.node] = subtract(left, pod.shape.requests)
                assignments.setdefault(assignment.node, []).append(pod)
        return [(node, tuple(assignments[node])) for node in sorted(assignments)]

    def forget(self, gang: GangId) -> None:
        """The gang has no assignments left."""
        self._left.pop(gang, None)
        self._version += 1

    def _have_devices(self, node: NodeName, pods: Sequence[Pod]) -> bool:
        """Whether claims of all these placeholders can have devices on the node together."""
        claims = claims_of_lost(self._session)
        claiming = [pod for pod in pods if claims(pod) is not None]
        return claimed_devices(self._session).allocate([(node, claiming)]) is not None

    def _pop(self, gang: GangId, pod: Pod, *, is_claiming: bool | None = None) -> _Assignment | None:
        """Remove an assignment for this pod. `is_claiming`: one with devices for claims, or one without."""
        left = self._left.get(gang, [])
        self._version += 1
        for index, assignment in enumerate(left):
            member = assignment.member
            is_alike = is_claiming in (None, member.claims is not None)
            if is_alike and (member.role, member.subgroup) == (pod.role, pod.subgroup):
                return left.pop(index)
        return None


def charges_of(composition: GangComposition, gang: GangId, session: Session) -> Mapping[Account, Resources]:
    """What the last cycle charged to the queues of the gang for its missing members, as negative amounts."""
    used = {
        node: sum_of([scale(_charged(member), member.count) for member in members])
        for node, members in composition.held.items()
    }
    delta = capacity_delta(session.gangs[gang].queue, {}, used, session.ledger)
    return split({key: -amount for key, amount in delta.items()})[1]


def _charged(member: MemberCount) -> Resources:
    """What a queue is charged for one such member."""
    return sum_of([member.shape.requests, *(dict(each.amounts) for each in member.charges)])


def held_nodes(session: Session) -> dict[GangId, dict[NodeName, tuple[MemberCount, ...]]]:
    """The members for which capacity is held, by gang and node."""
    found: dict[GangId, dict[NodeName, tuple[MemberCount, ...]]] = {}
    for hold in session.capacity_holds:
        nodes = found.setdefault(hold.gang.id, {})
        for node, pods in hold.assignments:
            members = count_members(pods, claims_of_lost(session))
            nodes[node] = (*nodes.get(node, ()), *members)
    return found


def _assignments_of(composition: GangComposition, session: Session) -> Iterator[_Assignment]:
    """The assignments that may be held again without a solve: nothing of supplies."""
    for node, members in composition.held.items():
        for member in members if node in session.nodes else ():
            is_plain = not (
                session.facts.needed_supplies((member.shape,))
                or member.shape.supplied
                or (member.shape.device_slot and member.claims is None)
            )
            for _ in range(member.count if is_plain else 0):
                yield _Assignment(node, member)


def _pods_of(demand: Demand) -> Iterator[Pod]:
    return (pod for batch in demand.batches for pod in batch.pods)
