"""What a waiting gang costs in writes, and what its people are informed."""

import asyncio
from collections import Counter

import pytest
from phalanx.service.waiting_events import POD_EVENTS_MAX
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.store import Key
from phalanx_simulator.hosts.network import Exchange
from phalanx_simulator.runs.world import World, WorldSettings, in_world

pytestmark = pytest.mark.usefixtures("quiet")

PODS = 100


class Writes:
    """Counts what is written to the cluster, without the Lease."""

    def __init__(self, world: World) -> None:
        self.by_kind: Counter[str] = Counter()
        world.observe(self._record)

    def _record(self, exchange: Exchange) -> None:
        is_new = exchange.landed_at is None and exchange.outcome is None
        if is_new and exchange.method in ("POST", "PATCH", "PUT") and "/leases" not in exchange.path:
            about = ("events", "podgroups", "pods", "queues")
            self.by_kind[next((kind for kind in about if f"/{kind}" in exchange.path), "other")] += 1


def events(world: World) -> list[tuple[str, str, str]]:
    """Kind and name of what they are about, and the reason that the note begins with."""
    found = [world.client.get(key) or {} for key in world.client.keys("events.events.k8s.io")]
    notes = [(each["regarding"], each["note"].partition(":")[0]) for each in found]
    return [(about["kind"], about["name"], reason) for about, reason in notes]


def conditions(world: World, pod: Key) -> list[dict[str, str]]:
    found: list[dict[str, str]] = (world.client.get(pod) or {})["status"]["conditions"]
    return found


def test_the_gang_is_informed_at_once_and_pods_if_the_reason_stays() -> None:
    """A controller creates the members in batches, and nobody is informed that some are missing."""

    async def play(world: World) -> None:
        world.create([manifests.node("n1", gpus=1)])
        world.start()
        await asyncio.sleep(5)
        writes = Writes(world)
        world.create([manifests.pod_group("large", min_member=PODS)])
        for first in range(0, PODS, 25):
            world.create([manifests.pod(f"large-{n}", group="large") for n in range(first, first + 25)])
            await asyncio.sleep(0.7)
        await asyncio.sleep(10)
        (event,) = events(world)
        assert event == ("PodGroup", "large", "AboveClusterCapacity")
        for key in world.client.keys("pods"):
            (found,) = conditions(world, key)
            assert found["reason"] in ("AboveClusterCapacity", "Unschedulable")
            assert found["message"].startswith("AboveClusterCapacity: ")
        await asyncio.sleep(600)
        kinds = Counter(kind for kind, _, _ in events(world))
        assert kinds == {"PodGroup": 1, "Pod": POD_EVENTS_MAX}
        assert writes.by_kind["events"] == 1 + POD_EVENTS_MAX
        reasons = {each["reason"] for key in world.client.keys("pods") for each in conditions(world, key)}
        assert reasons == {"Unschedulable"}
        assert writes.by_kind["pods"] == 2 * PODS, "at once, and when new nodes are asked for"

    in_world(WorldSettings(seed=1, replicas=1), play)


def test_a_pod_alone_is_informed_at_once() -> None:
    async def play(world: World) -> None:
        world.create([manifests.node("n1", gpus=1), manifests.pod("alone", requests={"nvidia.com/gpu": "2"})])
        world.start()
        await asyncio.sleep(10)
        assert events(world) == [("Pod", "alone", "AboveClusterCapacity")]
        await asyncio.sleep(60)
        assert events(world) == [("Pod", "alone", "AboveClusterCapacity")]

    in_world(WorldSettings(seed=1, replicas=1), play)
