"""The image on real kubelets, as docs/bare-machine.md shows it: a gang loses a container, and ends."""

import pytest

from deploy.image.build import Image
from tests.cluster.gangs import PYTHON
from tests.cluster.installation import IN, memory, ready, removed
from tests.cluster.page import play
from tests.cluster.real_cluster import RealCluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("real nodes"),
    pytest.mark.asyncio(loop_scope="session"),
]

LIMIT = 1 << 30
"""The memory limit in deploy/cluster."""
SIZE_MAX = 250_000_000
"""Bytes of all layers of the image, not compressed."""


async def test_a_gang_runs_loses_a_container_recovers_and_ends(image: Image, cluster: RealCluster) -> None:
    size, unit = image.size.split()
    assert (unit, float(size) * 1e6 < SIZE_MAX) == ("MB", True)
    await removed(cluster)
    await play("Install by kustomize", cluster)
    await play("A gang", cluster)
    replicas = await ready(cluster)
    assert len({pod["spec"]["nodeName"] for pod in replicas}) == 2
    pod = replicas[0]["metadata"]["name"]
    limit, peak = await memory(cluster, pod)
    assert (limit, peak < LIMIT) == (LIMIT, True)
    await nothing_can_be_written(cluster, pod)


async def nothing_can_be_written(cluster: RealCluster, pod: str) -> None:
    """The kubelet enforces what the Deployment asks for."""
    script = "import os; assert os.getuid() == 65532; open('/opt/phalanx/x', 'w')"
    code, output = await cluster.try_kubectl("exec", pod, *IN, "--", PYTHON, "-c", script)
    assert code != 0
    assert "Read-only file system" in output
