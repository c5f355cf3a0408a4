"""Fake kubelets: nodes become ready; pods run, end, are rejected, are stopped."""

import pytest
from phalanx_simulator.embedded.manifests import node, pod
from phalanx_simulator.embedded.store import Key

from tests.sim.conftest import Cluster
from tests.sim.waiting import find, phases, pods, until

NO_DEVICES = (
    "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. "
    "Requested: 7, Available: 6, which is unexpected"
)


async def ready(cluster: Cluster, *names: str, **offered: str) -> None:
    cluster.create(*(node(name, **offered) for name in names))
    await until(cluster.server, lambda: all(is_ready(cluster, name) for name in names))


def is_ready(cluster: Cluster, name: str) -> bool:
    found = find(cluster.server, "nodes", name)
    conditions = {one["type"]: one["status"] for one in found["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and "taints" not in found["spec"]


async def test_a_new_node_becomes_ready(cluster: Cluster) -> None:
    await ready(cluster, "a")
    status = find(cluster.server, "nodes", "a")["status"]
    assert status["allocatable"]["nvidia.com/gpu"] == "8"
    assert {one["type"] for one in status["conditions"]} > {"Ready", "MemoryPressure"}


async def test_other_taints_and_conditions_stay(cluster: Cluster) -> None:
    tainted = node("a")
    taint = {"key": "example.com/reserved", "effect": "NoSchedule"}
    tainted["spec"] = {"taints": [taint]}
    tainted["status"]["conditions"] = [{"type": "GpuHWSlowDown", "status": "False"}]
    cluster.create(tainted)
    await until(cluster.server, lambda: find(cluster.server, "nodes", "a")["spec"]["taints"] == [taint])
    conditions = find(cluster.server, "nodes", "a")["status"]["conditions"]
    assert {"type": "GpuHWSlowDown", "status": "False"} in conditions


async def test_a_bound_pod_runs(cluster: Cluster) -> None:
    await ready(cluster, "a")
    cluster.create(pod("p"), pod("unbound"))
    cluster.bind("p", "a")
    await until(cluster.server, lambda: phases(cluster.server)["p"] == "Running")
    status = pods(cluster.server)["p"]["status"]
    conditions = {one["type"]: one["status"] for one in status["conditions"]}
    assert conditions == {
        "PodScheduled": "True",
        "Initialized": "True",
        "ContainersReady": "True",
        "Ready": "True",
    }
    assert status["podIP"].startswith("10.")
    assert status["startTime"]
    assert phases(cluster.server)["unbound"] == "Pending"


async def test_a_pod_bound_before_its_node_exists_runs_later(cluster: Cluster) -> None:
    cluster.create(pod("p"))
    cluster.bind("p", "a")
    await ready(cluster, "a")
    await until(cluster.server, lambda: phases(cluster.server)["p"] == "Running")


async def test_a_pod_ends_after_its_time(cluster: Cluster) -> None:
    await ready(cluster, "a")
    cluster.create(pod("p", run_s=0.01))
    cluster.bind("p", "a")
    await until(cluster.server, lambda: phases(cluster.server)["p"] == "Succeeded")
    status = pods(cluster.server)["p"]["status"]
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert {"Ready": "False"}.items() <= {one["type"]: one["status"] for one in status["conditions"]}.items()


@pytest.mark.parametrize(
    ("asked", "reason", "message"),
    [
        (
            {"cpu": "3"},
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000",
        ),
        (
            {"memory": "3072"},
            "OutOfmemory",
            "Node didn't have enough resource: memory, requested: 3072, used: 2048, capacity: 4096",
        ),
        (
            {"nvidia.com/gpu": "7"},
            "UnexpectedAdmissionError",
            NO_DEVICES,
        ),
    ],
)
async def test_a_pod_that_does_not_fit_is_rejected(
    cluster: Cluster, asked: dict[str, str], reason: str, message: str
) -> None:
    await ready(cluster, "a", cpu="4", memory="4096")
    cluster.create(pod("fits", requests={"cpu": "2", "memory": "2048", "nvidia.com/gpu": "2"}))
    cluster.create(pod("too-much", requests=asked))
    cluster.bind("fits", "a")
    cluster.bind("too-much", "a")
    await until(cluster.server, lambda: phases(cluster.server)["too-much"] == "Failed")
    status = pods(cluster.server)["too-much"]["status"]
    assert (status["reason"], status["message"]) == (reason, f"Pod was rejected: {message}")
    assert phases(cluster.server)["fits"] == "Running"


async def test_a_node_rejects_more_pods_than_it_allows(cluster: Cluster) -> None:
    await ready(cluster, "a", pods="1")
    cluster.create(pod("one"), pod("two"))
    cluster.bind("one", "a")
    cluster.bind("two", "a")
    await until(cluster.server, lambda: phases(cluster.server)["two"] == "Failed")
    assert pods(cluster.server)["two"]["status"]["reason"] == "OutOfpods"


async def test_a_deleted_pod_is_stopped_and_its_capacity_is_free(cluster: Cluster) -> None:
    await ready(cluster, "a")
    cluster.create(pod("old", requests={"nvidia.com/gpu": "8"}), pod("new", requests={"nvidia.com/gpu": "8"}))
    cluster.bind("old", "a")
    await until(cluster.server, lambda: phases(cluster.server)["old"] == "Running")
    cluster.delete("pods", "old")
    await until(cluster.server, lambda: "old" not in pods(cluster.server))
    cluster.bind("new", "a")
    await until(cluster.server, lambda: phases(cluster.server)["new"] == "Running")


async def test_the_capacity_of_a_succeeded_pod_is_free(cluster: Cluster) -> None:
    await ready(cluster, "a")
    cluster.create(
        pod("old", requests={"nvidia.com/gpu": "8"}, run_s=0), pod("new", requests={"nvidia.com/gpu": "8"})
    )
    cluster.bind("old", "a")
    await until(cluster.server, lambda: phases(cluster.server)["old"] == "Succeeded")
    cluster.bind("new", "a")
    await until(cluster.server, lambda: phases(cluster.server)["new"] == "Running")


async def test_a_recreated_pod_runs(cluster: Cluster) -> None:
    await ready(cluster, "a")
    for _ in range(2):
        cluster.create(pod("p", requests={"nvidia.com/gpu": "8"}))
        cluster.bind("p", "a")
        await until(cluster.server, lambda: phases(cluster.server).get("p") == "Running")
        cluster.delete("pods", "p")
        await until(cluster.server, lambda: "p" not in pods(cluster.server))


async def test_a_pod_that_is_recreated_before_the_kubelet_syncs_runs(cluster: Cluster) -> None:
    await ready(cluster, "a")
    (first,) = cluster.create(pod("p", requests={"nvidia.com/gpu": "8"}))
    cluster.bind("p", "a")
    await until(cluster.server, lambda: phases(cluster.server).get("p") == "Running")
    key = Key("pods", "default", "p")
    cluster.client.delete(key, uid=first["metadata"]["uid"], grace_s=0)
    cluster.create(pod("p", requests={"nvidia.com/gpu": "8"}))
    cluster.bind("p", "a")
    await until(cluster.server, lambda: phases(cluster.server).get("p") == "Running")
