"""The cluster and the gangs of a run."""

from typing import Any

from msgspec import Struct

from bench.harness.gangs import Gang, Role
from phalanx.controlplane.fakes import fake_node

NODE_CORES = 32


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


def gangs(workload: Workload) -> list[Gang]:
    """All alike."""
    role = Role("worker", workload.size, {"cpu": str(workload.cpu), "memory": "1Gi"})
    return [Gang(f"gang-{g:05d}", (role,)) for g in range(workload.gangs)]
