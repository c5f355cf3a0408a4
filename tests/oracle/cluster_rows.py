"""Clusters written by hand: one for each plugin of the default profile, and one for each disagreement found.

Each row has the answer of kube-scheduler 1.37.
"""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

Document = dict[str, Any]

ZONE: Final = "topology.kubernetes.io/zone"
READY: Final = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]


class Row(Struct, frozen=True):
    """A cluster, the feasible nodes of `default/asker`, and the plugins that refuse the others."""

    name: str
    objects: tuple[Document, ...]
    feasible: tuple[str, ...]
    plugins: tuple[str, ...]
    costs: tuple[tuple[str, int], ...] = ()
    """What nodes cost the pod; nodes without a cost are left out."""
    unsupported: bool = False
    """Whether Phalanx refuses the pod because of a field that it does not support yet."""


def _object(kind: str, name: str, *, api: str = "v1", namespaced: bool = True, **parts: Any) -> Document:
    namespace = {"namespace": "default"} if namespaced else {}
    metadata = {"name": name, **namespace, **parts.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **parts}


def _node(name: str, labels: dict[str, str] | None = None, cpu: str = "4", **spec: Any) -> Document:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return _object(
        "Node",
        name,
        namespaced=False,
        metadata={"labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        spec=spec,
        status={"capacity": amounts, "allocatable": amounts, "conditions": READY},
    )


def _pod(name: str, *, cpu: str = "1", labels: dict[str, str] | None = None, **spec: Any) -> Document:
    container = {"name": "main", "image": "example.com/image", "resources": {"requests": {"cpu": cpu}}}
    return _object(
        "Pod",
        name,
        metadata={"labels": labels or {}},
        spec={"containers": [container | spec.pop("container", {})], **spec},
    )


def _asker(**spec: Any) -> Document:
    return _pod("asker", schedulerName="phalanx", **spec)


def _terms(kind: str, *, times: int = 1, **term: Any) -> Document:
    required = [{"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "x"}}, **term}] * times
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": required}}


_A, _B = _node("a", {ZONE: "east"}), _node("b", {ZONE: "west"})
_HAS_PORT: Final = {"ports": [{"containerPort": 80, "hostPort": 8080}]}


def _port(**fields: Any) -> Document:
    return {"ports": [{"containerPort": 80, "hostPort": 8080, **fields}]}


def _port_of_init(**fields: Any) -> Document:
    return {"name": "init", "image": "example.com/image", **_HAS_PORT, **fields}


def _spread_asker(**fields: Any) -> Document:
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
        **fields,
    }
    return _asker(labels={"app": "x"}, topologySpreadConstraints=[constraint])


_ANYWAY: Final = _spread_asker(whenUnsatisfiable="ScheduleAnyway")


_DEFAULT: Final = _object("Namespace", "default", namespaced=False)

_RULES: Final = (
    Row("resources", (_node("a", cpu="1"), _B, _asker(cpu="2")), ("b",), ("NodeResourcesFit",)),
    Row(
        "taint",
        (_node("a", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]), _B, _asker()),
        ("b",),
        ("TaintToleration",),
    ),
    Row("cordon", (_node("a", unschedulable=True), _B, _asker()), ("b",), ("NodeUnschedulable",)),
    Row("node selector", (_A, _B, _asker(nodeSelector={ZONE: "west"})), ("b",), ("NodeAffinity",)),
    Row(
        "pod affinity",
        (
            _DEFAULT,
            _A,
            _B,
            _pod("old", labels={"app": "x"}, nodeName="b"),
            _asker(affinity=_terms("podAffinity")),
        ),
        ("b",),
        ("InterPodAffinity",),
    ),
    Row(
        "anti-affinity of a pod that runs",
        (
            _DEFAULT,
            _A,
            _B,
            _pod("old", nodeName="a", affinity=_terms("podAntiAffinity")),
            _asker(labels={"app": "x"}),
        ),
        ("b",),
        ("InterPodAffinity",),
    ),
    Row(
        "host port",
        (_A, _B, _pod("old", nodeName="a", container=_HAS_PORT), _asker(container=_HAS_PORT)),
        ("b",),
        ("NodePorts",),
    ),
    Row(
        "host port of another address, of the same address, and of all addresses",
        (
            _A,
            _B,
            _node("c"),
            _pod("other", nodeName="a", container=_port(hostIP="10.0.0.2")),
            _pod("same", nodeName="b", container=_port(hostIP="10.0.0.1")),
            _pod("all", nodeName="c", container=_HAS_PORT),
            _asker(container=_port(hostIP="10.0.0.1")),
        ),
        ("a",),
        ("NodePorts",),
    ),
    Row(
        "host port of all addresses beside one of an address, and of another protocol",
        (
            _A,
            _B,
            _pod("one", nodeName="a", container=_port(hostIP="10.0.0.1")),
            _pod("udp", nodeName="b", container=_port(protocol="UDP")),
            _asker(container=_HAS_PORT),
        ),
        ("b",),
        ("NodePorts",),
    ),
    Row(
        "host ports of sidecars count, those of init containers do not",
        (
            _A,
            _B,
            _pod("sidecar", nodeName="a", initContainers=[_port_of_init(restartPolicy="Always")]),
            _pod("init", nodeName="b", initContainers=[_port_of_init()]),
            _asker(container=_HAS_PORT),
        ),
        ("b",),
        ("NodePorts",),
    ),
    Row(
        "ports on the host network",
        (
            _A,
            _B,
            _pod("old", nodeName="a", hostNetwork=True, container={"ports": [{"containerPort": 8080}]}),
            _asker(container=_HAS_PORT),
        ),
        ("b",),
        ("NodePorts",),
    ),
    Row(
        "spread",
        (
            _A,
            _B,
            _pod("old", labels={"app": "x"}, nodeName="a"),
            _asker(
                labels={"app": "x"},
                topologySpreadConstraints=[
                    {
                        "maxSkew": 1,
                        "topologyKey": ZONE,
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"app": "x"}},
                    }
                ],
            ),
        ),
        ("b",),
        ("PodTopologySpread",),
    ),
    Row(
        "spread counts nodes whose taints the pod does not tolerate",
        (
            _A,
            _B,
            _node("c", {ZONE: "north"}, taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]),
            _pod("old", labels={"app": "x"}, nodeName="a"),
            _pod("other", labels={"app": "x"}, nodeName="b"),
            _spread_asker(),
        ),
        (),
        ("PodTopologySpread", "TaintToleration"),
    ),
    Row(
        "spread that honors taints",
        (
            _A,
            _B,
            _node("c", {ZONE: "north"}, taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]),
            _pod("old", labels={"app": "x"}, nodeName="a"),
            _pod("other", labels={"app": "x"}, nodeName="b"),
            _spread_asker(nodeTaintsPolicy="Honor"),
        ),
        ("a", "b"),
        ("TaintToleration",),
    ),
    Row(
        "spread with fewer domains than minDomains",
        (_A, _B, _pod("old", labels={"app": "x"}, nodeName="a"), _spread_asker(minDomains=3)),
        ("b",),
        ("PodTopologySpread",),
    ),
    Row(
        "spread by an empty selector counts nothing",
        (_A, _B, _node("c"), _pod("old", labels={"app": "x"}, nodeName="a"), _spread_asker(labelSelector={})),
        ("a", "b"),
        ("PodTopologySpread",),
    ),
    Row(
        "preferred spread",
        (_A, _B, _pod("old", labels={"app": "x"}, nodeName="a"), _ANYWAY),
        ("a", "b"),
        (),
        costs=(("a", 1386),),
    ),
    Row(
        "preferred spread where a node has no zone",
        (_A, _node("c"), _pod("old", labels={"app": "x"}, nodeName="a"), _ANYWAY),
        ("a", "c"),
        (),
        costs=(("a", 1098), ("c", 1001 * 1098)),
    ),
    Row(
        "preferred spread by an empty selector counts nothing",
        (
            _A,
            _B,
            _pod("old", labels={"app": "x"}, nodeName="a"),
            _spread_asker(whenUnsatisfiable="ScheduleAnyway", labelSelector={}),
        ),
        ("a", "b"),
        (),
    ),
)


