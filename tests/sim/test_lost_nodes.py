"""Nodes that are disconnected, reconnected, deleted and recreated, and the effect on their pods."""

import asyncio

from phalanx_simulator.embedded.manifests import node, pod
from phalanx_simulator.embedded.store import Key, Object

from tests.sim.virtual import VirtualCluster, in_virtual_time

LATER_S = 3600.0
SHORT = 0.001


async def with_pod(cluster: VirtualCluster, **options: object) -> Object:
    """A node a with the running pod p."""
    cluster.create(node("a"))
    await asyncio.sleep(SHORT)
    found = await cluster.run_on(pod("p", **options), "a")  # type: ignore[arg-type]
    assert found["status"]["phase"] == "Running"
    return found


@in_virtual_time
async def test_a_lost_node_becomes_unknown_after_its_grace(cluster: VirtualCluster) -> None:
    await with_pod(cluster)
    assert cluster.taints("a") == []
    cluster.kubelets.lose("a")
    await asyncio.sleep(49)
    assert cluster.condition(cluster.node("a"), "Ready")["status"] == "True"
    await asyncio.sleep(2)
    for type_ in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
        condition = cluster.condition(cluster.node("a"), type_)
        assert (condition["status"], condition["reason"]) == ("Unknown", "NodeStatusUnknown")
    assert cluster.taints("a") == ["unreachable:NoExecute", "unreachable:NoSchedule"]
    found = cluster.pod("p")
    assert found is not None
    assert cluster.condition(found, "Ready")["status"] == "False"
    assert found["status"]["phase"] == "Running"


@in_virtual_time
async def test_a_node_that_reconnects_in_time_stays_ready(cluster: VirtualCluster) -> None:
    await with_pod(cluster)
    for _ in range(5):
        cluster.kubelets.lose("a")
        await asyncio.sleep(30)
        cluster.kubelets.find("a")
        await asyncio.sleep(5)
    assert cluster.condition(cluster.node("a"), "Ready")["status"] == "True"
    assert cluster.taints("a") == []


@in_virtual_time
async def test_pods_of_a_lost_node_stay_terminating_until_it_is_back(cluster: VirtualCluster) -> None:
    await with_pod(cluster)
    cluster.kubelets.lose("a")
    await asyncio.sleep(50 + 299)
    found = cluster.pod("p")
    assert found is not None
    assert "deletionTimestamp" not in found["metadata"]
    await asyncio.sleep(2)
    found = cluster.pod("p")
    assert found is not None
    assert "deletionTimestamp" in found["metadata"]
    assert cluster.condition(found, "DisruptionTarget")["reason"] == "DeletionByTaintManager"
    await asyncio.sleep(LATER_S)
    assert cluster.phase("p") == "Running"
    cluster.kubelets.find("a")
    await asyncio.sleep(SHORT)
    assert cluster.phase("p") == ""
    assert cluster.condition(cluster.node("a"), "Ready")["status"] == "True"
    assert cluster.taints("a") == []


@in_virtual_time
async def test_a_pod_outlives_a_short_loss_of_its_node(cluster: VirtualCluster) -> None:
    await with_pod(cluster)
    cluster.kubelets.lose("a")
    await asyncio.sleep(100)
    cluster.kubelets.find("a")
    await asyncio.sleep(LATER_S)
    found = cluster.pod("p")
    assert found is not None
    assert "deletionTimestamp" not in found["metadata"]
    assert cluster.condition(found, "Ready")["status"] == "True"


@in_virtual_time
async def test_a_lost_kubelet_reports_nothing_and_starts_nothing(cluster: VirtualCluster) -> None:
    await with_pod(cluster, run_s=10)
    cluster.kubelets.lose("a")
    await cluster.run_on(pod("late"), "a")
    await asyncio.sleep(20)
    assert (cluster.phase("p"), cluster.phase("late")) == ("Running", "Pending")
    cluster.kubelets.find("a")
    await asyncio.sleep(SHORT)
    assert (cluster.phase("p"), cluster.phase("late")) == ("Succeeded", "Running")


@in_virtual_time
async def test_a_reboot_fails_running_containers(cluster: VirtualCluster) -> None:
    await with_pod(cluster)
    await cluster.run_on(pod("again", restartPolicy="OnFailure"), "a")
    cluster.kubelets.lose("a")
    await asyncio.sleep(10)
    cluster.kubelets.find("a", restarted=True)
    await asyncio.sleep(SHORT)
    assert (cluster.phase("p"), cluster.phase("again")) == ("Failed", "Running")
    (p, again) = (cluster.pod(name)["status"]["containerStatuses"][0] for name in ("p", "again"))  # type: ignore[index]
    assert p["state"]["terminated"]["exitCode"] == 255
    assert again["restartCount"] == 1


@in_virtual_time
async def test_a_forced_deletion_frees_capacity_only_when_the_node_reconnects(
    cluster: VirtualCluster,
) -> None:
    big = {"nvidia.com/gpu": "8"}
    found = await with_pod(cluster, requests=big)
    cluster.kubelets.lose("a")
    cluster.client.delete(Key("pods", "default", "p"), uid=found["metadata"]["uid"], grace_s=0)
    await cluster.run_on(pod("p", requests=big), "a")
    assert cluster.phase("p") == "Pending"
    cluster.kubelets.find("a")
    await asyncio.sleep(SHORT)
    assert cluster.phase("p") == "Running"


