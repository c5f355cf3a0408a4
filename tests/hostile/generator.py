"""Seeded grammar fuzzing: valid objects of every kind that the scheduler reads, with one to three mutations.

`mutated_objects(seed)` is an endless stream of objects; the same seed gives the same bytes. No name starts
with "healthy", the prefix of the gangs that must not be disturbed.
"""

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, NamedTuple

from phalanx.model.names import (
    API_GROUP,
    LABEL_MIN_MEMBER,
    LABEL_POD_GROUP,
    LABEL_QUEUE,
    LABEL_ROLE,
    LABEL_SUBGROUP,
)

from tests.hostile.valid import GROUPS, NAMESPACES, NODES, QUEUES, VALID, WEIGHTS, Document

Path = tuple[Any, ...]

OBJECT_BYTES_MAX: Final = 3 << 20
"""Largest request that an API server accepts."""

_LARGE: Final = 50
"""Lists and maps with more entries are not mutated inside: that would take most of the time."""

_DEEP: Final = 100
"""Nesting depth below which nothing is mutated."""


class MutatedObject(NamedTuple):
    """One object as the API server would send it; `original` is without its `mutations`."""

    kind: str
    name: str
    body: bytes
    mutations: tuple[str, ...]
    original: bytes


QUANTITIES: Final = (
    "NaN", "Inf", "-Inf", "1e400", "9E", "9Ei", "9223372036854775807", "9223372036854775808", "-1",
    "-0", "-9E", "１２", "1２", "", " ", "0x10", "1_000", "1e", "1e-400", "1e30", "1e31", ".", "+",
    "1.5.5", "1Kii", "1e-10", "9" * 63, "9" * 65, "9" * 100_000, "1 Gi", "٣", "1e+30", "0", 0, -1,
    2**63, 2**64, -(2**63), 10**30, 10**300, 0.1, -0.0, 1e300, 5e-324, True, None, [], {},
    "1" + "0" * 62 + "E", "∞", "½",
)  # fmt: skip
NUMBERS: Final = (
    0, -1, 1, 10_001, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32, 2**53, 2**63 - 1, 2**63,
    -(2**63), 2**64, 10**30, 10**400, 1.5, 1e308, -0.0, "1", True, None, [],
)  # fmt: skip
TEXTS: Final = (
    "", " ", "\x00", "a\nb", "\x1b[2J\x1b[31m", "‮evil", "a" * 254, "a" * 10_000, "pаypal", "ｐｈａｌａｎｘ",
    "Ｘ", "é", "e\u0301", "\ufeffx", "\u200bx", "💥" * 50, "a.b.c", "A", "-", "..", "a/b", "a/b/c",
    "../../etc", "%s%n", "{}", "<script>alert(1)</script>", "x-node-1", "r1", "r11", "z/r1", "default",
    "phalanx", "None", "null", "true", "\u2028", "İ", "ß", "\ud83d\ude00",
)  # fmt: skip
TIMES: Final = (
    "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00",
    "9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59-14:00", "10000-01-01T00:00:00Z", "garbage",
    "", "1970-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01", "2026-01-01T24:00:00Z", 0, -1,
    1e10, None, "2016-12-31T23:59:60Z", "2026-01-01T00:00:00+99:99", "-0001-01-01T00:00:00Z",
    "９９９９-12-31T23:59:59Z",
)  # fmt: skip
ENUMS: Final = (
    "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "Like", "in", "", "Always", "Never",
    "NoSchedule", "NoExecute", "Running", "Succeeded", "Failed", "Zombie", "Lost", "Reserved", "Held",
    "Closed", "WaitForFirstConsumer", "PreemptLowerPriority",
)  # fmt: skip


