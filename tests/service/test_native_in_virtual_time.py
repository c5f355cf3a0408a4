"""Native PodGroups: off while they are not served, and their condition over the life of a gang."""

import asyncio

import pytest
from phalanx.kube.reflector import OPTIONAL_KIND_RETRY_S
from phalanx.model.names import LABEL_POD_GROUP
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.apiserver.kinds import NATIVE_POD_GROUPS
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.runs.world import World, WorldSettings, in_world

pytestmark = pytest.mark.usefixtures("quiet")

PODS = 2


def group(name: str) -> Object:
    spec = {"schedulingPolicy": {"gang": {"minCount": PODS}}}
    meta = {"name": name, "namespace": "default"}
    return {
        "apiVersion": NATIVE_POD_GROUPS.api_version,
        "kind": NATIVE_POD_GROUPS.kind,
        "metadata": meta,
        "spec": spec,
    }


def members(name: str, **labels: str) -> list[Object]:
    pods = [manifests.pod(f"{name}-{i}", schedulingGroup={"podGroupName": name}) for i in range(PODS)]
    for pod in pods:
        pod["metadata"].setdefault("labels", {}).update(labels)
    return pods


def create_group(world: World, name: str, **spec: Object) -> None:
    written = group(name)
    written["spec"].update(spec)
    world.client.create(NATIVE_POD_GROUPS.resource, "default", written)


def group_key(name: str) -> Key:
    return Key(NATIVE_POD_GROUPS.resource, "default", name)


def condition(world: World, name: str) -> tuple[str, str]:
    found = world.client.get(group_key(name)) or {}
    (known,) = found["status"]["conditions"]
    assert known["type"] == "PodGroupInitiallyScheduled"
    return known["status"], known["reason"]


def message(world: World, pod: str) -> str:
    found = world.client.get(Key("pods", "default", pod)) or {}
    return str(found["status"]["conditions"][0].get("message", ""))


def bound(world: World, name: str) -> int:
    pods = [world.client.get(key) or {} for key in world.client.keys("pods") if key.name.startswith(name)]
    return sum(bool(pod["spec"].get("nodeName")) for pod in pods)


def test_they_count_from_the_time_when_they_are_served() -> None:
    async def play(world: World) -> None:
        world.create([manifests.node("n1", gpus=8)])
        world.start()
        await asyncio.sleep(5)
        world.create(members("train"))
        await asyncio.sleep(5)
        assert message(world, "train-0").startswith("PodGroupNotFound")
        world.server.types.add(NATIVE_POD_GROUPS)
        create_group(world, "train")
        await asyncio.sleep(OPTIONAL_KIND_RETRY_S + 5)
        assert bound(world, "train") == PODS
        assert condition(world, "train") == ("True", "Scheduled")

    in_world(WorldSettings(seed=1, replicas=1), play)


def test_the_condition_stays_true_when_the_gang_has_lost_its_pods() -> None:
    async def play(world: World) -> None:
        world.server.types.add(NATIVE_POD_GROUPS)
        world.create([manifests.node("n1", gpus=2)])
        create_group(world, "first")
        create_group(world, "second")
        world.create([*members("first"), *members("second")])
        world.start()
        await asyncio.sleep(10)
        assert (bound(world, "first"), bound(world, "second")) == (PODS, 0)
        assert condition(world, "first") == ("True", "Scheduled")
        assert condition(world, "second") == ("False", "Unschedulable")
        for number in range(PODS):
            key = Key("pods", "default", f"first-{number}")
            found = world.client.get(key) or {}
            world.client.delete(key, uid=found["metadata"]["uid"])
        await asyncio.sleep(60)
        assert condition(world, "second") == ("True", "Scheduled")
        world.create(members("first"))
        await asyncio.sleep(10)
        assert bound(world, "first") == 0
        assert condition(world, "first") == ("True", "Scheduled")

    in_world(WorldSettings(seed=1, replicas=1), play)


def test_pods_of_a_basic_policy_start_in_their_own_turn() -> None:
    async def play(world: World) -> None:
        world.server.types.add(NATIVE_POD_GROUPS)
        world.create([manifests.node("n1", gpus=1)])
        create_group(world, "plain", schedulingPolicy={"basic": {}})
        world.start()
        await asyncio.sleep(5)
        assert "conditions" not in (world.client.get(group_key("plain")) or {}).get("status", {})
        world.create(members("plain"))
        await asyncio.sleep(10)
        assert bound(world, "plain") == 1
        assert message(world, "plain-1").startswith("InsufficientCapacity")
        assert condition(world, "plain") == ("True", "Scheduled")

    in_world(WorldSettings(seed=1, replicas=1), play)


def test_a_gang_of_phalanx_whose_pods_have_a_basic_policy_as_well() -> None:
    async def play(world: World) -> None:
        world.server.types.add(NATIVE_POD_GROUPS)
        world.create([manifests.node("n1", gpus=1), manifests.pod_group("ours", min_member=PODS)])
        create_group(world, "both", schedulingPolicy={"basic": {}})
        world.create(members("both", **{LABEL_POD_GROUP: "ours"}))
        world.start()
        await asyncio.sleep(10)
        assert bound(world, "both") == 0
        world.create([manifests.node("n2", gpus=1)])
        await asyncio.sleep(10)
        assert bound(world, "both") == PODS
        assert "conditions" not in (world.client.get(group_key("both")) or {}).get("status", {})

    in_world(WorldSettings(seed=1, replicas=1), play)
