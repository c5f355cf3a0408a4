"""Builders of Kubernetes objects as decoded structs, with defaults for tests."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from phalanx.model.api import core, pod_groups
from phalanx.model.api.kinds import KINDS
from phalanx.model.api.native_pod_groups import CompositePodGroup, NativePodGroup
from phalanx.model.api.unknown_fields import with_unknown_fields
from phalanx.model.api.workloads import WorkloadObject
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


def composite_pod_group(
    name: str = "all",
    *,
    uid: str = "",
    min_group_count: int = 1,
    parent: str = "",
    meta: Mapping[str, Any] | None = None,
    **spec: Any,
) -> CompositePodGroup:
    """A CompositePodGroup in namespace `team`."""
    document = {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": uid or f"uid-composite-{name}",
            **(meta or {}),
        },
        "spec": {
            "schedulingPolicy": {"gang": {"minGroupCount": min_group_count}},
            "workloadRef": {"workloadName": "w", "templateName": "t"},
            **({"parentCompositePodGroupName": parent} if parent else {}),
            **spec,
        },
    }
    return with_unknown_fields(written(CompositePodGroup, document), document["spec"])


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


def workload(
    kind: str,
    name: str,
    *,
    uid: str = "",
    namespace: str = "team",
    owner: Mapping[str, str] | None = None,
    status: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
    **spec: Any,
) -> WorkloadObject:
    """An object that owns pods, such as "Job.batch"; `owner` is as of `controlled_by`."""
    owners = controlled_by(**owner) if owner else {}
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", **owners, **(meta or {})}
    item = written(WorkloadObject, {"metadata": metadata, "spec": spec, "status": status or {}})
    return msgspec.structs.replace(item, kind_name=kind)


def job(name: str, *, parallelism: int = 1, completions: int | None = None, **rest: Any) -> WorkloadObject:
    """A Job whose pods name our scheduler."""
    template = {"spec": {"schedulerName": "phalanx"}}
    counts = {} if completions is None else {"completions": completions}
    return workload("Job.batch", name, **{"parallelism": parallelism, "template": template, **counts, **rest})


def controlled_by(
    name: str, *, kind: str = "Job", api_version: str = "batch/v1", uid: str = ""
) -> dict[str, Any]:
    """Metadata with a controller, as Kubernetes' controllers write it."""
    owner = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid or f"uid-{name}"}
    return {"ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}]}


JOB_SET_VERSION = "jobset.x-k8s.io/v1alpha2"


def job_set(name: str, *roles: Mapping[str, Any], **rest: Any) -> WorkloadObject:
    """A JobSet of these replicated jobs."""
    return workload("JobSet.jobset.x-k8s.io", name, replicatedJobs=list(roles), **rest)


def replicated_job(
    name: str, *, replicas: int = 1, pods: int = 1, scheduler: str = "phalanx", **more: Any
) -> dict[str, Any]:
    """A replicated job as the API server stores it; `more` may have dependsOn."""
    template = {"spec": {"schedulerName": scheduler, "restartPolicy": "Never", "containers": []}}
    of_job = {"spec": {"parallelism": pods, "completions": pods, "template": template}}
    return {"name": name, "replicas": replicas, "template": of_job, **more}


def pod_of_job(job_name: str, index: int, *, role: str = "", job_set_name: str = "", **rest: Any) -> core.Pod:
    """A pod as the Job controller makes it, in a JobSet with the labels that its controller adds."""
    labels = {
        "batch.kubernetes.io/controller-uid": f"uid-{job_name}",
        "batch.kubernetes.io/job-completion-index": str(index),
        "batch.kubernetes.io/job-name": job_name,
        "controller-uid": f"uid-{job_name}",
        "job-name": job_name,
    }
    if role:
        labels |= {
            "jobset.sigs.k8s.io/jobset-name": job_set_name,
            "jobset.sigs.k8s.io/replicatedjob-name": role,
            "jobset.sigs.k8s.io/job-index": job_name.rpartition("-")[2],
        }
    labels |= rest.pop("labels", {})
    meta = {**controlled_by(job_name), **rest.pop("meta", {})}
    return pod(f"{job_name}-{index}", labels=labels, meta=meta, **rest)


def allows_non_preemptible(name: str = "default") -> Any:
    """A queue in which gangs may be not preemptible without a guarantee."""
    return named("Queue", name, spec={"disruption": {"allowNonPreemptible": True}})
