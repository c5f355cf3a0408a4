"""PodGroups and Topologies of KAI: the condition over the life of a gang, and none on those of others."""

import asyncio
from typing import Any

import pytest
from phalanx.kube.reflector import OPTIONAL_KIND_RETRY_S
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.runs.world import World, WorldSettings, in_world

from tests.dialect_crds import KAI, KAI_TOPOLOGIES
from tests.service.dialect_world import bound, found, message, pods, recorder, serve, writes_to

pytestmark = pytest.mark.usefixtures("quiet")

GROUPS, TOPOLOGIES = "podgroups.scheduling.run.ai", "topologies.kai.scheduler"
PODS = 2
USED = {"requested": {"nvidia.com/gpu": str(PODS)}}
"""What KAI's pod-group-controller writes."""


def create_group(world: World, name: str, **spec: Any) -> None:
    meta: Object = {"name": name, "namespace": "default"}
    body = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": meta}
    world.client.create(GROUPS, "default", {**body, "spec": {"minMember": PODS, **spec}})
    world.client.update_status(Key(GROUPS, "default", name), resourcesStatus=USED)


def create_topology(world: World, name: str, *labels: str) -> None:
    levels = [{"nodeLabel": label} for label in labels]
    body = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": name}}
    world.client.create(TOPOLOGIES, "", {**body, "spec": {"levels": levels}})


def members(name: str, *, scheduler: str = "phalanx") -> list[Object]:
    return pods(name, PODS, annotations={"pod-group-name": name}, scheduler=scheduler)


def delete(world: World, name: str) -> None:
    for number in range(PODS):
        uid = found(world, "pods", f"{name}-{number}")["metadata"]["uid"]
        world.client.delete(Key("pods", "default", f"{name}-{number}"), uid=uid, grace_s=0)


def status(world: World, name: str) -> Object:
    return dict(found(world, GROUPS, name)["status"])


def conditions(world: World, name: str) -> list[tuple[str, str]]:
    seen = status(world, name).get("schedulingConditions", [])
    return [(each["transitionID"], each["reasons"][0]["reason"]) for each in seen]


def test_the_condition_says_why_a_gang_waits_and_goes_when_it_starts() -> None:
    async def play(world: World) -> None:
        serve(world, KAI)
        world.create([manifests.node("n1", gpus=PODS), manifests.queue("team", state="Held")])
        create_group(world, "first")
        create_group(world, "second", queue="team")
        world.create([*members("first"), *members("second")])
        world.start()
        await asyncio.sleep(10)
        assert (bound(world, "first"), bound(world, "second")) == (PODS, 0)
        assert status(world, "first") == {"resourcesStatus": USED}
        assert conditions(world, "second") == [("1", "QueueHeld")]
        assert status(world, "second")["resourcesStatus"] == USED
        world.client.update(Key("queues.scheduling.phalanx.dev", "", "team"), lambda q: {**q, "spec": {}})
        await asyncio.sleep(10)
        # The condition gets the reason first, then the advice.
        assert conditions(world, "second") == [("3", "InsufficientCapacity")]
        delete(world, "first")
        await asyncio.sleep(60)
        assert (bound(world, "second"), conditions(world, "second")) == (PODS, [])
        assert status(world, "second")["resourcesStatus"] == USED

    in_world(WorldSettings(seed=1, replicas=1), play)


def test_they_count_from_the_time_when_they_are_served() -> None:
    async def play(world: World) -> None:
        world.create([manifests.node("n1", gpus=PODS)])
        world.start()
        await asyncio.sleep(5)
        world.create(members("train"))
        await asyncio.sleep(5)
        assert message(world, "train-0").startswith("PodGroupNotFound")
        serve(world, KAI)
        create_group(world, "train")
        await asyncio.sleep(OPTIONAL_KIND_RETRY_S + 5)
        assert bound(world, "train") == PODS

    in_world(WorldSettings(seed=1, replicas=1), play)


def test_nothing_is_written_on_pod_groups_without_pods_of_phalanx() -> None:
    calls: list[tuple[str, Key]] = []

    async def play(world: World) -> None:
        serve(world, KAI)
        world.create([manifests.node("n1", gpus=1)])
        world.start()
        await asyncio.sleep(5)
        for name in ("alone", "theirs", "ours"):
            create_group(world, name)
        world.create([*members("theirs", scheduler="kai-scheduler"), *members("ours")])
        await asyncio.sleep(120)
        assert bound(world, "theirs") == 0

    in_world(WorldSettings(seed=1, replicas=2, checks=(recorder(calls),)), play)
    assert set(writes_to(calls, GROUPS)) == {"ours"}


def test_a_gang_starts_when_its_topology_appears() -> None:
    async def play(world: World) -> None:
        serve(world, KAI, KAI_TOPOLOGIES)
        world.create([manifests.node(f"n{rack}", labels={"net/rack": rack}, gpus=1) for rack in "ab"])
        world.create([manifests.node("nc", labels={"net/rack": "c"}, gpus=PODS)])
        create_group(
            world, "train", topologyConstraint={"topology": "net", "requiredTopologyLevel": "net/rack"}
        )
        world.create(members("train"))
        world.start()
        await asyncio.sleep(10)
        assert conditions(world, "train") == [("1", "TopologyNotFound")]
        create_topology(world, "net", "net/rack")
        await asyncio.sleep(10)
        nodes = {found(world, "pods", f"train-{number}")["spec"]["nodeName"] for number in range(PODS)}
        assert (nodes, conditions(world, "train")) == ({"nc"}, [])

    in_world(WorldSettings(seed=1, replicas=2), play)
