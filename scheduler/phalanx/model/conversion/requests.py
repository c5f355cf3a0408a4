"""Requests of a pod, computed as Kubernetes does, from containers that may lack defaults.

The rules are those of PodRequests in component-helpers of Kubernetes 1.37 with its default feature gates. The
request is the larger of the sum of containers and sidecars, and the peak of the init sequence, in which
sidecars accumulate. During a resize, the largest of requested, allocated and actual resources counts.
Pod-level requests replace the sum of the containers. Overhead is added. A missing request equals the limit,
as the API server defaults it. Amounts are rounded up per container.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from phalanx.limits import POD_REQUEST_MAX, POD_RESOURCES_MAX, SHARED_DEVICES_MAX
from phalanx.model.api.core import Container, ContainerStatus, Pod, PodStatus, Quantity, ResourceRequirements
from phalanx.model.api.values import count
from phalanx.model.gpu_shares import (
    GPU_MEMORY,
    GPU_SHARE,
    WHOLE_DEVICE,
    is_node_part,
    requests_share,
    shared_devices,
)
from phalanx.model.names import (
    ANNOTATION_GPU_INDEX,
    ANNOTATION_GPU_TAKEN,
    NODE_GPU_COUNT,
    NODE_GPU_MEMORY,
    NODE_GPU_SHARING,
)
from phalanx.model.pods import Device
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import GPU, NONE, PODS, InvalidQuantity, Resources, add, request_amount

_POD_LEVEL = ("cpu", "memory", "hugepages-")
"""Resources that may be requested for the pod as a whole."""


def pod_requests(pod: Pod, wrong: list[str]) -> Resources:
    """Requests of the whole pod, sorted by name, without zeros, and `pods: 1`; each at most POD_REQUEST_MAX.

    Errors are appended to `wrong` as "path: error". An invalid amount counts as the largest one.
    """
    spec = pod.spec
    main = _all_requests(spec.containers, "spec.containers", wrong)
    init = _all_requests(spec.init_containers, "spec.initContainers", wrong)
    sidecar = [container.restart_policy == "Always" for container in spec.init_containers]
    asked = aggregate(main, init, sidecar)
    total = asked
    if _reports_resources(pod.status):
        total = _with_status(pod, asked, main, init, sidecar)
    total = {**total, **_pod_level(pod, asked, wrong)}
    total = add(total, read_amounts(spec.overhead, "spec.overhead", wrong))
    capped = {name: min(amount, POD_REQUEST_MAX) for name, amount in sorted(total.items()) if amount}
    wrong.extend(too_many(capped, "spec"))
    return dict(sorted({**capped, PODS: 1}.items()))


def _all_requests(containers: Sequence[Container], path: str, wrong: list[str]) -> list[Resources]:
    return [
        with_defaults(container.resources, f"{path}[{index}].resources", wrong)
        for index, container in enumerate(containers)
    ]


def with_defaults(resources: ResourceRequirements | None, path: str, wrong: list[str]) -> Resources:
    """Requests, with limits in place of missing requests."""
    if resources is None:
        return {}
    missing = {name: limit for name, limit in resources.limits.items() if name not in resources.requests}
    requests = read_amounts(resources.requests, f"{path}.requests", wrong)
    return {**requests, **read_amounts(missing, f"{path}.limits", wrong)}


def read_amounts(written: Mapping[str, Quantity], path: str, wrong: list[str]) -> dict[str, int]:
    """Requested amounts. An invalid amount is reported in `wrong` and counts as the largest one."""
    amounts = {}
    for name, quantity in written.items():
        try:
            amounts[name] = request_amount(name, quantity)
        except InvalidQuantity as invalid:
            wrong.append(f"{path}[{name}]: {invalid}")
            amounts[name] = POD_REQUEST_MAX
    return amounts


def too_many(amounts: Resources, path: str) -> list[str]:
    """An error if more resources are requested than a pod may have."""
    if len(amounts) <= POD_RESOURCES_MAX:
        return []
    return [f"{path}: requests {len(amounts)} resources, expected at most {POD_RESOURCES_MAX}"]


def aggregate(main: Iterable[Resources], init: Sequence[Resources], sidecar: Sequence[bool]) -> Resources:
    """The larger of the permanent requests and the peak of the init sequence."""
    running: Resources = {}
    for requests in main:
        running = add(running, requests)
    sidecars: Resources = {}
    peak: Resources = {}
    for requests, restarts in zip(init, sidecar, strict=True):
        needed = add(sidecars, requests)
        if restarts:
            running = add(running, requests)
            sidecars = needed
        peak = _largest((peak, needed))
    return _largest((running, peak))


def _largest(several: Iterable[Resources]) -> Resources:
    largest: dict[str, int] = {}
    for amounts in several:
        for name, amount in amounts.items():
            largest[name] = max(amount, largest.get(name, 0))
    return largest


# --- pod-level resources ------------------------------------------------------------------------------------


def _pod_level(pod: Pod, asked: Resources, wrong: list[str]) -> Resources:
    """Requests of the pod as a whole. They replace those of its containers, whose sum is `asked`."""
    resources, status = pod.spec.resources, pod.status
    if resources is None:
        return {}
    own = read_amounts(_pod_level_only(resources.requests), "spec.resources.requests", wrong)
    if resources.limits:
        own = {**_pod_level_defaults(resources, asked, wrong), **own}
    if status.resources is None or not own:
        return own
    given = read_amounts(_pod_level_only(status.resources.requests), "", [])
    allocated = read_amounts(_pod_level_only(status.allocated_resources or {}), "", [])
    return _largest((given, allocated) if _resize_is_infeasible(status) else (own, given, allocated))


def _pod_level_defaults(resources: ResourceRequirements, asked: Resources, wrong: list[str]) -> Resources:
    """Defaults of the API server for pod-level limits: the sum of the containers, else the limit."""
    from_containers = {name: amount for name, amount in asked.items() if name in ("cpu", "memory")}
    limits = {
        name: limit
        for name, limit in _pod_level_only(resources.limits).items()
        if name not in from_containers and name not in resources.requests
    }
    return {**read_amounts(limits, "spec.resources.limits", wrong), **from_containers}


def _pod_level_only(written: Mapping[str, Quantity]) -> Mapping[str, Quantity]:
    return {name: quantity for name, quantity in written.items() if name.startswith(_POD_LEVEL)}


# --- resize -------------------------------------------------------------------------------------------------


def _reports_resources(status: PodStatus) -> bool:
    return any(
        container.resources is not None or container.allocated_resources is not None
        for container in (*status.container_statuses, *status.init_container_statuses)
    ) or (status.resources is not None or _resize_is_infeasible(status))


def _with_status(
    pod: Pod, asked: Resources, main: list[Resources], init: list[Resources], sidecar: list[bool]
) -> Resources:
    """The largest of requested resources, resources allocated by the kubelet, and actual resources."""
    status = pod.status
    infeasible = _resize_is_infeasible(status)
    if status.allocated_resources is not None and status.resources is not None and status.resources.requests:
        allocated: Resources = read_amounts(status.allocated_resources, "", [])
        given: Resources = read_amounts(status.resources.requests, "", [])
    else:
        known = {state.name: state for state in (*status.init_container_statuses, *status.container_statuses)}
        fallback = (lambda _: {}) if infeasible else (lambda requests: requests)
        pairs = [
            _reported(known.get(container.name), fallback(requests))
            for container, requests in zip(
                (*pod.spec.containers, *pod.spec.init_containers), (*main, *init), strict=True
            )
        ]
        count = len(main)
        allocated = aggregate([a for a, _ in pairs[:count]], [a for a, _ in pairs[count:]], sidecar)
        given = aggregate([g for _, g in pairs[:count]], [g for _, g in pairs[count:]], sidecar)
    return _largest((allocated, given) if infeasible else (asked, allocated, given))


def _reported(state: ContainerStatus | None, otherwise: Resources) -> tuple[Resources, Resources]:
    """Allocated and actual resources of one container."""
    allocated = otherwise
    if state is not None and state.allocated_resources is not None:
        allocated = read_amounts(state.allocated_resources, "", [])
    if state is not None and state.resources is not None and state.resources.requests:
        return allocated, read_amounts(state.resources.requests, "", [])
    return allocated, allocated


def _resize_is_infeasible(status: PodStatus) -> bool:
    return any(
        condition.type == "PodResizePending" and condition.reason == "Infeasible"
        for condition in status.conditions
    )


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
    return resource in (GPU_SHARE, GPU_MEMORY) or is_node_part(resource)


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
