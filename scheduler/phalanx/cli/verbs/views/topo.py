"""The topology as a tree of domains with free devices, fragmentation, and who is where."""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.cli.verbs.formatting import main_resource
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.views.nodes import FaultOf, NodeRow, nodes_view
from phalanx.model.names import NodeName
from phalanx.model.snapshot import Level

NODE_LEVEL = "node"
"""The level of the leaves, where single nodes are shown."""

_NO_LABEL = "(no label)"


class GangShare(Struct, frozen=True, rename="camel"):
    """A gang, and how many pods of it are in a domain."""

    namespace: str
    name: str
    pods: int


class DomainRow(Struct, frozen=True, rename="camel"):
    """A domain of the topology; the root is the whole cluster, the leaves are nodes."""

    level: str
    name: str
    depth: int
    nodes: int
    total: int
    """Amount of the resource on all its nodes."""
    unusable: int
    """The part of it on nodes that take no pods."""
    free: int | None = None
    """Free on nodes that take pods; None if the user may not read all pods."""
    free_whole_nodes: int | None = None
    """Nodes that are free altogether."""
    largest_free: int | None = None
    """The most that is free on one node."""
    fragmentation: int | None = None
    """Percent of the free amount that is on nodes which are partly in use."""
    gangs: tuple[GangShare, ...] = ()
    """The largest first."""


class TopoView(Struct, frozen=True, rename="camel"):
    topology: str
    levels: tuple[str, ...]
    resource: str
    domains: tuple[DomainRow, ...]
    """Depth first."""


class _Domain:
    """A domain while the tree is built."""

    def __init__(self, level: str, name: str, depth: int) -> None:
        self.level, self.name, self.depth = level, name, depth
        self.children: dict[str, _Domain] = {}
        self.rows: list[NodeRow] = []


def topo_view(
    seen: Seen, fault_of: FaultOf, *, name: str | None, resource: str | None, with_nodes: bool
) -> TopoView | None:
    """The tree; `with_nodes`: down to single nodes. None if there is no topology of this name."""
    rows = nodes_view(seen, fault_of, resource=None).nodes
    return tree_of(seen, rows, name=name, resource=resource, with_nodes=with_nodes)


def tree_of(
    seen: Seen, rows: Sequence[NodeRow], *, name: str | None, resource: str | None, with_nodes: bool
) -> TopoView | None:
    """The same, of all nodes."""
    topology = seen.cluster.topologies.get(name or _default(seen))
    if topology is None:
        return None
    counted = resource or main_resource(row.allocatable for row in rows)
    root = _Domain("cluster", "", 0)
    for row in sorted(rows, key=lambda row: row.name):
        if row.allocatable.get(counted, 0):
            _add(root, row, topology.levels, seen, with_nodes=with_nodes)
    return TopoView(
        topology=topology.name,
        levels=tuple(level.name for level in topology.levels),
        resource=counted,
        domains=tuple(_rows(root, counted, seen)),
    )


def _default(seen: Seen) -> str:
    """The topology named default, else the first one, else the one that node labels imply."""
    names = sorted(name for name in seen.cluster.topologies if name)
    return "default" if "default" in names else names[0] if names else ""


def _add(root: _Domain, row: NodeRow, levels: Sequence[Level], seen: Seen, *, with_nodes: bool) -> None:
    labels = seen.cluster.nodes[NodeName(row.name)].node.labels
    domain = root
    domain.rows.append(row)
    for level in levels:
        name = labels.get(level.node_label, _NO_LABEL)
        if level is levels[-1] and name == row.name:
            break  # the level of single nodes, which `with_nodes` shows
        child = domain.children.setdefault(name, _Domain(level.name, name, domain.depth + 1))
        child.rows.append(row)
        domain = child
        if name == _NO_LABEL:
            break
    if with_nodes:
        leaf = domain.children.setdefault(row.name, _Domain(NODE_LEVEL, row.name, domain.depth + 1))
        leaf.rows.append(row)


def _rows(domain: _Domain, resource: str, seen: Seen) -> Iterator[DomainRow]:
    yield _row(domain, resource, seen)
    for name in sorted(domain.children):
        yield from _rows(domain.children[name], resource, seen)


def _row(domain: _Domain, resource: str, seen: Seen) -> DomainRow:
    usable = [row for row in domain.rows if row.takes_pods]
    total = sum(row.allocatable.get(resource, 0) for row in domain.rows)
    row = DomainRow(
        level=domain.level,
        name=domain.name,
        depth=domain.depth,
        nodes=len(domain.rows),
        total=total,
        unusable=total - sum(row.allocatable.get(resource, 0) for row in usable),
        gangs=tuple(_gangs(domain.rows, seen)),
    )
    return _with_free(row, usable, resource) if seen.knows_all_pods else row


def _with_free(row: DomainRow, usable: Sequence[NodeRow], resource: str) -> DomainRow:
    free = [(max((node.free or {}).get(resource, 0), 0), node) for node in usable]
    whole = [number for number, node in free if number == node.allocatable.get(resource, 0)]
    total = sum(number for number, _ in free)
    return replace(
        row,
        free=total,
        free_whole_nodes=len(whole),
        largest_free=max((number for number, _ in free), default=0),
        fragmentation=100 * (total - sum(whole)) // total if total else 0,
    )


def _gangs(rows: Sequence[NodeRow], seen: Seen) -> Iterator[GangShare]:
    counts: Counter[tuple[str, str]] = Counter()
    for row in rows:
        for gang in row.gangs:
            if seen.shows(gang.namespace):
                counts[gang.namespace, gang.name] += gang.pods
    for (namespace, name), pods in sorted(counts.items(), key=lambda each: (-each[1], each[0])):
        yield GangShare(namespace, name, pods)
