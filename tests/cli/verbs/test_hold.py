"""`phalanx hold` and `phalanx release`."""

from typing import Any

import pytest
from phalanx.model.names import ANNOTATION_SUSPENSION

from tests.cli.verbs.conftest import World, gpu_pod, pod_group

GROUP = "/apis/scheduling.phalanx.dev/v1alpha1/namespaces/vision/podgroups/large"


@pytest.mark.parametrize("target", ["large", "podgroup/large", "pod/large-0"])
async def test_a_pod_group_is_held_and_released(tenants: World, target: str) -> None:
    done = await tenants.run("hold", target, "-n", "vision")
    assert (done.code, done.out, done.err) == (0, "podgroup vision/large held\n", "")
    spec = tenants.send("GET", GROUP, {})["spec"]
    assert spec == {"minMember": 2, "hold": True}
    done = await tenants.run("release", target, "-n", "vision")
    assert (done.code, done.out) == (0, "podgroup vision/large released\n")
    assert tenants.send("GET", GROUP, {})["spec"] == {"minMember": 2}


async def test_a_started_gang_is_held_for_its_next_start(tenants: World) -> None:
    done = await tenants.run("hold", "busy", "-n", "vision")
    assert done.code == 0
    assert done.err == "note: podgroup/busy is Running: it is held if it starts over\n"


async def test_the_right_to_patch_is_needed(tenants: World) -> None:
    tenants.server.forbidden = (GROUP,)
    done = await tenants.run("hold", "large", "-n", "vision")
    assert (done.code, done.out) == (1, "")
    assert "Forbidden" in done.err


def job(world: World, *, node: str = "") -> str:
    """A Job with one pod; its path."""
    template = gpu_pod("x", space="default")["spec"] | {"restartPolicy": "Never"}
    body: Any = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sweep", "namespace": "default"},
        "spec": {"template": {"spec": template}},
    }
    collection = "/apis/batch/v1/namespaces/default/jobs"
    uid = world.send("POST", collection, body)["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "sweep", "uid": uid, "controller": True}
    world.create(gpu_pod("sweep-0", space="default", node=node, ownerReferences=[owner]))
    return f"{collection}/sweep"


async def test_a_job_without_a_pod_group_is_suspended_while_no_pod_runs(world: World) -> None:
    """Without the annotation of an eviction: the scheduler must not resume it."""
    path = job(world)
    annotations = {ANNOTATION_SUSPENSION: "1", "mine": "x"}
    world.send("PATCH", path, {"metadata": {"annotations": annotations}})
    assert (await world.run("hold", "job/sweep")).out == "job default/sweep held\n"
    held = world.send("GET", path, {})
    assert held["spec"]["suspend"] is True
    assert held["metadata"]["annotations"] == {"mine": "x"}
    world.send("DELETE", "/api/v1/namespaces/default/pods/sweep-0", {})
    assert (await world.run("release", "job/sweep")).out == "job default/sweep released\n"
    assert world.send("GET", path, {})["spec"]["suspend"] is False


async def test_a_job_that_runs_is_not_suspended(world: World) -> None:
    path = job(world, node="n1")
    done = await world.run("hold", "job/sweep")
    assert done.code == 1
    assert "suspending it would delete its pods" in done.err
    assert not world.send("GET", path, {})["spec"].get("suspend")


async def test_what_cannot_be_held(world: World) -> None:
    world.create(gpu_pod("single", space="default"))
    done = await world.run("hold", "single")
    assert (done.code, "give it a PodGroup" in done.err) == (1, True)
    assert (await world.run("hold", "none")).code == 4
    assert (await world.run("release", "job/none")).err == "release: there is no job default/none\n"


async def test_a_crd_without_the_field_is_reported(world: World) -> None:
    types = world.server.types
    world.create(pod_group("g", space="default"))
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podgroups.scheduling.phalanx.dev"
    definition = world.send("GET", crd, {})
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["hold"]
    world.send("PUT", crd, definition)
    done = await world.run("hold", "g")
    assert done.code == 1, types
    assert "phalanx install --crds" in done.err
