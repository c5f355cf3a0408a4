"""Priorities within a queue do not undo what another queue may take by its guarantee or its fair share."""

from collections import Counter

import pytest
from phalanx.model.resources import GPU

from tests.actions.test_no_thrash import evictions, run
from tests.builders import Scenario


def two_queues(guarantee: int) -> Scenario:
    """Each queue has a gang of 2 GPUs for one node, and one of 4 GPUs and higher priority: too large."""
    scenario = Scenario().nodes("big", gpu=2).nodes("small", 2, gpu=1)
    for queue in "ab":
        scenario.queue(queue, guarantee={GPU: guarantee} if guarantee else {})
    on = ["big-0", "big-0", "small-0", "small-1"]
    for queue in "ab":
        scenario.gang(f"{queue}-high", 4, gpu=1, priority=9, queue=queue, on=on if queue == "a" else [])
        scenario.gang(f"{queue}-low", 1, gpu=2, queue=queue)
    return scenario


@pytest.mark.parametrize("guarantee", [0, 2])
def test_no_gang_is_evicted_twice(guarantee: int) -> None:
    evicted = Counter(name.rsplit("-", 1)[0] for name in evictions(run(two_queues(guarantee), 40)))
    assert evicted == {"a-high": 4}


def test_a_gang_within_the_share_may_use_free_capacity() -> None:
    """Nobody else asks for anything, so the share of the queue is everything."""
    scenario = two_queues(0)
    for gang in ("a-low", "a-high"):
        scenario.remove(gang)
    scenario.gang("b-first", 1, gpu=2, queue="b", on=["big-0"])
    assert evictions(run(scenario, 1)) == ["b-first-0"]


def test_a_gang_above_the_share_may_replace_gangs_of_its_queue() -> None:
    scenario = two_queues(0)
    for gang in ("a-low", "a-high"):
        scenario.remove(gang)
    for index, node in enumerate(("big-0", "big-0", "small-0", "small-1")):
        scenario.gang(f"b-{index}", 1, gpu=1, queue="b", on=[node])
    scenario.gang("a-wide", 5, gpu=1, queue="a")
    assert sorted(evictions(run(scenario, 1))) == ["b-0-0", "b-1-0", "b-2-0", "b-3-0"]


def test_a_gang_that_must_replace_more_evicts_more() -> None:
    """A GPU is free, and the queue is above its share: two gangs must go for a gang of two."""
    scenario = Scenario().nodes("n", gpu=4).queue("a").queue("b")
    for index in range(3):
        scenario.gang(f"b-{index}", 1, gpu=1, queue="b", on=["n-0"])
    scenario.gang("b-high", 1, gpu=2, priority=9, queue="b").gang("a-large", 1, gpu=4, queue="a")
    assert len(evictions(run(scenario, 1))) == 2


def test_cores_that_only_nodes_with_gpus_lack_are_replaced_too() -> None:
    """Fair shares of a: 2 GPUs and 6 cores. One gang would be enough for a start, with 10 cores in use."""
    scenario = Scenario().nodes("gpu", gpu=4, cpu=8).nodes("cpu", cpu=64).queue("a").queue("b")
    for name in ("a-0", "a-1"):
        scenario.gang(name, 1, gpu=1, cpu=2, queue="a", on=["gpu-0"])
    scenario.gang("a-high", 1, gpu=1, cpu=6, priority=9, queue="a")
    scenario.gang("b-wide", 1, gpu=4, cpu=4, queue="b", preemption_policy="Never")
    assert sorted(evictions(run(scenario, 1))) == ["a-0-0", "a-1-0"]
