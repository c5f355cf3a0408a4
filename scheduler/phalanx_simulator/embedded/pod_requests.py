"""Resource requests, tolerations and node capacity, as a kubelet reads them.

It is independent of the scheduler's own code: fake kubelets and checks test the scheduler, so they must not
share its bugs.
"""

from typing import Any, Final

from phalanx.model.resources import GPU, PODS, Resources, add, capacity_amount, request_amount

from phalanx_simulator.embedded.store import Object

SHARE: Final = "scheduling.phalanx.dev/gpu-share"
MEMORY: Final = "scheduling.phalanx.dev/gpu-memory"
_INDEX: Final = "scheduling.phalanx.dev/gpu-index"
_TAKEN: Final = "scheduling.phalanx.dev/gpu-taken"
_SHARING: Final = "scheduling.phalanx.dev/gpu-sharing"
_COUNT: Final = "nvidia.com/gpu.count"
_MEMORY_OF_ONE: Final = "nvidia.com/gpu.memory"


def requests_of(pod: Object) -> Resources:
    """Sum of the containers or peak of the init containers, overhead, and one pod."""
    spec = pod["spec"]
    total: Resources = {}
    for container in spec["containers"]:
        total = add(total, _requests(container))
    sidecars: Resources = {}
    peak: Resources = {}
    for container in spec.get("initContainers") or []:
        now = add(sidecars, _requests(container))
        peak = _maximum(peak, now)
        if container.get("restartPolicy") == "Always":
            sidecars = now
    overhead = _amounts(spec.get("overhead") or {})
    return add(add(_maximum(add(total, sidecars), peak), overhead), {PODS: 1})


def requests_of_node(pod: Object) -> Resources:
    """What a pod requests of its node: without the extended resources for which it has devices.

    As a kubelet, it reads from the status of the pod which container has devices for which resource.
    """
    status = pod.get("status", {}).get("extendedResourceClaimStatus") or {}
    found = {(each["containerName"], each["resourceName"]) for each in status.get("requestMappings") or ()}
    if not found:
        return requests_of(pod)
    spec = {**pod["spec"]}
    for part in ("containers", "initContainers"):
        spec[part] = [_without(each, found) for each in spec.get(part) or ()]
    return requests_of({**pod, "spec": spec})


def _without(container: Object, found: set[tuple[str, str]]) -> Object:
    resources = container.get("resources", {})
    asked = resources.get("requests") or {}
    left = {name: amount for name, amount in asked.items() if (container["name"], name) not in found}
    return {**container, "resources": {**resources, "requests": left}}


def allocatable_of(node: Object) -> Resources:
    """Allocatable resources of the node."""
    offered = node.get("status", {}).get("allocatable") or {}
    return {name: capacity_amount(name, quantity) for name, quantity in offered.items()}


def share_of(pod: Object) -> Resources:
    """GPU share or GPU memory that the annotations request.

    Raises ValueError where they are invalid.
    """
    written = pod["metadata"].get("annotations") or {}
    share = {SHARE: int(written[SHARE])} if SHARE in written else {}
    return {**share, MEMORY: request_amount(MEMORY, written[MEMORY])} if MEMORY in written else share


def device_of(pod: Object) -> Resources:
    """Thousandths of one GPU that a bound pod uses, under the GPU's name."""
    written = pod["metadata"].get("annotations") or {}
    if not share_of(pod):
        return {}
    index = written.get(_INDEX, "")
    taken = written.get(SHARE) or (written.get(_TAKEN) if index else None) or "1000"
    return {f"gpu[{index if index.isdecimal() else '?'}]": int(taken)}


def devices_of(node: Object) -> Resources:
    """The shared GPUs of a node: each in thousandths, and their total."""
    labels = node["metadata"].get("labels") or {}
    if labels.get(_SHARING) != "true" or allocatable_of(node).get(GPU):
        return {}
    count, memory = int(labels.get(_COUNT, 0)), int(labels.get(_MEMORY_OF_ONE, 0)) << 20
    together = {SHARE: 1000 * count, MEMORY: memory * count}
    return {**together, **{f"gpu[{index}]": 1000 for index in range(count)}}


def _requests(container: Object) -> Resources:
    return _amounts(container.get("resources", {}).get("requests") or {})


def _amounts(quantities: Object) -> Resources:
    return {name: request_amount(name, quantity) for name, quantity in quantities.items()}


def _maximum(left: Resources, right: Resources) -> Resources:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}


def is_tolerated(taint: Object, tolerations: list[Any]) -> bool:
    """Whether a toleration matches the taint."""
    return bool(matching(taint, tolerations))


def matching(taint: Object, tolerations: list[Any]) -> list[Object]:
    """The tolerations that match the taint."""
    return [
        toleration
        for toleration in tolerations
        if toleration.get("key", "") in ("", taint["key"])
        and toleration.get("effect", "") in ("", taint["effect"])
        and (toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", ""))
    ]
