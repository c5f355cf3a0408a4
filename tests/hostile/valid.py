"""One valid object of every kind that the scheduler reads, rich in fields: the input of the generator."""

from collections.abc import Callable
from random import Random
from typing import Any

from phalanx.model.names import (
    API_VERSION,
    LABEL_MIN_MEMBER,
    LABEL_POD_GROUP,
    LABEL_QUEUE,
    LABEL_ROLE,
)

from tests.node_topologies import node_topology

Document = dict[str, Any]

NAMESPACES = ("x-team", "x-other")
GROUPS = tuple(f"x-group-{number}" for number in range(12))
QUEUES = tuple(f"x-queue-{number}" for number in range(6))
NODES = tuple(f"x-node-{number}" for number in range(20))
LEVELS = ("zone", "rack", "host")


def metadata(random: Random, kind: str, name: str, namespace: str = "") -> Document:
    meta: Document = {
        "name": name,
        "uid": f"uid-{kind}-{namespace}-{name}",
        "resourceVersion": str(random.randint(1, 10**6)),
        "creationTimestamp": f"2026-01-{random.randint(1, 28):02}T00:00:00Z",
        "labels": {"app": "x"},
    }
    return {**meta, "namespace": namespace} if namespace else meta


def owner(random: Random) -> Document:
    number = random.randint(0, 5)
    return {"kind": "Job", "name": f"job-{number}", "uid": f"uid-job-{number}", "controller": True}


def pod(random: Random, name: str) -> Document:
    meta = metadata(random, "Pod", name, random.choice(NAMESPACES))
    meta["ownerReferences"] = [owner(random)]
    which = random.randint(0, 3)
    if which == 1:
        meta["labels"][LABEL_POD_GROUP] = random.choice(GROUPS)
    elif which == 2:
        meta["labels"][LABEL_MIN_MEMBER] = str(random.randint(1, 3))
    if random.random() < 0.3:
        meta["labels"][LABEL_QUEUE] = random.choice(QUEUES)
    if random.random() < 0.1:
        meta["labels"][LABEL_ROLE] = "worker"
    spec = {**pod_spec(random), **({"nodeName": random.choice(NODES)} if random.random() < 0.3 else {})}
    phase = "Running" if "nodeName" in spec else "Pending"
    status = {"phase": phase, "conditions": [{"type": "PodScheduled", "status": "False", "reason": "x"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def pod_spec(random: Random) -> Document:
    amounts = {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": str(random.randint(0, 8))}
    spec: Document = {
        "schedulerName": "phalanx",
        "priority": random.randint(0, 100),
        "containers": [{"name": "main", "resources": {"requests": amounts, "limits": dict(amounts)}}],
        "tolerations": [{"key": "x", "operator": "Exists", "effect": "NoSchedule"}],
        "nodeSelector": {"pool": "x"},
    }
    if random.random() < 0.5:
        spec["initContainers"] = [{"name": "init", "restartPolicy": "Always", "resources": {"requests": {}}}]
        spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "x-claim-0"}}]
        spec["overhead"] = {"cpu": "10m"}
        spec["affinity"] = {"nodeAffinity": node_affinity(random)}
    return spec


def node_affinity(random: Random) -> Document:
    expression = {"key": "pool", "operator": random.choice(("In", "NotIn")), "values": ["x", "y"]}
    term = {"matchExpressions": [expression, {"key": "size", "operator": "Gt", "values": ["3"]}]}
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["x-node-1"]}]}
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term, field]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": term}],
    }


def node(random: Random, name: str) -> Document:
    meta = metadata(random, "Node", name)
    rack = f"r{random.randint(0, 4)}"
    meta["labels"] |= {"pool": "x", "size": "4", "kubernetes.io/hostname": name, "rack": rack, "zone": "z"}
    amounts = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta,
        "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}], "unschedulable": False},
        "status": {"allocatable": amounts, "capacity": dict(amounts)},
    }


