"""A kubelet that knows more than the API refuses a pod, and Phalanx finds another node."""

import pytest
import yaml

from tests.cluster.gangs import finished, gang, members, running
from tests.cluster.installation import kustomize_install
from tests.cluster.real_cluster import RealCluster, until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.xdist_group("real nodes"),
    pytest.mark.asyncio(loop_scope="session"),
]


async def test_a_pod_that_the_kubelet_rejects_is_placed_elsewhere(cluster: RealCluster) -> None:
    """A static pod of a missing namespace uses the CPU of a node, and the API has no object for it."""
    await kustomize_install(cluster)
    cpu = {name: await allocatable(cluster, name) for name in ("node-1", "node-2")}
    assert cpu["node-1"] == cpu["node-2"]
    secret = static_pod(millicores=cpu["node-1"] - 500)
    path = cluster.folder / "node-1" / "static-pods" / "secret.yaml"
    path.write_text(yaml.safe_dump(secret))
    try:
        await until(
            "the static pod runs", lambda: used(cluster, "node-1"), lambda found: "secret-node-1" in found
        )
        # One member with so much CPU fits on each node, as far as the API shows.
        await cluster.apply(*gang("refused", members=2, cpu="700m"))
        found = await running(cluster, "refused", count=2)
        assert set(found.values()) == {"node-2"}
        refused = [
            pod
            for pod in await cluster.pods("-l", "scheduling.phalanx.dev/pod-group=refused")
            if pod["status"].get("reason") == "OutOfcpu"
        ]
        assert refused
        assert {pod["spec"]["nodeName"] for pod in refused} == {"node-1"}
        await finished(cluster, "refused")
        assert await members(cluster, "refused")
    finally:
        path.unlink()
        await cluster.try_kubectl("delete", "job,podgroups.scheduling.phalanx.dev", "refused")


async def allocatable(cluster: RealCluster, node: str) -> int:
    """The CPU of a node, in thousandths."""
    quantity = (await cluster.get("node", node))["status"]["allocatable"]["cpu"]
    return int(quantity[:-1]) if quantity.endswith("m") else int(quantity) * 1000


async def used(cluster: RealCluster, node: str) -> list[str]:
    """The pods that the kubelet itself says it runs."""
    code, output = await cluster.try_kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/pods")
    assert code == 0, output
    return [pod["metadata"]["name"] for pod in yaml.safe_load(output)["items"]]


def static_pod(*, millicores: int) -> dict[str, object]:
    container = {
        "name": "main",
        "image": "localhost/phalanx-pause:1",
        "imagePullPolicy": "Never",
        "resources": {"requests": {"cpu": f"{millicores}m"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "secret", "namespace": "not-there"},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }
