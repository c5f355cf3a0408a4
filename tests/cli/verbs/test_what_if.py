"""`phalanx what-if`: the decisions of the scheduler after a change, without touching the cluster."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from phalanx.model.names import GangId
from phalanx.model.records import GangRecord, PlacedMembers
from phalanx.model.stored_records import RecordDocument
from phalanx_simulator.embedded.controllers.resource_claims import serve

from tests.cli.test_released_claims import Cluster, slice_of
from tests.cli.verbs.conftest import World, gpu_node, gpu_pod, pod_group, queue
from tests.fake_objects import namespace


def manifest(path: Path, *objects: Any) -> str:
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def job(name: str, *, pods: int, gpus: int, **metadata: Any) -> Any:
    template = gpu_pod("x", space="x", gpus=gpus)["spec"] | {"restartPolicy": "Never"}
    spec = {"parallelism": pods, "completions": pods, "template": {"spec": template}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, **metadata}, "spec": spec}


async def test_a_job_that_is_submitted_starts(tenants: World, tmp_path: Path) -> None:
    """Seven GPUs are free on b1 and four on each of a1 and a2."""
    before = dict(tenants.server.store.entries("pods")[0].data)
    file = manifest(tmp_path / "job.yaml", job("new", pods=2, gpus=3))
    done = await tenants.run("what-if", "--submit", file, "-o", "json", "-n", "speech")
    assert done.code == 0
    view = json.loads(done.out)
    (start,) = view["starts"]
    assert (start["gang"], start["pods"], start["alsoWithout"]) == ("speech/new", 2, False)
    assert view["submitted"] == ["speech/new"]
    assert [each["gang"] for each in view["waits"]] == ["vision/large"]
    assert view["waits"][0]["alsoWithout"] is True
    assert dict(tenants.server.store.entries("pods")[0].data) == before
    assert len(tenants.server.store.entries("pods")) == 5


async def test_one_that_does_not_fit_waits_and_has_an_exit_code(tenants: World, tmp_path: Path) -> None:
    file = manifest(tmp_path / "job.yaml", job("new", pods=4, gpus=4, namespace="speech"))
    done = await tenants.run("what-if", "--submit", file)
    assert done.code == 5
    assert "speech/new   InsufficientCapacity" in done.out
    assert "as without it: 1 gang waits" in done.out
    assert "vision/large   Insuff" not in done.out
    wide = await tenants.run("what-if", "--submit", file, "-o", "wide")
    assert "vision/large" in wide.out


async def test_added_nodes_let_a_waiting_gang_start(tenants: World) -> None:
    view = await tenants.json("what-if", "--add-nodes", "2", "--like", "b1")
    assert view["noLongerWaiting"] == ["vision/large"]
    (start,) = view["starts"]
    assert start["gang"] == "vision/large"
    assert [each["node"] for each in start["nodes"]] == ["b1-added-0", "b1-added-1"]
    assert (await tenants.json("what-if", "--add-nodes", "1", "--like", "b1"))["noLongerWaiting"] == []


@pytest.mark.parametrize("configured", [[], ["example.com/burn-in"], ["example.com/"]])
async def test_an_added_node_has_no_taint_that_is_only_a_state(
    world: World, tmp_path: Path, configured: list[str]
) -> None:
    node = gpu_node("n1", rack="a")
    world.create(node | {"spec": {"taints": [{"key": "example.com/burn-in", "effect": "NoSchedule"}]}})
    world.create(gpu_pod("waits", space="default"))
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"stateTaints": configured}))
    change = ("what-if", "--add-nodes", "1", "--like", "n1", "--config", str(config))
    starts = (await world.json(*change))["starts"]
    assert [each["gang"] for each in starts] == (["default/waits"] if configured else [])


async def test_a_drained_node_moves_its_gang(tenants: World) -> None:
    view = await tenants.json("what-if", "--drain", "a1")
    (evicted,) = view["evicted"]
    assert (evicted["gang"], evicted["pods"], evicted["reason"]) == ("vision/busy", 1, "Drained")
    (start,) = view["starts"]
    assert start["gang"] == "vision/busy"
    assert "a1" not in [each["node"] for each in start["nodes"]]


async def test_the_weight_of_a_queue_decides_who_starts(world: World) -> None:
    """Both queues use two GPUs, and both wait for the other four. The larger weight decides."""
    world.create(gpu_node("n1", rack="a"))
    for name, weight in (("first", 3), ("second", 2)):
        world.create(queue(name, weight=weight))
        for gang, node, gpus in (("runs", "n1", 2), ("waits", "", 4)):
            group = f"{name}-{gang}"
            world.create(pod_group(group, space="default", minMember=1, queue=name))
            world.create(gpu_pod(group, space="default", group=group, node=node, gpus=gpus))
    view = await world.json("what-if", "--queue", "second", "--weight", "30")
    assert view["changes"] == ["queue second with weight 30"]
    assert [each["gang"] for each in view["starts"]] == ["default/second-waits"]
    assert view["noLongerWaiting"] == ["default/second-waits"]
    assert [(each["gang"], each["alsoWithout"]) for each in view["waits"]] == [("default/first-waits", False)]


async def test_a_priority_class_of_the_cluster_and_preemption(tenants: World, tmp_path: Path) -> None:
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
    tenants.send("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {**urgent, "value": 1000})
    item = job("now", pods=2, gpus=8, namespace="vision")
    item["spec"]["template"]["spec"]["priorityClassName"] = "urgent"
    view = await tenants.json("what-if", "--submit", manifest(tmp_path / "job.yaml", item))
    assert [each["gang"] for each in view["starts"]] == ["vision/now"]
    (evicted,) = view["evicted"]
    assert (evicted["gang"], evicted["pods"], evicted["beneficiary"]) == ("vision/busy", 2, "vision/now")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a change"),
        (["--drain", "z9"], "--drain: expected a node that exists, found z9"),
        (["--add-nodes", "2"], "--add-nodes, --like"),
        (["--queue", "vision"], "--queue, --weight"),
        (["--queue", "none", "--weight", "2"], "--queue: expected a queue that exists, found none"),
        (["--queue", "vision", "--weight", "0"], "--weight: expected a number above 0"),
    ],
)
async def test_bad_input(tenants: World, arguments: list[str], message: str) -> None:
    done = await tenants.run("what-if", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


async def test_a_manifest_with_a_mistake_is_reported(tenants: World, tmp_path: Path) -> None:
    file = manifest(tmp_path / "bad.yaml", pod_group("g", space="vision", minMembers=3))
    done = await tenants.run("what-if", "--submit", file)
    assert done.code == 2
    assert "spec.minMembers: expected minMember" in done.err


async def test_a_tenant_without_the_right_to_see_all_pods_gets_no_wrong_answer(tenants: World) -> None:
    tenants.server.forbidden = ("/api/v1/pods",)
    done = await tenants.run("what-if", "--drain", "a1")
    assert (done.code, done.out) == (1, "")
    assert "the pods of all namespaces" in done.err


async def test_a_pod_that_moves_to_another_node_gets_another_claim(world: World) -> None:
    """Its template makes a claim of the same kind, which gets the devices that are free elsewhere."""
    serve(world.server)
    objects = Cluster(devices=1, running=1, ended=0, waiting=0, guarantee=0).objects(with_claims=True)
    (node,) = (each for each in objects if each["kind"] == "Node")
    other = json.loads(json.dumps(node))
    other["metadata"]["name"] = "m"
    spare = slice_of(1)
    spare["metadata"]["name"] = "m"
    spare["spec"] |= {"nodeName": "m", "pool": {"name": "m", "generation": 1, "resourceSliceCount": 1}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    for each in (*objects, other, spare):
        if each["kind"] == "Pod":
            each["metadata"]["ownerReferences"] = [owner]
        if each["kind"] != "ResourceClaim":
            world.create(each)
    (made,) = (each for each in objects if each["kind"] == "ResourceClaim")
    uid = world.server.store.entries("pods")[0].data["metadata"]["uid"]
    for each in (*made["metadata"]["ownerReferences"], *made["status"]["reservedFor"]):
        each["uid"] = uid
    world.create(made)
    view = await world.json("what-if", "--drain", "n")
    (start,) = view["starts"]
    assert [each["node"] for each in start["nodes"]] == ["m"]


def with_a_lost_member(world: World) -> Any:
    """The record of a gang of two that lost a member. A pod that is first by its name waits for its GPUs."""
    world.create(gpu_node("n1", rack="a"), namespace("phalanx-system"))
    meta = {"labels": {"scheduling.phalanx.dev/min-member": "2"}}
    owner = {
        "apiVersion": "example.com/v1",
        "kind": "Runner",
        "name": "pair",
        "uid": "u1",
        "controller": True,
    }
    world.create(gpu_pod("first", space="default"))
    for name, node in (("pair-0", "n1"), ("pair-1", "")):
        pod = gpu_pod(name, space="default", node=node, ownerReferences=[owner], **meta)
        world.create(pod)
    gpus = {"nvidia.com/gpu": 4}
    records = RecordDocument(10_000)
    record = GangRecord(1, (PlacedMembers("", "", gpus, bound=2),))
    records.put("default", GangId("default/u1"), record)
    metadata = {"name": "phalanx-records", "namespace": "phalanx-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(records.data())}


@pytest.mark.parametrize("is_known", [True, False])
async def test_lost_members_of_gangs_without_a_pod_group_are_known(
    world: World, tmp_path: Path, is_known: bool
) -> None:
    world.create(with_a_lost_member(world))
    file = manifest(tmp_path / "job.yaml", job("new", pods=1, gpus=4))
    namespace = "phalanx-system" if is_known else "elsewhere"
    done = await world.run("what-if", "--submit", file, "-o", "json", "--scheduler-namespace", namespace)
    (start,) = json.loads(done.out)["starts"]
    assert start["gang"] == ("default/pair" if is_known else "default/first")
    note = "ConfigMap phalanx-records of namespace elsewhere is left out: there is none"
    assert (note in done.err) is not is_known


async def test_a_note_says_that_records_may_not_be_read(world: World, tmp_path: Path) -> None:
    world.create(with_a_lost_member(world))
    world.server.forbidden = ("/api/v1/namespaces/phalanx-system/configmaps",)
    file = manifest(tmp_path / "job.yaml", job("new", pods=1, gpus=4))
    done = await world.run("what-if", "--submit", file)
    assert "ConfigMap phalanx-records of namespace phalanx-system is left out: you may not get it" in done.err
