"""Builders of devices, slices, classes and claims for tests, through the conversion of API objects."""

from typing import Any

import msgspec
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node
from phalanx.model.supplies.devices import api
from phalanx.model.supplies.devices.allocator import Answer, NodeDevices, allocate
from phalanx.model.supplies.devices.claims import Claim, ClaimSpec, DeviceClass
from phalanx.model.supplies.devices.matching import Matcher
from phalanx.model.supplies.devices.pools import Inventory, Slice
from phalanx.model.supplies.devices.read import read_device_class, read_resource_claim, read_slice

DRIVER = "gpu.example.com"
MATCHER = Matcher()


def device(name: str, **attributes: str | int | bool) -> dict[str, Any]:
    """A device with these attributes; `__` in a name is the slash behind a domain."""
    kinds = {str: "string", bool: "bool", int: "int"}
    return {
        "name": name,
        "attributes": {
            each.replace("__", "/").replace("_", "."): {kinds[type(value)]: value}
            for each, value in attributes.items()
        },
    }


def slice_of(*devices: dict[str, Any], name: str = "s", **spec: Any) -> Slice:
    """A slice of the node "n", alone in its pool."""
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1, **spec.pop("pool", {})}
    where = {} if {"allNodes", "nodeSelector", "perDeviceNodeSelection"} & spec.keys() else {"nodeName": "n"}
    written = {
        "metadata": {"name": name},
        "spec": {"driver": DRIVER, "pool": pool, "devices": list(devices), **where, **spec},
    }
    return read_slice(msgspec.convert(written, api.ResourceSlice))


def class_of(name: str, *expressions: str) -> DeviceClass:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    written = {"metadata": {"name": name}, "spec": {"selectors": selectors}}
    return read_device_class(msgspec.convert(written, api.DeviceClass))


def request(name: str = "r", *expressions: str, device_class: str = "gpu", **more: Any) -> dict[str, Any]:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    return {"name": name, "exactly": {"deviceClassName": device_class, "selectors": selectors, **more}}


def claim_of(*requests: dict[str, Any], **more: Any) -> Claim:
    status = more.pop("status", {})
    written = {
        "metadata": {"name": "c", "namespace": "default", "uid": "uid-c"},
        "spec": {"devices": {"requests": list(requests), **more}},
        "status": status,
    }
    return read_resource_claim(msgspec.convert(written, api.ResourceClaim))


def spec_of(*requests: dict[str, Any], **more: Any) -> ClaimSpec:
    return claim_of(*requests, **more).spec


def node(name: str = "n", **labels: str) -> Node:
    return Node(name=NodeName(name), uid=name, labels=labels)


CLASSES = {each.name: each for each in (class_of("gpu"), class_of("nic", 'device.driver == "nic"'))}


def place(*slices: Slice, in_use: frozenset[tuple[str, str, str]] = frozenset()) -> NodeDevices:
    return NodeDevices(node(), Inventory(slices).pools(node()), in_use)


def allocated(
    where: NodeDevices, *claims: ClaimSpec, classes: dict[str, DeviceClass] = CLASSES
) -> tuple[tuple[str, ...], ...]:
    """The names of the allocated devices, by claim."""
    answer = answered(where, *claims, classes=classes)
    assert answer.claims is not None, answer
    return tuple(tuple(each.device[2] for each in claim) for claim in answer.claims)


def answered(where: NodeDevices, *claims: ClaimSpec, classes: dict[str, DeviceClass] = CLASSES) -> Answer:
    return allocate(where, claims, classes=classes, matcher=MATCHER)
