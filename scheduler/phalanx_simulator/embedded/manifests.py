"""Manifests of nodes, gangs, queues and Jobs, as users would write them."""

from collections.abc import Mapping
from itertools import product
from typing import Any, Final

from phalanx.model.names import API_VERSION, DEFAULT_SCHEDULER_NAME, LABEL_POD_GROUP, LABEL_ROLE
from phalanx.model.resources import CPU, GPU, MEMORY, PODS

from phalanx_simulator.embedded.kubelets.kubelet import RUN_SECONDS

Manifest = dict[str, Any]

_NODE: Final = {CPU: "64", MEMORY: "512Gi", "ephemeral-storage": "1Ti", PODS: "110"}
_HOST_LABEL: Final = "kubernetes.io/hostname"


def node(name: str, *, gpus: int = 8, labels: Mapping[str, str] | None = None, **offered: str) -> Manifest:
    """A server with GPUs; `offered` overrides other amounts, such as cpu="4"."""
    resources = {**_NODE, **offered, **({GPU: str(gpus)} if gpus else {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {_HOST_LABEL: name, **(labels or {})}},
        "status": {"capacity": resources, "allocatable": dict(resources)},
    }


def tree_of_nodes(levels: Mapping[str, int]) -> list[Manifest]:
    """Nodes of a regular topology tree.

    {"topology.kubernetes.io/zone": 2, "network.topology.nvidia.com/block": 3, "kubernetes.io/hostname": 4}
    gives 24 nodes. A domain's label value is its path, such as 1-3; the last level is the node, n1-3-4 here.
    """
    keys, nodes = list(levels), []
    for path in product(*(range(1, count + 1) for count in levels.values())):
        steps = [str(step) for step in path]
        labels = {key: "-".join(steps[: depth + 1]) for depth, key in enumerate(keys[:-1])}
        nodes.append(node(f"n{'-'.join(steps)}", labels=labels))
    return nodes


def namespace(name: str, *, labels: Mapping[str, str] | None = None) -> Manifest:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels or {})}}


def queue(name: str, **spec: Any) -> Manifest:
    """A Queue with this spec."""
    return {"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def topology(name: str, **labels: str) -> Manifest:
    """A Topology: its levels with their node labels, widest first."""
    levels = [{"name": level, "nodeLabel": label} for level, label in labels.items()]
    return {
        "apiVersion": API_VERSION,
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": levels},
    }


def priority_class(name: str, value: int) -> Manifest:
    """A PriorityClass."""
    metadata = {"name": name}
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": metadata,
        "value": value,
    }


def pod_group(name: str, *, min_member: int, namespace: str = "default", **spec: Any) -> Manifest:
    """A PodGroup; `spec` holds further fields of its spec."""
    metadata = {"name": name, "namespace": namespace}
    whole = {"minMember": min_member, **spec}
    return {"apiVersion": API_VERSION, "kind": "PodGroup", "metadata": metadata, "spec": whole}


def pod(
    name: str,
    *,
    namespace: str = "default",
    group: str = "",
    role: str = "",
    scheduler: str = DEFAULT_SCHEDULER_NAME,
    requests: Mapping[str, str] | None = None,
    run_s: float | None = None,
    **spec: Any,
) -> Manifest:
    """A pod with one container, one GPU by default; it runs for `run_s` seconds, or until it is deleted."""
    labels = {LABEL_POD_GROUP: group, LABEL_ROLE: role}
    metadata: Manifest = {
        "name": name,
        "namespace": namespace,
        "labels": {key: value for key, value in labels.items() if value},
    }
    if run_s is not None:
        metadata["annotations"] = {RUN_SECONDS: str(run_s)}
    asked = dict(requests or {GPU: "1"})
    container = {"name": "main", "image": "train:1", "resources": {"requests": asked, "limits": dict(asked)}}
    whole = {"schedulerName": scheduler, "restartPolicy": "Never", "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


def gang(
    name: str, roles: Mapping[str, int], *, namespace: str = "default", **options: Any
) -> list[Manifest]:
    """The pods of a gang, role by role; `options` as of `pod`."""
    return [
        pod(f"{name}-{role}-{index}", namespace=namespace, group=name, role=role, **options)
        for role, count in roles.items()
        for index in range(count)
    ]


def job(name: str, *, members: int, namespace: str = "default", group: str = "", **options: Any) -> Manifest:
    """An Indexed Job that runs all members in parallel; `options` as of `pod`."""
    template = pod("", namespace=namespace, group=group, **options)
    for field in ("name", "namespace"):
        del template["metadata"][field]
    whole = {
        "parallelism": members,
        "completions": members,
        "completionMode": "Indexed",
        "template": {"metadata": template["metadata"], "spec": template["spec"]},
    }
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": whole}
