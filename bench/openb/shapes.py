"""Requests of pods and capacities of nodes. Cores and devices in thousandths, memory in bytes."""

from msgspec import Struct
from phalanx.model.supplies.gpu_shares.devices import WHOLE_DEVICE


class Shape(Struct, frozen=True, order=True):
    """Interchangeable pods: `gpus` devices with `milli` thousandths of each; a share is always on one device.

    `models` are the allowed device models, sorted; empty means any.
    """

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: tuple[str, ...] = ()

    @property
    def demand(self) -> int:
        """The total request in thousandths of devices."""
        return self.gpus * self.milli

    @property
    def share(self) -> bool:
        """Whether the pod requests a share of one device."""
        return self.gpus == 1 and self.milli < WHOLE_DEVICE

    def admits(self, model: str) -> bool:
        """Whether this device model is allowed."""
        return not self.models or model in self.models


class Machine(Struct, frozen=True):
    """The capacity of a node."""

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str
