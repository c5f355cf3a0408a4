"""The advice on many waiting gangs, which no cycle waits for."""

import asyncio

import pytest
from phalanx.model.reasons import CHANGE_FOR_ADVICE, WAIT_FOR_ADVICE
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.store import Object
from phalanx_simulator.runs.world import World, WorldSettings, in_world

pytestmark = pytest.mark.usefixtures("quiet")

WAITING = 60


def waiting(number: int) -> Object:
    """One of many different pods, of which half are too large for the node."""
    return manifests.pod(f"w{number}", requests={"cpu": f"{number + 1}", "nvidia.com/gpu": "1"})


def messages(world: World) -> list[str]:
    found = [world.client.get(key) for key in world.client.keys("pods")]
    pods = [pod for pod in found if pod is not None and not pod["spec"].get("nodeName")]
    return [str(pod["status"].get("conditions", [{}])[0].get("message")) for pod in pods]


def lacks_advice(message: str) -> bool:
    return message.endswith((WAIT_FOR_ADVICE, CHANGE_FOR_ADVICE)) or "NotTriedYet" in message


def test_each_of_many_gangs_gets_advice_soon() -> None:
    async def play(world: World) -> None:
        node = manifests.node("n1", gpus=1, cpu=str(WAITING // 2))
        world.create([node, manifests.pod("runs")])
        world.start()
        await asyncio.sleep(5)
        assert messages(world) == []
        world.create([waiting(number) for number in range(WAITING)])
        await asyncio.sleep(30)
        assert len(messages(world)) == WAITING
        assert not any(map(lacks_advice, messages(world)))

    in_world(WorldSettings(seed=1, replicas=1), play)
