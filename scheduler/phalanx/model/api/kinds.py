"""Registry of the kinds that Phalanx reads: their struct, and their path in the API."""

from typing import Final

from msgspec import Struct

from phalanx.model.api import core
from phalanx.model.api.config_maps import ConfigMap
from phalanx.model.api.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from phalanx.model.api.kai import KaiPodGroup, KaiQueue, KaiTopology
from phalanx.model.api.native_pod_groups import CompositePodGroup, NativePodGroup
from phalanx.model.api.node_topologies import NodeResourceTopology
from phalanx.model.api.pod_groups import PodGroup
from phalanx.model.api.queues import Queue, Topology
from phalanx.model.api.scheduler_plugins import SchedulerPluginsPodGroup
from phalanx.model.api.storage import CSIDriver, CSINode, CSIStorageCapacity, VolumeAttachment
from phalanx.model.api.volcano import HyperNode, VolcanoJob, VolcanoPodGroup, VolcanoQueue
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.names import API_VERSION
from phalanx.model.workloads.kind import WorkloadKind
from phalanx.model.workloads.known import WORKLOADS, WorkloadKinds

KubeObject = (
    core.Pod
    | core.Node
    | core.Namespace
    | core.PriorityClass
    | core.PodDisruptionBudget
    | core.PersistentVolumeClaim
    | core.PersistentVolume
    | core.StorageClass
    | CSIDriver
    | CSINode
    | CSIStorageCapacity
    | VolumeAttachment
    | core.Lease
    | ConfigMap
    | NodeResourceTopology
    | ResourceClaim
    | DeviceClass
    | ResourceSlice
    | DeviceTaintRule
    | PodGroup
    | NativePodGroup
    | CompositePodGroup
    | SchedulerPluginsPodGroup
    | VolcanoPodGroup
    | VolcanoJob
    | HyperNode
    | KaiPodGroup
    | KaiTopology
    | Queue
    | VolcanoQueue
    | KaiQueue
    | Topology
    | WorkloadObject
)


class Kind(Struct, frozen=True):
    """One kind. `api_version` is "v1" for the core group, "group/version" for the others.

    `optional`: a kind of another project, or behind a feature gate. If the API does not serve it, there are
    no such objects. `served_as`: the name of the kind in the API, if its struct has another name.
    """

    struct: type[KubeObject]
    api_version: str
    plural: str
    namespaced: bool
    optional: bool = False
    served_as: str = ""
    workload: str = ""

    @property
    def name(self) -> str:
        """The name of its struct, which is unique: several API groups may have a kind of one name.

        Kinds of workloads have one struct, and the names of their `WorkloadKind`.
        """
        return self.workload or self.struct.__name__

    @property
    def api_name(self) -> str:
        """The kind's name in the API."""
        return self.served_as or self.name

    @property
    def api_path(self) -> str:
        """The path of the API version: /api/v1 or /apis/group/version."""
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"

    @property
    def group(self) -> str:
        """The API group, as RBAC rules name it; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def resource(self) -> str:
        """The plural, with the API group if it has one: unique, as the plural alone is not."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Path of a collection or an object; without a namespace, the collection of all namespaces."""
        parts = [self.api_path]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)


def _pod_groups(struct: type[KubeObject], api_version: str) -> Kind:
    """PodGroups of another API group than that of Phalanx."""
    return Kind(struct, api_version, "podgroups", namespaced=True, optional=True, served_as="PodGroup")


def _queues(struct: type[KubeObject], api_version: str) -> Kind:
    """Queues of another API group than that of Phalanx."""
    return Kind(struct, api_version, "queues", namespaced=False, optional=True, served_as="Queue")


