"""The topologies of a snapshot, and the domains of its nodes."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from phalanx.model.gangs import Gang, SubgroupSpec
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node, NodeState
from phalanx.model.snapshot import Level, Topology

UNNAMED: Final = ""
"""The name of the default topology if the configuration does not name one."""

_EMPTY: Final = "''"
_BY_LABEL: Final = " by label "
"""Between the name of a Topology, which has no space, and a label."""

Path = tuple[str, ...]
"""A domain: the label values from the widest level down, up to the first label that a node lacks."""


class Topologies:
    """The topologies of a snapshot and the domains of its nodes in them."""

    def __init__(
        self, known: Mapping[str, Topology], nodes: Mapping[NodeName, NodeState], default: str | None
    ) -> None:
        self._known = {UNNAMED: Topology(name=UNNAMED, levels=()), **known}
        self._nodes = nodes
        self._default = default or UNNAMED
        self._paths: dict[tuple[str, ...], dict[NodeName, Path]] = {}
        self._with_labels: dict[tuple[str, tuple[tuple[str, int], ...]], Topology | None] = {}

    def of(self, gang: Gang) -> Topology | None:
        """The topology of the gang; None if it names one that does not exist.

        If node labels stand for required levels, these levels have the names of the labels there.
        """
        name = gang.topology.name or ""
        found = self.named(name)
        wanted = gang.required_levels
        if gang.names_topologies:
            wanted = gang.levels_required_of({"", name, found.name if found is not None else name})
        if not wanted or (found is not None and wanted.keys() <= {each.name for each in found.levels}):
            return found
        key = (name, tuple(wanted.items()))
        if key not in self._with_labels:
            candidates = [found] if name else [found, *(self._known[other] for other in self.names())]
            by_label = self._by_label(wanted, [each for each in candidates if each])
            self._with_labels[key] = by_label or (None if name else self._of_own_levels(wanted))
        return self._with_labels[key] or found

    def other_of(self, gang: Gang, part: SubgroupSpec) -> str:
        """The name of the Topology of a subgroup; empty if its levels are those of the gang's topology."""
        own = self.named(gang.topology.name or "")
        is_own = part.topology in ("", gang.topology.name, own.name if own is not None else "")
        return "" if is_own else part.topology

    def of_subgroup(self, gang: Gang, part: SubgroupSpec) -> Topology | None:
        """The topology whose levels the subgroup names; None if it does not exist."""
        other = self.other_of(gang, part)
        return self._known.get(other) if other else self.of(gang)

    def _domains_of_level(self, topology: str, level: str) -> tuple[Topology, int] | None:
        """A topology and how many of its levels lead down to this one; None if one does not exist."""
        found = self._known.get(topology)
        names = [each.name for each in found.levels] if found is not None else []
        return (found, names.index(level) + 1) if found is not None and level in names else None

    def domain_value(self, node: Node, topology: str, level: str) -> str:
        """What names the domain of a level in which a pod is that is placed on the node; empty for none."""
        found = self._domains_of_level(topology, level)
        return "" if found is None else _value(_path(node, found[0]), found[1])

    def member_value(self, node: NodeName, topology: str, level: str) -> str:
        """The same for a member that runs on the node: its labels count."""
        found, state = self._domains_of_level(topology, level), self._nodes.get(node)
        return "" if found is None or state is None else _value(domain_path(state.node, found[0]), found[1])

    @staticmethod
    def _by_label(wanted: Collection[str], candidates: Iterable[Topology]) -> Topology | None:
        """The first of these topologies that has a level of each of these names or node labels."""
        for topology in candidates:
            levels = tuple(
                Level(level.node_label, level.node_label) if level.node_label in wanted else level
                for level in topology.levels
            )
            if set(wanted) <= {level.name for level in levels}:
                return Topology(f"{topology.name}{_BY_LABEL}{','.join(wanted)}", levels)
        return None

    def _of_own_levels(self, wanted: Mapping[str, int]) -> Topology | None:
        """Levels of these labels, those of outer groups wider; None if groups of one depth differ.

        None if no node has one of the labels, so that a misspelt level is reported as one.
        """
        labels = sorted(wanted, key=lambda label: wanted[label])
        are_on_nodes = all(
            any(label in state.node.labels for state in self._nodes.values()) for label in labels
        )
        if not are_on_nodes or len(set(wanted.values())) < len(wanted):
            return None
        return Topology(f"{_BY_LABEL}{','.join(labels)}", tuple(Level(label, label) for label in labels))

    def named(self, name: str) -> Topology | None:
        """The topology of this name, the default for an empty name; None if it does not exist."""
        return self._known.get(name or self._default)

    def names(self) -> tuple[str, ...]:
        """The names of all topologies but the unnamed one."""
        return tuple(sorted(name for name in self._known if name))

    def paths(self, topology: Topology) -> Mapping[NodeName, Path]:
        """The narrowest domain of each node, computed once per topology.

        A node whose place in the network is unknown is in no domain, whatever its labels say.
        """
        labels = _labels(topology)
        if labels not in self._paths:
            self._paths[labels] = {name: _path(state.node, topology) for name, state in self._nodes.items()}
        return self._paths[labels]

    def path(self, name: NodeName, topology: Topology) -> Path:
        """The narrowest domain of one node; empty for an unknown node."""
        known = self._paths.get(_labels(topology))
        if known is not None:
            return known.get(name, ())
        if name not in self._nodes:
            return ()
        return _path(self._nodes[name].node, topology)

    def path_by_labels(self, name: NodeName, topology: Topology) -> Path | None:
        """The domain by the labels of the node, for pods that run there already; None for an unknown node."""
        state = self._nodes.get(name)
        return None if state is None else domain_path(state.node, topology)


def _labels(topology: Topology) -> tuple[str, ...]:
    return tuple([level.node_label for level in topology.levels])


def _value(path: Path, depth: int) -> str:
    """A domain as one value, which no label value equals; empty if the path does not lead so far down."""
    return "".join([f"/{name}" for name in path[:depth]]) if len(path) >= depth else ""


def _path(node: Node, topology: Topology) -> Path:
    return () if node.has_unknown_topology else domain_path(node, topology)


def domain_path(node: Node, topology: Topology) -> Path:
    """The label values of the node, widest level first, up to the first label that it lacks.

    An empty value is a value, as for kube-scheduler.
    """
    values: list[str] = []
    for level in topology.levels:
        value = node.labels.get(level.node_label)
        if value is None:
            break
        values.append(value)
    return tuple(values)


def domain_name(path: Path) -> str:
    """The domain as users see it; an empty value is quoted, since no label value has quotes."""
    return "/".join(value or _EMPTY for value in path)
