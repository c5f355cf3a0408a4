"""Plan the fewest moves with which a demand fits, and check the plan with all rules.

The defragmentation problem models capacity, eligible nodes, and the domain that must hold a gang. Its plan is
checked by solving the placements with all rules: each gang on the nodes that are planned for it, else the
moved gangs on any node, else all on any node; at last on the planned nodes with the moved gangs first. Where
a spread constraint of one gang counts pods of another one, it must hold when all of them run. A plan that
fails is dropped.
"""

from collections.abc import Hashable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.consolidation.movable_gangs import Movable, terms_near
from phalanx.actions.consolidation.move_devices import MoveDevices
from phalanx.actions.consolidation.spread_nodes import NO_NODES, outside_spread
from phalanx.actions.demands.demand import Batch, Demand
from phalanx.actions.nodes.gang_constraints import allowed_domains, constraints_of
from phalanx.actions.nodes.node_classes import asked_for, request_vectors
from phalanx.actions.preemption.victim_problem import vector_of
from phalanx.actions.problems.capacity_holders import charged
from phalanx.actions.problems.held_devices import expect, reserve
from phalanx.actions.problems.joint_problem import solver_assignments
from phalanx.actions.problems.placement import DemandPlacement
from phalanx.actions.problems.placer import Placer
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.framework.charges import with_marked_charges
from phalanx.framework.session import Session
from phalanx.framework.statement import Statement, Usage
from phalanx.model.charges import total_requests
from phalanx.model.names import GangId, NodeName, PodUid, QueueName
from phalanx.model.pods import Assignments, Pod
from phalanx.model.resources import NONE, Resources, add
from phalanx.model.supplies.devices.session.session_devices import claimed_devices
from phalanx.model.supplies.devices.uses import DeviceUse
from phalanx.model.supplies.known import projected, with_supplied
from phalanx.model.supplies.supply import SupplyLacking
from phalanx.solver.checker import violated_rules
from phalanx.solver.defragmentation.engine import plan_moves
from phalanx.solver.defragmentation.problem import MovePlan, MoveProblem, MoveResult, MoveUnit, PodSet, Vector
from phalanx.solver.defragmentation.problem import Placements as PlannedPlacements
from phalanx.solver.preemption.capacity import pods_that_fit

Devices = dict[NodeName, frozenset[DeviceUse]]
"""Devices by node."""


class Moved(Struct, frozen=True):
    """A gang that is moved, and its new assignments."""

    unit: Movable
    assignments: Assignments
    devices: Devices = {}
    """What its claims to devices get."""

    @property
    def usage(self) -> Usage:
        """What it will use per node."""
        return usage_of_assignments(self.assignments)


class CheckedMovePlan(Struct, frozen=True):
    """A plan that satisfies all rules."""

    assignments: Assignments
    """The assignments of the demand."""
    moved: tuple[Moved, ...]
    devices: Devices
    """What the claims of the demand get."""
    result: MoveResult
    """The plan of the solver, with its bounds."""

    @property
    def usage(self) -> Usage:
        """What the demand will use per node, ports and volumes included."""
        return usage_of_assignments(self.assignments)

    @property
    def members(self) -> dict[NodeName, tuple[PodUid, ...]]:
        """The pods of the demand that others must keep away from already."""
        found: dict[NodeName, tuple[PodUid, ...]] = {}
        for node, pods in self.assignments:
            concerned = tuple(pod.uid for pod in pods if pod.shape.affinity_state is not None)
            if concerned:
                found[node] = (*found.get(node, ()), *concerned)
        return found


