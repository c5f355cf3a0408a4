"""What a pod takes of a node, counted as a kubelet does.

Written apart from the scheduler's own counting on purpose: the fake kubelets judge the scheduler, so they
must not share its mistakes.
"""

from phalanx.model.quantities import capacity_amount, request_amount
from phalanx.model.resources import PODS, Resources, add
from phalanx.sim.store import Object


def requests_of(pod: Object) -> Resources:
    """Sum of the containers, or the peak of the init containers where that is more; overhead; one pod."""
    spec = pod["spec"]
    total: Resources = {}
    for container in spec["containers"]:
        total = add(total, _requests(container))
    sidecars: Resources = {}
    peak: Resources = {}
    for container in spec.get("initContainers") or []:
        now = add(sidecars, _requests(container))
        peak = _larger(peak, now)
        if container.get("restartPolicy") == "Always":
            sidecars = now
    overhead = _amounts(spec.get("overhead") or {})
    return add(add(_larger(add(total, sidecars), peak), overhead), {PODS: 1})


def allocatable_of(node: Object) -> Resources:
    """What the node offers to pods."""
    offered = node.get("status", {}).get("allocatable") or {}
    return {name: capacity_amount(name, quantity) for name, quantity in offered.items()}


def _requests(container: Object) -> Resources:
    return _amounts(container.get("resources", {}).get("requests") or {})


def _amounts(quantities: Object) -> Resources:
    return {name: request_amount(name, quantity) for name, quantity in quantities.items()}


def _larger(left: Resources, right: Resources) -> Resources:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}
