"""Joint admission: gangs that did not fit start where gangs that the same cycle placed can be moved."""

from collections import Counter
from typing import Any

from msgspec.structs import replace
from phalanx.actions.joint_admission import CYCLE_VALUE_QUEUES_MAX
from phalanx.model.gangs import SubgroupSpec
from phalanx.model.memory import Memory, Nomination, ReservedStart
from phalanx.model.names import GangId
from phalanx.model.queues import Admission, Flavor, Ordering
from phalanx.model.reasons import Reason
from phalanx.model.resources import GPU

from tests.builders import Decided, Scenario


def three_racks() -> Scenario:
    """Racks a and b of four nodes, c of two. One node of a and one of b are fuller and are used first."""
    scenario = Scenario("spine", "rack")
    for rack in ("a", "b"):
        scenario.nodes(f"{rack}-full", 1, gpu=8, cpu=32, within=f"s/{rack}")
        scenario.nodes(rack, 3, gpu=8, within=f"s/{rack}")
    return scenario.nodes("c", 2, gpu=8, within="s/c")


def test_a_gang_that_blocks_two_racks_is_moved() -> None:
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
    assert placement.domain_labels.keys() == {"test/spine", "test/rack"}


def test_a_placed_gang_stays_placed_although_other_gangs_have_more_value() -> None:
    scenario = Scenario("rack").nodes("a", 2, gpu=8, within="a").nodes("b", 2, gpu=8, within="b")
    scenario.gang("first", 1, gpu=8)
    for name in ("left", "right"):
        scenario.gang(name, 2, gpu=8, required="rack")
    assert sorted(scenario.decide().placed()) == ["first", "left"]


def one_or_four(**fields: Any) -> Scenario:
    """Racks a and b of two nodes. `first` needs one node; `left` and `right` each need a whole rack."""
    scenario = Scenario("rack").nodes("a", 2, gpu=8, within="a").nodes("b", 2, gpu=8, within="b")
    scenario.queue("default", **fields).gang("first", 1, gpu=8)
    return scenario.gang("left", 2, gpu=8, required="rack").gang("right", 2, gpu=8, required="rack")


def test_most_value_prefers_gangs_of_more_value_to_the_oldest() -> None:
    result = one_or_four(admission=Admission.MOST_VALUE).decide()
    assert sorted(result.placed()) == ["left", "right"]
    assert result.reasons() == {"first": Reason.INSUFFICIENT_CAPACITY}


def test_most_value_keeps_the_older_of_equal_gangs() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8).queue("default", admission=Admission.MOST_VALUE)
    scenario.gang("first", 1, gpu=8).gang("second", 1, gpu=8)
    assert scenario.decide().placed() == ["first"]


def test_most_value_does_not_displace_higher_priorities_or_other_queues() -> None:
    scenario = one_or_four(admission=Admission.MOST_VALUE)
    assert "first" in scenario.change("first", priority=5).decide().placed()
    scenario = one_or_four(admission=Admission.MOST_VALUE).queue("other")
    assert "first" in scenario.change("first", queue="other").decide().placed()


def test_most_value_is_inherited_by_children_and_ignored_by_strict_fifo() -> None:
    most_value = {"admission": Admission.MOST_VALUE}
    scenario = one_or_four(parent="above").queue("above", **most_value)
    assert sorted(scenario.decide().placed()) == ["left", "right"]
    scenario = one_or_four(parent="above", admission=Admission.IN_ORDER).queue("above", **most_value)
    assert "first" in scenario.decide().placed()
    assert "first" in one_or_four(ordering=Ordering.STRICT_FIFO, **most_value).decide().placed()


def test_most_value_displaces_no_gang_without_need() -> None:
    scenario = one_or_four(admission=Admission.MOST_VALUE).nodes("c", 1, gpu=8, within="c")
    scenario.gang("late", 1, gpu=8)
    assert sorted(scenario.decide().placed()) == ["first", "left", "right"]


