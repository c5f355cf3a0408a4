"""Applications of YuniKorn as the checks need them, read independently of the scheduler's dialect."""

import json
from typing import Final

from phalanx.model.names import DEFAULT_SCHEDULER_NAME

from phalanx_simulator.embedded.store import Object
from phalanx_simulator.invariants.facts import YUNIKORN_PREFIX

_GROUPS: Final = "yunikorn.apache.org/task-groups"


def application_group(pod: Object) -> Object | None:
    """The PodGroup of Phalanx that means the same as the task groups in a pod; None without any."""
    meta, spec = pod["metadata"], pod.get("spec") or {}
    annotations, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    if _GROUPS not in annotations or spec.get("schedulerName") != DEFAULT_SCHEDULER_NAME:
        return None
    name, namespace = labels.get("applicationId", ""), meta["namespace"]
    minimums = [each["minMember"] for each in json.loads(annotations[_GROUPS])]
    queue = annotations.get("yunikorn.apache.org/queue", "")
    wanted: Object = {
        "minMember": sum(minimums),
        "startWhen": "Reserved",
        "queue": queue.removeprefix("root."),
        "isBasic": False,
    }
    if spec.get("priorityClassName"):
        wanted["priorityClassName"] = spec["priorityClassName"]
    named = {"namespace": namespace, "name": f"{YUNIKORN_PREFIX}{name}"}
    uid = f"yunikorn.apache.org:{namespace}/{name}"
    return {"metadata": {**named, "uid": uid}, "spec": wanted}
