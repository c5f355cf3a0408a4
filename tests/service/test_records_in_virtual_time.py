"""The leader is killed between record, bind and loss: all losses are repaired, and nothing else is.

A Queue that is held starts nothing, but lost members are replaced there. So it shows what the next leader
takes for a loss.
"""

import asyncio
from collections.abc import Callable

import pytest
from phalanx.framework.config import SchedulerConfig
from phalanx.model.names import LABEL_MIN_MEMBER
from phalanx.model.stored_records import read_records
from phalanx_simulator.campaigns.volcano import for_volcano
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.apiserver.kinds import NATIVE_POD_GROUPS, VOLCANO_POD_GROUPS
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.hosts.network import Exchange
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.world import World, WorldSettings, in_world

from tests.service.dialect_world import bound, recorder, writes_to
from tests.service.leaders import kill_the_leader_at

pytestmark = pytest.mark.usefixtures("quiet")

MEMBERS = 3
JOB = Key("jobs.batch", "default", "train")
QUEUE = Key("queues.scheduling.phalanx.dev", "", "default")
RECORDS = Key("configmaps", "kube-system", "phalanx-records")
SINGLE_PODS = 1000


def of_phalanx() -> list[Object]:
    group = manifests.pod_group("train", min_member=MEMBERS)
    return [group, manifests.job("train", members=MEMBERS, group="train")]


def of_job() -> list[Object]:
    return [manifests.job("train", members=MEMBERS)]


def of_label() -> list[Object]:
    job = manifests.job("train", members=MEMBERS)
    job["spec"]["template"]["metadata"]["labels"] = {LABEL_MIN_MEMBER: str(MEMBERS)}
    return [job]


def of_volcano() -> list[Object]:
    return list(for_volcano(tuple(of_phalanx())))


def of_kubernetes() -> list[Object]:
    group = {
        "apiVersion": NATIVE_POD_GROUPS.api_version,
        "kind": NATIVE_POD_GROUPS.kind,
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": MEMBERS}}},
    }
    return [group, manifests.job("train", members=MEMBERS, schedulingGroup={"podGroupName": "train"})]


KINDS = (of_phalanx, of_job, of_label, of_volcano, of_kubernetes)
Gang = Callable[[], list[Object]]


def is_record(exchange: Exchange) -> bool:
    """Whether the request stores a record with bound members."""
    place = exchange.path.endswith(("/podgroups/train/status", "/configmaps", "/phalanx-records"))
    body = exchange.body or b""
    return place and exchange.method != "GET" and (b'"bound":3' in body or b",3,0]" in body)


def is_bind(exchange: Exchange) -> bool:
    return exchange.path.endswith("/binding")


async def kill_and_hold_at(world: World, step: Callable[[Exchange], bool]) -> None:
    """Kill the leader at a request, and hold the queue then."""
    await kill_the_leader_at(world, step)
    hold(world, "Held")


def hold(world: World, state: str) -> None:
    if world.client.get(QUEUE) is None:
        world.create([manifests.queue("default")])
    world.client.update(QUEUE, lambda item: {**item, "spec": {**item["spec"], "state": state}})


def pod_names(world: World) -> list[str]:
    return [key.name for key in world.client.keys("pods") if key.name.startswith("train")]


def lose_one(world: World) -> None:
    key = Key("pods", "default", next(name for name in pod_names(world) if node_of(world, name)))
    world.client.delete(key, uid=(world.client.get(key) or {})["metadata"]["uid"], grace_s=0)


def node_of(world: World, name: str) -> str:
    found = world.client.get(Key("pods", "default", name)) or {}
    return str(found["spec"].get("nodeName") or "")


async def begin(world: World, gpus: int = 8) -> None:
    world.server.types.add(NATIVE_POD_GROUPS)
    world.server.types.add(VOLCANO_POD_GROUPS)
    world.create([manifests.node("n1", gpus=gpus)])
    world.start()
    await asyncio.sleep(30)


def play(part: Callable[[World], object]) -> None:
    """Evictions delete the pods, so that a leader can end between two of them."""

    async def whole(world: World) -> None:
        await begin(world)
        await part(world)  # type: ignore[misc]

    config = SchedulerConfig(suspend_evicted_workloads=False)
    world = in_world(WorldSettings(seed=1, replicas=2, checks=ALL_CHECKS, config=config), whole)
    assert world.violations.kept == []


@pytest.mark.parametrize("gang", KINDS)
def test_a_start_of_which_no_bind_was_sent_passes_all_gates_again(gang: Gang) -> None:
    async def part(world: World) -> None:
        world.create(gang())
        await kill_and_hold_at(world, is_record)
        assert bound(world, "train") == 0
        await asyncio.sleep(120)
        assert bound(world, "train") == 0, "nothing is repaired that was never bound"
        world.create([manifests.pod(f"other-{number}") for number in range(8)])
        hold(world, "Open")
        await asyncio.sleep(30)
        assert bound(world, "train") + bound(world, "other") == 8, "no capacity is held"
        assert bound(world, "train") in (0, MEMBERS)

    play(part)


