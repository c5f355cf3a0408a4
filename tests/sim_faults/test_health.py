"""F6, conditions: each known type in its right polarity, harmless flips, NVSentinel's walk, Xid codes."""

import asyncio
from typing import Any

import pytest
from phalanx_simulator.embedded.store import Change
from phalanx_simulator.faults import node_conditions, xids
from phalanx_simulator.faults.node_conditions import HEALTHY_STATUS, KWOK, NVSENTINEL, TALK, faulty, healthy
from phalanx_simulator.faults.nvsentinel import STATE_LABEL

from tests.sim_faults.conftest import FaultCluster, Play

GPU = "nvidia.com/gpu"


def test_condition_tables_match_their_sources() -> None:
    assert len(TALK) == 24
    assert len({*TALK, *KWOK}) == 27
    assert len(NVSENTINEL) == 29
    assert {type_ for type_, status in HEALTHY_STATUS.items() if status == "True"} == {
        "AggregatedNodeHealth",
        "Ready",
    }
    assert not {*node_conditions.UNKNOWN_TYPES} & {*HEALTHY_STATUS}


@pytest.mark.parametrize("type_", [*HEALTHY_STATUS, *node_conditions.UNKNOWN_TYPES])
def test_each_condition_becomes_faulty_and_healthy_again(play: Play, type_: str) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        task = cluster.start("node-condition", "a", seconds=10, type=type_)
        await asyncio.sleep(5)
        assert cluster.condition("a", type_)["status"] == faulty(type_)
        await task
        assert cluster.condition("a", type_)["status"] == healthy(type_)

    play(scenario)


