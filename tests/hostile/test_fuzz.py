"""Thousands of mutated objects beside healthy gangs. `python -m bench.hostile` does the same with 100,000."""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from tests.call_counts import counted
from tests.examples import examples
from tests.hostile import events
from tests.hostile.commands import decided
from tests.hostile.generator import MutatedObject, mutated_objects, paths
from tests.hostile.harness import Cluster, add_healthy, check_healthy

OBJECTS = 375
SEEDS = range(max(4, examples(4) // 20))


def some(seed: int, count: int = OBJECTS) -> list[MutatedObject]:
    return list(islice(mutated_objects(seed), count))


def cluster_with(items: Iterable[MutatedObject], seed: int) -> Cluster:
    cluster = Cluster()
    add_healthy(cluster)
    random = Random(seed)
    for item in items:
        events.send(cluster, random, item)
    return cluster


def test_a_deep_document_can_be_mutated_again() -> None:
    document: dict[str, object] = {}
    for _ in range(5000):
        document = {"again": document}
    assert len(paths(document)) == 100


@pytest.mark.properties
@pytest.mark.parametrize("seed", SEEDS)
async def test_hostile_objects_do_not_disturb_healthy_gangs(seed: int) -> None:
    cluster = cluster_with(some(seed), seed)
    await cluster.deliver()
    snapshot, result = cluster.cycle()
    check_healthy(snapshot, result)
    assert cluster.unreported() == []
    cluster.cycle()
    await cluster.delete_everything()


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert some(5, 50) == some(5, 50)
    assert some(5, 50) != some(6, 50)


async def test_the_cost_of_hostile_objects_is_additive() -> None:
    """Compare function calls for four lots in one cluster with those for each lot in its own cluster.

    Nodes are left out: gangs and nodes multiply, hostile or not.
    """
    lots = [[item for item in some(seed, 120) if item.kind != "Node"] for seed in (21, 22, 23, 24)]
    alone = [await calls_for(lot) for lot in lots]
    together = await calls_for([_renamed(item, str(n)) for n, lot in enumerate(lots) for item in lot])
    healthy = await calls_for([])
    assert together - healthy < 1.5 * sum(calls - healthy for calls in alone)


def _renamed(item: MutatedObject, lot: str) -> MutatedObject:
    return item._replace(name=f"{item.name}-{lot}", body=item.body.replace(b'"x-', b'"x%s-' % lot.encode()))


async def calls_for(items: list[MutatedObject]) -> int:
    """Number of function calls of a cycle over these objects."""
    cluster = Cluster()
    add_healthy(cluster)
    for item in items:
        cluster.send(item.kind, b'{"type":"ADDED","object":' + item.body + b"}")
    await cluster.deliver()
    return counted(cluster.cycle)


async def test_an_object_that_is_sent_repeatedly_is_logged_once() -> None:
    cluster = Cluster()
    body = b'{"metadata":{"name":"bad","namespace":"n","resourceVersion":"7"},"spec":{"priority":"high"}}'
    for kind in (b"ADDED", b"MODIFIED", b"MODIFIED"):
        cluster.send("Pod", b'{"type":"' + kind + b'","object":' + body + b"}")
    await cluster.deliver()
    await cluster.deliver()
    assert cluster.logs == {("Pod", "n", "bad"): 1}
    assert "spec.priority" in cluster.warnings[0]["error"]


@pytest.mark.parametrize(
    "malformed", events.MALFORMED_LINES, ids=lambda line: line[:40].decode(errors="replace")
)
async def test_malformed_watch_lines_do_not_stop_a_reflector(malformed: bytes) -> None:
    cluster = Cluster()
    add_healthy(cluster)
    for server in cluster.servers.values():
        server.lines.insert(0, malformed)
        server.lines.append(malformed)
    await cluster.deliver()
    check_healthy(*cluster.cycle())


@pytest.mark.parametrize("seed", [41, 42])
def test_phalanx_decide_accepts_or_names_every_manifest(seed: int, tmp_path: Path) -> None:
    codes = Counter(decided(item, tmp_path / "object.yaml") for item in some(seed, 90))
    assert codes[2] > 0
    assert codes[0] > 0
