"""Random small clusters with a pod to be placed, as objects of the API: every field that Phalanx honours.

Few names and values, so that selectors often match. Some pods are not valid; the oracle says which.
"""

from typing import Any, Final

from hypothesis import strategies as st
from msgspec import Struct

from tests.oracle.affinity import (
    LABEL_KEYS,
    node_affinity,
    pod_affinity,
    preferred_node_affinity,
    preferred_pod_affinity,
    spread_constraints,
)
from tests.oracle.containers import pod_resources, rarely, reported_resources, with_ports

Document = dict[str, Any]
Draw = st.DrawFn

POD: Final = "default/asker"
ZONE, RACK, HOST = "topology.kubernetes.io/zone", "example.com/rack", "kubernetes.io/hostname"
READY: Final = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
TAINT_KEYS: Final = ("dedicated", "node.kubernetes.io/unschedulable", "spot")
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NO_RESOURCES: Final = {"containers": [{"name": "c0", "image": "example.com/image"}]}
NAMESPACES: Final = ("default", "left", "right")


class Case(Struct, frozen=True):
    """The objects of a cluster; POD is to be placed."""

    objects: tuple[Document, ...]
    hard_weight: int
    """What required affinity of placed pods counts."""


class Focus(Struct, frozen=True):
    """Which rules a cluster has. With all of them in each cluster, few nodes would be left for the last."""

    nodes: bool
    """Taints, cordons, node selectors and node affinity."""
    pods: bool
    """Pod affinity and anti-affinity."""
    resources: bool
    ports: bool
    """Ports of the node."""
    spread: bool
    """Topology spread constraints, required and preferred."""
    preferences: bool
    """Preferred terms. The other rules are then rare, so that many nodes are feasible."""


@st.composite
def cases(draw: Draw) -> Case:
    """A cluster of at most five nodes and six pods that run."""
    prefers = draw(st.booleans())
    rules = [draw(st.booleans()) and not (prefers and draw(st.integers(0, 3))) for _ in range(5)]
    focus = Focus(*rules, preferences=prefers)
    names = [f"n{index}" for index in range(draw(st.integers(1, 5)))]
    claims = draw(st.integers(0, 2)) if rarely(draw, 4) else 0
    placed = [draw(_placed(index, names, focus)) for index in range(draw(st.integers(0, 6)))]
    return Case(
        objects=(
            *(draw(_namespaces())),
            *(draw(_node(name, focus)) for name in names),
            *placed,
            *(document for index in range(claims) for document in draw(_claim(index, names))),
            *((_storage_class(), draw(_late_class()), *draw(_space())) if claims else ()),
            draw(_pending(names, claims, focus)),
        ),
        hard_weight=draw(st.sampled_from((1, 1, 0, 30))),
    )


# Made once: hypothesis examines each new strategy, which takes longer than drawing from it.
_TAINTS: Final = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(TAINT_KEYS),
            "value": st.sampled_from(("", "x")),
            "effect": st.sampled_from(EFFECTS),
        }
    ),
    max_size=2,
    unique_by=lambda each: (each["key"], each["effect"]),
)
_ALLOCATABLE: Final = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(("16", "8", "4", "3500m", "1")),
        "memory": st.sampled_from(("16Gi", "8Gi", "4G", "3000000k")),
        "pods": st.sampled_from(("110", "110", "3", "1")),
    },
    optional={
        "example.com/gpu": st.sampled_from(("4", "1", "0")),
        "ephemeral-storage": st.sampled_from(("10Gi", "1Gi")),
        "hugepages-2Mi": st.sampled_from(("64Mi", "8Mi")),
    },
)
_TOLERATIONS: Final = st.lists(
    st.fixed_dictionaries(
        {"key": st.sampled_from(TAINT_KEYS), "value": st.sampled_from(("", "x"))},
        optional={"operator": st.just("Equal"), "effect": st.sampled_from(EFFECTS)},
    )
    | st.fixed_dictionaries(
        {"operator": st.just("Exists")},
        optional={"key": st.sampled_from(TAINT_KEYS), "effect": st.sampled_from(EFFECTS)},
    ),
    max_size=2,
)


# --- nodes --------------------------------------------------------------------------------------------------