def test_most_value_does_not_replace_a_gang_by_a_later_one_of_equal_value() -> None:
    """`large` replaces `second`. It leaves two of six nodes to `first`, which `last` must not replace."""
    scenario = Scenario("rack").queue("default", admission=Admission.MOST_VALUE)
    for rack, nodes in (("a", 1), ("b", 2), ("c", 3)):
        scenario.nodes(rack, nodes, gpu=8, within=rack)
    scenario.gang("first", 2, gpu=8).gang("second", 3, gpu=8)
    scenario.gang("large", 4, gpu=8).gang("last", 2, gpu=8, required="rack")
    assert sorted(scenario.decide().placed()) == ["first", "large"]


def test_most_value_does_not_displace_a_lower_priority_for_more_value_above() -> None:
    scenario = Scenario("rack").queue("default", admission=Admission.MOST_VALUE)
    scenario.nodes("a", 3, gpu=8, within="a").nodes("b", 3, gpu=8, within="b")
    scenario.gang("first", 1, gpu=8, priority=5).gang("left", 3, gpu=8, required="rack", priority=5)
    scenario.gang("right", 3, gpu=8, required="rack", priority=5).gang("low", 1, gpu=8)
    placed = scenario.decide().placed()
    assert len(placed) == 3
    assert {"first", "low"} <= set(placed)


def test_most_value_does_not_displace_gangs_with_a_reserved_start_or_a_nomination() -> None:
    first = GangId("gang-first")
    reserved = ReservedStart(reserved_in=(1, 0), start=0, held_from=0, usage={})
    nomination = Nomination(usage={}, victims=(), until=1 << 60, attempts=1)
    for memory in (Memory(reserved_starts={first: reserved}), Memory(nominations={first: nomination})):
        scenario = one_or_four(admission=Admission.MOST_VALUE)
        scenario.memory = memory
        assert "first" in scenario.decide().placed()


def test_most_value_improves_a_bounded_number_of_queues_in_a_cycle() -> None:
    """Each queue has two racks of its own, so that all could gain."""
    scenario = Scenario("rack").queue("root", admission=Admission.MOST_VALUE)
    for number in range(CYCLE_VALUE_QUEUES_MAX + 2):
        own = {"queue": f"q{number}", "gpu": 8, "selector": {"of": str(number)}}
        scenario.queue(f"q{number}", parent="root")
        for rack in "ab":
            scenario.nodes(f"{rack}{number}", 2, gpu=8, within=f"{rack}{number}", labels={"of": str(number)})
        scenario.gang(f"first-{number}", 1, **own)
        for side in ("left", "right"):
            scenario.gang(f"{side}-{number}", 2, required="rack", **own)
    first = [name for name in scenario.decide().placed() if name.startswith("first")]
    assert len(first) == 2


def test_no_gang_is_moved_for_a_gang_of_lower_priority() -> None:
    scenario = three_racks().gang("first", 2, gpu=8, priority=5)
    scenario.gang("left", 4, gpu=8, required="rack").gang("right", 4, gpu=8, required="rack")
    result = scenario.decide()
    assert result.where("first") == {"a-full": 1, "b-full": 1}
    assert result.placed() == ["first"]


def test_gangs_of_lower_priority_are_moved_too_and_stay_placed() -> None:
    scenario = three_racks().gang("first", 2, gpu=8, priority=5)
    scenario.gang("rack", 4, gpu=8, required="rack", priority=5).gang("filler", 4, gpu=8)
    result = scenario.decide()
    assert sorted(result.placed()) == ["filler", "first", "rack"]


def test_the_queue_limit_counts_all_gangs_together() -> None:
    scenario = three_racks().queue("default", limit={GPU: 8 * 7}).gang("first", 2, gpu=8)
    scenario.gang("left", 4, gpu=8, required="rack").gang("right", 4, gpu=8, required="rack")
    result = scenario.decide()
    assert sorted(result.placed()) == ["first", "left"]
    assert result.reasons() == {"right": Reason.QUEUE_LIMIT}


