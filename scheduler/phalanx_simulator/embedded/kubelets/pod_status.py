"""Pod statuses as a kubelet writes them, for each phase of a pod."""

from typing import Any, Final

from phalanx_simulator.embedded.apiserver.objects import set_condition
from phalanx_simulator.embedded.kubelets.machine import COMPLETED, End
from phalanx_simulator.embedded.store import Object

STOPPED: Final = End(143, "Error")
"""All containers were stopped by a signal, as in every deletion."""

_ADDRESSES_PER_BLOCK = 254


def starting_status(pod: Object, *, now: str) -> dict[str, Any]:
    """The pod is admitted; its containers are being created."""
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    return {
        "phase": "Pending",
        "startTime": now,
        **_HOST,
        "conditions": _conditions(pod, now, ready="False", reason="ContainersNotReady"),
        "containerStatuses": [
            _container(pod, container, ready=False, state=waiting) for container in _containers(pod)
        ],
    }


def running_status(pod: Object, *, now: str, number: int) -> dict[str, Any]:
    """All containers run.

    `number` determines the pod's address.
    """
    address = _address(number)
    status = {
        "phase": "Running",
        "startTime": pod["status"].get("startTime", now),
        **_HOST,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": _conditions(pod, now, ready="True"),
        "containerStatuses": [
            _container(pod, container, ready=True, state={"running": {"startedAt": now}})
            for container in _containers(pod)
        ],
    }
    if _init_containers(pod):
        status["initContainerStatuses"] = _init_statuses(pod, COMPLETED, now)
    return status


def ready_status(pod: Object, *, now: str) -> dict[str, Any]:
    """A running pod is reported ready again."""
    return {"conditions": _conditions(pod, now, ready="True")}


def restarted_status(pod: Object, end: End, *, now: str) -> dict[str, Any]:
    """All containers ended and run again."""
    last = {"terminated": _terminated(pod, end, now)}
    statuses = []
    for container in _containers(pod):
        status = _container(pod, container, ready=True, state={"running": {"startedAt": now}})
        statuses.append({**status, "restartCount": status["restartCount"] + 1, "lastState": last})
    return {
        "phase": "Running",
        "conditions": _conditions(pod, now, ready="True"),
        "containerStatuses": statuses,
    }


def ended_status(pod: Object, end: End, *, now: str) -> dict[str, Any]:
    """All containers have ended for good."""
    phase = "Failed" if end.exit_code else "Succeeded"
    state = {"terminated": _terminated(pod, end, now)}
    unready = "PodFailed" if end.exit_code else "PodCompleted"
    return {
        "phase": phase,
        "conditions": _conditions(pod, now, ready="False", reason=unready),
        "containerStatuses": [
            _container(pod, container, ready=False, state=state) for container in _containers(pod)
        ],
    }


def init_failed_status(pod: Object, end: End, *, now: str) -> dict[str, Any]:
    """The init containers failed, so nothing else ever ran."""
    conditions = _conditions(pod, now, ready="False", reason="PodFailed")
    uninitialized = {"type": "Initialized", "status": "False", "reason": "ContainersNotInitialized"}
    waiting = {"waiting": {"reason": "PodInitializing"}}
    return {
        "phase": "Failed",
        "conditions": set_condition(conditions, {**uninitialized, "lastTransitionTime": now}),
        "initContainerStatuses": _init_statuses(pod, end, now),
        "containerStatuses": [
            _container(pod, container, ready=False, state=waiting) for container in _containers(pod)
        ],
    }


def rejected_status(reason: str, message: str) -> dict[str, Any]:
    """The node rejected the pod; nothing of it has run."""
    return {"phase": "Failed", "reason": reason, "message": message}


_HOST: Final = {"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}]}


def _terminated(pod: Object, end: End, now: str) -> Object:
    started = pod["status"].get("startTime", now)
    state = {"exitCode": end.exit_code, "reason": end.reason, "startedAt": started, "finishedAt": now}
    return {**state, "message": end.message} if end.message else state


def _containers(pod: Object) -> list[Object]:
    containers: list[Object] = pod["spec"]["containers"]
    return containers


def _init_containers(pod: Object) -> list[Object]:
    containers: list[Object] = pod["spec"].get("initContainers") or []
    return containers


def _init_statuses(pod: Object, end: End, now: str) -> list[Object]:
    state = {"terminated": _terminated(pod, end, now)}
    ready = end.exit_code == 0
    return [_container(pod, container, ready=ready, state=state) for container in _init_containers(pod)]


def _conditions(pod: Object, now: str, *, ready: str, reason: str = "") -> list[Any]:
    conditions: list[Any] = pod["status"].get("conditions", [])
    wanted = {"Initialized": "True", "ContainersReady": ready, "Ready": ready}
    for type_, status in wanted.items():
        condition = {"type": type_, "status": status, "lastProbeTime": None, "lastTransitionTime": now}
        if reason and status == "False":
            condition["reason"] = reason
        conditions = set_condition(conditions, condition)
    return conditions


def _container(pod: Object, container: Object, *, ready: bool, state: Object) -> Object:
    known = pod["status"].get("containerStatuses") or []
    old: Object = next((status for status in known if status.get("name") == container["name"]), {})
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": ready,
        "restartCount": old.get("restartCount", 0),
        "started": ready,
        "state": state,
    }


def _address(number: int) -> str:
    block, host = divmod(number, _ADDRESSES_PER_BLOCK)
    return f"10.{64 + block // 256 % 128}.{block % 256}.{host + 1}"
