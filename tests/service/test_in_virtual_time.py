"""Behaviour over time: the complete scheduler in virtual time."""

import asyncio
from typing import Any

from phalanx.framework.config import SchedulerConfig
from phalanx.framework.retry import RetryConfig
from phalanx.limits import PARTIAL_GANG_GRACE_MS
from phalanx.model.names import API_GROUP, LABEL_POD_GROUP
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.kubelets.kubelet import STOP_SECONDS
from phalanx_simulator.embedded.store import Change, Key, Object
from phalanx_simulator.faults.moments import is_bind
from phalanx_simulator.hosts.network import Effect, Rule
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.world import World, WorldSettings, in_world

HOUR_MS = 3_600_000


def gang(size: int) -> list[Object]:
    """A PodGroup and a Job of one-core pods. A test can forbid the bind of the third."""
    requests = {"cpu": "1"}
    container = {"name": "main", "image": "fake", "resources": {"requests": requests, "limits": requests}}
    template = {
        "metadata": {"labels": {LABEL_POD_GROUP: "train"}},
        "spec": {"schedulerName": "phalanx", "restartPolicy": "Never", "containers": [container]},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"parallelism": size, "completions": size, "completionMode": "Indexed", "template": template},
    }
    return [manifests.pod_group("train", min_member=size), job]


def pods(world: World) -> list[Object]:
    found = [world.client.get(key) for key in world.client.keys("pods")]
    return [pod for pod in found if pod is not None and "deletionTimestamp" not in pod["metadata"]]


def bound(world: World) -> list[Object]:
    return [pod for pod in pods(world) if pod["spec"].get("nodeName")]


def refuse(world: World, path_part: str, **fields: Any) -> Rule:
    """Forbid binds until the rule is used up."""
    rule = Rule(Effect.REFUSED, methods=("POST",), path_part=path_part, status=403, **fields)
    for replica in world.replicas:
        assert replica.process is not None
        replica.process.network.rules.append(rule)
    return rule


async def settled(world: World) -> None:
    world.create([manifests.node("n1", gpus=8)])
    world.start()
    await asyncio.sleep(5)


def test_a_gang_that_stays_incomplete_is_released_completely() -> None:
    reasons: list[str] = []

    async def play(world: World) -> None:
        await settled(world)
        refuse(world, "train-2")
        world.server.store.subscribe("pods", lambda change: note(change.entry.data))
        world.create(gang(3))
        await asyncio.sleep(1)
        first = {pod["metadata"]["uid"] for pod in bound(world)}
        assert len(first) == 2
        await asyncio.sleep(PARTIAL_GANG_GRACE_MS / 1000 + 5)
        assert first.isdisjoint(pod["metadata"]["uid"] for pod in pods(world))

    def note(pod: Object) -> None:
        conditions = pod.get("status", {}).get("conditions", [])
        reasons.extend(each["reason"] for each in conditions if each["type"] == "DisruptionTarget")

    in_world(WorldSettings(seed=1, replicas=1), play)
    assert set(reasons) == {"GangIncomplete"}


def test_a_gang_that_loses_members_while_it_starts_is_released_although_nothing_else_happens() -> None:
    """Found by a run in which deleted pods stayed long. The scheduler sees binds and deletions together."""

    async def play(world: World) -> None:
        def delete_half(change: Change) -> None:
            key, uid = change.entry.key, change.entry.data["metadata"]["uid"]
            if is_bind(change) and key.name.startswith(("train-0", "train-1")):
                asyncio.get_running_loop().call_soon(lambda: world.client.delete(key, uid=uid))

        await settled(world)
        assert world.replicas[0].process is not None
        world.replicas[0].process.network.delay_watches(1, "/pods")
        world.server.store.subscribe("pods", delete_half)
        group, job = gang(4)
        job["spec"]["podReplacementPolicy"] = "Failed"
        job["spec"]["template"]["metadata"]["annotations"] = {STOP_SECONDS: "25"}
        world.create([group, job])
        await asyncio.sleep(4)
        assert len(bound(world)) == 2
        await asyncio.sleep(PARTIAL_GANG_GRACE_MS / 1000 + 3)
        assert pods(world) == []

    config = SchedulerConfig(suspend_evicted_workloads=False)  # else its pods are created again at once
    in_world(WorldSettings(seed=1, replicas=1, config=config), play)


