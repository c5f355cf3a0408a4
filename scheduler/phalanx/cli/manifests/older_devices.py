"""Objects of Dynamic Resource Allocation in older versions of their API, as objects of `resource.k8s.io/v1`.

The API server serves all versions of one object. A request for one kind of devices stands in `exactly`
since v1beta2, and the properties of a device stood in `basic` before.
"""

from collections.abc import Mapping
from typing import Any, Final

from phalanx.cli.manifests.documents import Document
from phalanx.model.api.devices import DeviceClass, ResourceClaim, ResourceSlice

_GROUP: Final = "resource.k8s.io"
_KINDS: Final = tuple(struct.__name__ for struct in (DeviceClass, ResourceClaim, ResourceSlice))
_FLAT: Final = ("v1beta1", "v1alpha3")
"""Versions in which the fields of `exactly` and of `basic` stand elsewhere."""

_OLDER: Final = ("v1beta2", *_FLAT)


def as_current(document: Document) -> Document:
    """The document in v1 if it is such an object in an older version, else the same."""
    group, _, version = document.api_version.rpartition("/")
    if group != _GROUP or document.kind not in _KINDS or version not in _OLDER:
        return document
    value = {**document.value, "apiVersion": f"{_GROUP}/v1"}
    spec = value.get("spec")
    if version in _FLAT and isinstance(spec, Mapping):
        value["spec"] = _with_nested_requests(_with_plain_devices(spec))
    return Document(document.source, document.place, value)


def _with_nested_requests(spec: Mapping[str, Any]) -> dict[str, Any]:
    devices = spec.get("devices")
    if not isinstance(devices, Mapping) or not isinstance(devices.get("requests"), list):
        return dict(spec)
    return {**spec, "devices": {**devices, "requests": [_nested(each) for each in devices["requests"]]}}


def _nested(request: object) -> object:
    if not isinstance(request, Mapping) or "firstAvailable" in request or "exactly" in request:
        return request
    exactly = {field: value for field, value in request.items() if field != "name"}
    return {**({"name": request["name"]} if "name" in request else {}), "exactly": exactly}


def _with_plain_devices(spec: Mapping[str, Any]) -> dict[str, Any]:
    devices = spec.get("devices")
    return (
        {**spec, "devices": [_plain(each) for each in devices]} if isinstance(devices, list) else dict(spec)
    )


def _plain(device: object) -> object:
    basic = device.get("basic") if isinstance(device, Mapping) else None
    if not isinstance(device, Mapping) or not isinstance(basic, Mapping):
        return device
    plain = {field: value for field, value in {**device, **basic}.items() if field != "basic"}
    if isinstance(plain.get("capacity"), Mapping):
        plain["capacity"] = {name: _capacity(amount) for name, amount in plain["capacity"].items()}
    return plain


def _capacity(amount: object) -> object:
    """An amount of v1alpha3 is the quantity itself."""
    return amount if isinstance(amount, Mapping) else {"value": amount}
