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
from phalanx.actions.devices import has_shares, that_add_up, with_devices
from phalanx.actions.failures import Failures
from phalanx.actions.limits import CYCLE_JOINT_GANGS_MAX, CYCLE_JOINT_LIMIT
from phalanx.actions.other_subgroups import start_with_others
from phalanx.actions.outcome import Outcome
from phalanx.actions.placing import Placing, put, seats_of
from phalanx.actions.problems import Problems
from phalanx.actions.together import together, topology_of
from phalanx.framework.session import Session
from phalanx.framework.statement import Statement
from phalanx.solver.engine import GREEDY_ONLY, place
from phalanx.solver.joint.engine import BY, admit
from phalanx.solver.joint.field import unknown_gangs
from phalanx.solver.joint.problem import JointAnswer, JointLimits
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
    """Whether it starts whole, from nothing, without nodes or pods to avoid, and is counted exactly.

    What must lie in NUMA zones is not, where several kinds are; left alone they find room again.
    """
    if failures.nodes_to_avoid(demand.gang.id) or keeps_company(demand):
        return False
    if session.zoned and any(batch.pods[0].shape.numa for batch in demand.batches):
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
    moved = _moved(session, placings, loose, helped)
    stay = [index for index in loose if index not in moved]
    held = [put(session, placings[index]) for index in stay]
    question = together(session, problems, [placings[index] for index in moved], helped)
    unknown = unknown_gangs(question.problem)
    if unknown:
        fixed = [moved[index] for index in unknown if index < len(moved)]
        helped = [demand for index, demand in enumerate(helped, len(moved)) if index not in unknown]
        moved = [index for index in moved if index not in fixed]
        held += [put(session, placings[index]) for index in fixed]
        stay += fixed
        if not helped:
            _roll_back(held)
            return placings
        question = together(session, problems, [placings[index] for index in moved], helped)
    answer = admit(question.problem, question.start, limits=_LIMITS)
    if isinstance(answer, JointAnswer):
        outcome.solves[BY] += 1
        outcome.defects.extend(answer.defects)
        others = [*(index for index in range(len(placings)) if index not in loose), *stay]
        arranged = _taken_over(session, outcome, [placings[index] for index in moved], helped, answer)
        placings = _merged(placings, others, arranged)
    _roll_back(held)
    return placings


def _moved(
    session: Session, placings: Sequence[Placing], loose: Sequence[int], helped: Sequence[Demand]
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
    add_up = that_add_up([*helped, *(placings[index].demand for index in moved)])[len(helped) :]
    return [index for index, adds_up in zip(moved, add_up, strict=True) if adds_up]


def _helped(session: Session, problems: Problems, waiting: Sequence[Demand]) -> list[Demand]:
    """Those of the highest rank, and one topology, that would fit if what can move were not there.

    Of those with shares of GPUs, the ones whose shares add up.
    """

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
            one = [demand for demand in fit if topology_of(session, demand) in (None, *named[:1])]
            return [demand for demand, adds_up in zip(one, that_add_up(one), strict=True) if adds_up]
    return []


def _taken_over(
    session: Session,
    outcome: Outcome,
    moved: Sequence[Placing],
    helped: Sequence[Demand],
    answer: JointAnswer,
) -> list[Placing]:
    """All that the joint answer places; empty where all stays as it was. Whoever is new has not failed.

    The session is without all these, and with all other ones.
    """
    demands = [*(placing.demand for placing in moved), *helped]
    seated = []
    for one in answer.admitted or ():
        seats = seats_of(session, demands[one.gang], one.placed.assignments)
        seated.append(Placing(demands[one.gang], seats, one.placed.certificate))
    arranged = with_devices(session, seated)
    if arranged is None:
        outcome.defects.append(f"{BY}: no devices for what was admitted")
        return []
    for placing in arranged:
        failure = outcome.failures.pop(placing.demand.gang.id, None)
        if failure is not None and failure.demand is not placing.demand:
            outcome.chosen_anew.add(placing.demand.gang.id)
    return arranged


def _merged(placings: list[Placing], others: Sequence[int], arranged: Sequence[Placing]) -> list[Placing]:
    """The placings as they are put now: those arranged anew where they were, whoever is new last.

    Where devices were dealt, the others come first, as they were put before: which devices those get must
    not depend on the dealt ones.
    """
    if any(placing.devices for placing in arranged):
        return [*(placings[index] for index in others), *arranged]
    anew = {placing.demand.gang.id: placing for placing in arranged}
    kept = [anew.pop(placing.demand.gang.id, placing) for placing in placings]
    return [*kept, *anew.values()]
