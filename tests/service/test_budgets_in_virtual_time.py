"""A PodDisruptionBudget from the API to the decision: the complete scheduler in virtual time."""

import asyncio

from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.world import World, WorldSettings, in_world

BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "serve", "namespace": "default"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "serve"}}},
}


HARD = SchedulerConfig(plugins=(PluginConfig("disruption-budgets", arguments={"enforcement": "hard"}),))


def test_a_hard_budget_of_one_eviction_protects_the_second_pod_until_it_is_deleted() -> None:
    async def play(world: World) -> None:
        world.create([manifests.node("n1", gpus=8), manifests.priority_class("urgent", 1000), BUDGET])
        world.start()
        await asyncio.sleep(5)
        for index in range(2):
            pod = manifests.pod(f"serve-{index}", requests={"nvidia.com/gpu": "4"})
            pod["metadata"].setdefault("labels", {})["app"] = "serve"
            world.create([pod])
        await asyncio.sleep(60)
        for index in range(2):
            urgent = manifests.pod(f"urgent-{index}", requests={"nvidia.com/gpu": "4"})
            urgent["spec"]["priorityClassName"] = "urgent"
            world.create([urgent])
        await asyncio.sleep(300)
        assert len(on_nodes(world, "serve")) == len(on_nodes(world, "urgent")) == 1
        key = Key("poddisruptionbudgets.policy", "default", "serve")
        budget = world.client.get(key)
        assert budget is not None
        world.client.delete(key, uid=budget["metadata"]["uid"])
        await asyncio.sleep(120)
        assert len(on_nodes(world, "urgent")) == 2

    world = in_world(WorldSettings(seed=1, replicas=1, checks=ALL_CHECKS, config=HARD), play)
    assert world.violations.kept == []


def on_nodes(world: World, app: str) -> list[Object]:
    found = [world.client.get(key) for key in world.client.keys("pods") if key.name.startswith(app)]
    return [pod for pod in found if pod is not None and pod["spec"].get("nodeName")]
