"""Random mutations of valid objects of Kubernetes, in the fields that the scheduler reads."""

import copy
from collections.abc import Iterator
from random import Random
from typing import Any, Final

Object = dict[str, Any]

_SELECTOR: Final[Object] = {
    "matchLabels": {"app": "x"},
    "matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
        {"key": "example.com/left", "operator": "DoesNotExist"},
    ],
}
_TERM: Final[Object] = {
    "topologyKey": "kubernetes.io/hostname",
    "labelSelector": _SELECTOR,
    "namespaceSelector": {"matchLabels": {"team": "x"}},
    "namespaces": ["default"],
    "matchLabelKeys": ["pod-template-hash"],
    "mismatchLabelKeys": ["revision"],
}
_NODE_SELECTOR: Final[Object] = {
    "nodeSelectorTerms": [
        {
            "matchExpressions": [
                {"key": "zone", "operator": "NotIn", "values": ["a"]},
                {"key": "cores", "operator": "Gt", "values": ["8"]},
            ],
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}],
        }
    ]
}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _meta(name: str, **more: Any) -> Object:
    return {
        "name": name,
        "labels": {"app": "x", "example.com/tier": "a", "pod-template-hash": "1"},
        "annotations": {"example.com/Note": "any text", "pv.kubernetes.io/bind-completed": "yes"},
        **more,
    }


def _owner(name: str, *, controller: bool) -> Object:
    return {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name, "controller": controller}


POD: Final[Object] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": _meta(
        "pod-1",
        namespace="default",
        ownerReferences=[_owner("a", controller=True), _owner("b", controller=False)],
    ),
    "spec": {
        "schedulerName": "phalanx",
        "restartPolicy": "Never",
        "hostNetwork": False,
        "containers": [
            {
                "name": "main",
                "image": "x",
                "ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81}],
                "resources": {
                    "requests": {
                        "cpu": "500m",
                        "memory": "1Gi",
                        "hugepages-2Mi": "4Mi",
                        "example.com/gpu": "2",
                    },
                    "limits": {"cpu": 1, "memory": "1Gi", "hugepages-2Mi": "4Mi", "example.com/gpu": "2"},
                },
            },
            {"name": "side", "image": "x", "resources": {"limits": {"cpu": "0.1", "example.com/gpu": 1}}},
        ],
        "initContainers": [
            {
                "name": "init",
                "image": "x",
                "restartPolicy": "Always",
                "ports": [{"containerPort": 80, "hostPort": 80}],
                "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "2"}},
            },
            {"name": "first", "image": "x", "resources": {"requests": {"cpu": "100m", "memory": "1M"}}},
        ],
        "resources": {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"cpu": "3"}},
        "nodeSelector": {"zone": "a", "example.com/pool": ""},
        "affinity": {
            "nodeAffinity": {
                _REQUIRED: _NODE_SELECTOR,
                _PREFERRED: [{"weight": 7, "preference": _NODE_SELECTOR["nodeSelectorTerms"][0]}],
            },
            "podAffinity": {_REQUIRED: [_TERM], _PREFERRED: [{"weight": 7, "podAffinityTerm": _TERM}]},
            "podAntiAffinity": {_REQUIRED: [_TERM, {"topologyKey": "zone"}]},
        },
        "tolerations": [
            {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "busy", "value": "yes", "effect": "NoExecute", "tolerationSeconds": 7},
            {"operator": "Exists"},
        ],
        "schedulingGates": [{"name": "example.com/quota"}, {"name": "other"}],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "more", "persistentVolumeClaim": {"claimName": "more"}},
        ],
    },
}

BASES: Final[dict[str, Object]] = {
    "Pod": POD,
    "Node": {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _meta("node-1"),
        "spec": {
            "unschedulable": True,
            "taints": [
                {"key": "example.com/gpu", "value": "yes", "effect": "NoSchedule"},
                {"key": "example.com/gpu", "effect": "NoExecute"},
            ],
        },
        "status": {
            "capacity": {"cpu": "8", "memory": "64Gi", "example.com/gpu": "8", "pods": "110"},
            "allocatable": {
                "cpu": "7900m",
                "hugepages-2Mi": "2Mi",
                "example.com/gpu": 8,
                "ephemeral-storage": "1e3",
            },
        },
    },
    "PriorityClass": {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": _meta("high"),
        "value": 1000,
        "globalDefault": False,
        "preemptionPolicy": "Never",
    },
    "Namespace": {"apiVersion": "v1", "kind": "Namespace", "metadata": _meta("team-1")},
    "PodDisruptionBudget": {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _meta("budget", namespace="default"),
        "spec": {"minAvailable": 2, "selector": _SELECTOR},
    },
    "PersistentVolumeClaim": {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _meta("data", namespace="default"),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "fast",
            "volumeName": "volume-1",
        },
    },
    "PersistentVolume": {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": _meta("volume-1"),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": "example.com", "volumeHandle": "x"},
            "nodeAffinity": {"required": _NODE_SELECTOR},
            "claimRef": {"namespace": "default", "name": "data"},
        },
    },
    "StorageClass": {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": _meta("fast"),
        "provisioner": "example.com/disk",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
}

