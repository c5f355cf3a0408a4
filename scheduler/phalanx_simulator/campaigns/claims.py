"""Volumes and devices of a simulated cluster, and the jobs that claim them.

Each node has space for provisioned volumes, a few local volumes, and devices of a driver. Each block has
channels, which all its nodes can use. Every claim is of a gang's member, except that of a channel, which all
members share. The devices of nodes also satisfy an extended resource, which no node offers.
"""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any, Final

from phalanx.clock import Random

from phalanx_simulator.embedded.controllers.device_driver import BANDWIDTH, IN_SHARES
from phalanx_simulator.embedded.controllers.resource_claims import GROUP
from phalanx_simulator.embedded.provisioned_volumes import on_host
from phalanx_simulator.embedded.store import Object

DISK_DRIVER: Final = "disk.sim.example"
DEVICE_DRIVER: Final = "nic.sim.example"
CHANNEL_DRIVER: Final = "channel.sim.example"
PROVISIONED: Final = "provisioned"
LOCAL: Final = "local"
SPACE_GIB: Final = 120
"""On each node: enough for eight small volumes, not for eight large ones."""
EXTENDED: Final = "sim.example/nic"
"""The extended resource that devices satisfy."""
DEVICES: Final = 6
"""On each node: fewer than the pods that its GPUs allow."""
PROVISIONING_S: Final = 2.0
PREPARING_S: Final = 4.0
"""For a device with binding conditions, in runs whose drivers prepare devices."""

_CHANNELS: Final = 3
_LANES: Final = "lanes"
"""The capacity of a channel that is allocated in shares."""
_SIZES: Final = ("5Gi", "10Gi", "30Gi")
_LOCAL_SIZES: Final = ("10Gi", "30Gi", "30Gi", "30Gi")
"""Of the local volumes of a node."""
_NIC: Final = "nic"
_CHANNEL: Final = "channel"
_TEMPLATE: Final = "one-nic"
_API: Final = f"{GROUP}/v1"

_REQUESTED: Final = (
    *((),) * 4,
    ("volume",),
    ("volume",),
    ("local",),
    ("device",),
    ("device",),
    ("channel",),
    ("extended",),
    ("extended",),
    ("volume", "device"),
    ("volume", "extended"),
    ("local", "channel"),
)
"""What a job claims; one of them is drawn."""
_COUNTS: Final = ("1", "1", "2")
"""Devices for which a pod requests the extended resource."""


def manifests(nodes: Iterable[Object], *, block: str) -> Iterator[Object]:
    """Classes, local volumes, and the slices of channels; `block` is the node label of blocks."""
    for name, driver in ((PROVISIONED, DISK_DRIVER), (LOCAL, "kubernetes.io/no-provisioner")):
        yield {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": driver,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    yield {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": DISK_DRIVER},
        "spec": {"storageCapacity": True},
    }
    blocks: dict[str, None] = {}
    for node in nodes:
        meta = node["metadata"]
        blocks[meta["labels"][block]] = None
        for number, size in enumerate(_LOCAL_SIZES):
            yield _local_volume(f"{meta['name']}-{number}", meta["name"], size)
    for name, driver in ((_NIC, DEVICE_DRIVER), (_CHANNEL, CHANNEL_DRIVER)):
        selectors = [{"cel": {"expression": f'device.driver == "{driver}"'}}]
        extended = {"extendedResourceName": EXTENDED} if name == _NIC else {}
        yield _device_object("DeviceClass", name, {"selectors": selectors, **extended}, namespace="")
    yield _device_object("ResourceClaimTemplate", _TEMPLATE, {"spec": _request(_NIC)})
    for name in blocks:
        yield _channels(name, block)


def _local_volume(name: str, host: str, size: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": LOCAL,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": f"/mnt/{name}"},
            "nodeAffinity": on_host(host),
        },
    }


def _device_object(kind: str, name: str, spec: Any, *, namespace: str = "default") -> Object:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": _API, "kind": kind, "metadata": meta, "spec": spec}


def _request(device_class: str) -> Object:
    return {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": device_class}}]}}


def _channels(name: str, label: str) -> Object:
    """The channels of a block."""
    expression = {"key": label, "operator": "In", "values": [name]}
    spec = {
        "driver": CHANNEL_DRIVER,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]},
        "devices": [{"name": f"channel-{number}"} for number in range(_CHANNELS)],
    }
    return _device_object("ResourceSlice", f"channels-{name}", spec, namespace="")


def in_shares(objects: Iterable[Object]) -> Iterator[Object]:
    """The same objects, with devices that are allocated in shares and claims that ask for some of them."""
    for each in objects:
        kind, made = each["kind"], deepcopy(each)
        if kind == "Node":
            made["metadata"].setdefault("annotations", {})[IN_SHARES] = ""
        elif kind == "ResourceSlice":
            for device in made["spec"]["devices"]:
                device |= {"allowMultipleAllocations": True, "capacity": {_LANES: {"value": "5"}}}
        elif kind == "ResourceClaimTemplate":
            _ask_for(made["spec"]["spec"], BANDWIDTH, "30")
        elif kind == "ResourceClaim":
            _ask_for(made["spec"], _LANES, "2")
        yield made


def _ask_for(spec: Object, name: str, amount: str) -> None:
    for each in spec["devices"]["requests"]:
        each["exactly"]["capacity"] = {"requests": {name: amount}}


def with_claims(made: tuple[Object, ...], random: Random) -> tuple[Object, ...]:
    """The manifests of a job, which is the last of them, with what it claims."""
    asked, size, count = random.choice(_REQUESTED), random.choice(_SIZES), random.choice(_COUNTS)
    job = deepcopy(made[-1])
    name, pods = job["metadata"]["name"], job["spec"]["template"]["spec"]
    more: list[Object] = []
    for each in asked:
        if each in ("volume", "local"):
            pods["volumes"] = [_volume(PROVISIONED if each == "volume" else LOCAL, size)]
        elif each == "device":
            pods["resourceClaims"] = [{"name": _NIC, "resourceClaimTemplateName": _TEMPLATE}]
        elif each == "extended":
            for amounts in pods["containers"][0]["resources"].values():
                amounts[EXTENDED] = count
        else:
            pods["resourceClaims"] = [{"name": _CHANNEL, "resourceClaimName": name}]
            more.append(_device_object("ResourceClaim", name, _request(_CHANNEL)))
    return (*made[:-1], *more, job)


def _volume(storage_class: str, size: str) -> Object:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
    }
    return {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
