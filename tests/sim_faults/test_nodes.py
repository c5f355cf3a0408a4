"""F6: what a fault does to a node can be seen while it lasts, and is gone when it is over."""

import asyncio

import pytest
from msgspec.structs import replace
from phalanx_simulator.embedded.apiserver.objects import seconds_of
from phalanx_simulator.embedded.store import ChangeType
from phalanx_simulator.faults.edits import NOTE

from tests.sim_faults.conftest import RACK, Play, Town

GPU = "nvidia.com/gpu"


def ready(town: Town, name: str = "a") -> str:
    return str(town.condition(name, "Ready")["status"])


def test_not_ready_is_ready_false_for_its_seconds(play: Play) -> None:
    async def story(town: Town) -> None:
        task = town.start("node-not-ready", "a", seconds=30)
        await asyncio.sleep(10)
        assert ready(town) == "False"
        assert ready(town, "b") == "True"
        await task
        assert ready(town) == "True"

    play(story)


def test_a_lost_node_becomes_unknown_and_comes_back(play: Play) -> None:
    async def story(town: Town) -> None:
        task = town.start("node-lost", "a", seconds=120)
        await asyncio.sleep(100)
        assert ready(town) == "Unknown"
        await task
        await asyncio.sleep(20)
        assert ready(town) == "True"

    play(story)


def test_a_lost_node_does_not_become_ready_when_another_fault_ends(play: Play) -> None:
    async def story(town: Town) -> None:
        silent = town.start("node-lost", "a", seconds=300)
        await town.inject("node-not-ready", "a", seconds=100)
        assert ready(town) == "Unknown"
        await silent

    play(story)


@pytest.mark.parametrize("by_s", [-300, 300])
def test_what_a_kubelet_writes_is_off_as_its_clock_is(play: Play, by_s: int) -> None:
    """And only that: who bound the pod has the right time."""

    async def story(town: Town) -> None:
        task = town.start("node-clock", "a", seconds=30, by_s=by_s)
        await town.running("on-b", "b")
        await town.running("on-a", "a")
        now = seconds_of(town.client.now())
        assert [seconds_of(started(town, name)) - now for name in ("on-a", "on-b")] == [by_s - 1, -2]
        assert seconds_of(bound(town, "on-a")) == now - 1
        await task
        await town.running("later", "a")
        assert seconds_of(started(town, "later")) == seconds_of(town.client.now()) - 1

    def started(town: Town, name: str) -> str:
        return str(town.get("Pod", name, "default")["status"]["startTime"])

    def bound(town: Town, name: str) -> str:
        conditions = town.get("Pod", name, "default")["status"]["conditions"]
        return str(next(one["lastTransitionTime"] for one in conditions if one["type"] == "PodScheduled"))

    play(story)


@pytest.mark.parametrize(("silent", "bad"), [(0, "False"), (1, "Unknown")])
def test_a_flapping_node_changes_back_and_forth(play: Play, silent: int, bad: str) -> None:
    async def story(town: Town) -> None:
        changes = town.changes("nodes")
        await town.inject("node-flap", "a", seconds=1200, period_s=300, silent=silent)
        seen = [
            one["status"]
            for change in changes
            for one in change.entry.data["status"]["conditions"]
            if one["type"] == "Ready" and change.entry.key.name == "a"
        ]
        turns = [one for one, before in zip(seen, ["True", *seen], strict=False) if one != before]
        assert turns == [bad, "True"] * 4

    play(story)


def test_a_deleted_node_is_gone(play: Play) -> None:
    async def story(town: Town) -> None:
        await town.inject("node-delete", "a", "nobody")
        assert town.names("Node") == ["b", "c", "d"]

    play(story)


def test_a_recreated_node_is_another_of_the_same_name(play: Play) -> None:
    async def story(town: Town) -> None:
        before = town.node("a")
        await town.running("p", "a")
        cordon = town.start("node-cordon", "a", seconds=600)
        await asyncio.sleep(1)
        await town.inject("node-recreate", "a", seconds=60)
        await asyncio.sleep(60)
        after = town.node("a")
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert after["metadata"]["labels"] == before["metadata"]["labels"]
        assert after["status"]["allocatable"] == before["status"]["allocatable"]
        assert "unschedulable" not in after["spec"]
        assert ready(town) == "True"
        await cordon
        assert "unschedulable" not in town.node("a")["spec"]

    play(story)


