"""The program of a Spark driver, which makes the executors, as a process of the test: KWOK runs none."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from phalanx_controlplane.process import Process

from tests.e2e.pod_history import Pod
from tests.e2e.workloads import fetched, listed
from tests.kwok.manifests import RUNTIME
from tests.kwok.site import LOOK_S, Site

APPLICATION = """from pyspark.sql import SparkSession
SparkSession.builder.getOrCreate().range(1000).count()
"""
"""Waits for executors, which never come: KWOK does not run their programs either."""

ROLE = "spark-role"


@asynccontextmanager
async def spark_drivers(site: Site) -> AsyncIterator[None]:
    """Run the program of every driver pod of the site while the pod runs."""
    task = asyncio.create_task(_follow(site))
    try:
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def _follow(site: Site) -> None:
    processes: dict[str, Process] = {}
    try:
        while True:
            drivers = {pod.metadata.uid: pod for pod in _running(site, "driver")}
            for uid in drivers.keys() - processes.keys():
                processes[uid] = await _start(site, drivers[uid].metadata.name)
            for uid in processes.keys() - drivers.keys():
                if processes[uid].running:
                    await processes[uid].kill()
                    await _end_executors(site)
            await asyncio.sleep(LOOK_S)
    finally:
        for process in processes.values():
            await process.kill()


def _running(site: Site, role: str) -> list[Pod]:
    pods = (pod for pod in site.pods() if pod.status.phase == "Running")
    return [pod for pod in pods if pod.metadata.labels.get(ROLE) == role]


async def _end_executors(site: Site) -> None:
    """An executor ends when it loses its driver. Refusals do not matter: the application may be gone."""
    body = {"metadata": {"annotations": {RUNTIME: "0s"}}}
    headers = {"Content-Type": "application/merge-patch+json"}
    for pod in _running(site, "executor"):
        path = site.pod_path(pod.metadata.name)
        async with site.environment.session.patch(path, json=body, headers=headers) as answer:
            await answer.read()


async def _start(site: Site, pod: str) -> Process:
    """The driver with the properties that spark-submit has stored for the pod, but outside of it."""
    plane = site.environment.plane
    spark = Path(os.environ["SPARK_HOME"])
    folder = plane.run_folder / f"{site.name}-{pod}"
    folder.mkdir()
    (folder / "spark.properties").write_text(await _properties(site, pod))
    (folder / "application.py").write_text(APPLICATION)
    outside = {
        "spark.kubernetes.submitInDriver": "false",  # or it looks for the files of a service account
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.port": "0",
        "spark.driver.blockManager.port": "0",
        "spark.ui.enabled": "false",
    }
    return Process(
        name=pod,
        command=[
            str(spark / "bin" / "spark-submit"),
            *("--master", f"k8s://{plane.url}", "--deploy-mode", "client"),
            *("--properties-file", str(folder / "spark.properties")),
            *(word for name, value in outside.items() for word in ("--conf", f"{name}={value}")),
            str(folder / "application.py"),
        ],
        log=plane.logs_folder / f"{site.name}-{pod}.log",
        home=folder,
        environment={"KUBECONFIG": str(plane.kubeconfig_path), "SPARK_HOME": str(spark)},
    )


async def _properties(site: Site, pod: str) -> str:
    """As a kubelet does, wait for the ConfigMap: spark-submit creates it after the pod."""
    plane = site.environment.plane
    volumes = (await fetched(plane, site.pod_path(pod)))["spec"]["volumes"]
    [name] = [each["configMap"]["name"] for each in volumes if each["name"] == "spark-conf-volume-driver"]
    while True:
        items = await listed(plane, f"/api/v1/namespaces/{site.name}/configmaps")
        for stored in (each["data"] for each in items if each["metadata"]["name"] == name):
            properties: str = stored["spark.properties"]
            return properties
        await asyncio.sleep(LOOK_S)
