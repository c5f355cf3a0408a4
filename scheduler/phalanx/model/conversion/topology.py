"""Topologies: trees of the cluster, as their objects declare them or as well-known node labels imply them.

Well-known labels, widest first, with the level that each stands for. Only levels that some node carries
exist; where two labels stand for one level, the first that some node carries does:

- region: topology.kubernetes.io/region
- zone: topology.kubernetes.io/zone
- datacenter: network.topology.nvidia.com/datacenter (the top of the network)
- spine: network.topology.nvidia.com/spine
- block: network.topology.nvidia.com/block (a node's switch), cloud.provider.com/topology-block
- rack: cloud.provider.com/topology-rack
- nvlink: network.topology.nvidia.com/accelerator (an NVLink domain, at most a rack)
- host: kubernetes.io/hostname
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from phalanx.model.api.objects import Topology as WireTopology
from phalanx.model.nodes import Node
from phalanx.model.snapshot import Level, Topology

DEFAULT: Final = ""
"""The name under which gangs that name no topology find theirs."""

DEFAULT_OBJECT: Final = "default"
"""The Topology object that is the default where there are several."""

WELL_KNOWN: Final = (
    ("region", "topology.kubernetes.io/region"),
    ("zone", "topology.kubernetes.io/zone"),
    ("datacenter", "network.topology.nvidia.com/datacenter"),
    ("spine", "network.topology.nvidia.com/spine"),
    ("block", "network.topology.nvidia.com/block"),
    ("block", "cloud.provider.com/topology-block"),
    ("rack", "cloud.provider.com/topology-rack"),
    ("nvlink", "network.topology.nvidia.com/accelerator"),
    ("host", "kubernetes.io/hostname"),
)
"""(level, node label), widest first."""


def read_topology(written: WireTopology) -> Topology:
    """A Topology object; of two levels with one name the wider counts (the schema allows no such object)."""
    levels: dict[str, Level] = {}
    for level in written.spec.levels:
        levels.setdefault(level.name, Level(name=level.name, node_label=level.node_label))
    return Topology(name=written.metadata.name, levels=tuple(levels.values()))


def all_topologies(declared: Mapping[str, Topology], nodes: Iterable[Node]) -> Mapping[str, Topology]:
    """Every topology by name, and the default: the object `default`, else the first, else the implied one."""
    by_name = dict(sorted(declared.items()))
    default = by_name.get(DEFAULT_OBJECT) or next(iter(by_name.values()), None)
    if default is None:
        default = implied_topology(
            {label for node in nodes for _, label in WELL_KNOWN if label in node.labels}
        )
    return {DEFAULT: default, **by_name}


def implied_topology(carried: Collection[str]) -> Topology:
    """The topology of the well-known labels that some node carries."""
    levels: dict[str, Level] = {}
    for name, label in WELL_KNOWN:
        if label in carried:
            levels.setdefault(name, Level(name=name, node_label=label))
    return Topology(name=DEFAULT, levels=tuple(levels.values()))
