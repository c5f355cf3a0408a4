"""The example for `spark-submit` without an operator: what it names, and what Spark makes of it."""

import os
from pathlib import Path

import pytest
import yaml
from phalanx.model.names import LABEL_POD_GROUP, LABEL_ROLE
from phalanx_controlplane.process import Process

from tests.kwok.manifests import RUNTIME, pod
from tests.kwok.site import Environment, Site
from tests.workloads.catalog import EXAMPLES
from tests.workloads.spark_driver import spark_drivers

FOLDER = EXAMPLES / "spark-submit"
PROPERTIES = FOLDER / "spark.properties"
GROUP = yaml.safe_load((FOLDER / "podgroup.yaml").read_text())
SPARK = os.environ.get("SPARK_HOME", "")
RACKS = ("r0",) * 3


def properties() -> dict[str, str]:
    """The lines of the file."""
    lines = (
        line.split(maxsplit=1) for line in PROPERTIES.read_text().splitlines() if not line.startswith("#")
    )
    return dict(lines)


def test_the_properties_name_the_pod_group() -> None:
    found = properties()
    assert found["spark.kubernetes.scheduler.name"] == "phalanx"
    counts = {"driver": 1, "executor": int(found["spark.executor.instances"])}
    assert {role["name"]: role["count"] for role in GROUP["spec"]["roles"]} == counts
    assert GROUP["spec"]["minMember"] == sum(counts.values())
    for role in counts:
        prefix = f"spark.kubernetes.{role}.label"
        assert found[f"{prefix}.{LABEL_POD_GROUP}"] == GROUP["metadata"]["name"]
        assert found[f"{prefix}.{LABEL_ROLE}"] == role


@pytest.mark.workloads
@pytest.mark.controlplane
@pytest.mark.skipif(not SPARK, reason="SPARK_HOME names no Spark")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "controllers",
    [pytest.param((), marks=pytest.mark.xdist_group("controllers ()"))],
    indirect=True,
    scope="module",
)
async def test_a_driver_starts_with_capacity_for_its_executors(environment: Environment) -> None:
    """One node is free: the driver would fit there, but not its executors."""
    site = await Site(environment, "spark-submit").open()
    nodes = await site.add_nodes(*RACKS)
    async with spark_drivers(site):
        for node in nodes[1:]:
            other = pod(site.name, f"other-{node}")
            other["spec"]["nodeName"] = node
            await site.create(other)
        await site.create({**GROUP, "metadata": {"name": "pi", "namespace": site.name}})
        submission = submit(site)
        try:
            await site.waits("pi", "InsufficientCapacity", "executor")
            await environment.delete(site.pod_path(f"other-{nodes[1]}"))
            await site.runs("pi", 3)
        finally:
            await submission.kill()
        requested = await executor_requests(site)
        wanted = GROUP["spec"]["roles"][1]["requests"]
        assert requested == [{name: str(value) for name, value in wanted.items()}] * 2
        await end_driver(site)
        await site.until(lambda: not site.pods("pi"), "driver and executors to end")
    await environment.delete(f"/api/v1/namespaces/{site.name}")
    for node in nodes:
        await environment.delete(f"/api/v1/nodes/{node}")


def submit(site: Site) -> Process:
    """Run spark-submit as the comment in the example says."""
    plane, spark = site.environment.plane, Path(SPARK)
    folder = plane.run_folder / site.name
    folder.mkdir()
    more = {
        "spark.kubernetes.namespace": site.name,
        "spark.kubernetes.submission.connectionTimeout": "120000",
        "spark.kubernetes.submission.waitAppCompletion": "false",
    }
    return Process(
        name="spark-submit",
        command=[
            str(spark / "bin" / "spark-submit"),
            *("--master", f"k8s://{plane.url}", "--deploy-mode", "cluster"),
            *("--properties-file", str(PROPERTIES)),
            *(word for name, value in more.items() for word in ("--conf", f"{name}={value}")),
            *("--class", "org.apache.spark.examples.SparkPi"),
            "local:///opt/spark/examples/jars/spark-examples.jar",
        ],
        log=plane.logs_folder / "spark-submit.log",
        home=folder,
        environment={"KUBECONFIG": str(plane.kubeconfig_path), "SPARK_HOME": str(spark)},
    )


async def executor_requests(site: Site) -> list[dict[str, str]]:
    """What the executors request, which the PodGroup must know before they exist."""
    pods = await site.all_pods()
    executors = [each for each in pods if each["metadata"].get("labels", {}).get(LABEL_ROLE) == "executor"]
    return [each["spec"]["containers"][0]["resources"]["requests"] for each in executors]


async def end_driver(site: Site) -> None:
    """Let its program end with success."""
    [driver] = [each for each in site.pods("pi") if each.metadata.labels[LABEL_ROLE] == "driver"]
    body = {"metadata": {"annotations": {RUNTIME: "0s"}}}
    await site.environment.patch(site.pod_path(driver.metadata.name), body)
