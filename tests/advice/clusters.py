"""Random small clusters as manifests, in which a gang is likely to wait.

The gang is called `asker`. Everything that a next step may be about occurs: node selectors, node affinity,
taints, cordons, pod affinity and anti-affinity in both directions, topology levels, subgroups, roles, limits
of queues and flavors, guarantees, few pods per node, and odd amounts of bytes.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

Document = dict[str, Any]
Amounts = Mapping[str, int]

GROUP_API: Final = "scheduling.phalanx.dev/v1alpha1"
GROUP_LABEL: Final = "scheduling.phalanx.dev/pod-group"
SUBGROUP_LABEL: Final = "scheduling.phalanx.dev/subgroup"
ROLE_LABEL: Final = "scheduling.phalanx.dev/role"
QUEUE_LABEL: Final = "scheduling.phalanx.dev/queue"
MIN_MEMBER_LABEL: Final = "scheduling.phalanx.dev/min-member"

ASKER: Final = "asker"
GPU: Final = "nvidia.com/gpu"
GI: Final = 1 << 30
READY: Final = [{"type": "Ready", "status": "True"}]
HOST, RACK, ZONE = "kubernetes.io/hostname", "example.com/rack", "topology.kubernetes.io/zone"
APPS: Final = ("x", "y", "z")
POOLS: Final = ("a", "b")
LEVEL_LABELS: Final = {"zone": ZONE, "rack": RACK, "host": HOST}

Usage = dict[str, dict[str, int]]
"""Free amounts by node: cpu in thousandths, memory in bytes."""


def random_cluster(seed: int) -> list[Document]:
    """The manifests of one cluster: the same for the same seed."""
    manifests = _Maker(Random(seed)).manifests()
    _add_ports_and_spread(manifests, Random(f"ports and spread {seed}"))
    return manifests


class _Maker:
    """Makes the objects of one cluster."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._levels = random.choice(
            (("zone", "rack", "host"), ("rack", "host"), ("rack",), ("zone", "rack"), ("host",))
        )
        self._unused = random.choice((ZONE, RACK)) if self._chance(0.06) else ""
        self._affinity = random.choice((0.5, 1, 1, 3))
        """How often affinity occurs, compared with the usual chances."""
        self._free: Usage = {}
        self._labels: dict[str, dict[str, str]] = {}
        self._usable: set[str] = set()
        self._queues: list[str] = ["default"]

    def manifests(self) -> list[Document]:
        topology = _object("Topology", "default", api=GROUP_API)
        topology["spec"] = {
            "levels": [{"name": level, "nodeLabel": LEVEL_LABELS[level]} for level in self._levels]
        }
        nodes = [self._node(f"n{number}") for number in range(self._random.randint(2, 7))]
        queues = self._make_queues()
        daemons = self._daemons() if self._chance(0.3) else []
        running = [*daemons, *self._running()]
        return [topology, *nodes, *queues, *running, *self._asker()]

    def _chance(self, part: float) -> bool:
        return self._random.random() < part

    # --- nodes and queues -----------------------------------------------------------------------------------

    def _node(self, name: str) -> Document:
        random = self._random
        node = _object("Node", name, api="v1")
        labels = {HOST: name, "pool": random.choice(POOLS)}
        labels[ZONE] = random.choice(("za", "zb") if self._chance(0.5) else ("za",))
        labels[RACK] = labels[ZONE][1] + random.choice(("r1", "r2", "r3"))
        for level in (ZONE, RACK):
            if level == self._unused or self._chance(0.04):
                del labels[level]
        node["metadata"]["labels"] = labels
        amounts = {
            "cpu": random.choice((4_000, 4_000, 7_500, 8_000)),
            "memory": random.choice((8 * GI, 16 * GI, 16_106_127_361, 10_000_000_000)),
            "pods": random.choice((2, 3, 5, 110, 110, 110)),
        }
        if self._chance(0.7):
            amounts[GPU] = random.choice((1, 2, 4, 4, 8))
        node["status"] = {"allocatable": _written(amounts)}
        spec: Document = {}
        if self._chance(0.12):
            spec["taints"] = [{"key": "team", "value": random.choice("pq"), "effect": "NoSchedule"}]
        if self._chance(0.06):
            spec["unschedulable"] = True
        is_ready = not self._chance(0.04)
        node["status"]["conditions"] = READY if is_ready else [{"type": "Ready", "status": "False"}]
        node["spec"] = spec
        if not spec and is_ready:
            self._usable.add(name)
        self._free[name], self._labels[name] = amounts, labels
        return node

    def _make_queues(self) -> list[Document]:
        found: list[Document] = []
        for name in ("q", "s"):
            if not self._chance(0.6):
                continue
            queue = _object("Queue", name, api=GROUP_API)
            queue["spec"] = self._limits(0.6)
            found.append(queue)
            if self._chance(0.3):
                child = _object("Queue", f"{name}-child", api=GROUP_API)
                child["spec"] = {"parent": name, **self._limits(0.5)}
                found.append(child)
                self._queues.append(f"{name}-child")
            else:
                self._queues.append(name)
        return found

    def _limits(self, part: float) -> Document:
        spec: Document = {}
        if self._chance(part):
            spec["limit"] = self._limit()
        if self._chance(0.2):
            most = int(spec.get("limit", {}).get(GPU, "4"))
            spec["guarantee"] = {GPU: str(self._random.randint(0, most))}
        if self._chance(0.25):
            spec["flavors"] = [
                {
                    "name": "pool",
                    "nodeSelector": {"pool": self._random.choice(POOLS)},
                    "limit": self._limit(),
                }
            ]
        return spec

    def _limit(self) -> Document:
        random = self._random
        amounts = {
            GPU: random.randint(0, 8),
            "cpu": random.randint(1, 12) * 500,
            "memory": random.choice((3 * GI, 6_000_000_001, 12 * GI)),
            "pods": random.randint(1, 5),
        }
        return _written(
            {name: amounts[name] for name in random.sample(sorted(amounts), random.randint(1, 2))}
        )

    def _daemons(self) -> list[Document]:
        """A pod of a DaemonSet on every node that has capacity for it."""
        amounts = self._requests(1)
        amounts.pop(GPU, None)
        found: list[Document] = []
        for name, free in self._free.items():
            if free["pods"] >= 1 and all(free[key] >= need for key, need in amounts.items()):
                self._take(name, amounts)
                pod = _pod(f"agent-{name}", amounts, node=name)
                pod["spec"]["schedulerName"] = "default-scheduler"
                pod["metadata"]["ownerReferences"] = [
                    {"kind": "DaemonSet", "name": "agent", "controller": True}
                ]
                found.append(pod)
        return found

    # --- running pods ---------------------------------------------------------------------------------------

    def _running(self) -> list[Document]:
        found: list[Document] = []
        for number in range(self._random.randint(0, 12)):
            found += self._running_gang(f"old{number}")
        return found

    def _running_gang(self, name: str) -> list[Document]:
        kind = self._random.choice(("group", "group", "pod", "foreign"))
        amounts = self._requests(self._random.choice((1, 1, 2, 4)))
        placed: list[Document] = []
        affinity = self._avoidance() if self._chance(0.1 * self._affinity) else None
        queue = self._random.choice(self._queues)
        app = self._random.choice(APPS)
        count = self._random.randint(1, 3) if kind == "group" else 1
        for index in range(count):
            node = self._first_fit(amounts)
            if node is None:
                break
            pod = _pod(f"{name}-{index}", amounts, node=node)
            pod["metadata"]["labels"]["app"] = app
            if affinity is not None:
                pod["spec"]["affinity"] = affinity
            if kind == "group":
                pod["metadata"]["labels"][GROUP_LABEL] = name
            elif kind == "pod":
                pod["metadata"]["labels"][QUEUE_LABEL] = queue
            else:
                pod["spec"]["schedulerName"] = "default-scheduler"
                pod["metadata"]["ownerReferences"] = [{"kind": "Job", "name": name, "controller": True}]
            placed.append(pod)
        if kind == "group" and placed:
            group = _object("PodGroup", name, api=GROUP_API)
            group["spec"] = {"minMember": len(placed), "queue": queue}
            if self._chance(0.1):
                group["spec"]["disruption"] = {"preemptible": False}
            return [group, *placed]
        return placed

    def _first_fit(self, amounts: Amounts) -> str | None:
        """Take the amounts on a node that has them."""
        nodes = [
            name
            for name, free in self._free.items()
            if free["pods"] >= 1 and all(free.get(key, 0) >= need for key, need in amounts.items())
        ]
        if not nodes:
            return None
        node = self._random.choice(nodes)
        self._take(node, amounts)
        return node

    def _take(self, node: str, amounts: Amounts) -> None:
        free = self._free[node]
        for key, need in {**amounts, "pods": 1}.items():
            free[key] = free.get(key, 0) - need

    def _requests(self, size: int) -> dict[str, int]:
        random = self._random
        amounts = {
            "cpu": random.choice((250, 500, 1_000, 1_001)) * size,
            "memory": random.choice((GI // 2, GI, 1_500_000_001, 2 * GI)) * size,
        }
        if self._chance(0.6):
            amounts[GPU] = random.choice((1, 1, 2)) * size
        return amounts

    def _avoidance(self) -> Document:
        """Anti-affinity of running pods to an app."""
        return {"podAntiAffinity": _required([self._term()])}

    def _term(self, app: str = "") -> Document:
        return {
            "labelSelector": {"matchLabels": {"app": app or self._random.choice(APPS)}},
            "topologyKey": self._random.choice((HOST, HOST, RACK, ZONE)),
        }

    # --- the gang that asks ---------------------------------------------------------------------------------

    def _asker(self) -> list[Document]:
        random = self._random
        kind = random.choices(("group", "roles", "subgroups", "label", "pod"), (40, 15, 20, 5, 20))[0]
        if kind == "pod":
            pod = self._asking_pod(
                f"{ASKER}-0", self._requests(random.choice((1, 2, 3))), self._restrictions()
            )
            pod["metadata"]["labels"][QUEUE_LABEL] = random.choice(self._queues)
            return [pod]
        if kind == "label":
            count = random.randint(2, 4)
            shape, restrictions = self._requests(random.choice((1, 2))), self._restrictions()
            pods = [self._asking_pod(f"{ASKER}-{index}", shape, restrictions) for index in range(count)]
            queue = random.choice(self._queues)
            for pod in pods:
                pod["metadata"]["labels"] |= {MIN_MEMBER_LABEL: str(count), QUEUE_LABEL: queue}
                pod["metadata"]["ownerReferences"] = [{"kind": "Job", "name": ASKER, "controller": True}]
            return pods
        group = _object("PodGroup", ASKER, api=GROUP_API)
        group["spec"] = {"queue": random.choice(self._queues)}
        if self._chance(0.6):
            group["spec"]["topology"] = self._topology()
        if self._chance(0.1):
            group["spec"]["disruption"] = {"preemptible": False}
        pods = {"group": self._plain, "roles": self._roles, "subgroups": self._subgroups}[kind](group)
        for pod in pods:
            pod["metadata"]["labels"][GROUP_LABEL] = ASKER
        if self._chance(0.12):
            self._bind_some(pods)
        return [group, *pods]

    def _topology(self) -> Document:
        """A required level, a preferred one, or both, of which the preferred one is narrower."""
        numbers = sorted(self._random.sample(range(len(self._levels)), min(2, len(self._levels))))
        found: Document = {}
        if self._chance(0.7) or len(numbers) == 1:
            found["required"] = self._levels[numbers[0]]
        if len(numbers) == 2 and (not found or self._chance(0.4)):
            found["preferred"] = self._levels[numbers[1]]
        return found

    def _plain(self, group: Document) -> list[Document]:
        count = self._random.randint(1, 5)
        group["spec"]["minMember"] = self._random.randint(1, count) if self._chance(0.3) else count
        amounts, restrictions = self._requests(self._random.choice((1, 1, 2))), self._restrictions()
        return [self._asking_pod(f"{ASKER}-{index}", amounts, restrictions) for index in range(count)]

    def _roles(self, group: Document) -> list[Document]:
        random = self._random
        pods: list[Document] = []
        roles: list[Document] = []
        for name in ("ps", "worker"):
            count = random.randint(1, 3)
            least = random.randint(1, count)
            roles.append({"name": name, "count": count, "minMember": least})
            amounts, restrictions = self._requests(random.choice((1, 1, 2))), self._restrictions()
            for index in range(count):
                pod = self._asking_pod(f"{ASKER}-{name}-{index}", amounts, restrictions)
                pod["metadata"]["labels"][ROLE_LABEL] = name
                pods.append(pod)
        declared = self._chance(0.7)
        least = sum(role["minMember"] for role in roles) if declared else 1
        group["spec"]["minMember"] = random.randint(least, len(pods))
        if declared:
            group["spec"]["roles"] = roles
        return pods

    def _subgroups(self, group: Document) -> list[Document]:
        random = self._random
        pods: list[Document] = []
        parts: list[Document] = []
        alike = (
            (self._requests(random.choice((1, 1, 2))), self._restrictions()) if self._chance(0.6) else None
        )
        for name in ("one", "two", "three")[: random.randint(1, 3)]:
            count = random.randint(1, 3)
            part: Document = {"name": name, "minMember": random.randint(1, count)}
            if self._chance(0.6):
                part["topology"] = self._topology()
                size = random.choice((0, 0, 0, 1, 2))
                if size and "required" in part["topology"]:
                    part["segmentSize"] = size
                    part["minMember"] = size
            parts.append(part)
            amounts, restrictions = alike or (self._requests(random.choice((1, 1, 2))), self._restrictions())
            for index in range(max(count, part["minMember"])):
                pod = self._asking_pod(f"{ASKER}-{name}-{index}", amounts, restrictions)
                pod["metadata"]["labels"][SUBGROUP_LABEL] = name
                pods.append(pod)
        minimums = sorted(part["minMember"] for part in parts)
        if len(parts) > 1 and self._chance(0.5):
            group["spec"]["minSubGroups"] = random.randint(1, len(parts))
            minimums = minimums[: group["spec"]["minSubGroups"]]
        group["spec"]["subGroups"] = parts
        group["spec"]["minMember"] = sum(minimums) + random.choice((0, 0, 0, 1))
        if group["spec"]["minMember"] > len(pods):
            group["spec"]["minMember"] = len(pods)
        return pods

    def _asking_pod(self, name: str, amounts: Amounts, restrictions: Document) -> Document:
        pod = _pod(name, amounts)
        pod["metadata"]["labels"]["app"] = restrictions["app"]
        pod["spec"] |= {key: value for key, value in restrictions.items() if key != "app"}
        return pod

    def _restrictions(self) -> Document:
        """The app of some pods, and the parts of their spec that exclude nodes."""
        found: Document = {"app": self._random.choice(APPS)}
        if self._chance(0.15):
            found["nodeSelector"] = {"pool": self._random.choice((*POOLS, *POOLS, *POOLS, "none"))}
        if self._chance(0.15):
            found["tolerations"] = [{"key": "team", "operator": "Exists", "effect": "NoSchedule"}]
        affinity: Document = {}
        if self._chance(0.1):
            affinity["nodeAffinity"] = self._node_affinity()
        if self._chance(0.08 * self._affinity):
            affinity["podAffinity"] = _required([self._term(found["app"] if self._chance(0.4) else "")])
        if self._chance(0.12 * self._affinity):
            affinity["podAntiAffinity"] = _required([self._term(found["app"] if self._chance(0.4) else "")])
        if affinity:
            found["affinity"] = affinity
        return found

    def _node_affinity(self) -> Document:
        operator = self._random.choice(("In", "NotIn"))
        term = {"matchExpressions": [{"key": "pool", "operator": operator, "values": ["a"]}]}
        if self._chance(0.3):
            return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": term}]}
        return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}

    def _bind_some(self, pods: Sequence[Document]) -> None:
        """Some members run already: the gang has lost the others, or they came later."""
        for pod in pods[: self._random.randint(1, len(pods))]:
            amounts = _amounts_of(pod)
            node = self._first_fit(amounts)
            if node is not None:
                pod["spec"]["nodeName"] = node
                pod["status"] = {"phase": "Running"}


def _add_ports_and_spread(manifests: Sequence[Document], random: Random) -> None:
    """In some clusters pods have a port of their node, or the asker has spread constraints."""
    pods = [each for each in manifests if each["kind"] == "Pod"]
    asking = [each for each in pods if "nodeName" not in each["spec"]]
    has_ports, is_spread = random.random() < 0.15, random.random() < 0.2
    for pod in pods if has_ports else ():
        if pod in asking or random.random() < 0.3:
            pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    constraints = {
        app: {
            "topologyKey": random.choice((ZONE, RACK, HOST)),
            "maxSkew": random.choice((1, 1, 2)),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app if random.random() < 0.8 else random.choice(APPS)}},
            "nodeTaintsPolicy": random.choice(("Ignore", "Honor")),
        }
        for app in APPS
    }
    for pod in asking if is_spread else ():
        if pod["metadata"]["labels"].get("app") in constraints:
            pod["spec"]["topologySpreadConstraints"] = [constraints[pod["metadata"]["labels"]["app"]]]


def _required(terms: Sequence[Document]) -> Document:
    return {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}


def _object(kind: str, name: str, *, api: str) -> Document:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "labels": {}}}


def _pod(name: str, amounts: Amounts, *, node: str = "") -> Document:
    pod = _object("Pod", name, api="v1")
    pod["spec"] = {
        "schedulerName": "phalanx",
        "containers": [
            {"name": "main", "resources": {"requests": _written(amounts), "limits": _written(amounts)}}
        ],
    }
    if node:
        pod["spec"]["nodeName"] = node
        pod["status"] = {"phase": "Running"}
    return pod


def _written(amounts: Amounts) -> dict[str, str]:
    """The amounts as quantities."""
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in amounts.items()}


def _amounts_of(pod: Document) -> dict[str, int]:
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    return {name: int(text.removesuffix("m")) for name, text in requests.items()}
