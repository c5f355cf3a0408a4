"""The claim for extended resources has the requests and mappings that kube-scheduler 1.37 makes."""

from typing import Any

import msgspec
from phalanx.model.api import core
from phalanx.model.conversion.shapes import read_extended
from phalanx.model.supplies.devices.extended_resources import (
    CLASS_PREFIX,
    ExtendedResourceClaim,
    class_of_resources,
    extended_resource_claim,
    is_extended,
)

GPU, NIC = "example.com/gpu", "example.com/nic"
CLASSES = {GPU: "gpu", NIC: "nic"}


def container(name: str, *, sidecar: bool = False, **amounts: Any) -> dict[str, Any]:
    requests = {{"gpu": GPU, "nic": NIC}.get(key, key): amount for key, amount in amounts.items()}
    more = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": name, "resources": {"requests": requests}, **more}


def claim(*main: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> ExtendedResourceClaim:
    spec = {"containers": main, "initContainers": init}
    asked = read_extended(msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, core.Pod))
    assert asked is not None
    return extended_resource_claim(asked, asked.resources, CLASSES)


def counts(found: ExtendedResourceClaim) -> dict[str, int]:
    return {each.name: each.count for each in found.requests}


def users(found: ExtendedResourceClaim) -> list[tuple[str, str]]:
    return [(each.container, each.request) for each in found.mappings]


def test_each_container_and_resource_has_a_request() -> None:
    found = claim(container("a", cpu=1, nic=1, gpu=2), container("b", gpu=1))
    assert [(each.name, each.device_class, each.count) for each in found.requests] == [
        ("container-0-request-1", "gpu", 2),
        ("container-0-request-2", "nic", 1),
        ("container-1-request-0", "gpu", 1),
    ]
    assert [(each.container, each.resource, each.request) for each in found.mappings] == [
        ("a", GPU, "container-0-request-1"),
        ("b", GPU, "container-1-request-0"),
        ("a", NIC, "container-0-request-2"),
    ]


def test_init_containers_use_the_devices_of_later_containers() -> None:
    found = claim(container("a", gpu=1), container("b", gpu=1), init=(container("i", gpu=2),))
    assert counts(found) == {"container-1-request-0": 1, "container-2-request-0": 1}
    assert users(found) == [
        *(("a", "container-1-request-0"), ("b", "container-2-request-0")),
        *(("i", "container-1-request-0"), ("i", "container-2-request-0")),
    ]


def test_the_largest_init_container_asks_for_all_of_them() -> None:
    found = claim(container("a", gpu=1), init=(container("i", gpu=2), container("j", gpu=4)))
    assert counts(found) == {"container-1-request-0": 3, "container-2-request-0": 1}
    assert users(found) == [
        ("a", "container-2-request-0"),
        *(("i", "container-2-request-0"), ("i", "container-1-request-0")),
        *(("j", "container-2-request-0"), ("j", "container-1-request-0")),
    ]


def test_an_earlier_sidecar_keeps_its_devices() -> None:
    found = claim(container("a", cpu=1), init=(container("s", gpu=1, sidecar=True), container("i", gpu=1)))
    assert counts(found) == {"container-0-request-0": 1, "container-1-request-0": 1}


def test_limits_are_requests_and_zeros_are_none() -> None:
    written = {"name": "a", "resources": {"limits": {GPU: 2, "cpu": 1}, "requests": {NIC: 0}}}
    found = claim(written)
    assert counts(found) == {"container-0-request-1": 2}


def test_names_of_extended_resources() -> None:
    assert all(map(is_extended, (GPU, f"{CLASS_PREFIX}gpu")))
    others = ("cpu", "hugepages-2Mi", "kubernetes.io/x", "a.kubernetes.io/b", "requests.example.com/gpu")
    assert not any(map(is_extended, others))


def test_the_newest_class_has_the_resource() -> None:
    found = class_of_resources([("old", GPU, 1), ("b", GPU, 2), ("a", GPU, 2), ("none", "", 3)])
    prefixed = {f"{CLASS_PREFIX}{name}": name for name in ("a", "b", "none", "old")}
    assert found == {GPU: "a", **prefixed}
