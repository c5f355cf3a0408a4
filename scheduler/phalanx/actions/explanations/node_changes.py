"""Changes of nodes that let a gang start: nodes that come back into service, and additional nodes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import takewhile
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand, requested, without_affinity_terms
from phalanx.actions.explanations import advice
from phalanx.actions.explanations.advice import Action
from phalanx.actions.explanations.changed_nodes import ChangedNode
from phalanx.actions.explanations.deletion_filter import necessary
from phalanx.actions.limits import ADVISED_NODES_MAX
from phalanx.framework.eligibility import evaluate
from phalanx.framework.nodes.topology import Path, domain_path
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.names import HOSTNAME_KEY, NodeName
from phalanx.model.nodes import Node, NodeState
from phalanx.model.resources import NONE, PODS, Resources, largest
from phalanx.model.snapshot import Level

Fits = Callable[[Sequence[ChangedNode]], bool | None]
"""Whether the demand would fit with these nodes; None if that is not known."""

RETURNED_MAX: Final = 4
"""Nodes that one advice names to bring back."""

LABELLED_PER_POD: Final = 2
"""Nodes per pod of the demand that are tried with a label; more would help no more often."""

_NEW_VALUE: Final = "?"
"""A value that no label has."""

MODELS_MAX: Final = 3
"""Existing nodes, of different kinds, of which copies are tried."""


# --- nodes that come back -----------------------------------------------------------------------------------


def returned_nodes(session: Session, demand: Demand, fits: Fits) -> Iterator[Action]:
    """As few as possible of the nodes that are cordoned or faulty now, or all of them."""
    back = out_of_service(session, demand)
    sizes = sorted({min(size, len(back)) for size in (1, RETURNED_MAX)} - {0})
    found = next((back[:size] for size in sizes if fits(back[:size])), None)
    if found is None:
        if len(back) > RETURNED_MAX and fits(back):
            yield advice.BringBackAll(len(back))
        return
    yield bringing_back(session, necessary(found, fits))


def out_of_service(session: Session, demand: Demand) -> list[ChangedNode]:
    """The nodes that are cordoned or faulty now and would admit pods of the demand, as they are then."""
    back = [
        state.node.as_available for name, state in session.nodes.items() if session.is_out_of_service(name)
    ]
    return [ChangedNode(node=node, like=node.name) for node in _admitting(session, demand, back)]


def bringing_back(session: Session, nodes: Sequence[ChangedNode]) -> Action:
    """The action that returns these nodes."""
    states = [session.nodes[each.like].node for each in nodes]
    cordoned = [node.name for node in states if node.is_cordoned]
    faulty = [node.name for node in states if node.name in session.faults or node.has_faulty_state]
    in_transition = [node.name for node in states if node.is_in_transition]
    return advice.BringBack(tuple(cordoned), tuple(faulty), tuple(in_transition))


def _admitting(session: Session, demand: Demand, nodes: Sequence[Node]) -> list[Node]:
    """Those of these healthy nodes that admit pods of some batch."""
    if not nodes:
        return []
    states = {node.name: NodeState(node) for node in nodes}
    filters = [session.hooks.node_filters(batch.pods[0]) for batch in demand.batches]
    rejected = [evaluate(states, (), checks, ()).rejected for checks in filters]
    return [node for node in nodes if any(node.name not in names for names in rejected)]


# --- labels -------------------------------------------------------------------------------------------------


def labelled_nodes(session: Session, demand: Demand, fits: Fits) -> Iterator[Action]:
    """Nodes that get the label of a level that they lack, or a Topology without this level."""
    gang, topology = demand.gang, session.topologies.of(demand.gang)
    own = [part for part in gang.subgroups if not session.topologies.other_of(gang, part)]
    required = {gang.topology.required, *(part.required for part in own)} - {None}
    if topology is None or not required:
        return
    depth = max(
        (number for number, level in enumerate(topology.levels, 1) if level.name in required), default=0
    )
    lacking: dict[Level, list[Node]] = {}
    nodes = [session.nodes[name].node for name in session.facts.open_nodes]
    outside = [node for node in nodes if len(domain_path(node, topology)) < depth]
    for node in _admitting(session, demand, outside):
        lacking.setdefault(topology.levels[len(domain_path(node, topology))], []).append(node)
    for level, nodes in lacking.items():
        label = level.node_label
        repelling = _repelling(session, demand, label)
        free = [node for node in nodes if node.name not in repelling]
        changed = [_with_label(node, label) for node in free[: LABELLED_PER_POD * demand.count]]
        few = changed[:ADVISED_NODES_MAX]
        if few and fits(few):
            yield advice.LabelNodes(label, tuple(each.like for each in necessary(few, fits)))
        elif len(changed) > len(few) and not repelling and fits(changed):
            yield advice.LabelNodes(label, ())
        else:
            continue
        is_unused = not any(label in state.node.labels for state in session.nodes.values())
        may_leave_out = topology.name in session.topologies.names() and is_unused
        is_wanted = level.name in (*required, *_preferred(gang))
        if may_leave_out and not is_wanted and fits([_without_level(each, label) for each in changed]):
            yield advice.RemoveLevel(level.name, topology.name)


def _repelling(session: Session, demand: Demand, label: str) -> set[NodeName]:
    """Nodes without the label that must not share its value with pods of the demand.

    While they lack it, the anti-affinity by this label of pods there, or to them, has no effect.
    """
    index, states = session.affinity_index, [batch.pods[0].shape.affinity_state for batch in demand.batches]
    found = [
        index.repelling_nodes(state, label, session.snapshot.placed_pods)
        for state in states
        if index is not None and state is not None
    ]
    return {name for name in set().union(*found) if label not in session.nodes[name].node.labels}


def _with_label(node: Node, label: str) -> ChangedNode:
    return ChangedNode(node=replace(node, labels={**node.labels, label: _NEW_VALUE}), like=node.name)


def _without_level(labelled: ChangedNode, label: str) -> ChangedNode:
    """The node without the label of the level, and in the domains of a Topology that lacks the level."""
    labels = {key: value for key, value in labelled.node.labels.items() if key != label}
    return replace(labelled, node=replace(labelled.node, labels=labels), in_domains_of=labelled.node)


def _preferred(gang: Gang) -> list[str | None]:
    return [gang.topology.preferred, *(part.preferred for part in gang.subgroups)]


# --- additional nodes ---------------------------------------------------------------------------------------


def added_nodes(session: Session, demand: Demand, fits: Fits, *, beside: Session | None) -> Iterator[Action]:
    """As few as possible copies of an existing node, else of a larger node. `beside`: what is free there;
    None if the gang may start something else instead, which needs less."""
    found = models(session, demand)
    own = own_labels(session, demand.gang)
    for size in (NONE, largest(batch.pods[0].shape.requests for batch in demand.batches), requested(demand)):
        for model in found:
            larger = beyond(model, size)
            if larger or not size:
                copy = Copy(model, larger, own, place_of(session, demand, model))
                least = least_copies(beside, demand, copy) if beside is not None else 1
                yield from fewest_copies(copy, demand, fits, least=least)


def beyond(model: Node, size: Resources) -> Resources:
    """The amounts that a node of this size must have and the model has not."""
    return {name: need for name, need in size.items() if need > model.allocatable.get(name, 0)}


def models(session: Session, demand: Demand) -> list[Node]:
    """Healthy nodes that admit the pods, one of each kind; those of the largest kinds first.

    A kind has the same domains and amounts. Other pods are ignored: they are not near a new node.
    """
    batches = [without_affinity_terms(batch) for batch in demand.batches]
    if any(batch.pods[0].shape.device_slot for batch in batches):
        return []
    if session.facts.are_estimated([batch.pods[0].shape for batch in batches]):
        return []
    eligibilities = [session.eligibility(batch.pods[0]) for batch in batches]
    names = sorted(requested(demand))
    paths = _paths(session, demand.gang)
    kinds: dict[object, Node] = {}
    for name in session.facts.open_nodes:
        if any(name not in found.rejected for found in eligibilities):
            node = session.nodes[name].node
            amounts = tuple([node.allocatable.get(resource, 0) for resource in names])
            kinds.setdefault((paths.get(name), amounts), node)
    return nlargest(MODELS_MAX, kinds.values(), key=lambda node: _pods(node, demand))


def own_labels(session: Session, gang: Gang) -> frozenset[str]:
    """Labels of which a new node has its own values: the host name, and a narrowest level of single nodes."""
    topology = session.topologies.of(gang)
    label = topology.levels[-1].node_label if topology is not None and topology.levels else HOSTNAME_KEY
    values = [state.node.labels[label] for state in session.nodes.values() if label in state.node.labels]
    is_own = len(values) > 1 and len(set(values)) == len(values)
    return frozenset((HOSTNAME_KEY, label) if is_own else (HOSTNAME_KEY,))


def _paths(session: Session, gang: Gang) -> Mapping[NodeName, Path]:
    """The domains of nodes, without a narrowest level of single nodes."""
    topology = session.topologies.of(gang)
    if topology is None or not topology.levels:
        return {}
    is_own = topology.levels[-1].node_label in own_labels(session, gang)
    depth = len(topology.levels) - is_own
    return {name: path[:depth] for name, path in session.topologies.paths(topology).items()}


def _pods(node: Node, demand: Demand) -> int:
    """How many pods of the batches fit an empty node, each batch alone."""
    return sum(
        min(
            (
                node.allocatable.get(name, 0) // need
                for name, need in batch.pods[0].shape.requests.items()
                if need
            ),
            default=0,
        )
        for batch in demand.batches
    )


def place_of(session: Session, demand: Demand, model: Node) -> str:
    """Where a copy of the model is, such as " in zone z"; empty if the gang requires no level."""
    gang, topology = demand.gang, session.topologies.of(demand.gang)
    is_asked = gang.topology.required or any(part.required for part in gang.subgroups)
    if topology is None or not topology.levels or not is_asked:
        return ""
    path, last = _paths(session, gang).get(model.name, ()), topology.levels[-1]
    path = tuple(takewhile(lambda part: part not in session.nodes, path))
    own = own_labels(session, gang) - {HOSTNAME_KEY}
    alone = f" in a {last.name} of its own" if last.node_label in own & model.labels.keys() else ""
    return alone + advice.in_domain(topology.levels[len(path) - 1].name, path)


class Copy(Struct, frozen=True):
    """A new node: like the model, but with at least the amounts in `larger` and its own values of labels."""

    model: Node
    larger: Resources
    own_labels: frozenset[str]
    place: str

    def times(self, count: int) -> list[ChangedNode]:
        """So many of them."""
        model, found = self.model, []
        for number in range(count):
            name = NodeName(f"{model.name} copy {number}")
            # A label that the model lacks is missing on a node like it.
            own = {label: name for label in self.own_labels if label in (HOSTNAME_KEY, *model.labels)}
            labels = {**model.labels, **own}
            for label in model.labels_by_name:
                del labels[label]
            allocatable = {**model.allocatable, **self.larger}
            node = replace(model, name=name, labels=labels, allocatable=allocatable)
            found.append(ChangedNode(node=node, like=model.name, is_new=True))
        return found


def fewest_copies(copy: Copy, demand: Demand, fits: Fits, *, least: int = 1) -> Iterator[advice.AddNodes]:
    """As few as possible of these nodes, at most one for each pod. Fewer than `least` are not enough."""
    first = fits(copy.times(least))
    if first:
        yield _added(copy, least, demand)
        return
    if least >= demand.count or not fits(copy.times(demand.count)):
        return
    too_few, enough = least, demand.count
    is_fewest = first is False
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        found = fits(copy.times(middle))
        if found:
            enough = middle
        else:
            too_few, is_fewest = middle, found is False
    yield _added(copy, enough, demand, is_fewest=is_fewest)


def _added(copy: Copy, count: int, demand: Demand, *, is_fewest: bool = True) -> advice.AddNodes:
    amounts = {**copy.model.allocatable, **copy.larger}
    return advice.AddNodes(
        count=count,
        like=copy.model.name,
        at_least=copy.larger,
        size={name: amounts.get(name, 0) for name in requested(demand) if name != PODS},
        where=copy.place,
        is_fewest=is_fewest,
    )


def least_copies(session: Session, demand: Demand, copy: Copy) -> int:
    """Fewer of these nodes are not enough, if everything that is free on all nodes is used as well."""
    node = {**copy.model.allocatable, **copy.larger}
    lacking = {
        name: need - sum(max(0, session.free(each).get(name, 0)) for each in session.nodes)
        for name, need in {**requested(demand), PODS: demand.count}.items()
    }
    counts = [-(-more // node[name]) for name, more in lacking.items() if node.get(name, 0) > 0]
    return max(1, min(max(counts, default=1), demand.count))
