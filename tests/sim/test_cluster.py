"""The whole embedded cluster over HTTP: a Job is created, its pods bound by hand, and it completes."""

import aiohttp
from phalanx.clock import SystemClock
from phalanx_simulator.embedded.cluster import embedded_cluster
from phalanx_simulator.embedded.manifests import job, node, tree_of_nodes

from tests.sim.waiting import find, pods, until

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"


async def test_a_job_completes_over_http() -> None:
    async with (
        embedded_cluster(clock=SystemClock(), token="t") as cluster,
        aiohttp.ClientSession(cluster.endpoint.url, headers={"Authorization": "Bearer t"}) as session,
    ):
        for path, manifest in (("/api/v1/nodes", node("a")), (JOBS, job("train", members=4, run_s=0))):
            async with session.post(path, json=manifest) as answer:
                assert answer.status == 201
        await until(cluster.server, lambda: len(pods(cluster.server)) == 4)
        for name in pods(cluster.server):
            binding = {"target": {"kind": "Node", "name": "a"}}
            async with session.post(f"{PODS}/{name}/binding", json=binding) as answer:
                assert answer.status == 201

        def is_complete() -> bool:
            status = find(cluster.server, "jobs.batch", "train", "default")["status"]
            return any(one["type"] == "Complete" for one in status.get("conditions", []))

        await until(cluster.server, is_complete)


def test_a_tree_of_nodes() -> None:
    zone, block, host = (
        "topology.kubernetes.io/zone",
        "network.topology.nvidia.com/block",
        "kubernetes.io/hostname",
    )
    nodes = tree_of_nodes({zone: 2, block: 3, host: 4})
    assert len(nodes) == 24
    last = nodes[-1]["metadata"]
    assert last["name"] == "n2-3-4"
    assert last["labels"] == {zone: "2", block: "2-3", host: "n2-3-4"}
