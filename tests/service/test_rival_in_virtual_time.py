"""Another scheduler uses the same nodes, pod by pod, based on a delayed view of the cluster."""

import asyncio
from typing import Final

import pytest
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.controllers.pod_by_pod_scheduler import SCHEDULER_NAME, PodByPodScheduler
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.world import World, WorldSettings, in_world

NODES: Final = 4
GANGS: Final = 4
MEMBERS: Final = 8
RIVALS: Final = 40
LAG_S: Final = 4.0
PER_SECOND: Final = 2.0
RUN_S: Final = 40.0
LONG_ENOUGH_S: Final = 900


@pytest.mark.parametrize("seed", range(4))
def test_gangs_start_completely_beside_a_rival_scheduler(seed: int) -> None:
    rejected = set[str]()

    async def play(world: World) -> None:
        world.create(manifests.node(f"n{number}", gpus=8) for number in range(NODES))
        world.start()
        rival = PodByPodScheduler(
            Client(world.server), seed=seed, rate=PER_SECOND, view_delay_s=LAG_S, strategy="MostAllocated"
        )
        world.client.subscribe("pods", lambda change: rejected.update(rejection(change.entry.data)))
        await asyncio.sleep(5)
        world.create(
            manifests.pod(f"rival-{number}", scheduler=SCHEDULER_NAME, run_s=RUN_S)
            for number in range(RIVALS)
        )
        for number in range(GANGS):
            await asyncio.sleep(LAG_S / 2)
            name = f"gang-{number}"
            world.create([manifests.pod_group(name, min_member=MEMBERS)])
            world.create([manifests.job(name, members=MEMBERS, group=name, run_s=RUN_S)])
        await asyncio.sleep(LONG_ENOUGH_S)
        assert [succeeded(world, f"gang-{number}") for number in range(GANGS)] == [MEMBERS] * GANGS
        assert ended(world, "rival-") == RIVALS
        world.at_rest()
        rival.close()

    world = in_world(WorldSettings(seed=seed, checks=ALL_CHECKS, single_writer=False), play)
    assert world.violations.kept == []
    assert rejected, "the two schedulers never chose the same GPU"


def rejection(pod: manifests.Manifest) -> list[str]:
    """The pod's UID, if its kubelet rejected it for lack of a free GPU."""
    is_refused = pod.get("status", {}).get("reason") == "UnexpectedAdmissionError"
    return [pod["metadata"]["uid"]] if is_refused else []


def ended(world: World, prefix: str) -> int:
    """How many pods with this name prefix have ended, successfully or not."""
    found = [world.client.get(key) for key in world.client.keys("pods") if key.name.startswith(prefix)]
    return sum((each or {}).get("status", {}).get("phase") in ("Succeeded", "Failed") for each in found)


def succeeded(world: World, job: str) -> int:
    """How many pods of the Job have succeeded."""
    found = [world.client.get(key) for key in world.client.keys("jobs.batch") if key.name == job]
    return sum((each or {}).get("status", {}).get("succeeded", 0) for each in found)
