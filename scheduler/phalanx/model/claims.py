"""Claims of placed pods that are not bound to a volume yet."""

from msgspec import Struct


class UnboundClaim(Struct, frozen=True):
    """A PersistentVolumeClaim that must be bound before its pod."""

    namespace: str
    name: str
    uid: str
    selected_node: str = ""
    """The node for which a provisioner was asked for the volume, as last seen."""
    needs_node: bool = True
    """Whether a provisioner waits for the node. False once the claim names a volume."""
    failure: str = ""
    """Why it cannot be bound."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
