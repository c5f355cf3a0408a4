"""The way in: `place` asks the backends, cheapest first, and lets no unchecked answer out."""

from collections.abc import Callable
from functools import partial

from msgspec import Struct, structs

from phalanx.model.queues import Objective
from phalanx.solver.arrays import TooLarge
from phalanx.solver.checker import check
from phalanx.solver.objective import minimizes_fragmentation, proven_but_tightness
from phalanx.solver.problem import (
    TIGHTNESS_NODES_MAX,
    Answer,
    Placed,
    PlacementProblem,
    SolveLimits,
    Unplaceable,
)
from phalanx.solver.single.anti_affinity import reformulate_anti_affinity
from phalanx.solver.single.branch_and_bound import place_by_search
from phalanx.solver.single.closed_form import place_closed
from phalanx.solver.single.tie_breaking import break_ties
from phalanx.solver.single.tree_dp import place_on_tree

DEFAULT_LIMITS = SolveLimits()

GREEDY_ONLY = SolveLimits(deterministic=0.0)

Backend = Callable[[PlacementProblem], Answer | None]


def place(problem: PlacementProblem, *, limits: SolveLimits = DEFAULT_LIMITS) -> Answer:
    """The best placement found, checked and certified, or why there is none. Same problem, same answer."""
    packed = structs.replace(problem, ties=Objective.PACK) if minimizes_fragmentation(problem) else problem
    request = _Request(packed, reformulate_anti_affinity(packed), [])
    answer = _first_conclusive(request, limits)
    if isinstance(answer, Placed) and problem.ties is not Objective.PACK:
        reformulated = structs.replace(request.reformulated, ties=problem.ties)
        answer = _with_ties_broken(_Request(problem, reformulated, request.errors), answer)
    return structs.replace(answer, errors=tuple(request.errors))


class _Request(Struct, frozen=True):
    """A problem, as it is posed to the backends, and what they did wrong so far.

    What a single pod leaves of nodes is no matter for the backends: all nodes are looked at afterwards.
    """

    problem: PlacementProblem
    reformulated: PlacementProblem
    errors: list[str]


def _first_conclusive(request: _Request, limits: SolveLimits) -> Answer:
    """The first answer that is proven and sound; what is sound but not proven is searched on from."""
    start: Placed | None = None
    for backend in (place_closed, place_on_tree):
        answer = _checked(backend, request)
        if isinstance(answer, Unplaceable) or (
            answer is not None and _is_conclusive(request.reformulated, answer)
        ):
            return answer
        start = answer or start
    for effort in (limits, GREEDY_ONLY):
        answer = _checked(partial(place_by_search, limits=effort, start=start), request)
        if answer is not None:
            return answer
    return start or Unplaceable(proven=False, by="none")


def _is_conclusive(problem: PlacementProblem, answer: Placed) -> bool:
    """Whether it is proven, or proven but for tightness where there are too many nodes to go on for that."""
    if answer.certificate.proven:
        return True
    many = sum([len(group.nodes) for group in problem.classes]) > TIGHTNESS_NODES_MAX
    return many and proven_but_tightness(answer.certificate)


def _with_ties_broken(request: _Request, answer: Placed) -> Placed:
    """As the queue wants it; as it was, should that fail the check."""
    other = _checked(partial(break_ties, placed=answer), request)
    return other if isinstance(other, Placed) else answer


def _checked(backend: Backend, request: _Request) -> Answer | None:
    """The backend's answer; None when it declines, fails, or fails the check, which is noted as a defect.

    An error in one backend must not stop the gangs that wait behind this one, so every error is caught.
    """
    try:
        answer = backend(request.reformulated)
        wrong = check(request.problem, answer) if isinstance(answer, Placed) else ()
    except TooLarge:
        return None
    except Exception as error:
        request.errors.append(f"{getattr(backend, '__name__', 'search')}: {error!r}")
        return None
    if wrong and isinstance(answer, Placed):
        request.errors.append(f"{answer.certificate.by}: {'; '.join(wrong)}")
        return None
    return answer
