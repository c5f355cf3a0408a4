"""Workloads as gangs over their life: their objects are read when a pod needs them, and nothing is left.

A Job controller and a garbage collector run. The tests play the JobSet controller.
"""

import asyncio
from collections.abc import Callable

import pytest
from phalanx.kube.reflector import OPTIONAL_KIND_RETRY_S
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.apiserver.kinds import ResourceType
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.world import World, WorldSettings, in_world

from tests.kube.faults import answer
from tests.service.running import PODS, running

pytestmark = pytest.mark.usefixtures("quiet")

JOBS = "jobs.batch"
JOB_SETS = ResourceType("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", True, custom=True, status=True)
ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
SETTINGS = WorldSettings(seed=1, replicas=1, checks=ALL_CHECKS)


def pods(world: World, name: str = "") -> list[Object]:
    found = [world.client.get(key) or {} for key in world.client.keys("pods")]
    return [pod for pod in found if pod["metadata"]["name"].startswith(name)]


def bound(world: World, name: str) -> int:
    return sum(bool(pod["spec"].get("nodeName")) for pod in pods(world, name))


def in_phase(world: World, name: str, phase: str) -> list[Object]:
    return [pod for pod in pods(world, name) if pod["status"].get("phase") == phase]


def messages(world: World, name: str) -> set[str]:
    found = [each for pod in pods(world, name) for each in pod["status"].get("conditions", [])]
    return {each.get("message", "") for each in found if each["type"] == "PodScheduled"}


def job(name: str, *, members: int, owner: Object | None = None, role: str = "", **options: object) -> Object:
    made = manifests.job(name, members=members, **options)
    if owner is not None:
        reference = {"apiVersion": JOB_SETS.api_version, "kind": "JobSet", "controller": True}
        meta = owner["metadata"]
        made["metadata"]["ownerReferences"] = [{**reference, "name": meta["name"], "uid": meta["uid"]}]
        made["spec"]["template"]["metadata"]["labels"] = {ROLE: role}
    return made


def create_job_set(
    world: World,
    name: str,
    roles: dict[str, tuple[int, int]],
    *,
    above: Object | None = None,
    unnamed: bool = False,
    **spec: object,
) -> Object:
    """The object as a user creates it, or as the TrainJob `above` does; `roles`: replicas and pods of each
    Job. `unnamed`: its templates name no scheduler."""
    described = []
    for role, (replicas, size) in roles.items():
        template = {"spec": job("", members=size)["spec"]}
        if unnamed:
            del template["spec"]["template"]["spec"]["schedulerName"]
        described.append({"name": role, "replicas": replicas, "template": template})
    meta: Object = {"name": name, "namespace": "default"}
    if above is not None:
        reference = {"apiVersion": above["apiVersion"], "kind": above["kind"], "controller": True}
        owner = {**reference, "name": above["metadata"]["name"], "uid": above["metadata"]["uid"]}
        meta["ownerReferences"] = [owner]
    whole = {"apiVersion": JOB_SETS.api_version, "kind": "JobSet", "metadata": meta}
    world.create([{**whole, "spec": {"replicatedJobs": described, **spec}}])
    return world.client.get(Key(JOB_SETS.resource, "default", name)) or {}


def create_jobs(world: World, owner: Object, roles: dict[str, tuple[int, int]]) -> None:
    """What the JobSet controller creates."""
    name = owner["metadata"]["name"]
    world.create(
        job(f"{name}-{role}-{index}", members=size, owner=owner, role=role)
        for role, (replicas, size) in roles.items()
        for index in range(replicas)
    )


def delete(world: World, resource: str, name: str) -> None:
    found = world.client.get(Key(resource, "default", name)) or {}
    world.client.delete(Key(resource, "default", name), uid=found["metadata"]["uid"])


def suspended(value: bool) -> Callable[[Object], Object]:
    return lambda found: {**found, "spec": {**found["spec"], "suspend": value}}


def is_watched(world: World, resource: str) -> bool:
    leader = world.leader()
    assert leader is not None
    assert leader.process is not None
    return resource in {
        task.get_name().removeprefix("reflect ") for task in asyncio.all_tasks() if not task.done()
    }


async def settle() -> None:
    await asyncio.sleep(15)


def test_a_job_waits_whole_starts_whole_and_leaves_nothing() -> None:
    async def play(world: World) -> None:
        world.create([manifests.node("n1", gpus=4), manifests.pod("filler")])
        world.start()
        await settle()
        assert not is_watched(world, "jobs.batch")
        world.create([job("train", members=4)])
        await settle()
        assert is_watched(world, "jobs.batch")
        assert not is_watched(world, "jobsets.jobset.x-k8s.io")
        assert bound(world, "train") == 0
        assert all(message.startswith("InsufficientCapacity") for message in messages(world, "train"))
        delete(world, "pods", "filler")
        await settle()
        assert bound(world, "train") == 4
        delete(world, JOBS, "train")
        await settle()
        assert pods(world) == []

    world = in_world(SETTINGS, play)
    assert world.violations.kept == []