def test_a_gang_with_surplus_in_this_cycle_is_not_moved() -> None:
    scenario = three_racks().gang("first", 3, min=2, gpu=8)
    scenario.gang("left", 4, gpu=8, required="rack").gang("right", 4, gpu=8, required="rack")
    result = scenario.decide()
    assert result.placed() == ["first", "first"]
    assert {"a-full", "b-full"} <= result.where("first").keys()


def test_running_gangs_are_not_moved() -> None:
    scenario = three_racks().gang("old", 2, gpu=8, on=["a-full-0", "b-full-0"])
    scenario.gang("new", 1, gpu=8).gang("left", 4, gpu=8, required="rack")
    assert scenario.decide().placed() == ["new"]


def test_the_surplus_of_a_gang_that_starts_jointly_is_placed_in_the_same_cycle() -> None:
    scenario = three_racks().gang("first", 2, gpu=8)
    scenario.gang("left", 4, gpu=8, required="rack").gang("right", 8, min=7, gpu=4, required="rack")
    result = scenario.decide()
    assert result.where("first") == {"c": 2}
    assert sum(result.where("right").values()) == 8


def test_failed_starts_are_tried_again_in_the_capacity_that_is_left() -> None:
    """When `first` is moved, racks a and b hold `left` and `small`, which has a lower priority."""
    scenario = three_racks().gang("first", 2, gpu=8, priority=5)
    scenario.gang("left", 4, gpu=8, required="rack", priority=5).gang("small", 4, gpu=8, required="rack")
    assert sorted(scenario.decide().placed()) == ["first", "left", "small"]


def divided(scenario: Scenario, name: str, *parts: SubgroupSpec, gpu: int = 8, **fields: Any) -> Scenario:
    """A gang of these subgroups, each with the pods of its minimum, without those of its nested subgroups."""
    inner = {part.name: sum(one.min_member for one in parts if one.parent == part.name) for part in parts}
    own = [part.name for part in parts for _ in range(part.min_member - inner[part.name])]
    scenario.gang(name, len(own), gpu=gpu, subgroups=parts, **fields)
    members = zip(scenario.members(name), own, strict=True)
    return scenario.change(name, members=tuple(replace(pod, subgroup=part) for pod, part in members))


def racks_of(result: Decided, scenario: Scenario, name: str) -> dict[str, Counter[str]]:
    """Pods of each subgroup by the first letter of their node, which is that of its rack."""
    subgroups = {pod.uid: pod.subgroup for pod in scenario.members(name)}
    found: dict[str, Counter[str]] = {}
    for placement in result.placements(name):
        for bind in placement.binds:
            found.setdefault(subgroups[bind.pod], Counter())[bind.node[0]] += 1
    return found


def two_racks(name: str = "pair") -> tuple[SubgroupSpec, SubgroupSpec]:
    """Two subgroups of four that each require one rack."""
    return SubgroupSpec(f"{name}-left", 4, required="rack"), SubgroupSpec(f"{name}-right", 4, required="rack")


def test_a_gang_starts_jointly_whose_subgroups_need_a_rack_each() -> None:
    scenario = divided(three_racks().gang("first", 2, gpu=8), "pair", *two_racks())
    result = scenario.decide()
    assert result.where("first") == {"c": 2}
    racks = racks_of(result, scenario, "pair")
    assert sorted(racks) == ["pair-left", "pair-right"]
    assert sorted(map(tuple, racks.values())) == [("a",), ("b",)]


def test_a_gang_of_segments_starts_jointly() -> None:
    scenario = three_racks().gang("first", 2, gpu=8)
    divided(scenario, "ring", SubgroupSpec("all", 8, required="rack", segment=4))
    result = scenario.decide()
    assert result.where("first") == {"c": 2}
    assert racks_of(result, scenario, "ring") == {"all": {"a": 4, "b": 4}}


