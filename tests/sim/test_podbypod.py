"""The pod-by-pod scheduler: it fills nodes one pod at a time, and gangs deadlock on it."""

import asyncio
from collections import Counter

from phalanx_simulator.embedded.controllers.pod_by_pod_scheduler import (
    SCHEDULER_NAME,
    PodByPodScheduler,
    Strategy,
)
from phalanx_simulator.embedded.manifests import node, pod

from tests.sim.conftest import Cluster
from tests.sim.virtual import VirtualCluster, in_virtual_time
from tests.sim.waiting import phases, pods, until


def placed(cluster: Cluster) -> dict[str, str]:
    found = {name: one["spec"].get("nodeName") for name, one in pods(cluster.server).items()}
    return {name: target for name, target in found.items() if target}


def messages(cluster: Cluster) -> dict[str, str]:
    conditions = {
        name: [one for one in pod_["status"].get("conditions", []) if one["type"] == "PodScheduled"]
        for name, pod_ in pods(cluster.server).items()
    }
    return {name: found[0].get("message", "") for name, found in conditions.items() if found}


async def test_it_places_only_pods_that_name_it(cluster: Cluster) -> None:
    PodByPodScheduler(cluster.client)
    cluster.create(node("a"), pod("mine", scheduler=SCHEDULER_NAME), pod("other"))
    await until(cluster.server, lambda: placed(cluster) == {"mine": "a"})


async def test_strategies(cluster: Cluster) -> None:
    strategies: dict[str, Strategy] = {"spread": "LeastAllocated", "pack": "MostAllocated"}
    for name, strategy in strategies.items():
        PodByPodScheduler(cluster.client, name=name, strategy=strategy)
    cluster.create(node("a"), node("b"))
    for name, expected in (("spread", [1, 1]), ("pack", [2])):
        for index in range(2):
            cluster.create(pod(f"{name}-{index}", scheduler=name))
            await until(cluster.server, lambda: f"{name}-{index}" in placed(cluster))  # noqa: B023
        counts = Counter(target for pod_, target in placed(cluster).items() if pod_.startswith(name))
        assert sorted(counts.values()) == expected


async def test_it_reports_why_a_pod_waits_and_retries(cluster: Cluster) -> None:
    PodByPodScheduler(cluster.client)
    cordoned = node("b")
    cordoned["spec"] = {"unschedulable": True}
    big = {"nvidia.com/gpu": "8"}
    cluster.create(node("a"), cordoned)
    cluster.create(pod("first", scheduler=SCHEDULER_NAME, requests=big))
    await until(cluster.server, lambda: "first" in placed(cluster))
    cluster.create(pod("second", scheduler=SCHEDULER_NAME, requests=big))
    why = "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable."
    await until(cluster.server, lambda: messages(cluster).get("second") == why)
    cluster.delete("pods", "first")
    await until(cluster.server, lambda: placed(cluster).get("second") == "a")


async def test_interleaved_gangs_deadlock(cluster: Cluster) -> None:
    """Five jobs of 2 parameter servers and 4 workers on 9 GPUs: all GPUs are used, no job is complete."""
    PodByPodScheduler(cluster.client)
    cluster.create(*(node(f"n{index}", gpus=3) for index in range(3)))
    for index in range(6):
        for job in range(5):
            role = "ps" if index < 2 else "worker"
            cluster.create(pod(f"job{job}-{role}-{index}", group=f"job{job}", scheduler=SCHEDULER_NAME))
    await until(cluster.server, lambda: Counter(phases(cluster.server).values())["Running"] == 9)
    running = Counter(
        name.split("-")[0] for name, phase in phases(cluster.server).items() if phase == "Running"
    )
    assert max(running.values()) < 6
    waiting = [message for message in messages(cluster).values() if message]
    assert set(waiting) <= {"0/3 nodes are available: 3 Insufficient nvidia.com/gpu."}


BIG = {"nvidia.com/gpu": "8"}


@in_virtual_time
async def test_a_rate_limit_bounds_the_pods_per_second(cluster: VirtualCluster) -> None:
    PodByPodScheduler(cluster.client, rate=2)
    cluster.create(node("a"), *(pod(f"p{index}", scheduler=SCHEDULER_NAME) for index in range(5)))
    for expected in (0, 1, 3, 5, 5):
        assert len(placed(cluster)) == expected
        await asyncio.sleep(0.9)


@in_virtual_time
async def test_a_late_view_binds_to_a_full_node(cluster: VirtualCluster) -> None:
    PodByPodScheduler(cluster.client, view_delay_s=5)
    cluster.create(node("a"))
    await asyncio.sleep(10)
    cluster.create(pod("theirs", scheduler=SCHEDULER_NAME, requests=BIG), pod("ours", requests=BIG))
    await asyncio.sleep(3)
    cluster.bind("ours", "a")
    await asyncio.sleep(3)
    assert (cluster.phase("ours"), cluster.phase("theirs")) == ("Running", "Failed")
    theirs = cluster.pod("theirs")
    assert theirs is not None
    assert theirs["status"]["reason"] == "UnexpectedAdmissionError"


@in_virtual_time
async def test_a_late_view_includes_its_own_binds(cluster: VirtualCluster) -> None:
    PodByPodScheduler(cluster.client, view_delay_s=5)
    cluster.create(
        node("a"), *(pod(f"p{index}", scheduler=SCHEDULER_NAME, requests=BIG) for index in range(2))
    )
    await asyncio.sleep(60)
    assert sorted(cluster.phase(f"p{index}") for index in range(2)) == ["Pending", "Running"]
    cluster.delete("pods", next(iter(placed(cluster))))
    await asyncio.sleep(60)
    assert [cluster.phase(name) for name in pods(cluster.server)] == ["Running"]
