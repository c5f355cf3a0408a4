"""F8: pods fail, go and stay in every way that a gang can lose a member."""

import asyncio

import pytest
from phalanx_simulator.embedded.manifests import pod
from phalanx_simulator.embedded.store import ChangeType, Object
from phalanx_simulator.faults.pods import STUCK

from tests.sim_faults.conftest import Play, Town


def phase(town: Town, name: str) -> str:
    return str(town.get("Pod", name, "default")["status"]["phase"])


def end_of(town: Town, name: str) -> Object:
    found: Object = town.get("Pod", name, "default")["status"]["containerStatuses"][0]["state"]["terminated"]
    return found


def test_a_preflight_fails_pods_that_wait_and_new_ones(play: Play) -> None:
    async def story(town: Town) -> None:
        town.create(preflighted("old"))
        task = town.start("pod-init-failure", seconds=60, count=2, exit_code=3, message="no peers")
        await asyncio.sleep(1)
        town.create(preflighted("new"))
        await asyncio.sleep(1)
        town.create(preflighted("one-too-many"))
        await asyncio.sleep(1)
        for name in ("old", "new", "one-too-many"):
            town.bind(name, "a")
        await task
        await asyncio.sleep(60)
        assert [phase(town, name) for name in ("old", "new", "one-too-many")] == [
            "Failed",
            "Failed",
            "Running",
        ]
        status = town.get("Pod", "old", "default")["status"]["initContainerStatuses"][0]
        assert status["state"]["terminated"]["exitCode"] == 3

    play(story)


def preflighted(name: str) -> Object:
    return pod(name, initContainers=[{"name": "preflight-nccl-allreduce", "image": "nccl:1"}])


def test_a_container_fails_with_code_reason_and_message_after_a_delay(play: Play) -> None:
    async def story(town: Town) -> None:
        await town.running("p", "a")
        settings = {"delay_s": 10, "exit_code": 137, "reason": "OOMKilled", "message": "too large"}
        task = town.start("pod-failure", "default/p", **settings)
        await asyncio.sleep(9)
        assert phase(town, "p") == "Running"
        await task
        await asyncio.sleep(1)
        assert phase(town, "p") == "Failed"
        end = end_of(town, "p")
        assert (end["exitCode"], end["reason"], end["message"]) == (137, "OOMKilled", "too large")

    play(story)


def test_targets_may_be_nodes_pods_or_nobody(play: Play) -> None:
    async def story(town: Town) -> None:
        for name, place in (("p", "a"), ("q", "a"), ("r", "b"), ("s", "c")):
            await town.running(name, place)
        await town.inject("pod-failure", "a", count=2)
        assert [phase(town, name) for name in "pqrs"] == ["Failed", "Failed", "Running", "Running"]
        await town.inject("pod-failure", "default/r", "default/nobody")
        assert phase(town, "r") == "Failed"
        await town.inject("pod-failure", count=5)
        assert phase(town, "s") == "Failed"

    play(story)


def test_foreign_pods_are_not_drawn(play: Play) -> None:
    async def story(town: Town) -> None:
        await town.running("p", "a", scheduler="default-scheduler")
        await town.inject("pod-failure", "a")
        await town.inject("pod-failure")
        assert phase(town, "p") == "Running"

    play(story)


def test_jobs_are_hit_in_proportion_to_their_gpus(play: Play) -> None:
    async def story(town: Town) -> None:
        for _ in range(40):
            await town.running("big", "a", requests={"nvidia.com/gpu": "6"})
            await town.inject("pod-gpu-failure", "a", "b")
            hits.append(phase(town, "big") == "Failed")
            await town.inject("pod-delete", "default/big", grace_s=0)

    hits: list[bool] = []
    play(story)
    assert 15 < sum(hits) < 40  # six of eight GPUs; four standard deviations


def test_a_pod_succeeds_before_its_time(play: Play) -> None:
    async def story(town: Town) -> None:
        await town.running("p", "a")
        await town.inject("pod-early-success")
        assert phase(town, "p") == "Succeeded"

    play(story)


def test_one_gang_fails_again_and_again(play: Play) -> None:
    async def story(town: Town) -> None:
        await town.running("p", "a", group="g", restartPolicy="OnFailure")
        await town.running("other", "b")
        failures = []
        town.client.subscribe("pods", failures.append)
        await town.inject("pod-restarts", "default/p", seconds=3600, times=5)
        assert town.get("Pod", "p", "default")["status"]["containerStatuses"][0]["restartCount"] == 5
        assert {change.entry.key.name for change in failures} == {"p"}

    play(story)


