"""What nobody can take back stays inside the guarantees of its queues."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.model.api.pod_groups import Disruption
from phalanx.model.memory import Memory, Nomination
from phalanx.model.names import GangId, NodeName
from phalanx.model.queues import Flavor
from phalanx.model.reasons import Reason
from phalanx.model.resources import CPU, GPU

from tests.builders import Scenario

STAYS = Disruption(preemptible=False)
LIMIT, ABOVE = Reason.QUEUE_LIMIT, Reason.ABOVE_QUEUE_LIMIT


def guaranteed(gpus: int = 4, **queue: Any) -> Scenario:
    """Sixteen devices, of which the queue is guaranteed some."""
    scenario = Scenario().nodes("n", 2, gpu=8, cpu=1000)
    return scenario.queue("q", **{"guarantee": {GPU: gpus}, **queue})


def lasting(scenario: Scenario, name: str, count: int, **fields: Any) -> Scenario:
    return scenario.gang(name, count, **{"gpu": 1, "queue": "q", "disruption": STAYS, **fields})


def test_it_starts_inside_the_guarantee_and_not_beyond() -> None:
    scenario = lasting(lasting(guaranteed(), "fits", 3), "next", 2)
    decided = scenario.gang("other", 9, gpu=1, queue="q").decide()
    assert decided.placed() == ["fits", "other"]
    verdict = decided.verdict("next")
    assert verdict.reason is LIMIT
    assert verdict.message == (
        "the guarantee of queue q for gangs that are not preemptible is reached: 2 nvidia.com/gpu needed, "
        "1 nvidia.com/gpu left"
    )
    assert "1 nvidia.com/gpu of the guarantee of queue q" in verdict.next_step


def test_one_that_is_larger_than_the_guarantee_never_starts() -> None:
    verdict = lasting(guaranteed(), "large", 5).decide().verdict("large")
    assert verdict.reason is ABOVE
    assert "the guarantee of queue q for gangs that are not preemptible allows 4" in verdict.message


@pytest.mark.parametrize(
    "fields",
    [{"disruption": Disruption()}, {"queue": "default"}, {"gpu": 0}],
    ids=["preemptible", "no guarantee", "of another resource"],
)
def test_who_is_not_concerned(fields: dict[str, Any]) -> None:
    assert lasting(guaranteed(), "large", 5, **fields).decide().placed() == ["large"]


def test_a_guarantee_of_nothing_is_none() -> None:
    assert lasting(guaranteed(0), "large", 5).decide().placed() == ["large"]


def test_what_preemptible_gangs_hold_does_not_count() -> None:
    scenario = guaranteed().gang("borrows", 12, gpu=1, bound=12, queue="q")
    assert lasting(scenario, "fits", 4).decide().placed() == ["fits"]


def test_what_such_gangs_hold_counts_until_it_is_gone() -> None:
    scenario = lasting(guaranteed(), "runs", 3, bound=3)
    assert lasting(scenario, "next", 2).decide().reasons() == {"next": LIMIT}
    assert scenario.remove("runs").decide().placed() == ["next"]


def test_the_guarantees_above_count_with_all_that_is_below_them() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8, cpu=1000).queue("top", guarantee={GPU: 4})
    scenario.queue("a", parent="top").queue("b", parent="top", guarantee={GPU: 3})
    lasting(scenario, "a", 2, bound=2, queue="a")
    lasting(scenario, "b", 3, queue="b")
    verdict = lasting(scenario, "c", 2, queue="a").decide().verdict("b")
    assert verdict.reason is LIMIT
    assert "guarantee of queue top" in verdict.message


def test_what_children_guarantee_binds_no_other_child() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8, cpu=1000).queue("top").queue("a", parent="top")
    scenario.queue("b", parent="top", guarantee={GPU: 3})
    assert lasting(scenario, "a", 9, queue="a").decide().placed() == ["a"]


def test_a_guarantee_that_cannot_be_kept_counts_as_far_as_it_can() -> None:
    """Eight of sixteen devices each, where either was told all of them."""
    scenario = guaranteed(16).queue("p", guarantee={GPU: 16})
    assert lasting(scenario, "large", 9).decide().reasons() == {"large": ABOVE}
    assert lasting(scenario, "small", 8).decide().placed() == ["small"]


def test_a_flavor_has_its_own_guarantee_and_others_take_the_rest() -> None:
    scenario = Scenario().nodes("a", 1, gpu=8).nodes("h", 1, gpu=8)
    flavor = Flavor("h100", (("group", "h"),), guarantee={GPU: 3})
    scenario.queue("q", flavors=[flavor])
    lasting(scenario, "wide", 11)
    assert scenario.decide().where("wide") == {"a": 8, "h": 3}
    lasting(scenario, "wide", 12)
    verdict = scenario.decide().verdict("wide")
    assert verdict.reason is ABOVE
    assert "guarantee of queue q of flavor h100 for gangs" in verdict.message


def test_lost_members_come_back_and_surplus_does_not_come() -> None:
    """The guarantee was cut to two while four were running."""
    scenario = lasting(guaranteed(2), "runs", 6, min=4, bound=4)
    decided = scenario.decide()
    assert decided.placed() == []
    assert decided.verdict("runs").reason is ABOVE
    lasting(scenario, "runs", 4, bound=4).lose("runs", 2)
    scenario.change("runs", started=True)
    assert scenario.decide().placed() == ["runs"]


def test_surplus_comes_inside_the_guarantee() -> None:
    scenario = lasting(guaranteed(5), "grows", 9, min=3)
    decided = scenario.decide()
    assert [len(each.binds) for each in decided.placements("grows")] == [3, 2]
    assert decided.verdict("grows").reason is LIMIT


def test_one_that_lost_all_its_members_begins_again() -> None:
    assert lasting(guaranteed(1), "again", 4, starts_over=True).decide().placed() == ["again"]


def test_one_that_is_partly_bound_is_completed() -> None:
    assert lasting(guaranteed(1), "half", 4, bound=2).decide().placed() == ["half"]


def test_nobody_is_evicted_for_what_eviction_does_not_help() -> None:
    scenario = guaranteed().gang("lends", 16, gpu=1, bound=16, disruption=Disruption(), queue="q")
    lasting(scenario, "large", 5, priority=9)
    decided = scenario.decide()
    assert (decided.evicted(), decided.reasons()) == ([], {"large": ABOVE})
    lasting(scenario, "large", 4, priority=9)
    assert len(scenario.decide().evicted()) == 16


def test_capacity_that_is_being_made_is_as_good_as_taken() -> None:
    """Else somebody used the guarantee up elsewhere, and who was evicted went for nothing."""
    scenario = guaranteed()
    lasting(lasting(scenario, "waits", 4, gpu=2), "next", 4)
    seats = {NodeName("n-0"): {GPU: 4}}
    nomination = Nomination(usage=seats, victims=(), until=scenario.now + 1, attempts=1)
    scenario.memory = Memory(nominations={GangId("gang-waits"): nomination})
    assert scenario.decide().reasons()["next"] is LIMIT
    scenario.change("next", priority=1)
    assert scenario.decide().placed() == ["next"]


def test_the_plugin_can_be_switched_off() -> None:
    config = SchedulerConfig(plugins=(PluginConfig(name="not-preemptible", enabled=False),))
    assert lasting(guaranteed(), "large", 5).decide(config).placed() == ["large"]


GANGS = st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.sampled_from("ab")), max_size=7)


@given(GANGS, st.integers(0, 8), st.integers(0, 8), st.integers(0, 8), st.integers(0, 99))
def test_such_gangs_never_hold_more_than_is_guaranteed(
    gangs: list[tuple[int, bool, str]], top: int, a: int, b: int, shuffle: int
) -> None:
    """Every gang that would not break a guarantee is placed in its turn, and no other one."""
    scenario = Scenario().nodes("n", 6, gpu=8, cpu=1000).queue("top", guarantee={GPU: top})
    told = {"a": a, "b": b, "top": top}
    for queue in "ab":
        scenario.queue(queue, parent="top", guarantee={GPU: told[queue]})
    for index, (count, stays, queue) in enumerate(gangs):
        fields = {"disruption": STAYS} if stays else {}
        scenario.gang(f"g{index}", count, gpu=1, queue=queue, **fields)
    decided = scenario.decide(shuffle=shuffle)
    reports = decided.result.queues
    kept = {name: reports[name].guarantee.get(GPU, 0) for name, amount in told.items() if amount}
    held = dict.fromkeys(told, 0)
    placed = decided.placed()
    for name in placed:
        count, stays, queue = gangs[int(name[1:])]
        for each in (queue, "top") if stays else ():
            held[each] += count
    assert all(held[name] <= amount for name, amount in kept.items())
    for index, (count, stays, queue) in enumerate(gangs):
        if f"g{index}" not in placed:
            assert stays
            assert any(held[each] + count > kept[each] for each in (queue, "top") if each in kept)


def test_cores_are_guaranteed_as_devices_are() -> None:
    scenario = guaranteed(guarantee={GPU: 4, CPU: 2000})
    verdict = lasting(scenario, "fits", 3).decide().verdict("fits")
    assert verdict.reason is ABOVE
    assert "3 cpu" in verdict.message


RACKED = st.tuples(st.integers(1, 8), st.integers(0, 3), st.booleans(), st.booleans())


@given(st.lists(RACKED, min_size=2, max_size=6), st.integers(4, 16), st.integers(0, 99))
def test_nor_when_gangs_are_moved_for_each_other_or_grow(
    gangs: list[tuple[int, int, bool, bool]], guarantee: int, shuffle: int
) -> None:
    """Racks with holes, so that starts that fail are looked at once more together with those that did not."""
    scenario = Scenario("rack").queue("q", guarantee={GPU: guarantee})
    for rack, used in (("a", 0), ("b", 3), ("c", 5)):
        scenario.nodes(rack, 1, gpu=8, cpu=1000, within=rack, used={GPU: used})
    for index, (count, more, stays, in_rack) in enumerate(gangs):
        fields: dict[str, Any] = {"disruption": STAYS} if stays else {}
        fields |= {"required": "rack"} if in_rack else {}
        scenario.gang(f"g{index}", count + more, min=count, gpu=1, queue="q", **fields)
    decided = scenario.decide(shuffle=shuffle)
    kept = decided.result.queues["q"].guarantee[GPU]
    stay = [f"g{index}" for index, (_, _, stays, _) in enumerate(gangs) if stays]
    assert sum(len(decided.nodes(name)) for name in stay) <= kept
    assert decided.result.stats.errors == ()
