"""Budgets: what pods on some nodes may use together."""

from collections.abc import Callable, Collection, Iterable, Iterator

from msgspec.structs import replace

from phalanx.model.names import NodeName, QueueName
from phalanx.model.resources import NONE, Resources
from phalanx.rules.primitives import AtMost, Primitive
from phalanx.rules.problem import Obstacle, PlacedPods, PlacementProblem, Rule, RuleWords


class Budget(Rule, frozen=True, tag="budget"):
    """Pods placed on these nodes together use at most this much."""

    obstacle = Obstacle.LIMITS

    remaining: Resources
    """A resource that is absent is not limited. A negative amount forbids any further use."""
    nodes: frozenset[NodeName] | None = None
    """None for all nodes."""
    queue: QueueName | None = None
    """The charged queue, with its descendants; None if evictions do not give anything back."""
    words: RuleWords | None = None
    """None: it is explained as the limit of a queue."""

    @property
    def limited(self) -> Collection[str]:
        return self.remaining.keys()

    def lower(self, problem: PlacementProblem) -> Iterator[Primitive]:
        yield AtMost(self.name, self.remaining, self.nodes)

    def violations(self, placed: PlacedPods) -> Iterator[str]:
        roles = placed.problem.roles
        counted = [one for one in placed.assignments if self.nodes is None or one.node in self.nodes]
        for index, name in enumerate(placed.problem.resources):
            used = sum(roles[one.role].request[index] * one.count for one in counted)
            if used > 0 and name in self.remaining and used > self.remaining[name]:
                yield f"{self.name}: {used} {name}, where {self.remaining[name]} remains"

    def softened(self) -> Rule:
        """Without limits: classes refer to budgets by their order."""
        return replace(self, remaining=NONE)


def budgets_in(rules: Iterable[Rule]) -> tuple[Budget, ...]:
    """The budgets, in the order to which `NodeClass.budgets` refers."""
    return tuple([rule for rule in rules if isinstance(rule, Budget)])


def with_budgets(rules: Iterable[Rule], change: Callable[[Budget], Rule]) -> tuple[Rule, ...]:
    """The rules, with each budget replaced."""
    return tuple([change(rule) if isinstance(rule, Budget) else rule for rule in rules])
