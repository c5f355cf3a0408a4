"""Partial admission over the life of a Job, with a Job controller, and under faults."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from phalanx.model.names import ANNOTATION_FULL_PARALLELISM, ANNOTATION_MIN_PARALLELISM
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.hosts.network import Effect, Exchange, Rule
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.world import World, WorldSettings, in_world

from tests.service.dialect_world import found
from tests.service.test_workloads_in_virtual_time import delete, pods, settle, suspended

pytestmark = pytest.mark.usefixtures("quiet")

JOBS = "jobs.batch"
TRAIN = Key(JOBS, "default", "train")
SETTINGS = WorldSettings(seed=1, replicas=1, checks=ALL_CHECKS)


def smaller_job(minimum: int, *, members: int, **options: Any) -> Object:
    made = manifests.job("train", members=members, **options)
    made["metadata"]["annotations"] = {ANNOTATION_MIN_PARALLELISM: str(minimum)}
    return made


def size(world: World) -> tuple[int, str, int, int]:
    """Parallelism, the annotation, pods, and pods with nodes."""
    job = found(world, JOBS, "train")
    full = job["metadata"]["annotations"].get(ANNOTATION_FULL_PARALLELISM, "")
    there = [pod for pod in pods(world, "train") if pod["status"].get("phase") != "Succeeded"]
    placed = sum(bool(pod["spec"].get("nodeName")) for pod in there)
    return job["spec"]["parallelism"], full, len(there), placed


def writes(exchanges: list[Exchange]) -> list[Object]:
    """What the scheduler has sent to the Job."""
    once = {id(each): each for each in exchanges if each.method == "PATCH"}.values()
    return [json.loads(each.body)["spec"] for each in once if each.path.endswith("/jobs/train")]


def resizings(world: World) -> list[str]:
    events = [world.client.get(key) or {} for key in world.client.keys("events.events.k8s.io")]
    return [
        f"{event['reason']} {event['regarding']['kind']} {event['regarding']['name']}: {event['note']}"
        for event in events
        if event["action"] == "Resizing"
    ]


def play(program: Callable[[World], Awaitable[None]], settings: WorldSettings = SETTINGS) -> None:
    world = in_world(settings, program)
    assert world.violations.kept == []


def test_a_job_starts_with_the_pods_that_fit_and_the_others_do_not_wait() -> None:
    async def program(world: World) -> None:
        exchanges: list[Exchange] = []
        world.observe(exchanges.append)
        world.create([manifests.node("n1", gpus=4), manifests.pod("filler")])
        world.start()
        world.create([smaller_job(2, members=6, run_s=60)])
        await settle()
        assert writes(exchanges) == [{"parallelism": 3}]
        assert size(world) == (3, "6", 3, 3)
        assert resizings(world) == [
            "PartiallyAdmitted Job train: Started with 3 of 6 pods: there is no capacity for the others"
        ]
        delete(world, "pods", "filler")
        await settle()
        assert size(world) == (3, "6", 3, 3)
        await asyncio.sleep(200)
        assert found(world, JOBS, "train")["status"]["succeeded"] == 6
        assert size(world)[:2] == (3, "6")

    play(program)


def test_with_the_label_instead_the_other_pods_wait_and_start_later() -> None:
    """What partial admission adds: the pods that do not start are gone."""

    async def program(world: World) -> None:
        world.create([manifests.node("n1", gpus=4), manifests.pod("filler")])
        world.start()
        made = manifests.job("train", members=6)
        made["spec"]["template"]["metadata"]["labels"]["scheduling.phalanx.dev/min-member"] = "2"
        made["metadata"]["annotations"] = {}
        world.create([made])
        await settle()
        assert size(world) == (6, "", 6, 3)
        delete(world, "pods", "filler")
        await settle()
        assert size(world) == (6, "", 6, 4)

    play(program)


@pytest.mark.parametrize(("gpus", "expected"), [(1, (4, "", 4, 0)), (4, (4, "", 4, 4))])
def test_a_job_keeps_its_size_if_less_than_the_minimum_fits_or_all(
    gpus: int, expected: tuple[int, str, int, int]
) -> None:
    async def program(world: World) -> None:
        world.create([manifests.node("n1", gpus=gpus), smaller_job(2, members=4)])
        world.start()
        await settle()
        assert size(world) == expected
        assert resizings(world) == []

    play(program)


def test_pods_that_are_replaced_make_no_job_smaller() -> None:
    """The Job has all its pods. One is lost, and its capacity is taken: the new one waits."""

    async def program(world: World) -> None:
        world.create([manifests.node("n1", gpus=2), manifests.node("n2", gpus=1)])
        world.start()
        world.create([smaller_job(1, members=3)])
        await settle()
        assert size(world) == (3, "", 3, 3)
        lost = next(pod for pod in pods(world, "train") if pod["spec"]["nodeName"] == "n2")
        world.client.update(
            Key("nodes", "", "n2"), lambda node: {**node, "spec": {**node["spec"], "unschedulable": True}}
        )
        delete(world, "pods", lost["metadata"]["name"])
        await asyncio.sleep(120)
        assert size(world) == (3, "", 3, 2)

    play(program)


def test_a_job_that_is_suspended_gets_its_parallelism_back() -> None:
    async def program(world: World) -> None:
        world.create([manifests.node("n1", gpus=4), manifests.pod("filler")])
        world.start()
        world.create([smaller_job(2, members=4)])
        await settle()
        assert size(world) == (3, "4", 3, 3)
        world.client.update(TRAIN, suspended(True))
        await asyncio.sleep(60)
        assert size(world) == (4, "", 0, 0)
        assert resizings(world)[1:] == [
            "ParallelismRestored Job train: The Job starts again: the parallelism is 4 again"
        ]
        delete(world, "pods", "filler")
        world.client.update(TRAIN, suspended(False))
        await settle()
        assert size(world) == (4, "", 4, 4)

    play(program)


def test_a_job_that_was_resumed_while_nobody_led_starts_again() -> None:
    """A leader that never saw the Job suspended finds it with pods that never had nodes."""

    async def program(world: World) -> None:
        world.create([manifests.node("n1", gpus=4)])
        job = smaller_job(2, members=4)
        job["spec"]["parallelism"] = 3
        job["metadata"]["annotations"][ANNOTATION_FULL_PARALLELISM] = "4"
        world.create([manifests.node("full", gpus=0), job])
        fill = [manifests.pod(f"filler-{index}") for index in range(3)]
        for pod in fill:
            pod["spec"]["nodeName"] = "n1"
        world.create(fill)
        world.start()
        await settle()
        assert size(world) == (4, "", 4, 0)
        for pod in fill:
            delete(world, "pods", pod["metadata"]["name"])
        await settle()
        assert size(world) == (4, "", 4, 4)

    play(program)


# --- under faults -------------------------------------------------------------------------------------------


def on_job_writes(world: World, rule: Rule) -> None:
    """Apply the rule to what the leader writes to the Job."""
    leader = world.leader()
    assert leader is not None
    assert leader.process is not None
    leader.process.network.rules.append(rule)


def job_writes(**fields: Any) -> Rule:
    return Rule(**fields, methods=("PATCH",), path_part="/jobs/train")


@pytest.mark.parametrize(
    "rule",
    [
        job_writes(effect=Effect.REFUSED, status=409, times=1),
        job_writes(effect=Effect.REFUSED, status=503, times=2),
        job_writes(effect=Effect.LOST, times=1),
        job_writes(effect=Effect.APPLIED_BUT_LOST, times=1),
        job_writes(effect=Effect.APPLIED_BUT_REFUSED, status=500, times=1),
    ],
    ids=["conflict", "unavailable", "lost", "answer lost", "answer refused"],
)
def test_a_write_that_fails_is_decided_again(rule: Rule) -> None:
    async def program(world: World) -> None:
        world.create([manifests.node("n1", gpus=3)])
        world.start()
        await settle()
        on_job_writes(world, rule)
        world.create([smaller_job(2, members=6)])
        await asyncio.sleep(60)
        assert rule.met >= 1
        assert size(world) == (3, "6", 3, 3)

    play(program)


def test_without_the_right_the_pods_wait_and_start_later() -> None:
    async def program(world: World) -> None:
        world.create([manifests.node("n1", gpus=3)])
        world.start()
        await settle()
        on_job_writes(world, job_writes(effect=Effect.REFUSED, status=403))
        world.create([smaller_job(2, members=4)])
        await settle()
        assert size(world) == (4, "", 4, 3)
        world.create([manifests.node("n2", gpus=1)])
        await settle()
        assert size(world) == (4, "", 4, 4)
        assert resizings(world) == []

    play(program)


def test_a_change_by_the_user_before_the_write_is_kept() -> None:
    """The write of the scheduler is on its way when the user lowers the parallelism."""

    async def program(world: World) -> None:
        world.create([manifests.node("n1", gpus=3)])
        world.start()
        await settle()
        on_job_writes(world, job_writes(effect=Effect.SLOW, slow_s=5, times=1))
        world.create([smaller_job(2, members=6)])
        await asyncio.sleep(3)
        assert size(world) == (6, "", 6, 3)
        world.client.update(TRAIN, lambda job: {**job, "spec": {**job["spec"], "parallelism": 3}})
        await asyncio.sleep(30)
        assert size(world) == (3, "", 3, 3)

    play(program)


def test_no_other_pod_is_bound_while_the_write_is_under_way() -> None:
    async def program(world: World) -> None:
        world.create([manifests.node("n1", gpus=4), manifests.pod("filler")])
        world.start()
        await settle()
        on_job_writes(world, job_writes(effect=Effect.SLOW, slow_s=4, times=1))
        world.create([smaller_job(2, members=6)])
        await asyncio.sleep(3)
        delete(world, "pods", "filler")
        await asyncio.sleep(1)
        assert size(world) == (6, "", 6, 3)
        await settle()
        assert size(world) == (3, "6", 3, 3)

    play(program)


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_new_leader_decides_the_same(*, is_sent: bool) -> None:
    """The leader dies after the start: before its write is sent, or when it is on its way."""

    async def program(world: World) -> None:
        world.create([manifests.node("n1", gpus=3)])
        world.start()
        await settle()
        effect = job_writes(effect=Effect.SLOW, slow_s=8) if is_sent else job_writes(effect=Effect.NOT_SENT)
        on_job_writes(world, effect)
        world.create([smaller_job(2, members=6)])
        await asyncio.sleep(4)
        assert size(world) == (6, "", 6, 3)
        leader = world.leader()
        assert leader is not None
        leader.kill()
        await asyncio.sleep(90)
        assert world.leader() not in (None, leader)
        assert size(world) == (3, "6", 3, 3)

    play(program, WorldSettings(seed=5, replicas=2, checks=ALL_CHECKS))