def test_a_suspended_job_starts_whole_again() -> None:
    async def play(world: World) -> None:
        world.create([manifests.node("n1", gpus=4), job("train", members=3)])
        world.start()
        await settle()
        assert bound(world, "train") == 3
        world.client.update(Key(JOBS, "default", "train"), suspended(True))
        await asyncio.sleep(60)
        assert pods(world) == []
        world.create([manifests.pod(f"other-{index}") for index in range(2)])
        await settle()
        world.client.update(Key(JOBS, "default", "train"), suspended(False))
        await settle()
        assert (bound(world, "train"), bound(world, "other")) == (0, 2)
        delete(world, "pods", "other-0")
        await asyncio.sleep(60)
        assert bound(world, "train") == 3

    world = in_world(SETTINGS, play)
    assert world.violations.kept == []


def test_a_job_with_more_completions_than_pods_goes_on_to_its_end() -> None:
    """Its later pods go before other starts. The last one is not held back for pods that are never made."""

    async def play(world: World) -> None:
        long = job("train", members=3, run_s=30)
        long["spec"]["completions"] = 7
        world.create([manifests.node("n1", gpus=3), long])
        world.start()
        await settle()
        assert bound(world, "train") == 3
        world.create([job("later", members=1, run_s=30)])
        await asyncio.sleep(40)
        assert (bound(world, "train"), bound(world, "later")) == (6, 0)
        await asyncio.sleep(10)
        assert (bound(world, "train"), bound(world, "later")) == (7, 1)
        await asyncio.sleep(60)
        found = world.client.get(Key(JOBS, "default", "train")) or {}
        assert found["status"]["succeeded"] == 7

    world = in_world(SETTINGS, play)
    assert world.violations.kept == []


def test_no_capacity_is_held_for_a_job_that_was_suspended_or_has_failed() -> None:
    async def play(world: World) -> None:
        world.create([manifests.node("n1", gpus=2)])
        world.start()
        for name in ("suspended", "failed"):
            long = job(name, members=2, run_s=30)
            long["spec"] |= {"completions": 9, "backoffLimit": 0}
            world.create([long])
            await asyncio.sleep(50)
            assert (bound(world, name), len(in_phase(world, name, "Succeeded"))) == (4, 2)
            world.create([job(f"after-{name}", members=2, run_s=60)])
            if name == "suspended":
                world.client.update(Key(JOBS, "default", name), suspended(True))
            else:
                fail = Key("pods", "default", in_phase(world, name, "Running")[0]["metadata"]["name"])
                world.client.update_status(fail, phase="Failed")
            await asyncio.sleep(45)
            assert bound(world, f"after-{name}") == 2
            await asyncio.sleep(60)

    world = in_world(SETTINGS, play)
    assert world.violations.kept == []


def test_the_pods_of_a_job_set_are_one_gang() -> None:
    roles = {"ps": (1, 1), "worker": (2, 2)}

    async def play(world: World) -> None:
        world.server.types.add(JOB_SETS)
        world.create([manifests.node("n1", gpus=4)])
        world.start()
        await settle()
        create_jobs(world, create_job_set(world, "js", roles), roles)
        await settle()
        assert is_watched(world, "jobsets.jobset.x-k8s.io")
        assert len(pods(world, "js")) == 5
        assert bound(world, "js") == 0
        world.create([manifests.node("n2", gpus=1)])
        await asyncio.sleep(60)
        assert bound(world, "js") == 5
        delete(world, JOB_SETS.resource, "js")
        await asyncio.sleep(60)
        assert pods(world) == []

    in_world(WorldSettings(seed=2, replicas=1), play)


def test_roles_that_come_later_are_not_waited_for() -> None:
    roles = {"driver": (1, 1), "worker": (1, 2)}

    async def play(world: World) -> None:
        world.server.types.add(JOB_SETS)
        world.create([manifests.node("n1", gpus=4)])
        world.start()
        await settle()
        order = {"startupPolicyOrder": "InOrder"}
        owner = create_job_set(world, "js", roles, startupPolicy=order)
        create_jobs(world, owner, {"driver": roles["driver"]})
        await settle()
        assert bound(world, "js-driver") == 1
        create_jobs(world, owner, {"worker": roles["worker"]})
        await settle()
        assert bound(world, "js-worker") == 2

    in_world(WorldSettings(seed=3, replicas=1), play)