class MovePlanner:
    """Plans moves for the demands of one session, after all placements."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._problems = ProblemBuilder(session, may_grow=True)
        self._placer = Placer(session, self._problems)

    def fits(self, demand: Demand) -> bool:
        """Whether the demand fits without any move."""
        return self._place(demand, None) is not None

    def plan(
        self, demand: Demand, units: Sequence[Movable], *, moves_max: int, effort: float
    ) -> tuple[CheckedMovePlan | None, float]:
        """The plan with the fewest moves, and the effort that it took.

        Nodes from which only the anti-affinity of gangs that may be moved keeps pods away count as allowed,
        and devices of their claims as free, so that the bound holds. If the plan then violates a rule, one is
        searched in which anti-affinity of these gangs keeps pods away even if they are moved, and in which a
        single pod that is to be spread goes only where it might go if nothing else changed.
        """
        concerned = [unit for unit in units if _is_concerned(unit)]
        devices = MoveDevices(self._session, demand, units)
        problem, nodes = self._problem_without(concerned, demand, units, devices, moves_max)
        result = plan_moves(problem, effort=effort)
        found = self._checked(demand, units, result, nodes)
        if found is not None or result.plan is None or not concerned:
            return found, result.spent
        problem, nodes = self._problem(demand, units, devices, moves_max, is_strict=True)
        other = plan_moves(problem, effort=max(0.0, effort - result.spent))
        bounded = replace(other, pods_bound=result.pods_bound, cost_bound=_cost_bound(result, other))
        return self._checked(demand, units, bounded, nodes), result.spent + other.spent

    def _checked(
        self, demand: Demand, units: Sequence[Movable], result: MoveResult, nodes: Sequence[NodeName]
    ) -> CheckedMovePlan | None:
        """The plan of the result, on its nodes or else on any nodes, if it satisfies all rules."""
        if result.plan is None:
            return None
        names = _Names(nodes)
        for of_demand, of_units in ((names, names), (names, None), (None, None)):
            checked = self._check(demand, units, result.plan, of_demand, of_units)
            if checked is not None:
                return CheckedMovePlan(*checked, result)
        checked = self._check(demand, units, result.plan, names, names, are_moved_first=True)
        return CheckedMovePlan(*checked, result) if checked is not None else None

    # --- the problem ----------------------------------------------------------------------------------------

    def _problem_without(
        self,
        ended: Sequence[Movable],
        demand: Demand,
        units: Sequence[Movable],
        devices: MoveDevices,
        moves_max: int,
    ) -> tuple[MoveProblem, list[NodeName]]:
        """The problem, for the nodes that are eligible when all pods of the ended units are gone."""
        with self._session.statement() as trial:
            for unit in ended:
                trial.assume_ended(queue=unit.gang.queue, used={}, booked={}, gone=unit.pods)
            found = self._problem(demand, units, devices, moves_max)
            trial.roll_back()
        return found

    def _problem(
        self,
        demand: Demand,
        units: Sequence[Movable],
        devices: MoveDevices,
        moves_max: int,
        *,
        is_strict: bool = False,
    ) -> tuple[MoveProblem, list[NodeName]]:
        session = self._session
        closed = [outside_spread(session, unit) if is_strict else NO_NODES for unit in units]
        view = _View(session, [demand, *(unit.demand for unit in units)], units, devices)
        problem = MoveProblem(
            free=tuple(vector_of(view.free(node), view.resources) for node in view.nodes),
            demand=view.parts(demand),
            domains=view.domains(demand),
            units=tuple(
                MoveUnit(
                    pods=len(unit.pods),
                    cost=unit.cost,
                    frees=view.freed(index),
                    pod_sets=view.parts(unit.demand, outside),
                    domains=view.domains(unit.demand),
                )
                for index, (unit, outside) in enumerate(zip(units, closed, strict=True))
            ),
            moves_max=moves_max,
            seed=session.snapshot.seed,
        )
        return problem, view.nodes

    # --- the check ------------------------------------------------------------------------------------------

    def _check(
        self,
        demand: Demand,
        units: Sequence[Movable],
        plan: MovePlan,
        of_demand: "_Names | None",
        of_units: "_Names | None",
        *,
        are_moved_first: bool = False,
    ) -> tuple[Assignments, tuple[Moved, ...], Devices] | None:
        """Assignments of the demand and of all moved gangs, and devices of the demand; None if a rule is
        violated.

        `of_demand`, `of_units`: map the plan to nodes; None allows any nodes. The demand is placed first,
        unless `are_moved_first`: then its own rules choose among what the moved gangs leave.
        """
        chosen = [units[unit] for unit in plan.units]
        if are_moved_first and self._terminating_near(chosen):
            return None
        steps = [_Step(unit.demand, where, of_units) for unit, where in zip(chosen, plan.moved, strict=True)]
        steps.insert(len(steps) if are_moved_first else 0, _Step(demand, plan.placements, of_demand))
        found: dict[GangId, tuple[Assignments, Devices]] = {}
        with self._session.statement() as trial:
            for unit in chosen:
                trial.assume_ended(queue=unit.gang.queue, used=unit.used, booked=unit.booked, gone=unit.pods)
            for step in steps:
                trial.nominate(queue=step.queue, usage=step.usage, booked=charged(step.usage))
            for step in steps:
                trial.assume_ended(queue=step.queue, used=step.usage, booked=charged(step.usage))
                assigned = self._assign(step.demand, step.nodes, trial)
                if assigned is None:
                    break
                found[step.demand.gang.id] = assigned
                if step.demand is demand:
                    self._assume_terminated(chosen, trial)
            is_right = len(found) == len(steps) and all(
                self._stays_spread(step.demand, *found[step.demand.gang.id]) for step in steps
            )
            trial.roll_back()
        if not is_right:
            return None
        moved = tuple(Moved(unit, *found[unit.gang.id]) for unit in chosen)
        assignments, devices = found[demand.gang.id]
        return assignments, moved, devices

    def _assume_terminated(self, units: Sequence[Movable], trial: Statement) -> None:
        """Let pods that terminate not count if one of these gangs requires pods near it: they are gone before
        it has moved. They keep their devices."""
        gone = [replace(pod, device_claims=()) for pod in self._terminating_near(units)]
        if gone:
            trial.assume_ended(queue=units[0].gang.queue, used={}, booked={}, gone=gone)

    def _terminating_near(self, units: Sequence[Movable]) -> list[Pod]:
        """The pods that terminate, if one of these gangs requires pods near it."""
        if not any(terms_near(unit.demand) for unit in units):
            return []
        everyone = (pod for gang in self._session.gangs.values() for pod in gang.members)
        return [pod for pod in everyone if pod.deleting and pod.holds_node]

    def _stays_spread(self, demand: Demand, assignments: Assignments, devices: Devices) -> bool:
        """Whether its spread constraints hold beside all gangs that have been placed before and after it."""
        if not any(batch.pods[0].shape.spread for batch in demand.batches):
            return True
        placed = [replace(pod, node=node) for node, pods in assignments for pod in pods]
        with self._session.statement() as trial:
            usage = usage_of_assignments(assignments)
            trial.assume_ended(queue=demand.gang.queue, used=usage, booked=charged(usage), gone=placed)
            reserve(self._session, trial, devices, release=True)
            nodes = [node for node, _ in assignments]
            problem = self._problems.build_problem(demand, listing=nodes).problem
            trial.roll_back()
        rules = tuple(rule for rule in problem.rules if rule.counts_others)
        spread = replace(problem, rules=rules)
        return not violated_rules(spread, solver_assignments(DemandPlacement(demand, assignments)))

    def _assign(
        self, demand: Demand, nodes: frozenset[NodeName] | None, trial: Statement
    ) -> tuple[Assignments, Devices] | None:
        """Assignments on these nodes, or on any nodes, and devices; their capacity is taken."""
        assignments = self._place(demand, nodes)
        if assignments is not None:
            usage = usage_of_assignments(assignments)
            trial.nominate(queue=demand.gang.queue, usage=usage, booked=charged(usage), expected=assignments)
            try:
                return assignments, expect(self._session, trial, assignments)
            except SupplyLacking:
                return None
        return None

    def _place(self, demand: Demand, nodes: frozenset[NodeName] | None) -> Assignments | None:
        others = frozenset() if nodes is None else frozenset(self._session.nodes) - nodes
        taken = self._placer.place_whole(demand, others)
        return taken.assignments if taken is not None else None


def _added(used: Usage, more: Usage) -> Usage:
    """The sum of both."""
    return {**used, **{node: add(used.get(node, NONE), amounts) for node, amounts in more.items()}}


def _is_concerned(unit: Movable) -> bool:
    """Whether affinity terms concern its pods, or whether they have devices."""
    if any(pod.device_claims for pod in unit.pods):
        return True
    states = [pod.shape.affinity_state for pod in unit.pods]
    return any(state is not None and state.is_required for state in states)


def _cost_bound(result: MoveResult, other: MoveResult) -> int:
    """A bound on the cost of plans that move as many pods as the other result; 0 without one."""
    first, second = result.plan, other.plan
    is_same = first is not None and second is not None and first.pods == second.pods
    return result.cost_bound if is_same else 0


class _View:
    """The cluster as one problem sees it: nodes by number; equal pods are computed once."""

    def __init__(
        self,
        session: Session,
        demands: Sequence[Demand],
        units: Sequence[Movable],
        devices: MoveDevices,
    ) -> None:
        self._session = session
        self._claimed = devices
        self.nodes = list(session.nodes)
        self._index = {name: position for position, name in enumerate(self.nodes)}
        pods = [batch.pods[0] for each in demands for batch in each.batches]
        self._projections = session.projections([pod.shape for pod in pods], only_freed=True)
        self.resources = asked_for(map(self._asked, pods))
        self._used = [_added(unit.used, devices.freed(index)) for index, unit in enumerate(units)]
        self._most = self._free_without_units()
        self._takes: dict[Hashable, dict[int, int]] = {}
        self._domains: dict[Hashable, dict[int, int]] = {}

    def free(self, node: NodeName) -> Resources:
        """What is free on the node, with its ports and volumes."""
        free = projected(self._projections, self._session.nodes[node], self._session.free(node))
        return {**free, **self._claimed.free(node)}

    def _asked(self, pod: Pod) -> Resources:
        return {**with_supplied(pod.shape), **self._claimed.asked(pod)}

    def _free_without_units(self) -> list[Vector]:
        """The free amounts of each node without all gangs that may be moved."""
        back: dict[NodeName, Resources] = {}
        for each in self._used:
            for node, used in each.items():
                back[node] = add(back.get(node, NONE), used)
        frees = (add(self.free(node), back.get(node, NONE)) for node in self.nodes)
        return [vector_of(free, self.resources) for free in frees]

    def freed(self, unit: int) -> tuple[tuple[int, Vector], ...]:
        """What is freed when the pods of this unit end, by node number."""
        used = self._used[unit]
        return tuple((self._index[node], vector_of(used[node], self.resources)) for node in sorted(used))

    def parts(self, demand: Demand, outside: frozenset[NodeName] = NO_NODES) -> tuple[PodSet, ...]:
        """One pod set per batch, for nodes that are not `outside`."""
        path = [queue.name for queue in self._session.queues.path(demand.gang.queue)]
        closed = outside.union(node for cell in self._session.cells.closed_to(path) for node in cell.nodes)
        return tuple(self._part(batch, closed) for batch in demand.batches)

    def _part(self, batch: Batch, closed: frozenset[NodeName]) -> PodSet:
        pod, count = batch.pods[0], len(batch.pods)
        (request,) = request_vectors([self._asked(pod)], self.resources)
        key = (pod.shape.key, count, closed)
        if key not in self._takes:
            rejected = self._session.eligibility(pod).rejected
            allowed = min(count, 1) if self._avoids_itself(pod) else count
            fitting = {
                place: min(
                    pods_that_fit(most, request, allowed), self._devices_on(self.nodes[place], pod, allowed)
                )
                for place, most in enumerate(self._most)
                if self.nodes[place] not in rejected and self.nodes[place] not in closed
            }
            self._takes[key] = {place: most for place, most in fitting.items() if most}
        return PodSet(request, count, self._takes[key])

    def _devices_on(self, node: NodeName, pod: Pod, count: int) -> int:
        """For how many of `count` such pods the node has devices, unless the amounts say it."""
        if not pod.shape.device_slot or self._claimed.asked(pod):
            return count
        devices = claimed_devices(self._session)
        return min(count, devices.count(devices.needs.of(pod.shape), self._session.nodes[node].node))

    def _avoids_itself(self, pod: Pod) -> bool:
        """Whether its anti-affinity keeps equal pods on different nodes."""
        state, index = pod.shape.affinity_state, self._session.affinity_index
        if state is None or index is None:
            return False
        own = (number for number in state.anti_affinity if number in state.matched_by)
        return any(index.has_unique_values(index.terms[number][0].topology_key) for number in own)

    def domains(self, demand: Demand) -> dict[int, int] | None:
        """For each node, the number of the domain that must hold all pods; None if they need not share one.

        The domain is that of the required level, of the labels by which all pods must be near each other, or
        of both.
        """
        topology, labels = demand.gang.topology, self._shared_labels(demand)
        if topology.required is None and not labels:
            return None
        if (topology, labels) not in self._domains:
            domain_of = allowed_domains(self._session, constraints_of(self._session, demand.gang))
            found = {}
            for node, domain in domain_of.items():
                own = self._session.nodes[node].node.labels
                if all(label in own for label in labels):
                    found[node] = (domain, tuple([own[label] for label in labels]))
            numbers = {domain: number for number, domain in enumerate(dict.fromkeys(found.values()))}
            self._domains[topology, labels] = {
                self._index[node]: numbers[domain] for node, domain in found.items()
            }
        return self._domains[topology, labels]

    def _shared_labels(self, demand: Demand) -> tuple[str, ...]:
        """The labels of which all pods need nodes with the same values, since their affinity selects all of
        them and no other pod; empty for none."""
        states = [batch.pods[0].shape.affinity_state for batch in demand.batches]
        first = states[0].affinity if states[0] is not None else None
        index = self._session.affinity_index
        if first is None or index is None or any(index.values_with_matches(first)):
            return ()
        if not all(each and each.affinity == first and first in each.matched_by for each in states):
            return ()
        return tuple(dict.fromkeys(term.topology_key for term in index.terms[first]))


class _Names:
    """Maps node numbers of the problem to names."""

    def __init__(self, nodes: Sequence[NodeName]) -> None:
        self._nodes = nodes

    def nodes(self, placements: PlannedPlacements) -> frozenset[NodeName]:
        """The nodes of these placements."""
        return frozenset(self._nodes[place] for part in placements for place, _ in part)

    def usage(self, demand: Demand, placements: PlannedPlacements) -> dict[NodeName, Resources]:
        """What the demand uses on its planned nodes."""
        used: dict[NodeName, Resources] = {}
        for batch, places in zip(demand.batches, placements, strict=True):
            for place_, count in places:
                node = self._nodes[place_]
                here = usage_of_assignments([(node, batch.pods[:count])])[node]
                used[node] = add(used.get(node, NONE), here)
        return used


class _Step(Struct, frozen=True):
    """A gang that is placed, on its planned nodes or, without `names`, on any."""

    demand: Demand
    planned: PlannedPlacements
    names: _Names | None

    @property
    def queue(self) -> QueueName:
        return self.demand.gang.queue

    @property
    def usage(self) -> Usage:
        """What is held for it on its planned nodes until it is placed."""
        return self.names.usage(self.demand, self.planned) if self.names is not None else {}

    @property
    def nodes(self) -> frozenset[NodeName] | None:
        return self.names.nodes(self.planned) if self.names is not None else None


def usage_of_assignments(assignments: Assignments) -> Usage:
    """What the assigned pods use per node, with their ports and volumes; and what queues are charged for
    their claims."""
    used: dict[NodeName, Resources] = {}
    for node, pods in assignments:
        used[node] = add(used.get(node, NONE), total_requests(pods))
        for pod in pods:
            if pod.shape.supplied:
                used[node] = add(used[node], dict(pod.shape.supplied))
    return with_marked_charges(used, assignments)