NOT_READ: Final = frozenset(
    {"apiVersion", "kind", "namespace", "image", "accessModes", "csi", "provisioner", "uid", "storage"}
)
"""Keys that stay as they are: the scheduler does not read them, or they say where to send the object."""

_LONG: Final = "a" * 64
NAMES: Final = (
    *(
        "a",
        "a-b",
        "a.b",
        "a..b",
        "a.-b",
        "-a",
        "a-",
        "A",
        "a_b",
        "",
        "1",
        "a/b",
        "ä",
        "a b",
        _LONG,
        "a" * 254,
    ),
    *(f"{'a' * 63}.{'b' * 63}", "main", "init", "side", "data", "system-x", "system-node-critical"),
)
KEYS: Final = (
    *(
        "app",
        "example.com/app",
        "a.b/C_d.e",
        "pod-template-hash",
        "tier",
        "revision",
        "zone",
        "metadata.name",
    ),
    *(
        "",
        "/",
        "/a",
        "a/",
        "a/b/c",
        "A.com/x",
        "-a",
        "a-",
        "_a",
        "a b",
        "ä",
        _LONG,
        f"{'a' * 254}/b",
        "a..b/c",
    ),
)
VALUES: Final = (
    "",
    "a",
    "A_b.c-1",
    "-a",
    "a-",
    "a/b",
    "a b",
    "ä",
    _LONG,
    "8",
    "1.5",
    "0",
    "-1",
    "node-1",
    "Node",
)
QUANTITIES: Final = (
    *(
        0,
        1,
        2,
        3,
        -1,
        1.5,
        "0",
        "1",
        "2",
        "3",
        "100m",
        "1500m",
        "0.5",
        "-1",
        "-0",
        "1Gi",
        "1e3",
        "1E3",
        "1Ki",
        "2Mi",
    ),
    *(
        "4Mi",
        "3Mi",
        "1n",
        "1u",
        "999999999n",
        "0.0000000001",
        "1.0000000001",
        "9223372036854775807",
        "1e19",
        "1e30",
    ),
    *(
        "9223372036854775808",
        "9E",
        "8Ei",
        "1P",
        "",
        " 1",
        "1 ",
        "1 Gi",
        "1g",
        "1K",
        "1k",
    ),
    *("abc", "+1", ".5", "5.", "1e", "1e-3", "2000m", "1M", "0x10", "1_000", "１"),
)
RESOURCES: Final = (
    *(
        "cpu",
        "memory",
        "ephemeral-storage",
        "hugepages-2Mi",
        "hugepages-1Gi",
        "hugepages-x",
        "hugepages-",
        "pods",
    ),
    *(
        "example.com/gpu",
        "example.com/other",
        "nvidia.com/gpu",
        "gpu",
        "storage",
        "requests.cpu",
        "limits.cpu",
    ),
    *(
        "requests.example.com/gpu",
        "kubernetes.io/batch",
        "x.kubernetes.io/y",
        "a/",
        "/a",
        "a/b/c",
        "Example.com/gpu",
    ),
    *(
        "example.com/-gpu",
        f"{'a' * 245}/b",
        f"{'a' * 240}.com/b",
        "services",
        "cpu ",
        "CPU",
        "requests.hugepages-2Mi",
    ),
)
OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "", "in", "Like")
NUMBERS: Final = (-1, 0, 1, 79, 80, 100, 101, 65535, 65536, 10**9, 10**9 + 1, 2**31 - 1, 2**31, 2_000_001_000)
# Left out: null as a quantity or an item of a list, and the quantity "Gi" (docs/decide.md); counts above
# 2**63 / 1000, which overflow in the API server.
WRONG: Final[tuple[Any, ...]] = (7, -7, 1.5, True, "x", "", [], {}, ["x"], None)

