"""Branch and bound over scopes, with greedy incumbents and CP-SAT on the branches that stay open.

A gang is in one domain of the next level (a narrower scope each) or is spread over several of them (which
raises the bound). The open branch with the least bound is expanded first (best-first search; Land and Doig,
1960). A branch is pruned when its bound is not below the incumbent. The least bound of the branches that
remain certifies the answer.
"""

import heapq
import itertools
from collections.abc import Hashable
from functools import partial
from typing import Final

from msgspec import Struct

from phalanx.rules.problem import Assignment, PlacementProblem
from phalanx.solver.answer import TIGHTNESS_NODES_MAX, Answer, Placed, SolveLimits, Unplaceable
from phalanx.solver.arrays import Placement, assignments_of, class_rows, node_table
from phalanx.solver.counting.node_groups import tightened
from phalanx.solver.limits import SOLVE_EFFORT_MIN
from phalanx.solver.objective import Scorer, certify
from phalanx.solver.single import bounds
from phalanx.solver.single.bounds import RelaxationBounds, is_one_piece
from phalanx.solver.single.greedy import search
from phalanx.solver.single.local_search import improvements
from phalanx.solver.single.pair_search import with_better_pairs
from phalanx.solver.single.scopes import Scope, equivalence_key, scopes_of

SCOPES_SEARCHED_MAX: Final = 256
"""Domains that the greedy search examines for one problem. Most problems need fewer than ten."""

ROOTS_SEARCHED_MAX: Final = 2_048
"""The same while no domain was found that holds the gang. A gang is not refused because the search was too
short."""

TIGHTNESS_STEPS_MAX: Final = 8
"""Scopes that are bounded or searched where only tightness can improve."""

TIGHTNESS_NODES_PER_UNIT: Final = 10_000
"""Nodes of scopes solved for tightness that count as one such unit: their models must be built."""

PAIR_SEARCHES_MAX: Final = 8
"""Scopes in which a placement with less traffic, or with better pairs of pods, is searched."""

TIGHTNESS_EFFORT_MAX: Final = 0.05
"""CP-SAT effort for the tightness term of one problem, in deterministic units: some hundredths of a
second."""


Score = tuple[int, ...]


class Branch(Struct):
    """Placements in a scope, or only those that use several domains of its next level."""

    scope: Scope
    root: int
    """Number of the widest scope that contains it."""
    bound: Score
    """No placement of the branch is below it; inherited until `bounded`."""
    bounded: bool = False
    done: bool = False
    """Whether greedy search has nothing more to try."""
    hint: Placement | None = None
    """What greedy search found in the scope."""


class Best(Struct, frozen=True):
    """The incumbent; without a placement the score is None."""

    assignments: tuple[Assignment, ...] = ()
    score: Score | None = None


