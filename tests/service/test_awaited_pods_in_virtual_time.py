"""Evicted workloads stay suspended while their gangs wait: without pods, and in their place in line."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from phalanx.framework.config import SchedulerConfig
from phalanx.model.names import ANNOTATION_SUSPENSION
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.store import Change, Key, Object
from phalanx_simulator.hosts.network import Exchange
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.world import World, WorldSettings

from tests.service.dialect_world import found
from tests.service.leaders import kill_the_leader_at
from tests.service.test_suspensions_in_virtual_time import (
    JOBS,
    POD_GROUPS,
    SUSPENSIONS,
    TRAIN,
    TWO,
    about,
    all_events,
    ends_well,
    evictor,
    fragile_job,
    is_resumed,
    is_suspended,
    of_group,
    of_job,
    of_label,
    play,
    running_job,
    running_job_set,
    without_annotation,
)
from tests.service.test_workloads_in_virtual_time import JOB_SETS, bound, delete, pods, suspended

pytestmark = pytest.mark.usefixtures("quiet")

Made = Callable[[], list[Object]]
KINDS = pytest.mark.parametrize("made", [of_job, of_label, of_group])


async def waiting(world: World, *made: Object, run_s: int = 200) -> None:
    """The Job was evicted, and waits."""
    await running_job(world, *made)
    world.create([evictor(run_s=run_s)])
    await asyncio.sleep(30)
    assert (pods(world, "train"), bound(world, "urgent")) == ([], 1)
    assert is_waiting(world)


def is_waiting(world: World) -> bool:
    job = found(world, JOBS, "train")
    return job["spec"]["suspend"] is True and ANNOTATION_SUSPENSION in job["metadata"]["annotations"]


def rival(name: str = "rival", **options: Any) -> Object:
    return manifests.job(name, members=4, run_s=100, requests={"nvidia.com/gpu": "1"}, **options)


def stored(world: World) -> dict[str, str]:
    return dict((world.client.get(SUSPENSIONS) or {}).get("data") or {})


@KINDS
def test_no_pod_exists_until_there_is_capacity_for_all(made: Made) -> None:
    async def program(world: World) -> None:
        await waiting(world, *made())
        for _ in range(160):
            await asyncio.sleep(1)
            assert bound(world, "urgent") == 1
            assert pods(world, "train") == []
        await asyncio.sleep(30)
        assert bound(world, "train") == 4
        await ends_well(world)

    play(program)


@KINDS
def test_it_keeps_its_place_in_line(made: Made) -> None:
    """Another gang of the same priority came later, and waits with pods."""

    async def program(world: World) -> None:
        await waiting(world, *made())
        world.create([rival()])
        await asyncio.sleep(180)
        assert (bound(world, "train"), bound(world, "rival")) == (4, 0)
        await ends_well(world)

    play(program)


def test_a_gang_that_came_before_it_starts_before_it() -> None:
    async def program(world: World) -> None:
        world.create([manifests.node("n1", gpus=4), manifests.priority_class("urgent", 1000)])
        world.start()
        world.create([fragile_job(run_s=300)])
        await asyncio.sleep(10)
        world.create([evictor(run_s=60)])
        await asyncio.sleep(30)
        first = rival("first")
        first["spec"]["template"]["spec"]["priorityClassName"] = "urgent"
        world.create([first])
        await asyncio.sleep(60)
        assert (pods(world, "train"), bound(world, "first")) == ([], 4)
        await ends_well(world)

    play(program)


def test_the_pod_group_and_the_job_say_why_it_waits() -> None:
    async def program(world: World) -> None:
        await waiting(world, *of_group())
        status = found(world, POD_GROUPS, "train")["status"]
        assert (status["phase"], status["counts"].get("total", 0)) == ("Pending", 0)
        assert status["reason"] == "InsufficientCapacity"

    play(program)


def test_the_job_without_a_pod_group_says_why_it_waits() -> None:
    async def program(world: World) -> None:
        await waiting(world)
        notes = [each["note"] for each in all_events(world) if about(each) == "Job train"]
        assert [note for note in notes if note.startswith("InsufficientCapacity: ")]
        assert not [each for each in all_events(world) if about(each).startswith("Pod train:")]

    play(program)


@KINDS
def test_after_five_minutes_an_autoscaler_sees_its_pods(made: Made) -> None:
    async def program(world: World) -> None:
        await waiting(world, *made(), run_s=600)
        await asyncio.sleep(250)
        assert pods(world, "train") == []
        await asyncio.sleep(60)
        assert len(pods(world, "train")) == 4
        assert bound(world, "train") == 0
        assert stored(world) == {}
        await ends_well(world)

    play(program)


@pytest.mark.parametrize(("minutes", "exist"), [(0, True), (1, True), (2, False), (None, False)])
def test_another_time_may_be_configured(minutes: int | None, exist: bool) -> None:
    async def program(world: World) -> None:
        await running_job(world)
        world.create([evictor(run_s=600)])
        await asyncio.sleep(100)
        assert len(pods(world, "train")) == (4 if exist else 0)
        await asyncio.sleep(400)
        assert len(pods(world, "train")) == (0 if minutes is None else 4)

    config = SchedulerConfig(suspended_minutes=minutes)
    play(program, WorldSettings(seed=1, replicas=1, checks=ALL_CHECKS, config=config))


@KINDS
def test_resumed_by_somebody_else_it_waits_with_pods(made: Made) -> None:
    async def program(world: World) -> None:
        await waiting(world, *made())
        world.client.update(TRAIN, suspended(False))
        await asyncio.sleep(60)
        assert (len(pods(world, "train")), bound(world, "train")) == (4, 0)
        assert ANNOTATION_SUSPENSION not in found(world, JOBS, "train")["metadata"].get("annotations", {})
        assert stored(world) == {}
        await ends_well(world)

    play(program)


@KINDS
def test_held_by_its_user_it_is_not_resumed(made: Made) -> None:
    """`phalanx hold` removes the annotation."""

    async def program(world: World) -> None:
        await waiting(world, *made())
        world.client.update(TRAIN, without_annotation)
        await asyncio.sleep(400)
        assert found(world, JOBS, "train")["spec"]["suspend"] is True
        assert stored(world) == {}

    play(program)


@KINDS
def test_a_job_that_is_deleted_waits_no_longer(made: Made) -> None:
    async def program(world: World) -> None:
        await waiting(world, *made())
        delete(world, JOBS, "train")
        world.create([rival()])
        await asyncio.sleep(190)
        assert bound(world, "rival") == 4
        assert stored(world) == {}

    play(program)


@KINDS
@pytest.mark.parametrize("is_deleted", [True, False])
def test_nothing_is_held_for_a_resumed_job_that_makes_no_pods(made: Made, is_deleted: bool) -> None:
    """It is deleted, or suspended by its user, in the moment in which it is resumed."""

    async def program(world: World) -> None:
        await waiting(world, *made(), run_s=60)
        is_ended = False

        def end_it(change: Change) -> None:
            nonlocal is_ended
            if not (is_ended or is_waiting(world)):
                is_ended = True
                if is_deleted:
                    delete(world, JOBS, "train")
                else:
                    world.client.update(Key(JOBS, "default", "train"), suspended(True))

        world.client.subscribe(JOBS, end_it)
        world.create([rival()])
        while not is_ended:
            await asyncio.sleep(0.1)
        await asyncio.sleep(20)
        assert (pods(world, "train"), bound(world, "rival")) == ([], 4)

    play(program)


@pytest.mark.parametrize("delays", [(1, 1), (30, 30), (2, 50), (90, 90)])
@pytest.mark.parametrize("has_new_leader", [False, True])
def test_its_capacity_is_held_until_its_pods_come_but_for_a_minute(
    delays: tuple[int, int], has_new_leader: bool
) -> None:
    """The pods of the two Jobs come so many seconds later. A gang that came later wants their GPUs."""

    async def program(world: World) -> None:
        world.server.types.add(JOB_SETS)
        await running_job_set(world, {"a": (2, 2)}, groups={})
        job_set = Key(JOB_SETS.resource, "default", "train")

        def copy(change: Change) -> None:
            value = bool((world.client.get(job_set) or {})["spec"].get("suspend"))
            for number, delay in enumerate(delays):
                key, wait = Key(JOBS, "default", f"train-a-{number}"), 0 if value else delay
                asyncio.get_running_loop().call_later(wait, world.client.update, key, suspended(value))

        world.client.subscribe(job_set.resource, copy)
        world.create([evictor(run_s=60)])
        await asyncio.sleep(20)
        leader = world.leader()
        assert leader is not None
        if has_new_leader:
            leader.kill()
        await asyncio.sleep(40)
        while found(world, job_set.resource, "train")["spec"]["suspend"]:
            await asyncio.sleep(0.1)
        world.create([rival()])
        await asyncio.sleep(min(*delays, 60) - 0.5)
        assert bound(world, "rival") == 0
        await asyncio.sleep(50)
        expected = (4, 0) if max(delays) < 60 else (0, 4)
        assert (bound(world, "train"), bound(world, "rival")) == expected

    play(program, WorldSettings(seed=1, replicas=2))


@KINDS
def test_the_next_leader_goes_on(made: Made) -> None:
    """It leaves the Job suspended, in its place, and resumes it."""

    async def program(world: World) -> None:
        await waiting(world, *made())
        world.create([rival()])
        leader = world.leader()
        assert leader is not None
        leader.kill()
        await asyncio.sleep(100)
        assert is_waiting(world)
        assert pods(world, "train") == []
        await asyncio.sleep(90)
        assert (bound(world, "train"), bound(world, "rival")) == (4, 0)
        await ends_well(world)

    play(program, TWO)


@KINDS
@pytest.mark.parametrize("step", [is_suspended, is_resumed])
def test_a_leader_that_dies_at_a_write_leaves_no_job_suspended(
    made: Made, step: Callable[[Exchange], bool]
) -> None:
    async def program(world: World) -> None:
        await running_job(world, *made())
        world.create([evictor()])
        await kill_the_leader_at(world, step)
        await asyncio.sleep(120)
        await ends_well(world)

    play(program, TWO)
