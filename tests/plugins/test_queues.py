"""Order of queues by dominant share and guarantee, and limits of queues."""

from collections.abc import Mapping
from fractions import Fraction

import pytest
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.names import QueueName
from phalanx.model.pods import Requirement, Term
from phalanx.model.queues import Flavor
from phalanx.model.reasons import Reason
from phalanx.model.resources import CPU, GPU
from phalanx_plugins.drf import DominantShare, DrfArguments

from tests.builders import Scenario


def share(weight: int, gpu: int, cpu: int, ignored: tuple[str, ...] = ()) -> tuple[bool, Fraction]:
    """The order key of a queue that uses these amounts of 32 devices and 256 cores."""
    scenario = Scenario().nodes("n", 4, gpu=8, cpu=64).queue("q", weight=weight)
    if gpu or cpu:
        scenario.gang("old", 1, gpu=gpu, cpu=cpu, memory=0, on=["n-0"], queue="q")
    session = Session(scenario.snapshot(), SchedulerConfig())
    plugin = DominantShare(DrfArguments(ignored=("pods", *ignored)))
    plugin.open(session)
    queue = session.queues.get(QueueName("q"))
    assert queue is not None
    return plugin.queue_order(queue, session)


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ((1, 0, 0), (1, 1, 0)),
        ((1, 1, 0), (1, 0, 9)),  # 1/32 of the devices, 9/256 of the cores
        ((1, 0, 7), (1, 1, 7)),
        ((2, 2, 0), (1, 2, 0)),
        ((3, 2, 0), (1, 1, 0)),  # 2/32 / 3 < 1/32 / 1
        ((1_000_003, 8, 0), (1_000_002, 8, 0)),
    ],
)
def test_the_lower_weighted_dominant_share_is_served_first(
    lower: tuple[int, int, int], higher: tuple[int, int, int]
) -> None:
    assert share(*lower) < share(*higher)


def test_equal_shares_are_equal() -> None:
    assert share(2, 2, 0) == share(1, 1, 0) == share(1, 0, 8) == share(3, 3, 24)


def test_an_ignored_resource_does_not_count() -> None:
    ignored = (CPU,)
    assert share(1, 1, 64, ignored=ignored) == share(1, 1, 0, ignored=ignored)


def test_foreign_pods_reduce_the_divided_capacity() -> None:
    """Foreign pods use half of the devices: 4 are a quarter of the rest, more than 60 of 256 cores."""
    scenario = Scenario().nodes("n", 4, gpu=8, cpu=64, used={GPU: 4}).queue("gpus").queue("cores")
    scenario.gang("a", 1, gpu=4, cpu=0, memory=0, on=["n-0"], queue="gpus")
    scenario.gang("b", 3, cpu=20, memory=0, on=["n-1", "n-2", "n-3"], queue="cores")
    scenario.gang("next-a", 1, queue="gpus").gang("next-b", 1, queue="cores")
    assert scenario.decide().placed() == ["next-b", "next-a"]


def order(uses: Mapping[str, int], **weights: int) -> list[str]:
    """The order in which queues start one gang each."""
    scenario = Scenario().nodes("n", 8, gpu=8)
    for name, gpu in uses.items():
        scenario.queue(name, weight=weights.get(name, 1))
        if gpu:
            scenario.gang(f"old-{name}", gpu, gpu=1, bound=gpu, queue=name)
        scenario.gang(name, 1, gpu=1, queue=name)
    return scenario.decide().placed()


@pytest.mark.parametrize(
    ("uses", "weights", "expected"),
    [
        ({"a": 8, "b": 0, "c": 4}, {}, ["b", "c", "a"]),
        ({"a": 8, "b": 4, "c": 2}, {"a": 8}, ["a", "c", "b"]),
        ({"a": 6, "b": 3}, {"a": 3, "b": 1}, ["a", "b"]),
    ],
)
def test_queues_take_turns_by_share(
    uses: dict[str, int], weights: dict[str, int], expected: list[str]
) -> None:
    assert order(uses, **weights) == expected


def test_shares_are_updated_after_each_placement() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8).queue("a", weight=2).queue("b")
    for index in range(6):
        scenario.gang(f"a{index}", 1, gpu=1, queue="a").gang(f"b{index}", 1, gpu=1, queue="b")
    placed = scenario.decide().placed()
    assert len(placed) == 8
    assert sum(1 for name in placed if name.startswith("a")) == 5  # 5/2 against 3/1: the sixth would be 6/2