class Exploration:
    """The greedy phase. `best` is the incumbent, `branches` are the open branches."""

    def __init__(self, problem: PlacementProblem, start: Placed | None) -> None:
        self.table = node_table(class_rows(problem))
        self.scorer = Scorer(problem)
        self.relaxations = RelaxationBounds(self.table, self.scorer)
        self.best = Best()
        if start is not None:
            self.best = Best(assignments=start.assignments, score=start.certificate.objective)
        elif not any(role.minimum for role in problem.roles):
            self.best = Best(assignments=(), score=self.scorer.score(()))
        scopes = scopes_of(self.table, self.table.rows.rules.required_depth)
        scopes = sorted(scopes, key=lambda scope: -sum(scope.fits))
        simple = self.relaxations.anywhere(sum(scopes[0].fits)) if scopes else ()
        self._inner: dict[int, list[Scope]] = {}
        self._infeasible: set[Hashable] = set()
        self._searched = 0
        self._tightness_steps = 0
        self._pair_searches = 0
        rules = self.table.rows.rules
        self._depth = max(rules.preferred_depth, rules.traffic_depth if is_one_piece(self.table.rows) else 0)
        self.roots = [
            Branch(scope, root, self.relaxations.in_one(scope, simple)) for root, scope in enumerate(scopes)
        ]
        self.branches = self._explored()

    def may_improve(self, branch: Branch) -> bool:
        """Whether the branch may hold a better placement than the incumbent."""
        return self.best.score is None or branch.bound < self.best.score

    def only_tightness(self, branch: Branch) -> bool:
        """Whether the branch can improve no term but tightness."""
        primary = self.scorer.primary
        return self.best.score is not None and branch.bound[:primary] >= self.best.score[:primary]

    def keep(self, found: Placement | None) -> None:
        """Replace the incumbent by a better placement."""
        if found is not None:
            assignments = tuple(assignments_of(self.table, found))
            score = self.scorer.score(assignments)
            if self.best.score is None or score < self.best.score:
                self.best = Best(assignments=assignments, score=score)

    def _explored(self) -> list[Branch]:
        heap = [(branch.bound, number, branch) for number, branch in enumerate(self.roots)]
        serial = itertools.count(len(heap))
        done: list[Branch] = []
        while heap and self.may_improve(heap[0][-1]) and self._continues(heap[0][-1]):
            branch = heapq.heappop(heap)[-1]
            if branch.done:
                done.append(branch)
                continue
            for part in self._expanded(branch):
                heapq.heappush(heap, (part.bound, next(serial), part))
        return [*done, *(branch for _, _, branch in heap)]

    def _continues(self, branch: Branch) -> bool:
        """Whether more scopes are searched; without an incumbent the limit is higher."""
        if self.best.score is None:
            return self._searched < ROOTS_SEARCHED_MAX
        if self.only_tightness(branch):
            self._tightness_steps += 1
        return self._searched < SCOPES_SEARCHED_MAX and self._tightness_steps <= TIGHTNESS_STEPS_MAX

    def _expanded(self, branch: Branch) -> list[Branch]:
        """Bound the branch, or search it and split it where something was found."""
        if not branch.bounded:
            branch.bound = max(branch.bound, self.relaxations.bound(branch.scope))
            branch.bounded = True
            return [branch]
        branch.hint = self._search(branch.scope)
        self.keep(branch.hint)
        if branch.hint is not None and self.may_improve(branch):
            for better in improvements(self.table, branch.scope, branch.hint):
                branch.hint = better
                self.keep(better)
            self._improve_pairs(branch, branch.hint)
        if branch.hint is None or branch.scope.depth >= self._depth or self.table.rows.problem.anchors:
            branch.done = True
            return [branch]
        parts = [
            Branch(scope, branch.root, self.relaxations.in_one(scope, branch.bound))
            for scope in self._narrower(branch.scope)
        ]
        bound = self.relaxations.spread(branch.scope, branch.bound)
        return [*parts, Branch(branch.scope, branch.root, bound, bounded=True, done=True, hint=branch.hint)]

    def _improve_pairs(self, branch: Branch, found: Placement) -> None:
        """Improve the placement of the branch where pairs of pods count, in the first branches."""
        rules = self.table.rows.rules
        if not (rules.traffic or rules.pairs) or self._pair_searches >= PAIR_SEARCHES_MAX:
            return
        self._pair_searches += 1
        for better in with_better_pairs(self.table, branch.scope, found, self.scorer):
            branch.hint = better
            self.keep(better)
            if not self.may_improve(branch):
                return

    def _search(self, scope: Scope) -> Placement | None:
        """Run greedy search; scopes equivalent to one without a result are skipped."""
        key = equivalence_key(self.table, scope) if self.best.score is None else None
        if key is not None and key in self._infeasible:
            return None
        self._searched += 1
        found = search(self.table, scope)
        if found is None and key is not None:
            self._infeasible.add(key)
        return found

    def _narrower(self, scope: Scope) -> list[Scope]:
        """The domains of the next level in the scope that could hold the gang."""
        if scope.depth not in self._inner:
            self._inner[scope.depth] = scopes_of(self.table, scope.depth + 1)
        if scope.depth == 0:
            return self._inner[0]
        parent = self.table.rows.tree.parent[scope.depth]
        return [narrower for narrower in self._inner[scope.depth] if parent[narrower.domain] == scope.domain]


