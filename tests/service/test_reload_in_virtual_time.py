"""A configuration file that changes while the complete scheduler runs, in virtual time."""

import asyncio
from typing import Any

from phalanx.cli.configuration import parse_checked
from phalanx.service.config_reload import ConfigFile
from phalanx.service.limits import CONFIG_POLL_S
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.store import Object
from phalanx_simulator.runs.world import World, WorldSettings, in_world

WITHOUT_TAINTS = "plugins: [{name: taints, enabled: false}]"


class File:
    """The content of a mounted ConfigMap."""

    def __init__(self) -> None:
        self.text = ""

    def read(self) -> bytes:
        return self.text.encode()


def nodes_of_pods(world: World) -> set[str]:
    found = [world.client.get(key) for key in world.client.keys("pods")]
    return {pod["spec"]["nodeName"] for pod in found if pod is not None and pod["spec"].get("nodeName")}


def events(world: World) -> list[Object]:
    """The events about the Lease, in their order."""
    found = [world.client.get(key) for key in world.client.keys("events.events.k8s.io")]
    about = [event for event in found if event is not None and event["regarding"]["kind"] == "Lease"]
    return sorted(about, key=lambda event: str(event["eventTime"]))


def play_with(file: File, play: Any) -> None:
    config_file = ConfigFile(read=file.read, parse=parse_checked)
    in_world(WorldSettings(seed=1, replicas=2, config_file=config_file), play)


def test_good_and_bad_changes_of_the_file() -> None:
    file = File()

    async def play(world: World) -> None:
        node = manifests.node("n1", gpus=8)
        node["spec"] = {"taints": [{"key": "maintenance", "effect": "NoSchedule"}]}
        world.create([node])
        world.start()
        world.create([manifests.pod("p1")])
        await asyncio.sleep(3 * CONFIG_POLL_S)
        assert nodes_of_pods(world) == set()
        assert events(world) == []

        file.text = "plugins: [{name: taint, enabled: false}]"
        await asyncio.sleep(2 * CONFIG_POLL_S)
        assert nodes_of_pods(world) == set()
        assert [event["reason"] for event in events(world)] == ["ConfigRefused"]
        assert "there is no plugin taint" in events(world)[0]["note"]
        leader = world.leader()
        assert leader is not None
        assert leader.process is not None
        assert leader.process.scheduler.liveness_error() is None
        assert leader.process.scheduler.readiness_error() is None

        file.text = f"schedulerName: other\n{WITHOUT_TAINTS}"
        await asyncio.sleep(2 * CONFIG_POLL_S)
        assert nodes_of_pods(world) == set()
        assert "schedulerName changed, for which the scheduler must be restarted" in events(world)[1]["note"]

        file.text = WITHOUT_TAINTS
        await asyncio.sleep(2 * CONFIG_POLL_S)
        assert nodes_of_pods(world) == {"n1"}
        assert [event["reason"] for event in events(world)][2:] == ["ConfigReloaded"]
        assert events(world)[2]["regarding"]["uid"]

    play_with(file, play)


def test_a_replica_that_leads_later_has_the_changed_configuration() -> None:
    file = File()

    async def play(world: World) -> None:
        world.start()
        await asyncio.sleep(2 * CONFIG_POLL_S)
        file.text = WITHOUT_TAINTS
        await asyncio.sleep(2 * CONFIG_POLL_S)
        leader = world.leader()
        assert leader is not None
        leader.kill()
        node = manifests.node("n1", gpus=8)
        node["spec"] = {"taints": [{"key": "maintenance", "effect": "NoSchedule"}]}
        world.create([node, manifests.pod("p1")])
        await asyncio.sleep(60)
        assert nodes_of_pods(world) == {"n1"}

    play_with(file, play)