@st.composite
def _node(draw: Draw, name: str, focus: Focus) -> Document:
    labels = {HOST: name} if not rarely(draw, 8) else {}
    for key, values in ((ZONE, "ab"), (RACK, ("r1", "r2", "")), ("size", ("1", "8", "x", "010"))):
        if not rarely(draw, 4):
            labels[key] = draw(st.sampled_from(values))
    if rarely(draw, 8):
        labels["topology.kubernetes.io/region"] = draw(st.sampled_from(("east", "west")))
    taints = draw(_TAINTS) if focus.nodes and rarely(draw, 3) else []
    allocatable = draw(_ALLOCATABLE)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": focus.nodes and rarely(draw, 6), "taints": taints},
        "status": {"capacity": allocatable, "allocatable": allocatable, "conditions": READY},
    }


@st.composite
def _namespaces(draw: Draw) -> list[Document]:
    teams = st.sampled_from(({}, {"team": "x"}, {"team": "y"}))
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": draw(teams)}}
        for name in NAMESPACES
    ]


# --- pods ---------------------------------------------------------------------------------------------------


@st.composite
def _placed(draw: Draw, index: int, nodes: list[str], focus: Focus) -> Document:
    # spread constraints count only pods of their own namespace
    namespaces = NAMESPACES[:1] if focus.spread else NAMESPACES
    pod = draw(_pod(f"old{index}", draw(st.sampled_from(namespaces)), nodes, focus))
    pod["spec"] |= {"nodeName": draw(st.sampled_from(nodes)), "schedulerName": "default-scheduler"}
    phase = draw(st.sampled_from(("Running", "Running", "Running", "Pending", "Succeeded", "Failed")))
    pod["status"] = {"phase": phase}
    if rarely(draw, 6):
        pod["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    if rarely(draw, 8):
        pod["status"] |= draw(reported_resources(pod["spec"]))
    return pod


@st.composite
def _pending(draw: Draw, nodes: list[str], claims: int, focus: Focus) -> Document:
    pod = draw(_pod("asker", "default", nodes, focus))
    spec = pod["spec"] | {"schedulerName": "phalanx"}
    if focus.nodes and rarely(draw, 3):
        spec["nodeSelector"] = draw(
            st.dictionaries(
                st.sampled_from((ZONE, RACK, "size")), st.sampled_from(("a", "b", "r1", "", "8")), max_size=1
            )
        )
    if focus.spread:
        spec["topologySpreadConstraints"] = draw(spread_constraints((ZONE, RACK, HOST)))
    spec["volumes"] = [
        {"name": f"v{index}", "persistentVolumeClaim": {"claimName": f"c{index}"}} for index in range(claims)
    ]
    return {**pod, "spec": spec}


@st.composite
def _pod(draw: Draw, name: str, namespace: str, nodes: list[str], focus: Focus) -> Document:
    labels = draw(st.dictionaries(st.sampled_from(LABEL_KEYS), st.sampled_from(("x", "y")), max_size=2))
    affinity = draw(_affinity(nodes, focus, is_placed=name != "asker"))
    requested = draw(pod_resources()) if focus.resources else _NO_RESOURCES
    if focus.ports:
        requested = draw(with_ports(requested))
    spec = {**requested, "affinity": affinity, "tolerations": draw(_TOLERATIONS) if rarely(draw, 2) else []}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": spec,
    }


@st.composite
def _affinity(draw: Draw, nodes: list[str], focus: Focus, *, is_placed: bool) -> Document:
    found: Document = {}
    on_nodes, on_pods = (ZONE, RACK, "size", HOST), (ZONE, RACK, HOST, "absent")
    if focus.nodes and rarely(draw, 3):
        found["nodeAffinity"] = draw(node_affinity(on_nodes, nodes))
    if focus.preferences and rarely(draw, 3):
        found.setdefault("nodeAffinity", {}).update(draw(preferred_node_affinity(on_nodes, nodes)))
    for field in ("podAffinity", "podAntiAffinity"):
        may_require = focus.pods or (focus.preferences and is_placed and field == "podAffinity")
        if may_require and rarely(draw, 2):
            found[field] = draw(pod_affinity(on_pods, NAMESPACES))
        if focus.preferences and rarely(draw, 2):
            found.setdefault(field, {}).update(draw(preferred_pod_affinity(on_pods, NAMESPACES)))
    return found