def test_a_condition_can_be_unknown(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        task = cluster.start("node-condition", "a", seconds=10, type="GpuXidError", status="Unknown")
        await asyncio.sleep(5)
        assert cluster.condition("a", "GpuXidError")["status"] == "Unknown"
        await task
        assert cluster.condition("a", "GpuXidError")["status"] == "False"

    play(scenario)


def test_overlapping_condition_faults_end_with_the_last_one(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        first = cluster.start("node-condition", "a", seconds=20, type="GpuXidError", message="one")
        await asyncio.sleep(1)
        second = cluster.start("node-condition", "a", seconds=40, type="GpuXidError", message="two")
        await first
        assert cluster.condition("a", "GpuXidError")["message"] == "two"
        await second
        assert cluster.condition("a", "GpuXidError")["status"] == "False"

    play(scenario)


@pytest.mark.parametrize("type_", ["Ready", "MemoryPressure", "GpuXidError"])
def test_a_heartbeat_changes_no_status(play: Play, type_: str) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        changes = cluster.changes("nodes")
        await cluster.inject("node-heartbeat", "a", seconds=30, type=type_, times=3)
        seen = [find(change, type_) for change in changes]
        assert [one["message"] for one in seen] == [f"checked, round {beat}" for beat in (1, 2, 3)]
        assert {one["status"] for one in seen} == {healthy(type_)}
        assert len({one["lastHeartbeatTime"] for one in seen}) == 3
        assert len({one["lastTransitionTime"] for one in seen}) == 1

    play(scenario)


def test_a_faulty_condition_with_a_heartbeat_becomes_healthy_again(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        task = cluster.start("node-condition", "a", seconds=10, type="GpuXidError", message="bad")
        await asyncio.sleep(1)
        await cluster.inject("node-heartbeat", "a", type="GpuXidError")
        assert cluster.condition("a", "GpuXidError")["message"] == "bad"
        await task
        assert cluster.condition("a", "GpuXidError")["status"] == "False"

    play(scenario)


def find(change: Change, type_: str) -> Any:
    return next(one for one in change.entry.data["status"]["conditions"] if one["type"] == type_)


@pytest.mark.parametrize(
    ("ends", "states"),
    [
        (
            "remediation-succeeded",
            ["quarantined", "draining", "drain-succeeded", "remediating", "remediation-succeeded", None],
        ),
        (
            "remediation-failed",
            ["quarantined", "draining", "drain-succeeded", "remediating", "remediation-failed", None],
        ),
        ("drain-failed", ["quarantined", "draining", "drain-failed", None]),
    ],
)
def test_nvsentinel_sets_its_states_in_order(play: Play, ends: str, states: list[str | None]) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        changes = cluster.changes("nodes")
        await cluster.inject("nvsentinel", "a", seconds=600, ends=ends, taint="nvidia.com/gpu-error")
        seen = [change.entry.data["metadata"]["labels"].get(STATE_LABEL) for change in changes]
        first = seen.index("quarantined")
        turns = [one for one, before in zip(seen[first:], ["", *seen[first:]], strict=False) if one != before]
        assert turns == states
        in_quarantine = [change.entry.data for change, state in zip(changes, seen, strict=True) if state]
        assert all(item["spec"]["unschedulable"] for item in in_quarantine[:-2])
        assert all(item["spec"]["taints"] for item in in_quarantine[:-2])
        after = cluster.node("a")
        assert "unschedulable" not in after["spec"]
        assert "taints" not in after["spec"]
        assert after["metadata"]["annotations"] == {}
        assert cluster.condition("a", "GpuXidError")["status"] == "False"

    play(scenario)


@pytest.mark.parametrize(
    ("mode", "left"), [("AllowCompletion", True), ("Immediate", False), ("DeleteAfterTimeout", False)]
)
def test_nvsentinel_drains_according_to_its_mode(play: Play, mode: str, *, left: bool) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        await cluster.running("p", "a")
        await cluster.inject("nvsentinel", "a", seconds=600, drain=mode)
        assert ("p" in cluster.names("Pod")) is left

    play(scenario)


def test_a_healthy_event_cancels_nvsentinels_remediation(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        task = cluster.start("nvsentinel", "a", seconds=600)
        await asyncio.sleep(5)
        await cluster.inject("node-heartbeat", "a", seconds=1, type="Ready")
        await cluster.inject("node-condition", "a", seconds=1, type="GpuXidError")
        await asyncio.sleep(120)
        assert "unschedulable" not in cluster.node("a")["spec"]
        assert STATE_LABEL not in cluster.node("a")["metadata"]["labels"]
        await task

    play(scenario)


def test_a_node_can_opt_out_of_nvsentinel(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        await cluster.inject("node-labels", "a", label="k8saas.nvidia.com/ManagedByNVSentinel", to="false")
        task = cluster.start("nvsentinel", "a", seconds=60)
        await asyncio.sleep(1)
        assert "unschedulable" not in cluster.node("a")["spec"]
        await task

    play(scenario)


def test_the_xid_catalogue_is_complete_and_has_no_duplicates() -> None:
    counts = {action: len(codes) for action, codes in xids.CODES.items()}
    assert counts[xids.RESTART_APP] == 48
    assert counts[xids.IGNORE] == 21
    assert counts[xids.RESET_GPU] == 14 + len((45, 48))
    every = [code for codes in xids.CODES.values() for code in codes]
    assert len(every) == len(set(every))
    assert 79 in xids.CODES[xids.RESTART_BM]


def test_an_ignored_xid_only_creates_an_event(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        before = cluster.node("a")
        await cluster.inject("xid-ignore", "a", code=63)
        assert cluster.node("a") == before
        keys = cluster.client.keys("events.events.k8s.io")
        event = cluster.client.get(keys[0]) or {}
        assert event["note"].startswith("[63]")
        assert event["note"].endswith("RecommendedAction: IGNORE")

    play(scenario)


def test_an_app_error_fails_a_pod_but_not_the_node(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        await cluster.running("p", "a")
        await cluster.inject("xid-restart-app", "a", code=31)
        pod = cluster.get("Pod", "p", "default")
        assert pod["status"]["phase"] == "Failed"
        assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 134
        assert "unschedulable" not in cluster.node("a")["spec"]

    play(scenario)


def test_a_gpu_reset_removes_one_gpu_and_one_pod_but_not_the_node(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        for name in ("p", "q"):
            await cluster.running(name, "a")
        task = cluster.start("xid-reset-gpu", "a", seconds=90, code=119)
        await asyncio.sleep(60)
        assert cluster.node("a")["status"]["allocatable"][GPU] == "7"
        assert cluster.condition("a", "Ready")["status"] == "True"
        assert len(cluster.names("Pod")) == 1
        await task
        assert cluster.node("a")["status"]["allocatable"][GPU] == "8"

    play(scenario)


def test_a_gpu_off_the_bus_takes_the_node_out_of_service(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        await cluster.running("p", "a")
        task = cluster.start("xid-restart-bm", "a", seconds=2520, code=79)
        await asyncio.sleep(120)
        assert cluster.node("a")["spec"]["unschedulable"] is True
        assert cluster.condition("a", "Ready")["status"] == "Unknown"
        assert cluster.condition("a", "SysLogsXIDError")["message"].endswith("RecommendedAction: RESTART_BM")
        await task
        await asyncio.sleep(30)
        assert "unschedulable" not in cluster.node("a")["spec"]
        assert cluster.condition("a", "Ready")["status"] == "True"
        assert cluster.names("Pod") == []

    play(scenario)


def test_an_nvlink_error_quarantines_the_whole_domain(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        task = cluster.start("xid-nvlink", "a", "b", seconds=600, code=149)
        await asyncio.sleep(10)
        cordoned = [name for name in cluster.names("Node") if cluster.node(name)["spec"].get("unschedulable")]
        assert cordoned == ["a", "b"]
        assert cluster.condition("b", "GpuNvlinkWatch")["status"] == "True"
        await task
        assert not any(cluster.node(name)["spec"].get("unschedulable") for name in cluster.names("Node"))

    play(scenario)


@pytest.mark.parametrize(
    ("text", "gpus", "cordoned"),
    [("None", "8", False), ("Drain and Reset", "7", False), ("Node Reboot Required", "8", True)],
)
def test_the_text_of_xid_154_selects_the_action(play: Play, text: str, gpus: str, *, cordoned: bool) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        task = cluster.start("xid-recovery-action", "a", seconds=60, text=text)
        await asyncio.sleep(10)
        assert cluster.node("a")["status"]["allocatable"][GPU] == gpus
        assert cluster.node("a")["spec"].get("unschedulable", False) is cordoned
        await task

    play(scenario)