_ALL = (
    Kind(core.Pod, "v1", "pods", namespaced=True),
    Kind(core.Node, "v1", "nodes", namespaced=False),
    Kind(core.Namespace, "v1", "namespaces", namespaced=False),
    Kind(core.PersistentVolumeClaim, "v1", "persistentvolumeclaims", namespaced=True),
    Kind(core.PersistentVolume, "v1", "persistentvolumes", namespaced=False),
    Kind(core.PriorityClass, "scheduling.k8s.io/v1", "priorityclasses", namespaced=False),
    Kind(core.PodDisruptionBudget, "policy/v1", "poddisruptionbudgets", namespaced=True),
    Kind(core.StorageClass, "storage.k8s.io/v1", "storageclasses", namespaced=False),
    Kind(core.Lease, "coordination.k8s.io/v1", "leases", namespaced=True),
    Kind(ConfigMap, "v1", "configmaps", namespaced=True),
    Kind(
        NodeResourceTopology,
        "topology.node.k8s.io/v1alpha2",
        "noderesourcetopologies",
        namespaced=False,
        optional=True,
    ),
    Kind(PodGroup, API_VERSION, "podgroups", namespaced=True),
    _pod_groups(NativePodGroup, "scheduling.k8s.io/v1beta1"),
    Kind(
        CompositePodGroup,
        "scheduling.k8s.io/v1alpha3",
        "compositepodgroups",
        namespaced=True,
        optional=True,
    ),
    _pod_groups(SchedulerPluginsPodGroup, "scheduling.x-k8s.io/v1alpha1"),
    _pod_groups(VolcanoPodGroup, "scheduling.volcano.sh/v1beta1"),
    Kind(HyperNode, "topology.volcano.sh/v1alpha1", "hypernodes", namespaced=False, optional=True),
    _pod_groups(KaiPodGroup, "scheduling.run.ai/v2alpha2"),
    Kind(
        KaiTopology,
        "kai.scheduler/v1alpha1",
        "topologies",
        namespaced=False,
        optional=True,
        served_as="Topology",
    ),
    Kind(VolcanoJob, "batch.volcano.sh/v1alpha1", "jobs", namespaced=True, optional=True, served_as="Job"),
    Kind(Queue, API_VERSION, "queues", namespaced=False),
    Kind(Topology, API_VERSION, "topologies", namespaced=False),
)

_DEVICES = (
    Kind(ResourceClaim, "resource.k8s.io/v1", "resourceclaims", namespaced=True, optional=True),
    Kind(DeviceClass, "resource.k8s.io/v1", "deviceclasses", namespaced=False, optional=True),
    Kind(ResourceSlice, "resource.k8s.io/v1", "resourceslices", namespaced=False, optional=True),
    Kind(DeviceTaintRule, "resource.k8s.io/v1", "devicetaintrules", namespaced=False, optional=True),
)

_STORAGE = (
    Kind(CSIDriver, "storage.k8s.io/v1", "csidrivers", namespaced=False),
    Kind(CSINode, "storage.k8s.io/v1", "csinodes", namespaced=False),
    Kind(CSIStorageCapacity, "storage.k8s.io/v1", "csistoragecapacities", namespaced=True),
    Kind(VolumeAttachment, "storage.k8s.io/v1", "volumeattachments", namespaced=False),
)

_QUEUES = (
    _queues(VolcanoQueue, "scheduling.volcano.sh/v1beta1"),
    _queues(KaiQueue, "scheduling.run.ai/v2"),
)


def _kind_of_workload(kind: WorkloadKind) -> Kind:
    return Kind(
        WorkloadObject,
        kind.api_version,
        kind.plural,
        namespaced=True,
        optional=True,
        served_as=kind.kind,
        workload=kind.name,
    )


_WORKLOADS = tuple(_kind_of_workload(kind) for kind in WORKLOADS.values())

KINDS: Final = {kind.name: kind for kind in (*_ALL, *_DEVICES, *_STORAGE, *_QUEUES, *_WORKLOADS)}
"""Kind name -> Kind."""

OWN_KINDS: Final = (core.Lease.__name__, ConfigMap.__name__)
"""Kinds of which the scheduler reads one object each, of its own."""

WATCHED_KINDS: Final = tuple(kind.name for kind in _ALL if kind.name not in OWN_KINDS)
"""The kinds that are always listed and watched, in any order."""

DEVICE_KINDS: Final = tuple(kind.name for kind in _DEVICES)
"""What is watched once a pod that is not refused has claims to devices."""

STORAGE_KINDS: Final = tuple(kind.name for kind in _STORAGE)
"""What is watched once a claim has a volume of a driver, or will get one."""

QUEUE_KINDS: Final = tuple(kind.name for kind in _QUEUES)
"""The queues of other projects, which are watched where the configuration says so."""

OF_STATUSES: Final = frozenset({VolcanoJob.__name__})
"""Kinds that are watched to write the status of others. No decision depends on them."""

READ_KINDS: Final = (*WATCHED_KINDS, *DEVICE_KINDS, *STORAGE_KINDS, *QUEUE_KINDS, *WORKLOADS)
"""These, those of devices and storage, queues of other projects, and the kinds that are watched when pods are
owned by objects of them."""


def kind_name(item: KubeObject) -> str:
    """The name of the kind of an object, as in KINDS."""
    return item.kind_name if isinstance(item, WorkloadObject) else type(item).__name__


def kind_named(name: str, workloads: WorkloadKinds) -> Kind:
    """The kind of this name, of which a configuration may have more workloads than KINDS."""
    return KINDS.get(name) or _kind_of_workload(workloads.by_name[name])
