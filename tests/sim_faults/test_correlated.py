"""F7: many nodes within a short time."""

import asyncio

import pytest

from tests.sim_faults.conftest import Play, Town


@pytest.mark.parametrize("kind", ["rack-out", "switch-out", "power-out", "share-out"])
def test_all_nodes_of_a_domain_go_within_their_time(play: Play, kind: str) -> None:
    async def story(town: Town) -> None:
        task = town.start(kind, "a", "b", seconds=300, each="node-not-ready", within_s=60)
        await asyncio.sleep(61)
        ready = {name: town.condition(name, "Ready")["status"] for name in town.names("Node")}
        assert ready == {"a": "False", "b": "False", "c": "True", "d": "True"}
        await task
        assert all(town.condition(name, "Ready")["status"] == "True" for name in town.names("Node"))

    play(story)


def test_they_do_not_all_go_at_once(play: Play) -> None:
    async def story(town: Town) -> None:
        loop, times = asyncio.get_running_loop(), dict[str, float]()
        town.client.subscribe("nodes", lambda change: times.setdefault(change.entry.key.name, loop.time()))
        task = town.start("share-out", "a", "b", "c", "d", seconds=300, each="node-cordon", within_s=60)
        await asyncio.sleep(100)
        assert sorted(times) == ["a", "b", "c", "d"]
        assert len(set(times.values())) == 4
        assert max(times.values()) - min(times.values()) <= 60
        await task

    play(story)


def test_a_mass_false_positive_flips_one_condition_everywhere(play: Play) -> None:
    async def story(town: Town) -> None:
        task = town.start(
            "mass-false-positive", "a", "b", "c", seconds=300, type="IBLinksProblem", within_s=1
        )
        await asyncio.sleep(5)
        found = [town.condition(name, "IBLinksProblem").get("status") for name in town.names("Node")]
        assert found == ["True", "True", "True", None]
        await task
        assert town.condition("a", "IBLinksProblem")["status"] == "False"

    play(story)
