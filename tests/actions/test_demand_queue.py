"""The order of demands: which gangs get a few free slots."""

from phalanx.model.reasons import Reason
from phalanx.model.resources import GPU

from tests.builders import Scenario


def slots(count: int) -> Scenario:
    return Scenario().nodes("n", 1, gpu=count, cpu=1000)


def test_higher_priority_goes_first_then_the_older_then_the_name() -> None:
    scenario = slots(9).gang("b", 1, gpu=1, created=5).gang("a", 1, gpu=1, created=5)
    scenario.gang("old", 1, gpu=1, created=4).gang("high", 1, gpu=1, priority=7, created=9)
    assert scenario.decide().placed() == ["high", "old", "a", "b"]


def test_a_gang_that_does_not_fit_does_not_block_those_behind_it() -> None:
    result = slots(4).gang("big", 5, gpu=1, priority=9).gang("small", 2, gpu=1).decide()
    assert result.placed() == ["small"]


def test_a_replacement_goes_ahead_of_older_work_of_its_priority() -> None:
    scenario = slots(4).gang("older", 1, gpu=1, created=0).gang("filler", 1, gpu=1, created=1)
    scenario.gang("run", 4, gpu=1, bound=4, created=2).lose("run")
    assert scenario.change("run", started=True).decide().placed() == ["run"]


def test_a_replacement_does_not_go_ahead_of_higher_priority() -> None:
    scenario = slots(4).gang("urgent", 1, gpu=1, priority=1).gang("run", 4, gpu=1, bound=4).lose("run")
    assert scenario.change("run", started=True).decide().placed() == ["urgent"]


def test_a_replacement_goes_ahead_of_fillers_in_a_queue_with_a_lower_share() -> None:
    scenario = slots(4).queue("a").queue("b").gang("filler", 1, gpu=1, queue="b")
    scenario.gang("run", 4, gpu=1, bound=4, queue="a").lose("run").change("run", started=True)
    assert scenario.decide().placed() == ["run"]


def test_a_replacement_does_not_go_ahead_of_higher_priority_in_another_queue() -> None:
    scenario = slots(4).queue("a").queue("b").gang("urgent", 1, gpu=1, queue="b", priority=1)
    scenario.gang("run", 4, gpu=1, bound=4, queue="a").lose("run").change("run", started=True)
    assert scenario.decide().placed() == ["urgent"]


def test_a_partly_bound_gang_goes_ahead_of_others() -> None:
    scenario = slots(4).gang("other", 2, gpu=1, created=0).gang("half", 4, gpu=1, bound=2, created=1)
    assert scenario.decide().placed() == ["half"]


def test_surplus_waits_for_every_minimum_of_its_priority() -> None:
    scenario = slots(4).gang("elastic", 4, gpu=1, min=1, created=0).gang("rigid", 3, gpu=1, created=1)
    result = scenario.decide()
    assert result.placed() == ["elastic", "rigid"]
    assert result.reasons() == {"elastic": Reason.INSUFFICIENT_CAPACITY}


def test_surplus_goes_before_minimums_of_lower_priority() -> None:
    scenario = slots(4).gang("elastic", 4, gpu=1, min=1, priority=1).gang("low", 3, gpu=1)
    result = scenario.decide()
    assert [(each.cause, len(each.binds)) for each in result.placements("elastic")] == [
        ("start", 1),
        ("surplus", 3),
    ]
    assert result.placements("low") == []


def test_surplus_waits_for_minimums_of_other_queues_too() -> None:
    scenario = slots(4).queue("a", weight=100).queue("b")
    scenario.gang("old", 1, gpu=1, bound=1, queue="b")
    scenario.gang("elastic", 3, gpu=1, min=1, queue="a").gang("rigid", 2, gpu=1, queue="b")
    assert scenario.decide().placed() == ["elastic", "rigid"]


def test_surplus_of_a_gang_whose_minimum_failed_is_not_placed() -> None:
    scenario = slots(2).gang("g", 0, min=3, started=False)
    scenario.role("g", 3, role="worker", gpu=1, min=3).role("g", 2, role="helper", min=0)
    result = scenario.decide()
    assert result.placed() == []
    assert result.reasons() == {"g": Reason.ABOVE_CLUSTER_CAPACITY}


def test_queues_with_equal_shares_alternate() -> None:
    scenario = slots(4).queue("a").queue("b")
    for index in range(4):
        scenario.gang(f"a{index}", 1, gpu=1, queue="a").gang(f"b{index}", 1, gpu=1, queue="b")
    assert scenario.decide().placed() == ["a0", "b0", "a1", "b1"]


def test_a_blocked_queue_does_not_block_the_next() -> None:
    scenario = slots(8).queue("a", limit={GPU: 1}).queue("b")
    for index in range(3):
        scenario.gang(f"a{index}", 1, gpu=1, queue="a").gang(f"b{index}", 1, gpu=1, queue="b")
    assert sorted(scenario.decide().placed()) == ["a0", "b0", "b1", "b2"]


def test_verdicts_are_in_the_order_in_which_gangs_were_tried() -> None:
    """The reported position of a gang in its queue is counted from this order."""
    scenario = Scenario().nodes("n", 1, gpu=1).gang("run", 1, gpu=1, on=["n-0"], priority=9)
    for name, priority in (("a", 0), ("b", 2), ("c", 1)):
        scenario.gang(name, 1, gpu=1, priority=priority)
    scenario.gang("aa", 1, min=2, gpu=1)
    waiting = [each.group for each in scenario.decide().result.verdicts]
    assert waiting == ["team/b", "team/c", "team/a", "team/aa"]
