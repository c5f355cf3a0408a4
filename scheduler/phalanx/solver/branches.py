"""Branch and bound over scopes by greedy search: what is found, and what may still hold something better.

The gang lies in one domain of the next level (a narrower scope each) or is spread over several of them (which
raises the bound). A branch is left as soon as its bound is not below the best placement found.
"""

import heapq
import itertools
from collections.abc import Hashable

from msgspec import Struct

from phalanx.limits import ROOTS_SEARCHED_MAX, SCOPES_SEARCHED_MAX
from phalanx.solver.arrays import rows_of
from phalanx.solver.limits import TIGHTNESS_STEPS_MAX
from phalanx.solver.nodetable import Found, assignments_of, nodes_of
from phalanx.solver.objective import Scorer
from phalanx.solver.problem import Assignment, Placed, PlacementProblem
from phalanx.solver.single.bounds import Relaxations
from phalanx.solver.single.greedy import search
from phalanx.solver.single.local_search import improvements
from phalanx.solver.single.scopes import Scope, likeness, scopes_of

Score = tuple[int, ...]


class Branch(Struct):
    """Placements in a scope, or only those that open several domains of its next level.

    No placement of the branch is below `bound`, which is inherited until `bounded`. `root` numbers the widest
    scope around it. `hint` is what greedy search found in the scope; `done` when it has nothing more to try.
    """

    scope: Scope
    root: int
    bound: Score
    bounded: bool = False
    done: bool = False
    hint: Found | None = None


class Best(Struct, frozen=True):
    """The best placement known; no score without one."""

    assignments: tuple[Assignment, ...] = ()
    score: Score | None = None


class Exploration:
    """Greedy search over the scopes of one problem. `best` is what was found, `branches` what is left."""

    def __init__(self, problem: PlacementProblem, start: Placed | None) -> None:
        self.table = nodes_of(rows_of(problem))
        self.scorer = Scorer(problem)
        self.relaxations = Relaxations(self.table, self.scorer)
        self.best = Best()
        if start is not None:
            self.best = Best(assignments=start.assignments, score=start.certificate.objective)
        elif not any(role.minimum for role in problem.roles):
            self.best = Best(assignments=(), score=self.scorer.score(()))
        scopes = scopes_of(self.table, self.table.rows.book.required_depth)
        scopes = sorted(scopes, key=lambda scope: -sum(scope.room))
        simple = self.relaxations.anywhere(sum(scopes[0].room)) if scopes else ()
        self._inner: dict[int, list[Scope]] = {}
        self._in_vain: set[Hashable] = set()
        self._searched = 0
        self._for_tightness = 0
        self.roots = [
            Branch(scope, root, self.relaxations.in_one(scope, simple)) for root, scope in enumerate(scopes)
        ]
        self.branches = self._explored()

    def promising(self, branch: Branch) -> bool:
        """Whether the branch may hold something better than the best."""
        return self.best.score is None or branch.bound < self.best.score

    def for_tightness(self, branch: Branch) -> bool:
        """Whether the branch can hold nothing that is better in any other term than tightness."""
        firm = self.scorer.firm
        return self.best.score is not None and branch.bound[:firm] >= self.best.score[:firm]

    def keep(self, found: Found | None) -> None:
        """Makes a placement the best, where it is better."""
        if found is not None:
            assignments = tuple(assignments_of(self.table, found))
            score = self.scorer.score(assignments)
            if self.best.score is None or score < self.best.score:
                self.best = Best(assignments=assignments, score=score)

    def _explored(self) -> list[Branch]:
        heap = [(branch.bound, number, branch) for number, branch in enumerate(self.roots)]
        serial = itertools.count(len(heap))
        done: list[Branch] = []
        while heap and self.promising(heap[0][-1]) and self._goes_on(heap[0][-1]):
            branch = heapq.heappop(heap)[-1]
            if branch.done:
                done.append(branch)
                continue
            for part in self._advanced(branch):
                heapq.heappush(heap, (part.bound, next(serial), part))
        return [*done, *(branch for _, _, branch in heap)]

    def _goes_on(self, branch: Branch) -> bool:
        """Whether more scopes are searched: while nothing was found, any of them may be the only one."""
        if self.best.score is None:
            return self._searched < ROOTS_SEARCHED_MAX
        if self.for_tightness(branch):
            self._for_tightness += 1
        return self._searched < SCOPES_SEARCHED_MAX and self._for_tightness <= TIGHTNESS_STEPS_MAX

    def _advanced(self, branch: Branch) -> list[Branch]:
        """The branch after one more step: bounded, or searched and, where that found something, split."""
        if not branch.bounded:
            branch.bound = max(branch.bound, self.relaxations.bound(branch.scope))
            branch.bounded = True
            return [branch]
        branch.hint = self._search(branch.scope)
        self.keep(branch.hint)
        if branch.hint is not None and self.promising(branch):
            for better in improvements(self.table, branch.scope, branch.hint):
                branch.hint = better
                self.keep(better)
        rows = self.table.rows
        if branch.hint is None or branch.scope.depth >= rows.book.preferred_depth or rows.problem.anchors:
            branch.done = True
            return [branch]
        parts = [
            Branch(scope, branch.root, self.relaxations.in_one(scope, branch.bound))
            for scope in self._narrower(branch.scope)
        ]
        bound = self.relaxations.spread(branch.scope, branch.bound)
        return [*parts, Branch(branch.scope, branch.root, bound, bounded=True, done=True, hint=branch.hint)]

    def _search(self, scope: Scope) -> Found | None:
        """Once for all scopes that are alike, where it finds nothing."""
        alike = likeness(self.table, scope) if self.best.score is None else None
        if alike is not None and alike in self._in_vain:
            return None
        self._searched += 1
        found = search(self.table, scope)
        if found is None and alike is not None:
            self._in_vain.add(alike)
        return found

    def _narrower(self, scope: Scope) -> list[Scope]:
        """The domains of the next level in the scope that could hold the gang."""
        if scope.depth not in self._inner:
            self._inner[scope.depth] = scopes_of(self.table, scope.depth + 1)
        if scope.depth == 0:
            return self._inner[0]
        parent = self.table.rows.tree.parent[scope.depth]
        return [one for one in self._inner[scope.depth] if parent[one.home] == scope.home]