@pytest.mark.parametrize("gang", KINDS)
def test_a_start_is_completed_by_the_next_leader(gang: Gang) -> None:
    async def part(world: World) -> None:
        world.create(gang())
        await kill_and_hold_at(world, is_bind)
        assert 0 < bound(world, "train") <= MEMBERS
        await asyncio.sleep(60)
        assert bound(world, "train") == MEMBERS

    play(part)


@pytest.mark.parametrize("gang", KINDS)
def test_a_loss_without_a_leader_is_repaired_by_the_next_one(gang: Gang) -> None:
    async def part(world: World) -> None:
        world.create(gang())
        await asyncio.sleep(30)
        leader = world.leader()
        assert leader is not None
        leader.kill()
        hold(world, "Held")
        lose_one(world)
        await asyncio.sleep(60)
        assert len(pod_names(world)) == MEMBERS
        assert bound(world, "train") == MEMBERS

    play(part)


@pytest.mark.parametrize("gang", KINDS)
def test_a_loss_is_repaired_once(gang: Gang) -> None:
    async def part(world: World) -> None:
        world.create(gang())
        await asyncio.sleep(30)
        killing = world.go(kill_and_hold_at(world, is_bind))
        await asyncio.sleep(0.1)
        lose_one(world)
        await killing
        await asyncio.sleep(60)
        assert bound(world, "train") == MEMBERS
        more = {"parallelism": MEMBERS + 1, "completions": MEMBERS + 1}
        world.client.update(JOB, lambda item: {**item, "spec": {**item["spec"], **more}})
        await asyncio.sleep(60)
        assert len(pod_names(world)) == MEMBERS + 1
        assert bound(world, "train") == MEMBERS, "the loss is used up"

    play(part)


def is_last_deletion(world: World) -> Callable[[Exchange], bool]:
    """Whether the request deletes the last member of the gang that is not being deleted yet."""

    def step(exchange: Exchange) -> bool:
        return (
            exchange.method == "DELETE"
            and "/pods/train" in exchange.path
            and not any(node_of(world, name) and not is_deleting(world, name) for name in pod_names(world))
        )

    return step


def is_deleting(world: World, name: str) -> bool:
    found = world.client.get(Key("pods", "default", name)) or {}
    return "deletionTimestamp" in found["metadata"]


@pytest.mark.parametrize("gang", KINDS)
def test_a_gang_that_was_evicted_has_lost_nothing(gang: Gang) -> None:
    """The pods of the evicted gang are gone when the next leader comes."""

    async def part(world: World) -> None:
        world.create(gang())
        await asyncio.sleep(30)
        assert bound(world, "train") == MEMBERS
        world.create([manifests.priority_class("urgent", 1000)])
        killing = world.go(kill_and_hold_at(world, is_last_deletion(world)))
        urgent = [manifests.pod(f"urgent-{number}", run_s=60.0) for number in range(8)]
        for each in urgent:
            each["spec"]["priorityClassName"] = "urgent"
        world.create(urgent)
        await killing
        await asyncio.sleep(120)
        assert len(pod_names(world)) == MEMBERS
        assert bound(world, "train") == 0, "nothing is repaired that was evicted for others"

    play(part)


@pytest.mark.parametrize("kills", [False, True])
def test_a_job_that_is_suspended_for_an_hour_keeps_its_age(*, kills: bool) -> None:
    async def part(world: World) -> None:
        world.create(of_job())
        await asyncio.sleep(30)
        before = age(world)
        suspend(world, True)
        for number in range(12):
            world.create([manifests.job(f"other-{number}", members=1, run_s=400.0)])
            leader = world.leader()
            if kills and number == 6 and leader is not None:
                leader.kill()
            await asyncio.sleep(300)
        assert pod_names(world) == []
        suspend(world, False)
        await asyncio.sleep(30)
        assert bound(world, "train") == MEMBERS
        assert age(world) == before

    play(part)


def suspend(world: World, is_so: bool) -> None:
    world.client.update(JOB, lambda item: {**item, "spec": {**item["spec"], "suspend": is_so}})


def age(world: World) -> int:
    """Since when the gang of the Job is in line."""
    (record,) = read_records((world.client.get(RECORDS) or {})["data"])["default"].values()
    return record.queued_since


@pytest.mark.slow
def test_single_pods_cost_no_write_of_records() -> None:
    calls: list[tuple[str, Key]] = []

    async def whole(world: World) -> None:
        world.create(manifests.node(f"n{number}") for number in range(SINGLE_PODS // 8))
        world.start()
        await asyncio.sleep(30)
        calls.clear()
        world.create(manifests.pod(f"p{number}") for number in range(SINGLE_PODS))
        await asyncio.sleep(120)
        assert bound(world, "p") == SINGLE_PODS

    in_world(WorldSettings(seed=1, replicas=1, checks=(recorder(calls),)), whole)
    assert writes_to(calls, "configmaps") == []
