"""Small cases in which pod-by-pod greedy placement is not optimal, compared with Phalanx and all placements.

    python -m bench.greedy_loses

Each case is a scenario of tests/scenarios, which names its source. The benchmark lists every feasible
placement and the least cost, the answer of `phalanx decide`, and the result of a greedy scheduler without
backtracking that places pods in the order of the document, each on the fullest or on the emptiest feasible
node. Writes bench/results/greedy_loses.json.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from bench.record import record
from tests.scenarios.brute_force import CASES, Assignment, Cluster, Item, decided, key_of, requests_of

RESULTS = Path(__file__).parent / "results"

Cost = tuple[int, ...]

NOTHING: Final = "not placed"


class Row(Struct, frozen=True, rename="camel"):
    """One case: the number of placements, and the cost of each method; None when it places nothing."""

    case: str
    pods: int
    nodes: int
    placements: int
    best_placements: int
    best: Cost
    phalanx: Cost | None
    fullest_first: Cost | None
    emptiest_first: Cost | None


def measured(name: str) -> Row:
    """List all placements, decide, and place pod by pod."""
    cluster, cost = Cluster(name), CASES[name]
    costs = [cost(cluster, assignments) for assignments in cluster.placements()]
    fullest, emptiest = (pod_by_pod(cluster, fullest=way) for way in (True, False))
    ours = _ours(name, cluster)
    return Row(
        case=name,
        pods=len(cluster.waiting),
        nodes=len(cluster.nodes),
        placements=len(costs),
        best_placements=costs.count(min(costs)),
        best=min(costs),
        phalanx=cost(cluster, ours) if ours else None,
        fullest_first=cost(cluster, fullest) if fullest else None,
        emptiest_first=cost(cluster, emptiest) if emptiest else None,
    )


def pod_by_pod(cluster: Cluster, *, fullest: bool) -> list[Assignment]:
    """Place each pod on its first feasible node; place nothing when one pod has none, since it is a gang."""
    assignments: list[Assignment] = []
    for pod in cluster.waiting:
        there = [*cluster.there, *assignments]
        nodes = [node for node in cluster.in_use() if cluster.admits(pod, node, there)]
        if not nodes:
            return []
        use = {node: _use(cluster, node, pod, there) for node in nodes}
        assignments.append((pod, (max if fullest else min)(nodes, key=use.__getitem__)))
    return assignments


def _use(cluster: Cluster, node: str, pod: Item, there: Sequence[Assignment]) -> float:
    """The mean utilisation of the node in the resources of this pod, a common node score."""
    offers = cluster.nodes[node]["status"]["allocatable"]
    used = [requests_of(other) for other, place in there if place == node]
    shares = [sum(each.get(name, 0) for each in used) / offers[name] for name in requests_of(pod)]
    return float(sum(shares) / len(shares))


def _ours(name: str, cluster: Cluster) -> list[Assignment]:
    """The answer of `phalanx decide`."""
    node_of = decided(name)
    return [(pod, node_of[key_of(pod)]) for pod in cluster.waiting if key_of(pod) in node_of]


def line(row: Row) -> str:
    """A line of the table."""
    ways = (row.best, row.phalanx, row.fullest_first, row.emptiest_first)
    return (
        f"{row.case:<32} {row.pods:>4} {row.nodes:>5} {row.placements:>10} {row.best_placements:>5} "
        + " ".join(f"{_shown(way):>14}" for way in ways)
    )


def _shown(cost: Cost | None) -> str:
    if cost is None:
        return NOTHING
    return "/".join(map(str, cost)) or "placed"


def main() -> None:
    """Print one line per case."""
    ways = ("best", "phalanx", "fullest first", "emptiest first")
    print(
        f"{'case':<32} {'pods':>4} {'nodes':>5} {'placements':>10} {'best':>5} "
        + " ".join(f"{way:>14}" for way in ways)
    )
    rows: list[Row] = []
    for name in CASES:
        rows.append(measured(name))
        print(line(rows[-1]), flush=True)
    record(RESULTS / "greedy_loses.json", msgspec.to_builtins(rows))


if __name__ == "__main__":
    main()
