"""Honours pod affinity and anti-affinity.

Two nodes are in one domain of a term if they have the same value of its `topologyKey`. All pods that have a
node count, including terminating pods, pods of other schedulers, and pods that were placed earlier in the
cycle. As in Kubernetes, anti-affinity applies in both directions, and a pod whose affinity selects itself may
use any node while no selected pod exists. Terms between pods of one gang apply to the placement as a whole,
independently of the order in which the pods are bound. Roles with different terms that require each other
cyclically are refused.

Preferred terms are prices. A node is worth the sum of the weights that draw the pod to it, without those that
keep it away: of the pod's own preferred terms for each placed pod that they select, and of the preferred
terms of placed pods that select it. Required affinity of a placed pod that selects it counts
`hardPodAffinityWeight`. A node costs what it is worth less than the best node. Two pods of one gang that are
near each other are worth the weights of their preferred terms for each other.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct
from phalanx.framework.nodes.affinity import AffinityIndex, quoted_value
from phalanx.framework.nodes.preferences import Scores
from phalanx.framework.plugin import NodeCost, NodeFilter, Plugin
from phalanx.framework.pod_view import PodView
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName, ShapeKey
from phalanx.model.nodes import Node
from phalanx.model.pods import AffinityState
from phalanx.model.reasons import Objection, Reason
from phalanx.model.snapshot import Topology
from phalanx.rules.affinity import PairWeight, PodAffinityRule, PodAntiAffinityRule, PodPairs
from phalanx.rules.levels import SameDomain
from phalanx.rules.problem import Rule

Shapes = dict[ShapeKey, AffinityState]


class PodAffinityArguments(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Arguments as those of InterPodAffinity in the configuration of kube-scheduler."""

    hard_pod_affinity_weight: Annotated[int, Meta(ge=0, le=100)] = 1
    """What required affinity of a placed pod counts as preferred affinity."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """Do not count the terms of placed pods for a pod without preferred terms of its own."""


class PodAffinity(Plugin):
    """The terms of `spec.affinity.podAffinity` and `spec.affinity.podAntiAffinity`."""

    name = "pod-affinity"
    lasting_answers = True
    Arguments = PodAffinityArguments

    def __init__(self, arguments: PodAffinityArguments) -> None:
        self._arguments = arguments
        self._as_levels: dict[tuple[str, str], str] = {}

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        """Refuse members that require each other cyclically: none of them could be placed first."""
        shapes = _waiting(gang) if view.affinity_index is not None else {}
        required = {shape: _required_shapes(shape, shapes) for shape in shapes}
        while any(not others for others in required.values()):
            startable = [shape for shape, others in required.items() if not others]
            required = {
                shape: [other for other in others if other not in startable]
                for shape, others in required.items()
                if shape not in startable
            }
        if not required:
            return None
        return Objection(
            reason=Reason.UNSUPPORTED_FIELD,
            message="spec.affinity.podAffinity: cyclic terms between members are not supported yet",
            next_step="Give these members the same podAffinity, or remove it from some of them",
        )

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        """Reject nodes by the own terms of the pod, and by anti-affinity of other pods to it."""
        state, affinity_index = pod.shape.affinity_state, view.affinity_index
        if state is None or affinity_index is None:
            return None
        checks = [*_anti_affinity_filters(state, affinity_index), *_affinity_filters(state, affinity_index)]
        return _all_of(checks) if checks else None

    def node_cost(self, pod: PodView, view: SessionView) -> NodeCost | None:
        """What a node is worth less than the best one, by the pods that are placed."""
        state, affinity_index = pod.shape.affinity_state, view.affinity_index
        if state is None or affinity_index is None:
            return None
        if self._arguments.ignore_preferred_terms_of_existing_pods and not _has_preferences(state):
            return None
        scores = affinity_index.preferences.scores(
            state, required_weight=self._arguments.hard_pod_affinity_weight
        )
        worths = _worths(scores, view) if scores else {}
        return _cost_of(worths, len(view.nodes)) if worths else None

    def rules(self, gang: Gang, view: SessionView) -> tuple[Rule, ...]:
        """The terms between waiting pods of the gang."""
        affinity_index = view.affinity_index
        if affinity_index is None:
            return ()
        shapes = _waiting(gang)
        return (
            *_anti_affinity_rules(shapes, affinity_index),
            *self._affinity_rules(shapes, gang, view, affinity_index),
            *_preferences_between(shapes, affinity_index),
        )

    def _affinity_rules(
        self, shapes: Shapes, gang: Gang, view: SessionView, affinity_index: AffinityIndex
    ) -> Iterator[Rule]:
        for number in sorted({state.affinity for state in shapes.values() if state.affinity is not None}):
            owners = tuple(key for key, state in shapes.items() if state.affinity == number)
            selected = tuple(key for key, state in shapes.items() if number in state.matched_by)
            others = tuple(key for key in selected if key not in owners)
            starters = tuple(key for key in selected if key in owners)
            values_by_term = affinity_index.values_with_matches(number)
            any_exists = any(values_by_term)
            if (any_exists and not others) or not (others or starters):
                continue
            alone = not others and starters == owners and _is_all(owners, gang)
            if any_exists or (others and len(values_by_term) > 1):
                starters = ()
            for term, values in zip(affinity_index.terms[number], values_by_term, strict=True):
                level = self._as_level(term.topology_key, gang, view) if alone else ""
                name = f"pod affinity by {term.topology_key}"
                if level:
                    yield SameDomain(name=name, level=level, fixed=True)
                else:
                    yield PodAffinityRule(
                        name=name,
                        key=term.topology_key,
                        owners=owners,
                        others=others,
                        existing_values=tuple(sorted(map(quoted_value, values))),
                        starters=starters,
                    )

    def _as_level(self, key: str, gang: Gang, view: SessionView) -> str:
        """The level of the gang's topology with the same domains as this label; empty for none."""
        topology = view.topologies.of(gang)
        if topology is None:
            return ""
        if (topology.name, key) not in self._as_levels:
            self._as_levels[topology.name, key] = _as_level(key, topology, view)
        return self._as_levels[topology.name, key]


