"""Infrastructure failures and a Job's backoff limit, and the effect of podFailurePolicy."""

import asyncio
from typing import Any

import pytest
from phalanx_simulator.embedded.apiserver.errors import ApiError
from phalanx_simulator.embedded.apiserver.requests import Target
from phalanx_simulator.embedded.manifests import job, node
from phalanx_simulator.embedded.store import Key, Object

from tests.sim.virtual import VirtualCluster, in_virtual_time

SHORT = 0.001
LATER_S = 3600.0
IGNORE_DISRUPTIONS = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}


def failing_job(*rules: Object, members: int = 1, **spec: Any) -> Object:
    manifest = job("train", members=members)
    policy = {"podFailurePolicy": {"rules": list(rules)}} if rules else {}
    manifest["spec"] |= {"backoffLimit": 2, **policy, **spec}
    return manifest


async def start(cluster: VirtualCluster, manifest: Object) -> list[Key]:
    cluster.create(node("a"), node("b"), manifest)
    await asyncio.sleep(SHORT)
    return await run_all(cluster, "a")


async def run_all(cluster: VirtualCluster, target: str) -> list[Key]:
    """Bind all waiting pods, and return the running ones."""
    for key in cluster.client.keys("pods"):
        pod = cluster.client.get(key)
        assert pod is not None
        if not pod["spec"].get("nodeName"):
            cluster.bind(key.name, target)
    await asyncio.sleep(SHORT)
    return running(cluster)


def running(cluster: VirtualCluster) -> list[Key]:
    return [key for key in cluster.client.keys("pods") if cluster.phase(key.name) == "Running"]


def status(cluster: VirtualCluster) -> Object:
    found = cluster.client.get(Key("jobs.batch", "default", "train"))
    assert found is not None
    found_status: Object = found["status"]
    return found_status


def outcome(cluster: VirtualCluster) -> str:
    conditions = status(cluster).get("conditions", [])
    return next((f"{one['type']} {one['reason']}" for one in conditions if one["type"] == "Failed"), "")


def evict(cluster: VirtualCluster, key: Key) -> None:
    cluster.server.registry.evict(Target(cluster.server.types.named("pods"), key.namespace, key.name), {})


@in_virtual_time
async def test_without_a_policy_each_disruption_is_a_failure(cluster: VirtualCluster) -> None:
    await start(cluster, failing_job())
    for failed in (1, 2, 3):
        (pod,) = await run_all(cluster, "a")
        evict(cluster, pod)
        await asyncio.sleep(SHORT)
        assert status(cluster)["failed"] == failed
    assert outcome(cluster) == "Failed BackoffLimitExceeded"


@in_virtual_time
async def test_disruptions_can_be_ignored(cluster: VirtualCluster) -> None:
    await start(cluster, failing_job(IGNORE_DISRUPTIONS))
    for _ in range(5):
        (pod,) = await run_all(cluster, "a")
        evict(cluster, pod)
        await asyncio.sleep(SHORT)
    assert (status(cluster)["failed"], outcome(cluster)) == (0, "")
    for failed in (1, 2, 3):
        (pod,) = await run_all(cluster, "a")
        cluster.kubelets.fail(pod)
        await asyncio.sleep(SHORT)
        assert status(cluster)["failed"] == failed
    assert outcome(cluster) == "Failed BackoffLimitExceeded"


@in_virtual_time
async def test_a_lost_node_costs_no_retry(cluster: VirtualCluster) -> None:
    """A replacement is created when the old pod has ended, which is when the node object is deleted."""
    await start(cluster, failing_job(IGNORE_DISRUPTIONS))
    cluster.kubelets.lose("a")
    await asyncio.sleep(LATER_S)
    assert (status(cluster)["active"], status(cluster)["terminating"]) == (0, 1)
    assert len(cluster.client.keys("pods")) == 1
    cluster.delete("nodes", "a", namespace="")
    await asyncio.sleep(60)
    assert len(await run_all(cluster, "b")) == 1
    assert (status(cluster)["active"], status(cluster)["failed"]) == (1, 0)


@in_virtual_time
async def test_a_terminating_pod_is_replaced_at_once_without_a_policy(cluster: VirtualCluster) -> None:
    await start(cluster, failing_job())
    cluster.kubelets.lose("a")
    await asyncio.sleep(LATER_S)
    assert status(cluster)["failed"] == 1
    assert len(cluster.client.keys("pods")) == 2


@in_virtual_time
async def test_a_deleted_pod_that_was_never_bound_is_replaced(cluster: VirtualCluster) -> None:
    cluster.create(failing_job(IGNORE_DISRUPTIONS))
    await asyncio.sleep(SHORT)
    (first,) = cluster.client.keys("pods")
    cluster.delete("pods", first.name)
    await asyncio.sleep(SHORT)
    (second,) = cluster.client.keys("pods")
    assert second != first


@in_virtual_time
async def test_an_exit_code_can_end_a_job(cluster: VirtualCluster) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    pods = await start(cluster, failing_job(rule, members=2))
    cluster.kubelets.fail(pods[0], exit_code=41)
    await asyncio.sleep(SHORT)
    assert (status(cluster)["failed"], outcome(cluster)) == (1, "")
    cluster.kubelets.fail(pods[1], exit_code=42)
    await asyncio.sleep(SHORT)
    assert outcome(cluster) == "Failed PodFailurePolicy"
    message = status(cluster)["conditions"][0]["message"]
    why = f"Container main for pod default/{pods[1].name} failed with exit code 42"
    assert message == f"{why} matching FailJob rule at index 0"
    assert running(cluster) == []


@in_virtual_time
async def test_the_first_rule_that_matches_decides(cluster: VirtualCluster) -> None:
    others = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1]}}
    count = {"action": "Count", "onExitCodes": {"containerName": "main", "operator": "In", "values": [7]}}
    (pod,) = await start(cluster, failing_job(count, others))
    cluster.kubelets.fail(pod, exit_code=7)
    await asyncio.sleep(SHORT)
    assert (status(cluster)["failed"], outcome(cluster)) == (1, "")
    (pod,) = await run_all(cluster, "a")
    cluster.kubelets.fail(pod, exit_code=8)
    await asyncio.sleep(SHORT)
    assert outcome(cluster) == "Failed PodFailurePolicy"


@in_virtual_time
async def test_restarts_in_place_count_too(cluster: VirtualCluster) -> None:
    manifest = failing_job()
    manifest["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    (pod,) = await start(cluster, manifest)
    for expected in ("", "Failed BackoffLimitExceeded"):
        cluster.kubelets.fail(pod)
        await asyncio.sleep(SHORT)
        assert outcome(cluster) == expected


@pytest.mark.parametrize("action", ["FailIndex", "Shrug"])
def test_unsupported_actions_are_refused(action: str) -> None:
    @in_virtual_time
    async def run(cluster: VirtualCluster) -> None:
        with pytest.raises(ApiError):
            cluster.create(failing_job({**IGNORE_DISRUPTIONS, "action": action}))

    run()