def place_by_search(problem: PlacementProblem, *, limits: SolveLimits, start: Placed | None = None) -> Answer:
    """Return the best placement found, never worse than the greedy one nor than `start`."""
    exploration = Exploration(problem, start)
    by, empty = bounds.BY, not exploration.roots
    if limits.deterministic > 0 and any(map(exploration.may_improve, exploration.branches)):
        refinement = _Refinement(exploration, limits.deterministic)
        by, empty = refinement.run()
    best = exploration.best
    if best.score is None:
        return Unplaceable(proven=empty, by=by)
    bound = min([best.score, *(branch.bound for branch in exploration.branches)])
    if start is not None and start.certificate.bound >= bound:
        bound, by = start.certificate.bound, start.certificate.by
    return certify(exploration.scorer, best.assignments, bound=bound, by=by)


class _Refinement:
    """The exact phase: CP-SAT on open branches within the effort limit."""

    def __init__(self, exploration: Exploration, effort: float) -> None:
        self._exploration = exploration
        self._effort = effort
        self._tightness = min(effort, TIGHTNESS_EFFORT_MAX)
        self._by = bounds.BY
        self._empty: set[Hashable] = set()

    def run(self) -> tuple[str, bool]:
        """Return the backend that gave the bounds, and whether every root was proven infeasible."""
        exploration = self._exploration
        empty = [self._proven_empty(root) for root in exploration.roots if exploration.best.score is None]
        for branch in sorted(exploration.branches, key=lambda branch: branch.bound):
            if exploration.may_improve(branch) and self._is_worth_solving(branch):
                self._solve(branch)
        return self._by, all(empty)

    def _is_worth_solving(self, branch: Branch) -> bool:
        few = len(branch.scope.nodes) <= TIGHTNESS_NODES_MAX
        return (few and self._tightness > 0) or not self._exploration.only_tightness(branch)

    def _proven_empty(self, root: Branch) -> bool:
        """Without an incumbent: solve the whole root in place of its branches.

        Equivalent roots are solved once: a cluster of equal racks is one solve.
        """
        exploration = self._exploration
        key = equivalence_key(exploration.table, root.scope)
        empty = key is not None and key in self._empty
        if not empty and self._effort <= 0:
            return False
        exploration.branches = [branch for branch in exploration.branches if branch.root != root.root]
        empty = empty or self._solve(root)
        if not empty:
            exploration.branches.append(root)
        elif key is not None:
            self._empty.add(key)
        return empty

    def _solve(self, branch: Branch) -> bool:
        """Raise the bound of the branch; True when it is proven infeasible."""
        if self._effort <= 0:
            return False
        from phalanx.solver.counting import exact as cpsat

        exploration = self._exploration
        question = cpsat.ScopeProblem(
            nodes=branch.scope.nodes,
            bound=branch.bound,
            limit=exploration.best.score,
            hint=branch.hint,
            floor=partial(exploration.relaxations.floor, branch.scope),
            effort=self._effort,
            tightness=self._tightness,
        )
        answer = cpsat.solve_scope(exploration.table, exploration.scorer, question)
        branch.bound = answer.bound
        self._by = self._by if answer.declined else cpsat.BY
        self._effort -= max(answer.spent, SOLVE_EFFORT_MIN)
        size = len(branch.scope.nodes) / TIGHTNESS_NODES_PER_UNIT
        self._tightness -= max(answer.for_tightness, size)
        if answer.found is not None:
            counts_nodes = exploration.table.rows.rules.counts_nodes
            found = answer.found if counts_nodes else tightened(exploration.table, answer.found)
            exploration.keep(found)
        return answer.empty
