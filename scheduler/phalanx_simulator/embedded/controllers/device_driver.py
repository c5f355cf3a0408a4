"""A driver of Dynamic Resource Allocation: publishes the devices of each node in ResourceSlices.

Each node has a pool of two slices. A change is a new generation, written slice by slice, so that the pool is
incomplete in between. Annotations of a node say what the driver publishes there.
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.controllers.resource_claims import GROUP, SLICES
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.embedded.work_queue import WorkQueue

SIM_SLICE_PUBLISHED_S: Final = 1.0
"""Seconds between two slices of a pool that a driver writes: in between the pool is incomplete."""

DEVICES: Final = "sim.phalanx.dev/devices"
"""Annotation of a node: the number of devices that are published; by default all."""
TAINTED_DEVICES: Final = "sim.phalanx.dev/tainted-devices"
"""Annotation of a node: the number of devices, from the first, with a taint that prevents allocation."""
DRIVER_STOPPED: Final = "sim.phalanx.dev/driver-stopped"
"""Annotation of a node: its slices are withdrawn while it has this, and kubelets cannot prepare claims."""
IN_SHARES: Final = "sim.phalanx.dev/devices-in-shares"
"""Annotation of a node: several claims can have each of its devices."""
BANDWIDTH: Final = "bandwidth"
"""The capacity of such a device: a share consumes half of it by default."""
_IN_SHARES: Final = {
    "allowMultipleAllocations": True,
    "capacity": {BANDWIDTH: {"value": "100", "requestPolicy": {"default": "50"}}},
}
_SLICES: Final = 2
_TAINT: Final = {"key": "sim.phalanx.dev/broken", "effect": "NoSchedule"}

Devices = tuple[Object, ...]


class DeviceDriver:
    """Publishes `count` devices of each node, of one driver."""

    def __init__(
        self, client: Client, *, driver: str, count: int, fields: Mapping[str, object] = MappingProxyType({})
    ) -> None:
        """`fields`: more fields of each device."""
        self._client = client
        self._driver = driver
        self._count = count
        self._fields = fields
        self._written: dict[str, tuple[str, Devices | None]] = {}
        """By node, its UID and what was published last; None for no slices."""
        self._generations: dict[str, int] = {}
        self._queue = WorkQueue(self._sync)
        self._queue.follow(client, "nodes")

    def close(self) -> None:
        """Publish nothing more."""
        self._queue.close()

    def _sync(self, key: Key) -> None:
        node = self._client.get(key)
        if node is None:
            self._written.pop(key.name, None)
            self._withdraw(key.name)
            return
        wanted = (node["metadata"]["uid"], self._devices_of(node))
        if self._written.get(key.name) == wanted:
            return
        self._written[key.name] = wanted
        generation = self._generations[key.name] = self._generations.get(key.name, 0) + 1
        if wanted[1] is None:
            self._withdraw(key.name)
            return
        for part in range(_SLICES):
            write = partial(self._write, node, generation, part, wanted[1][part::_SLICES])
            self._queue.call_later(part * SIM_SLICE_PUBLISHED_S, write)

    def _devices_of(self, node: Object) -> Devices | None:
        annotations = node["metadata"].get("annotations") or {}
        if DRIVER_STOPPED in annotations:
            return None
        count, tainted = int(annotations.get(DEVICES, self._count)), int(annotations.get(TAINTED_DEVICES, 0))
        more = _IN_SHARES if IN_SHARES in annotations else {}
        return tuple(
            {
                "name": f"device-{number}",
                **self._fields,
                **more,
                **({"taints": [_TAINT]} if number < tainted else {}),
            }
            for number in range(count)
        )

    def _write(self, node: Object, generation: int, part: int, devices: Devices) -> None:
        name = node["metadata"]["name"]
        if self._generations.get(name) != generation or name not in self._written:
            return
        pool = {"name": name, "generation": generation, "resourceSliceCount": _SLICES}
        spec = {"driver": self._driver, "nodeName": name, "pool": pool, "devices": list(devices)}
        key = Key(SLICES, "", f"{name}-{part}")
        if self._client.get(key) is not None:
            self._client.update(key, lambda item: {**item, "spec": spec})
            return
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
        self._client.create(
            SLICES,
            "",
            {
                "apiVersion": f"{GROUP}/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": key.name, "ownerReferences": [{**owner, "controller": True}]},
                "spec": spec,
            },
        )

    def _withdraw(self, name: str) -> None:
        for part in range(_SLICES):
            key = Key(SLICES, "", f"{name}-{part}")
            found = self._client.get(key)
            if found is not None:
                self._client.delete(key, uid=found["metadata"]["uid"])
