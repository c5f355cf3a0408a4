"""F6: what a fault does to a node can be seen while it lasts, and is gone when it is over."""

import asyncio

import pytest
from msgspec.structs import replace
from phalanx_simulator.embedded.apiserver.objects import seconds_of
from phalanx_simulator.embedded.store import ChangeType
from phalanx_simulator.faults.edits import NOTE

from tests.sim_faults.conftest import RACK, FaultCluster, Play

GPU = "nvidia.com/gpu"


def ready(cluster: FaultCluster, name: str = "a") -> str:
    return str(cluster.condition(name, "Ready")["status"])


def test_not_ready_sets_ready_false_for_its_duration(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        task = cluster.start("node-not-ready", "a", seconds=30)
        await asyncio.sleep(10)
        assert ready(cluster) == "False"
        assert ready(cluster, "b") == "True"
        await task
        assert ready(cluster) == "True"

    play(scenario)


def test_a_lost_node_becomes_unknown_and_ready_again(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        task = cluster.start("node-lost", "a", seconds=120)
        await asyncio.sleep(100)
        assert ready(cluster) == "Unknown"
        await task
        await asyncio.sleep(20)
        assert ready(cluster) == "True"

    play(scenario)


def test_a_lost_node_does_not_become_ready_when_another_fault_ends(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        silent = cluster.start("node-lost", "a", seconds=300)
        await cluster.inject("node-not-ready", "a", seconds=100)
        assert ready(cluster) == "Unknown"
        await silent

    play(scenario)


@pytest.mark.parametrize("by_s", [-300, 300])
def test_a_kubelet_with_a_wrong_clock_writes_wrong_times(play: Play, by_s: int) -> None:
    """And only that: who bound the pod has the right time."""

    async def scenario(cluster: FaultCluster) -> None:
        task = cluster.start("node-clock", "a", seconds=30, by_s=by_s)
        await cluster.running("on-b", "b")
        await cluster.running("on-a", "a")
        now = seconds_of(cluster.client.now())
        assert [seconds_of(started(cluster, name)) - now for name in ("on-a", "on-b")] == [by_s - 1, -2]
        assert seconds_of(bound(cluster, "on-a")) == now - 1
        await task
        await cluster.running("later", "a")
        assert seconds_of(started(cluster, "later")) == seconds_of(cluster.client.now()) - 1

    def started(cluster: FaultCluster, name: str) -> str:
        return str(cluster.get("Pod", name, "default")["status"]["startTime"])

    def bound(cluster: FaultCluster, name: str) -> str:
        conditions = cluster.get("Pod", name, "default")["status"]["conditions"]
        return str(next(one["lastTransitionTime"] for one in conditions if one["type"] == "PodScheduled"))

    play(scenario)


@pytest.mark.parametrize(("silent", "bad"), [(0, "False"), (1, "Unknown")])
def test_a_flapping_node_alternates_between_states(play: Play, silent: int, bad: str) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        changes = cluster.changes("nodes")
        await cluster.inject("node-flap", "a", seconds=1200, period_s=300, silent=silent)
        seen = [
            one["status"]
            for change in changes
            for one in change.entry.data["status"]["conditions"]
            if one["type"] == "Ready" and change.entry.key.name == "a"
        ]
        turns = [one for one, before in zip(seen, ["True", *seen], strict=False) if one != before]
        assert turns == [bad, "True"] * 4

    play(scenario)


def test_a_deleted_node_is_gone(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        await cluster.inject("node-delete", "a", "nobody")
        assert cluster.names("Node") == ["b", "c", "d"]

    play(scenario)


def test_a_recreated_node_has_a_new_uid(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        before = cluster.node("a")
        await cluster.running("p", "a")
        cordon = cluster.start("node-cordon", "a", seconds=600)
        await asyncio.sleep(1)
        await cluster.inject("node-recreate", "a", seconds=60)
        await asyncio.sleep(60)
        after = cluster.node("a")
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert after["metadata"]["labels"] == before["metadata"]["labels"]
        assert after["status"]["allocatable"] == before["status"]["allocatable"]
        assert "unschedulable" not in after["spec"]
        assert ready(cluster) == "True"
        await cordon
        assert "unschedulable" not in cluster.node("a")["spec"]

    play(scenario)


def test_a_recreated_node_can_have_another_place_in_the_topology(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        racks = set()
        for _ in range(12):
            await cluster.inject("node-recreate", "a", labels="another")
            labels = cluster.node("a")["metadata"]["labels"]
            assert labels["kubernetes.io/hostname"] == "a"
            racks.add(labels[RACK])
        assert racks == {"r0", "r1"}

    play(scenario)


def test_a_cordon_ends_unless_the_node_was_cordoned_before(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        task = cluster.start("node-cordon", "a", seconds=10)
        await asyncio.sleep(1)
        assert cluster.node("a")["spec"]["unschedulable"] is True
        later = cluster.start("node-cordon", "a", seconds=60)
        await task
        assert "unschedulable" not in cluster.node("a")["spec"]
        await later
        assert "unschedulable" not in cluster.node("a")["spec"]

    play(scenario)


@pytest.mark.parametrize("effect", ["NoSchedule", "PreferNoSchedule", "NoExecute"])
def test_a_taint_is_added_and_removed_without_changing_others(play: Play, effect: str) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        other = cluster.start("node-taint", "a", seconds=60, key="example.com/other")
        task = cluster.start("node-taint", "a", seconds=10, key="k", value="v", effect=effect)
        await asyncio.sleep(1)
        taints = {
            (one["key"], one["effect"], one.get("value")) for one in cluster.node("a")["spec"]["taints"]
        }
        assert taints == {("k", effect, "v"), ("example.com/other", "NoSchedule", None)}
        await task
        assert [one["key"] for one in cluster.node("a")["spec"]["taints"]] == ["example.com/other"]
        await other
        assert "taints" not in cluster.node("a")["spec"]

    play(scenario)


def test_a_no_execute_taint_evicts_pods(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        await cluster.running("p", "a")
        await cluster.inject("node-taint", "a", seconds=60, effect="NoExecute")
        assert "p" not in cluster.names("Pod")

    play(scenario)


def test_allocatable_decreases_in_steps_and_is_restored(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        changes = cluster.changes("nodes")
        await cluster.inject("node-allocatable", "a", seconds=20, walk="7,0")
        walk = [change.entry.data["status"]["allocatable"][GPU] for change in changes]
        assert walk == ["7", "0", "8"]
        assert cluster.node("a")["status"]["capacity"][GPU] == "8"

    play(scenario)


@pytest.mark.parametrize(("to", "seen"), [("removed", None), ("nowhere", "nowhere")])
def test_a_changed_label_is_restored(play: Play, to: str, seen: str | None) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        task = cluster.start("node-labels", "a", seconds=10, label=RACK, to=to)
        await asyncio.sleep(1)
        assert cluster.node("a")["metadata"]["labels"].get(RACK) == seen
        await task
        assert cluster.node("a")["metadata"]["labels"][RACK] == "r0"
        assert NOTE not in cluster.node("a")["metadata"]["annotations"]

    play(scenario)


def test_overlapping_label_faults_restore_the_original_labels(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        first = cluster.start("node-labels", "a", seconds=20, label=RACK, to="x")
        await asyncio.sleep(1)
        second = cluster.start("node-labels", "a", seconds=40, label=RACK, to="y")
        await asyncio.gather(first, second)
        assert cluster.node("a")["metadata"]["labels"][RACK] == "r0"

    play(scenario)


def test_a_node_recreated_during_a_label_fault_has_its_original_labels(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        task = cluster.start("node-labels", "a", seconds=60, label=RACK, to="removed")
        await asyncio.sleep(1)
        await cluster.inject("node-recreate", "a", seconds=5)
        assert cluster.node("a")["metadata"]["labels"][RACK] == "r0"
        await task

    play(scenario)


def test_the_end_of_a_run_ends_flapping_at_once(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        async def over(_seconds: float) -> None:
            return

        changes = cluster.changes("nodes")
        hurried = replace(cluster, context=replace(cluster.context, sleep=over))
        await hurried.inject("node-flap", "a", seconds=10_000, period_s=1)
        assert len([change for change in changes if change.type is ChangeType.MODIFIED]) <= 4
        assert ready(cluster) == "True"

    play(scenario)