def mutated_objects(seed: int) -> Iterator[MutatedObject]:
    """An endless stream of mutated objects."""
    random = Random(seed)
    kinds = [kind for kind in VALID for _ in range(WEIGHTS.get(kind, 3))]
    number = 0
    while True:
        number += 1
        kind = random.choice(kinds)
        name = _name(random, kind, number)
        document = VALID[kind](random, name)
        original = json.dumps(document).encode()
        mutations = [_mutate(random, kind, document) for _ in range(random.choice((1, 1, 1, 2, 3)))]
        body = json.dumps(document).encode()
        if len(body) > OBJECT_BYTES_MAX:
            continue
        if random.random() < 0.05:
            body = _mutate_bytes(random, body, mutations)
        yield MutatedObject(kind, name, body, tuple(mutations), original)


def _name(random: Random, kind: str, number: int) -> str:
    """Mostly a unique name; sometimes one that other objects refer to."""
    shared = {"PodGroup": GROUPS, "Queue": QUEUES, "Node": NODES, "Namespace": NAMESPACES}
    shared["NodeResourceTopology"] = NODES
    if kind in shared and random.random() < 0.5:
        return random.choice(shared[kind])
    prefix = {"PersistentVolumeClaim": "x-claim", "PersistentVolume": "x-volume", "StorageClass": "x-storage"}
    if kind in prefix and random.random() < 0.5:
        return f"{prefix[kind]}-0"
    return f"x-{kind.lower()}-{number}"


def _mutate(random: Random, kind: str, document: Document) -> str:
    special = SPECIAL.get(kind, ())
    way = random.choice((*ANYWHERE, *special, *special))
    if way in RARE and random.random() > 0.05:
        way = wrong_type
    way(random, document)
    return way.__name__


# --- any kind -----------------------------------------------------------------------------------------------


def paths(value: Any, path: Path = ()) -> list[Path]:
    """Paths of all values of a document, except the document itself and the inside of large or deep ones."""
    inner: Any = ()
    if isinstance(value, dict | list) and len(value) <= _LARGE and len(path) < _DEEP:
        inner = value.items() if isinstance(value, dict) else enumerate(value)
    below = [found for key, each in inner for found in paths(each, (*path, key))]
    return [path, *below] if path else below


def put(document: Any, path: Path, value: Any) -> None:
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = value


def take(document: Any, path: Path) -> Any:
    for key in path:
        document = document[key]
    return document


def _somewhere(random: Random, document: Document) -> Path:
    found = [path for path in paths(document) if path not in (("apiVersion",), ("kind",))]
    return random.choice(found or [("x",)])


def wrong_type(random: Random, document: Document) -> None:
    """A value of any type at any path."""
    value = random.choice(
        (None, True, 7, -1, 1.5, "x", "", [], {}, [None], [[]], {"": None}, [{}], {"a": {}})
    )
    put(document, _somewhere(random, document), value)


def missing(random: Random, document: Document) -> None:
    path = _somewhere(random, document)
    container = take(document, path[:-1])
    if path != ("x",):
        del container[path[-1]]


def null(random: Random, document: Document) -> None:
    put(document, _somewhere(random, document), None)


def number(random: Random, document: Document) -> None:
    """An extreme number in place of a number, or anywhere."""
    numbers = [path for path in paths(document) if type(take(document, path)) is int]
    put(document, random.choice(numbers or [_somewhere(random, document)]), random.choice(NUMBERS))


def text(random: Random, document: Document) -> None:
    """An unusual text in place of a text: control characters, confusables, very long names, enum values."""
    texts = [path for path in paths(document) if type(take(document, path)) is str]
    texts = [path for path in texts if path not in (("apiVersion",), ("kind",))]
    put(document, random.choice(texts or [("x",)]), random.choice((*TEXTS, *ENUMS)))


def time(random: Random, document: Document) -> None:
    meta = document.get("metadata")
    if isinstance(meta, dict):
        meta[random.choice(("creationTimestamp", "deletionTimestamp"))] = random.choice(TIMES)


