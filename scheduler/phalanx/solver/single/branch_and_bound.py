"""Whatever no closed form or dynamic program proves: branch and bound by greedy search, CP-SAT on the rest.

The least bound of the branches that are left certifies the answer.
"""

from collections.abc import Hashable
from functools import partial

from phalanx.limits import SOLVE_EFFORT_MIN
from phalanx.solver.branches import Branch, Exploration
from phalanx.solver.certify import certified
from phalanx.solver.limits import TIGHTNESS_EFFORT_MAX, TIGHTNESS_NODES_MAX, TIGHTNESS_NODES_PER_UNIT
from phalanx.solver.problem import Answer, Placed, PlacementProblem, SolveLimits, Unplaceable
from phalanx.solver.single import bounds
from phalanx.solver.single.scopes import likeness
from phalanx.solver.splitting import tightened


def place_by_search(problem: PlacementProblem, *, limits: SolveLimits, start: Placed | None = None) -> Answer:
    """The best placement found, never worse than the greedy one nor than `start`."""
    exploration = Exploration(problem, start)
    by, empty = bounds.BY, not exploration.roots
    if limits.deterministic > 0 and any(map(exploration.promising, exploration.branches)):
        refinement = _Refinement(exploration, limits.deterministic)
        by, empty = refinement.run()
    best = exploration.best
    if best.score is None:
        return Unplaceable(proven=empty, by=by)
    bound = min([best.score, *(branch.bound for branch in exploration.branches)])
    if start is not None and start.certificate.bound >= bound:
        bound, by = start.certificate.bound, start.certificate.by
    return certified(exploration.scorer, best.assignments, bound=bound, by=by)


class _Refinement:
    """CP-SAT on the branches that are left, while there is effort left."""

    def __init__(self, exploration: Exploration, effort: float) -> None:
        self._exploration = exploration
        self._effort = effort
        self._tightness = min(effort, TIGHTNESS_EFFORT_MAX)
        self._by = bounds.BY
        self._empty: set[Hashable] = set()

    def run(self) -> tuple[str, bool]:
        """Who gave the bounds, and whether every root was proven empty."""
        exploration = self._exploration
        empty = [self._settled_empty(root) for root in exploration.roots if exploration.best.score is None]
        for branch in sorted(exploration.branches, key=lambda branch: branch.bound):
            if exploration.promising(branch) and self._is_worth_it(branch):
                self._ask(branch)
        return self._by, all(empty)

    def _is_worth_it(self, branch: Branch) -> bool:
        few = len(branch.scope.nodes) <= TIGHTNESS_NODES_MAX
        return (few and self._tightness > 0) or not self._exploration.for_tightness(branch)

    def _settled_empty(self, root: Branch) -> bool:
        """Without any placement yet: the whole root at once, in place of its branches.

        Once for all that are alike: a cluster of equal racks is one question.
        """
        exploration = self._exploration
        alike = likeness(exploration.table, root.scope)
        empty = alike is not None and alike in self._empty
        if not empty and self._effort <= 0:
            return False
        exploration.branches = [branch for branch in exploration.branches if branch.root != root.root]
        empty = empty or self._ask(root)
        if not empty:
            exploration.branches.append(root)
        elif alike is not None:
            self._empty.add(alike)
        return empty

    def _ask(self, branch: Branch) -> bool:
        """Raises the branch's bound; True when it is proven to hold no placement."""
        if self._effort <= 0:
            return False
        from phalanx.solver.counting import exact as cpsat

        exploration = self._exploration
        question = cpsat.Question(
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
            exploration.keep(tightened(exploration.table, answer.found))
        return answer.empty
