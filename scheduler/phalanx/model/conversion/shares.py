"""Shares of GPUs: what annotations of pods ask for, where a bound pod has its share, what nodes offer."""

from collections.abc import Iterator, Mapping
from typing import Final

from phalanx.limits import POD_REQUEST_MAX, SHARED_DEVICES_MAX
from phalanx.model.api.meta import Annotations
from phalanx.model.conversion.metadata import count
from phalanx.model.gpu_shares import (
    GPU_MEMORY,
    GPU_SHARE,
    WHOLE_DEVICE,
    is_device,
    requests_share,
    shared_devices,
)
from phalanx.model.names import NODE_GPU_COUNT, NODE_GPU_MEMORY, NODE_GPU_SHARING
from phalanx.model.numa import is_numa_resource
from phalanx.model.pods import Device
from phalanx.model.quantities import InvalidQuantity, request_amount
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import GPU, NONE, Resources

_MIB: Final = 1 << 20


def add_gpu_share(requests: Resources, written: Annotations, wrong: list[str]) -> Resources:
    """The requests of a pod, and what its annotations ask for beside them, sorted by name.

    What makes no sense is appended to `wrong`, with the annotation named, and counts as a whole device.
    """
    wrong.extend(
        f"resource {name}: is nothing to ask for in a container; shares of GPUs are asked for by annotation"
        for name in requests
        if _is_ours(name)
    )
    own = {name: amount for name, amount in requests.items() if not _is_ours(name)}
    asked = {**_share(written.gpu_share, wrong), **_memory(written.gpu_memory, wrong)}
    if not asked:
        return own
    wrong.extend(_contradictions(own, written))
    return dict(sorted({**own, **asked}.items()))


def _is_ours(resource: str) -> bool:
    return resource in (GPU_SHARE, GPU_MEMORY) or is_device(resource) or is_numa_resource(resource)


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


def _contradictions(own: Resources, written: Annotations) -> Iterator[str]:
    name = GPU_MEMORY if written.gpu_share is None else GPU_SHARE
    if written.gpu_share is not None and written.gpu_memory is not None:
        yield f"{_path(GPU_MEMORY)}: is set beside {GPU_SHARE}, expected one of them"
    if own.get(GPU, 0) > 0:
        yield f"{_path(name)}: is set beside a request for {GPU}; a pod gets whole GPUs or a share of one"


def _path(name: str) -> str:
    return f"metadata.annotations[{name}]"


def read_device(requests: Resources, written: Annotations) -> Device | None:
    """Where the share of a bound pod is; None for a pod without one, or when its annotation does not tell.

    How much of a device so many bytes are was written when the pod was bound; unwritten, it counts as all.
    """
    index = count(written.gpu_index)
    if index is None or not requests_share(requests):
        return None
    taken = count(written.gpu_taken) if GPU_SHARE not in requests else requests[GPU_SHARE]
    return Device(
        index=index, taken=taken if taken is not None and 1 <= taken <= WHOLE_DEVICE else WHOLE_DEVICE
    )


def add_shared_devices(amounts: Resources, labels: Mapping[str, str], problems: list[Objection]) -> Resources:
    """What a node offers, and the devices that its labels say are shared, sorted by name.

    A node that offers whole GPUs shares none: its device plugin gives them away and sees no annotation.
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
