"""Step 3, looked at once more: starts that found no room, together with those of this cycle that did.

First come may take a rack that only a later gang could have used. Nothing is bound yet, so what one-by-one
order placed may be moved, but never displaced: the joint answer counts only if it places all that and more.
Those that are helped are of the highest rank that waits and would fit without the others; those that are
moved are of the same rank or of a lower one. In a queue that admits by value, one of its gangs that found
room may be left out for others of the queue and of the same rank that are worth more.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from phalanx.actions.context import Cycle
from phalanx.actions.demands.demand import Demand, Stage, has_affinity_terms
from phalanx.actions.demands.demand_queue import rank_of
from phalanx.actions.demands.subgroup_choice import start_with_other_subgroups
from phalanx.actions.limits import CYCLE_JOINT_GANGS_MAX, CYCLE_JOINT_LIMIT, CYCLE_VALUE_QUEUES_MAX
from phalanx.actions.node_failures import NodeFailures
from phalanx.actions.outcome import Failure, Outcome
from phalanx.actions.problems.joint_problem import (
    Question,
    has_shares,
    have_compatible_shares,
    together,
    topology_of,
    with_devices,
)
from phalanx.actions.problems.placement import DemandPlacement, apply_placement
from phalanx.actions.problems.pod_assignment import assign_pods
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.framework.session import Session
from phalanx.framework.statement import Statement
from phalanx.model.names import GangId, QueueName
from phalanx.model.queues import Admission, Ordering
from phalanx.solver.engine import GREEDY_ONLY, place
from phalanx.solver.joint.arrays import unsupported_gangs
from phalanx.solver.joint.engine import BY, admit
from phalanx.solver.joint.problem import JointAnswer, JointLimits
from phalanx.solver.problem import Placed

_LIMITS = JointLimits(deterministic=CYCLE_JOINT_LIMIT)


def improve(cycle: Cycle) -> bool:
    """Place more of the starts that failed, if all that was placed can be kept, then by value where wished.

    Whether others are placed now than before.
    """
    session, outcome, failures = cycle.session, cycle.outcome, cycle.node_failures
    is_other = _admit(session, outcome, failures, by_value=None, limits=_LIMITS)
    queues = _queues_by_value(session, outcome)
    for queue in queues:
        limits = JointLimits(deterministic=CYCLE_JOINT_LIMIT / len(queues))
        is_other |= _admit(session, outcome, failures, by_value=queue, limits=limits)
    return is_other


def _queues_by_value(session: Session, outcome: Outcome) -> list[QueueName]:
    """The first queues with such a wish in which somebody waits."""
    waiting = dict.fromkeys(failure.demand.gang.queue for failure in outcome.failures.values())
    wishing = [name for name in waiting if _admission(session, name) is Admission.MOST_VALUE]
    return wishing[:CYCLE_VALUE_QUEUES_MAX]


def _admission(session: Session, name: QueueName) -> Admission:
    queue = session.queues.get(name)
    if queue is None or queue.ordering is not Ordering.PRIORITY_FIFO:
        return Admission.IN_ORDER
    return session.queues.wish(name, lambda each: each.admission) or Admission.IN_ORDER


def _admit(
    session: Session,
    outcome: Outcome,
    failures: NodeFailures,
    *,
    by_value: QueueName | None,
    limits: JointLimits,
) -> bool:
    """All that waits, beside all that was placed; or what waits in one queue, instead of some of it there."""
    waiting = [
        failure.demand
        for failure in outcome.failures.values()
        if failure.is_new
        and by_value in (None, failure.demand.gang.queue)
        and _may_move(failure.demand, session, failures)
    ][:CYCLE_JOINT_GANGS_MAX]
    movable = _movable(session, outcome, failures) if waiting else []
    if not movable:
        return False
    begin = movable[0]
    placings = [placing for placing, _ in outcome.steps[begin:]]
    _roll_back([statement for _, statement in outcome.steps[begin:]])
    loose = {index - begin for index in movable}
    fixed = [
        apply_placement(session, placing) for index, placing in enumerate(placings) if index not in loose
    ]
    before, with_other_subgroups = dict(outcome.failures), set(outcome.with_other_subgroups)
    arranged = outcome.isolate_errors(
        lambda: _arranged(session, outcome, placings, sorted(loose), waiting, by_value, limits),
        about=BY,
    )
    if arranged is None:
        arranged, outcome.failures, outcome.with_other_subgroups = placings, before, with_other_subgroups
    _roll_back(fixed)
    outcome.steps[begin:] = [(placing, apply_placement(session, placing)) for placing in arranged]
    return _gangs(arranged) != _gangs(placings)


def _gangs(placings: Iterable[DemandPlacement]) -> set[GangId]:
    return {placing.demand.gang.id for placing in placings}


def _may_move(demand: Demand, session: Session, failures: NodeFailures) -> bool:
    """Whether it starts whole, from nothing, without nodes or pods to avoid, and is counted exactly.

    What must lie in NUMA zones is not, where several kinds are; left alone they find room again.
    """
    if failures.nodes_to_avoid(demand.gang.id) or has_affinity_terms(demand):
        return False
    if session.facts.zoned and any(batch.pods[0].shape.numa for batch in demand.batches):
        return False
    return demand.stage is Stage.START and demand.is_whole


def _movable(session: Session, outcome: Outcome, failures: NodeFailures) -> list[int]:
    """The last steps that may be moved; not those of gangs that were placed in several steps."""
    steps = Counter(placing.demand.gang.id for placing, _ in outcome.steps)
    movable = [
        index
        for index, (placing, _) in enumerate(outcome.steps)
        if steps[placing.demand.gang.id] == 1 and _may_move(placing.demand, session, failures)
    ]
    return movable[-CYCLE_JOINT_GANGS_MAX:]


def _roll_back(statements: Sequence[Statement]) -> None:
    for statement in reversed(statements):
        statement.roll_back()


def _arranged(
    session: Session,
    outcome: Outcome,
    placings: list[DemandPlacement],
    loose: Sequence[int],
    waiting: Sequence[Demand],
    by_value: QueueName | None,
    limits: JointLimits,
) -> list[DemandPlacement]:
    """The placings, the loose ones maybe moved, and what is placed besides or instead."""
    problems = ProblemBuilder(session)
    helped = _helped(session, problems, waiting)
    moved = _moved(session, placings, loose, helped) if helped else []
    while helped:
        found = [placings[index] for index in moved]
        optional = _optional(session, outcome, found, helped, by_value)
        if by_value is not None and not optional:
            break
        stay = [placings[index] for index in loose if index not in moved]
        held = [apply_placement(session, placing) for placing in stay]
        try:
            question = together(session, problems, found, helped, optional)
            unknown = unsupported_gangs(question.problem)
            demands = [*(placing.demand for placing in found), *helped]
            anew = [] if unknown else _solved(session, outcome, question, demands, limits)
        finally:
            _roll_back(held)
        if not unknown:
            others = [*(placing for index, placing in enumerate(placings) if index not in loose), *stay]
            left_out = _gangs(found) - _gangs(anew) if anew else set[GangId]()
            _note_left_out(outcome, [each for each in found if each.demand.gang.id in left_out])
            rest = [placing for placing in placings if placing.demand.gang.id not in left_out]
            return _merged(rest, others, anew)
        helped = [demand for index, demand in enumerate(helped, len(moved)) if index not in unknown]
        moved = [step for index, step in enumerate(moved) if index not in unknown]
    return placings


def _moved(
    session: Session, placings: Sequence[DemandPlacement], loose: Sequence[int], helped: Sequence[Demand]
) -> list[int]:
    """Those of the loose ones that may be moved for these: of no higher rank, and counted exactly with them.

    Those with shares only for others with shares, since nobody else can use the GPUs that are shared.
    """
    first = rank_of(helped[0].gang, session)
    topologies = {topology_of(session, demand) for demand in helped} | {None}
    are_shared = any(has_shares(demand) for demand in helped)
    moved = [
        index
        for index in loose
        if rank_of(placings[index].demand.gang, session) >= first
        and topology_of(session, placings[index].demand) in topologies
        and (are_shared or not has_shares(placings[index].demand))
    ]
    add_up = have_compatible_shares([*helped, *(placings[index].demand for index in moved)])[len(helped) :]
    return [index for index, adds_up in zip(moved, add_up, strict=True) if adds_up]


def _optional(
    session: Session,
    outcome: Outcome,
    moved: Sequence[DemandPlacement],
    helped: Sequence[Demand],
    by_value: QueueName | None,
) -> frozenset[GangId]:
    """Those of the moved that may be left out: of the queue that goes by value, of the rank of the helped.

    Not those for which room was made or a start was promised, nor those that started with other subgroups or
    found no room for their surplus: what was placed is not all that they asked for.
    """
    memory = session.snapshot.memory
    first = rank_of(helped[0].gang, session)
    gangs = [placing.demand.gang for placing in moved if placing.demand.gang.queue == by_value]
    equals = frozenset(gang.id for gang in gangs if rank_of(gang, session) == first)
    kept = (
        memory.nominations.keys()
        | memory.reserved_starts.keys()
        | outcome.with_other_subgroups
        | outcome.failures.keys()
    )
    return equals - kept


def _helped(session: Session, problems: ProblemBuilder, waiting: Sequence[Demand]) -> list[Demand]:
    """Those of the highest rank, and one topology, that would fit if what can move were not there.

    Of those with shares of GPUs, the ones whose shares add up.
    """

    def fits(demand: Demand) -> Placed | None:
        answer = place(problems.build_problem(demand).problem, limits=GREEDY_ONLY)
        return answer if isinstance(answer, Placed) else None

    for rank in sorted({rank_of(demand.gang, session) for demand in waiting}):
        equals = (demand for demand in waiting if rank_of(demand.gang, session) == rank)
        found = ((demand, fits(demand)) for demand in equals)
        some = (pair if pair[1] else start_with_other_subgroups(pair[0], fits) for pair in found)
        fit = [pair[0] for pair in some if pair is not None]
        named = [name for demand in fit if (name := topology_of(session, demand)) is not None]
        if fit:
            one = [demand for demand in fit if topology_of(session, demand) in (None, *named[:1])]
            return [
                demand for demand, adds_up in zip(one, have_compatible_shares(one), strict=True) if adds_up
            ]
    return []


def _solved(
    session: Session, outcome: Outcome, question: Question, demands: Sequence[Demand], limits: JointLimits
) -> list[DemandPlacement]:
    """All that the joint answer places; empty where all stays as it was. Whoever is new has not failed.

    The session is without all these, and with all other ones.
    """
    answer = admit(question.problem, question.start, limits=limits)
    if not isinstance(answer, JointAnswer):
        return []
    outcome.solves[BY] += 1
    outcome.errors.extend(answer.errors)
    seated = []
    for one in answer.admitted or ():
        seats = assign_pods(session, demands[one.gang], one.placed.assignments)
        seated.append(DemandPlacement(demands[one.gang], seats, one.placed.certificate))
    arranged = with_devices(session, seated)
    if arranged is None:
        outcome.errors.append(f"{BY}: no devices for what was admitted")
        return []
    for placing in arranged:
        failure = outcome.failures.pop(placing.demand.gang.id, None)
        if failure is not None and failure.demand is not placing.demand:
            outcome.with_other_subgroups.add(placing.demand.gang.id)
    return arranged


def _note_left_out(outcome: Outcome, placings: Sequence[DemandPlacement]) -> None:
    """They came before those that had found no room, and so they are tried again before them."""
    left_out = {placing.demand.gang.id: Failure(placing.demand) for placing in placings}
    outcome.failures = left_out | outcome.failures


def _merged(
    placings: list[DemandPlacement], others: Sequence[DemandPlacement], arranged: Sequence[DemandPlacement]
) -> list[DemandPlacement]:
    """The placings as they are put now: those arranged anew where they were, whoever is new last.

    Where devices were dealt, the others come first, as they were put before: which devices those get must
    not depend on the dealt ones.
    """
    if any(placing.devices for placing in arranged):
        return [*others, *arranged]
    anew = {placing.demand.gang.id: placing for placing in arranged}
    kept = [anew.pop(placing.demand.gang.id, placing) for placing in placings]
    return [*kept, *anew.values()]
