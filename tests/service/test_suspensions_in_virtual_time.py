"""Evictions that suspend and resume workloads: no retry is spent, and the work comes back."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from phalanx.framework.config import SchedulerConfig
from phalanx.model.names import ANNOTATION_SUSPENSION, LABEL_MIN_MEMBER
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.hosts.network import Effect, Exchange, Rule
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.world import World, WorldSettings, in_world

from tests.service.dialect_world import found
from tests.service.test_workloads_in_virtual_time import (
    JOB_SETS,
    bound,
    create_job_set,
    create_jobs,
    delete,
    pods,
    settle,
    suspended,
)

pytestmark = pytest.mark.usefixtures("quiet")

JOBS = "jobs.batch"
TRAIN = Key(JOBS, "default", "train")
SUSPENSIONS = Key("configmaps", "kube-system", "phalanx-suspensions")
SETTINGS = WorldSettings(seed=1, replicas=1, checks=ALL_CHECKS)
TWO = WorldSettings(seed=1, replicas=2, checks=ALL_CHECKS)
DELETING = WorldSettings(
    seed=1, replicas=1, checks=ALL_CHECKS, config=SchedulerConfig(suspend_evicted_workloads=False)
)


def fragile_job(name: str = "train", *, members: int = 4, **options: Any) -> Object:
    """One failure more than its limit ends it."""
    made = manifests.job(name, members=members, **options)
    made["spec"]["backoffLimit"] = 2
    return made


def evictor(*, gpus: int = 4, run_s: int = 60) -> Object:
    made = manifests.job("urgent", members=1, run_s=run_s, requests={"nvidia.com/gpu": str(gpus)})
    made["spec"]["template"]["spec"]["priorityClassName"] = "urgent"
    return made


def of_job() -> list[Object]:
    return [fragile_job(run_s=300)]


def of_label() -> list[Object]:
    made = fragile_job(run_s=300)
    made["spec"]["template"]["metadata"]["labels"] = {LABEL_MIN_MEMBER: "4"}
    return [made]


def of_group() -> list[Object]:
    return [manifests.pod_group("train", min_member=4), fragile_job(run_s=300, group="train")]


def events(world: World) -> list[str]:
    all_events = [world.client.get(key) or {} for key in world.client.keys("events.events.k8s.io")]
    return [
        f"{event['regarding']['kind']} {event['regarding']['name']}: {event['note']}"
        for event in all_events
        if event["action"] in ("Suspending", "Resuming")
    ]


def play(program: Callable[[World], Awaitable[None]], settings: WorldSettings = SETTINGS) -> None:
    world = in_world(settings, program)
    assert world.violations.kept == []


async def running_job(world: World, *made: Object) -> None:
    """The Job runs on all 4 GPUs."""
    world.create([manifests.node("n1", gpus=4), manifests.priority_class("urgent", 1000)])
    world.start()
    world.create(made or [fragile_job(run_s=300)])
    await settle()
    assert bound(world, "train") == 4


async def evicted(world: World, *made: Object) -> None:
    """A pod of higher priority takes the GPUs for a minute."""
    await running_job(world, *made)
    world.create([evictor()])
    await asyncio.sleep(40)


def test_a_job_whose_pods_are_deleted_fails() -> None:
    """What the suspension is for: four failures are more than the limit of two."""

    async def program(world: World) -> None:
        await evicted(world)
        conditions = found(world, JOBS, "train")["status"]["conditions"]
        assert [each["reason"] for each in conditions if each["type"] == "Failed"] == ["BackoffLimitExceeded"]

    play(program, DELETING)


@pytest.mark.parametrize("made", [of_job, of_label, of_group])
def test_an_evicted_job_comes_back_and_has_spent_no_retry(made: Callable[[], list[Object]]) -> None:
    async def program(world: World) -> None:
        await evicted(world, *made())
        assert bound(world, "urgent") == 1
        assert len(pods(world, "train")) == 4
        await ends_well(world)
        why = "evicted so that default/urgent of queue default can start: its priority 1000 is above 0 of"
        assert events(world) == [
            f"Job train: Suspended: {why} default/train. It is resumed when its pods end",
            "Job train: Resumed after its pods were evicted",
        ]

    play(program)


async def ends_well(world: World) -> None:
    await asyncio.sleep(700)
    job = found(world, JOBS, "train")
    assert (job["status"]["succeeded"], job["status"]["failed"]) == (4, 0)
    assert job["spec"]["suspend"] is False
    assert ANNOTATION_SUSPENSION not in job["metadata"].get("annotations", {})
    assert not (world.client.get(SUSPENSIONS) or {}).get("data")


def test_it_comes_back_ten_times() -> None:
    async def program(world: World) -> None:
        await evicted(world)
        for round_ in range(10):
            await asyncio.sleep(100)
            assert bound(world, "train") == 4
            delete(world, JOBS, "urgent")
            await asyncio.sleep(10)
            world.create([evictor()])
            await asyncio.sleep(20)
            assert bound(world, "train") == 0, round_
        await ends_well(world)

    play(program)


# --- faults -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/jobs/train", "/configmaps"])
@pytest.mark.parametrize(
    "rule",
    [
        {"effect": Effect.REFUSED, "status": 409, "times": 1},
        {"effect": Effect.REFUSED, "status": 503, "times": 2},
        {"effect": Effect.LOST, "times": 1},
        {"effect": Effect.APPLIED_BUT_LOST, "times": 1},
        {"effect": Effect.APPLIED_BUT_REFUSED, "status": 500, "times": 1},
    ],
    ids=["conflict", "unavailable", "lost", "answer lost", "answer refused"],
)
def test_a_write_that_fails_is_repeated(rule: dict[str, Any], path: str) -> None:
    async def program(world: World) -> None:
        await running_job(world)
        leader = world.leader()
        assert leader is not None
        assert leader.process is not None
        network = leader.process.network
        network.rules.append(Rule(**rule, methods=("PATCH", "POST"), path_part=path))
        world.create([evictor()])
        await ends_well(world)

    play(program)


def is_stored(exchange: Exchange) -> bool:
    return "configmaps" in exchange.path and b'"phalanx-suspensions"' in (exchange.body or b"")


def is_suspended(exchange: Exchange) -> bool:
    return exchange.path.endswith("/jobs/train") and b'"suspend":true' in (exchange.body or b"")


def is_resumed(exchange: Exchange) -> bool:
    return exchange.path.endswith("/jobs/train") and b'"suspend":false' in (exchange.body or b"")


@pytest.mark.parametrize("step", [is_stored, is_suspended, is_resumed])
def test_the_next_leader_completes_it(step: Callable[[Exchange], bool]) -> None:
    async def program(world: World) -> None:
        await running_job(world)
        killed = asyncio.Event()
        leader = world.leader()
        assert leader is not None

        def observe(exchange: Exchange) -> None:
            if exchange.landed_at is not None and not killed.is_set() and step(exchange):
                killed.set()
                leader.kill()

        world.observe(observe)
        world.create([evictor()])
        async with asyncio.timeout(120):
            await killed.wait()
        await asyncio.sleep(120)
        await ends_well(world)

    play(program, TWO)


def test_pods_are_deleted_if_the_controller_does_nothing() -> None:
    """Nobody reconciles the JobSet. It is resumed nevertheless."""

    async def program(world: World) -> None:
        world.server.types.add(JOB_SETS)
        world.create([manifests.node("n1", gpus=4), manifests.priority_class("urgent", 1000)])
        world.start()
        owner = create_job_set(world, "train", {"worker": (1, 4)})
        create_jobs(world, owner, {"worker": (1, 4)})
        await settle()
        assert bound(world, "train") == 4
        world.create([evictor()])
        await asyncio.sleep(5)
        assert bound(world, "train") == 4
        assert found(world, JOB_SETS.resource, "train")["spec"]["suspend"] is True
        await asyncio.sleep(25)
        assert (bound(world, "train"), bound(world, "urgent")) == (0, 1)
        assert found(world, JOB_SETS.resource, "train")["spec"]["suspend"] is False

    in_world(WorldSettings(seed=1, replicas=1), program)


# --- workloads about which somebody else decides ------------------------------------------------------------


def test_a_workload_that_its_user_suspended_stays_so() -> None:
    async def program(world: World) -> None:
        await running_job(world)
        world.client.update(TRAIN, suspended(True))
        await asyncio.sleep(5)
        world.create([evictor()])
        await asyncio.sleep(120)
        assert found(world, JOBS, "train")["spec"]["suspend"] is True
        assert events(world) == []

    play(program)


def test_a_workload_of_kueue_is_not_suspended() -> None:
    async def program(world: World) -> None:
        made = fragile_job(run_s=300)
        made["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
        await evicted(world, made)
        assert bound(world, "urgent") == 1
        assert found(world, JOBS, "train")["spec"].get("suspend") is not True
        assert events(world) == []

    play(program)


def test_surplus_pods_are_deleted() -> None:
    """The other pods of the Job stay."""

    async def program(world: World) -> None:
        made = fragile_job(run_s=300)
        made["spec"]["template"]["metadata"]["labels"] = {LABEL_MIN_MEMBER: "2"}
        world.create([manifests.node("n1", gpus=4), manifests.priority_class("urgent", 1000)])
        world.start()
        world.create([made])
        await settle()
        world.create([evictor(gpus=2)])
        await asyncio.sleep(30)
        assert (bound(world, "train"), bound(world, "urgent")) == (2, 1)
        assert events(world) == []

    play(program)