def test_a_recreated_node_may_stand_elsewhere(play: Play) -> None:
    async def story(town: Town) -> None:
        racks = set()
        for _ in range(12):
            await town.inject("node-recreate", "a", labels="another")
            labels = town.node("a")["metadata"]["labels"]
            assert labels["kubernetes.io/hostname"] == "a"
            racks.add(labels[RACK])
        assert racks == {"r0", "r1"}

    play(story)


def test_a_cordon_ends_unless_somebody_else_had_cordoned(play: Play) -> None:
    async def story(town: Town) -> None:
        task = town.start("node-cordon", "a", seconds=10)
        await asyncio.sleep(1)
        assert town.node("a")["spec"]["unschedulable"] is True
        later = town.start("node-cordon", "a", seconds=60)
        await task
        assert "unschedulable" not in town.node("a")["spec"]
        await later
        assert "unschedulable" not in town.node("a")["spec"]

    play(story)


@pytest.mark.parametrize("effect", ["NoSchedule", "PreferNoSchedule", "NoExecute"])
def test_a_taint_comes_and_goes_and_leaves_others(play: Play, effect: str) -> None:
    async def story(town: Town) -> None:
        other = town.start("node-taint", "a", seconds=60, key="example.com/other")
        task = town.start("node-taint", "a", seconds=10, key="k", value="v", effect=effect)
        await asyncio.sleep(1)
        taints = {(one["key"], one["effect"], one.get("value")) for one in town.node("a")["spec"]["taints"]}
        assert taints == {("k", effect, "v"), ("example.com/other", "NoSchedule", None)}
        await task
        assert [one["key"] for one in town.node("a")["spec"]["taints"]] == ["example.com/other"]
        await other
        assert "taints" not in town.node("a")["spec"]

    play(story)


def test_a_no_execute_taint_drives_pods_away(play: Play) -> None:
    async def story(town: Town) -> None:
        await town.running("p", "a")
        await town.inject("node-taint", "a", seconds=60, effect="NoExecute")
        assert "p" not in town.names("Pod")

    play(story)


def test_allocatable_walks_down_and_back(play: Play) -> None:
    async def story(town: Town) -> None:
        changes = town.changes("nodes")
        await town.inject("node-allocatable", "a", seconds=20, walk="7,0")
        walk = [change.entry.data["status"]["allocatable"][GPU] for change in changes]
        assert walk == ["7", "0", "8"]
        assert town.node("a")["status"]["capacity"][GPU] == "8"

    play(story)


@pytest.mark.parametrize(("to", "seen"), [("removed", None), ("nowhere", "nowhere")])
def test_an_edited_label_comes_back(play: Play, to: str, seen: str | None) -> None:
    async def story(town: Town) -> None:
        task = town.start("node-labels", "a", seconds=10, label=RACK, to=to)
        await asyncio.sleep(1)
        assert town.node("a")["metadata"]["labels"].get(RACK) == seen
        await task
        assert town.node("a")["metadata"]["labels"][RACK] == "r0"
        assert NOTE not in town.node("a")["metadata"]["annotations"]

    play(story)


def test_overlapping_label_faults_restore_the_original_labels(play: Play) -> None:
    async def story(town: Town) -> None:
        first = town.start("node-labels", "a", seconds=20, label=RACK, to="x")
        await asyncio.sleep(1)
        second = town.start("node-labels", "a", seconds=40, label=RACK, to="y")
        await asyncio.gather(first, second)
        assert town.node("a")["metadata"]["labels"][RACK] == "r0"

    play(story)


def test_a_node_recreated_during_a_label_fault_has_its_original_labels(play: Play) -> None:
    async def story(town: Town) -> None:
        task = town.start("node-labels", "a", seconds=60, label=RACK, to="removed")
        await asyncio.sleep(1)
        await town.inject("node-recreate", "a", seconds=5)
        assert town.node("a")["metadata"]["labels"][RACK] == "r0"
        await task

    play(story)


def test_a_run_that_is_over_ends_a_flapping_at_once(play: Play) -> None:
    async def story(town: Town) -> None:
        async def over(_seconds: float) -> None:
            return

        changes = town.changes("nodes")
        hurried = replace(town, context=replace(town.context, sleep=over))
        await hurried.inject("node-flap", "a", seconds=10_000, period_s=1)
        assert len([change for change in changes if change.type is ChangeType.MODIFIED]) <= 4
        assert ready(town) == "True"

    play(story)