@in_virtual_time
async def test_pods_of_a_deleted_node_are_collected(cluster: VirtualCluster) -> None:
    await with_pod(cluster)
    phases: list[tuple[str, str]] = []
    cluster.client.subscribe("pods", lambda change: phases.append(seen(cluster, change.entry.data)))
    cluster.delete("nodes", "a", namespace="")
    await asyncio.sleep(39)
    assert cluster.phase("p") == "Running"
    await asyncio.sleep(2)
    assert cluster.phase("p") == ""
    assert ("Failed", "DeletionByPodGC") in phases


def seen(cluster: VirtualCluster, item: Object) -> tuple[str, str]:
    return item["status"]["phase"], cluster.condition(item, "DisruptionTarget").get("reason", "")


@in_virtual_time
async def test_a_terminating_pod_of_a_lost_node_is_deleted_with_the_node(cluster: VirtualCluster) -> None:
    await with_pod(cluster)
    cluster.kubelets.lose("a")
    cluster.delete("pods", "p")
    await asyncio.sleep(LATER_S)
    assert cluster.phase("p") == "Running"
    cluster.delete("nodes", "a", namespace="")
    await asyncio.sleep(60)
    assert cluster.phase("p") == ""


@in_virtual_time
async def test_a_recreated_node_does_not_have_the_containers_of_the_old_one(cluster: VirtualCluster) -> None:
    await with_pod(cluster, requests={"nvidia.com/gpu": "8"}, run_s=60)
    cluster.delete("nodes", "a", namespace="")
    cluster.create(node("a"))
    await asyncio.sleep(SHORT)
    assert cluster.phase("p") == "Failed"
    container = cluster.pod("p")["status"]["containerStatuses"][0]  # type: ignore[index]
    assert container["state"]["terminated"]["reason"] == "ContainerStatusUnknown"
    await cluster.run_on(pod("next", requests={"nvidia.com/gpu": "8"}), "a")
    await asyncio.sleep(LATER_S)
    assert (cluster.phase("p"), cluster.phase("next")) == ("Failed", "Running")


@in_virtual_time
async def test_node_conditions_become_taints(cluster: VirtualCluster) -> None:
    await with_pod(cluster)
    key = Key("nodes", "", "a")
    for type_, status, taints in (
        ("Ready", "False", ["not-ready:NoExecute", "not-ready:NoSchedule"]),
        ("Ready", "Unknown", ["unreachable:NoExecute", "unreachable:NoSchedule"]),
        ("Ready", "True", []),
        ("MemoryPressure", "True", ["memory-pressure:NoSchedule"]),
        ("MemoryPressure", "Unknown", []),
        ("GpuHWSlowDown", "True", []),
    ):
        cluster.client.update_status(key, condition={"type": type_, "status": status})
        await asyncio.sleep(SHORT)
        assert cluster.taints("a") == taints, type_


@in_virtual_time
async def test_a_cordon_is_a_taint_beside_those_of_others(cluster: VirtualCluster) -> None:
    await with_pod(cluster)
    key, other = Key("nodes", "", "a"), {"key": "example.com/x", "effect": "NoSchedule"}
    cluster.client.update(key, lambda item: {**item, "spec": {"unschedulable": True, "taints": [other]}})
    await asyncio.sleep(SHORT)
    assert cluster.taints("a") == ["unschedulable:NoSchedule", "x:NoSchedule"]
    cluster.client.update(key, lambda item: {**item, "spec": {"taints": item["spec"]["taints"]}})
    await asyncio.sleep(LATER_S)
    assert cluster.taints("a") == ["x:NoSchedule"]
    assert cluster.phase("p") == "Running"


def tainted(item: Object) -> Object:
    taint = {"key": "example.com/broken", "effect": "NoExecute", "value": "yes"}
    return {**item, "spec": {"taints": [*item["spec"].get("taints", []), taint]}}


def toleration(seconds: int | None = None) -> list[Object]:
    bound = {} if seconds is None else {"tolerationSeconds": seconds}
    return [{"key": "example.com/broken", "operator": "Exists", "effect": "NoExecute", **bound}]


@in_virtual_time
async def test_a_taint_evicts_pods_that_do_not_tolerate_it(cluster: VirtualCluster) -> None:
    await with_pod(cluster)
    await cluster.run_on(pod("always", tolerations=toleration()), "a")
    await cluster.run_on(pod("a-while", tolerations=toleration(60)), "a")
    cluster.client.update(Key("nodes", "", "a"), tainted)
    await asyncio.sleep(59)
    assert [cluster.phase(name) for name in ("p", "always", "a-while")] == ["", "Running", "Running"]
    await asyncio.sleep(2)
    assert [cluster.phase(name) for name in ("always", "a-while")] == ["Running", ""]


@in_virtual_time
async def test_a_taint_that_is_removed_in_time_evicts_no_pod(cluster: VirtualCluster) -> None:
    await with_pod(cluster, tolerations=toleration(60))
    key = Key("nodes", "", "a")
    for _ in range(3):
        cluster.client.update(key, tainted)
        await asyncio.sleep(40)
        cluster.client.update(key, lambda item: {**item, "spec": {}})
        await asyncio.sleep(40)
    assert cluster.phase("p") == "Running"


@in_virtual_time
async def test_the_toleration_time_continues_from_not_ready_to_unreachable(cluster: VirtualCluster) -> None:
    await with_pod(cluster)
    key = Key("nodes", "", "a")
    cluster.client.update_status(key, condition={"type": "Ready", "status": "False"})
    await asyncio.sleep(200)
    cluster.client.update_status(key, condition={"type": "Ready", "status": "Unknown"})
    await asyncio.sleep(99)
    assert cluster.phase("p") == "Running"
    await asyncio.sleep(2)
    assert cluster.phase("p") == ""
