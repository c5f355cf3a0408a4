"""The map of the cluster: domains with their nodes, in few bytes, so that 10,000 nodes load quickly."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from phalanx.cli.verbs.formatting import is_device
from phalanx.cli.verbs.views.nodes import NodeCondition, NodeRow
from phalanx.cli.verbs.views.topo import NODE_LEVEL, DomainRow, GangShare, TopoView, tree_of
from phalanx.model.names import NodeName
from phalanx.model.resources import CPU, MEMORY
from phalanx.model.snapshot import Level

from phalanx_dashboard.copies import copied
from phalanx_dashboard.facts import Facts

_GANGS_OF_DOMAIN_SHOWN: Final = 5
"""Gangs that the map names for a domain, those with most pods there first."""


Levels = Sequence[Level]

CONDITIONS: Final = tuple(condition.value for condition in NodeCondition)


class Leaf(Struct, frozen=True, array_like=True):
    """A node: an array in JSON."""

    name: str
    total: int
    free: int | None
    condition: int
    """The place in `conditions`."""
    takes_pods: bool
    gangs: int


class MapDomain(Struct, frozen=True, rename="camel"):
    """A domain, with the nodes that are directly in it."""

    level: str
    name: str
    depth: int
    node_count: int
    total: int
    unusable: int
    free: int | None
    free_whole_nodes: int | None
    fragmentation: int | None
    gangs: tuple[GangShare, ...]
    """The largest ones."""
    gang_count: int
    nodes: tuple[Leaf, ...]


class Map(Struct, frozen=True, rename="camel"):
    topology: str
    topologies: tuple[str, ...]
    resource: str
    resources: tuple[str, ...]
    left_out: str
    """Why there are no nodes, if they could not be read."""
    levels: tuple[str, ...]
    conditions: tuple[str, ...]
    domains: tuple[MapDomain, ...]
    """Depth first; the first one is the cluster."""


class NodePage(Struct, frozen=True, rename="camel"):
    node: NodeRow
    path: tuple[str, ...]
    lost_device_seconds: int


def topology_map(facts: Facts, *, name: str = "", resource: str = "") -> Map | None:
    tree = tree_of(
        facts.seen, facts.nodes.nodes, name=name or None, resource=resource or None, with_nodes=True
    )
    if tree is None:
        return None
    return Map(
        topology=tree.topology,
        topologies=tuple(sorted(each for each in facts.seen.cluster.topologies if each)),
        resource=tree.resource,
        resources=_resources(facts, tree),
        left_out=facts.seen.unread.get("Node", ""),
        levels=tree.levels,
        conditions=CONDITIONS,
        domains=tuple(_domains(tree, facts)),
    )


def node_page(facts: Facts, name: str) -> NodePage | None:
    row = facts.node_by_name.get(name)
    if row is None:
        return None
    return NodePage(row, node_path(facts, name, levels_of(facts, None)), row.lost_device_seconds)


def levels_of(facts: Facts, name: str | None) -> Levels:
    """The levels of a topology that group nodes, the widest first; none if it does not exist."""
    topologies = facts.seen.cluster.topologies
    shown = next((each for each in (name, "default", *sorted(topologies)) if each and each in topologies), "")
    topology = topologies.get(shown)
    return topology.levels if topology is not None else ()


def node_path(facts: Facts, name: str, levels: Levels) -> tuple[str, ...]:
    """The domains around a node, the widest first."""
    state = facts.seen.cluster.nodes.get(NodeName(name))
    if state is None:
        return ()
    labels = state.node.labels
    return tuple(value for level in levels if (value := labels.get(level.node_label)) and value != name)


def _domains(tree: TopoView, facts: Facts) -> list[MapDomain]:
    """The domains with their nodes. A node belongs to the last domain before it that is one level above."""
    domains: list[tuple[DomainRow, list[Leaf]]] = []
    around: dict[int, list[Leaf]] = {}
    for row in tree.domains:
        if row.level == NODE_LEVEL:
            around[row.depth - 1].append(_leaf(row, facts.node_by_name[row.name]))
        else:
            around[row.depth] = []
            domains.append((row, around[row.depth]))
    return [_domain(row, leaves) for row, leaves in domains]


def _domain(row: DomainRow, leaves: Sequence[Leaf]) -> MapDomain:
    return copied(
        MapDomain,
        row,
        node_count=row.nodes,
        gangs=row.gangs[:_GANGS_OF_DOMAIN_SHOWN],
        gang_count=len(row.gangs),
        nodes=tuple(leaves),
    )


def _leaf(row: DomainRow, node: NodeRow) -> Leaf:
    place = CONDITIONS.index(node.condition.value)
    return Leaf(row.name, row.total, row.free, place, node.takes_pods, len(row.gangs))


def _resources(facts: Facts, tree: TopoView) -> tuple[str, ...]:
    names = {name for row in facts.nodes.nodes for name in row.allocatable}
    return tuple(sorted(name for name in names | {tree.resource} if is_device(name) or name in (CPU, MEMORY)))
