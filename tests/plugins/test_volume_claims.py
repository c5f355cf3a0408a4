"""Which claims let a pod be placed, compared with the table of docs/volumes.md over random objects.

The oracle is that table, written from kube-scheduler's VolumeBinding plugin (`podHasPVCs`, `isPVCFullyBound`,
`GetPodVolumeClaims`, `checkBoundClaims`) and the volume controller's `syncBoundClaim`. It reads the objects
as an API server sends them, and shares no code with the scheduler.
"""

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from phalanx.cycle import Engine
from phalanx.deciders.port import new_cache
from phalanx.framework.config import SchedulerConfig
from phalanx.model.api.kinds import KINDS
from phalanx.model.events import Applied
from phalanx.model.memory import Memory

from tests.examples import holds
from tests.model.written import node, pod, written

Document = dict[str, Any]

BOUND = "pv.kubernetes.io/bind-completed"
SELECTED = "volume.kubernetes.io/selected-node"
CLASSES = {
    "late": ("WaitForFirstConsumer", "example.com/disk"),
    "static": ("WaitForFirstConsumer", "kubernetes.io/no-provisioner"),
    "early": ("Immediate", "example.com/disk"),
}
NODES = {"n-a": {"zone": "a"}, "n-b": {"zone": "b"}}


def random_claim(random: Random) -> Document:
    annotations = {}
    if random.random() < 0.6:
        annotations[BOUND] = random.choice(("yes", ""))
    if random.random() < 0.2:
        annotations[SELECTED] = random.choice(("n-a", "n-b", "gone"))
    if random.random() < 0.2:
        annotations["volume.beta.kubernetes.io/storage-class"] = random.choice(
            ("late", "static", "early", "")
        )
    meta: Document = {"name": "c", "namespace": "team", "uid": "uid-c", "annotations": annotations}
    if random.random() < 0.1:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec = {"volumeName": random.choice(("", "v", "v", "v", "gone"))}
    if random.random() < 0.6:
        spec["storageClassName"] = random.choice(("late", "late", "static", "early", "none", ""))
    phase = random.choice(("Pending", "Bound", "Bound", "Lost", ""))
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def random_volume(random: Random) -> Document:
    spec: Document = {}
    if random.random() < 0.7:
        namespace = random.choice(("team", "team", "team", "other"))
        reference = {"namespace": namespace, "name": random.choice("cccd")}
        if random.random() < 0.6:
            reference["uid"] = random.choice(("uid-c", "uid-c", "uid-old"))
        spec["claimRef"] = reference
    if random.random() < 0.6:
        zones = random.sample("abc", random.randint(1, 2))
        expression = {"key": "zone", "operator": "In", "values": zones}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    phase = random.choice(("Bound", "Available"))
    return {"metadata": {"name": "v", "uid": "uid-v"}, "spec": spec, "status": {"phase": phase}}


def usable_nodes(claim: Document | None, volume: Document | None) -> set[str]:
    """The nodes on which a pod with this claim may be placed, by the table. `volume` is the one named v."""
    if claim is None or claim["status"]["phase"] == "Lost" or "deletionTimestamp" in claim["metadata"]:
        return set()
    annotations = claim["metadata"]["annotations"]
    if not claim["spec"]["volumeName"]:
        name = annotations.get(
            "volume.beta.kubernetes.io/storage-class", claim["spec"].get("storageClassName")
        )
        selected = annotations.get(SELECTED)
        return set() if name != "late" else {selected} & set(NODES) if selected else set(NODES)
    if claim["spec"]["volumeName"] != "v" or volume is None:
        return set()
    if BOUND not in claim["metadata"]["annotations"]:
        return set()
    owner = volume["spec"].get("claimRef", {"namespace": "team", "name": "c"})
    if (owner["namespace"], owner["name"], owner.get("uid", "uid-c")) != ("team", "c", "uid-c"):
        return set()
    affinity = volume["spec"].get("nodeAffinity")
    if affinity is None:
        return set(NODES)
    (term,) = affinity["required"]["nodeSelectorTerms"]
    zones = term["matchExpressions"][0]["values"]
    return {name for name, labels in NODES.items() if labels["zone"] in zones}


def node_of_pod(objects: list[Any]) -> tuple[str | None, str]:
    """The node that the scheduler decides, and the reason if there is none."""
    config = SchedulerConfig()
    cache = new_cache(config)
    mounts = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    nodes = [node(name, labels=labels) for name, labels in NODES.items()]
    cache.apply_all(map(Applied, [*objects, *nodes, pod("p", volumes=mounts)]))
    result = Engine(config).decide(cache.snapshot(now=0, seed=0, memory=Memory()))
    binds = [bind for placement in result.placements for bind in placement.binds]
    return (binds[0].node, "") if binds else (None, result.verdicts[0].reason)


def disagreement(seed: int) -> str:
    """How the scheduler and the table differ on random objects; empty if they agree."""
    random = Random(seed)
    claim = random_claim(random) if random.random() < 0.95 else None
    volume = random_volume(random) if random.random() < 0.9 else None
    documents = [("PersistentVolumeClaim", claim), ("PersistentVolume", volume)]
    for name, (mode, provisioner) in CLASSES.items():
        parts = {"volumeBindingMode": mode, "provisioner": provisioner}
        documents.append(("StorageClass", {"metadata": {"name": name}, **parts}))
    objects = [written(KINDS[kind].struct, document) for kind, document in documents if document is not None]
    random.shuffle(objects)
    found, reason = node_of_pod(objects)
    allowed = usable_nodes(claim, volume)
    if found is None and not allowed:
        return "" if reason in ("VolumeNotBound", "NoEligibleNode") else f"reason {reason}"
    return "" if found in allowed else f"placed on {found}, {sorted(allowed)} are allowed"


@holds(150)
@given(seed=st.integers(0, 2**32))
def test_a_pod_is_placed_where_the_table_allows_it(seed: int) -> None:
    assert not disagreement(seed)