def version(random: Random, document: Document) -> None:
    meta = document.get("metadata")
    if isinstance(meta, dict):
        meta["resourceVersion"] = random.choice(
            ("", "abc", "-1", "None", "9" * 19, "9" * 400, 7, None, "１２")
        )


def uid(random: Random, document: Document) -> None:
    """None, an extreme one, or for pods another pod's. Gangs keep unique UIDs, as an API server ensures."""
    meta = document.get("metadata")
    if isinstance(meta, dict):
        own = f"{document['kind']}-{meta.get('namespace')}-{meta.get('name')}"
        shared = ("pod-same", "pod-\x00") if document["kind"] == "Pod" else ()
        meta["uid"] = random.choice(("", own, own * 100, f"{own}\x00", *shared))


def owners(random: Random, document: Document) -> None:
    """Stale, cyclic, duplicate, several controllers, itself."""
    meta = document.get("metadata")
    if not isinstance(meta, dict):
        return
    itself = {"kind": "Pod", "name": meta.get("name"), "uid": meta.get("uid"), "controller": True}
    stale = {"kind": "Job", "name": "job-1", "uid": "uid-of-a-dead-job", "controller": True}
    group = {"kind": "PodGroup", "name": GROUPS[0], "uid": f"uid-PodGroup-{NAMESPACES[0]}-{GROUPS[0]}"}
    choices = ([itself], [stale], [stale, stale], [itself, stale, group], [group] * 1000, [{}], [{"uid": 1}])
    meta["ownerReferences"] = random.choice(choices)


def labels(random: Random, document: Document) -> None:
    """Labels of Phalanx with unusual values, and keys that an API server refuses."""
    meta = document.get("metadata")
    if not isinstance(meta, dict):
        return
    ours = (LABEL_POD_GROUP, LABEL_MIN_MEMBER, LABEL_QUEUE, LABEL_ROLE, LABEL_SUBGROUP, f"{API_GROUP}/new")
    value = random.choice((*TEXTS, "0", "-1", "10001", "999999999", "9999999999", "１２", *GROUPS, *QUEUES))
    if not isinstance(meta.get("labels"), dict):
        meta["labels"] = {}
    meta["labels"][random.choice((*ours, *TEXTS))] = value


def many_labels(random: Random, document: Document) -> None:
    if isinstance(document.get("metadata"), dict):
        document["metadata"]["labels"] = {f"label-{each}": str(each) for each in range(100_000)}


def large_annotation(random: Random, document: Document) -> None:
    if isinstance(document.get("metadata"), dict):
        document["metadata"]["annotations"] = {"x": "y" * (1 << 20)}
        document["metadata"]["managedFields"] = [{"fieldsV1": {f"f:{n}": {} for n in range(10_000)}}]


def deep(random: Random, document: Document) -> None:
    """Nesting that exhausts the stack of a recursive reader only if that stack is small."""
    value: Any = "x"
    for _ in range(random.choice((50, 200, 300))):
        value = [value] if random.random() < 0.5 else {"a": value}
    put(document, _somewhere(random, document), value)


def duplicated(random: Random, document: Document) -> None:
    """Repeat all entries of a list twice or twenty times."""
    lists = [path for path in paths(document) if isinstance(take(document, path), list)]
    if lists:
        path = random.choice(lists)
        put(document, path, take(document, path) * random.choice((2, 20)))


ANYWHERE: Final[tuple[Callable[[Random, Document], None], ...]] = (
    wrong_type, missing, null, number, text, time, version, uid, owners, labels, many_labels,
    large_annotation, deep, duplicated,
)  # fmt: skip


# --- some kinds only ------------------------------------------------------------------------------


def _spec(document: Document) -> Document:
    """The spec; a new one where another change has removed it already."""
    if not isinstance(document.get("spec"), dict):
        document["spec"] = {}
    spec: Document = document["spec"]
    return spec


