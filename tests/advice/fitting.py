"""How many pods of a gang fit at once, by trying all placements of small clusters.

The rule, from docs/reasons.md: of the pods that the gang needs to start, or of others that may take their
places, as many count as can have nodes at once under all rules. It shares no code with the scheduler.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from random import Random
from typing import Any, Final

from msgspec import Struct

Document = dict[str, Any]

ASKER: Final = "asker"
GROUP_API: Final = "scheduling.phalanx.dev/v1alpha1"
LABEL: Final = "scheduling.phalanx.dev/"
HOST, RACK = "kubernetes.io/hostname", "example.com/rack"
RESOURCES: Final = ("cpu", "nvidia.com/gpu")


class Node(Struct, frozen=True):
    name: str
    rack: str
    size: tuple[int, ...]
    used: tuple[int, ...]
    is_cordoned: bool
    runs_app: bool
    """Whether a pod runs there that the anti-affinity of the gang avoids."""


class Member(Struct, frozen=True):
    name: str
    role: str
    requests: tuple[int, ...]
    pinned: str
    """The only node that it may use; empty for any."""


class Case(Struct, frozen=True):
    nodes: tuple[Node, ...]
    members: tuple[Member, ...]
    needed: int
    least: dict[str, int]
    """By role."""
    one_rack: bool
    together: str
    """The label of which all pods of the gang must have one value; empty for none."""
    apart: str
    """The label of which no value may have two pods of the gang; empty for none."""
    limit: int | None
    """GPUs that the queue may use."""


def random_case(seed: int) -> Case:
    random = Random(f"fitting {seed}")
    is_apart = random.random() < 0.4
    nodes = tuple(_nodes(random, apps=0.15 if is_apart else 0, cordoned=random.choice((0.0, 0.1, 0.4))))
    count = random.randint(2, 6)
    roles = random.choice((("",), ("",), ("ps", "worker")))
    sizes = [(random.randint(0, 4), random.choice((0, 1, 1, 2, 4))) for _ in range(random.randint(1, count))]
    of_role = {role: random.choice(sizes) for role in roles}
    members = tuple(
        Member(
            name=f"{ASKER}-{index}",
            role=(role := random.choice(roles)),
            requests=random.choice(sizes) if random.random() < 0.7 else of_role[role],
            pinned=random.choice(nodes).name if random.random() < 0.15 else "",
        )
        for index in range(count)
    )
    there = Counter(member.role for member in members if member.role)
    least = (
        {role: random.randint(1, number) for role, number in there.items()} if random.random() < 0.7 else {}
    )
    needed = random.choice((count, count, random.randint(max(1, sum(least.values())), count)))
    return Case(
        nodes=nodes,
        members=members,
        needed=needed,
        least=least,
        one_rack=random.random() < 0.25,
        together="" if is_apart else random.choice(("", "", HOST, RACK)),
        apart=random.choice((HOST, RACK)) if is_apart else "",
        limit=random.randint(0, 6) if random.random() < 0.2 else None,
    )


def _nodes(random: Random, *, apps: float, cordoned: float) -> Iterator[Node]:
    for number in range(random.randint(2, 4)):
        size = (random.randint(1, 8), random.choice((0, 2, 4, 8)))
        part = random.choice((0, 0.3, 0.6, 1, 1))
        yield Node(
            name=f"n{number}",
            rack=random.choice("ab"),
            size=size,
            used=tuple(int(amount * part) for amount in size),
            is_cordoned=random.random() < cordoned,
            runs_app=random.random() < apps,
        )


# --- the rule -----------------------------------------------------------------------------------------------


def most_that_fit(case: Case, *, when_empty: bool, with_all_nodes: bool = False) -> int:
    """The answer. `when_empty`: whether other pods have ended. `with_all_nodes`: without cordons."""
    nodes = {node.name: node for node in case.nodes}
    free = {
        node.name: list(
            node.size if when_empty else [a - b for a, b in zip(node.size, node.used, strict=True)]
        )
        for node in case.nodes
    }
    apart = Counter[str]()
    if not when_empty and case.apart:
        apart.update(_value(node, case.apart) for node in case.nodes if node.runs_app)
    racks: Sequence[str] = ("a", "b") if case.one_rack else ("",)
    values = sorted({_value(node, case.together) for node in case.nodes})
    best = 0
    for rack, value in product(racks, values):
        usable = [
            node.name
            for node in case.nodes
            if rack in ("", node.rack)
            and _value(node, case.together) == value
            and (with_all_nodes or not node.is_cordoned)
        ]
        best = max(best, _Search(case, nodes, usable, free, apart).best())
    return best


def _value(node: Node, label: str) -> str:
    return {HOST: node.name, RACK: node.rack, "": ""}[label]


class _Search:
    """Tries each member on each node, and without a node."""

    def __init__(
        self,
        case: Case,
        nodes: dict[str, Node],
        usable: list[str],
        free: dict[str, list[int]],
        apart: Counter[str],
    ) -> None:
        self.case, self.nodes, self.usable = case, nodes, usable
        self.free = {name: list(amounts) for name, amounts in free.items()}
        self.apart = Counter(apart)
        self.left = case.limit
        self.placed: Counter[str] = Counter()
        self.found = 0

    def best(self) -> int:
        self._try(0)
        return self.found

    def _try(self, index: int) -> None:
        case, total = self.case, self.placed.total()
        lacking = sum(max(0, number - self.placed[role]) for role, number in case.least.items())
        if total + lacking <= case.needed:
            self.found = max(self.found, total)
        if index == len(case.members) or total + len(case.members) - index <= self.found:
            return
        member = case.members[index]
        for name in self.usable:
            if self._admits(member, name):
                self._change(member, name, 1)
                self._try(index + 1)
                self._change(member, name, -1)
        self._try(index + 1)

    def _admits(self, member: Member, name: str) -> bool:
        has_capacity = all(need <= have for need, have in zip(member.requests, self.free[name], strict=True))
        may_use = member.pinned in ("", name) and (self.left is None or member.requests[1] <= self.left)
        is_apart = not self.case.apart or not self.apart[_value(self.nodes[name], self.case.apart)]
        return has_capacity and may_use and is_apart

    def _change(self, member: Member, name: str, sign: int) -> None:
        for position, amount in enumerate(member.requests):
            self.free[name][position] -= sign * amount
        if self.left is not None:
            self.left -= sign * member.requests[1]
        if self.case.apart:
            self.apart[_value(self.nodes[name], self.case.apart)] += sign
        self.placed[member.role] += sign


# --- manifests ----------------------------------------------------------------------------------------------


def manifests(case: Case, *, needed: int | None = None) -> list[Document]:
    """The case as manifests; `needed`: another minimum."""
    topology = _object("Topology", "default", GROUP_API, {"levels": [{"name": "rack", "nodeLabel": RACK}]})
    group: Document = {"minMember": needed or case.needed}
    if case.limit is not None:
        group["queue"] = "q"
    if case.one_rack:
        group["topology"] = {"required": "rack"}
    if case.least:
        there = Counter(member.role for member in case.members)
        group["roles"] = [
            {"name": role, "count": there[role], "minMember": number} for role, number in case.least.items()
        ]
    queue = _object("Queue", "q", GROUP_API, {"limit": {RESOURCES[1]: str(case.limit)}})
    return [
        topology,
        *([queue] if case.limit is not None else []),
        *map(_node, case.nodes),
        *(pod for node in case.nodes for pod in _running(node)),
        _object("PodGroup", ASKER, GROUP_API, group),
        *(_pod(case, member) for member in case.members),
    ]


def _object(kind: str, name: str, api: str, spec: Document, **labels: str) -> Document:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "labels": labels}, "spec": spec}


def _node(node: Node) -> Document:
    found = _object("Node", node.name, "v1", {"unschedulable": True} if node.is_cordoned else {})
    found["metadata"]["labels"] = {HOST: node.name, RACK: node.rack}
    amounts = {**dict(zip(RESOURCES, map(str, node.size), strict=True)), "pods": "110", "memory": "1Ti"}
    found["status"] = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return found


def _running(node: Node) -> Iterator[Document]:
    used = dict(zip(RESOURCES, map(str, node.used), strict=True))
    if any(node.used) or node.runs_app:
        pod = _object("Pod", f"old-{node.name}", "v1", {"schedulerName": "default-scheduler"})
        pod["spec"] |= {"nodeName": node.name, "containers": [_container(used)]}
        pod["metadata"]["labels"] = {"app": ASKER} if node.runs_app else {}
        pod["status"] = {"phase": "Running"}
        yield pod


def _pod(case: Case, member: Member) -> Document:
    requests = dict(zip(RESOURCES, map(str, member.requests), strict=True))
    spec: Document = {"schedulerName": "phalanx", "containers": [_container(requests)]}
    if member.pinned:
        spec["nodeSelector"] = {HOST: member.pinned}
    for field, label in (("podAntiAffinity", case.apart), ("podAffinity", case.together)):
        term = {"topologyKey": label, "labelSelector": {"matchLabels": {"app": ASKER}}}
        if label:
            spec["affinity"] = {field: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pod = _object("Pod", member.name, "v1", spec, app=ASKER)
    pod["metadata"]["labels"][f"{LABEL}pod-group"] = ASKER
    if member.role:
        pod["metadata"]["labels"][f"{LABEL}role"] = member.role
    return pod


def _container(amounts: dict[str, str]) -> Document:
    kept = {name: amount for name, amount in amounts.items() if amount != "0"}
    return {"name": "main", "resources": {"requests": kept, "limits": kept}}


# --- messages -----------------------------------------------------------------------------------------------


class Stated(Struct, frozen=True):
    """What a message says."""

    count: int
    is_exact: bool
    needed: int
    when_empty: bool


_FORMS: Final = (
    r"(?P<more>at least )?(?P<count>\d+) of (?P<needed>\d+) pods? fit(?P<rest>.*)",
    r".* (?P<rest>allows) (?P<more>at least )?(?P<count>\d+) of (?P<needed>\d+) pods? now.*",
    r"no \S+ fits all (?P<needed>\d+) pods? (?P<rest>now): the best fits (?P<more>at least )?(?P<count>\d+)",
    (
        r"no \S+ holds (?P<needed>\d+) pods? (?P<rest>even if it is empty): "
        r"the largest fits (?P<more>at least )?(?P<count>\d+)"
    ),
    r".* is infeasible (?P<rest>.*): (?P<more>at least )?(?P<count>\d+) of (?P<needed>\d+) pods? fit",
)


def stated(message: str) -> Stated | None:
    """The numbers in a message about a gang that does not fit; None if it has none."""
    for form in _FORMS:
        if found := re.fullmatch(form, message):
            return Stated(
                count=int(found["count"]),
                is_exact=not found["more"],
                needed=int(found["needed"]),
                when_empty="empty" in found["rest"],
            )
    return None
