"""F8: pods fail, go and stay in every way that a gang can lose a member."""

import asyncio

import pytest
from phalanx_simulator.embedded.manifests import pod
from phalanx_simulator.embedded.store import ChangeType, Object
from phalanx_simulator.faults.pods import STUCK

from tests.sim_faults.conftest import FaultCluster, Play


def phase(cluster: FaultCluster, name: str) -> str:
    return str(cluster.get("Pod", name, "default")["status"]["phase"])


def end_of(cluster: FaultCluster, name: str) -> Object:
    found: Object = cluster.get("Pod", name, "default")["status"]["containerStatuses"][0]["state"][
        "terminated"
    ]
    return found


def test_a_preflight_failure_affects_waiting_and_new_pods(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        cluster.create(preflighted("old"))
        task = cluster.start("pod-init-failure", seconds=60, count=2, exit_code=3, message="no peers")
        await asyncio.sleep(1)
        cluster.create(preflighted("new"))
        await asyncio.sleep(1)
        cluster.create(preflighted("one-too-many"))
        await asyncio.sleep(1)
        for name in ("old", "new", "one-too-many"):
            cluster.bind(name, "a")
        await task
        await asyncio.sleep(60)
        assert [phase(cluster, name) for name in ("old", "new", "one-too-many")] == [
            "Failed",
            "Failed",
            "Running",
        ]
        status = cluster.get("Pod", "old", "default")["status"]["initContainerStatuses"][0]
        assert status["state"]["terminated"]["exitCode"] == 3

    play(scenario)


def preflighted(name: str) -> Object:
    return pod(name, initContainers=[{"name": "preflight-nccl-allreduce", "image": "nccl:1"}])


def test_a_container_fails_with_code_reason_and_message_after_a_delay(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        await cluster.running("p", "a")
        settings = {"delay_s": 10, "exit_code": 137, "reason": "OOMKilled", "message": "too large"}
        task = cluster.start("pod-failure", "default/p", **settings)
        await asyncio.sleep(9)
        assert phase(cluster, "p") == "Running"
        await task
        await asyncio.sleep(1)
        assert phase(cluster, "p") == "Failed"
        end = end_of(cluster, "p")
        assert (end["exitCode"], end["reason"], end["message"]) == (137, "OOMKilled", "too large")

    play(scenario)


def test_targets_can_be_nodes_pods_or_empty(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        for name, place in (("p", "a"), ("q", "a"), ("r", "b"), ("s", "c")):
            await cluster.running(name, place)
        await cluster.inject("pod-failure", "a", count=2)
        assert [phase(cluster, name) for name in "pqrs"] == ["Failed", "Failed", "Running", "Running"]
        await cluster.inject("pod-failure", "default/r", "default/nobody")
        assert phase(cluster, "r") == "Failed"
        await cluster.inject("pod-failure", count=5)
        assert phase(cluster, "s") == "Failed"

    play(scenario)


def test_foreign_pods_are_not_drawn(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        await cluster.running("p", "a", scheduler="default-scheduler")
        await cluster.inject("pod-failure", "a")
        await cluster.inject("pod-failure")
        assert phase(cluster, "p") == "Running"

    play(scenario)


def test_gpu_failures_are_proportional_to_the_gpus_of_a_job(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        for _ in range(40):
            await cluster.running("big", "a", requests={"nvidia.com/gpu": "6"})
            await cluster.inject("pod-gpu-failure", "a", "b")
            hits.append(phase(cluster, "big") == "Failed")
            await cluster.inject("pod-delete", "default/big", grace_s=0)

    hits: list[bool] = []
    play(scenario)
    assert 15 < sum(hits) < 40  # six of eight GPUs; four standard deviations


def test_a_pod_succeeds_early(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        await cluster.running("p", "a")
        await cluster.inject("pod-early-success")
        assert phase(cluster, "p") == "Succeeded"

    play(scenario)


def test_one_gang_fails_repeatedly(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        await cluster.running("p", "a", group="g", restartPolicy="OnFailure")
        await cluster.running("other", "b")
        failures = []
        cluster.client.subscribe("pods", failures.append)
        await cluster.inject("pod-restarts", "default/p", seconds=3600, times=5)
        assert cluster.get("Pod", "p", "default")["status"]["containerStatuses"][0]["restartCount"] == 5
        assert {change.entry.key.name for change in failures} == {"p"}

    play(scenario)


def test_an_eviction_respects_a_budget(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        await cluster.running("p", "a")
        guarded = pod("q")
        guarded["metadata"]["labels"]["app"] = "q"
        cluster.create(guarded)
        cluster.bind("q", "a")
        budget = {
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "q"}}},
        }
        cluster.client.create("poddisruptionbudgets.policy", "default", budget)
        await asyncio.sleep(1)
        changes = cluster.changes("pods")
        await cluster.inject("pod-eviction", "default/p", "default/q")
        reasons = {
            one.get("reason")
            for change in changes
            for one in change.entry.data["status"]["conditions"]
            if one["type"] == "DisruptionTarget"
        }
        assert reasons == {"EvictionByEvictionAPI"}
        assert cluster.names("Pod") == ["q"]

    play(scenario)


def test_a_drain_of_one_gpu_deletes_one_pod_with_gpus(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        for name in ("p", "q"):
            await cluster.running(name, "a")
        await cluster.running("cpu", "a", requests={"cpu": "1"})
        await cluster.inject("pod-gpu-drain", "a", "b")
        left = cluster.names("Pod")
        assert len(left) == 2
        assert "cpu" in left
        assert cluster.condition("a", "Ready")["status"] == "True"

    play(scenario)


def test_a_pod_is_deleted_at_the_moment_of_its_bind(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        cluster.create(pod("p"), pod("q"), pod("r"))
        task = cluster.start("pod-delete-mid-bind", seconds=60, count=2)
        await asyncio.sleep(1)
        for name in ("p", "q", "r"):
            cluster.bind(name, "a")
            await asyncio.sleep(5)
        assert cluster.names("Pod") == ["r"]
        await task

    play(scenario)


def test_nothing_is_deleted_after_the_end_of_the_fault(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        cluster.create(pod("p"))
        await cluster.inject("pod-delete-mid-bind", seconds=10)
        cluster.bind("p", "a")
        await asyncio.sleep(60)
        assert phase(cluster, "p") == "Running"

    play(scenario)


def test_a_kubelet_rejects_the_rest_of_a_gang(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        cluster.create(pod("p", group="g"), pod("q", group="g"))
        task = cluster.start("pod-kubelet-rejection", seconds=30)
        await asyncio.sleep(1)
        cluster.bind("p", "a")
        await asyncio.sleep(1)
        cluster.bind("q", "a")
        await asyncio.sleep(1)
        assert phase(cluster, "p") == "Running"
        rejected = cluster.get("Pod", "q", "default")["status"]
        assert (rejected["phase"], rejected["reason"]) == ("Failed", "UnexpectedAdmissionError")
        await task
        await asyncio.sleep(60)
        assert cluster.names("Pod") == ["p", "q"]

    play(scenario)


def test_a_pod_is_stuck_in_terminating_for_the_duration(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        await cluster.running("p", "a")
        task = cluster.start("pod-stuck-terminating", "default/p", seconds=600)
        await asyncio.sleep(500)
        stuck = cluster.get("Pod", "p", "default")["metadata"]
        assert stuck["finalizers"] == [STUCK]
        assert "deletionTimestamp" in stuck
        await task
        assert cluster.names("Pod") == []

    play(scenario)


@pytest.mark.parametrize("kind", ["pod-delete", "pod-eviction", "pod-failure", "pod-stuck-terminating"])
def test_a_target_that_is_deleted_meanwhile_is_not_an_error(play: Play, kind: str) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        key = await cluster.running("p", "a")
        task = cluster.start(kind, "default/p", "default/nobody", seconds=60, delay_s=10)
        await asyncio.sleep(1)
        found = cluster.client.get(key)
        if found is not None:
            cluster.client.delete(key, uid=found["metadata"]["uid"], grace_s=0)
        await task

    play(scenario)


def test_a_fault_has_no_effect_before_its_detection_time(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        await cluster.running("p", "a")
        changes = cluster.changes("pods")
        task = cluster.start("pod-delete", "default/p", grace_s=0, detect_s=600)
        await asyncio.sleep(599)
        assert changes == []
        await task
        assert changes[-1].type is ChangeType.DELETED

    play(scenario)
