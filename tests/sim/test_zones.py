"""Fake kubelets with NUMA zones: assignment of zones, and rejection of pods."""

import pytest
from phalanx_simulator.embedded.kubelets.numa_zones import TOPOLOGIES
from phalanx_simulator.embedded.manifests import node, pod
from phalanx_simulator.embedded.store import Key

from tests.node_topologies import CRD, node_topology
from tests.sim.conftest import Cluster
from tests.sim.waiting import phases, pods, until

ZONE = {"nvidia.com/gpu": "4"}


def with_zones(cluster: Cluster, **fields: str) -> None:
    cluster.client.create("customresourcedefinitions.apiextensions.k8s.io", "", CRD)
    cluster.client.create(TOPOLOGIES, "", node_topology("a", ZONE, ZONE, **fields))
    cluster.create(node("a", gpus=8))


async def bound(cluster: Cluster, name: str, gpus: int) -> str:
    """Create and bind a pod, and return the reason or phase of its status."""
    cluster.create(pod(name, requests={"nvidia.com/gpu": str(gpus)}))
    cluster.bind(name, "a")
    await until(cluster.server, lambda: phases(cluster.server)[name] in ("Running", "Failed"))
    status = pods(cluster.server)[name]["status"]
    return str(status.get("reason") or status["phase"])


async def test_a_pod_gets_one_zone_or_is_rejected(cluster: Cluster) -> None:
    with_zones(cluster)
    assert await bound(cluster, "one", 3) == "Running"
    assert await bound(cluster, "two", 3) == "Running"
    assert await bound(cluster, "three", 2) == "TopologyAffinityError"
    cluster.client.delete(
        Key("pods", "default", "one"), uid=pods(cluster.server)["one"]["metadata"]["uid"], grace_s=0
    )
    await until(cluster.server, lambda: "one" not in pods(cluster.server))
    assert await bound(cluster, "four", 4) == "Running"


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted"])
async def test_other_policies_reject_no_pod(cluster: Cluster, policy: str) -> None:
    with_zones(cluster, policy=policy)
    assert await bound(cluster, "one", 8) == "Running"


async def test_the_first_zone_with_enough_capacity_is_assigned(cluster: Cluster) -> None:
    with_zones(cluster, scope="container")
    for name in ("one", "two"):
        assert await bound(cluster, name, 2) == "Running"
    assert await bound(cluster, "three", 4) == "Running"
    assert await bound(cluster, "four", 1) == "TopologyAffinityError"
