"""The cluster and the settings of a run: nodes, queues, configuration of the scheduler."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Pool(Struct, frozen=True):
    """Equal nodes. `racks`: over how many racks they are spread in order, 0 for none."""

    name: str
    nodes: int
    gpus: int = 8
    cpu_milli: int = 64_000
    memory_mib: int = 512 << 10
    model: str = ""
    racks: int = 0

    @property
    def total_gpus(self) -> int:
        """GPUs of all its nodes."""
        return self.nodes * self.gpus


class QueueSetup(Struct, frozen=True):
    """A tenant's queue: GPUs that it is guaranteed, its weight, and further fields of the Queue's spec."""

    guarantee: int
    weight: int
    spec: Mapping[str, Any] = {}


class Setup(Struct, frozen=True):
    """What a run is played on. `config`: keys of the configuration file that differ from the defaults.

    `topology`: the topology request of the PodGroups of all jobs with several pods.
    """

    pools: tuple[Pool, ...]
    queues: dict[str, QueueSetup]
    config: Mapping[str, Any] = {}
    topology: Mapping[str, Any] = {}

    @property
    def gpus(self) -> int:
        """GPUs of all nodes."""
        return sum(pool.total_gpus for pool in self.pools)

    @property
    def tenancy(self) -> "Tenancy":
        """What the accounts need of it."""
        return Tenancy(
            self.gpus,
            {name: queue.guarantee for name, queue in self.queues.items()},
            {name: queue.weight for name, queue in self.queues.items()},
        )


class Tenancy(Struct, frozen=True):
    """All GPUs, and by tenant the guaranteed GPUs and the weight."""

    gpus: int
    guarantees: dict[str, int]
    weights: dict[str, int]
