"""Starts that found no room get some where those placed before them can be moved, and only there."""

from phalanx.model.reasons import Reason
from phalanx.model.resources import GPU
from tests.builders import Scenario


def three_racks() -> Scenario:
    """Racks a and b of four nodes, c of two. One node of a and one of b are fuller: they are taken first."""
    scenario = Scenario("spine", "rack")
    for rack in ("a", "b"):
        scenario.nodes(f"{rack}-full", 1, gpu=8, cpu=32, within=f"s/{rack}")
        scenario.nodes(rack, 3, gpu=8, within=f"s/{rack}")
    return scenario.nodes("c", 2, gpu=8, within="s/c")


def test_what_blocks_two_racks_is_moved_out_of_their_way() -> None:
    scenario = three_racks().gang("first", 2, gpu=8)
    assert scenario.decide().where("first") == {"a-full": 1, "b-full": 1}
    scenario.gang("left", 4, gpu=8, required="rack").gang("right", 4, gpu=8, required="rack")
    result = scenario.decide()
    assert result.where("first") == {"c": 2}
    racks = [result.where(name) for name in ("left", "right")]
    assert sorted(map(sorted, racks)) == [["a", "a-full"], ["b", "b-full"]]
    (placement,) = result.placements("left")
    assert (placement.cause, placement.level) == ("start", "rack")
    assert placement.certificate.proven
    assert placement.within.keys() == {"test/spine", "test/rack"}


def test_whoever_was_placed_stays_placed_although_others_are_worth_more() -> None:
    scenario = Scenario("rack").nodes("a", 2, gpu=8, within="a").nodes("b", 2, gpu=8, within="b")
    scenario.gang("first", 1, gpu=8)
    for name in ("left", "right"):
        scenario.gang(name, 2, gpu=8, required="rack")
    assert sorted(scenario.decide().placed()) == ["first", "left"]


def test_nobody_is_moved_for_somebody_of_lower_rank() -> None:
    scenario = three_racks().gang("first", 2, gpu=8, priority=5)
    scenario.gang("left", 4, gpu=8, required="rack").gang("right", 4, gpu=8, required="rack")
    result = scenario.decide()
    assert result.where("first") == {"a-full": 1, "b-full": 1}
    assert result.placed() == ["first"]


def test_fillers_of_lower_rank_are_moved_too_and_stay() -> None:
    scenario = three_racks().gang("first", 2, gpu=8, priority=5)
    scenario.gang("rack", 4, gpu=8, required="rack", priority=5).gang("filler", 4, gpu=8)
    result = scenario.decide()
    assert sorted(result.placed()) == ["filler", "first", "rack"]


def test_a_limit_of_the_queue_counts_all_of_them_together() -> None:
    scenario = three_racks().queue("default", limit={GPU: 8 * 7}).gang("first", 2, gpu=8)
    scenario.gang("left", 4, gpu=8, required="rack").gang("right", 4, gpu=8, required="rack")
    result = scenario.decide()
    assert sorted(result.placed()) == ["first", "left"]
    assert result.reasons() == {"right": Reason.QUEUE_LIMIT}


def test_a_gang_with_surplus_in_this_cycle_lies_where_it_lies() -> None:
    scenario = three_racks().gang("first", 3, min=2, gpu=8)
    scenario.gang("left", 4, gpu=8, required="rack").gang("right", 4, gpu=8, required="rack")
    result = scenario.decide()
    assert result.placed() == ["first", "first"]
    assert {"a-full", "b-full"} <= result.where("first").keys()


def test_what_members_of_others_hold_is_not_moved() -> None:
    scenario = three_racks().gang("old", 2, gpu=8, on=["a-full-0", "b-full-0"])
    scenario.gang("new", 1, gpu=8).gang("left", 4, gpu=8, required="rack")
    assert scenario.decide().placed() == ["new"]


def test_the_surplus_of_whom_is_helped_is_placed_in_the_same_cycle() -> None:
    scenario = three_racks().gang("first", 2, gpu=8)
    scenario.gang("left", 4, gpu=8, required="rack").gang("right", 8, min=7, gpu=4, required="rack")
    result = scenario.decide()
    assert result.where("first") == {"c": 2}
    assert sum(result.where("right").values()) == 8


def test_what_failed_is_tried_again_in_the_room_that_is_left_now() -> None:
    """With `first` out of the way, racks a and b hold `left` and `small`, which is of lower rank."""
    scenario = three_racks().gang("first", 2, gpu=8, priority=5)
    scenario.gang("left", 4, gpu=8, required="rack", priority=5).gang("small", 4, gpu=8, required="rack")
    assert sorted(scenario.decide().placed()) == ["first", "left", "small"]