def _preferred(kind: str, weight: int, **term: Any) -> Document:
    """A preferred term for pods of `x` in the zone."""
    one = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "x"}}, **term}
    terms = [{"weight": weight, "podAffinityTerm": one}]
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


_SELECTED: Final = _pod("old", labels={"app": "x"}, nodeName="b")
_PREFERENCES: Final = (
    Row(
        "preferred pod affinity",
        (_DEFAULT, _A, _B, _SELECTED, _asker(affinity=_preferred("podAffinity", 7))),
        ("a", "b"),
        (),
        costs=(("a", 7),),
    ),
    Row(
        "preferred pod anti-affinity",
        (_DEFAULT, _A, _B, _SELECTED, _asker(affinity=_preferred("podAntiAffinity", 7))),
        ("a", "b"),
        (),
        costs=(("b", 7),),
    ),
    Row(
        "preferred anti-affinity of a pod that runs",
        (
            _DEFAULT,
            _A,
            _B,
            _pod("old", nodeName="a", affinity=_preferred("podAntiAffinity", 7)),
            _asker(labels={"app": "x"}),
        ),
        ("a", "b"),
        (),
        costs=(("a", 7),),
    ),
    Row(
        "required affinity of a pod that runs",
        (
            _DEFAULT,
            _A,
            _B,
            _pod("old", nodeName="a", affinity=_terms("podAffinity")),
            _asker(labels={"app": "x"}),
        ),
        ("a", "b"),
        (),
        costs=(("b", 1),),
    ),
    Row(
        "required affinity of a pod that runs, the same term twice",
        (
            _DEFAULT,
            _A,
            _B,
            _pod("old", nodeName="a", affinity=_terms("podAffinity", times=2)),
            _asker(labels={"app": "x"}),
        ),
        ("a", "b"),
        (),
        costs=(("b", 2),),
    ),
    Row(
        "taint that is only preferred",
        (_node("a", taints=[{"key": "k", "effect": "PreferNoSchedule"}]), _B, _asker()),
        ("a", "b"),
        (),
        costs=(("a", 100),),
    ),
)

