"""The priority of a PodGroup is no higher than its pods or its queue allow."""

from typing import Any

import pytest

from tests.tenants.world import World

CLASSES = {"p5000": 5000, "p500": 500, "p100": 100, "p20": 20, "p0": 0, "m5": -5}
SYSTEM = "system-node-critical"

ROWS: list[tuple[list[int], str | None, int | None, int]] = [
    ([0], None, 1000, 0),
    ([0, 100], None, None, 0),
    ([0], SYSTEM, None, 0),
    ([0], SYSTEM, 1_000_000_000, 1_000_000_000),
    ([0], "p500", 1000, 500),
    ([0], "p5000", 1000, 1000),
    ([100], "p5000", 50, 100),
    ([100], "p20", None, 20),
    ([100, 0], "p20", None, 0),
    ([-10], "p0", None, -10),
    ([0], "m5", 1000, -5),
    ([-10], "m5", -7, -7),
    ([2_000_001_000], SYSTEM, None, 2_000_001_000),
    ([0], "no-such-class", 1000, 0),
    ([-10], "no-such-class", None, -10),
]


def priority(pods: list[int], named: str | None, most: int | None, **spec: Any) -> int:
    gang = gang_of(pods, named, most, **spec)
    return int(gang.priority)


def gang_of(pods: list[int], named: str | None, most: int | None, policy: str = "", **spec: Any) -> Any:
    world = World().queue("q", **({} if most is None else {"maxPodGroupPriority": most})).namespace("ns")
    for name, value in CLASSES.items():
        world.priority_class(name, value)
    world.priority_class("never", 100, preemptionPolicy="Never")
    spec.update({} if named is None else {"priorityClassName": named})
    world.group("g", "ns", queue="q", **spec)
    for index, value in enumerate(pods):
        own = {"preemptionPolicy": policy} if policy else {}
        world.pod(f"p{index}", "ns", group="g", priority=value, **own)
    (gang,) = world.start().snapshot().gangs.values()
    return gang


@pytest.mark.parametrize(("pods", "named", "most", "expected"), ROWS, ids=str)
def test_the_priority_of_a_gang(pods: list[int], named: str | None, most: int | None, expected: int) -> None:
    assert priority(pods, named, most) == expected


@pytest.mark.parametrize(
    ("pods", "expected"), [([100], 0), ([100] * 7, 0), ([100] * 8, 100), ([100] * 9, 100), ([-10], -10)]
)
def test_members_that_do_not_exist_yet_count_as_pods_without_a_class(pods: list[int], expected: int) -> None:
    """One pod of a high class must not reserve capacity for others that will not have it."""
    roles = [{"name": "driver", "count": 1}, {"name": "worker", "count": 7, "requests": {"cpu": 1}}]
    spec = {"minMember": 8, "roles": roles}
    assert priority(pods, None, None, startWhen="Reserved", **spec) == expected
    assert priority(pods, "p100", None, startWhen="Reserved", **spec) == expected
    assert priority(pods, "p100", 100, startWhen="Reserved", **spec) == 100
    assert priority(pods, None, None, **spec) == pods[0]


@pytest.mark.parametrize(
    ("pods", "named", "written", "most", "expected"),
    [
        ("", "p100", None, None, "PreemptLowerPriority"),
        ("", "never", None, None, "Never"),
        ("", "p100", "Never", None, "Never"),
        ("Never", "p100", None, None, "Never"),
        ("Never", None, "PreemptLowerPriority", None, "Never"),
        ("Never", "p100", "PreemptLowerPriority", 50, "Never"),
        ("Never", "p100", None, 100, "PreemptLowerPriority"),
        ("Never", "never", "PreemptLowerPriority", 100, "PreemptLowerPriority"),
    ],
)
def test_the_preemption_policy_of_a_gang(
    pods: str, named: str | None, written: str | None, most: int | None, expected: str
) -> None:
    spec = {} if written is None else {"preemptionPolicy": written}
    assert gang_of([100, 100], named, most, policy=pods, **spec).preemption_policy == expected


def test_the_queues_above_bound_the_priority() -> None:
    world = World().queue("top", maxPodGroupPriority=100).queue("q", parent="top", maxPodGroupPriority=1000)
    world.queue("r", parent="top").namespace("ns").priority_class("p500", 500)
    for queue in ("q", "r"):
        world.group(queue, "ns", queue=queue, priorityClassName="p500").pod(queue, "ns", group=queue)
    assert [gang.priority for gang in world.start().snapshot().gangs.values()] == [100, 100]


def test_a_pod_group_of_a_high_class_evicts_nobody_and_goes_first_nowhere() -> None:
    world = World().namespace("ours").namespace("theirs").pod("old", "theirs", gpus=4, on="n0")
    world.group("greedy", "ours", priorityClassName=SYSTEM).pod(
        "greedy", "ours", gpus=8, group="greedy", since=5
    )
    outcome = world.pod("older", "theirs", gpus=4, since=10).decide()
    assert (outcome.order, outcome.evicted) == (["older"], set())
    (said,) = [each for each in outcome.verdicts["ours/greedy"].evidence if each.subject == "ignored"]
    assert said.finding == (
        f"PodGroup greedy: priorityClassName {SYSTEM} (2000001000) counts as 0, "
        "the most that its pods and its queue allow"
    )


def test_the_queue_that_a_running_gang_is_charged_to_bounds_its_priority() -> None:
    """A gang cannot use the rule of a queue by naming it."""
    world = World().queue("q").queue("trusted", maxPodGroupPriority=1000).namespace("ns")
    world.priority_class("p500", 500).group("g", "ns", queue="trusted", priorityClassName="p500")
    world.pod("p", "ns", group="g", on="n0", charged="q")
    (gang,) = world.start().snapshot().gangs.values()
    assert (gang.queue, gang.priority) == ("q", 0)
