"""One role on a tree of domains: exact, by the dynamic program of `fewest`.

Pods of one role are interchangeable, so a domain is described by how many of them it holds. Budgets are
handled where each counts all nodes or none. The price decides between choices of equally few domains; it is
proven where all of these were compared or nothing cheaper exists at all. Then the least room decides.
"""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from phalanx.solver.arrays import IntArray, Rows, rows_of
from phalanx.solver.certify import certified
from phalanx.solver.forest import Forest, forest_of, with_room
from phalanx.solver.objective import Scorer
from phalanx.solver.problem import Answer, Assignment, PlacementProblem, Unplaceable
from phalanx.solver.problem_rules import pods_allowed
from phalanx.solver.single.fewest_domains import Choice, Rank, best_choice, fewest, opened_room

BY = "tree-dp"


class _Pods(Struct, frozen=True, eq=False):
    """The rows, how many pods of the only role each holds, the forest of that, and how many pods to place."""

    rows: Rows
    held: IntArray
    forest: Forest
    demand: int


def place_on_tree(problem: PlacementProblem) -> Answer | None:
    """The answer, exact as far as its certificate says; None where this does not apply."""
    if len(problem.roles) != 1:
        return None
    rows = rows_of(problem)
    most = _most(rows)
    book = rows.book
    if book.depth == 0 or most is None or book.bonds or book.gatherings or book.meetings:
        return None
    pods = _pods(rows, most)
    if pods.demand < problem.roles[0].minimum:
        return Unplaceable(proven=True, by=BY)
    if pods.demand == 0:
        return certified(Scorer(problem), (), bound=None, by=BY)
    choice = _choose(pods)
    spread = _spread(pods, choice.domains)
    scorer = Scorer(problem, {one.node: rows.classes[row] for row, one in spread})
    return certified(scorer, [one for _, one in spread], bound=_bound(pods, choice, scorer), by=BY)


def _most(rows: Rows) -> int | None:
    """How many pods the maximum and the budgets allow; None when a budget counts only some nodes."""
    role = rows.problem.roles[0]
    most = role.maximum
    for index, budget in enumerate(rows.book.budgets):
        counted = [index in scope for scope in rows.budgets]
        if any(counted):
            most = min(most, pods_allowed(rows.problem, budget, role))
        if any(counted) and not all(counted):
            return None
    return most


def _pods(rows: Rows, most: int) -> _Pods:
    held = rows.fits[:, 0] * rows.count
    forest = with_room(forest_of(rows, held), rows.room)
    required = rows.book.required
    room = held.sum() if required is None else forest.held[required].max(initial=0)
    return _Pods(rows=rows, held=held, forest=forest, demand=min(most, int(room)))


def _choose(pods: _Pods) -> Choice:
    """The best choice over all domains of the required level; its cost is that of the levels below it."""
    rank = _price_rank(pods) if np.ptp(pods.rows.cost[:, 0]) else None
    return best_choice(pods.forest, list(_choices(pods, rank)), rank)


def _choices(pods: _Pods, rank: Rank | None) -> Iterator[Choice]:
    forest, required = pods.forest, pods.rows.book.required
    if required is None:
        starts = [(0, np.arange(len(forest.held[0]), dtype=np.int64))]
    else:
        enough = np.flatnonzero(forest.held[required] >= pods.demand)
        if required == forest.last:
            rooms = np.where(forest.open[required][enough], 0, forest.room_of(enough))
            alike = enough if rank else enough[[np.argmin(rooms)]]
            least = int(rooms.min())
            yield from (Choice((), (least,), alike[[index]], settled=True) for index in range(len(alike)))
            return
        starts = [(required + 1, forest.inner[required][home]) for home in enough.tolist()]
    for level, domains in starts:
        choice = fewest(forest, domains, pods.demand, level=level, rank=rank)
        if choice is not None:
            yield choice


def _price_rank(pods: _Pods) -> Rank:
    def rank(domains: IntArray) -> tuple[int, ...]:
        return (_cheapest(pods, _within(pods, domains)), opened_room(pods.forest, domains))

    return rank


def _within(pods: _Pods, domains: IntArray) -> IntArray:
    """The rows inside these domains of the deepest level."""
    return np.flatnonzero(np.isin(pods.rows.domain[pods.forest.last], domains))


def _taken(pods: _Pods, order: IntArray) -> IntArray:
    """How many pods each of these rows takes when the demand is met by them in this order."""
    held = pods.held[order]
    taken: IntArray = np.clip(pods.demand - (np.cumsum(held) - held), 0, held)
    return taken


def _cheapest(pods: _Pods, within: IntArray) -> int:
    """The least price for which these rows meet the demand."""
    cost = pods.rows.cost[within, 0]
    order = np.argsort(cost, kind="stable")
    return int((cost[order] * _taken(pods, within[order])).sum())


def _spread(pods: _Pods, domains: IntArray) -> list[tuple[int, Assignment]]:
    """Rows in these domains and the pods there: the cheapest, then the fullest domain and node first."""
    rows, last = pods.rows, pods.forest.last
    within = _within(pods, domains)
    fits = rows.fits[within, 0]
    order = np.lexsort((fits, pods.forest.held[last][rows.domain[last][within]], rows.cost[within, 0]))
    assignments = []
    for row, taken, fit in zip(
        within[order].tolist(), _taken(pods, within[order]).tolist(), fits[order].tolist(), strict=True
    ):
        for node in rows.nodes[row][: -(-taken // fit)]:
            assignments.append((row, Assignment(role=0, node=node, count=min(fit, taken))))
            taken -= fit
    return assignments


def _bound(pods: _Pods, choice: Choice, scorer: Scorer) -> tuple[int, ...]:
    """The bound per term: one domain is opened on each required level, unless the gang already runs there."""
    outer = [0 if pods.rows.problem.anchors else 1] * pods.rows.book.required_depth
    compared = _within(pods, choice.domains) if choice.settled else np.arange(len(pods.held))
    cost = _cheapest(pods, compared)
    *opened, room = choice.bound
    if choice.settled:
        room = opened_room(pods.forest, choice.domains)
    return scorer.values(placed=pods.demand, opened=[*outer, *opened], cost=cost, room=room)
