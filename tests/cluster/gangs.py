"""Gangs with real containers. Each container waits for a signal that ends it."""

from typing import Any, Final

from tests.cluster.real_cluster import Document, RealCluster, until

FAIL: Final = 15  # SIGTERM, which the kubelet sends too
SUCCEED: Final = 10  # SIGUSR1
KILLED: Final = 137
"""The end of the container's first process may kill the one that has sent the signal."""
PYTHON: Final = "/opt/phalanx/bin/python"
_WAIT: Final = f"""
import signal, sys
signal.signal({FAIL}, lambda *_: sys.exit(1))
signal.signal({SUCCEED}, lambda *_: sys.exit(0))
print("started", flush=True)
while True:
    signal.pause()
"""


def gang(name: str, *, members: int, cpu: str = "100m", **spec: Any) -> tuple[Document, Document]:
    """A PodGroup and the Job of its members."""
    group = {
        "apiVersion": "scheduling.phalanx.dev/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": members, **spec},
    }
    container = {
        "name": "member",
        "image": "localhost/phalanx-scheduler:0.1.0",
        "imagePullPolicy": "Never",
        "command": [PYTHON, "-c", _WAIT],
        "resources": {"requests": {"cpu": cpu, "memory": "24Mi"}, "limits": {"memory": "64Mi"}},
    }
    pod = {"schedulerName": "phalanx", "restartPolicy": "Never", "containers": [container]}
    pod["terminationGracePeriodSeconds"] = 5
    template = {"metadata": {"labels": {"scheduling.phalanx.dev/pod-group": name}}, "spec": pod}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "parallelism": members,
            "completions": members,
            "completionMode": "Indexed",
            "backoffLimit": 20,
            "template": template,
        },
    }
    return group, job


async def members(cluster: RealCluster, name: str) -> list[Document]:
    """The pods of a gang that are not being deleted."""
    found = await cluster.pods("-l", f"scheduling.phalanx.dev/pod-group={name}")
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


async def running(cluster: RealCluster, name: str, *, count: int) -> dict[str, str]:
    """Wait until exactly so many members run, each with a container that has started; the node of each."""

    async def read() -> dict[str, str]:
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in await members(cluster, name)
            if pod["status"]["phase"] == "Running"
            and all(status["ready"] for status in pod["status"]["containerStatuses"])
        }

    return await until(f"{count} running members of {name}", read, lambda found: len(found) == count)


async def send(cluster: RealCluster, pod: str, number: int) -> None:
    """Send a signal to the container of a pod, through API server, kubelet and containerd."""
    code, output = await cluster.try_kubectl(
        *("exec", pod, "--", PYTHON, "-c", f"import os; os.kill(1, {number})")
    )
    assert code in (0, KILLED), output


async def phase(cluster: RealCluster, name: str) -> str:
    """The phase of a PodGroup."""
    found = await cluster.get("podgroups.scheduling.phalanx.dev", name)
    return str(found.get("status", {}).get("phase"))


async def finished(cluster: RealCluster, name: str) -> None:
    """End all members successfully, and wait until the Job is complete and the PodGroup says so."""
    for pod in await members(cluster, name):
        if pod["status"]["phase"] == "Running":
            await send(cluster, pod["metadata"]["name"], SUCCEED)
    await cluster.kubectl("wait", "--for=condition=Complete", f"job/{name}", "--timeout=240s")
    await until(f"{name} is finished", lambda: phase(cluster, name), lambda found: found == "Finished")
