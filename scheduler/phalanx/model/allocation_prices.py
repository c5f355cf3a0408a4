"""What a node costs by how much of it is allocated: arguments of the plugin that says so."""

from itertools import pairwise
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

Weight = Annotated[int, Meta(ge=0, le=1000)]


class PricedResource(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A resource that counts, as in `resources` of a scoring strategy of kube-scheduler."""

    name: Annotated[str, Meta(min_length=1)]
    """The resource."""
    weight: Annotated[int, Meta(ge=1, le=100)] = 1
    """What it counts beside the others."""


class ShapePoint(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A point of the function from utilization to score, which is linear in between."""

    utilization: Annotated[int, Meta(ge=0, le=100)]
    """Per cent of the node that are allocated with the pod."""
    score: Annotated[int, Meta(ge=0, le=10)]
    """0 for the worst node, 10 for the best one."""


CPU_AND_MEMORY: Final = (PricedResource("cpu"), PricedResource("memory"))


class AllocationPrices(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Prices of nodes by what the pods of the cluster request of them now, and by the requests of the pod."""

    strategy: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    """Which nodes are the best: the emptiest, the fullest, or those that `shape` says."""
    weight: Weight = 0
    """What 100 points of the score of this strategy are worth."""
    resources: Annotated[tuple[PricedResource, ...], Meta(min_length=1)] = CPU_AND_MEMORY
    """The resources that count for the strategy."""
    shape: tuple[ShapePoint, ...] = ()
    """The function of RequestedToCapacityRatio, by growing utilization."""
    balanced_weight: Weight = 0
    """What 100 points of the score for an even allocation are worth; scores are 50 to 100."""
    balanced_resources: Annotated[tuple[str, ...], Meta(min_length=1)] = ("cpu", "memory")
    """The resources that are to be allocated evenly."""

    def __post_init__(self) -> None:
        if (self.strategy == "RequestedToCapacityRatio") != bool(self.shape):
            raise ValueError("shape is for strategy RequestedToCapacityRatio, which needs it")
        utilizations = [point.utilization for point in self.shape]
        if any(first >= second for first, second in pairwise(utilizations)):
            raise ValueError("shape has utilizations that do not grow")
        for names in ([each.name for each in self.resources], self.balanced_resources):
            if len(set(names)) < len(names):
                raise ValueError("a resource is named twice")

    @property
    def are_set(self) -> bool:
        return bool(self.weight or self.balanced_weight)
