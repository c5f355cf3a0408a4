"""What the rules of a problem amount to, read in one place."""

from msgspec import Struct

from phalanx.model.rules import Budget, FewestDomains, SameDomain
from phalanx.solver.problem import NodeClass, Problem, RoleDemand


class Rulebook(Struct, frozen=True):
    """Levels are indices into `Problem.levels`, the deepest that a rule of the kind names; None without one.

    `budgets` keeps the order of the problem's Budget rules, which NodeClass.budgets refers to.
    """

    required: int | None
    preferred: int | None
    budgets: tuple[Budget, ...]

    @property
    def depth(self) -> int:
        """How many levels matter to the rules, counted from the widest."""
        return max(self.required_depth, self.preferred_depth)

    @property
    def required_depth(self) -> int:
        """How many levels, from the widest, must be one domain."""
        return 0 if self.required is None else self.required + 1

    @property
    def preferred_depth(self) -> int:
        """How many levels, from the widest, have their domains counted by the objective."""
        return 0 if self.preferred is None else self.preferred + 1

    def budgets_of(self, node_class: NodeClass) -> tuple[int, ...]:
        """Indices of the budgets that count pods on nodes of this class."""
        if not self.budgets:
            return ()
        return tuple(
            index
            for index, budget in enumerate(self.budgets)
            if budget.nodes is None or index in node_class.budgets
        )


def read_rules(problem: Problem) -> Rulebook:
    """ValueError when a rule names a level that the problem does not have."""
    level = problem.levels.index
    required = [level(rule.level) for rule in problem.rules if isinstance(rule, SameDomain)]
    preferred = [level(rule.level) for rule in problem.rules if isinstance(rule, FewestDomains)]
    return Rulebook(
        required=max(required, default=None),
        preferred=max(preferred, default=None),
        budgets=tuple(rule for rule in problem.rules if isinstance(rule, Budget)),
    )


def pods_allowed(problem: Problem, budget: Budget, role: RoleDemand) -> int:
    """How many pods of the role the budget allows while no other pod uses it, at most the role's maximum."""
    counts = [
        max(0, budget.remaining[name]) // need
        for name, need in zip(problem.resources, role.request, strict=True)
        if need > 0 and name in budget.remaining
    ]
    return min(role.maximum, *counts) if counts else role.maximum
