"""The expectations of scenarios, and the answers of `phalanx decide`, equal those of exhaustive search."""

import itertools
from collections import Counter
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tests import fast_yaml
from tests.scenarios.brute_force import CASES, FOLDER, Cluster, decided, key_of


@pytest.mark.parametrize("name", CASES)
def test_the_decision_is_a_best_placement(name: str) -> None:
    cluster = Cluster(name)
    found = [(CASES[name](cluster, assignments), assignments) for assignments in cluster.placements()]
    least = min(cost for cost, _ in found)
    best = [{key_of(pod): node for pod, node in assignments} for cost, assignments in found if cost == least]
    assert decided(name) in best
    for pattern, nodes in _expected(name)["placed"].items():
        possible = {
            node for assignments in best for pod, node in assignments.items() if fnmatchcase(pod, pattern)
        }
        assert possible == ({nodes} if isinstance(nodes, str) else set(nodes)), pattern


def test_every_assignment_of_the_gpus_has_both_halves_on_one() -> None:
    name, share = "half-and-whole-gpus", "scheduling.phalanx.dev/gpu-share"
    pods = Cluster(name).waiting
    ways = []
    for gpus in itertools.product(range(2), repeat=len(pods)):
        used: Counter[int] = Counter()
        for pod, gpu in zip(pods, gpus, strict=True):
            used[gpu] += int(pod["metadata"]["annotations"][share])
        if max(used.values()) <= 1000:
            ways.append({key_of(pod): gpu for pod, gpu in zip(pods, gpus, strict=True)})
    assert all(way["default/a-half"] == way["default/b-half"] for way in ways)
    assert _expected(name)["gpus"] in ways
    assert len(decided(name)) == len(pods)


def _expected(name: str) -> dict[str, Any]:
    expected: dict[str, Any] = fast_yaml.safe_load((FOLDER / f"{name}.expect.yaml").read_text())
    return expected
