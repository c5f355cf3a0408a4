"""What was read of an installation: the input of all checks."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from phalanx.model.api.core import Lease, Namespace, Node, Pod, PodDisruptionBudget, PriorityClass
from phalanx.model.api.pod_groups import PodGroup
from phalanx.model.api.queues import Queue, Topology
from phalanx.model.api.values import parse_time

Values = Mapping[str, Any]
"""An object as plain values."""

_PLACES: Final = ("kubernetes.io/", "k8s.io/")
_CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"


class Right(Struct, frozen=True, order=True):
    """A right that `deploy/base` grants to the scheduler."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""


class Installation(Struct, frozen=True, kw_only=True):
    """Everything that the checks look at. A check is left out if a field that it needs was not read."""

    scheduler_name: str = "phalanx"
    namespace: str = "phalanx-system"
    service_account: str = "phalanx"
    lease_name: str = "phalanx"
    server_ms: int = 0
    """The time of the API server, in whole seconds."""
    local_ms: int = 0
    """The time of this machine then."""
    packaged_crds: tuple[Values, ...] = ()
    crds: tuple[Values, ...] = ()
    rights: Mapping[Right, bool] = {}
    """Whether the scheduler has each right."""
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    queues: tuple[Queue, ...] = ()
    topologies: tuple[Topology, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    priority_classes: tuple[PriorityClass, ...] = ()
    pod_groups: tuple[PodGroup, ...] = ()
    budgets: tuple[PodDisruptionBudget, ...] = ()
    lease: Lease | None = None
    node_leases: tuple[Lease, ...] = ()
    webhooks: tuple[Values, ...] = ()
    """Mutating and validating webhook configurations."""
    endpoint_slices: tuple[Values, ...] = ()
    jobs: tuple[Values, ...] = ()
    events: tuple[Values, ...] = ()
    """Those of the scheduler that a check reads."""
    unread: Mapping[str, str] = {}
    """By field, why it was not read."""

    def seconds_since(self, written: str | None) -> float | None:
        """The seconds from this time of the API to now; None without a time. Negative if it is to come."""
        time = parse_time(written or "")
        return self.server_ms / 1000 - time.timestamp() if time is not None else None

    def is_ours(self, pod: Pod) -> bool:
        """Whether the pod is for this scheduler and has not ended."""
        return pod.spec.scheduler_name == self.scheduler_name and is_active(pod)


def is_active(pod: Pod) -> bool:
    """Whether the pod has not ended."""
    return pod.status.phase not in ("Succeeded", "Failed")


def devices(amounts: Mapping[str, Any]) -> frozenset[str]:
    """The extended resources of which there is something, such as nvidia.com/gpu."""
    return frozenset(
        name
        for name, amount in amounts.items()
        if "/" in name and not name.startswith(_PLACES) and str(amount) != "0"
    )


def work_nodes(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """The nodes with devices; in a cluster without devices, all nodes but those of the control plane."""
    with_devices = tuple(node for node in nodes if devices(node.status.allocatable))
    workers = tuple(node for node in nodes if _CONTROL_PLANE not in node.metadata.labels)
    return with_devices or workers or nodes


def requested_devices(pod: Pod) -> frozenset[str]:
    """The devices that the pod requests; a limit counts as a request."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    resources = (*(each.resources for each in containers), pod.spec.resources)
    return frozenset().union(
        *(devices(each.requests) | devices(each.limits) for each in resources if each is not None)
    )