def test_an_eviction_obeys_a_budget(play: Play) -> None:
    async def story(town: Town) -> None:
        await town.running("p", "a")
        guarded = pod("q")
        guarded["metadata"]["labels"]["app"] = "q"
        town.create(guarded)
        town.bind("q", "a")
        budget = {
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "q"}}},
        }
        town.client.create("poddisruptionbudgets.policy", "default", budget)
        await asyncio.sleep(1)
        changes = town.changes("pods")
        await town.inject("pod-eviction", "default/p", "default/q")
        reasons = {
            one.get("reason")
            for change in changes
            for one in change.entry.data["status"]["conditions"]
            if one["type"] == "DisruptionTarget"
        }
        assert reasons == {"EvictionByEvictionAPI"}
        assert town.names("Pod") == ["q"]

    play(story)


def test_a_drain_of_one_gpu_takes_one_pod_with_gpus(play: Play) -> None:
    async def story(town: Town) -> None:
        for name in ("p", "q"):
            await town.running(name, "a")
        await town.running("cpu", "a", requests={"cpu": "1"})
        await town.inject("pod-gpu-drain", "a", "b")
        left = town.names("Pod")
        assert len(left) == 2
        assert "cpu" in left
        assert town.condition("a", "Ready")["status"] == "True"

    play(story)


def test_a_pod_is_deleted_in_the_moment_of_its_bind(play: Play) -> None:
    async def story(town: Town) -> None:
        town.create(pod("p"), pod("q"), pod("r"))
        task = town.start("pod-delete-mid-bind", seconds=60, count=2)
        await asyncio.sleep(1)
        for name in ("p", "q", "r"):
            town.bind(name, "a")
            await asyncio.sleep(5)
        assert town.names("Pod") == ["r"]
        await task

    play(story)


def test_nothing_is_deleted_after_its_seconds(play: Play) -> None:
    async def story(town: Town) -> None:
        town.create(pod("p"))
        await town.inject("pod-delete-mid-bind", seconds=10)
        town.bind("p", "a")
        await asyncio.sleep(60)
        assert phase(town, "p") == "Running"

    play(story)


def test_a_kubelet_rejects_the_rest_of_a_gang(play: Play) -> None:
    async def story(town: Town) -> None:
        town.create(pod("p", group="g"), pod("q", group="g"))
        task = town.start("pod-kubelet-rejection", seconds=30)
        await asyncio.sleep(1)
        town.bind("p", "a")
        await asyncio.sleep(1)
        town.bind("q", "a")
        await asyncio.sleep(1)
        assert phase(town, "p") == "Running"
        rejected = town.get("Pod", "q", "default")["status"]
        assert (rejected["phase"], rejected["reason"]) == ("Failed", "UnexpectedAdmissionError")
        await task
        await asyncio.sleep(60)
        assert town.names("Pod") == ["p", "q"]

    play(story)


def test_a_pod_is_stuck_in_terminating_for_its_seconds(play: Play) -> None:
    async def story(town: Town) -> None:
        await town.running("p", "a")
        task = town.start("pod-stuck-terminating", "default/p", seconds=600)
        await asyncio.sleep(500)
        stuck = town.get("Pod", "p", "default")["metadata"]
        assert stuck["finalizers"] == [STUCK]
        assert "deletionTimestamp" in stuck
        await task
        assert town.names("Pod") == []

    play(story)


@pytest.mark.parametrize("kind", ["pod-delete", "pod-eviction", "pod-failure", "pod-stuck-terminating"])
def test_a_target_that_goes_meanwhile_is_no_error(play: Play, kind: str) -> None:
    async def story(town: Town) -> None:
        key = await town.running("p", "a")
        task = town.start(kind, "default/p", "default/nobody", seconds=60, delay_s=10)
        await asyncio.sleep(1)
        found = town.client.get(key)
        if found is not None:
            town.client.delete(key, uid=found["metadata"]["uid"], grace_s=0)
        await task

    play(story)


def test_a_fault_is_seen_after_its_detection(play: Play) -> None:
    async def story(town: Town) -> None:
        await town.running("p", "a")
        changes = town.changes("pods")
        task = town.start("pod-delete", "default/p", grace_s=0, detect_s=600)
        await asyncio.sleep(599)
        assert changes == []
        await task
        assert changes[-1].type is ChangeType.DELETED

    play(story)
