"""Phalanx on a cluster with real kubelets: what the Deployment and the Lease show."""

import asyncio
from pathlib import Path
from typing import Final

from tests.cluster.gangs import PYTHON
from tests.cluster.real_cluster import Document, RealCluster, until
from tests.deploy.installers import CHART, NAMESPACE, Helm
from tests.deploy.manifests import DEPLOY

OVERLAY: Final = DEPLOY / "cluster"
VALUES: Final = OVERLAY / "values.yaml"
IN: Final = ("--namespace", NAMESPACE)
_MEMORY: Final = """
import pathlib
for name in ("memory/memory.limit_in_bytes memory/memory.max_usage_in_bytes", "memory.max memory.peak"):
    paths = [pathlib.Path("/sys/fs/cgroup") / each for each in name.split()]
    if paths[0].exists():
        print(*(path.read_text().strip() for path in paths))
"""


async def kustomize_install(cluster: RealCluster) -> None:
    """As a user does."""
    await cluster.kubectl("apply", "--server-side", "-k", str(OVERLAY))
    await ready(cluster)


async def removed(cluster: RealCluster) -> None:
    """No replica that another test installed is left, since they show how often they were restarted."""
    words = ("deployment", "phalanx", *IN, "--ignore-not-found", "--cascade=foreground")
    await cluster.kubectl("delete", *words)


async def helm(cluster: RealCluster, home: Path, verb: str, *arguments: str, chart: Path = CHART) -> str:
    """Run helm for the release, and wait until the pods are ready."""
    program = Helm(home, cluster.kubeconfig)
    command = [verb, "phalanx"]
    if verb in ("install", "upgrade"):
        command += [str(chart), "--values", str(VALUES)]
    return await asyncio.to_thread(program, *command, *IN, *arguments)


async def ready(cluster: RealCluster, *, replicas: int = 2) -> list[Document]:
    """Wait until so many replicas are ready, no others are left, and one leads."""

    async def pods() -> list[Document]:
        return await cluster.pods(*IN, "-l", "app.kubernetes.io/name=phalanx")

    def all_ready(found: list[Document]) -> bool:
        return len(found) == replicas and all(_is_ready(pod) for pod in found)

    found = await until("the replicas are ready", pods, all_ready)
    names = {pod["metadata"]["name"] for pod in found}
    await until("one of them leads", lambda: leader(cluster), lambda name: name in names)
    return found


def _is_ready(pod: Document) -> bool:
    conditions = pod["status"].get("conditions", ())
    return "deletionTimestamp" not in pod["metadata"] and any(
        each["type"] == "Ready" and each["status"] == "True" for each in conditions
    )


async def leader(cluster: RealCluster) -> str:
    """The pod that holds the Lease; empty if none does."""
    code, output = await cluster.try_kubectl(
        *("get", "lease", "phalanx", *IN, "-o", "jsonpath={.spec.holderIdentity}")
    )
    return output.partition("_")[0] if code == 0 else ""


async def memory(cluster: RealCluster, pod: str) -> tuple[int, int]:
    """Limit and peak of the control group of a replica, in bytes."""
    output = await cluster.kubectl("exec", pod, *IN, "--", PYTHON, "-c", _MEMORY)
    limit, peak = output.split()
    return int(limit), int(peak)
