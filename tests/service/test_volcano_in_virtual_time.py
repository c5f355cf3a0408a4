"""PodGroups of Volcano: their phases over the life of a Job, and none written on those of others."""

import asyncio
from typing import Any

import pytest
from phalanx.kube.reflector import OPTIONAL_KIND_RETRY_S
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.runs.world import World, WorldSettings, in_world

from tests.dialect_crds import HYPER_NODES, VOLCANO, VOLCANO_JOBS
from tests.service.dialect_world import bound, found, message, pods, recorder, serve, writes_to

pytestmark = pytest.mark.usefixtures("quiet")

GROUPS, JOBS = "podgroups.scheduling.volcano.sh", "jobs.batch.volcano.sh"
PODS = 2


def create_job(world: World, name: str, *, scheduler: str = "phalanx") -> None:
    """A Job, as Volcano's webhook completes it."""
    meta, spec = {"name": name, "namespace": "default"}, {"schedulerName": scheduler}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec}
    world.client.create(JOBS, "default", job)


def create_group(world: World, name: str, *, owner: str = "", phase: str = "", **spec: Any) -> None:
    """The PodGroup that Volcano's controller makes for a Job, or one without an owner."""
    meta: Object = {"name": name, "namespace": "default"}
    if owner:
        job = found(world, JOBS, owner)
        owned = {"name": owner, "uid": job["metadata"]["uid"], "controller": True}
        meta["ownerReferences"] = [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", **owned}]
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta}
    status = {"status": {"phase": phase}} if phase else {}
    world.client.create(GROUPS, "default", {**body, "spec": {"minMember": PODS, **spec}, **status})


def members(name: str, *, scheduler: str = "phalanx", task: str = "") -> list[Object]:
    annotations = {"scheduling.k8s.io/group-name": name, "volcano.sh/task-spec": task}
    return pods(name, PODS, annotations=annotations, scheduler=scheduler)


def status(world: World, name: str) -> Object:
    return dict(found(world, GROUPS, name).get("status") or {})


def phase(world: World, name: str) -> str:
    return str(status(world, name).get("phase", ""))


def condition(world: World, name: str) -> tuple[str, str]:
    (known,) = status(world, name)["conditions"]
    assert known["status"] == "True"
    return known["type"], known["reason"]


def finish(world: World, name: str) -> None:
    for number in range(PODS):
        world.client.update_status(Key("pods", "default", f"{name}-{number}"), phase="Succeeded")


def test_the_phases_of_jobs() -> None:
    """The controller creates the pods once the PodGroup is Inqueue."""

    async def play(world: World) -> None:
        serve(world, VOLCANO, VOLCANO_JOBS)
        world.create([manifests.node("n1", gpus=PODS)])
        world.start()
        await asyncio.sleep(5)
        for name in ("first", "second"):
            create_job(world, name)
            create_group(world, name, owner=name, minTaskMember={"worker": PODS}, queue="default")
        await asyncio.sleep(5)
        assert [phase(world, name) for name in ("first", "second")] == ["Inqueue", "Inqueue"]
        world.create(members("first", task="worker"))
        await asyncio.sleep(5)
        assert bound(world, "first") == PODS
        assert (phase(world, "first"), condition(world, "first")) == ("Running", ("Scheduled", "Scheduled"))
        world.create(members("second"))
        await asyncio.sleep(5)
        assert (bound(world, "second"), phase(world, "second")) == (0, "Inqueue")
        assert condition(world, "second")[0] == "Unschedulable"
        finish(world, "first")
        await asyncio.sleep(60)
        assert (phase(world, "first"), status(world, "first")["succeeded"]) == ("Completed", PODS)
        assert found(world, GROUPS, "first")["spec"]["minMember"] == PODS

    in_world(WorldSettings(seed=1, replicas=1), play)


def test_they_count_from_the_time_when_they_are_served() -> None:
    async def play(world: World) -> None:
        world.create([manifests.node("n1", gpus=PODS)])
        world.start()
        await asyncio.sleep(5)
        world.create(members("train"))
        await asyncio.sleep(5)
        assert message(world, "train-0").startswith("PodGroupNotFound")
        serve(world, VOLCANO)
        create_group(world, "train", phase="Pending")
        await asyncio.sleep(OPTIONAL_KIND_RETRY_S + 5)
        assert (bound(world, "train"), phase(world, "train")) == (PODS, "Running")

    in_world(WorldSettings(seed=1, replicas=1), play)


