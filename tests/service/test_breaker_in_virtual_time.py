"""The breaker, from node faults to requests: scheduler, controllers and kubelets in virtual time."""

import asyncio

from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.controllers.node_lifecycle import SIM_NODE_GRACE_S
from phalanx_simulator.hosts.network import Effect, Rule
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.world import World, WorldSettings, in_world

NODES = 12
GRACE_S = 10
OLD_S = 200
"""Seconds until all nodes are ready."""


async def settled(world: World) -> set[str]:
    """Run a gang with a member on each node; return the UIDs of its pods."""
    world.create([manifests.node(f"n{number}", gpus=8) for number in range(NODES)])
    world.start()
    await asyncio.sleep(OLD_S)
    recovery = {"onNodeLoss": "Replace", "gracePeriod": f"{GRACE_S}s"}
    requests = {"nvidia.com/gpu": "8"}
    world.create([manifests.pod_group("train", min_member=NODES, recovery=recovery)])
    world.create([manifests.job("train", members=NODES, group="train", requests=requests, run_s=3600.0)])
    await asyncio.sleep(10)
    found = running_pods(world)
    assert len(found) == NODES
    return found


def running_pods(world: World) -> set[str]:
    """UIDs of pods that run and are not being deleted."""
    found = [world.client.get(key) for key in world.client.keys("pods")]
    return {
        pod["metadata"]["uid"]
        for pod in found
        if pod is not None and pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
    }


def lose(world: World, *numbers: int) -> None:
    """Stop the heartbeats of these nodes."""
    for number in numbers:
        world.controllers.kubelets.lose(f"n{number}")


def test_a_new_leader_does_not_treat_a_mass_fault_as_lost_nodes() -> None:
    async def play(world: World) -> None:
        before = await settled(world)
        lose(world, *range(7))
        await asyncio.sleep(SIM_NODE_GRACE_S - 5)
        leader = world.leader()
        assert leader is not None
        leader.kill()
        await asyncio.sleep(90)
        assert world.leader() not in (None, leader)
        assert running_pods(world) == before

    world = in_world(WorldSettings(seed=1, checks=ALL_CHECKS), play)
    assert world.violations.kept == []


def test_evictions_decided_before_the_breaker_opened_are_not_sent() -> None:
    async def play(world: World) -> None:
        before = await settled(world)
        rule = Rule(Effect.REFUSED, methods=("DELETE",), path_part="/pods/", status=503)
        for replica in world.replicas:
            assert replica.process is not None
            replica.process.network.rules.append(rule)
        lose(world, *range(5))
        await asyncio.sleep(GRACE_S + 2)
        lose(world, 5, 6)
        await asyncio.sleep(SIM_NODE_GRACE_S)
        assert announced(world) == 5
        await asyncio.sleep(4)
        rule.times = 0
        await asyncio.sleep(60)
        assert running_pods(world) == before

    world = in_world(WorldSettings(seed=1, replicas=1, checks=ALL_CHECKS), play)
    assert world.violations.kept == []


def announced(world: World) -> int:
    """How many pods have a DisruptionTarget condition."""
    found = [world.client.get(key) for key in world.client.keys("pods")]
    conditions = [(pod or {}).get("status", {}).get("conditions", []) for pod in found]
    return sum(any(one["type"] == "DisruptionTarget" for one in each) for each in conditions)
