"""Registry of the kinds that Phalanx reads: those of the core, and those that modules of structs declare."""

from typing import Final

from phalanx.model.api import (
    config_maps,
    core,
    kai,
    native_pod_groups,
    node_topologies,
    pod_groups,
    queues,
    scheduler_plugins,
    storage,
    volcano,
)
from phalanx.model.api.kind import Kind, Watched
from phalanx.model.api.meta import KubeObject
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.supplies.devices import api as devices
from phalanx.model.workloads.kind import WorkloadKind
from phalanx.model.workloads.known import WORKLOADS, WorkloadKinds

_CORE: Final = (
    Kind(core.Pod, "v1", "pods", namespaced=True),
    Kind(core.Node, "v1", "nodes", namespaced=False),
    Kind(core.Namespace, "v1", "namespaces", namespaced=False),
    Kind(core.PersistentVolumeClaim, "v1", "persistentvolumeclaims", namespaced=True),
    Kind(core.PersistentVolume, "v1", "persistentvolumes", namespaced=False),
    Kind(core.PriorityClass, "scheduling.k8s.io/v1", "priorityclasses", namespaced=False),
    Kind(core.PodDisruptionBudget, "policy/v1", "poddisruptionbudgets", namespaced=True),
    Kind(core.StorageClass, "storage.k8s.io/v1", "storageclasses", namespaced=False),
    Kind(core.Lease, "coordination.k8s.io/v1", "leases", namespaced=True, watched=Watched.NEVER),
)
_DECLARED: Final = (
    *_CORE,
    *config_maps.KINDS,
    *node_topologies.KINDS,
    *pod_groups.KINDS,
    *native_pod_groups.KINDS,
    *scheduler_plugins.KINDS,
    *volcano.KINDS,
    *kai.KINDS,
    *queues.KINDS,
    *devices.KINDS,
    *storage.KINDS,
)


def kind_of_workload(kind: WorkloadKind) -> Kind:
    """The kind in the API of a kind of workloads."""
    return Kind(
        WorkloadObject,
        kind.api_version,
        kind.plural,
        namespaced=True,
        optional=True,
        served_as=kind.kind,
        workload=kind.name,
    )


KINDS: Final = {kind.name: kind for kind in (*_DECLARED, *map(kind_of_workload, WORKLOADS.values()))}
"""Kind name -> Kind."""


def _names(*watched: Watched) -> tuple[str, ...]:
    return tuple(kind.name for kind in _DECLARED if kind.watched in watched)


WATCHED_KINDS: Final = _names(Watched.ALWAYS, Watched.FOR_STATUSES)
DEVICE_KINDS: Final = _names(Watched.FOR_DEVICES)
STORAGE_KINDS: Final = _names(Watched.FOR_STORAGE)
QUEUE_KINDS: Final = _names(Watched.IF_CONFIGURED)
OF_STATUSES: Final = _names(Watched.FOR_STATUSES)

READ_KINDS: Final = (*WATCHED_KINDS, *DEVICE_KINDS, *STORAGE_KINDS, *QUEUE_KINDS, *WORKLOADS)
"""These, those of devices and storage, queues of other projects, and the kinds that are watched when pods are
owned by objects of them."""


def kind_name(item: KubeObject) -> str:
    return item.kind_name if isinstance(item, WorkloadObject) else type(item).__name__


def kind_named(name: str, workloads: WorkloadKinds) -> Kind:
    """The kind of this name, of which a configuration may have more workloads than KINDS."""
    return KINDS.get(name) or kind_of_workload(workloads.by_name[name])
