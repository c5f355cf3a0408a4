"""What two scenarios expect is what listing every placement finds, pod by pod as Kubernetes filters."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parent
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

Item = dict[str, Any]
Seat = tuple[Item, str]
"""A pod and its node's name."""


class Cluster:
    """The nodes of a scenario, its pods with a node, and those without."""

    def __init__(self, name: str) -> None:
        items = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())["items"]
        self.nodes = {one["metadata"]["name"]: one for one in items if one["kind"] == "Node"}
        pods = [one for one in items if one["kind"] == "Pod"]
        self.there = [(pod, pod["spec"]["nodeName"]) for pod in pods if "nodeName" in pod["spec"]]
        self.waiting = [pod for pod in pods if "nodeName" not in pod["spec"]]

    def placements(self) -> Iterator[list[Seat]]:
        """Every way to put the waiting pods on nodes that Kubernetes could let them take in some order."""
        for nodes in itertools.product(self.nodes, repeat=len(self.waiting)):
            seats = list(zip(self.waiting, nodes, strict=True))
            if self._fits([*self.there, *seats]) and self._come(seats):
                yield seats

    def label(self, node: str, key: str) -> str | None:
        found: str | None = self.nodes[node]["metadata"].get("labels", {}).get(key)
        return found

    def _fits(self, seats: Sequence[Seat]) -> bool:
        used = dict.fromkeys(self.nodes, 0)
        for pod, node in seats:
            used[node] += pod["spec"]["containers"][0].get("resources", {}).get("requests", {}).get("cpu", 0)
        return all(used[name] <= node["status"]["allocatable"]["cpu"] for name, node in self.nodes.items())

    def _come(self, seats: Sequence[Seat]) -> bool:
        return any(
            all(self._may_come(*seat, [*self.there, *order[:number]]) for number, seat in enumerate(order))
            for order in itertools.permutations(seats)
        )

    def _may_come(self, pod: Item, node: str, there: Sequence[Seat]) -> bool:
        for other, seat in there:
            for mine, theirs in ((pod, other), (other, pod)):
                for term in _terms(mine, "podAntiAffinity"):
                    if _means(term, theirs) and self._is_near(node, seat, term):
                        return False
        for term in _terms(pod, "podAffinity"):
            meant = [seat for other, seat in there if _means(term, other)]
            if not any(self._is_near(node, seat, term) for seat in meant) and (
                meant or not _means(term, pod)
            ):
                return False
        return True

    def _is_near(self, one: str, other: str, term: Item) -> bool:
        value = self.label(one, term["topologyKey"])
        return value is not None and value == self.label(other, term["topologyKey"])


def _terms(pod: Item, kind: str) -> list[Item]:
    terms: list[Item] = pod["spec"].get("affinity", {}).get(kind, {}).get(REQUIRED, [])
    return terms


def _means(term: Item, pod: Item) -> bool:
    labels = pod["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in term["labelSelector"]["matchLabels"].items())


@pytest.mark.parametrize(
    ("name", "group", "rack"),
    [("anti-affine-pair", "pair", "example.com/rack"), ("affinity-in-gang", "ring", "example.com/rack")],
)
def test_the_expected_placements_are_those_in_the_fewest_racks(name: str, group: str, rack: str) -> None:
    cluster = Cluster(name)
    found = list(cluster.placements())
    racks = [len({cluster.label(node, rack) for _, node in seats}) for seats in found]
    best = [seats for seats, count in zip(found, racks, strict=True) if count == min(racks)]
    expected = yaml.safe_load((FOLDER / f"{name}.expect.yaml").read_text())["placed"]
    assert expected == {f"default/{group}-*": sorted({node for seats in best for _, node in seats})}