_BY_KEY: Final[dict[str, tuple[Any, ...]]] = {
    "key": KEYS,
    "topologyKey": KEYS,
    "value": VALUES,
    "operator": OPERATORS,
    "effect": ("NoSchedule", "PreferNoSchedule", "NoExecute", "", "Never"),
    "restartPolicy": ("Always", "OnFailure", "Never", "", "Sometimes"),
    "preemptionPolicy": ("PreemptLowerPriority", "Never", "Always"),
    "volumeBindingMode": ("Immediate", "WaitForFirstConsumer", "Later", ""),
    "minAvailable": (0, 1, -1, "50%", "100%", "101%", "-1%", "5", "x%", "%", "050%"),
    "maxUnavailable": (0, 1, -1, "50%", "100%", "101%", "-1%", "5", "x%", "%", "050%"),
    "tolerationSeconds": (0, 1, -1),
    "schedulerName": NAMES,
    "volumeName": NAMES,
    "storageClassName": NAMES,
    "claimName": NAMES,
    "nodeName": NAMES,
}
"""Values by the name of the field; other texts get names, other numbers get numbers."""

_ADDED: Final[dict[str, tuple[tuple[tuple[Any, ...], str, tuple[Any, ...]], ...]]] = {
    "Pod": (
        (("spec",), "nodeName", NAMES),
        (("spec",), "hostNetwork", (True,)),
        (("spec",), "priorityClassName", ("", "system-node-critical", "ghost", "A")),
        (("spec", "tolerations", 1), "operator", OPERATORS[:4] + OPERATORS[6:]),
        (("spec", "tolerations", 0), "tolerationSeconds", (7,)),
        (("metadata",), "generation", (-1, 0, 3)),
    ),
    "PodDisruptionBudget": ((("spec",), "maxUnavailable", _BY_KEY["maxUnavailable"]),),
}
"""Fields to add: where, their name and values."""


def mutated(random: Random, kind: str) -> Object:
    """A copy of the valid object of this kind with one to three mutations."""
    document = copy.deepcopy(BASES[kind])
    if kind == "Pod" and random.random() < 0.3:
        _simplify(document, random)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        _mutate(document, random, kind)
    return document


def _simplify(document: Object, random: Random) -> None:
    """Drop parts that hide others, such as gates, beside which no node may be set."""
    for name in ("schedulingGates", "resources", "initContainers", "affinity"):
        if random.random() < 0.5:
            document["spec"].pop(name, None)


def _mutate(document: Object, random: Random, kind: str) -> None:
    if kind in _ADDED and random.random() < 0.15:
        path, name, values = random.choice(_ADDED[kind])
        holder = _at(document, path)
        if isinstance(holder, dict):
            holder[name] = copy.deepcopy(random.choice(values))
        return
    holder, key = random.choice(list(_places(document)))
    _change(holder, key, random)


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with every key of it that may change."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        if key not in NOT_READ:
            if not _is_around_what_is_not_read(value[key]):
                yield value, key
            yield from _places(value[key])


def _is_around_what_is_not_read(value: Any) -> bool:
    return isinstance(value, dict) and any(
        key == "storage" or _is_around_what_is_not_read(each) for key, each in value.items()
    )


def _change(holder: Any, key: Any, random: Random) -> None:
    value = holder[key]
    if isinstance(value, dict) and _is_amounts(value, key):
        _change_amounts(value, random)
    elif isinstance(value, dict) and key in ("labels", "nodeSelector", "matchLabels", "annotations"):
        value[random.choice(KEYS)] = random.choice(VALUES)
    elif random.random() < 0.1 and key != "metadata":
        del holder[key]
    elif isinstance(value, list) and value and random.random() < 0.7:
        value.append(copy.deepcopy(random.choice(value)))
    elif random.random() < 0.1 and not (isinstance(holder, list) and isinstance(value, dict)):
        is_item = isinstance(holder, list) or key in RESOURCES
        holder[key] = copy.deepcopy(random.choice(WRONG[:-1] if is_item else WRONG))
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        holder[key] = random.choice(_BY_KEY.get(key, VALUES if isinstance(key, int) else _alike(value, key)))


def _alike(value: Any, key: str) -> tuple[Any, ...]:
    if key in RESOURCES:
        return QUANTITIES
    return NAMES if isinstance(value, str) else NUMBERS


def _is_amounts(value: Object, key: Any) -> bool:
    return key in ("requests", "limits", "capacity", "allocatable") and "storage" not in value


def _change_amounts(amounts: Object, random: Random) -> None:
    name = random.choice((*RESOURCES, *amounts, *amounts, *amounts))
    amounts[name] = random.choice(QUANTITIES)