def quantities(random: Random, document: Document) -> None:
    """Extreme quantities in place of quantities."""
    words = ("requests", "limits", "overhead", "allocatable", "capacity", "limit")
    found = [path for path in paths(document) if len(path) > 1 and path[-2] in words]
    amounts = [path for path in found if not isinstance(take(document, path), dict | list)]
    for path in random.sample(amounts, min(len(amounts), random.randint(1, 3))):
        put(document, path, random.choice(QUANTITIES))


def resources(random: Random, document: Document) -> None:
    """Thousands of resource names, or invalid ones."""
    names = {f"example.com/{each}": "1" for each in range(5000)}
    odd = {"": "1", "cpu ": "1", "CPU": "1", "pods": "-5", "hugepages-2Mi": "1e30", "\x00": "1"}
    choice = random.choice((names, odd))
    if document["kind"] == "Node":
        document["status"] = {"allocatable": choice}
    else:
        _spec(document)["containers"] = [{"resources": {"requests": choice}}]


def pod_level(random: Random, document: Document) -> None:
    """Pod-level resources, a resize in progress, statuses of containers that do not exist."""
    amount = {"cpu": random.choice(QUANTITIES), "memory": random.choice(QUANTITIES)}
    _spec(document)["resources"] = {"requests": amount, "limits": amount}
    document["status"] = {
        "phase": "Running",
        "resources": {"requests": amount},
        "allocatedResources": amount,
        "containerStatuses": [{"name": random.choice(("main", "ghost")), "allocatedResources": amount}] * 2,
        "conditions": [{"type": "PodResizePending", "reason": random.choice(("Infeasible", "Deferred"))}],
    }


def init_containers(random: Random, document: Document) -> None:
    """As many init containers as fit into an object of 1.5 MiB."""
    container = {"restartPolicy": "Always", "resources": {"requests": {"cpu": random.choice(("1", "9E"))}}}
    _spec(document)["initContainers"] = [container] * 15_000


def affinity(random: Random, document: Document) -> None:
    """Requirements that violate the rules of the API, sometimes thousands of them."""
    values = random.choice(([], ["x"], ["x", "y"], ["NaN"], ["9" * 30], ["-1"], ["１"], [""] * 300))
    requirement = {"key": random.choice(TEXTS), "operator": random.choice(ENUMS), "values": values}
    times = random.choice((0, 1, 2, 20))
    term = {random.choice(("matchExpressions", "matchFields")): [requirement] * times}
    weight = random.choice((0, -1, 101, 2**31, 50))
    _spec(document)["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term] * times},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "preference": term}],
        },
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}] * random.randint(0, 1)},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": weight, "podAffinityTerm": {"topologyKey": random.choice(TEXTS)}}
            ]
        },
    }


def tolerations(random: Random, document: Document) -> None:
    one = {"key": random.choice(TEXTS), "operator": random.choice(ENUMS), "effect": random.choice(ENUMS)}
    _spec(document)["tolerations"] = [one] * random.choice((1, 2, 1000))


def placed(random: Random, document: Document) -> None:
    """A node and a phase, existing or not."""
    _spec(document)["nodeName"] = random.choice((*NODES, "x-ghost", "", "\x00", "a" * 5000))
    document["status"] = {"phase": random.choice(("Running", "Succeeded", "Failed", "Unknown", "Zombie", ""))}


def elsewhere(random: Random, document: Document) -> None:
    """References to a group, a claim and a priority class of another namespace, or that do not exist."""
    meta = document.get("metadata")
    if isinstance(meta, dict):
        meta["namespace"] = random.choice((*NAMESPACES, "", "x-stranger", "a/b", "\x00"))
        if not isinstance(meta.get("labels"), dict):
            meta["labels"] = {}
        meta["labels"][LABEL_POD_GROUP] = random.choice((*GROUPS, "x-nobody", "../x", f"{NAMESPACES[0]}/x"))
    _spec(document)["priority"] = None
    _spec(document)["priorityClassName"] = random.choice(
        ("x-class-0", "ghost", "system-node-critical", "\x00")
    )