def test_nothing_is_written_on_pod_groups_that_are_not_ours() -> None:
    """Those of Jobs of another scheduler, with pods of another scheduler, and without pods and owner."""
    calls: list[tuple[str, Key]] = []

    async def play(world: World) -> None:
        serve(world, VOLCANO, VOLCANO_JOBS)
        world.create([manifests.node("n1", gpus=8)])
        world.start()
        await asyncio.sleep(5)
        create_job(world, "theirs", scheduler="volcano")
        create_job(world, "nobodys", scheduler="")
        create_job(world, "ours")
        for name in ("theirs", "nobodys"):
            create_group(world, name, owner=name, phase="Pending")
        create_group(world, "alone")
        create_group(world, "with-pods")
        create_group(world, "running", owner="ours", phase="Running")
        world.create(members("with-pods", scheduler="volcano"))
        names = ("theirs", "nobodys", "alone", "with-pods", "running")
        before = [found(world, GROUPS, name) for name in names]
        world.create([manifests.queue("other"), manifests.namespace("another")])
        await asyncio.sleep(120)
        assert [found(world, GROUPS, name) for name in names] == before
        create_group(world, "control", owner="ours")
        await asyncio.sleep(5)
        assert phase(world, "control") == "Inqueue"

    in_world(WorldSettings(seed=1, replicas=2, checks=(recorder(calls),)), play)
    assert writes_to(calls, GROUPS) == ["control"]
    assert writes_to(calls, JOBS) == []


@pytest.mark.parametrize(
    ("spec", "queue", "reason"),
    [
        ({"queue": "team"}, None, "QueueNotFound"),
        ({"queue": "team"}, {"state": "Held"}, "QueueHeld"),
        ({"queue": "team"}, {"namespaceSelector": {"matchLabels": {"a": "b"}}}, "NamespaceNotAllowed"),
        ({"queue": "team", "minResources": {"cpu": "3"}}, {"limit": {"cpu": "2"}}, "AboveQueueLimit"),
    ],
)
def test_a_job_stays_pending_while_its_queue_does_not_take_it(
    spec: dict[str, Any], queue: dict[str, Any] | None, reason: str
) -> None:
    async def play(world: World) -> None:
        serve(world, VOLCANO, VOLCANO_JOBS)
        if queue is not None:
            world.create([manifests.queue("team", **queue)])
        create_job(world, "train")
        create_group(world, "train", owner="train", **spec)
        world.start()
        await asyncio.sleep(10)
        assert (phase(world, "train"), condition(world, "train")) == ("Pending", ("Unschedulable", reason))
        if queue is None:
            world.create([manifests.queue("team")])
        else:
            world.client.update(Key("queues.scheduling.phalanx.dev", "", "team"), lambda q: {**q, "spec": {}})
        await asyncio.sleep(5)
        assert (phase(world, "train"), status(world, "train")["conditions"]) == ("Inqueue", [])

    in_world(WorldSettings(seed=1, replicas=1), play)


def test_a_job_with_a_field_that_is_refused_stays_pending() -> None:
    async def play(world: World) -> None:
        serve(world, VOLCANO, VOLCANO_JOBS)
        create_job(world, "train")
        create_group(world, "train", owner="train", subGroupPolicy=[{"name": "p"}])
        world.start()
        await asyncio.sleep(10)
        assert (phase(world, "train"), condition(world, "train")[1]) == ("Pending", "UnsupportedField")
        (known,) = status(world, "train")["conditions"]
        assert "spec.subGroupPolicy" in known["message"]

    in_world(WorldSettings(seed=1, replicas=1), play)


def test_a_job_that_is_pending_again_is_put_in_queue_again() -> None:
    async def play(world: World) -> None:
        serve(world, VOLCANO, VOLCANO_JOBS)
        create_job(world, "train")
        create_group(world, "train", owner="train")
        world.start()
        await asyncio.sleep(10)
        assert phase(world, "train") == "Inqueue"
        pending = {"status": {"phase": "Pending"}}
        world.client.update(Key(GROUPS, "default", "train"), lambda item: {**item, **pending})
        await asyncio.sleep(5)
        assert phase(world, "train") == "Inqueue"

    in_world(WorldSettings(seed=1, replicas=1), play)


def create_hyper_node(world: World, name: str, *nodes: str) -> None:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": node}}} for node in nodes]
    body = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}}
    world.client.create(HYPER, "", {**body, "spec": {"tier": 1, "members": members}})


HYPER = "hypernodes.topology.volcano.sh"


def test_a_gang_starts_when_its_nodes_come_into_one_hyper_node() -> None:
    async def play(world: World) -> None:
        serve(world, VOLCANO, HYPER_NODES)
        world.create([manifests.node(name, gpus=1) for name in ("n1", "n2")])
        create_hyper_node(world, "one", "n1")
        create_hyper_node(world, "two", "n2")
        create_group(world, "train", networkTopology={"mode": "hard", "highestTierAllowed": 1})
        world.create(members("train"))
        world.start()
        await asyncio.sleep(10)
        assert (bound(world, "train"), phase(world, "train")) == (0, "Inqueue")
        create_hyper_node(world, "both", "n1", "n2")
        for name in ("one", "two"):
            uid = (world.client.get(Key(HYPER, "", name)) or {})["metadata"]["uid"]
            world.client.delete(Key(HYPER, "", name), uid=uid)
        await asyncio.sleep(10)
        assert (bound(world, "train"), phase(world, "train")) == (PODS, "Running")

    in_world(WorldSettings(seed=1, replicas=2), play)
