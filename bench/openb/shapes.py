"""What a pod asks for and what a node has. Cores and devices in thousandths, memory in bytes."""

from msgspec import Struct

WHOLE = 1000
"""One device."""


class Shape(Struct, frozen=True, order=True):
    """Interchangeable pods: `gpus` devices with `milli` thousandths of each; a share is always of one device.

    `models` are the device models that will do, sorted; none means any.
    """

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: tuple[str, ...] = ()

    @property
    def demand(self) -> int:
        """Thousandths of devices in all."""
        return self.gpus * self.milli

    @property
    def share(self) -> bool:
        """True for a part of one device."""
        return self.gpus == 1 and self.milli < WHOLE

    def admits(self, model: str) -> bool:
        """Whether a device of this model will do."""
        return not self.models or model in self.models


class Machine(Struct, frozen=True):
    """One node, empty."""

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str

    @property
    def kind(self) -> "Machine":
        """Its class: all that decides what an empty node takes."""
        return Machine("", self.cpu, self.memory, self.gpus, self.model)

    def takes(self, shape: Shape) -> bool:
        """Whether the pod fits on the node when it is empty."""
        return (
            shape.admits(self.model)
            and shape.cpu <= self.cpu
            and shape.memory <= self.memory
            and shape.gpus <= self.gpus
        )
