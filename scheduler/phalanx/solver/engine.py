"""Entry point for placing one gang: tries the backends, cheapest first, and checks every answer."""

from collections.abc import Callable
from functools import partial

from msgspec import Struct, structs

from phalanx.model.queues import Objective
from phalanx.rules.problem import PlacementProblem
from phalanx.solver.answer import TIGHTNESS_NODES_MAX, Answer, Placed, SolveLimits, Unplaceable
from phalanx.solver.arrays import TooLarge
from phalanx.solver.checker import check
from phalanx.solver.objective import minimizes_fragmentation, proven_but_tightness
from phalanx.solver.single.anti_affinity import reformulate_anti_affinity
from phalanx.solver.single.branch_and_bound import place_by_search
from phalanx.solver.single.closed_form import place_closed
from phalanx.solver.single.fixed_spread import reformulate_spread
from phalanx.solver.single.tie_breaking import break_ties
from phalanx.solver.single.tree_dp import place_on_tree

DEFAULT_LIMITS = SolveLimits()

GREEDY_ONLY = SolveLimits(deterministic=0.0)

Backend = Callable[[PlacementProblem], Answer | None]


def place(problem: PlacementProblem, *, limits: SolveLimits = DEFAULT_LIMITS) -> Answer:
    """Return the best placement found with a certificate, or that there is none.

    The same problem gives the same answer. A rule of a plugin may raise: that is an error of the answer.
    """
    packed = structs.replace(problem, ties=Objective.PACK) if minimizes_fragmentation(problem) else problem
    try:
        reformulated = reformulate_anti_affinity(reformulate_spread(packed))
    except Exception as error:
        return Unplaceable(proven=False, by="none", errors=(f"rules: {error!r}",))
    request = _Request(packed, reformulated, [])
    answer = _first_conclusive(request, limits)
    if isinstance(answer, Placed) and problem.ties is not Objective.PACK and _may_change_nodes(problem):
        reformulated = structs.replace(request.reformulated, ties=problem.ties)
        answer = _with_ties_broken(_Request(problem, reformulated, request.errors), answer)
    return structs.replace(answer, errors=tuple(request.errors))


def _may_change_nodes(problem: PlacementProblem) -> bool:
    """Whether nodes of one domain are equal, or a single pod is compared exactly.

    They are not equal with traffic or with preferences between pods.
    """
    if minimizes_fragmentation(problem):
        return True
    return not any(rule.is_about_pairs and rule.obstacle is None for rule in problem.rules)


class _Request(Struct, frozen=True):
    """A problem, its reformulation for the backends, and the errors so far.

    For the backends, a pod that is to minimise fragmentation is packed; tie-breaking compares all nodes
    afterwards.
    """

    problem: PlacementProblem
    reformulated: PlacementProblem
    errors: list[str]


def _first_conclusive(request: _Request, limits: SolveLimits) -> Answer:
    """Return the first conclusive answer; a placement that is not conclusive starts the search."""
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
    """Whether it is proven, except for tightness where there are too many nodes for a proof of that."""
    if answer.certificate.proven:
        return True
    many = sum([len(group.nodes) for group in problem.classes]) > TIGHTNESS_NODES_MAX
    return many and proven_but_tightness(answer.certificate)


def _with_ties_broken(request: _Request, answer: Placed) -> Placed:
    """Break ties as the queue prefers; keep the answer where the result fails its check."""
    other = _checked(partial(break_ties, placed=answer), request)
    return other if isinstance(other, Placed) else answer


def _checked(backend: Backend, request: _Request) -> Answer | None:
    """Return the backend's answer; None where it declines, raises, or fails the check.

    An error in one backend must not stop the gangs after this one, so every exception is recorded and caught.
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
