"""Shares of GPUs: annotations of pods, labels of nodes, and the assignment of devices."""

from typing import Any

import pytest
from phalanx.limits import POD_REQUEST_MAX
from phalanx.model.conversion.nodes import read_node
from phalanx.model.conversion.pods import read_pod
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.nodes import Node
from phalanx.model.pods import Device, Pod
from phalanx.model.resources import Resources
from phalanx.model.supplies.gpu_shares.devices import (
    GPU_MEMORY,
    GPU_SHARE,
    UNKNOWN_DEVICE,
    WHOLE_DEVICE,
    assign_devices,
    incompatible_shares,
    share_on_node,
)
from phalanx.model.supplies.gpu_shares.read import SHARED_DEVICES_MAX
from phalanx.model.supplies.known import pod_usage
from phalanx.model.supplies.supply import Need

from tests.model.written import label, node, pod

SHARING = {label("gpu-sharing"): "true", "nvidia.com/gpu.count": "2"}


def read(annotations: dict[str, str], **spec: Any) -> Pod:
    meta = {"annotations": {label(f"gpu-{name}"): text for name, text in annotations.items()}}
    return read_pod(pod(meta=meta, **spec), shapes=ShapeCache(), classes={})


def read_sharing(*, amounts: dict[str, str] | None = None, **labels: str) -> Node:
    named = {f"nvidia.com/gpu.{name}": value for name, value in labels.items()}
    return read_node(node(labels={**SHARING, **named}, status={"allocatable": amounts or {"cpu": "8"}}))


# --- pods ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ({}, {}),
        ({"share": "1"}, {GPU_SHARE: 1}),
        ({"share": "1000"}, {GPU_SHARE: 1000}),
        ({"memory": "20Gi"}, {GPU_MEMORY: 20 << 30}),
        ({"memory": "1.5"}, {GPU_MEMORY: 2}),
        ({"memory": "9E"}, {GPU_MEMORY: POD_REQUEST_MAX}),
    ],
)
def test_share_annotations_become_requests(written: dict[str, str], asked: Resources) -> None:
    shape = read(written).shape
    assert shape.requests == {**asked, "pods": 1}
    assert shape.invalid == ()


@pytest.mark.parametrize(
    ("written", "name", "says"),
    [
        ({"share": ""}, "gpu-share", "'' is not valid, expected a whole number from 1 to 1000"),
        ({"share": "0"}, "gpu-share", "'0' is not valid"),
        ({"share": "1001"}, "gpu-share", "'1001' is not valid"),
        ({"share": "0.5"}, "gpu-share", "'0.5' is not valid"),
        ({"share": "-1"}, "gpu-share", "'-1' is not valid"),
        ({"share": "５００"}, "gpu-share", "is not valid"),
        ({"memory": "x"}, "gpu-memory", "'x' is not valid, expected a quantity"),
        ({"memory": "-1Gi"}, "gpu-memory", "not negative"),
        ({"memory": "0"}, "gpu-memory", "expected an amount above zero"),
        ({"share": "500", "memory": "1Gi"}, "gpu-memory", "is set beside scheduling.phalanx.dev/gpu-share"),
    ],
)
def test_invalid_shares_are_reported_and_count_as_a_whole_device(
    written: dict[str, str], name: str, says: str
) -> None:
    shape = read(written).shape
    (wrong,) = shape.invalid
    assert wrong.startswith(f"metadata.annotations[{label(name)}]: ")
    assert says in wrong
    assert shape.requests[GPU_SHARE] in (500, WHOLE_DEVICE)


@pytest.mark.parametrize("written", [{"share": "500"}, {"memory": "1Gi"}])
def test_a_share_beside_whole_gpus_is_refused(written: dict[str, str]) -> None:
    (wrong,) = read(written, requests={"nvidia.com/gpu": "1"}).shape.invalid
    (name,) = written
    assert wrong.startswith(
        f"metadata.annotations[{label('gpu-' + name)}]: is set beside a request for nvidia"
    )
    assert read(written, requests={"nvidia.com/gpu": "0"}).shape.invalid == ()


@pytest.mark.parametrize("name", [GPU_SHARE, GPU_MEMORY, "gpu[0]", UNKNOWN_DEVICE])
def test_containers_must_not_request_internal_share_resources(name: str) -> None:
    shape = read({}, requests={name: "5"}).shape
    assert shape.requests == {"pods": 1}
    assert shape.invalid[0].startswith(f"resource {name}: ")


@pytest.mark.parametrize(
    ("written", "device"),
    [
        ({"share": "500", "index": "3"}, Device(3, 500)),
        ({"share": "500", "index": "3", "taken": "1"}, Device(3, 500)),
        ({"memory": "1Gi", "index": "0", "taken": "25"}, Device(0, 25)),
        ({"memory": "1Gi", "index": "0"}, Device(0, WHOLE_DEVICE)),
        ({"memory": "1Gi", "index": "0", "taken": "1001"}, Device(0, WHOLE_DEVICE)),
        ({"memory": "1Gi", "taken": "25"}, None),
        ({"share": "500"}, None),
        ({"share": "500", "index": "-1"}, None),
        ({"share": "500", "index": ""}, None),
        ({"index": "3"}, None),
    ],
)
def test_the_device_of_a_bound_pod_is_read_from_its_annotation(
    written: dict[str, str], device: Device | None
) -> None:
    assert read(written, nodeName="n").device == device


def test_the_device_annotation_of_a_waiting_pod_is_ignored() -> None:
    assert read({"share": "500", "index": "3"}).device is None