def _waiting(gang: Gang) -> Shapes:
    """The affinity states of waiting members, by shape."""
    waiting = {pod.shape.key: pod.shape.affinity_state for pod in gang.members if pod.is_waiting}
    return {key: state for key, state in sorted(waiting.items()) if state is not None}


def _required_shapes(shape: ShapeKey, shapes: Shapes) -> list[ShapeKey]:
    """The shapes that the affinity of this one selects, without shapes that have the same affinity."""
    near = shapes[shape].affinity
    return [other for other, state in shapes.items() if near in state.matched_by and near != state.affinity]


def _is_all(owners: Sequence[ShapeKey], gang: Gang) -> bool:
    """Whether the gang consists of these shapes, and none of its pods has a node."""
    return all(pod.shape.key in owners if pod.is_waiting else not pod.holds_node for pod in gang.members)


def _as_level(key: str, topology: Topology, view: SessionView) -> str:
    depth = next((number for number, level in enumerate(topology.levels, 1) if level.node_label == key), 0)
    paths = view.topologies.paths(topology) if depth else {}
    values: dict[str, tuple[str, ...]] = {}
    for name, state in view.nodes.items() if depth else ():
        value, path = state.node.labels.get(key), paths[name][:depth]
        if (value is not None) != (len(path) == depth):
            return ""
        if value is not None and values.setdefault(value, path) != path:
            return ""
    return topology.levels[depth - 1].name if depth else ""