# --- volumes ------------------------------------------------------------------------------------------------


@st.composite
def _claim(draw: Draw, index: int, nodes: list[str]) -> list[Document]:
    """A claim, and its volume if it has one."""
    return [draw(_late_claim(index, nodes))] if rarely(draw, 2) else draw(_bound_claim(index, nodes))


@st.composite
def _late_claim(draw: Draw, index: int, nodes: list[str]) -> Document:
    """A claim for which a volume is provisioned when its pod is placed."""
    annotations: dict[str, str] = {}
    if rarely(draw, 4):
        annotations["volume.kubernetes.io/selected-node"] = draw(st.sampled_from([*nodes, "gone"]))
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": f"c{index}",
            "namespace": "default",
            "uid": f"claim-{index}",
            "annotations": annotations,
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    }


@st.composite
def _space(draw: Draw) -> list[Document]:
    """A driver that publishes how much space it has left, or does not, and what it publishes."""
    api = {"apiVersion": "storage.k8s.io/v1"}
    spec = {"storageCapacity": not rarely(draw, 3), "attachRequired": False}
    driver = {**api, "kind": "CSIDriver", "metadata": {"name": "disk.example.com"}, "spec": spec}
    amounts = st.sampled_from(("1Gi", "2Gi", "1023Mi"))
    nodes = st.sampled_from(
        (None, {}, {"matchLabels": {ZONE: "a"}}, {"matchLabels": {ZONE: "b", RACK: "r1"}})
    )
    capacity = st.fixed_dictionaries(
        {"nodeTopology": nodes, "storageClassName": st.sampled_from(("late", "late", "fast"))},
        optional={"capacity": amounts, "maximumVolumeSize": amounts},
    )
    published = [
        {
            **api,
            "kind": "CSIStorageCapacity",
            "metadata": {"name": f"s{index}", "namespace": "default"},
            **each,
        }
        for index, each in enumerate(draw(st.lists(capacity, max_size=3)))
    ]
    return [driver, *published] if rarely(draw, 2) else []


@st.composite
def _late_class(draw: Draw) -> Document:
    """Some classes allow all nodes, some those of some zones and racks, some none."""
    expressions = st.fixed_dictionaries(
        {
            "key": st.sampled_from((ZONE, RACK)),
            "values": st.lists(st.sampled_from(("a", "b", "r1")), min_size=1),
        }
    )
    terms = st.fixed_dictionaries({"matchLabelExpressions": st.lists(expressions, max_size=2)})
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "late"},
        "provisioner": draw(st.sampled_from(("disk.example.com", "kubernetes.io/no-provisioner"))),
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": draw(st.lists(terms, max_size=2)) if rarely(draw, 2) else [],
    }


@st.composite
def _bound_claim(draw: Draw, index: int, nodes: list[str]) -> list[Document]:
    """A claim and its volume, with node affinity, location labels, both, or none."""
    labels: dict[str, str] = {}
    if rarely(draw, 3):
        key = draw(st.sampled_from((ZONE, "failure-domain.beta.kubernetes.io/zone")))
        labels[key] = draw(st.sampled_from(("a", "b", "a__b")))
    volume: Document = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "persistentVolumeReclaimPolicy": "Retain",
        "nfs": {"server": "example.com", "path": "/"},
        "claimRef": {"namespace": "default", "name": f"c{index}", "uid": f"claim-{index}"},
    }
    if not rarely(draw, 3):
        volume["nodeAffinity"] = {"required": draw(node_affinity((ZONE, RACK, HOST), nodes))[_REQUIRED]}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"pv{index}", "labels": labels},
            "spec": volume,
            "status": {"phase": "Bound"},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": f"c{index}",
                "namespace": "default",
                "uid": f"claim-{index}",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "volumeName": f"pv{index}",
                "storageClassName": "fast",
                "resources": {"requests": {"storage": "1Gi"}},
            },
            "status": {"phase": "Bound"},
        },
    ]


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _storage_class() -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "example.com/none",
    }