def test_a_gang_with_subgroups_leaves_whole_racks_to_gangs_that_require_one() -> None:
    scenario = divided(
        three_racks(), "first", SubgroupSpec("one", 1, required="rack"), SubgroupSpec("two", 1)
    )
    for name in ("left", "right"):
        scenario.gang(name, 4, gpu=8, required="rack")
    result = scenario.decide()
    assert sorted(result.placed()) == ["first", "left", "right"]
    assert racks_of(result, scenario, "first") == {"one": {"c": 1}, "two": {"c": 1}}


def replicas(scenario: Scenario) -> Scenario:
    """A gang that needs two of three replicas; the first one is larger than any rack."""
    parts = [SubgroupSpec(name, size, required="rack") for name, size in (("p", 6), ("q", 4), ("r", 4))]
    return divided(scenario, "serve", *parts, min=8, min_subgroups=2)


def test_other_subgroups_start_jointly_where_the_first_ones_fit_nowhere() -> None:
    scenario = replicas(three_racks().gang("first", 2, gpu=8))
    result = scenario.decide()
    assert result.where("first") == {"c": 2}
    assert sorted(racks_of(result, scenario, "serve")) == ["q", "r"]
    (placement,) = result.placements("serve")
    assert placement.cause == "start"


def test_a_subgroup_that_started_instead_is_not_tried_again_in_the_same_cycle() -> None:
    """The replica `r` comes after the first choice, `p` and `q`, and is one of those that start instead."""
    scenario = three_racks().gang("first", 2, gpu=8)
    parts = [SubgroupSpec(name, size, required="rack") for name, size in (("p", 6), ("q", 4), ("r", 1))]
    divided(scenario, "serve", *parts, min=5, min_subgroups=2)
    result = scenario.decide()
    assert sorted(result.placed()) == ["first", "serve"]
    assert {name: racks.total() for name, racks in racks_of(result, scenario, "serve").items()} == {
        "q": 4,
        "r": 1,
    }


def test_a_gang_that_started_with_other_subgroups_is_moved_with_them() -> None:
    scenario = three_racks().nodes("d", 5, gpu=8, within="s/d").nodes("e", 5, gpu=8, within="s/e")
    replicas(scenario.gang("first", 2, gpu=8))
    assert scenario.decide().where("serve") == {"d": 4, "e": 4}
    scenario.gang("five", 5, gpu=8, required="rack")
    result = scenario.decide()
    assert sorted(result.placed()) == ["first", "five", "serve"]
    assert sorted(racks_of(result, scenario, "serve")) == ["q", "r"]
    assert set(result.where("serve")) != {"d", "e"}


def test_a_subgroup_inside_segments_takes_part_with_its_own_level() -> None:
    """It may move, and stays in one rack."""
    scenario = three_racks().nodes("d", 2, gpu=8, cpu=32, within="s/d").gang("first", 2, gpu=8)
    outer = SubgroupSpec("outer", 2, required="rack", segment=2)
    divided(scenario, "odd", outer, SubgroupSpec("inner", 1, parent="outer", required="rack"))
    scenario.gang("left", 4, gpu=8, required="rack").gang("right", 4, gpu=8, required="rack")
    result = scenario.decide()
    assert sorted(result.placed()) == ["first", "left", "odd", "right"]
    assert {node[0] for node in result.where("odd")} in ({"c"}, {"d"})


def test_a_flavor_limit_on_some_nodes_of_a_gang_does_not_block_others() -> None:
    """How much of `odd` the flavor limit counts depends on its nodes, so `odd` takes no part."""
    scenario = three_racks().nodes("d", 1, gpu=8, memory=2048, within="s/d", labels={"flavor": "d"})
    scenario.nodes("e", 2, gpu=8, memory=2048, within="s/e")
    scenario.queue("flavors", flavors=[Flavor("d", (("flavor", "d"),), limit={GPU: 16})])
    scenario.gang("first", 2, gpu=8).gang("odd", 2, gpu=8, memory=1024, queue="flavors")
    scenario.gang("left", 4, gpu=8, required="rack").gang("right", 4, gpu=8, required="rack")
    result = scenario.decide()
    assert sorted(result.placed()) == ["first", "left", "odd", "right"]
    assert result.where("first") == {"c": 2}
