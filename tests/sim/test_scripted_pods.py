"""Pods controlled by annotations or by a test, and nodes whose allocatable decreases."""

import asyncio
from typing import Any

import pytest
from phalanx_simulator.embedded.kubelets.kubelet import (
    EXIT_CODE,
    FAILS_AFTER_SECONDS,
    INIT_FAILS,
    START_SECONDS,
    STOP_SECONDS,
)
from phalanx_simulator.embedded.manifests import node, pod
from phalanx_simulator.embedded.store import Key, Object

from tests.sim.virtual import VirtualCluster, in_virtual_time

SHORT = 0.001
LATER_S = 3600.0


def scripted(name: str, annotations: dict[str, str], **options: Any) -> Object:
    manifest = pod(name, **options)
    manifest["metadata"].setdefault("annotations", {}).update(annotations)
    return manifest


async def with_node(cluster: VirtualCluster, **offered: Any) -> None:
    cluster.create(node("a", **offered))
    await asyncio.sleep(SHORT)


def container_of(cluster: VirtualCluster, name: str, field: str = "containerStatuses") -> Object:
    found = cluster.pod(name)
    assert found is not None
    status: Object = found["status"][field][0]
    return status


@in_virtual_time
async def test_a_pod_starts_after_its_start_delay(cluster: VirtualCluster) -> None:
    await with_node(cluster)
    found = await cluster.run_on(scripted("p", {START_SECONDS: "5"}, run_s=10), "a")
    assert found["status"]["phase"] == "Pending"
    assert found["status"]["startTime"]
    assert container_of(cluster, "p")["state"] == {"waiting": {"reason": "ContainerCreating"}}
    await asyncio.sleep(6)
    assert cluster.phase("p") == "Running"
    await asyncio.sleep(10)
    assert cluster.phase("p") == "Succeeded"


@in_virtual_time
async def test_a_pod_that_is_deleted_before_it_starts_is_removed(cluster: VirtualCluster) -> None:
    await with_node(cluster)
    await cluster.run_on(scripted("p", {START_SECONDS: "5"}), "a")
    cluster.delete("pods", "p")
    await asyncio.sleep(LATER_S)
    assert cluster.phase("p") == ""


@in_virtual_time
async def test_a_deleted_pod_keeps_running_for_its_stop_delay(cluster: VirtualCluster) -> None:
    await with_node(cluster)
    await cluster.run_on(scripted("p", {STOP_SECONDS: "5"}), "a")
    cluster.delete("pods", "p")
    await asyncio.sleep(4)
    assert cluster.phase("p") == "Running"
    await asyncio.sleep(2)
    assert cluster.phase("p") == ""


@in_virtual_time
async def test_the_stop_delay_is_at_most_the_grace_period(cluster: VirtualCluster) -> None:
    await with_node(cluster)
    manifest = scripted("p", {STOP_SECONDS: "60"}, terminationGracePeriodSeconds=3)
    await cluster.run_on(manifest, "a")
    cluster.delete("pods", "p")
    await asyncio.sleep(4)
    assert cluster.phase("p") == ""


@in_virtual_time
async def test_a_deleted_pod_that_ends_by_itself_is_removed_then(cluster: VirtualCluster) -> None:
    await with_node(cluster)
    await cluster.run_on(scripted("p", {STOP_SECONDS: "20"}, run_s=5), "a")
    cluster.delete("pods", "p")
    await asyncio.sleep(6)
    assert cluster.phase("p") == ""


@in_virtual_time
async def test_init_containers_fail(cluster: VirtualCluster) -> None:
    await with_node(cluster)
    init = [{"name": "check", "image": "check:1"}]
    manifest = scripted("p", {START_SECONDS: "5", INIT_FAILS: "7/GpuCheck/no/route"}, initContainers=init)
    await cluster.run_on(manifest, "a")
    await asyncio.sleep(6)
    found = cluster.pod("p")
    assert found is not None
    assert found["status"]["phase"] == "Failed"
    assert cluster.condition(found, "Initialized")["status"] == "False"
    end = container_of(cluster, "p", "initContainerStatuses")["state"]["terminated"]
    assert (end["exitCode"], end["reason"], end["message"]) == (7, "GpuCheck", "no/route")
    assert container_of(cluster, "p")["state"] == {"waiting": {"reason": "PodInitializing"}}


@in_virtual_time
async def test_a_pod_fails_after_its_failure_delay(cluster: VirtualCluster) -> None:
    await with_node(cluster)
    script = {FAILS_AFTER_SECONDS: "30", EXIT_CODE: "3"}
    await cluster.run_on(scripted("p", script, run_s=60), "a")
    await cluster.run_on(scripted("again", script, run_s=60, restartPolicy="OnFailure"), "a")
    await asyncio.sleep(31)
    assert container_of(cluster, "p")["state"]["terminated"]["exitCode"] == 3
    assert (cluster.phase("p"), cluster.phase("again")) == ("Failed", "Running")
    again = container_of(cluster, "again")
    assert (again["restartCount"], again["lastState"]["terminated"]["exitCode"]) == (1, 3)
    await asyncio.sleep(58)
    assert cluster.phase("again") == "Running"
    await asyncio.sleep(2)
    assert cluster.phase("again") == "Succeeded"
    assert container_of(cluster, "again")["restartCount"] == 1


