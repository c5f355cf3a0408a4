"""Exhaustive search over all placements of small scenarios, with the costs of the best ones.

In each scenario a greedy scheduler, which places pod after pod, finds a worse placement or none.
"""

import contextlib
import io
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from phalanx.cli.app import main

from tests import fast_yaml

FOLDER = Path(__file__).parent
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Item = dict[str, Any]
Assignment = tuple[Item, str]
"""A pod and the name of its node."""

WELL_KNOWN_RACK = "cloud.provider.com/topology-rack"
RACK, ZONE = "example.com/rack", "topology.kubernetes.io/zone"
SPINE, LEAF = "network.topology.nvidia.com/spine", "network.topology.nvidia.com/block"
SUBGROUP = "scheduling.phalanx.dev/subgroup"


class Cluster:
    """The nodes of a scenario, its pods with a node, and those without."""

    def __init__(self, name: str) -> None:
        items = fast_yaml.safe_load((FOLDER / f"{name}.yaml").read_text())["items"]
        self.nodes = {one["metadata"]["name"]: one for one in items if one["kind"] == "Node"}
        pods = [one for one in items if one["kind"] == "Pod"]
        self.there = [(pod, pod["spec"]["nodeName"]) for pod in pods if "nodeName" in pod["spec"]]
        self.waiting = [pod for pod in pods if "nodeName" not in pod["spec"]]

    def placements(self) -> Iterator[list[Assignment]]:
        """Yield every assignment of the waiting pods that Kubernetes allows in some order of the pods."""
        for nodes in itertools.product(self.in_use(), repeat=len(self.waiting)):
            assignments = list(zip(self.waiting, nodes, strict=True))
            if self._fits([*self.there, *assignments]) and self._is_reachable(assignments):
                yield assignments

    def admits(self, pod: Item, node: str, there: Sequence[Assignment]) -> bool:
        """Whether the node admits the pod after the pods `there`."""
        return self._fits([*there, (pod, node)]) and self._admits(pod, node, there)

    def in_use(self) -> list[str]:
        """The nodes that are not cordoned."""
        return [name for name, node in self.nodes.items() if not node.get("spec", {}).get("unschedulable")]

    def label(self, node: str, key: str) -> str | None:
        found: str | None = self.nodes[node]["metadata"].get("labels", {}).get(key)
        return found

    def _fits(self, assignments: Sequence[Assignment]) -> bool:
        used: Counter[tuple[str, str]] = Counter()
        for pod, node in assignments:
            for resource, amount in requests_of(pod).items():
                used[node, resource] += amount
        return all(
            amount <= self.nodes[node]["status"]["allocatable"].get(resource, 0)
            for (node, resource), amount in used.items()
        )

    def _is_reachable(self, assignments: Sequence[Assignment]) -> bool:
        if not any(pod["spec"].get("affinity") for pod, _ in [*self.there, *assignments]):
            return True
        return any(
            all(self._admits(*place, [*self.there, *order[:number]]) for number, place in enumerate(order))
            for order in itertools.permutations(assignments)
        )

    def _admits(self, pod: Item, node: str, there: Sequence[Assignment]) -> bool:
        for other, place in there:
            for mine, theirs in ((pod, other), (other, pod)):
                for term in _terms(mine, "podAntiAffinity"):
                    if _selects(term, theirs) and self.is_near(node, place, term):
                        return False
        for term in _terms(pod, "podAffinity"):
            meant = [place for other, place in there if _selects(term, other)]
            if not any(self.is_near(node, place, term) for place in meant) and (
                meant or not _selects(term, pod)
            ):
                return False
        return True

    def is_near(self, one: str, other: str, term: Item) -> bool:
        """Whether the nodes have the same value of the label of the term."""
        value = self.label(one, term["topologyKey"])
        return value is not None and value == self.label(other, term["topologyKey"])


def requests_of(pod: Item) -> dict[str, int]:
    """The requests of the pod."""
    resources = pod["spec"]["containers"][0].get("resources", {})
    return {**resources.get("limits", {}), **resources.get("requests", {})}


def _terms(pod: Item, kind: str) -> list[Item]:
    terms: list[Item] = pod["spec"].get("affinity", {}).get(kind, {}).get(REQUIRED, [])
    return terms


def _preferred(pod: Item) -> Iterator[tuple[int, Item]]:
    """The preferred terms, each with what it adds for a pod that it selects."""
    for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
        for each in pod["spec"].get("affinity", {}).get(kind, {}).get(PREFERRED, []):
            yield sign * each["weight"], each["podAffinityTerm"]


def _selects(term: Item, pod: Item) -> bool:
    labels = pod["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in term["labelSelector"]["matchLabels"].items())


def _fewest(*keys: str) -> Callable[[Cluster, Sequence[Assignment]], tuple[int, ...]]:
    """Minimise the number of domains of these levels, in lexicographic order."""

    def cost(cluster: Cluster, assignments: Sequence[Assignment]) -> tuple[int, ...]:
        return tuple(len({cluster.label(node, key) for _, node in assignments}) for key in keys)

    return cost


def _most_on_a_node(_cluster: Cluster, assignments: Sequence[Assignment]) -> tuple[int, ...]:
    return (max(Counter(node for _, node in assignments).values()),)


def _most_on_a_node_and_in_a_rack(cluster: Cluster, assignments: Sequence[Assignment]) -> tuple[int, ...]:
    racks = Counter(cluster.label(node, WELL_KNOWN_RACK) for _, node in assignments)
    return (*_most_on_a_node(cluster, assignments), max(racks.values()))


def _least_score(cluster: Cluster, assignments: Sequence[Assignment]) -> tuple[int, ...]:
    """Minimise the negative score: each pair of pods counts with the terms of both."""
    score = 0
    for number, (pod, node) in enumerate(assignments):
        for other, place in [*cluster.there, *assignments[:number]]:
            for owner, selected in ((pod, other), (other, pod)):
                for weight, term in _preferred(owner):
                    if _selects(term, selected) and cluster.is_near(node, place, term):
                        score += weight
    return (-score,)


def _any(_cluster: Cluster, _assignments: Sequence[Assignment]) -> tuple[int, ...]:
    return ()


def _racks_of_subgroups(cluster: Cluster, assignments: Sequence[Assignment]) -> tuple[int, ...]:
    """Minimise the number of racks of the subgroup with the most racks."""
    racks = {(pod["metadata"]["labels"][SUBGROUP], cluster.label(node, RACK)) for pod, node in assignments}
    return (max(Counter(subgroup for subgroup, _ in racks).values()),)


CASES = {
    "swap": _any,
    "anti-affine-pair": _fewest(RACK),
    "subgroup-leaves-the-only-domain": _racks_of_subgroups,
    "aggregate-is-not-enough": _fewest(RACK),
    "knavigator-topology": _fewest(LEAF, SPINE),
    "preferred-rack-packs": _fewest(RACK, ZONE),
    "spread-is-even": _most_on_a_node,
    "spread-over-racks": _most_on_a_node_and_in_a_rack,
    "affinity-in-gang": _fewest(RACK),
    "preferred-pod-affinity": _least_score,
}
"""The cost that the best placements minimise, by scenario."""


def key_of(pod: Item) -> str:
    """The namespace and name of a pod."""
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"


def decided(name: str) -> dict[str, str]:
    """The node of each pod that `phalanx decide` places, by the key of the pod."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        main(["decide", "-f", str(FOLDER / f"{name}.yaml")])
    cycles = json.loads(said.getvalue())["cycles"]
    return {bind["pod"]: bind["node"] for cycle in cycles for bind in cycle["binds"]}
