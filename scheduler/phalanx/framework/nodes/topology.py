"""The topologies of a snapshot, and the domains of its nodes."""

from collections.abc import Mapping
from typing import Final

from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node, NodeState
from phalanx.model.snapshot import Topology

UNNAMED: Final = ""
"""The name of the default topology if the configuration does not name one."""

_EMPTY: Final = "''"

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
        self._paths: dict[str, dict[NodeName, Path]] = {}

    def of(self, gang: Gang) -> Topology | None:
        """The topology of the gang; None if it names one that does not exist."""
        return self.named(gang.topology.name or "")

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
        if topology.name not in self._paths:
            self._paths[topology.name] = {
                name: _path(state.node, topology) for name, state in self._nodes.items()
            }
        return self._paths[topology.name]

    def path(self, name: NodeName, topology: Topology) -> Path:
        """The narrowest domain of one node; empty for an unknown node."""
        known = self._paths.get(topology.name)
        if known is not None:
            return known.get(name, ())
        if name not in self._nodes:
            return ()
        return _path(self._nodes[name].node, topology)

    def path_by_labels(self, name: NodeName, topology: Topology) -> Path | None:
        """The domain by the labels of the node, for pods that run there already; None for an unknown node."""
        state = self._nodes.get(name)
        return None if state is None else domain_path(state.node, topology)


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
