"""F7: many nodes within a short time."""

import asyncio

import pytest

from tests.sim_faults.conftest import FaultCluster, Play


@pytest.mark.parametrize("kind", ["rack-out", "switch-out", "power-out", "share-out"])
def test_all_nodes_of_a_domain_fail_within_the_interval(play: Play, kind: str) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        task = cluster.start(kind, "a", "b", seconds=300, each="node-not-ready", within_s=60)
        await asyncio.sleep(61)
        ready = {name: cluster.condition(name, "Ready")["status"] for name in cluster.names("Node")}
        assert ready == {"a": "False", "b": "False", "c": "True", "d": "True"}
        await task
        assert all(cluster.condition(name, "Ready")["status"] == "True" for name in cluster.names("Node"))

    play(scenario)


def test_nodes_of_a_domain_fail_at_different_times(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        loop, times = asyncio.get_running_loop(), dict[str, float]()
        cluster.client.subscribe("nodes", lambda change: times.setdefault(change.entry.key.name, loop.time()))
        task = cluster.start("share-out", "a", "b", "c", "d", seconds=300, each="node-cordon", within_s=60)
        await asyncio.sleep(100)
        assert sorted(times) == ["a", "b", "c", "d"]
        assert len(set(times.values())) == 4
        assert max(times.values()) - min(times.values()) <= 60
        await task

    play(scenario)


def test_a_mass_false_positive_sets_one_condition_on_all_nodes(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        task = cluster.start(
            "mass-false-positive", "a", "b", "c", seconds=300, type="IBLinksProblem", within_s=1
        )
        await asyncio.sleep(5)
        found = [cluster.condition(name, "IBLinksProblem").get("status") for name in cluster.names("Node")]
        assert found == ["True", "True", "True", None]
        await task
        assert cluster.condition("a", "IBLinksProblem")["status"] == "False"

    play(scenario)
