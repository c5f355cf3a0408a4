"""F10 and F11: foreign pods, fillers that take a broken gang's capacity, gangs with interleaved pods."""

import asyncio

import pytest
from phalanx.model.names import LABEL_POD_GROUP
from phalanx_simulator.embedded.pod_requests import requests_of
from phalanx_simulator.embedded.store import ChangeType

from tests.sim_faults.conftest import Play, Town

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(("per_minute", "seconds", "total"), [(60, 30, 30), (12_000, 1, 200), (600, 0, 0)])
def test_foreign_pods_come_at_their_rate_and_leave(
    play: Play, per_minute: int, seconds: float, total: int
) -> None:
    async def story(town: Town) -> None:
        changes = town.changes("pods")
        await town.inject("foreign-load", "a", "b", seconds=seconds, per_minute=per_minute, milli_cpu=10)
        added = [change.entry.data for change in changes if change.type is ChangeType.ADDED]
        assert len(added) == total
        assert {pod["spec"]["nodeName"] for pod in added} <= {"a", "b"}
        assert {pod["spec"]["schedulerName"] for pod in added} <= {"default-scheduler"}
        assert town.names("Pod") == []

    play(story)


def test_each_foreign_pod_stays_for_its_time(play: Play) -> None:
    async def story(town: Town) -> None:
        task = town.start("foreign-load", "a", seconds=100, per_minute=60, gpus=1, hold_s=5)
        await asyncio.sleep(50.5)
        assert 4 <= len(town.names("Pod")) <= 6
        await task

    play(story)


@pytest.mark.parametrize(("settings", "asked"), [({}, {"pods": 1}), ({"gpus": 2}, {"pods": 1, GPU: 2})])
def test_foreign_pods_may_ask_for_nothing(
    play: Play, settings: dict[str, int], asked: dict[str, int]
) -> None:
    async def story(town: Town) -> None:
        task = town.start("foreign-load", "a", seconds=2, **settings)
        await asyncio.sleep(0.5)
        assert requests_of(town.get("Pod", town.names("Pod")[0], "default")) == asked
        await task

    play(story)


def test_a_daemon_comes_to_every_node_even_a_tainted_one(play: Play) -> None:
    async def story(town: Town) -> None:
        taint = town.start("node-taint", "a", seconds=600, effect="NoExecute")
        task = town.start("foreign-daemons", "a", "b", "c", "d", seconds=300)
        await asyncio.sleep(100)
        pods = [town.get("Pod", name, "default") for name in town.names("Pod")]
        assert sorted(pod["spec"]["nodeName"] for pod in pods) == ["a", "b", "c", "d"]
        assert {pod["status"]["phase"] for pod in pods} == {"Running"}
        await task
        assert town.names("Pod") == []
        await taint

    play(story)


def test_fillers_come_the_moment_a_gang_breaks(play: Play) -> None:
    async def story(town: Town) -> None:
        member = await town.running("p", "a", group="g", priorityClassName="system-node-critical")
        await town.running("single", "b")
        task = town.start("filler-thief", seconds=100, pods=3, gpus=2, hold_s=50)
        await asyncio.sleep(1)
        town.kubelets.fail(town.context.client.keys("pods")[1], exit_code=1, reason="Error", message="")
        await asyncio.sleep(1)
        assert len(town.names("Pod")) == 2
        town.kubelets.fail(member, exit_code=1, reason="Error", message="")
        await asyncio.sleep(1)
        fillers = [town.get("Pod", name, "default") for name in town.names("Pod") if "filler" in name]
        assert len(fillers) == 3
        assert {pod["spec"]["priorityClassName"] for pod in fillers} == {"system-node-critical"}
        assert not any(pod["metadata"].get("labels", {}).get(LABEL_POD_GROUP) for pod in fillers)
        await task
        assert [name for name in town.names("Pod") if "filler" in name] == []

    play(story)


@pytest.mark.parametrize("order", ["AB", "ACBD"])
@pytest.mark.parametrize("late", [0, 1])
def test_gangs_come_interleaved(play: Play, order: str, late: int) -> None:
    async def story(town: Town) -> None:
        changes = town.changes("pods")
        task = town.start("interleaved-gangs", seconds=60, order=order, pods=3, late=late, pause_ms=10)
        await asyncio.sleep(10)
        letters = [
            change.entry.data["metadata"]["labels"][LABEL_POD_GROUP].split("-")[1].upper()
            for change in changes
            if change.type is ChangeType.ADDED
        ]
        assert "".join(letters) == order * 3
        groups = [town.get("PodGroup", name, "default") for name in town.names("PodGroup")]
        assert [group["spec"]["minMember"] for group in groups] == [3] * len(order)
        await task
        assert town.names("Pod") == town.names("PodGroup") == []

    play(story)


def test_each_round_may_have_its_own_order(play: Play) -> None:
    async def story(town: Town) -> None:
        changes = town.changes("pods")
        await town.inject("interleaved-gangs", order="ACBD", pods=6, shuffled=1, gpus=1)
        added = [change.entry.data for change in changes if change.type is ChangeType.ADDED]
        groups = [pod["metadata"]["labels"][LABEL_POD_GROUP] for pod in added]
        rounds = [tuple(groups[start : start + 4]) for start in range(0, 24, 4)]
        assert len(set(rounds)) > 1
        assert all(len(set(one)) == 4 for one in rounds)

    play(story)


def test_a_storm_of_higher_priority_comes_and_goes(play: Play) -> None:
    async def story(town: Town) -> None:
        classes = town.names("PriorityClass")
        task = town.start("priority-storm", seconds=100, gangs=4, pods=2, gpus=1, value=77)
        await asyncio.sleep(60)
        groups = [town.get("PodGroup", name, "default")["spec"] for name in town.names("PodGroup")]
        pods = [town.get("Pod", name, "default") for name in town.names("Pod")]
        assert (len(groups), len(pods)) == (3, 6)
        assert {pod["spec"]["priority"] for pod in pods} == {77}
        assert {group["priorityClassName"] for group in groups} < {*town.names("PriorityClass")}
        await task
        assert town.names("Pod") == town.names("PodGroup") == []
        assert town.names("PriorityClass") == classes

    play(story)