def _anti_affinity_rules(shapes: Shapes, affinity_index: AffinityIndex) -> Iterator[Rule]:
    for number in sorted({number for state in shapes.values() for number in state.anti_affinity}):
        owners = tuple(shape for shape, state in shapes.items() if number in state.anti_affinity)
        others = tuple(shape for shape, state in shapes.items() if number in state.matched_by)
        key = affinity_index.terms[number][0].topology_key
        if others:
            yield PodAntiAffinityRule(
                name=f"pod anti-affinity by {key}", key=key, owners=owners, others=others
            )


def _has_preferences(state: AffinityState) -> bool:
    """Whether the pod has preferred terms of its own."""
    return any(weight for _, weight in state.preferred)


def _worths(scores: Scores, view: SessionView) -> dict[NodeName, int]:
    """What each node is worth; nodes that are worth 0 are left out."""
    worths: dict[NodeName, int] = {}
    for key, values in scores.items():
        for name, state in view.nodes.items():
            value = state.node.labels.get(key)
            if value in values:
                worths[name] = worths.get(name, 0) + values[value]
    return worths


def _cost_of(worths: Mapping[NodeName, int], nodes: int) -> NodeCost:
    """What a node is worth less than the best one."""
    best = max(worths.values())
    if len(worths) < nodes:
        best = max(best, 0)
    return lambda node: best - worths.get(node.name, 0)


def _preferences_between(shapes: Shapes, affinity_index: AffinityIndex) -> Iterator[Rule]:
    """One rule for each label, if members prefer or avoid each other by it."""
    weights: dict[str, Counter[tuple[ShapeKey, ShapeKey]]] = {}
    for owner, state in shapes.items():
        for number, weight in state.preferred:
            key = affinity_index.preferences.terms[number].topology_key
            for other, selected in shapes.items() if weight else ():
                if number in selected.preferred_by:
                    weights.setdefault(key, Counter())[owner, other] += weight
    for key, pairs in sorted(weights.items()):
        found = [PairWeight(*pair, weight) for pair, weight in sorted(pairs.items()) if weight]
        if found:
            yield PodPairs(name=f"preferred pod affinity by {key}", key=key, weights=tuple(found))


def _anti_affinity_filters(state: AffinityState, affinity_index: AffinityIndex) -> Iterator[NodeFilter]:
    for number in state.anti_affinity:
        values = affinity_index.values_with_matches(number)[0]
        key = affinity_index.terms[number][0].topology_key
        if values:
            yield _excluding(key, values, f"excluded by pod anti-affinity by {key}")
    for number in state.matched_by:
        values = affinity_index.values_avoided(number)
        key = affinity_index.terms[number][0].topology_key
        if values:
            yield _excluding(key, values, f"pod anti-affinity by {key} of pods there")


def _affinity_filters(state: AffinityState, affinity_index: AffinityIndex) -> Iterator[NodeFilter]:
    """Filters for the own affinity. If other members satisfy it, a rule chooses the domain instead."""
    if state.affinity is None:
        return
    values_by_term = affinity_index.values_with_matches(state.affinity)
    for term, values in zip(affinity_index.terms[state.affinity], values_by_term, strict=True):
        key = term.topology_key
        if state.is_in_gang or (state.can_start and not any(values_by_term)):
            yield _requiring_label(key)
        else:
            yield _requiring(key, values)


def _excluding(key: str, values: frozenset[str], reason: str) -> NodeFilter:
    return lambda node: reason if node.labels.get(key) in values else None


def _requiring(key: str, values: frozenset[str]) -> NodeFilter:
    reason = f"no pod there matches pod affinity by {key}"
    return lambda node: None if node.labels.get(key) in values else reason


def _requiring_label(key: str) -> NodeFilter:
    reason = f"no label {key} for pod affinity"
    return lambda node: None if key in node.labels else reason


def _all_of(checks: Sequence[NodeFilter]) -> NodeFilter:
    def check(node: Node) -> str | None:
        return next((reason for check_node in checks if (reason := check_node(node)) is not None), None)

    return check
