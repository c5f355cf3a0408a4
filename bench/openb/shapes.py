"""What a pod asks for and what a node has. Cores and devices in thousandths, memory in bytes."""

from msgspec import Struct
from phalanx.model.gpu_shares import WHOLE_DEVICE


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
        return self.gpus == 1 and self.milli < WHOLE_DEVICE

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
