"""Which of equally good placements is taken: pods change nodes where neither rule nor term can tell.

Nodes of one domain, price and budgets are alike to all rules and to the objective; only what fits on each of
them tells them apart. Among those, pods are put down again in the order that `Problem.ties` asks for. A
single pod that is to leave the least fragmentation may change to any node that leaves the objective as it is.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from phalanx.model.names import NodeName
from phalanx.model.queues import Objective
from phalanx.solver.arrays import FITS_MAX
from phalanx.solver.certify import certified
from phalanx.solver.checker import check_assignments
from phalanx.solver.objective import Scorer, leaves_fragments
from phalanx.solver.problem import Assignment, NodeClass, Placed, PlacementProblem

Kind = tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...], tuple[str, ...]]
Counts = dict[tuple[int, NodeName], int]
Domains = tuple[int, ...]


class _Seat(Struct):
    """A node while pods are put on it: `free` shrinks as `pods` grows. Pods are spread over its `domains`."""

    node: NodeName
    free: list[int]
    eligible: tuple[bool, ...]
    domains: Domains = ()
    pods: int = 0


def arranged(problem: PlacementProblem, placed: Placed) -> Placed:
    """The same placement as far as its certificate can tell; unchanged where the pods fit no other way.

    For problems whose nodes have an order.
    """
    if leaves_fragments(problem):
        return _on_first_node(problem, placed)
    by_kind = _by_kind(problem, placed.assignments)
    seats = _seats(problem, by_kind)
    assignments: list[Assignment] = []
    for kind, here in by_kind.items():
        counts = _put_down(problem, seats[kind], here) if kind is not None else None
        assignments += here if counts is None else _assignments(counts)
    return replace(placed, assignments=tuple(sorted(assignments, key=lambda one: (one.role, one.node))))


def _on_first_node(problem: PlacementProblem, placed: Placed) -> Placed:
    """A single pod on the first of all nodes, of whichever kind, where no rule and no term minds it.

    As all nodes are looked at, what it leaves is proven to be least where the terms before it are proven.
    """
    scorer, reached = Scorer(problem), placed.certificate
    usable = [group for group in problem.classes if any(group.eligible)]
    nodes = sorted(pair for group in usable for pair in zip(group.order, group.nodes, strict=True))
    bound = None if reached.proven else (*reached.bound, min(0, *(order[0] for order, _ in nodes)))
    if not placed.assignments:
        return certified(scorer, (), bound=bound, by=reached.by)
    (one,) = placed.assignments
    for _, node in nodes:
        trial = (replace(one, node=node),)
        if scorer.score(trial)[:-1] == reached.objective and not check_assignments(problem, trial):
            return certified(scorer, trial, bound=bound, by=reached.by)
    return certified(scorer, placed.assignments, bound=bound, by=reached.by)


def _kind_of(problem: PlacementProblem, group: NodeClass) -> Kind | None:
    """None where each node is a domain by itself."""
    kind = (group.path, group.cost, group.budgets, group.label_values)
    return kind if len(group.path) == len(problem.levels) else None


def _by_kind(
    problem: PlacementProblem, assignments: Sequence[Assignment]
) -> dict[Kind | None, list[Assignment]]:
    used = {one.node for one in assignments}
    kinds = {
        node: _kind_of(problem, group) for group in problem.classes for node in group.nodes if node in used
    }
    found: dict[Kind | None, list[Assignment]] = {}
    for one in assignments:
        found.setdefault(kinds[one.node], []).append(one)
    return found


def _seats(problem: PlacementProblem, kinds: Iterable[Kind | None]) -> dict[Kind | None, list[_Seat]]:
    """The nodes of these kinds, those to take first in front."""
    ordered: dict[Kind | None, list[tuple[tuple[int, ...], NodeName, _Seat]]] = {kind: [] for kind in kinds}
    for group in problem.classes:
        into = ordered.get(_kind_of(problem, group))
        if into is not None:
            for order, node in zip(group.order, group.nodes, strict=True):
                domains = order[len(order) - problem.spread :]
                into.append((order, node, _Seat(node, list(group.free), group.eligible, domains)))
    return {kind: [seat for *_, seat in sorted(seats)] for kind, seats in ordered.items()}


def _put_down(problem: PlacementProblem, seats: list[_Seat], here: Iterable[Assignment]) -> Counts | None:
    """Pods by role and node; None when they do not all fit in this order."""
    wanted: Counter[int] = Counter()
    for one in here:
        wanted[one.role] += one.count
    put = _one_each if problem.ties is Objective.SPREAD else _as_many_as_fit
    counts: Counts = {}
    for role in _largest_first(problem, seats, wanted):
        if not put(seats, role, problem.roles[role].request, wanted[role], counts):
            return None
    return counts


def _one_each(seats: list[_Seat], role: int, request: Sequence[int], missing: int, counts: Counts) -> bool:
    """Pods go to the nodes with the fewest of them; False if some do not fit.

    Where these are more than pods are left, first to those in the domains with the fewest, the widest level
    first, and of these to the first node.
    """
    while missing:
        open_seats = [seat for seat in seats if _room(seat, role, request)]
        if not open_seats:
            return False
        fewest = min(seat.pods for seat in open_seats)
        next_ones = [seat for seat in open_seats if seat.pods == fewest]
        if len(next_ones) > missing:
            next_ones = _spread_over_domains(seats, next_ones, missing)
        for seat in next_ones:
            missing -= _put(seat, role, request, 1, counts)
    return True


def _spread_over_domains(seats: Sequence[_Seat], choice: Sequence[_Seat], count: int) -> list[_Seat]:
    """So many of these seats, one after the other in the domain that has the fewest pods then."""
    load: Counter[Domains] = Counter()
    for seat in seats:
        for around in _around(seat):
            load[around] += seat.pods
    left: dict[Domains, deque[_Seat]] = {}
    inside: dict[Domains, dict[Domains, None]] = {}
    for seat in choice:
        left.setdefault(seat.domains, deque()).append(seat)
        for outer, inner in pairwise(((), *_around(seat))):
            inside.setdefault(outer, {})[inner] = None
    chosen = []
    for _ in range(count):
        chosen.append(left[_domain_with_fewest(inside, load)].popleft())
        for around in reversed(_around(chosen[-1])):
            load[around] += 1
            if not left.get(around, True) or not inside.get(around, True):
                inside[around[:-1]].pop(around)
    return chosen


def _around(seat: _Seat) -> list[Domains]:
    """The domains that the node lies in, widest first."""
    return [seat.domains[: depth + 1] for depth in range(len(seat.domains))]


def _domain_with_fewest(inside: Mapping[Domains, Iterable[Domains]], load: Mapping[Domains, int]) -> Domains:
    """The deepest with the fewest pods, those around it count first; of several the one that comes first."""
    found: list[Domains] = [()]
    while found[0] in inside:
        below = [each for around in found for each in inside[around]]
        least = min([load[each] for each in below])
        found = [each for each in below if load[each] == least]
    return found[0]


def _as_many_as_fit(
    seats: list[_Seat], role: int, request: Sequence[int], missing: int, counts: Counts
) -> bool:
    """Each node is filled before the next is used; False if some pods do not fit."""
    for seat in seats:
        fits = min(missing, _room(seat, role, request))
        missing -= _put(seat, role, request, fits, counts) if fits else 0
    return missing == 0


def _room(seat: _Seat, role: int, request: Sequence[int]) -> int:
    """How many more pods of the role fit; one that asks for nothing always does."""
    if not seat.eligible[role]:
        return 0
    fits = (free // need for free, need in zip(seat.free, request, strict=True) if need > 0)
    return min(fits, default=FITS_MAX)


def _put(seat: _Seat, role: int, request: Sequence[int], count: int, counts: Counts) -> int:
    seat.free = [free - count * need for free, need in zip(seat.free, request, strict=True)]
    seat.pods += count
    counts[role, seat.node] = counts.get((role, seat.node), 0) + count
    return count


def _largest_first(problem: PlacementProblem, seats: Sequence[_Seat], roles: Iterable[int]) -> list[int]:
    """By the thousandths of the roomiest node that one pod takes, of the resource where that is most."""
    most = [max(amounts) for amounts in zip(*(seat.free for seat in seats), strict=True)]

    def share(role: int) -> int:
        request = problem.roles[role].request
        return max((need * 1000 // max(1, top) for need, top in zip(request, most, strict=True)), default=0)

    return sorted(roles, key=lambda role: (-share(role), role))


def _assignments(counts: Counts) -> list[Assignment]:
    return [Assignment(role=role, node=node, count=count) for (role, node), count in counts.items()]
