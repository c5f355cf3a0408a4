"""Budget statuses that the conformance suite does not cover: over time, and for controlled pods."""

import asyncio

from phalanx_simulator.embedded.apiserver.requests import Target
from phalanx_simulator.embedded.manifests import job, node, pod
from phalanx_simulator.embedded.store import Key, Object

from tests.sim.virtual import VirtualCluster, in_virtual_time

SHORT = 0.001
BUDGETS = "poddisruptionbudgets.policy"
BUDGET = Key(BUDGETS, "default", "b")


def create_budget(cluster: VirtualCluster, **spec: object) -> None:
    cluster.client.create(BUDGETS, "default", {"metadata": {"name": "b"}, "spec": {"selector": {}, **spec}})


def status(cluster: VirtualCluster) -> Object:
    found = cluster.client.get(BUDGET)
    assert found is not None
    found_status: Object = found["status"]
    return found_status


def evict(cluster: VirtualCluster, name: str) -> None:
    cluster.server.registry.evict(Target(cluster.server.types.named("pods"), "default", name), {})


@in_virtual_time
async def test_a_budget_recovers_with_its_pods(cluster: VirtualCluster) -> None:
    cluster.create(node("a"))
    await asyncio.sleep(SHORT)
    for name in ("p", "q"):
        await cluster.run_on(pod(name), "a")
    create_budget(cluster, minAvailable=1)
    await asyncio.sleep(SHORT)
    assert (status(cluster)["disruptionsAllowed"], status(cluster)["currentHealthy"]) == (1, 2)
    evict(cluster, "p")
    assert status(cluster)["disruptionsAllowed"] == 0
    await asyncio.sleep(SHORT)
    assert (status(cluster)["disruptionsAllowed"], status(cluster)["currentHealthy"]) == (0, 1)
    await cluster.run_on(pod("p"), "a")
    assert status(cluster)["disruptionsAllowed"] == 1


@in_virtual_time
async def test_pods_of_a_lost_node_are_not_healthy(cluster: VirtualCluster) -> None:
    cluster.create(node("a"))
    await asyncio.sleep(SHORT)
    await cluster.run_on(pod("p"), "a")
    create_budget(cluster, minAvailable=0)
    await asyncio.sleep(SHORT)
    assert status(cluster)["disruptionsAllowed"] == 1
    cluster.kubelets.lose("a")
    await asyncio.sleep(51)
    assert (status(cluster)["disruptionsAllowed"], status(cluster)["currentHealthy"]) == (0, 0)


@in_virtual_time
async def test_an_eviction_that_never_happens_expires(cluster: VirtualCluster) -> None:
    cluster.create(node("a"))
    await asyncio.sleep(SHORT)
    await cluster.run_on(pod("p"), "a")
    create_budget(cluster, minAvailable=0)
    await asyncio.sleep(SHORT)
    pending = {**status(cluster), "disruptionsAllowed": 0, "disruptedPods": {"p": cluster.client.now()}}
    cluster.client.update_status(BUDGET, **pending)
    await asyncio.sleep(60)
    assert status(cluster)["disruptionsAllowed"] == 0
    await asyncio.sleep(62)
    assert (status(cluster)["disruptionsAllowed"], status(cluster)["disruptedPods"]) == (1, {})


@in_virtual_time
async def test_controlled_pods_without_a_scale_cannot_be_counted(cluster: VirtualCluster) -> None:
    cluster.create(node("a"), job("train", members=2))
    await asyncio.sleep(SHORT)
    create_budget(cluster, maxUnavailable=1)
    await asyncio.sleep(SHORT)
    found = cluster.client.get(BUDGET)
    assert found is not None
    assert cluster.condition(found, "DisruptionAllowed")["reason"] == "SyncFailed"
    assert found["status"]["disruptionsAllowed"] == 0
    assert "observedGeneration" not in found["status"]