def node_amounts(random: Random, document: Document) -> None:
    amounts = {"cpu": random.choice(QUANTITIES), "nvidia.com/gpu": random.choice(QUANTITIES), "pods": "110"}
    document["status"] = {random.choice(("allocatable", "capacity")): amounts}


def taints(random: Random, document: Document) -> None:
    one = {"key": random.choice(TEXTS), "effect": random.choice(ENUMS), "value": random.choice(TEXTS)}
    _spec(document)["taints"] = [one] * random.choice((1, 2, 1000))


def domains(random: Random, document: Document) -> None:
    """A host named like a rack, racks whose names are prefixes of others, missing levels."""
    meta = document.get("metadata")
    if isinstance(meta, dict):
        names = ("r1", "r11", "r1/r1", "z", "", "Ｒ1", "x-node-1", "/", "z/r1")
        keys = ("zone", "rack", "host", "kubernetes.io/hostname", "topology.kubernetes.io/zone")
        meta["labels"] = {key: random.choice(names) for key in random.sample(keys, random.randint(0, 5))}


def members(random: Random, document: Document) -> None:
    """minMember and roles that contradict each other or are out of range."""
    count = random.choice((0, -1, 1, 10_001, 2**31 - 1, 2**31, 2**63, 10**30))
    role = {"name": random.choice(("worker", "", "\x00")), "count": random.choice((0, -1, 3, 10**6, 2**31))}
    least = random.choice((None, 0, -1, 4, 2**40))
    requests = random.choice((None, {}, {"cpu": random.choice(QUANTITIES)}, {"x-ghost": 1}))
    _spec(document)["minMember"] = count
    _spec(document)["roles"] = [{**role, "minMember": least, "requests": requests}] * random.choice(
        (0, 1, 2, 300)
    )
    _spec(document)["startWhen"] = random.choice((None, "Arrived", "Reserved"))


def topology_levels(random: Random, document: Document) -> None:
    levels = ("zone", "rack", "host", "", "ghost", "\x00")
    topology = {"name": random.choice((None, "x-topology", "")), "required": random.choice(levels)}
    _spec(document)["topology"] = {**topology, "preferred": random.choice(levels)}


def unsupported(random: Random, document: Document) -> None:
    name = random.choice(("subGroups", "minSubGroups", "startBy", "runtime", "recovery", "startWhen"))
    value = random.choice(
        ([{"name": "a", "minMember": 1, "parent": "a"}], 3, "Reserved", {}, "garbage", None)
    )
    _spec(document)[name] = value


def loop(random: Random, document: Document) -> None:
    """A queue that is its own parent or its parent's parent, or whose parent does not exist."""
    _spec(document)["parent"] = random.choice((*QUEUES, document.get("metadata"), "x-ghost", "", "default"))


def weights(random: Random, document: Document) -> None:
    _spec(document)["weight"] = random.choice(NUMBERS)
    _spec(document)["priority"] = random.choice(NUMBERS)


def flavors(random: Random, document: Document) -> None:
    """Very many flavors, duplicates, flavors without a selector."""
    limit = {"nvidia.com/gpu": random.choice(QUANTITIES)}
    one = {
        "name": random.choice(("a", "")),
        "nodeSelector": random.choice(({}, {"pool": "x"})),
        "limit": limit,
    }
    _spec(document)["flavors"] = [one] * random.choice((1, 2, 32))


def levels(random: Random, document: Document) -> None:
    """Cycles, duplicates, empty levels, too many."""
    one = {"name": random.choice(("rack", "")), "nodeLabel": random.choice(("rack", "", "\x00"))}
    circle = [{"name": "zone", "nodeLabel": "rack"}, {"name": "rack", "nodeLabel": "zone"}, one]
    many = [{"name": f"l{n}", "nodeLabel": f"l{n}"} for n in range(2000)]
    _spec(document)["levels"] = random.choice(([], [one, one], circle, many))


