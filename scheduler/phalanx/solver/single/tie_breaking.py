"""Breaks ties among equally good placements as `PlacementProblem.ties` asks: pack, spread, or fragmentation.

Nodes of one domain, cost and budgets are equal to all rules and terms and differ only in what fits on them.
Pods are placed again on such nodes in the preferred order. A single pod that is to minimise fragmentation may
move to any node that leaves the other terms unchanged.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from phalanx.model.names import NodeName
from phalanx.model.queues import Objective
from phalanx.rules.problem import Assignment, NodeClass, PlacementProblem
from phalanx.solver.answer import Placed
from phalanx.solver.arrays import FITS_MAX
from phalanx.solver.checker import check_assignments
from phalanx.solver.objective import Scorer, certify, minimizes_fragmentation

Equivalence = tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...], tuple[str, ...]]
Counts = dict[tuple[int, NodeName], int]
Domains = tuple[int, ...]


class _NodeState(Struct):
    """A node while pods are placed on it."""

    node: NodeName
    free: list[int]
    eligible: tuple[bool, ...]
    domains: Domains = ()
    """Domain numbers over which pods are spread."""
    pods: int = 0


def break_ties(problem: PlacementProblem, placed: Placed) -> Placed:
    """Return a placement with the same certificate; unchanged where the pods fit no other way.

    For problems whose nodes have an order.
    """
    if minimizes_fragmentation(problem):
        return _on_first_node(problem, placed)
    by_equivalence = _by_equivalence(problem, placed.assignments)
    states = _node_states(problem, by_equivalence)
    assignments: list[Assignment] = []
    for key, here in by_equivalence.items():
        counts = _place_again(problem, states[key], here) if key is not None else None
        assignments += here if counts is None else _assignments(counts)
    return replace(placed, assignments=tuple(sorted(assignments, key=lambda one: (one.role, one.node))))


def _on_first_node(problem: PlacementProblem, placed: Placed) -> Placed:
    """Put a single pod on the first node in order that changes no rule and no other term.

    All nodes are compared, so the fragmentation is proven least where the terms before it are proven.
    """
    scorer, reached = Scorer(problem), placed.certificate
    usable = [group for group in problem.classes if any(group.eligible)]
    nodes = sorted(pair for group in usable for pair in zip(group.order, group.nodes, strict=True))
    bound = None if reached.proven else (*reached.bound, min(0, *(order[0] for order, _ in nodes)))
    if not placed.assignments:
        return certify(scorer, (), bound=bound, by=reached.by)
    (one,) = placed.assignments
    for _, node in nodes:
        trial = (replace(one, node=node),)
        if scorer.score(trial)[:-1] == reached.objective and not check_assignments(problem, trial):
            return certify(scorer, trial, bound=bound, by=reached.by)
    return certify(scorer, placed.assignments, bound=bound, by=reached.by)


def _equivalence(problem: PlacementProblem, group: NodeClass) -> Equivalence | None:
    """The key of interchangeable nodes; None where each node is a domain by itself."""
    key = (group.path, group.cost, group.budgets, group.label_values)
    return key if len(group.path) == len(problem.levels) else None


def _by_equivalence(
    problem: PlacementProblem, assignments: Sequence[Assignment]
) -> dict[Equivalence | None, list[Assignment]]:
    used = {assignment.node for assignment in assignments}
    keys = {
        node: _equivalence(problem, group)
        for group in problem.classes
        for node in group.nodes
        if node in used
    }
    found: dict[Equivalence | None, list[Assignment]] = {}
    for assignment in assignments:
        found.setdefault(keys[assignment.node], []).append(assignment)
    return found


def _node_states(
    problem: PlacementProblem, keys: Iterable[Equivalence | None]
) -> dict[Equivalence | None, list[_NodeState]]:
    """The nodes of these keys in order of preference."""
    ordered: dict[Equivalence | None, list[tuple[tuple[int, ...], NodeName, _NodeState]]] = {
        key: [] for key in keys
    }
    for group in problem.classes:
        into = ordered.get(_equivalence(problem, group))
        if into is not None:
            for order, node in zip(group.order, group.nodes, strict=True):
                domains = order[len(order) - problem.spread :]
                into.append((order, node, _NodeState(node, list(group.free), group.eligible, domains)))
    return {key: [state for *_, state in sorted(states)] for key, states in ordered.items()}


def _place_again(
    problem: PlacementProblem, states: list[_NodeState], here: Iterable[Assignment]
) -> Counts | None:
    """Pods by role and node; None when they do not all fit in this order."""
    wanted: Counter[int] = Counter()
    for assignment in here:
        wanted[assignment.role] += assignment.count
    place = _one_each if problem.ties is Objective.SPREAD else _as_many_as_fit
    counts: Counts = {}
    for role in _largest_first(problem, states, wanted):
        if not place(states, role, problem.roles[role].request, wanted[role], counts):
            return None
    return counts


def _one_each(
    states: list[_NodeState], role: int, request: Sequence[int], missing: int, counts: Counts
) -> bool:
    """Put pods on the nodes with the fewest of them; False if some do not fit.

    Where there are more such nodes than pods, the domains with the fewest pods come first, widest level
    first.
    """
    while missing:
        open_states = [state for state in states if _fits(state, role, request)]
        if not open_states:
            return False
        fewest = min(state.pods for state in open_states)
        next_ones = [state for state in open_states if state.pods == fewest]
        if len(next_ones) > missing:
            next_ones = _spread_over_domains(states, next_ones, missing)
        for state in next_ones:
            missing -= _place(state, role, request, 1, counts)
    return True


def _spread_over_domains(
    states: Sequence[_NodeState], choice: Sequence[_NodeState], count: int
) -> list[_NodeState]:
    """Choose so many of these nodes, one after the other in the domain with the fewest pods."""
    load: Counter[Domains] = Counter()
    for state in states:
        for outer in _outer_domains(state):
            load[outer] += state.pods
    left: dict[Domains, deque[_NodeState]] = {}
    inner: dict[Domains, dict[Domains, None]] = {}
    for state in choice:
        left.setdefault(state.domains, deque()).append(state)
        for outer, domain in pairwise(((), *_outer_domains(state))):
            inner.setdefault(outer, {})[domain] = None
    chosen = []
    for _ in range(count):
        chosen.append(left[_domain_with_fewest(inner, load)].popleft())
        for outer in reversed(_outer_domains(chosen[-1])):
            load[outer] += 1
            if not left.get(outer, True) or not inner.get(outer, True):
                inner[outer[:-1]].pop(outer)
    return chosen


def _outer_domains(state: _NodeState) -> list[Domains]:
    """The domains that contain the node, widest first."""
    return [state.domains[: depth + 1] for depth in range(len(state.domains))]


def _domain_with_fewest(inner: Mapping[Domains, Iterable[Domains]], load: Mapping[Domains, int]) -> Domains:
    """The deepest domain with the fewest pods, comparing outer domains first."""
    found: list[Domains] = [()]
    while found[0] in inner:
        below = [domain for outer in found for domain in inner[outer]]
        least = min([load[domain] for domain in below])
        found = [domain for domain in below if load[domain] == least]
    return found[0]


def _as_many_as_fit(
    states: list[_NodeState], role: int, request: Sequence[int], missing: int, counts: Counts
) -> bool:
    """Fill each node before the next is used; False if some pods do not fit."""
    for state in states:
        fits = min(missing, _fits(state, role, request))
        missing -= _place(state, role, request, fits, counts) if fits else 0
    return missing == 0


def _fits(state: _NodeState, role: int, request: Sequence[int]) -> int:
    """How many more pods of the role fit; a pod without requests always does."""
    if not state.eligible[role]:
        return 0
    fits = (free // need for free, need in zip(state.free, request, strict=True) if need > 0)
    return min(fits, default=FITS_MAX)


def _place(state: _NodeState, role: int, request: Sequence[int], count: int, counts: Counts) -> int:
    state.free = [free - count * need for free, need in zip(state.free, request, strict=True)]
    state.pods += count
    counts[role, state.node] = counts.get((role, state.node), 0) + count
    return count


def _largest_first(
    problem: PlacementProblem, states: Sequence[_NodeState], roles: Iterable[int]
) -> list[int]:
    """By a pod's dominant share of the largest node, in thousandths."""
    most = [max(amounts) for amounts in zip(*(state.free for state in states), strict=True)]

    def share(role: int) -> int:
        request = problem.roles[role].request
        return max((need * 1000 // max(1, top) for need, top in zip(request, most, strict=True)), default=0)

    return sorted(roles, key=lambda role: (-share(role), role))


def _assignments(counts: Counts) -> list[Assignment]:
    return [Assignment(role=role, node=node, count=count) for (role, node), count in counts.items()]