def test_shares_are_compared_from_the_root_of_the_tree() -> None:
    """`busy` has an idle child: the share of its parent counts first."""
    scenario = Scenario().nodes("n", 4, gpu=8).queue("busy").queue("calm")
    for leaf, parent in (("busy-1", "busy"), ("busy-2", "busy"), ("calm-1", "calm")):
        scenario.queue(leaf, parent=parent)
    scenario.gang("old-1", 8, gpu=1, bound=8, queue="busy-1").gang("old-3", 4, gpu=1, bound=4, queue="calm-1")
    scenario.gang("idle", 1, gpu=1, queue="busy-2").gang("calm", 1, gpu=1, queue="calm-1")
    assert scenario.decide().placed() == ["calm", "idle"]


def test_a_queue_of_higher_priority_goes_before_a_lower_share() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8).queue("first", priority=1).queue("second")
    scenario.gang("old", 4, gpu=1, bound=4, queue="first")
    scenario.gang("b", 4, gpu=1, queue="second", preemption_policy="Never")
    assert scenario.gang("a", 4, gpu=1, queue="first").decide().placed() == ["a"]


def test_a_queue_below_its_guarantee_goes_before_lower_shares() -> None:
    scenario = Scenario().nodes("n", 4, gpu=8).queue("mine", guarantee={GPU: 8}).queue("idle", weight=9)
    scenario.gang("old", 4, gpu=1, bound=4, queue="mine").gang("a", 1, gpu=1, queue="idle")
    assert scenario.gang("b", 1, gpu=1, queue="mine").decide().placed() == ["b", "a"]


def test_the_queue_with_the_smaller_used_part_of_its_guarantee_goes_first() -> None:
    scenario = (
        Scenario().nodes("n", 4, gpu=8).queue("half", guarantee={GPU: 4}).queue("third", guarantee={GPU: 9})
    )
    scenario.gang("old-h", 2, gpu=1, bound=2, queue="half").gang("old-t", 3, gpu=1, bound=3, queue="third")
    scenario.gang("h", 1, gpu=1, queue="half").gang("t", 1, gpu=1, queue="third")
    assert scenario.decide().placed() == ["t", "h"]


def test_only_use_above_the_guarantee_counts_once_it_is_reached() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8).queue("mine", guarantee={GPU: 4}).queue("other")
    for index in range(8):
        for name, queue in (("a", "mine"), ("b", "other")):
            scenario.gang(f"{name}{index}", 1, gpu=1, cpu=0, memory=0, queue=queue)
    assert scenario.decide().placed() == ["a0", "a1", "a2", "a3", "b0", "a4", "b1", "a5"]


def test_a_guarantee_of_a_resource_without_demand_does_not_change_the_order() -> None:
    """The queue is below its guarantee of devices, but its gangs request none."""
    scenario = Scenario().nodes("n", 4, gpu=8).queue("mine", guarantee={GPU: 8}).queue("idle")
    scenario.gang("old", 4, bound=4, queue="mine").gang("a", 1, queue="idle")
    assert scenario.gang("b", 1, queue="mine").decide().placed() == ["a", "b"]


def test_a_guarantee_is_reached_when_it_is_used_up_of_one_resource() -> None:
    scenario = Scenario().nodes("n", 4, gpu=8).queue("mine", guarantee={GPU: 1, CPU: 99_000}).queue("idle")
    scenario.gang("old", 2, gpu=1, bound=2, queue="mine").gang("a", 1, gpu=1, queue="idle")
    assert scenario.gang("b", 1, gpu=1, queue="mine").decide().placed() == ["a", "b"]


def test_a_flavor_guarantee_counts_use_on_its_nodes_only() -> None:
    fast = Flavor("fast", (("group", "h100"),), guarantee={GPU: 2})
    scenario = Scenario().nodes("h100", 1, gpu=8).nodes("a100", 1, gpu=8).queue("mine", flavors=[fast])
    scenario.queue("idle").gang("old", 4, gpu=1, on=["a100-0"] * 4, queue="mine").gang(
        "a", 1, gpu=1, queue="idle"
    )
    assert scenario.gang("b", 1, gpu=1, queue="mine").decide().placed() == ["b", "a"]
    scenario.gang("more", 2, gpu=1, on=["h100-0"] * 2, queue="mine")
    assert scenario.decide().placed() == ["a", "b"]


def test_the_guarantee_of_a_parent_counts_for_all_queues_below_it() -> None:
    scenario = Scenario().nodes("n", 4, gpu=8).queue("top", guarantee={GPU: 8}).queue("leaf", parent="top")
    scenario.queue("idle").gang("old", 4, gpu=1, bound=4, queue="leaf").gang("a", 1, gpu=1, queue="idle")
    assert scenario.gang("b", 1, gpu=1, queue="leaf").decide().placed() == ["b", "a"]


