"""Step 3, looked at once more: starts that found no room, together with those of this cycle that did.

First come may take a rack that only a later gang could have used. Nothing is bound yet, so what one-by-one
order placed may be moved, but never displaced: the joint answer counts only if it places all that and more.
Those that are helped are of the highest rank that waits and would fit without the others; those that are
moved are of the same rank or of a lower one.
"""

from collections import Counter
from collections.abc import Sequence

from phalanx.actions.agenda import rank_of
from phalanx.actions.demand import Demand, Stage, keeps_company
from phalanx.actions.failures import Failures
from phalanx.actions.limits import CYCLE_JOINT_GANGS_MAX, CYCLE_JOINT_LIMIT
from phalanx.actions.other_subgroups import start_with_others
from phalanx.actions.outcome import Outcome
from phalanx.actions.placing import Placing, put, seats_of
from phalanx.actions.problems import Problems
from phalanx.actions.together import together, topology_of
from phalanx.framework.session import Session
from phalanx.framework.statement import Statement
from phalanx.model.shares import asks_for_share
from phalanx.solver.engine import GREEDY_ONLY, place
from phalanx.solver.joint.engine import BY, admit
from phalanx.solver.joint.field import unknown_gangs
from phalanx.solver.joint.problem import Declined, JointAnswer, JointLimits
from phalanx.solver.problem import Placed

_LIMITS = JointLimits(deterministic=CYCLE_JOINT_LIMIT)


def execute(session: Session, outcome: Outcome, failures: Failures) -> bool:
    """Place more of the starts that failed, if all that was placed can be kept; whether that was so."""
    waiting = [
        failure.demand
        for failure in outcome.failures.values()
        if failure.is_new and _may_move(failure.demand, session, failures)
    ][:CYCLE_JOINT_GANGS_MAX]
    movable = _movable(session, outcome, failures) if waiting else []
    if not movable:
        return False
    begin = movable[0]
    placings = [placing for placing, _ in outcome.steps[begin:]]
    _roll_back([statement for _, statement in outcome.steps[begin:]])
    loose = {index - begin for index in movable}
    fixed = [put(session, placing) for index, placing in enumerate(placings) if index not in loose]
    arranged = _arranged(session, outcome, placings, sorted(loose), waiting)
    _roll_back(fixed)
    outcome.steps[begin:] = [(placing, put(session, placing)) for placing in arranged]
    return len(arranged) > len(placings)


def _may_move(demand: Demand, session: Session, failures: Failures) -> bool:
    """Whether it starts whole, from nothing, without nodes or pods to avoid, and adds up.

    Shares of several gangs need not, nor what must lie in NUMA zones; left alone they find room again.
    """
    if failures.nodes_to_avoid(demand.gang.id) or keeps_company(demand):
        return False
    shapes = [batch.pods[0].shape for batch in demand.batches]
    if any(asks_for_share(shape.requests) or (session.zoned and shape.numa) for shape in shapes):
        return False
    return demand.stage is Stage.START and demand.is_whole


def _movable(session: Session, outcome: Outcome, failures: Failures) -> list[int]:
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
    placings: list[Placing],
    loose: Sequence[int],
    waiting: Sequence[Demand],
) -> list[Placing]:
    """The placings, the loose ones maybe moved, and what is placed besides."""
    problems = Problems(session)
    helped = _helped(session, problems, waiting)
    if not helped:
        return placings
    first = rank_of(helped[0].gang, session)
    topologies = {topology_of(session, demand) for demand in helped} | {None}
    moved = [
        index
        for index in loose
        if rank_of(placings[index].demand.gang, session) >= first
        and topology_of(session, placings[index].demand) in topologies
    ]
    held = [put(session, placings[index]) for index in loose if index not in moved]
    question = together(session, problems, [placings[index] for index in moved], helped)
    unknown = unknown_gangs(question.problem)
    if unknown:
        stay = [moved[index] for index in unknown if index < len(moved)]
        helped = [demand for index, demand in enumerate(helped, len(moved)) if index not in unknown]
        moved = [index for index in moved if index not in stay]
        held += [put(session, placings[index]) for index in stay]
        question = together(session, problems, [placings[index] for index in moved], helped)
    answer = admit(question.problem, question.start, limits=_LIMITS) if helped else None
    _roll_back(held)
    if answer is None or isinstance(answer, Declined):
        return placings
    outcome.solves[BY] += 1
    outcome.defects.extend(answer.defects)
    return _taken_over(session, outcome, placings, moved, helped, answer)


def _helped(session: Session, problems: Problems, waiting: Sequence[Demand]) -> list[Demand]:
    """Those of the highest rank, and one topology, that would fit if what can move were not there."""

    def fits(demand: Demand) -> Placed | None:
        answer = place(problems.pose(demand).problem, limits=GREEDY_ONLY)
        return answer if isinstance(answer, Placed) else None

    for rank in sorted({rank_of(demand.gang, session) for demand in waiting}):
        equals = (demand for demand in waiting if rank_of(demand.gang, session) == rank)
        found = ((demand, fits(demand)) for demand in equals)
        some = (pair if pair[1] else start_with_others(pair[0], fits) for pair in found)
        fit = [pair[0] for pair in some if pair is not None]
        named = [name for demand in fit if (name := topology_of(session, demand)) is not None]
        if fit:
            return [demand for demand in fit if topology_of(session, demand) in (None, *named[:1])]
    return []


def _taken_over(
    session: Session,
    outcome: Outcome,
    placings: list[Placing],
    moved: Sequence[int],
    helped: Sequence[Demand],
    answer: JointAnswer,
) -> list[Placing]:
    """The placings with the seats of the joint answer; whoever is new comes last and has not failed."""
    arranged = list(placings)
    for one in answer.admitted or ():
        is_new = one.gang >= len(moved)
        demand = helped[one.gang - len(moved)] if is_new else placings[moved[one.gang]].demand
        placing = Placing(demand, seats_of(session, demand, one.placed.assignments), one.placed.certificate)
        if is_new:
            arranged.append(placing)
            if outcome.failures.pop(demand.gang.id).demand is not demand:
                outcome.chosen_anew.add(demand.gang.id)
        else:
            arranged[moved[one.gang]] = placing
    return arranged