@in_virtual_time
async def test_running_containers_can_be_failed(cluster: VirtualCluster) -> None:
    await with_node(cluster)
    await cluster.run_on(pod("p"), "a")
    await cluster.run_on(pod("again", restartPolicy="Always"), "a")
    for name in ("p", "again"):
        key = Key("pods", "default", name)
        assert cluster.kubelets.fail(key, exit_code=134, reason="Xid79", message="GPU has fallen off the bus")
        assert not cluster.kubelets.fail(key)
    assert not cluster.kubelets.fail(Key("pods", "default", "ghost"))
    await asyncio.sleep(SHORT)
    end = container_of(cluster, "p")["state"]["terminated"]
    reported = (end["exitCode"], end["reason"], end["message"])
    assert reported == (134, "Xid79", "GPU has fallen off the bus")
    assert (cluster.phase("p"), cluster.phase("again")) == ("Failed", "Running")
    assert container_of(cluster, "again")["restartCount"] == 1


@in_virtual_time
async def test_a_failure_on_a_lost_node_is_reported_later(cluster: VirtualCluster) -> None:
    await with_node(cluster)
    await cluster.run_on(pod("p"), "a")
    cluster.kubelets.lose("a")
    assert cluster.kubelets.fail(Key("pods", "default", "p"), exit_code=1)
    await asyncio.sleep(10)
    assert cluster.phase("p") == "Running"
    cluster.kubelets.find("a")
    await asyncio.sleep(SHORT)
    assert cluster.phase("p") == "Failed"


@in_virtual_time
async def test_the_capacity_of_a_failed_pod_is_free(cluster: VirtualCluster) -> None:
    await with_node(cluster)
    await cluster.run_on(pod("p", requests={"nvidia.com/gpu": "8"}), "a")
    cluster.kubelets.fail(Key("pods", "default", "p"))
    await asyncio.sleep(SHORT)
    found = await cluster.run_on(pod("q", requests={"nvidia.com/gpu": "8"}), "a")
    assert found["status"]["phase"] == "Running"


@in_virtual_time
async def test_changed_devices_affect_only_new_pods(cluster: VirtualCluster) -> None:
    await with_node(cluster)
    await cluster.run_on(pod("p", requests={"nvidia.com/gpu": "7"}), "a")
    for left, free, reason in (
        (7, 0, "requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0"),
        (0, 0, "no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu"),
        (8, 1, ""),
    ):
        key, name = Key("nodes", "", "a"), f"q{left}"
        offered = {**cluster.node("a")["status"]["allocatable"], "nvidia.com/gpu": str(left)}
        cluster.client.update_status(key, allocatable=offered)
        status = (await cluster.run_on(pod(name), "a"))["status"]
        assert status["phase"] == ("Running" if free else "Failed")
        if reason:
            assert status["reason"] == "UnexpectedAdmissionError"
            why = f"Allocate failed due to {reason}, which is unexpected"
            assert status["message"] == f"Pod was rejected: {why}"
    await asyncio.sleep(LATER_S)
    assert cluster.phase("p") == "Running"


def required(*expressions: Object, field: str = "matchExpressions") -> Object:
    terms = {"nodeSelectorTerms": [{field: list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@in_virtual_time
async def test_a_kubelet_checks_node_affinity(cluster: VirtualCluster) -> None:
    await with_node(cluster, labels={"rack": "r1"})
    in_r1, not_in_r1 = ({"key": "rack", "operator": how, "values": ["r1"]} for how in ("In", "NotIn"))
    named, elsewhere = ({"key": "metadata.name", "operator": how, "values": ["a"]} for how in ("In", "NotIn"))
    for name, affinity, phase in (
        ("in", required(in_r1), "Running"),
        ("not-in", required(not_in_r1), "Failed"),
        ("both", required(in_r1, {"key": "ghost", "operator": "Exists"}), "Failed"),
        ("named", required(named, field="matchFields"), "Running"),
        ("elsewhere", required(elsewhere, field="matchFields"), "Failed"),
    ):
        found = await cluster.run_on(pod(name, affinity=affinity), "a")
        assert found["status"]["phase"] == phase, name


@in_virtual_time
async def test_a_kubelet_checks_node_selector_and_taints(cluster: VirtualCluster) -> None:
    await with_node(cluster)
    taint = {"key": "example.com/broken", "effect": "NoExecute"}
    status = (await cluster.run_on(pod("p", nodeSelector={"disk": "fast"}), "a"))["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "NodeAffinity")
    cluster.client.update(Key("nodes", "", "a"), lambda item: {**item, "spec": {"taints": [taint]}})
    (created,) = cluster.create(pod("q"))
    cluster.bind(created["metadata"]["name"], "a")
    seen: list[str] = []
    cluster.client.subscribe(
        "pods", lambda change: seen.append(change.entry.data["status"].get("reason", ""))
    )
    await asyncio.sleep(SHORT)
    assert "TaintToleration" in seen or cluster.phase("q") == ""


@pytest.mark.parametrize("written", ["", "soon", "1,5"])
def test_an_annotation_that_is_not_a_number_is_ignored(written: str) -> None:
    @in_virtual_time
    async def run(cluster: VirtualCluster) -> None:
        await with_node(cluster)
        found = await cluster.run_on(scripted("p", {START_SECONDS: written}), "a")
        assert found["status"]["phase"] == "Running"

    run()
