"""Builders of Kubernetes objects as decoded structs, with defaults for tests."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from phalanx.model.api import core, pod_groups
from phalanx.model.api.kinds import KINDS
from phalanx.model.api.native_pod_groups import NativePodGroup
from phalanx.model.api.unknown_fields import with_unknown_fields
from phalanx.model.names import API_GROUP

T = TypeVar("T")


def label(name: str) -> str:
    """The full key of one of our labels."""
    return f"{API_GROUP}/{name}"


def written(struct: type[T], document: Mapping[str, Any]) -> T:
    """Decode a document as it is received from an API server."""
    return msgspec.json.decode(msgspec.json.encode(document), type=struct)


def pod(
    name: str = "p",
    *,
    namespace: str = "team",
    uid: str = "",
    labels: Mapping[str, str] | None = None,
    owner: str = "",
    requests: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
    **spec: Any,
) -> core.Pod:
    """A pod that names our scheduler; `owner` is its controller's UID, `spec` has Kubernetes' names."""
    owners = [{"kind": "Job", "name": f"job-{owner}", "uid": owner, "controller": True}] if owner else []
    document = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{namespace}-{name}",
            "labels": labels or {},
            "ownerReferences": owners,
            **(meta or {}),
        },
        "spec": {
            "schedulerName": "phalanx",
            "priority": 0,
            "containers": [{"name": "main", "resources": {"requests": requests or {}}}],
            **spec,
        },
        "status": status or {},
    }
    return written(core.Pod, document)


def node(
    name: str = "n", *, uid: str = "", labels: Mapping[str, str] | None = None, **rest: Any
) -> core.Node:
    """A node; `rest` may set `spec` and `status`."""
    amounts = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8", "pods": "110"}
    document = {
        "metadata": {"name": name, "uid": uid or f"uid-{name}", "labels": labels or {}},
        "status": {"allocatable": amounts},
        **rest,
    }
    return written(core.Node, document)


def pod_group(name: str = "g", *, uid: str = "", owner: str = "", **spec: Any) -> pod_groups.PodGroup:
    """A PodGroup in namespace `team`."""
    owners = [{"kind": "Job", "name": f"job-{owner}", "uid": owner, "controller": True}] if owner else []
    meta = {"name": name, "namespace": "team", "uid": uid or f"uid-{name}", "ownerReferences": owners}
    return written(pod_groups.PodGroup, {"metadata": meta, "spec": {"minMember": 1, **spec}})


def native_pod_group(
    name: str = "g", *, uid: str = "", min_count: int = 1, meta: Mapping[str, Any] | None = None, **spec: Any
) -> NativePodGroup:
    """A PodGroup of scheduling.k8s.io in namespace `team`; `spec` may have `status` too."""
    status = spec.pop("status", {})
    document = {
        "metadata": {"name": name, "namespace": "team", "uid": uid or f"uid-native-{name}", **(meta or {})},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}, **spec},
        "status": status,
    }
    return with_unknown_fields(written(NativePodGroup, document), document["spec"])


def other_pod_group(
    struct: type[T], name: str = "g", *, uid: str = "", meta: Mapping[str, Any] | None = None, **spec: Any
) -> T:
    """A PodGroup of another project in namespace `team`; `spec` may have `status` too."""
    status = spec.pop("status", {})
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": uid or f"uid-{struct.__name__}-{name}",
        **(meta or {}),
    }
    return written(struct, {"metadata": metadata, "spec": spec, "status": status})


def named(kind: str, name: str, **rest: Any) -> Any:
    """Any other object; `namespace` and `labels` go into its metadata."""
    meta = {"name": name, "uid": f"uid-{kind}-{name}"}
    meta.update({key: rest.pop(key) for key in ("namespace", "labels", "deletionTimestamp") if key in rest})
    return written(KINDS[kind].struct, {"metadata": meta, **rest})


def claim(
    name: str = "c",
    *,
    volume: str = "",
    storage_class: str | None = None,
    is_bound: bool | None = None,
    **rest: Any,
) -> core.PersistentVolumeClaim:
    """A claim in namespace `team`; with a volume it is bound unless `is_bound` is false."""
    is_bound = bool(volume) if is_bound is None else is_bound
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if is_bound else {}
    return written(
        core.PersistentVolumeClaim,
        {
            "metadata": {
                "name": name,
                "namespace": "team",
                "uid": f"uid-PersistentVolumeClaim-{name}",
                "annotations": {**annotations, **rest.pop("annotations", {})},
                "deletionTimestamp": rest.pop("deletionTimestamp", None),
            },
            "spec": {"volumeName": volume, "storageClassName": storage_class},
            **rest,
        },
    )
