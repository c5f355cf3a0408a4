"""Losses on real kubelets: a gang loses a container and a node, and Phalanx its leader. All recover."""

import pytest

from tests.cluster.gangs import FAIL, finished, gang, members, running, send
from tests.cluster.installation import IN, kustomize_install, leader, ready
from tests.cluster.real_cluster import Document, RealCluster, until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.xdist_group("real nodes"),
    pytest.mark.asyncio(loop_scope="session"),
]


async def test_a_gang_survives_the_loss_of_a_container_and_of_a_node(cluster: RealCluster) -> None:
    await kustomize_install(cluster)
    replicas = await ready(cluster)
    assert len({pod["spec"]["nodeName"] for pod in replicas}) == 2
    recovery = {"onMemberFailure": "Replace", "onNodeLoss": "Replace", "gracePeriod": "1s"}
    await cluster.apply(*gang("train", members=4, recovery=recovery))
    first = await running(cluster, "train", count=4)

    failed = min(first)
    await send(cluster, failed, FAIL)
    second = await replaced(cluster, failed)

    leads = await leader(cluster)
    await cluster.kubectl("delete", "pod", leads, *IN, "--grace-period=0", "--force")
    await until("the Lease moves", lambda: leader(cluster), lambda name: name not in ("", leads))

    lost = second[min(second)]
    await cluster.command(f"stop {lost}")
    third = await on_other_nodes(cluster, lost)
    assert {name for name, node in second.items() if node != lost} <= set(third)
    on_lost = {pod["metadata"]["name"] for pod in await replicas_on(cluster, lost)}
    await until("a living replica leads", lambda: leader(cluster), lambda name: name not in on_lost)

    await cluster.command(f"start {lost}")
    await cluster.kubectl("wait", "--for=condition=Ready", f"node/{lost}", "--timeout=240s")
    await finished(cluster, "train")
    await cluster.kubectl("delete", "job,podgroups.scheduling.phalanx.dev", "train")


async def replicas_on(cluster: RealCluster, node: str) -> list[Document]:
    """The replicas of Phalanx on a node, also those that were lost with it."""
    found = await cluster.pods(*IN, "-l", "app.kubernetes.io/name=phalanx")
    return [pod for pod in found if pod["spec"].get("nodeName") == node]


async def replaced(cluster: RealCluster, failed: str) -> dict[str, str]:
    """Wait until four members run, and the failed one is none of them."""

    async def read() -> dict[str, str]:
        return await running(cluster, "train", count=4)

    return await until("the lost member is replaced", read, lambda found: failed not in found)


async def on_other_nodes(cluster: RealCluster, lost: str) -> dict[str, str]:
    """Wait until all four members run on other nodes."""

    async def read() -> dict[str, str]:
        return {
            pod["metadata"]["name"]: pod["spec"].get("nodeName", "")
            for pod in await members(cluster, "train")
            if pod["status"]["phase"] == "Running"
        }

    def recovered(found: dict[str, str]) -> bool:
        return len(found) == 4 and lost not in found.values()

    return await until("the gang recovers on the other node", read, recovered)
