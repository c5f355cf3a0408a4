"""Reads the shares of GPUs that annotations of pods request, and the devices that labels of nodes declare."""

from collections.abc import Iterator, Mapping
from typing import Final

from phalanx.limits import POD_REQUEST_MAX
from phalanx.model.api.values import count
from phalanx.model.names import (
    ANNOTATION_GPU_INDEX,
    ANNOTATION_GPU_TAKEN,
    NODE_GPU_COUNT,
    NODE_GPU_MEMORY,
    NODE_GPU_SHARING,
)
from phalanx.model.pods import Device
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import GPU, NONE, InvalidQuantity, Resources, request_amount
from phalanx.model.supplies.gpu_shares.devices import (
    GPU_MEMORY,
    GPU_SHARE,
    WHOLE_DEVICE,
    requests_share,
    shared_devices,
)
from phalanx.model.supplies.known import supply_of

SHARED_DEVICES_MAX: Final = 64
"""GPUs of one node that can be shared. No machine has more, and each one is a resource of its own."""

_MIB: Final = 1 << 20


def add_gpu_share(requests: Resources, annotations: Mapping[str, str], wrong: list[str]) -> Resources:
    """Requests of a pod, including the GPU share that its annotations request, sorted by name.

    Errors are appended to `wrong` with the annotation. An invalid share counts as a whole device.
    """
    wrong.extend(
        f"resource {name}: cannot be requested in a container; request GPU shares by annotation"
        for name in requests
        if _is_ours(name)
    )
    own = {name: amount for name, amount in requests.items() if not _is_ours(name)}
    asked = {**_share(annotations.get(GPU_SHARE), wrong), **_memory(annotations.get(GPU_MEMORY), wrong)}
    if not asked:
        return own
    wrong.extend(_contradictions(own, annotations))
    return dict(sorted({**own, **asked}.items()))


def _is_ours(resource: str) -> bool:
    return resource in (GPU_SHARE, GPU_MEMORY) or supply_of(resource) is not None


def _share(text: str | None, wrong: list[str]) -> Resources:
    if text is None:
        return NONE
    share = count(text)
    if share is not None and 1 <= share <= WHOLE_DEVICE:
        return {GPU_SHARE: share}
    expected = f"expected a whole number from 1 to {WHOLE_DEVICE}, in thousandths of a GPU"
    wrong.append(f"{_path(GPU_SHARE)}: {text!r} is not valid, {expected}")
    return {GPU_SHARE: WHOLE_DEVICE}


def _memory(text: str | None, wrong: list[str]) -> Resources:
    if text is None:
        return NONE
    try:
        amount = request_amount(GPU_MEMORY, text)
    except InvalidQuantity as invalid:
        wrong.append(f"{_path(GPU_MEMORY)}: {invalid}")
        return {GPU_SHARE: WHOLE_DEVICE}
    if amount == 0:
        wrong.append(f"{_path(GPU_MEMORY)}: {text!r} is not valid, expected an amount above zero")
        return {GPU_SHARE: WHOLE_DEVICE}
    return {GPU_MEMORY: min(amount, POD_REQUEST_MAX)}


def _contradictions(own: Resources, annotations: Mapping[str, str]) -> Iterator[str]:
    name = GPU_MEMORY if annotations.get(GPU_SHARE) is None else GPU_SHARE
    if annotations.get(GPU_SHARE) is not None and annotations.get(GPU_MEMORY) is not None:
        yield f"{_path(GPU_MEMORY)}: is set beside {GPU_SHARE}, expected one of them"
    if own.get(GPU, 0) > 0:
        yield f"{_path(name)}: is set beside a request for {GPU}; a pod gets whole GPUs or a share of one"


def _path(name: str) -> str:
    return f"metadata.annotations[{name}]"


def read_device(requests: Resources, annotations: Mapping[str, str]) -> Device | None:
    """The device of a bound pod with a share. None without a share or without a valid annotation.

    The part of the device for a request in bytes was written at the bind. If it is missing, it counts as all.
    """
    index = count(annotations.get(ANNOTATION_GPU_INDEX))
    if index is None or not requests_share(requests):
        return None
    taken = count(annotations.get(ANNOTATION_GPU_TAKEN)) if GPU_SHARE not in requests else requests[GPU_SHARE]
    return Device(
        index=index, taken=taken if taken is not None and 1 <= taken <= WHOLE_DEVICE else WHOLE_DEVICE
    )


def add_shared_devices(amounts: Resources, labels: Mapping[str, str], problems: list[Objection]) -> Resources:
    """Resources of a node, including the shared devices that its labels declare, sorted by name.

    A node that offers whole GPUs shares none: its device plugin assigns them and knows no annotations.
    """
    problems.extend(
        _wrong(f"status.allocatable[{name}]: is counted from labels of the node, not from this")
        for name in amounts
        if _is_ours(name)
    )
    own = {name: amount for name, amount in amounts.items() if not _is_ours(name)}
    if labels.get(NODE_GPU_SHARING) != "true" or own.get(GPU, 0) > 0:
        return own
    written = labels.get(NODE_GPU_COUNT)
    devices = count(written)
    if devices is None or not 1 <= devices <= SHARED_DEVICES_MAX:
        expected = f"expected a whole number from 1 to {SHARED_DEVICES_MAX}"
        problems.append(_wrong(f"label {NODE_GPU_COUNT}: {written!r} is not valid, {expected}"))
        return own
    memory = count(labels.get(NODE_GPU_MEMORY, "0"))
    if memory is None:
        problems.append(_wrong(f"label {NODE_GPU_MEMORY}: is not valid, expected a whole number of MiB"))
    return dict(sorted({**own, **shared_devices(devices, (memory or 0) * _MIB)}.items()))


def _wrong(message: str) -> Objection:
    return Objection(Reason.INVALID_OBJECT, message)