def pod_group(random: Random, name: str) -> Document:
    meta = metadata(random, "PodGroup", name, random.choice(NAMESPACES))
    spec: Document = {"minMember": random.randint(1, 3), "queue": random.choice((*QUEUES, "default"))}
    if random.random() < 0.5:
        spec["topology"] = {"required": random.choice(LEVELS)}
    if random.random() < 0.3:
        spec["roles"] = [{"name": "worker", "count": 3, "minMember": 1}, {"name": "leader", "count": 1}]
    if random.random() < 0.3:
        spec["priorityClassName"] = "x-class-0"
    status = {"phase": "Pending", "counts": {"total": 0}, "conditions": []}
    return {"apiVersion": API_VERSION, "kind": "PodGroup", "metadata": meta, "spec": spec, "status": status}


def queue(random: Random, name: str) -> Document:
    spec: Document = {"weight": random.randint(1, 5), "limit": {"nvidia.com/gpu": "64", "cpu": "1.5k"}}
    spec["flavors"] = [{"name": "a100", "nodeSelector": {"pool": "x"}, "limit": {"nvidia.com/gpu": 8}}]
    spec["namespaceSelector"] = {"matchExpressions": [{"key": "retired", "operator": "DoesNotExist"}]}
    if random.random() < 0.3:
        spec["parent"] = random.choice(QUEUES)
    meta = metadata(random, "Queue", name)
    return {"apiVersion": API_VERSION, "kind": "Queue", "metadata": meta, "spec": spec}


def topology(random: Random, name: str) -> Document:
    levels = [{"name": level, "nodeLabel": level} for level in LEVELS]
    meta = metadata(random, "Topology", name)
    return {"apiVersion": API_VERSION, "kind": "Topology", "metadata": meta, "spec": {"levels": levels}}


def priority_class(random: Random, name: str) -> Document:
    meta = metadata(random, "PriorityClass", name)
    rest = {"value": random.randint(-100, 100), "globalDefault": False, "preemptionPolicy": "Never"}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, **rest}


def namespace(random: Random, name: str) -> Document:
    meta = metadata(random, "Namespace", name)
    meta["labels"][LABEL_QUEUE] = random.choice(QUEUES)
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def budget(random: Random, name: str) -> Document:
    meta = metadata(random, "PodDisruptionBudget", name, NAMESPACES[0])
    spec = {"minAvailable": random.choice((1, "50%")), "selector": {"matchLabels": {"app": "x"}}}
    status = {"disruptionsAllowed": 1}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": meta,
        "spec": spec,
        "status": status,
    }


def claim(random: Random, name: str) -> Document:
    meta = metadata(random, "PersistentVolumeClaim", name, NAMESPACES[0])
    meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta,
        "spec": {"volumeName": random.choice(("", "x-volume-0")), "storageClassName": "x-storage-0"},
        "status": {"phase": "Bound"},
    }


def volume(random: Random, name: str) -> Document:
    required = node_affinity(random)["requiredDuringSchedulingIgnoredDuringExecution"]
    meta = metadata(random, "PersistentVolume", name)
    meta["labels"]["topology.kubernetes.io/zone"] = "z__y"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": meta,
        "spec": {
            "nodeAffinity": {"required": required},
            "claimRef": {"namespace": NAMESPACES[0], "name": "x-claim-0"},
        },
        "status": {"phase": "Bound"},
    }


def storage_class(random: Random, name: str) -> Document:
    meta = metadata(random, "StorageClass", name)
    mode = random.choice(("Immediate", "WaitForFirstConsumer"))
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": meta} | {
        "volumeBindingMode": mode
    }


def node_zones(random: Random, name: str) -> Document:
    """Of one of the nodes that there are, or of none."""
    half = {"nvidia.com/gpu": "4", "cpu": "32"}
    policy = random.choice(("single-numa-node", "restricted"))
    made = node_topology(name, half, half, policy=policy, scope=random.choice(("pod", "container")))
    return made | {"metadata": metadata(random, "NodeResourceTopology", name)}


VALID: dict[str, Callable[[Random, str], Document]] = {
    "Pod": pod,
    "Node": node,
    "PodGroup": pod_group,
    "Queue": queue,
    "Topology": topology,
    "PriorityClass": priority_class,
    "Namespace": namespace,
    "PodDisruptionBudget": budget,
    "PersistentVolumeClaim": claim,
    "PersistentVolume": volume,
    "StorageClass": storage_class,
    "NodeResourceTopology": node_zones,
}
WEIGHTS = {"Pod": 40, "Node": 12, "PodGroup": 14, "Queue": 8, "Topology": 5}
"""How often a kind comes; the others once."""