def classes(random: Random, document: Document) -> None:
    document["value"] = random.choice(NUMBERS)
    document["globalDefault"] = random.choice((True, False, "true"))
    document["preemptionPolicy"] = random.choice((None, "", "Never", "Always", "\x00"))


def bindings(random: Random, document: Document) -> None:
    """Claims on volumes of others, volumes without a node, classes with an unknown mode."""
    _spec(document)["volumeName"] = random.choice(("x-volume-0", "ghost", "", "\x00"))
    _spec(document)["claimRef"] = random.choice((None, {}, {"namespace": "\x00", "name": "ghost", "uid": ""}))
    document["status"] = {"phase": random.choice(("Lost", "Bound", "Pending", ""))}
    document["volumeBindingMode"] = random.choice((None, "Later", "WaitForFirstConsumer"))


def zones(random: Random, document: Document) -> None:
    """Duplicate zones, no zones, zones without resources or of another type, unknown policies."""
    found = document.get("zones")
    if isinstance(found, list) and found and isinstance(found[0], dict):
        found[0]["type"] = random.choice(("Node", "Node", "Die", "", None))
        found.extend(random.choice(([], found[:1], [{}], found * 40)))
        resources = found[0].get("resources") if random.random() < 0.7 else None
        for each in resources if isinstance(resources, list) else ():
            if isinstance(each, dict):
                each[random.choice(("capacity", "allocatable", "available"))] = random.choice(QUANTITIES)
    policies = ([], ["Restricted"], ["?"], None, ["SingleNUMANodePodLevel"] * 3)
    document["topologyPolicies"] = random.choice(policies)


Way = Callable[[Random, Document], None]
SPECIAL: Final[dict[str, tuple[Way, ...]]] = {
    "Pod": (quantities, resources, pod_level, init_containers, affinity, tolerations, placed, elsewhere) * 2,
    "Node": (quantities, resources, node_amounts, taints, domains) * 3,
    "PodGroup": (members, topology_levels, unsupported) * 4,
    "Queue": (quantities, loop, weights, flavors) * 4,
    "Topology": (levels,) * 10,
    "PriorityClass": (classes,) * 10,
    "PersistentVolumeClaim": (bindings,) * 8,
    "PersistentVolume": (affinity,) * 4,
    "StorageClass": (bindings,) * 8,
    "NodeResourceTopology": (zones,) * 10,
}
RARE: Final = (many_labels, large_annotation, init_containers, resources)
"""Mutations that make large objects; they are applied in one of twenty draws."""


# --- malformed bytes ---------------------------------------------------------------------------


def _mutate_bytes(random: Random, body: bytes, mutations: list[str]) -> bytes:
    way = random.choice(("deep", "not utf-8", "surrogate", "nan", "digits", "twice"))
    mutations.append(way)
    if way == "deep":
        depth = random.choice((600, 2000, 100_000))
        inside = (
            b"[" * depth + b"]" * depth if random.random() < 0.5 else b'{"a":' * depth + b"1" + b"}" * depth
        )
        return body[:-1] + b',"status":{"x":' + inside + b"}}"
    if way == "twice":
        return body[:-1] + b"," + body[1:]
    extra = {
        "not utf-8": b'"\xff\xfe"',
        "surrogate": b'"\\ud800"',
        "nan": random.choice((b"NaN", b"Infinity", b"-Infinity", b"1e400")),
        "digits": b"9" * random.choice((400, 5000)),
    }[way]
    target = random.choice((b'"spec": {', b'"labels": {', b'"metadata": {'))
    field = random.choice((b'"priority": ', b'"x": ', b'"weight": ', b'"minMember": '))
    return body.replace(target, target + field + extra + b", ", 1).replace(b", }", b"}", 1)
