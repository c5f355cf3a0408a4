"""Requests of a pod, computed as Kubernetes does, from containers that may lack defaults.

The rules are those of PodRequests in component-helpers of Kubernetes 1.37 with its default feature gates. The
request is the larger of the sum of containers and sidecars, and the peak of the init sequence, in which
sidecars accumulate. During a resize, the largest of requested, allocated and actual resources counts.
Pod-level requests replace the sum of the containers. Overhead is added. A missing request equals the limit,
as the API server defaults it. Amounts are rounded up per container.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from phalanx.limits import POD_REQUEST_MAX
from phalanx.model.api.core import Container, ContainerStatus, Pod, PodStatus, Quantity, ResourceRequirements
from phalanx.model.resources import PODS, InvalidQuantity, Resources, add, request_amount

_POD_RESOURCES_MAX: Final = 256
"""Resources that a pod may request. Real pods request about ten, and each is compared with every node."""


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
    if len(amounts) <= _POD_RESOURCES_MAX:
        return []
    return [f"{path}: requests {len(amounts)} resources, expected at most {_POD_RESOURCES_MAX}"]


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
