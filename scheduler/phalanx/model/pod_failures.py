"""Why pods fail."""

from enum import StrEnum

from msgspec import Struct


class FailedContainer(Struct, frozen=True, gc=False):
    """The first container of a failed pod that ended with an error."""

    name: str
    exit_code: int
    reason: str = ""
    """What the kubelet says of it, such as OOMKilled."""
    is_init: bool = False

    def __str__(self) -> str:
        cause = f" ({self.reason})" if self.reason not in ("", "Error") else ""
        return f"container {self.name} ended with exit code {self.exit_code}{cause}"


class PodFailure(StrEnum):
    """Why a pod failed. docs/faults.md has a table of the causes."""

    REJECTED = "Rejected"
    """Its kubelet did not admit it: the pod did not fit there, or was not allowed there."""
    NOT_PREPARED = "NotPrepared"
    """Its kubelet could not give it what the node has."""
    NODE_LOST = "NodeLost"
    """Its node was lost, shut down or short of a resource."""
    NODE_CLEARED = "NodeCleared"
    """A taint or the deletion of its node removed it."""
    DISRUPTED = "Disrupted"
    """Somebody decided that it ends: preemption, a drain."""
    INIT_CONTAINER = "InitContainerFailed"
    CONTAINER = "ContainerFailed"
    """It failed by itself, also by using more than its limit."""

    @property
    def is_of_node(self) -> bool:
        """Whether the node did it, so that it counts for all workloads."""
        return self in (PodFailure.NODE_LOST, PodFailure.NOT_PREPARED)

    @property
    def is_node_loss(self) -> bool:
        """Whether its gang recovers from it as from the loss of a node."""
        return self in (PodFailure.NODE_LOST, PodFailure.NODE_CLEARED, PodFailure.DISRUPTED)

    @property
    def is_rejection(self) -> bool:
        """Whether it never ran."""
        return self in (PodFailure.REJECTED, PodFailure.NOT_PREPARED)
