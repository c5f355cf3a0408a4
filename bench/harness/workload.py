"""The cluster and the pods of a run, as plain manifests."""

from typing import Any

import yaml
from msgspec import Struct

from phalanx.controlplane.fakes import fake_node
from phalanx.resources import data_dir

NAMESPACE = "bench"
LEASE_NAMESPACE = "phalanx-system"
POD_GROUPS_PATH = "/apis/scheduling.phalanx.dev/v1alpha1/podgroups"
NODE_CORES = 32
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"


class Workload(Struct, frozen=True):
    """`gangs` gangs of `size` pods with `cpu` cores each, on `nodes` nodes of 32 cores in racks of 16."""

    nodes: int = 1000
    gangs: int = 100
    size: int = 100
    cpu: int = 1

    @property
    def pods(self) -> int:
        """How many pods there are."""
        return self.gangs * self.size


def crds() -> list[dict[str, Any]]:
    """The definitions of our kinds."""
    return [yaml.safe_load(path.read_text()) for path in sorted(data_dir("crds").glob("*s.yaml"))]


def nodes(workload: Workload) -> list[dict[str, Any]]:
    """Nodes that differ as real ones do: own hostname, uneven memory."""
    return [
        fake_node(
            f"node-{i:05d}",
            labels={
                "topology.kubernetes.io/zone": f"zone-{i // 512}",
                "cloud.provider.com/topology-rack": f"rack-{i // 16}",
            },
            allocatable={"cpu": str(NODE_CORES), "memory": f"{256 * 1024**2 - 4 * (i % 97)}Ki"},
        )
        for i in range(workload.nodes)
    ]


def pod_groups(workload: Workload) -> list[dict[str, Any]]:
    """One PodGroup per gang: all of its pods or none."""
    return [
        {
            "apiVersion": "scheduling.phalanx.dev/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": f"gang-{g:05d}", "namespace": NAMESPACE},
            "spec": {"minMember": workload.size},
        }
        for g in range(workload.gangs)
    ]


def pods(workload: Workload, *, scheduler: str, grouped: bool) -> list[dict[str, Any]]:
    """All pods, gang by gang; `grouped` puts the label of the PodGroup on them."""
    return [
        _pod(workload, gang=g, index=i, scheduler=scheduler, grouped=grouped)
        for g in range(workload.gangs)
        for i in range(workload.size)
    ]


def _pod(workload: Workload, *, gang: int, index: int, scheduler: str, grouped: bool) -> dict[str, Any]:
    labels = {"scheduling.phalanx.dev/pod-group": f"gang-{gang:05d}"} if grouped else {}
    requests = {"cpu": str(workload.cpu), "memory": "1Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{gang:05d}-{index:04d}", "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}],
        },
    }
