"""Honours topology spread constraints.

The pods that the selector of a constraint matches are counted by the value of its `topologyKey`: in the
namespace of the pod, of all schedulers, without terminating pods. Only nodes count that have the keys of all
constraints of the pod with the same `whenUnsatisfiable`, and that `nodeAffinityPolicy` and `nodeTaintsPolicy`
include.

A constraint with DoNotSchedule holds for the gang as a whole: where a pod with it is placed, there are at
most `maxSkew` more pods than in the domain with the fewest, or than 0 if there are fewer domains than
`minDomains`.

A constraint with ScheduleAnyway is a price. Each pod that is counted in the domain of a node adds to what the
node costs: `scheduleAnywayWeight` times the natural logarithm of the number of domains plus 2. Two pods of
one gang in the same domain cost as much if both have the constraint and are counted, and half of it if one of
them counts the other one only. A node without a key costs as much as one with many pods.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from math import log
from typing import Annotated, Final

from msgspec import Meta, Struct
from phalanx.framework.nodes.affinity import AffinityIndex, quoted_value
from phalanx.framework.nodes.spread import (
    Domains,
    SpreadDomains,
    counted_nodes,
    counts_by_domain,
    may_use,
    spread_keys,
)
from phalanx.framework.plugin import NodeCost, NodeFilter, Plugin
from phalanx.framework.pod_view import PodView
from phalanx.framework.view import SessionView
from phalanx.model.counted_nodes import CountedNodes
from phalanx.model.gangs import Gang
from phalanx.model.names import ShapeKey
from phalanx.model.nodes import Node
from phalanx.model.pods import PodShape, SpreadConstraint
from phalanx.model.spread_defaults import SpreadDefaults
from phalanx.rules.affinity import PairWeight, PodPairs
from phalanx.rules.problem import Rule
from phalanx.rules.topology_spread import TopologySpreadRule

PODS_OF_A_MISSING_KEY: Final = 1000
"""A node without a key costs as if so many more pods were there than in the fullest domain of each
constraint. So a gang of this size does not use it to be spread."""


class TopologySpreadArguments(SpreadDefaults, frozen=True):
    """Constraints of pods that have none, and what ScheduleAnyway counts beside other preferences."""

    schedule_anyway_weight: Annotated[int, Meta(ge=0, le=1000)] = 10
    """What a pod costs that a constraint with ScheduleAnyway counts in the domain of a node, times
    ln(domains + 2)."""


class TopologySpread(Plugin):
    """`spec.topologySpreadConstraints`."""

    name = "topology-spread"
    lasting_answers = True
    Arguments = TopologySpreadArguments

    def __init__(self, arguments: TopologySpreadArguments) -> None:
        self._weight = arguments.schedule_anyway_weight
        self._domains = SpreadDomains(tuple)
        self._sizes: dict[tuple[object, ...], int] = {}

    def open(self, view: SessionView) -> None:
        """Each cycle has its nodes."""
        self._domains = SpreadDomains(lambda: (state.node for state in view.nodes.values()))

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        """Reject nodes without the label of a constraint that must hold."""
        keys = spread_keys(pod.shape.spread)
        return _requiring(keys) if keys else None

    def node_cost(self, pod: PodView, view: SessionView) -> NodeCost | None:
        """What counted pods in the domains of a node cost by preferred constraints."""
        shape, index = pod.shape, view.affinity_index
        if not shape.preferred_spread or index is None or not self._weight:
            return None
        keys = spread_keys(shape.preferred_spread)
        prices = []
        for constraint in shape.preferred_spread:
            domains = self._domains.of(shape, constraint, keys)
            counts = counts_by_domain(domains, index.spread_counts(constraint.term))
            weight = 2 * self._half_weight(constraint, shape, view)
            prices.append(_Prices(constraint.term.topology_key, counts, weight))
        return _cost_of(prices)

    def rules(self, gang: Gang, view: SessionView) -> tuple[Rule, ...]:
        """The constraints of waiting pods of the gang."""
        index = view.affinity_index
        if index is None:
            return ()
        shapes = {pod.shape.key: pod.shape for pod in gang.members if pod.is_waiting}
        if not any(shape.spread or shape.preferred_spread for shape in shapes.values()):
            return ()
        shapes = dict(sorted(shapes.items()))
        return (*self._rules(shapes, view, index), *self._preferences(shapes, view, index))

    def _rules(
        self, shapes: Mapping[ShapeKey, PodShape], view: SessionView, index: AffinityIndex
    ) -> Iterator[Rule]:
        owners: dict[tuple[SpreadConstraint, CountedNodes], list[ShapeKey]] = {}
        for key, shape in shapes.items():
            for constraint in shape.spread:
                nodes = counted_nodes(shape, constraint, spread_keys(shape.spread))
                owners.setdefault((constraint, nodes), []).append(key)
        for (constraint, nodes), keys in owners.items():
            label, first = constraint.term.topology_key, shapes[keys[0]]
            domains = self._domains.of(first, constraint, spread_keys(first.spread))
            counts = counts_by_domain(domains, index.spread_counts(constraint.term))
            others = [each for each in shapes if index.is_counted(shapes[each], constraint.term)]
            uses_more = any(
                each not in keys and not _uses_only(shapes[each], label, domains, view) for each in others
            )
            yield TopologySpreadRule(
                name=f"topology spread by {label}",
                key=label,
                owners=tuple(keys),
                others=tuple(others),
                existing=tuple(sorted((quoted_value(value), count) for value, count in counts.items())),
                max_skew=constraint.max_skew,
                min_domains=constraint.min_domains,
                counted=nodes if uses_more else None,
            )

    def _preferences(
        self, shapes: Mapping[ShapeKey, PodShape], view: SessionView, index: AffinityIndex
    ) -> Iterator[Rule]:
        """One rule for each label by which pods of the gang are to be spread.

        Of two pods the one that is bound later counts the other one, so each direction is half of a price.
        """
        weights: dict[str, Counter[tuple[ShapeKey, ShapeKey]]] = {}
        for owner, shape in shapes.items():
            for constraint in shape.preferred_spread if self._weight else ():
                weight = self._half_weight(constraint, shape, view)
                pairs = weights.setdefault(constraint.term.topology_key, Counter())
                for other, counted in shapes.items():
                    if index.is_counted(counted, constraint.term):
                        pairs[owner, other] -= weight
        for key, pairs in sorted(weights.items()):
            found = tuple(PairWeight(*pair, weight) for pair, weight in sorted(pairs.items()) if weight)
            if found:
                yield PodPairs(name=f"preferred topology spread by {key}", key=key, weights=found)

    def _half_weight(self, constraint: SpreadConstraint, shape: PodShape, view: SessionView) -> int:
        """Half of what one counted pod costs by a preferred constraint."""
        key, keys = constraint.term.topology_key, spread_keys(shape.preferred_spread)
        use = (key, keys, shape.node_selector, shape.required_affinity, shape.tolerations)
        if use not in self._sizes:
            nodes = (state.node for state in view.nodes.values())
            self._sizes[use] = len(
                {node.labels[key] for node in nodes if _has_all(node, keys) and may_use(shape, node)}
            )
        return round(self._weight * log(self._sizes[use] + 2) / 2)


class _Prices(Struct, frozen=True):
    """What a constraint makes a node cost: `weight` for each pod that is counted in its domain."""

    key: str
    counts: dict[str, int]
    weight: int

    @property
    def of_a_missing_key(self) -> int:
        return self.weight * (max(self.counts.values(), default=0) + PODS_OF_A_MISSING_KEY)


def _has_all(node: Node, keys: tuple[str, ...]) -> bool:
    return all(key in node.labels for key in keys)


def _cost_of(prices: list[_Prices]) -> NodeCost:
    missing = sum(each.of_a_missing_key for each in prices)

    def cost(node: Node) -> int:
        labels, total = node.labels, 0
        for each in prices:
            value = labels.get(each.key)
            if value is None:
                return missing
            total += each.weight * each.counts.get(value, 0)
        return total

    return cost


def _uses_only(shape: PodShape, key: str, domains: Domains, view: SessionView) -> bool:
    """Whether all nodes of domains that such pods may use are counted."""
    return not any(
        name not in domains and key in state.node.labels and may_use(shape, state.node)
        for name, state in view.nodes.items()
    )


def _requiring(keys: tuple[str, ...]) -> NodeFilter:
    def check(node: Node) -> str | None:
        missing = next((key for key in keys if key not in node.labels), None)
        return None if missing is None else f"no label {missing} for topology spread"

    return check
