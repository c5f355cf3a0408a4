"""Joint admission: solve the failed starts of this cycle together with those that were placed.

If gangs are placed one by one, an earlier gang may take a rack that only a later gang could use. Nothing is
bound yet, so placements may still change. The joint solution is used only if it keeps all placed gangs and
places more. It helps the gangs of the highest waiting rank that fit if the others are ignored, and it changes
placements of gangs of the same or of lower rank. In a queue that admits by value, a placed gang may be left
out for gangs of the same queue and rank with a larger value.

The joint model states all rules of most gangs exactly. Gangs with other rules take part in a second attempt:
its model leaves these rules out, and its solution is a proposal that `joint_steps.py` places with all rules.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from itertools import takewhile
from typing import Final

from phalanx.actions.context import Cycle
from phalanx.actions.demands.demand import Demand, Stage
from phalanx.actions.demands.demand_queue import rank_of
from phalanx.actions.demands.member_choice import start_with_others
from phalanx.actions.joint_steps import JointSteps, without_needed
from phalanx.actions.outcome import Failure
from phalanx.actions.problems.certificates import certified_again
from phalanx.actions.problems.device_choices import sharing_of
from phalanx.actions.problems.joint_problem import (
    WarmStartedProblem,
    are_compatible,
    chooses_parts,
    is_modelled,
    joint_problem,
    topology_of,
    with_parts,
)
from phalanx.actions.problems.placement import DemandPlacement, apply_placement
from phalanx.actions.problems.pod_assignment import assign_pods
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.framework.session import Session
from phalanx.framework.statement import DoesNotFit, SharedLacking, Statement
from phalanx.model.names import GangId, QueueName
from phalanx.model.queues import Admission, Ordering
from phalanx.solver.answer import Placed
from phalanx.solver.engine import GREEDY_ONLY, place
from phalanx.solver.joint.arrays import unsupported_gangs
from phalanx.solver.joint.engine import BY, admit
from phalanx.solver.joint.problem import JointAnswer, JointLimits

CYCLE_JOINT_LIMIT: Final = 0.5
"""Deterministic time of CP-SAT for joint admission in one cycle: about a second at most, since all other
placements of the cycle wait for it."""

CYCLE_JOINT_GANGS_MAX: Final = 100
"""Placed gangs that joint admission may move, and waiting gangs that it may help."""

CYCLE_VALUE_QUEUES_MAX: Final = 8
"""Queues in which one cycle admits by value. They share the effort, and each builds a model."""

_LIMITS = JointLimits(deterministic=CYCLE_JOINT_LIMIT)


def improve(cycle: Cycle) -> bool:
    """Place more of the starts that failed. Return whether other gangs are placed than before.

    First a solution that keeps all placed gangs is searched, then one for each queue that admits by value.
    """
    return _JointAdmission(cycle).improve()


class _JointAdmission:
    def __init__(self, cycle: Cycle) -> None:
        self._session = cycle.session
        self._outcome = cycle.outcome
        self._node_failures = cycle.node_failures

    def improve(self) -> bool:
        has_changed = self._improve(by_value=None, limits=_LIMITS)
        has_changed |= self._improve(by_value=None, limits=_LIMITS, exactly=False)
        queues = self._queues_by_value()
        for queue in queues:
            limits = JointLimits(deterministic=CYCLE_JOINT_LIMIT / len(queues))
            has_changed |= self._improve(by_value=queue, limits=limits)
        return has_changed

    def _queues_by_value(self) -> list[QueueName]:
        """The first queues that admit by value and in which a gang waits."""
        failures = self._outcome.failures.values()
        waiting = dict.fromkeys(failure.demand.gang.queue for failure in failures)
        return [name for name in waiting if self._admits_by_value(name)][:CYCLE_VALUE_QUEUES_MAX]

    def _admits_by_value(self, name: QueueName) -> bool:
        queues = self._session.queues
        queue = queues.get(name)
        if queue is None or queue.ordering is not Ordering.PRIORITY_FIFO:
            return False
        return queues.inherited(name, lambda queue: queue.admission) is Admission.MOST_VALUE

    def _improve(self, *, by_value: QueueName | None, limits: JointLimits, exactly: bool = True) -> bool:
        """Keep all placements and place more; or, for the queue `by_value`, leave some of its gangs out.

        `exactly`: only of gangs that the joint model states exactly.
        """
        waiting = self._waiting(by_value, exactly=exactly)
        movable = self._movable(waiting[0], exactly=exactly) if waiting else []
        if not movable:
            return False
        if not exactly:
            known = [*waiting, *(self._outcome.steps[index][0].demand for index in movable)]
            if all(is_modelled(demand, self._session) for demand in known):
                return False
        with self._session.respecting_nominations(waiting[0].gang):
            return self._improve_on(movable, waiting, by_value, limits, exactly=exactly)

    def _improve_on(
        self,
        movable: Sequence[int],
        waiting: Sequence[Demand],
        by_value: QueueName | None,
        limits: JointLimits,
        *,
        exactly: bool,
    ) -> bool:
        session, outcome = self._session, self._outcome
        begin = movable[0]
        placements = [placement for placement, _ in outcome.steps[begin:]]
        _roll_back([statement for _, statement in outcome.steps[begin:]])
        movable = [index - begin for index in movable]
        fixed = _applied_again(session, [each for n, each in enumerate(placements) if n not in movable])
        if fixed is None:
            outcome.steps[begin:] = self._applied(placements, placements, certify_all=False)
            return False
        before, with_other_members = dict(outcome.failures), set(outcome.with_other_members)
        rearranged = outcome.isolate_errors(
            lambda: self._rearranged(placements, movable, waiting, by_value, limits, exactly=exactly),
            about=BY,
        )
        _roll_back(fixed)
        try:
            if rearranged is not None and _gangs(rearranged) != _gangs(placements):
                outcome.steps[begin:] = self._applied(placements, rearranged, certify_all=not exactly)
                return True
        except SharedLacking:
            pass  # The model does not know what claims get in another order.
        except DoesNotFit as error:
            outcome.errors.append(f"{BY}: {error}")
        outcome.failures, outcome.with_other_members = before, with_other_members
        outcome.steps[begin:] = self._applied(placements, placements, certify_all=False)
        return False

    def _applied(
        self,
        before: Sequence[DemandPlacement],
        after: Sequence[DemandPlacement],
        *,
        certify_all: bool,
    ) -> list[tuple[DemandPlacement, Statement]]:
        """Apply the placements in order. Certify a kept one again if placements that it depends on changed.

        Those are the earlier ones, and for a placement of a joint solution all of them. `certify_all`: new
        ones have no proof yet.
        """
        known = set(map(id, before))
        pairs = zip(before, after, strict=False)
        unchanged = len([*takewhile(lambda pair: pair[0] is pair[1], pairs)])
        problems = ProblemBuilder(self._session)
        steps: list[tuple[DemandPlacement, Statement]] = []
        for index, placement in enumerate(after):
            depends_on_all = placement.is_joint and unchanged < len(before)
            is_old = id(placement) in known
            if (is_old and (index >= unchanged or depends_on_all)) or (certify_all and not is_old):
                again = partial(certified_again, problems, placement)
                placement = self._outcome.isolate_errors(again, about=BY) or placement
            try:
                steps.append((placement, apply_placement(self._session, placement)))
            except DoesNotFit:
                _roll_back([statement for _, statement in steps])
                raise
        return steps

    def _waiting(self, by_value: QueueName | None, *, exactly: bool) -> list[Demand]:
        failures = [failure for failure in self._outcome.failures.values() if failure.is_new]
        demands = [each.demand for each in failures if self._may_move(each.demand, exactly=exactly)]
        found = [demand for demand in demands if by_value in (None, demand.gang.queue)]
        return [demand for demand in found if self._are_free_alike(demand, found[0])][:CYCLE_JOINT_GANGS_MAX]

    def _are_free_alike(self, demand: Demand, other: Demand) -> bool:
        """Whether the same capacity is free for both: pods of other schedulers may withhold it from one."""
        capacity = self._session.nominated_capacity
        if not capacity.all_priorities:
            return True
        return capacity.respected_by(demand.gang.priority) == capacity.respected_by(other.gang.priority)

    def _may_move(self, demand: Demand, *, exactly: bool) -> bool:
        """Whether it is a whole start without avoided nodes; `exactly`: and the joint model states it.

        Claims that several pods share are allocated with the first of them, so the result depends on the
        order in which gangs were tried before. Their gangs stay.
        """
        if self._node_failures.nodes_to_avoid(demand.gang.id) or self._shares_claims(demand):
            return False
        if exactly and not is_modelled(demand, self._session):
            return False
        return demand.stage is Stage.START and demand.is_whole and not demand.gang.active

    def _shares_claims(self, demand: Demand) -> bool:
        return sharing_of(self._session, demand) is not None

    def _movable(self, waiting: Demand, *, exactly: bool) -> list[int]:
        """The indices of the last steps that may change; not of gangs that were placed in several steps."""
        steps = self._outcome.steps
        count = Counter(placement.demand.gang.id for placement, _ in steps)
        movable = [
            index
            for index, (placement, _) in enumerate(steps)
            if count[placement.demand.gang.id] == 1
            and self._may_move(placement.demand, exactly=exactly)
            and self._are_free_alike(placement.demand, waiting)
        ]
        return movable[-CYCLE_JOINT_GANGS_MAX:]

    def _rearranged(
        self,
        placements: list[DemandPlacement],
        movable: Sequence[int],
        waiting: Sequence[Demand],
        by_value: QueueName | None,
        limits: JointLimits,
        *,
        exactly: bool,
    ) -> list[DemandPlacement]:
        """The placements, of which the movable ones may have changed, and those of further gangs."""
        session = self._session
        problems = ProblemBuilder(session)
        helped = self._helped(problems, waiting)
        moved = self._moved(placements, movable, helped) if helped else []
        moved = moved if exactly else without_needed(placements, moved)
        while helped:
            found = [placements[index] for index in moved]
            optional = self._optional(found, helped, by_value)
            if by_value is not None and not optional:
                break
            stay = [placements[index] for index in movable if index not in moved]
            held = _applied_again(session, stay)
            if held is None:
                return placements
            try:
                joint = joint_problem(session, problems, found, helped, optional, exactly=exactly)
                unsupported = unsupported_gangs(joint.problem)
                if unsupported:
                    new = []
                elif exactly:
                    demands = [*(placement.demand for placement in found), *helped]
                    new = self._solved(joint, demands, limits)
                else:
                    new = self._solved_in_steps(joint, found, helped, limits)
            finally:
                _roll_back(held)
            if not unsupported:
                others = [*(each for index, each in enumerate(placements) if index not in movable), *stay]
                if new and not exactly:
                    return [*others, *new]
                return self._merged(placements, others, found, new)
            helped = [demand for index, demand in enumerate(helped, len(moved)) if index not in unsupported]
            moved = [step for index, step in enumerate(moved) if index not in unsupported]
        return placements

    def _moved(
        self, placements: Sequence[DemandPlacement], movable: Sequence[int], helped: Sequence[Demand]
    ) -> list[int]:
        """The movable placements that may change for the helped gangs: those of no higher rank.

        They must use the same topology and compatible shares of GPUs. Gangs with shares are moved only for
        gangs with shares, since no other gang can use shared GPUs.
        """
        session, first = self._session, rank_of(helped[0].gang, self._session)
        topologies = {topology_of(session, demand) for demand in helped} | {None}
        are_shared = any(map(chooses_parts, helped))
        moved = [
            index
            for index in movable
            if rank_of(placements[index].demand.gang, session) >= first
            and topology_of(session, placements[index].demand) in topologies
            and (are_shared or not chooses_parts(placements[index].demand))
        ]
        demands = [*helped, *(placements[index].demand for index in moved)]
        compatible = are_compatible(demands)[len(helped) :]
        return [index for index, is_compatible in zip(moved, compatible, strict=True) if is_compatible]

    def _optional(
        self, moved: Sequence[DemandPlacement], helped: Sequence[Demand], by_value: QueueName | None
    ) -> frozenset[GangId]:
        """The moved gangs that may be left out: of the queue `by_value` and of the rank of the helped gangs.

        Gangs with nominated capacity or a reserved start are not left out. Nor are gangs that started with
        other members or whose surplus did not fit: their placed demand is not all that they request.
        """
        session, outcome = self._session, self._outcome
        memory = session.snapshot.memory
        first = rank_of(helped[0].gang, session)
        gangs = [placement.demand.gang for placement in moved if placement.demand.gang.queue == by_value]
        equals = frozenset(gang.id for gang in gangs if rank_of(gang, session) == first)
        protected = memory.nominations.keys() | memory.reserved_starts.keys()
        return equals - (protected | outcome.with_other_members | outcome.failures.keys())

    def _helped(self, problems: ProblemBuilder, waiting: Sequence[Demand]) -> list[Demand]:
        """The gangs of the highest rank that fit if the movable placements are ignored.

        They use the same topology, and their shares of GPUs are compatible.
        """
        session = self._session
        known: dict[Hashable, Placed | None] = {}

        def fits(demand: Demand) -> Placed | None:
            key = problems.key(demand)
            if key not in known:
                answer = place(problems.build_problem(demand).problem, limits=GREEDY_ONLY)
                known[key] = answer if isinstance(answer, Placed) else None
            return known[key]

        for rank in sorted({rank_of(demand.gang, session) for demand in waiting}):
            equals = (demand for demand in waiting if rank_of(demand.gang, session) == rank)
            found = ((demand, fits(demand)) for demand in equals)
            some = (pair if pair[1] else start_with_others(pair[0], fits) for pair in found)
            fit = [pair[0] for pair in some if pair is not None]
            named = [name for demand in fit if (name := topology_of(session, demand)) is not None]
            if fit:
                one = [demand for demand in fit if topology_of(session, demand) in (None, *named[:1])]
                compatible = are_compatible(one)
                return [
                    demand for demand, is_compatible in zip(one, compatible, strict=True) if is_compatible
                ]
        return []

    def _solved(
        self, joint: WarmStartedProblem, demands: Sequence[Demand], limits: JointLimits
    ) -> list[DemandPlacement]:
        """The placements of the joint solution; empty if it is no improvement.

        The session must contain all other placements, and none of these demands.
        """
        session, outcome = self._session, self._outcome
        answer = admit(joint.problem, joint.start, limits=limits)
        if not isinstance(answer, JointAnswer):
            return []
        outcome.solves[BY] += 1
        outcome.errors.extend(answer.errors)
        found = []
        for one in answer.admitted or ():
            assignments = assign_pods(session, demands[one.gang], one.placed.assignments)
            found.append(
                DemandPlacement(demands[one.gang], assignments, one.placed.certificate, is_joint=True)
            )
        placements = with_parts(session, found)
        if placements is None:
            outcome.errors.append(f"{BY}: no parts of nodes for what was admitted")
            return []
        self._note_started(placements)
        return placements

    def _solved_in_steps(
        self,
        joint: WarmStartedProblem,
        found: Sequence[DemandPlacement],
        helped: Sequence[Demand],
        limits: JointLimits,
    ) -> list[DemandPlacement]:
        """The placements of the found and of some helped gangs with all rules; empty if none is helped.

        The joint model leaves rules out, so its solution is only a proposal, and its proof that there is none
        holds with all rules too; but it may count parts of nodes with some safety. The second proposal is to
        place the helped gangs first.
        """
        answer = admit(joint.problem, joint.start, limits=limits)
        admitted = answer.admitted or () if isinstance(answer, JointAnswer) else ()
        self._outcome.solves[BY] += 1
        is_proven = isinstance(answer, JointAnswer) and answer.certificate.proven
        if is_proven and not admitted and all(each.is_exact for each in self._session.facts.open_supplies):
            return []
        steps = JointSteps(self._session, self._outcome)
        demands = [*(placement.demand for placement in found), *helped]
        proposal = {demands[each.gang].gang.id: each.placed.assignments for each in admitted}
        placements = steps.placed_as(proposal, found, helped) if proposal else None
        placements = placements or steps.helped_first(found, helped)
        self._note_started(placements)
        return placements

    def _note_started(self, placements: Sequence[DemandPlacement]) -> None:
        for placement in placements:
            failure = self._outcome.failures.pop(placement.demand.gang.id, None)
            if failure is not None and failure.demand is not placement.demand:
                self._outcome.with_other_members.add(placement.demand.gang.id)

    def _merged(
        self,
        placements: list[DemandPlacement],
        others: Sequence[DemandPlacement],
        found: Sequence[DemandPlacement],
        new: Sequence[DemandPlacement],
    ) -> list[DemandPlacement]:
        """The placements in the order in which they are applied: old ones in their order, then new ones.

        If parts of nodes were assigned, all other placements are applied first, as when they were chosen.
        """
        left_out = _gangs(found) - _gangs(new) if new else set[GangId]()
        self._note_left_out([placement for placement in found if placement.demand.gang.id in left_out])
        rest = [placement for placement in placements if placement.demand.gang.id not in left_out]
        if any(placement.parts for placement in new):
            return [*others, *new]
        by_gang = {placement.demand.gang.id: placement for placement in new}
        kept = [by_gang.pop(placement.demand.gang.id, placement) for placement in rest]
        return [*kept, *by_gang.values()]

    def _note_left_out(self, placements: Sequence[DemandPlacement]) -> None:
        """Record the left-out placements as failures, before other failures: they were tried before them."""
        left_out = {placement.demand.gang.id: Failure(placement.demand) for placement in placements}
        self._outcome.failures = left_out | self._outcome.failures


def _gangs(placements: Iterable[DemandPlacement]) -> set[GangId]:
    return {placement.demand.gang.id for placement in placements}


def _applied_again(session: Session, placements: Sequence[DemandPlacement]) -> list[Statement] | None:
    """The statements of these placements without others of the cycle, none of which is made if one cannot be:
    in another order, their claims get other devices."""
    made: list[Statement] = []
    for each in placements:
        try:
            made.append(apply_placement(session, each))
        except DoesNotFit:
            _roll_back(made)
            return None
    return made


def _roll_back(statements: Sequence[Statement]) -> None:
    for statement in reversed(statements):
        statement.roll_back()