_DRIVER: Final = "example.com"
_CLAIMS: Final = (
    Row(
        "device of a resource claim",
        (
            _A,
            _B,
            _object("DeviceClass", "gpu", api="resource.k8s.io/v1", namespaced=False, spec={}),
            _object(
                "ResourceSlice",
                "slice",
                api="resource.k8s.io/v1",
                namespaced=False,
                spec={
                    "driver": _DRIVER,
                    "nodeName": "b",
                    "pool": {"name": "b", "generation": 1, "resourceSliceCount": 1},
                    "devices": [{"name": "gpu-0"}],
                },
            ),
            _object(
                "ResourceClaim",
                "claim",
                api="resource.k8s.io/v1",
                spec={"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
            ),
            _asker(resourceClaims=[{"name": "gpu", "resourceClaimName": "claim"}]),
        ),
        ("b",),
        ("DynamicResources",),
        unsupported=True,
    ),
)


def _bound_volume(name: str, terms: list[Document]) -> tuple[Document, Document]:
    """A claim and its volume."""
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    volume = {
        **common,
        "capacity": {"storage": "1Gi"},
        "nfs": {"server": "example.com", "path": "/"},
        "claimRef": {"namespace": "default", "name": name, "uid": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    claim = {**common, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    return (
        _object("PersistentVolume", name, namespaced=False, spec=volume, status={"phase": "Bound"}),
        _object(
            "PersistentVolumeClaim",
            name,
            metadata={"uid": name, "annotations": annotations},
            spec=claim,
            status={"phase": "Bound"},
        ),
    )


_MOUNTS: Final = _asker(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
_NAMED: Final = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
_WEST: Final = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["west"]}]}

_BETA: Final = "failure-domain.beta.kubernetes.io/zone"


def _volume_in_zone(label: str, zone: str) -> tuple[Document, Document]:
    """A bound claim whose volume has this label and no affinity."""
    volume, claim = _bound_volume("data", [])
    del volume["spec"]["nodeAffinity"]
    volume["metadata"]["labels"] = {label: zone}
    return volume, claim


_BETA_NODES: Final = (
    _node("a", {_BETA: "west"}),
    _node("b", {_BETA: "east"}),
    _node("c", {ZONE: "west"}),
    _node("d", {_BETA: "east", ZONE: "west"}),
)

_VOLUMES: Final = (
    # Found by kube-scheduler's table tests: beta labels of nodes were not read.
    Row(
        "volume and nodes with beta labels of zones",
        (*_BETA_NODES, *_volume_in_zone(_BETA, "west"), _MOUNTS),
        ("a", "c"),
        ("VolumeZone",),
    ),
    Row(
        "volume with a stable label, nodes with beta labels",
        (*_BETA_NODES, *_volume_in_zone(ZONE, "west"), _MOUNTS),
        ("c", "d"),
        ("VolumeZone",),
    ),
    Row("volume of a zone", (_A, _B, *_bound_volume("data", [_WEST]), _MOUNTS), ("b",), ("VolumeBinding",)),
    # Found by random clusters: Phalanx honoured the field.
    Row("volume of a node by name", (_A, _B, *_bound_volume("data", [_NAMED]), _MOUNTS), ("a", "b"), ()),
)


def _claim(name: str, mode: str = "ReadWriteOncePod", owner: str = "") -> tuple[Document, Document]:
    """A bound claim with this access mode, and its volume; `owner`: UID of the pod that controls it."""
    volume, claim = _bound_volume(name, [{"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}])
    for each in (volume, claim):
        each["spec"]["accessModes"] = [mode]
    if owner:
        claim["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": "asker", "uid": owner, "controller": True}
        ]
    return volume, claim


_DATA: Final[list[Document]] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
_SCRATCH: Final[list[Document]] = [
    {
        "name": "scratch",
        "ephemeral": {
            "volumeClaimTemplate": {
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            }
        },
    }
]
_ASKER: Final = _asker(volumes=_SCRATCH)
_WITH_SCRATCH: Final[Document] = {**_ASKER, "metadata": {**_ASKER["metadata"], "uid": "asker"}}

_USERS: Final = (
    Row(
        "claim for one pod, which another pod uses",
        (_A, _B, *_claim("data"), _pod("old", nodeName="b", volumes=_DATA), _MOUNTS),
        (),
        ("VolumeRestrictions",),
    ),
    Row(
        "claim for one pod, which a pod that has ended used",
        (
            _A,
            _B,
            *_claim("data"),
            {**_pod("old", nodeName="b", volumes=_DATA), "status": {"phase": "Succeeded"}},
            _MOUNTS,
        ),
        ("a", "b"),
        (),
    ),
    Row(
        "claim for several pods, which another pod uses",
        (_A, _B, *_claim("data", "ReadWriteOnce"), _pod("old", nodeName="b", volumes=_DATA), _MOUNTS),
        ("a", "b"),
        (),
    ),
    Row("ephemeral volume without a claim", (_A, _B, _WITH_SCRATCH), (), ("VolumeBinding",)),
    Row(
        "ephemeral volume",
        (_A, _B, *_claim("asker-scratch", "ReadWriteOnce", owner="asker"), _WITH_SCRATCH),
        ("a", "b"),
        (),
    ),
    Row(
        "ephemeral volume whose claim is that of another pod",
        (_A, _B, *_claim("asker-scratch", "ReadWriteOnce", owner="other"), _WITH_SCRATCH),
        (),
        ("VolumeBinding",),
    ),
)


def _late(*zones: str, provisioner: str = "disk.example.com", node: str = "") -> tuple[Document, Document]:
    """A claim whose class provisions in these zones when a pod is placed; `node`: the selected one."""
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": [zone]}]} for zone in zones]
    storage_class = _object(
        "StorageClass",
        "late",
        api="storage.k8s.io/v1",
        namespaced=False,
        provisioner=provisioner,
        volumeBindingMode="WaitForFirstConsumer",
        allowedTopologies=terms,
    )
    claim = _object(
        "PersistentVolumeClaim",
        "data",
        metadata={"annotations": {"volume.kubernetes.io/selected-node": node} if node else {}},
        spec={
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    )
    return storage_class, claim


_PROVISIONED: Final = (
    Row("volume that can be provisioned anywhere", (_A, _B, *_late(), _MOUNTS), ("a", "b"), ()),
    Row(
        "volume that can be provisioned in a zone",
        (_A, _B, *_late("west", "north"), _MOUNTS),
        ("b",),
        ("VolumeBinding",),
    ),
    Row("volume for a selected node", (_A, _B, *_late(node="b"), _MOUNTS), ("b",), ("VolumeBinding",)),
    Row(
        "volume for a selected node that the class does not allow",
        (_A, _B, *_late("east", node="b"), _MOUNTS),
        (),
        ("VolumeBinding",),
    ),
    Row(
        "class without a provisioner and without volumes",
        (_A, _B, *_late(provisioner="kubernetes.io/no-provisioner"), _MOUNTS),
        (),
        ("VolumeBinding",),
    ),
)


def _capacity(amount: str | None, zone: str, **fields: Any) -> tuple[Document, Document]:
    """A driver that publishes its capacity, and how much it has for volumes in this zone."""
    return (
        _object(
            "CSIDriver",
            "disk.example.com",
            api="storage.k8s.io/v1",
            namespaced=False,
            spec={"storageCapacity": True, "attachRequired": False},
        ),
        _object(
            "CSIStorageCapacity",
            "left",
            api="storage.k8s.io/v1",
            storageClassName="late",
            nodeTopology={"matchLabels": {ZONE: zone}},
            **(fields | {"capacity": amount} if amount else fields),
        ),
    )


def space_for_one_claim() -> tuple[Document, ...]:
    """A pod with two claims of 1Gi, each of which fits the space that is published."""
    storage_class, claim = _late()
    other = {**claim, "metadata": {**claim["metadata"], "name": "more"}}
    names = ("data", "more")
    asker = _asker(volumes=[{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names])
    return (_A, _B, storage_class, claim, other, *_capacity("1Gi", "west"), asker)


_SPACE: Final = (
    Row(
        "space for a volume in one zone",
        (_A, _B, *_late(), *_capacity("1Gi", "west"), _MOUNTS),
        ("b",),
        ("VolumeBinding",),
    ),
    Row(
        "too little space for a volume",
        (_A, _B, *_late(), *_capacity("1023Mi", "west"), _MOUNTS),
        (),
        ("VolumeBinding",),
    ),
    Row(
        "space of which only the largest volume is known",
        (_A, _B, *_late(), *_capacity(None, "west", maximumVolumeSize="1Gi"), _MOUNTS),
        ("b",),
        ("VolumeBinding",),
    ),
    Row(
        "volume that is larger than the largest one",
        (_A, _B, *_late(), *_capacity("1Ti", "west", maximumVolumeSize="500Mi"), _MOUNTS),
        (),
        ("VolumeBinding",),
    ),
)


def _csi_node(name: str, count: int | None, driver: str = "disk.example.com") -> Document:
    allocatable = {} if count is None else {"allocatable": {"count": count}}
    drivers = [{"name": driver, "nodeID": name, "topologyKeys": [], **allocatable}]
    return _object("CSINode", name, api="storage.k8s.io/v1", namespaced=False, spec={"drivers": drivers})


def _disk(name: str, claim: str = "") -> tuple[Document, Document]:
    """A bound claim, and its volume of a CSI driver."""
    volume, bound = _claim(claim or name, "ReadWriteOnce")
    del volume["spec"]["nfs"]
    volume["spec"]["csi"] = {"driver": "disk.example.com", "volumeHandle": f"disk-{name}"}
    return volume, bound


_OTHER: Final[list[Document]] = [{"name": "other", "persistentVolumeClaim": {"claimName": "other"}}]
_FULL: Final = (_A, _B, _csi_node("a", 1), _csi_node("b", 2), *_disk("other"))
_OLD: Final = _pod("old", nodeName="a", volumes=_OTHER)
_MUST_HAVE: Final = _object(
    "CSIDriver",
    "disk.example.com",
    api="storage.k8s.io/v1",
    namespaced=False,
    spec={"preventPodSchedulingIfMissing": True},
)


def _inline(
    name: str, key: str, *, read_only: bool | None = False, node: str = "", **source: Any
) -> Document:
    """A pod with a disk and no claim."""
    fields = source if read_only is None else {**source, "readOnly": read_only}
    volumes = [{"name": "disk", key: fields}]
    return _pod(name, nodeName=node, volumes=volumes) if node else _asker(volumes=volumes)


_IQN: Final = "iqn.2001-04.com.example"
_TARGET: Final = {"targetPortal": "10.0.0.1:3260", "lun": 0}


def _disk_rows() -> Iterator[Row]:
    """An asker and a pod on node a that use disks, of every kind and mode."""
    refused = ("VolumeRestrictions",)
    sources: list[tuple[str, str, Document, Document]] = [
        ("GCE", "gcePersistentDisk", {"pdName": "d"}, {"pdName": "other"}),
        ("iSCSI", "iscsi", {**_TARGET, "iqn": f"{_IQN}:d"}, {**_TARGET, "iqn": f"{_IQN}:other"}),
        ("RBD", "rbd", {"monitors": ["m1", "m2"], "image": "d"}, {"monitors": ["m3"], "image": "d"}),
    ]
    for title, key, source, other in sources:
        for mine, theirs in ((False, False), (True, False), (False, True), (True, True)):
            objects = (_A, _B, _inline("old", key, read_only=theirs, node="a", **source))
            asker = _inline("asker", key, read_only=mine, **source)
            is_free = mine and theirs
            yield Row(
                f"{title} disk, read only: {mine}, by another pod: {theirs}",
                (*objects, asker),
                ("a", "b") if is_free else ("b",),
                () if is_free else refused,
            )
        objects = (_A, _B, _inline("old", key, node="a", **other))
        yield Row(f"another {title} disk", (*objects, _inline("asker", key, **source)), ("a", "b"), ())
    rbd = {"monitors": ["m2", "m3"], "image": "d", "pool": "rbd"}
    shared = (_A, _B, _inline("old", "rbd", node="a", **rbd))
    yield Row(
        "RBD image by a common monitor",
        (*shared, _inline("asker", "rbd", monitors=["m1", "m2"], image="d")),
        ("b",),
        refused,
    )
    ebs = {"volumeID": "d"}
    yield Row(
        "EBS volume, also read only",
        (
            _A,
            _B,
            _inline("old", "awsElasticBlockStore", read_only=True, node="a", **ebs),
            _inline("asker", "awsElasticBlockStore", read_only=True, **ebs),
        ),
        ("b",),
        refused,
    )


_LIMITS: Final = (
    Row("volume beyond the limit", (*_FULL, *_disk("data"), _OLD, _MOUNTS), ("b",), ("NodeVolumeLimits",)),
    Row("volume to provision, beyond", (*_FULL, *_late(), _OLD, _MOUNTS), ("b",), ("NodeVolumeLimits",)),
    Row("volume within the limit", (*_FULL, *_disk("data"), _MOUNTS), ("a", "b"), ()),
    Row(
        "more volumes than the limit",
        (*_FULL, *_disk("data"), _asker(volumes=[*_DATA, *_OTHER])),
        ("b",),
        ("NodeVolumeLimits",),
    ),
    Row(
        "limit of another driver",
        (_A, _B, _csi_node("a", 0, "x.example.com"), *_disk("data"), _MOUNTS),
        ("a", "b"),
        (),
    ),
    Row(
        "driver that must be installed",
        (_A, _B, _MUST_HAVE, _csi_node("b", None), *_disk("data"), _MOUNTS),
        ("b",),
        ("NodeVolumeLimits",),
    ),
)

ROWS: Final = (
    *_RULES,
    *_PREFERENCES,
    *_CLAIMS,
    *_VOLUMES,
    *_USERS,
    *_PROVISIONED,
    *_SPACE,
    *_LIMITS,
    *_disk_rows(),
)
