"""NodeResourceTopology of the group topology.node.k8s.io, as exporters on the nodes write it.

It is no kind of ours: only clusters with Node Feature Discovery or the resource-topology-exporter have it.
"""

from phalanx.model.api.core import Quantity
from phalanx.model.api.meta import ObjectMeta, Wire


class Attribute(Wire, frozen=True):
    """One setting of the node's kubelet, such as topologyManagerPolicy."""

    name: str = ""
    value: str = ""


class ZoneResource(Wire, frozen=True):
    """How much of one resource a zone has, what pods may use of it, and what none of them uses."""

    name: str = ""
    capacity: Quantity | None = None
    allocatable: Quantity | None = None
    available: Quantity | None = None


class Zone(Wire, frozen=True):
    """One part of the machine; those of the type Node are NUMA nodes."""

    name: str = ""
    type: str = ""
    resources: tuple[ZoneResource, ...] = ()


class NodeResourceTopology(Wire, frozen=True):
    """The zones of the node of the same name. `topology_policies` is how older exporters tell the policy."""

    metadata: ObjectMeta
    topology_policies: tuple[str, ...] = ()
    zones: tuple[Zone, ...] = ()
    attributes: tuple[Attribute, ...] = ()
