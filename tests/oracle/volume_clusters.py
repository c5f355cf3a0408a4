"""Random small clusters with volumes that exist already, and a pod whose claims may take them.

Not drawn, since Phalanx differs on purpose (docs/volumes.md): claims of one pod with different access modes,
volume modes, selectors or classes of attributes, among which kube-scheduler does not look for another
assignment; location labels on volumes that are not bound, which kube-scheduler does not read before the claim
is bound; and volumes that name a claim of a class with a provisioner, which kube-scheduler ignores on nodes
that the volume excludes, though the volume controller binds it.
"""

from typing import Any, Final

from hypothesis import strategies as st

from tests.oracle.clusters import HOST, RACK, READY, ZONE, Case, Document, Draw
from tests.oracle.containers import rarely

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_SIZES: Final = ("1023Mi", "1Gi", "2Gi", "3Gi")
_TIERS: Final = ("fast", "slow")


@st.composite
def volume_cases(draw: Draw) -> Case:
    """At most four nodes, five volumes, and three claims of one pod."""
    names = [f"n{index}" for index in range(draw(st.integers(1, 4)))]
    provisioner = draw(st.sampled_from((NO_PROVISIONER, NO_PROVISIONER, "disk.example.com")))
    wanted = draw(_wanted())
    claims = [draw(_claim(index, names, wanted)) for index in range(draw(st.integers(1, 3)))]
    may_name = provisioner == NO_PROVISIONER
    volumes = [draw(_volume(index, names, may_name=may_name)) for index in range(draw(st.integers(0, 5)))]
    return Case(
        objects=(
            *(draw(_node(name)) for name in names),
            draw(_class(provisioner)),
            *volumes,
            *claims,
            _asker(len(claims)),
        ),
        hard_weight=1,
    )


@st.composite
def _node(draw: Draw, name: str) -> Document:
    labels = {HOST: name}
    if not rarely(draw, 5):
        labels[ZONE] = draw(st.sampled_from(("a", "b")))
    if rarely(draw, 2):
        labels[RACK] = draw(st.sampled_from(("r1", "r2")))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"conditions": READY, "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }


@st.composite
def _class(draw: Draw, provisioner: str) -> Document:
    expressions = [{"key": ZONE, "values": [draw(st.sampled_from(("a", "b")))]}]
    topologies = [{"matchLabelExpressions": expressions}] if rarely(draw, 2) else []
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "late"},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": topologies,
    }


@st.composite
def _wanted(draw: Draw) -> Document:
    """What all claims ask for beside their size."""
    found: Document = {"accessModes": draw(st.sampled_from((["ReadWriteOnce"], ["ReadOnlyMany"])))}
    if rarely(draw, 3):
        values = draw(st.lists(st.sampled_from(_TIERS), min_size=1, unique=True))
        expression = draw(
            st.sampled_from(
                (
                    {"key": "tier", "operator": "In", "values": values},
                    {"key": "tier", "operator": "NotIn", "values": values},
                    {"key": "tier", "operator": "Exists"},
                    {"key": "tier", "operator": "DoesNotExist"},
                )
            )
        )
        found["selector"] = {"matchExpressions": [expression]}
    if rarely(draw, 6):
        found["volumeMode"] = "Block"
    if rarely(draw, 8):
        found["volumeAttributesClassName"] = "gold"
    return found


@st.composite
def _claim(draw: Draw, index: int, nodes: list[str], wanted: Document) -> Document:
    annotations: dict[str, str] = {}
    if rarely(draw, 8):
        annotations["volume.kubernetes.io/selected-node"] = draw(st.sampled_from(nodes))
    size = draw(st.sampled_from(_SIZES))
    spec = {**wanted, "storageClassName": "late", "resources": {"requests": {"storage": size}}}
    meta = {"name": f"c{index}", "namespace": "default", "uid": f"claim-{index}", "annotations": annotations}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta,
        "spec": spec,
        "status": {"phase": "Pending"},
    }


@st.composite
def _volume(draw: Draw, index: int, nodes: list[str], *, may_name: bool) -> Document:
    modes = (["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"], ["ReadOnlyMany"])
    spec: Document = {
        "capacity": {"storage": draw(st.sampled_from(_SIZES))},
        "accessModes": draw(st.sampled_from(modes)),
        "storageClassName": "other" if rarely(draw, 8) else "late",
        "persistentVolumeReclaimPolicy": "Retain",
        "nfs": {"server": "example.com", "path": "/"},
    }
    if rarely(draw, 6):
        spec["volumeMode"] = "Block"
    if rarely(draw, 8):
        spec["volumeAttributesClassName"] = "gold"
    if not rarely(draw, 4):
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [draw(_term(nodes))]}}
    meta: Document = {"name": f"pv{index}", "labels": {}}
    if rarely(draw, 2):
        meta["labels"]["tier"] = draw(st.sampled_from(_TIERS))
    phase = "Released" if rarely(draw, 8) else "Available"
    if may_name and rarely(draw, 6):
        number = draw(st.integers(0, 2))
        uids = ("", f"claim-{number}", "another")
        reference = {"namespace": "default", "name": f"c{number}", "uid": draw(st.sampled_from(uids))}
        spec["claimRef"] = {key: value for key, value in reference.items() if value}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": meta,
        "spec": spec,
        "status": {"phase": phase},
    }


@st.composite
def _term(draw: Draw, nodes: list[str]) -> Document:
    """One node, some nodes, a zone, or a rack."""
    key, values = draw(st.sampled_from(((HOST, tuple(nodes)), (ZONE, ("a", "b")), (RACK, ("r1", "r2")))))
    some = draw(st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True))
    return {"matchExpressions": [{"key": key, "operator": "In", "values": some}]}


def _asker(claims: int) -> Document:
    volumes: list[dict[str, Any]] = [
        {"name": f"v{index}", "persistentVolumeClaim": {"claimName": f"c{index}"}} for index in range(claims)
    ]
    containers = [{"name": "main", "image": "example.com/image", "resources": {"requests": {"cpu": "1"}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "asker", "namespace": "default", "uid": "asker"},
        "spec": {"schedulerName": "phalanx", "containers": containers, "volumes": volumes},
    }
