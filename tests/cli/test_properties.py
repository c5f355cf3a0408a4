"""Properties of every result of `phalanx decide`, checked against the manifests alone.

The oracle does not use the scheduler's code: it adds up the requests of the input's pods, and tries every
node for every waiting pod.
"""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from msgspec import Struct
from phalanx.cli.app import main

from tests.examples import holds

RACK = "example.com/rack"
LIMIT = 6


class Node(Struct):
    name: str
    rack: str
    cpu: int
    pods: int
    cordoned: bool


class Group(Struct):
    """A pod for each of `sizes`, in CPUs; `minimum` of them start together, all if the sizes differ."""

    name: str
    sizes: list[int]
    minimum: int
    required: bool
    limited: bool


class Case(Struct):
    nodes: list[Node]
    groups: list[Group]
    foreign: list[tuple[int, int]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    nodes = [
        Node(
            f"n{number}",
            draw(st.sampled_from("abc")),
            draw(st.integers(0, 6)),
            draw(st.integers(1, 4)),
            cordoned,
        )
        for number in range(draw(st.integers(1, 6)))
        for cordoned in [draw(st.integers(0, 4)) == 0]
    ]
    groups = []
    for number in range(draw(st.integers(1, 5))):
        sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
        sizes = draw(st.sampled_from((sizes, [sizes[0]] * len(sizes))))
        minimum = len(sizes) if len(set(sizes)) > 1 else draw(st.integers(1, len(sizes)))
        groups.append(Group(f"g{number}", sizes, minimum, draw(st.booleans()), draw(st.booleans())))
    foreign = draw(st.lists(st.tuples(st.integers(0, len(nodes) - 1), st.integers(1, 3)), max_size=2))
    return Case(nodes, groups, foreign)


def manifests(case: Case) -> list[dict[str, Any]]:
    ours = "scheduling.phalanx.dev/v1alpha1"
    items: list[dict[str, Any]] = [
        {
            "apiVersion": ours,
            "kind": "Queue",
            "metadata": {"name": "limited"},
            "spec": {"limit": {"cpu": LIMIT}},
        },
        {
            "apiVersion": ours,
            "kind": "Topology",
            "metadata": {"name": "network"},
            "spec": {"levels": [{"name": "rack", "nodeLabel": RACK}]},
        },
    ]
    for node in case.nodes:
        amounts = {"cpu": node.cpu, "pods": node.pods}
        items.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": node.name, "labels": {RACK: node.rack}},
                "spec": {"unschedulable": node.cordoned},
                "status": {"allocatable": amounts},
            }
        )
    for number, (node, cpu) in enumerate(case.foreign):
        items.append(pod(f"foreign-{number}", cpu, nodeName=case.nodes[node].name))
    for group in case.groups:
        spec: dict[str, Any] = {"minMember": group.minimum}
        spec |= {"topology": {"required": "rack"}} if group.required else {}
        spec |= {"queue": "limited"} if group.limited else {}
        items.append({"apiVersion": ours, "kind": "PodGroup", "metadata": {"name": group.name}, "spec": spec})
        for member, cpu in enumerate(group.sizes):
            item = pod(f"{group.name}-{member}", cpu, schedulerName="phalanx")
            item["metadata"]["labels"] = {"scheduling.phalanx.dev/pod-group": group.name}
            items.append(item)
    return items


def pod(name: str, cpu: int, **spec: str) -> dict[str, Any]:
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, **spec},
    }


class Outcome:
    """The effect of the output's binds on the objects of the case. Evicted pods are not recreated."""

    def __init__(self, case: Case, output: dict[str, Any]) -> None:
        binds = [bind for cycle in output["cycles"] for bind in cycle["binds"]]
        self.node_of = {bind["pod"].removeprefix("default/"): bind["node"] for bind in binds}
        assert len(self.node_of) == len(binds), "a pod is bound twice"
        evictions = [each["pod"] for cycle in output["cycles"] for each in cycle["evictions"]]
        self.gone = {pod.removeprefix("default/") for pod in evictions}
        self.waiting = {
            each["group"].removeprefix("default/"): each for each in output["cycles"][-1]["verdicts"]
        }
        self.members = {
            group.name: {
                number: self.node_of[f"{group.name}-{number}"]
                for number in range(len(group.sizes))
                if f"{group.name}-{number}" in self.node_of.keys() - self.gone
            }
            for group in case.groups
        }
        self.free = {node.name: [node.cpu, node.pods] for node in case.nodes}
        for node, cpu in case.foreign:
            self._take(case.nodes[node].name, cpu)
        self.before = {name: tuple(free) for name, free in self.free.items()}
        self.limit_left = LIMIT
        for group in case.groups:
            for number, node in self.members[group.name].items():
                self._take(node, group.sizes[number])
                self.limit_left -= group.sizes[number] if group.limited else 0

    def _take(self, node: str, cpu: int) -> None:
        self.free[node][0] -= cpu
        self.free[node][1] -= 1


def fits_free_capacity(case: Case, group: Group, sizes: list[int], outcome: Outcome) -> bool:
    """Whether pods of these sizes could join the group in the free capacity."""
    if group.limited and sum(sizes) > outcome.limit_left:
        return False
    open_nodes = [node for node in case.nodes if not node.cordoned]
    own_racks = {node.rack for node in case.nodes if node.name in outcome.members[group.name].values()}
    racks = (own_racks or {node.rack for node in open_nodes}) if group.required else {None}
    return any(
        all_fit(sizes, [list(outcome.free[node.name]) for node in open_nodes if rack in (None, node.rack)])
        for rack in racks
    )


def all_fit(sizes: list[int], free: list[list[int]]) -> bool:
    """Exhaustive: tries every node for every pod."""
    if not sizes:
        return True
    for node in free:
        if node[0] >= sizes[0] and node[1] >= 1:
            node[0], node[1] = node[0] - sizes[0], node[1] - 1
            if all_fit(sizes[1:], free):
                return True
            node[0], node[1] = node[0] + sizes[0], node[1] + 1
    return False


@holds(20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=cases())
def test_outcomes_are_sound(case: Case, capsys: pytest.CaptureFixture[str], tmp_path_factory: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "case.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests(case)}))
    assert main(["decide", "-f", str(path)]) == 0
    outcome = Outcome(case, json.loads(capsys.readouterr().out))
    check_nodes(case, outcome)
    for group in case.groups:
        check_group(case, group, outcome)


def check_nodes(case: Case, outcome: Outcome) -> None:
    cordoned = {node.name for node in case.nodes if node.cordoned}
    assert cordoned.isdisjoint(outcome.node_of.values())
    for name, free in outcome.free.items():
        assert min(free) >= 0 or tuple(free) == outcome.before[name], f"{name} is overcommitted"
    assert outcome.limit_left >= 0


def check_group(case: Case, group: Group, outcome: Outcome) -> None:
    placed = outcome.members[group.name]
    assert not placed or len(placed) >= group.minimum, "a partial gang"
    racks = {node.rack for node in case.nodes if node.name in placed.values()}
    assert not group.required or len(racks) <= 1
    left = [
        size
        for number, size in enumerate(group.sizes)
        if number not in placed and f"{group.name}-{number}" not in outcome.gone
    ]
    assert (group.name in outcome.waiting) == bool(left), "exactly the waiting gangs have a verdict"
    if left:
        needed = left[:1] if placed else left[: group.minimum]
        assert not fits_free_capacity(case, group, needed, outcome), "it waits although it fits"
