"""Rules of pods: defaults, allowed changes, grace period, binding."""

from typing import Any, Final

from phalanx_simulator.embedded.apiserver.errors import ApiError, Cause, Subject, bad_request, conflict
from phalanx_simulator.embedded.apiserver.kind_rules import Rules
from phalanx_simulator.embedded.apiserver.objects import Stamps, is_deleting, set_condition, without
from phalanx_simulator.embedded.store import Object

SUBJECT: Final = Subject("pods", "Pod")
BINDING: Final = Subject("pods/binding", "Binding")
SUCCESS: Final[Object] = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}
_SPEC_DEFAULTS: Final[Object] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
    "securityContext": {},
}
_INHERITED: Final = ("priority", "preemptionPolicy")
_CONTAINER_DEFAULTS: Final[Object] = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_MUTABLE: Final = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates")
_ONLY_MUTABLE: Final = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
    "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)

_NEW_GATE: Final = "Forbidden: only deletion is allowed, but found new scheduling gate "
_TOPOLOGY_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class PodRules(Rules):
    """Rules of pods: Pending at first, mostly immutable spec, graceful deletion once bound."""

    def on_create(self, new: Object, stamps: Stamps) -> None:
        spec = new.setdefault("spec", {})
        for field, value in _SPEC_DEFAULTS.items():
            spec.setdefault(field, value)
        for container in [*spec.get("containers", []), *spec.get("initContainers", [])]:
            _complete_container(container)
        new["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
        if spec.get("schedulingGates"):
            new["status"]["conditions"] = [_gated(stamps.now())]

    def check_create(self, new: Object) -> list[Cause]:
        containers = new["spec"].get("containers")
        if not containers:
            return [Cause("FieldValueRequired", "Required value", "spec.containers")]
        return [
            Cause("FieldValueRequired", "Required value", f"spec.containers[{place}].{field}")
            for place, container in enumerate(containers)
            for field in ("name", "image")
            if not container.get(field)
        ]

    def on_update(self, new: Object, old: Object) -> Object:
        inherited = {name: old["spec"][name] for name in _INHERITED if name in old["spec"]}
        return {**new, "spec": {**_SPEC_DEFAULTS, **inherited, **new.get("spec", {})}}

    def check_update(self, new: Object, old: Object) -> list[Cause]:
        if _fixed_part(new["spec"]) != _fixed_part(old["spec"]):
            return [Cause("FieldValueForbidden", _ONLY_MUTABLE, "spec")]
        known = [gate["name"] for gate in old["spec"].get("schedulingGates", [])]
        return [
            Cause(
                "FieldValueForbidden", f"{_NEW_GATE}'{gate['name']}'", f"spec.schedulingGates[{place}].name"
            )
            for place, gate in enumerate(new["spec"].get("schedulingGates", []))
            if gate["name"] not in known
        ]

    is_graceful = True

    def grace_s(self, item: Object, asked: int | None) -> int:
        spec = item["spec"]
        if not spec.get("nodeName") or item.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        period = spec.get("terminationGracePeriodSeconds", 0) if asked is None else asked
        return period if period >= 0 else 1


def _complete_container(container: Object) -> None:
    for field, value in _CONTAINER_DEFAULTS.items():
        container.setdefault(field, value)
    tag = str(container.get("image", "")).rpartition("/")[2].partition(":")[2]
    container.setdefault("imagePullPolicy", "Always" if tag in ("", "latest") else "IfNotPresent")
    resources = container.setdefault("resources", {})
    limits = resources.get("limits")
    if limits:
        resources["requests"] = {**limits, **(resources.get("requests") or {})}


def qos_class(spec: Object) -> str:
    """BestEffort, Burstable or Guaranteed, from the CPU and memory of the containers."""
    resources = [container.get("resources", {}) for container in spec.get("containers", [])]
    asked = [{**resource.get("limits", {}), **resource.get("requests", {})} for resource in resources]
    if not any(name in amounts for amounts in asked for name in ("cpu", "memory")):
        return "BestEffort"
    whole = all(
        name in resource.get("limits", {})
        and resource["limits"][name] == resource.get("requests", {}).get(name)
        for resource in resources
        for name in ("cpu", "memory")
    )
    return "Guaranteed" if whole else "Burstable"


def _gated(now: str) -> Object:
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


def _fixed_part(spec: Object) -> Object:
    fixed = without(spec, *_MUTABLE)
    for field in ("containers", "initContainers"):
        if field in fixed:
            fixed[field] = [without(container, "image") for container in fixed[field]]
    return fixed


def check_binding(binding: Object, *, name: str) -> None:
    """Refuse a Binding that contradicts itself or its URL. Raises ApiError."""
    target, metadata = binding.get("target") or {}, binding.get("metadata") or {}
    if metadata.get("name", name) != name:
        raise bad_request("name in URL does not match name in Binding object")
    if target.get("kind", "") not in ("", "Node"):
        raise ApiError(500, "", f"target.kind: Unsupported value: {target['kind']!r}")
    if not target.get("name"):
        raise ApiError(500, "", "target.name: Required value")


def bound(pod: Object, binding: Object, node: Object | None, stamps: Stamps) -> Object:
    """The pod on the node that the Binding names, which need not exist; it gets that node's zone and region.

    Raises ApiError 409 where the pod cannot be assigned.
    """
    metadata, name = pod["metadata"], pod["metadata"]["name"]
    wanted = binding.get("metadata") or {}
    _check_preconditions(metadata, wanted)
    why = _why_not_assignable(pod)
    if why:
        raise conflict(BINDING, name, why)
    status = without(pod["status"], "nominatedNodeName")
    status["conditions"] = set_condition(status.get("conditions", []), _scheduled(stamps.now()))
    bound_metadata = _merged(metadata, "annotations", wanted.get("annotations") or {})
    bound_metadata = _merged(bound_metadata, "labels", _topology(node))
    spec = {**pod["spec"], "nodeName": binding["target"]["name"]}
    return {**pod, "metadata": bound_metadata, "spec": spec, "status": status}


def _scheduled(now: str) -> Object:
    return {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}


def _merged(metadata: Object, field: str, more: Object) -> Object:
    return {**metadata, field: {**metadata.get(field, {}), **more}} if more else metadata


def _topology(node: Object | None) -> Object:
    labels = {} if node is None else node["metadata"].get("labels", {})
    return {key: labels[key] for key in _TOPOLOGY_LABELS if key in labels}


def _why_not_assignable(pod: Object) -> str:
    name, spec = pod["metadata"]["name"], pod["spec"]
    if is_deleting(pod):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _check_preconditions(metadata: Object, wanted: dict[str, Any]) -> None:
    key = f"/registry/pods/{metadata['namespace']}/{metadata['name']}"
    why = failed_precondition(key, metadata, wanted)
    if why:
        raise conflict(SUBJECT, metadata["name"], why)


def failed_precondition(key: str, metadata: Object, wanted: dict[str, Any]) -> str:
    """The message of a failed uid or resourceVersion precondition; empty if it holds."""
    for field, title in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(field) and wanted[field] != metadata[field]:
            return (
                f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
                f"Precondition failed: {title} in precondition: {wanted[field]}, "
                f"{title} in object meta: {metadata[field]}"
            )
    return ""