def test_without_drf_the_order_of_gangs_decides_between_queues() -> None:
    off = SchedulerConfig(plugins=(PluginConfig(name="drf", enabled=False),))
    scenario = Scenario().nodes("n", 4, gpu=8).queue("a").queue("b")
    scenario.gang("old", 8, gpu=1, bound=8, queue="a")
    scenario.gang("a", 1, gpu=1, queue="a").gang("b", 1, gpu=1, queue="b")
    assert scenario.decide().placed() == ["b", "a"]
    assert scenario.decide(off).placed() == ["a", "b"]


def test_limits_of_the_queue_and_its_ancestors_apply() -> None:
    scenario = Scenario().nodes("n", 4, gpu=8).queue("all", limit={GPU: 7})
    scenario.queue("a", parent="all", limit={GPU: 4}).queue("b", parent="all")
    scenario.gang("a1", 4, gpu=1, queue="a").gang("a2", 1, gpu=1, queue="a")
    scenario.gang("b1", 2, gpu=1, queue="b").gang("b2", 2, gpu=1, queue="b").gang("free", 8, gpu=1)
    result = scenario.decide()
    assert sorted(result.placed()) == ["a1", "b1", "free"]
    assert result.reasons() == {"a2": Reason.QUEUE_LIMIT, "b2": Reason.QUEUE_LIMIT}
    assert "limit of queue a " in result.verdict("a2").message
    assert "limit of queue all " in result.verdict("b2").message


def test_the_verdict_names_the_limit_that_is_reached() -> None:
    scenario = Scenario().nodes("n", 4, gpu=8).queue("all", limit={GPU: 6})
    scenario.queue("a", parent="all", limit={GPU: 30}).gang("old", 4, gpu=1, bound=4, queue="a")
    assert "limit of queue all " in scenario.gang("g", 3, gpu=1, queue="a").decide().verdict("g").message


def test_flavors_have_separate_limits() -> None:
    a100 = Flavor("a100", (("group", "a100"),), {GPU: 4})
    h100 = Flavor("h100", (("group", "h100"),), {GPU: 2})
    scenario = Scenario().nodes("a100", 1, gpu=8).nodes("h100", 1, gpu=8).queue("q", flavors=[a100, h100])
    scenario.gang("old", 3, gpu=1, on=["a100-0"] * 3, queue="q").gang("new", 3, gpu=1, queue="q")
    result = scenario.decide()
    assert result.where("new") == {"a100": 1, "h100": 2}


def test_the_verdict_names_the_flavor_limit() -> None:
    a100 = Flavor("a100", (("group", "a100"),), {GPU: 4})
    scenario = Scenario().nodes("a100", 1, gpu=8).queue("q", flavors=[a100])
    scenario.gang("old", 3, gpu=1, bound=3, queue="q").gang("new", 2, gpu=1, queue="q")
    scenario.gang("huge", 5, gpu=1, queue="q")
    result = scenario.decide()
    assert result.reasons() == {"new": Reason.QUEUE_LIMIT, "huge": Reason.ABOVE_QUEUE_LIMIT}
    assert "limit of queue q for flavor a100" in result.verdict("new").message


def test_use_above_a_lowered_limit_is_not_evicted_and_does_not_grow() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8).queue("q", limit={GPU: 2})
    scenario.gang("old", 4, gpu=1, bound=4, queue="q").gang("new", 1, gpu=1, queue="q")
    scenario.gang("light", 1, queue="q")
    result = scenario.decide()
    assert result.placed() == ["light"]
    assert result.evicted() == []
    assert result.reasons() == {"new": Reason.QUEUE_LIMIT}


def test_a_limit_on_pods_counts_pods() -> None:
    scenario = Scenario().nodes("n", 1).queue("q", limit={"pods": 3})
    result = scenario.gang("a", 2, queue="q").gang("b", 2, queue="q").decide()
    assert result.placed() == ["a"]
    assert result.verdict("b").next_step.startswith(
        "Wait until gang team/a ends or 1 pod of the limit of queue q is released;"
    )


def test_a_namespace_must_be_selected_by_every_ancestor() -> None:
    vision = Term((Requirement("team", "In", ("vision",)),))
    scenario = Scenario().nodes("n", 1).queue("all", namespace_selector=vision).queue("q", parent="all")
    scenario.namespace("seeing", team="vision").namespace("listening", team="sound")
    scenario.gang("in", 1, queue="q", namespace="seeing").gang("out", 1, queue="q", namespace="listening")
    result = scenario.decide()
    assert result.placed() == ["in"]
    assert result.reasons() == {"out": Reason.NAMESPACE_NOT_ALLOWED}
