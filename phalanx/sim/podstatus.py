"""The status that a kubelet gives a pod in each part of its life, as fields to set."""

from typing import Any

from phalanx.sim.api.objects import set_condition
from phalanx.sim.store import Object

_STOPPED_BY_SIGNAL = 143
_ADDRESSES_PER_BLOCK = 254


def running_status(pod: Object, *, now: str, number: int) -> dict[str, Any]:
    """All containers run. `number` makes the pod's address."""
    address = _address(number)
    return {
        "phase": "Running",
        "startTime": now,
        "hostIP": "10.0.0.1",
        "hostIPs": [{"ip": "10.0.0.1"}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": _conditions(pod, now, ready="True"),
        "containerStatuses": [
            _container(one, ready=True, state={"running": {"startedAt": now}}) for one in _containers(pod)
        ],
    }


def succeeded_status(pod: Object, *, now: str) -> dict[str, Any]:
    """All containers have ended well."""
    return _ended(pod, now, phase="Succeeded", exit_code=0, reason="Completed")


def failed_status(pod: Object, *, now: str) -> dict[str, Any]:
    """All containers were stopped."""
    return _ended(pod, now, phase="Failed", exit_code=_STOPPED_BY_SIGNAL, reason="Error")


def rejected_status(reason: str, message: str) -> dict[str, Any]:
    """The node did not take the pod; nothing of it has run."""
    return {"phase": "Failed", "reason": reason, "message": message}


def _ended(pod: Object, now: str, *, phase: str, exit_code: int, reason: str) -> dict[str, Any]:
    started = pod["status"].get("startTime", now)
    end = {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": now}
    unready = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    return {
        "phase": phase,
        "conditions": _conditions(pod, now, ready="False", reason=unready),
        "containerStatuses": [
            _container(one, ready=False, state={"terminated": end}) for one in _containers(pod)
        ],
    }


def _containers(pod: Object) -> list[Object]:
    containers: list[Object] = pod["spec"]["containers"]
    return containers


def _conditions(pod: Object, now: str, *, ready: str, reason: str = "") -> list[Any]:
    conditions: list[Any] = pod["status"].get("conditions", [])
    wanted = {"Initialized": "True", "ContainersReady": ready, "Ready": ready}
    for type_, status in wanted.items():
        condition = {"type": type_, "status": status, "lastProbeTime": None, "lastTransitionTime": now}
        if reason and status == "False":
            condition["reason"] = reason
        conditions = set_condition(conditions, condition)
    return conditions


def _container(container: Object, *, ready: bool, state: Object) -> Object:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": ready,
        "restartCount": 0,
        "started": ready,
        "state": state,
    }


def _address(number: int) -> str:
    block, host = divmod(number, _ADDRESSES_PER_BLOCK)
    return f"10.{64 + block // 256 % 128}.{block % 256}.{host + 1}"
