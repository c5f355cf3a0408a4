"""NodeResourceTopology of topology.node.k8s.io: the NUMA zones of a node."""

from typing import Final

from phalanx.model.api.core import Quantity
from phalanx.model.api.kind import Kind
from phalanx.model.api.meta import ApiStruct, KubeObject


class Attribute(ApiStruct, frozen=True):
    """One setting of the node's kubelet, such as topologyManagerPolicy."""

    name: str = ""
    value: str = ""


class ZoneResource(ApiStruct, frozen=True):
    """Capacity, allocatable and available amount of one resource in a zone."""

    name: str = ""
    capacity: Quantity | None = None
    allocatable: Quantity | None = None
    available: Quantity | None = None


class Zone(ApiStruct, frozen=True):
    """One part of the machine. Zones of the type Node are NUMA nodes."""

    name: str = ""
    type: str = ""
    resources: tuple[ZoneResource, ...] = ()


class NodeResourceTopology(KubeObject, frozen=True):
    """The zones of the node of the same name. Older exporters publish the policy in `topology_policies`."""

    topology_policies: tuple[str, ...] = ()
    zones: tuple[Zone, ...] = ()
    attributes: tuple[Attribute, ...] = ()


KINDS: Final = (
    Kind(
        NodeResourceTopology,
        "topology.node.k8s.io/v1alpha2",
        "noderesourcetopologies",
        namespaced=False,
        optional=True,
    ),
)