def test_a_wall_clock_that_is_set_back_delays_no_gang() -> None:
    """Found by a run in which a nomination lasted for an hour."""

    async def play(world: World) -> None:
        await settled(world)
        rule = refuse(world, "/binding")
        world.create(gang(3))
        await asyncio.sleep(60)
        assert bound(world) == []
        world.replicas[0].clock.jump(-HOUR_MS)
        rule.times = 0
        await asyncio.sleep(2 * RetryConfig().bind_backoff_max_seconds)
        assert len(bound(world)) == 3

    world = in_world(WorldSettings(seed=1, replicas=1, checks=ALL_CHECKS), play)
    assert world.violations.kept == []


def test_a_wall_clock_that_is_set_forward_releases_no_gang_early() -> None:
    async def play(world: World) -> None:
        await settled(world)
        refuse(world, "train-2")
        world.create(gang(3))
        await asyncio.sleep(1)
        before = {pod["metadata"]["uid"] for pod in bound(world)}
        world.replicas[0].clock.jump(HOUR_MS)
        await asyncio.sleep(PARTIAL_GANG_GRACE_MS / 1000 / 2)
        assert {pod["metadata"]["uid"] for pod in bound(world)} == before != set()

    in_world(WorldSettings(seed=1, replicas=1), play)


def test_no_gpu_is_overcommitted_while_gpu_shares_start_and_end() -> None:
    """Checked after each write: S2 per GPU, S6 for the queue's usage, and the counts of the cache."""
    labels = {
        f"{API_GROUP}/gpu-sharing": "true",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.memory": "40960",
    }
    seen: dict[str, dict[str, str]] = {}

    async def play(world: World) -> None:
        world.create([manifests.node("n1", gpus=0, labels=labels), manifests.node("n2", gpus=8)])
        world.start()
        world.server.store.subscribe("pods", lambda change: note(change.entry.data))
        await asyncio.sleep(5)
        limit = {f"{API_GROUP}/gpu-share": "1500"}
        world.create(
            [manifests.queue("default", limit=limit), share("foreign", "memory", "1Gi", nodeName="n1")]
        )
        for number in range(8):
            world.create([share(f"a{number}", "share", "500", run_s=60.0)])
            world.create([share(f"b{number}", "share", "300", run_s=45.0)])
            world.create([share(f"c{number}", "memory", "10Gi", run_s=30.0)])
            await asyncio.sleep(7)
        world.client.delete(Key("pods", "default", "foreign"), uid=uid_of(world, "foreign"), grace_s=0)
        await asyncio.sleep(1200)
        assert {pod["status"]["phase"] for pod in pods(world)} == {"Succeeded"}

    def note(pod: Object) -> None:
        if pod["spec"].get("nodeName") == "n1":
            seen[pod["metadata"]["name"]] = pod["metadata"]["annotations"]

    world = in_world(WorldSettings(seed=1, replicas=1, checks=ALL_CHECKS), play)
    assert world.violations.kept == []
    assert {each.get(f"{API_GROUP}/gpu-index") for name, each in seen.items() if name != "foreign"} == {
        "0",
        "1",
    }
    assert seen["c0"][f"{API_GROUP}/gpu-taken"] == "250"
    assert len(seen) == 25


def share(name: str, form: str, amount: str, **fields: Any) -> Object:
    made = manifests.pod(name, requests={"cpu": "1"}, **fields)
    annotations = made["metadata"].setdefault("annotations", {})
    annotations[f"{API_GROUP}/gpu-{form}"] = amount
    return made


def uid_of(world: World, name: str) -> str:
    found = world.client.get(Key("pods", "default", name))
    assert found is not None
    return str(found["metadata"]["uid"])


def test_a_condition_that_could_not_be_written_is_written_later() -> None:
    async def run(world: World) -> None:
        await settled(world)
        rule = refuse(world, "/pods/")
        rule.methods = ("PATCH",)
        world.create([manifests.pod("a", requests={"cpu": "9999"})])
        await asyncio.sleep(30)
        assert rule.met
        rule.times = 0
        await asyncio.sleep(90)
        [pod] = pods(world)
        [condition] = pod["status"]["conditions"]
        assert condition["message"].startswith("AboveClusterCapacity: ")

    in_world(WorldSettings(seed=1), run)
