"""Honours topology spread constraints with `whenUnsatisfiable: DoNotSchedule`.

The pods that the selector of a constraint matches are counted by the value of its `topologyKey`: in the
namespace of the pod, of all schedulers, without terminating pods. Only nodes count that have the keys of all
constraints of the pod and that `nodeAffinityPolicy` and `nodeTaintsPolicy` include. For the gang as a whole:
where a pod with the constraint is placed, there are at most `maxSkew` more pods than in the domain with the
fewest, or than 0 if there are fewer domains than `minDomains`. Constraints with ScheduleAnyway are refused.
"""

from collections.abc import Iterator, Mapping

from phalanx.framework.nodes.affinity import AffinityIndex, quoted_value
from phalanx.framework.nodes.spread import (
    Domains,
    Scope,
    counts_by_domain,
    domains_of,
    may_use,
    scope_of,
    spread_keys,
)
from phalanx.framework.plugin import NodeFilter, Plugin
from phalanx.framework.pod_view import PodView
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import ShapeKey
from phalanx.model.nodes import Node
from phalanx.model.pods import PodShape, SpreadConstraint
from phalanx.model.rules import Rule, TopologySpreadRule


class TopologySpread(Plugin):
    """`spec.topologySpreadConstraints`."""

    name = "topology-spread"
    lasting_answers = True

    def __init__(self) -> None:
        self._domains: dict[tuple[SpreadConstraint, Scope], Domains] = {}

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        """Reject nodes without the label of a constraint."""
        keys = spread_keys(pod.shape.spread)
        return _requiring(keys) if keys else None

    def rules(self, gang: Gang, view: SessionView) -> tuple[Rule, ...]:
        """The constraints of waiting pods of the gang."""
        index = view.affinity_index
        if index is None:
            return ()
        shapes = {pod.shape.key: pod.shape for pod in gang.members if pod.is_waiting}
        if not any(shape.spread for shape in shapes.values()):
            return ()
        return tuple(self._rules(dict(sorted(shapes.items())), view, index))

    def _rules(
        self, shapes: Mapping[ShapeKey, PodShape], view: SessionView, index: AffinityIndex
    ) -> Iterator[Rule]:
        owners: dict[tuple[SpreadConstraint, Scope], list[ShapeKey]] = {}
        for key, shape in shapes.items():
            for constraint in shape.spread:
                owners.setdefault((constraint, scope_of(shape, constraint)), []).append(key)
        for (constraint, scope), keys in owners.items():
            label = constraint.term.topology_key
            domains = self._domains_of(constraint, scope, shapes[keys[0]], view)
            counts = counts_by_domain(domains, index.spread_counts(constraint.term))
            counted = [each for each in shapes if index.is_counted(shapes[each], constraint.term)]
            surely = [
                each for each in counted if each in keys or _uses_only(shapes[each], label, domains, view)
            ]
            yield TopologySpreadRule(
                name=f"topology spread by {label}",
                key=label,
                owners=tuple(keys),
                others=tuple(surely),
                perhaps=tuple(each for each in counted if each not in surely),
                existing=tuple(sorted((quoted_value(value), count) for value, count in counts.items())),
                max_skew=constraint.max_skew,
                min_domains=constraint.min_domains,
            )

    def _domains_of(
        self, constraint: SpreadConstraint, scope: Scope, shape: PodShape, view: SessionView
    ) -> Domains:
        known = self._domains.get((constraint, scope))
        if known is None:
            nodes = (state.node for state in view.nodes.values())
            known = self._domains[constraint, scope] = domains_of(nodes, shape, constraint)
        return known


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