@pytest.mark.parametrize(
    ("written", "taken"),
    [
        ({"share": "500", "index": "3"}, {GPU_SHARE: 500, "gpu[3]": 500}),
        ({"share": "500"}, {GPU_SHARE: 500, UNKNOWN_DEVICE: 500}),
        ({"share": "x"}, {GPU_SHARE: WHOLE_DEVICE, UNKNOWN_DEVICE: WHOLE_DEVICE}),
        ({"memory": "8", "index": "1", "taken": "25"}, {GPU_MEMORY: 8, "gpu[1]": 25}),
        ({"memory": "8"}, {GPU_MEMORY: 8, UNKNOWN_DEVICE: WHOLE_DEVICE}),
        ({}, {}),
    ],
)
def test_a_bound_pod_uses_its_requests_and_its_share_of_a_device(
    written: dict[str, str], taken: Resources
) -> None:
    assert pod_usage(read(written, nodeName="n")) == {**taken, "pods": 1}


def test_the_device_index_is_not_part_of_the_shape() -> None:
    shapes = ShapeCache()
    annotations = [{label("gpu-share"): "500", label("gpu-index"): index} for index in "01"]
    one, other = (
        read_pod(pod(meta={"annotations": each}, nodeName="n"), shapes=shapes, classes={})
        for each in annotations
    )
    assert one.shape is other.shape
    assert one.device != other.device


# --- nodes --------------------------------------------------------------------------------------------------


def test_a_sharing_node_advertises_each_device() -> None:
    found = read_sharing(memory="81920")
    assert found.allocatable == {
        "cpu": 8000,
        "gpu[0]": WHOLE_DEVICE,
        "gpu[1]": WHOLE_DEVICE,
        GPU_SHARE: 2 * WHOLE_DEVICE,
        GPU_MEMORY: 160 << 30,
    }
    assert found.problems == ()
    assert GPU_MEMORY not in read_sharing().allocatable


@pytest.mark.parametrize("text", ["0", "x", "-1", "", str(SHARED_DEVICES_MAX + 1), "99999999999"])
def test_an_invalid_device_count_is_reported_and_disables_sharing(text: str) -> None:
    found = read_sharing(count=text)
    assert found.allocatable == {"cpu": 8000}
    assert found.problems[0].message.startswith(f"label nvidia.com/gpu.count: {text!r} is not valid")


def test_an_invalid_device_memory_is_reported_and_ignored() -> None:
    found = read_sharing(memory="80Gi")
    assert GPU_MEMORY not in found.allocatable
    assert found.allocatable[GPU_SHARE] == 2 * WHOLE_DEVICE
    assert found.problems[0].message.startswith("label nvidia.com/gpu.memory: ")


def test_a_node_that_advertises_whole_gpus_does_not_share_them() -> None:
    assert GPU_SHARE not in read_sharing(amounts={"nvidia.com/gpu": "8"}).allocatable
    assert GPU_SHARE in read_sharing(amounts={"nvidia.com/gpu": "0"}).allocatable


@pytest.mark.parametrize("name", [GPU_SHARE, GPU_MEMORY, "gpu[5]"])
def test_a_node_must_not_advertise_internal_share_resources(name: str) -> None:
    found = read_node(node(status={"allocatable": {name: "9"}}))
    assert found.allocatable == {}
    assert name in found.problems[0].message


@pytest.mark.parametrize(
    ("asked", "size"), [(1, 1), (40 << 20, 1), (20 << 30, 500), (40 << 30, 1000), (41 << 30, 1025)]
)
def test_memory_requests_are_converted_to_a_share_rounded_up(asked: int, size: int) -> None:
    assert share_on_node({GPU_MEMORY: asked}, read_sharing(memory="40960").allocatable) == size


def test_memory_requests_do_not_fit_on_devices_of_unknown_memory() -> None:
    assert share_on_node({GPU_MEMORY: 1}, read_sharing().allocatable) > WHOLE_DEVICE


# --- devices ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "devices", "expected"),
    [
        ((), (), ()),
        ((500,), (), None),
        ((500,), (400, 400), None),
        ((500,), (1000, 500), (1,)),
        ((250, 500, 500), (750, 500), (0, 1, 0)),
        ((500, 500), (500, 500), (0, 1)),
        ((1,), (-1, 0), None),
    ],
)
def test_assign_devices(
    sizes: tuple[int, ...], devices: tuple[int, ...], expected: tuple[int, ...] | None
) -> None:
    assert assign_devices(sizes, devices) == expected


@pytest.mark.parametrize(
    ("shares", "pair"),
    [
        ([], None),
        ([(GPU_SHARE, 300), (GPU_SHARE, 300)], None),
        ([(GPU_SHARE, 1000), (GPU_SHARE, 250), (GPU_SHARE, 500)], None),
        ([(GPU_SHARE, 600), (GPU_SHARE, 400), (GPU_SHARE, 200)], ((GPU_SHARE, 400), (GPU_SHARE, 600))),
        ([(GPU_MEMORY, 2), (GPU_MEMORY, 1)], ((GPU_MEMORY, 1), (GPU_MEMORY, 2))),
        ([(GPU_SHARE, 1), (GPU_MEMORY, 1)], ((GPU_MEMORY, 1), (GPU_SHARE, 1))),
    ],
)
def test_incompatible_shares(shares: list[Need], pair: tuple[Need, Need] | None) -> None:
    assert incompatible_shares(shares) == pair