def test_pods_wait_with_a_reason_until_the_kind_of_their_owner_is_served() -> None:
    """The API server may serve the kind later than pods are there, for example after a restart."""
    roles = {"worker": (1, 2)}

    async def play(world: World) -> None:
        world.server.types.add(JOB_SETS)
        owner = create_job_set(world, "js", roles)
        world.server.types.discard(JOB_SETS)
        world.create([manifests.node("n1", gpus=4)])
        create_jobs(world, owner, roles)
        world.start()
        await settle()
        assert bound(world, "js") == 0
        (message,) = messages(world, "js")
        assert message.startswith("WorkloadNotFound: JobSet default/js with the UID")
        world.server.types.add(JOB_SETS)
        await asyncio.sleep(OPTIONAL_KIND_RETRY_S + 15)
        assert bound(world, "js") == 2

    in_world(WorldSettings(seed=4, replicas=1), play)


def test_a_new_leader_finds_the_gangs_of_workloads_as_they_are() -> None:
    async def play(world: World) -> None:
        world.create([manifests.node("n1", gpus=4), job("train", members=3), job("big", members=2)])
        world.start()
        await settle()
        assert sorted([bound(world, "train"), bound(world, "big")]) in ([0, 3], [0, 2], [2, 0])
        before = (bound(world, "train"), bound(world, "big"))
        leader = world.leader()
        assert leader is not None
        await leader.stop()
        await asyncio.sleep(60)
        assert world.leader() not in (None, leader)
        assert is_watched(world, "jobs.batch")
        assert (bound(world, "train"), bound(world, "big")) == before

    world = in_world(WorldSettings(seed=5, replicas=2, checks=ALL_CHECKS), play)
    assert world.violations.kept == []


async def test_without_rights_the_pods_wait_and_say_so() -> None:
    denied = answer(403, b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no right"}')
    async with running() as world:
        world.transport.fault("WATCH", "/apis/batch/v1/jobs", denied)
        world.create("/api/v1/nodes", manifests.node("n1", gpus=8))
        world.untaint("n1")
        made = manifests.pod("train-0")
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
        made["metadata"]["ownerReferences"] = [owner]
        world.create(PODS, made, manifests.pod("other"))

        def message() -> str:
            conditions = world.get(f"{PODS}/train-0").get("status", {}).get("conditions", [])
            return " ".join(each.get("message", "") for each in conditions)

        await world.until(lambda: "Job default/train cannot be read: 403 Forbidden" in message())
        assert "list and watch jobs.batch" in message()
        assert world.nodes_of_pods() == {"other": "n1"}


SPARK = ResourceType(
    "sparkoperator.k8s.io", "v1beta2", "sparkapplications", "SparkApplication", True, custom=True, status=True
)


def spark_pod(world: World, name: str, role: str, owner: Key, api_version: str, kind: str) -> Object:
    """A pod as the operator makes the driver, and the driver its executors."""
    found = world.client.get(owner) or {}
    reference = {"apiVersion": api_version, "kind": kind, "name": owner.name, "controller": True}
    made = manifests.pod(name)
    made["metadata"]["labels"] = {"spark-role": role}
    made["metadata"]["ownerReferences"] = [{**reference, "uid": found["metadata"]["uid"]}]
    return made


def create_application(world: World, name: str) -> None:
    """Its object and its driver."""
    executor = {"schedulerName": "phalanx", "instances": 2, "gpu": {"name": "nvidia.com/gpu", "quantity": 1}}
    spec = {"driver": {"schedulerName": "phalanx"}, "executor": executor}
    meta = {"name": name, "namespace": "default"}
    world.create([{"apiVersion": SPARK.api_version, "kind": SPARK.kind, "metadata": meta, "spec": spec}])
    owner = Key(SPARK.resource, "default", name)
    world.create([spark_pod(world, f"{name}-driver", "driver", owner, SPARK.api_version, SPARK.kind)])


def test_a_spark_driver_starts_only_with_capacity_for_its_executors() -> None:
    """Two drivers fit the cluster, but not two with their executors: one waits until the other has ended."""

    async def play(world: World) -> None:
        world.server.types.add(SPARK)
        world.create([manifests.node("n1", gpus=4)])
        world.start()
        await settle()
        create_application(world, "a")
        await settle()
        assert bound(world, "a-driver") == 1
        create_application(world, "b")
        world.create([manifests.pod("other"), manifests.pod("another")])
        await settle()
        assert (bound(world, "b-driver"), bound(world, "other") + bound(world, "another")) == (0, 1)
        driver = Key("pods", "default", "a-driver")
        world.create(
            spark_pod(world, f"a-exec-{index}", "executor", driver, "v1", "Pod") for index in range(2)
        )
        await settle()
        assert bound(world, "a-exec") == 2

    in_world(WorldSettings(seed=6, replicas=1), play)
