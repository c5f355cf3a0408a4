"""Honours required pod affinity and anti-affinity.

A node is near a pod when it has the same value of the term's `topologyKey` as the pod's node. Pods with a
node, terminating ones and those of other schedulers included, and pods placed earlier in the cycle keep
others away, or let them come, as Kubernetes does it: anti-affinity counts in both directions; a pod whose
affinity means itself goes anywhere while no pod that it means is there. What pods of one gang ask of each
other holds for the placement as a whole, whoever is bound first. Preferred terms are refused, and so are
roles that ask for each other in a circle by different terms.
"""

from collections.abc import Iterator, Sequence

from phalanx.framework.nodes.affinity import AffinityIndex, quoted_value
from phalanx.framework.plugin import NodeFilter, Plugin
from phalanx.framework.pod_view import PodView
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import ShapeKey
from phalanx.model.nodes import Node
from phalanx.model.pods import AffinityState
from phalanx.model.reasons import Objection, Reason
from phalanx.model.rules import PodAffinityRule, PodAntiAffinityRule, Rule, SameDomain
from phalanx.model.snapshot import Topology

Shapes = dict[ShapeKey, AffinityState]


class PodAffinity(Plugin):
    """`spec.affinity.podAffinity` and `spec.affinity.podAntiAffinity`, as far as they are required."""

    name = "pod-affinity"

    def __init__(self) -> None:
        self._as_levels: dict[tuple[str, str], str] = {}

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        """Refuse members that ask for each other in a circle: none of them could be the first."""
        shapes = _waiting(gang) if view.affinity_index is not None else {}
        asked = {shape: _asked(shape, shapes) for shape in shapes}
        while any(not others for others in asked.values()):
            grounded = [shape for shape, others in asked.items() if not others]
            asked = {
                shape: [other for other in others if other not in grounded]
                for shape, others in asked.items()
                if shape not in grounded
            }
        if not asked:
            return None
        return Objection(
            reason=Reason.UNSUPPORTED_FIELD,
            message="spec.affinity.podAffinity: cyclic terms between members are not supported yet",
            next_step="Give these members the same podAffinity, or remove it from some of them",
        )

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        """Most pods neither ask for state nor are meant by others: nothing to filter."""
        state, affinity_index = pod.shape.affinity_state, view.affinity_index
        if state is None or affinity_index is None:
            return None
        checks = [*_keeping_apart(state, affinity_index), *_bringing_near(state, affinity_index)]
        return _all_of(checks) if checks else None

    def rules(self, gang: Gang, view: SessionView) -> tuple[Rule, ...]:
        """What the pods that wait ask of each other."""
        affinity_index = view.affinity_index
        if affinity_index is None:
            return ()
        shapes = _waiting(gang)
        return (*_apart(shapes, affinity_index), *self._near(shapes, gang, view, affinity_index))

    def _near(
        self, shapes: Shapes, gang: Gang, view: SessionView, affinity_index: AffinityIndex
    ) -> Iterator[Rule]:
        for number in sorted({each.affinity for each in shapes.values() if each.affinity is not None}):
            owners = tuple(key for key, each in shapes.items() if each.affinity == number)
            meant = tuple(key for key, each in shapes.items() if number in each.matched_by)
            others = tuple(key for key in meant if key not in owners)
            begin = tuple(key for key in meant if key in owners)
            homes = affinity_index.values_with_matches(number)
            is_there = any(homes)
            if (is_there and not others) or not (others or begin):
                continue
            alone = not others and begin == owners and _is_all(owners, gang)
            if is_there or (others and len(homes) > 1):
                begin = ()
            for term, values in zip(affinity_index.terms[number], homes, strict=True):
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
                        homes=tuple(sorted(map(quoted_value, values))),
                        begin=begin,
                    )

    def _as_level(self, key: str, gang: Gang, view: SessionView) -> str:
        """The level of the gang's topology whose domains are just those of this label; empty for none."""
        topology = view.topologies.of(gang)
        if topology is None:
            return ""
        if (topology.name, key) not in self._as_levels:
            self._as_levels[topology.name, key] = _as_level(key, topology, view)
        return self._as_levels[topology.name, key]


def _waiting(gang: Gang) -> Shapes:
    """The shapes with state of members that wait."""
    waiting = {pod.shape.key: pod.shape.affinity_state for pod in gang.members if pod.is_waiting}
    return {key: state for key, state in sorted(waiting.items()) if state is not None}


def _asked(shape: ShapeKey, shapes: Shapes) -> list[ShapeKey]:
    """The shapes of pods that this one asks to be near, but for those that ask for the same."""
    near = shapes[shape].affinity
    return [other for other, each in shapes.items() if near in each.matched_by and near != each.affinity]


def _is_all(owners: Sequence[ShapeKey], gang: Gang) -> bool:
    """Whether the gang consists of these, and none of its pods has a node."""
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


def _apart(shapes: Shapes, affinity_index: AffinityIndex) -> Iterator[Rule]:
    for number in sorted({number for each in shapes.values() for number in each.anti_affinity}):
        owners = tuple(shape for shape, each in shapes.items() if number in each.anti_affinity)
        others = tuple(shape for shape, each in shapes.items() if number in each.matched_by)
        key = affinity_index.terms[number][0].topology_key
        if others:
            yield PodAntiAffinityRule(
                name=f"pod anti-affinity by {key}", key=key, owners=owners, others=others
            )


def _keeping_apart(state: AffinityState, affinity_index: AffinityIndex) -> Iterator[NodeFilter]:
    for number in state.anti_affinity:
        values = affinity_index.values_with_matches(number)[0]
        key = affinity_index.terms[number][0].topology_key
        if values:
            yield _barred(key, values, f"pods there match pod anti-affinity by {key}")
    for number in state.matched_by:
        values = affinity_index.values_avoided(number)
        key = affinity_index.terms[number][0].topology_key
        if values:
            yield _barred(key, values, f"pod anti-affinity by {key} of pods there")


def _bringing_near(state: AffinityState, affinity_index: AffinityIndex) -> Iterator[NodeFilter]:
    """Others of the gang may bring what is asked for: then a rule says where that is."""
    if state.affinity is None:
        return
    homes = affinity_index.values_with_matches(state.affinity)
    for term, values in zip(affinity_index.terms[state.affinity], homes, strict=True):
        key = term.topology_key
        if state.is_in_gang or (state.can_start and not any(homes)):
            yield _labelled(key)
        else:
            yield _near_only(key, values)


def _barred(key: str, values: frozenset[str], why: str) -> NodeFilter:
    return lambda node: why if node.labels.get(key) in values else None


def _near_only(key: str, values: frozenset[str]) -> NodeFilter:
    why = f"no pod there matches pod affinity by {key}"
    return lambda node: None if node.labels.get(key) in values else why


def _labelled(key: str) -> NodeFilter:
    why = f"no label {key} for pod affinity"
    return lambda node: None if key in node.labels else why


def _all_of(checks: Sequence[NodeFilter]) -> NodeFilter:
    def check(node: Node) -> str | None:
        return next((why for each in checks if (why := each(node)) is not None), None)

    return check
