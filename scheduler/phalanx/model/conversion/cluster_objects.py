"""Conversion of Topologies, PriorityClasses and PodDisruptionBudgets.

Without Topology objects, well-known node labels imply one. Widest first, with the level of each; a level
exists if some node has one of its labels, and the first such label defines it:

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

from msgspec import Struct

from phalanx.model.api import core
from phalanx.model.api.kai import KaiTopology
from phalanx.model.api.queues import Topology as WireTopology
from phalanx.model.conversion.selectors import read_label_selector
from phalanx.model.names import YUNIKORN_ALLOW_PREEMPTION, kai_topology
from phalanx.model.nodes import Node
from phalanx.model.snapshot import DisruptionBudget, Level, Topology

DEFAULT: Final = ""
"""Key of the topology for gangs that name none."""

DEFAULT_OBJECT: Final = "default"
"""Name of the Topology object that is the default if there are several."""

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
    """A Topology object. Of two levels with one name, the wider counts (the schema forbids such objects)."""
    levels: dict[str, Level] = {}
    for level in written.spec.levels:
        levels.setdefault(level.name, Level(name=level.name, node_label=level.node_label))
    return Topology(name=written.metadata.name, levels=tuple(levels.values()))


def read_kai_topology(written: KaiTopology) -> Topology:
    """A Topology of KAI. Its levels have no other name than the node label."""
    labels = dict.fromkeys(level.node_label for level in written.spec.levels)
    return Topology(
        name=kai_topology(written.metadata.name),
        levels=tuple(Level(name=label, node_label=label) for label in labels),
    )


def all_topologies(declared: Mapping[str, Topology], nodes: Iterable[Node]) -> Mapping[str, Topology]:
    """All topologies by name, and the default: the object `default`, else the first, else the implied one."""
    by_name = dict(sorted(declared.items()))
    default = by_name.get(DEFAULT_OBJECT) or next(iter(by_name.values()), None)
    if default is None:
        default = implied_topology(
            {label for node in nodes for _, label in WELL_KNOWN if label in node.labels}
        )
    return {DEFAULT: default, **by_name}


def implied_topology(carried: Collection[str]) -> Topology:
    """The topology of the well-known labels that some node has."""
    levels: dict[str, Level] = {}
    for name, label in WELL_KNOWN:
        if label in carried:
            levels.setdefault(name, Level(name=name, node_label=label))
    return Topology(name=DEFAULT, levels=tuple(levels.values()))


PREEMPT_LOWER: Final = "PreemptLowerPriority"


class PriorityLevel(Struct, frozen=True, gc=False):
    """Priority and preemption policy of a PriorityClass."""

    value: int = 0
    preemption_policy: str = PREEMPT_LOWER
    is_default: bool = False
    opts_out: bool = False
    """Whether YuniKorn would preempt its pods last."""


BUILT_IN: Final[Mapping[str, PriorityLevel]] = {
    "system-cluster-critical": PriorityLevel(2_000_000_000),
    "system-node-critical": PriorityLevel(2_000_001_000),
}
"""Classes that every API server creates by itself. Manifests may use them without declaring them."""


def read_priority_class(written: core.PriorityClass) -> PriorityLevel:
    """Convert one PriorityClass."""
    return PriorityLevel(
        value=written.value,
        preemption_policy=written.preemption_policy or PREEMPT_LOWER,
        is_default=written.global_default,
        opts_out=written.metadata.annotations.get(YUNIKORN_ALLOW_PREEMPTION) == "false",
    )


def resolve(name: str, classes: Mapping[str, PriorityLevel]) -> PriorityLevel | None:
    """The level of this name, the global default for an empty name, None if no such class exists.

    Of several global defaults the lowest counts, as in Kubernetes.
    """
    if name:
        return classes.get(name) or BUILT_IN.get(name)
    defaults = [level for level in classes.values() if level.is_default]
    return min(defaults, key=lambda level: level.value, default=PriorityLevel())


def read_disruption_budget(written: core.PodDisruptionBudget) -> DisruptionBudget:
    """Convert one budget. A status of an older generation allows no eviction, as in the eviction API."""
    meta, status = written.metadata, written.status
    wrong: list[str] = []
    selector = read_label_selector(written.spec.selector, "spec.selector", wrong)
    is_counted = status.observed_generation >= meta.generation
    return DisruptionBudget(
        namespace=meta.namespace,
        name=meta.name,
        selector=selector,
        allowed=max(0, status.disruptions_allowed) if is_counted and not wrong else 0,
        fault=wrong[0] if wrong else "",
    )
