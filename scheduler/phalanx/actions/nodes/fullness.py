"""How full nodes are, to pack small gangs onto full nodes and keep large free blocks."""

from phalanx.framework.session import Session
from phalanx.model.names import NodeName
from phalanx.model.resources import CPU, MEMORY, Resources
from phalanx.model.supplies.gpu_shares.devices import (
    GPU_MEMORY,
    GPU_SHARE,
    WHOLE_DEVICE,
    is_device,
    requests_share,
)

Vector = tuple[int, ...]


class Fullness:
    """Keys of nodes; the fullest has the smallest. Devices count first: other pods avoid device nodes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[NodeName, tuple[Resources, Vector]] = {}

    def of(self, node: NodeName) -> Vector:
        """Free devices of all kinds, then cores, then memory."""
        free = self._session.free(node)
        known = self._known.get(node)
        if known is None or known[0] is not free:
            known = (free, _vector(free))
            self._known[node] = known
        return known[1]


def _vector(free: Resources) -> Vector:
    return (devices_of(free), free.get(CPU, 0), free.get(MEMORY, 0))


def devices_of(amounts: Resources) -> int:
    """The number of devices of all kinds; MIG devices count as whole ones."""
    devices = sum(amount for name, amount in amounts.items() if "/" in name)
    if requests_share(amounts):
        devices += _shared(amounts) - amounts.get(GPU_SHARE, 0) - amounts.get(GPU_MEMORY, 0)
    return devices


def _shared(free: Resources) -> int:
    """The free part of shared devices, in whole devices, rounded up."""
    return -(-sum(amount for name, amount in free.items() if is_device(name)) // WHOLE_DEVICE)
