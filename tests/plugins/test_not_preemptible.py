"""Gangs that are not preemptible stay within the guarantees of their queues."""

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
from tests.examples import holds

STAYS = Disruption(preemptible=False)
LIMIT, ABOVE = Reason.QUEUE_LIMIT, Reason.ABOVE_QUEUE_LIMIT


def guaranteed(gpus: int = 4, **queue: Any) -> Scenario:
    """Sixteen devices, some of which are guaranteed to the queue."""
    scenario = Scenario().nodes("n", 2, gpu=8, cpu=1000)
    return scenario.queue("q", **{"guarantee": {GPU: gpus}, **queue})


def not_preemptible(scenario: Scenario, name: str, count: int, **fields: Any) -> Scenario:
    return scenario.gang(name, count, **{"gpu": 1, "queue": "q", "disruption": STAYS, **fields})


def test_it_starts_within_the_guarantee_only() -> None:
    scenario = not_preemptible(not_preemptible(guaranteed(), "fits", 3), "next", 2)
    decided = scenario.gang("other", 9, gpu=1, queue="q").decide()
    assert decided.placed() == ["fits", "other"]
    verdict = decided.verdict("next")
    assert verdict.reason is LIMIT
    assert verdict.message == (
        "the guarantee of queue q for gangs that are not preemptible is reached: 2 nvidia.com/gpu needed, "
        "1 nvidia.com/gpu left"
    )
    assert "1 nvidia.com/gpu of the guarantee of queue q" in verdict.next_step


def test_a_gang_larger_than_the_guarantee_never_starts() -> None:
    verdict = not_preemptible(guaranteed(), "large", 5).decide().verdict("large")
    assert verdict.reason is ABOVE
    assert "the guarantee of queue q for gangs that are not preemptible allows 4" in verdict.message


@pytest.mark.parametrize(
    "fields",
    [{"disruption": Disruption()}, {"queue": "default"}, {"gpu": 0}],
    ids=["preemptible", "no guarantee", "of another resource"],
)
def test_other_gangs_are_not_restricted(fields: dict[str, Any]) -> None:
    assert not_preemptible(guaranteed(), "large", 5, **fields).decide().placed() == ["large"]


def test_the_use_of_preemptible_gangs_does_not_count() -> None:
    scenario = guaranteed().gang("borrows", 12, gpu=1, bound=12, queue="q")
    assert not_preemptible(scenario, "fits", 4).decide().placed() == ["fits"]


def test_the_use_of_such_gangs_counts_until_they_are_gone() -> None:
    scenario = not_preemptible(guaranteed(), "runs", 3, bound=3)
    assert not_preemptible(scenario, "next", 2).decide().reasons() == {"next": LIMIT}
    assert scenario.remove("runs").decide().placed() == ["next"]


def test_the_guarantees_of_ancestors_count_with_the_use_of_all_queues_below() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8, cpu=1000).queue("top", guarantee={GPU: 4})
    scenario.queue("a", parent="top").queue("b", parent="top", guarantee={GPU: 3})
    not_preemptible(scenario, "a", 2, bound=2, queue="a")
    not_preemptible(scenario, "b", 3, queue="b")
    verdict = not_preemptible(scenario, "c", 2, queue="a").decide().verdict("b")
    assert verdict.reason is LIMIT
    assert "guarantee of queue top" in verdict.message


def test_the_guarantee_of_a_child_does_not_restrict_its_siblings() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8, cpu=1000).queue("top").queue("a", parent="top")
    scenario.queue("b", parent="top", guarantee={GPU: 3})
    assert not_preemptible(scenario, "a", 9, queue="a").decide().placed() == ["a"]


def test_guarantees_that_do_not_fit_are_used_in_the_order_of_arrival() -> None:
    """Two queues with a guarantee of twelve of sixteen devices are guaranteed eight each."""
    scenario = guaranteed(12).queue("p", guarantee={GPU: 12})
    assert not_preemptible(scenario, "large", 13).decide().reasons() == {"large": ABOVE}
    assert not_preemptible(scenario, "large", 12).decide().placed() == ["large"]
    not_preemptible(scenario, "of-p", 6, queue="p", bound=6)
    assert not_preemptible(scenario, "large", 10).decide().placed() == ["large"]
    assert not_preemptible(scenario, "large", 11).decide().placed() == []


def test_a_flavor_guarantee_restricts_use_of_its_nodes_only() -> None:
    scenario = Scenario().nodes("a", 1, gpu=8).nodes("h", 1, gpu=8)
    flavor = Flavor("h100", (("group", "h"),), guarantee={GPU: 3})
    scenario.queue("q", flavors=[flavor])
    not_preemptible(scenario, "wide", 11)
    assert scenario.decide().where("wide") == {"a": 8, "h": 3}
    not_preemptible(scenario, "wide", 12)
    verdict = scenario.decide().verdict("wide")
    assert verdict.reason is ABOVE
    assert "guarantee of queue q of flavor h100 for gangs" in verdict.message


def test_lost_members_are_replaced_beyond_the_guarantee_but_surplus_is_not_placed() -> None:
    """The guarantee was reduced to two while four members were running."""
    scenario = not_preemptible(guaranteed(2), "runs", 6, min=4, bound=4)
    decided = scenario.decide()
    assert decided.placed() == []
    assert decided.verdict("runs").reason is ABOVE
    not_preemptible(scenario, "runs", 4, bound=4).lose("runs", 2)
    scenario.change("runs", started=True)
    assert scenario.decide().placed() == ["runs"]


def test_surplus_is_placed_within_the_guarantee() -> None:
    scenario = not_preemptible(guaranteed(5), "grows", 9, min=3)
    decided = scenario.decide()
    assert [len(each.binds) for each in decided.placements("grows")] == [3, 2]
    assert decided.verdict("grows").reason is LIMIT


def test_a_gang_that_lost_all_members_starts_again() -> None:
    assert not_preemptible(guaranteed(1), "again", 4, starts_over=True).decide().placed() == ["again"]


def test_a_partly_bound_gang_is_completed() -> None:
    assert not_preemptible(guaranteed(1), "half", 4, bound=2).decide().placed() == ["half"]


def test_no_gang_is_evicted_where_the_guarantee_is_too_small() -> None:
    scenario = guaranteed().gang("lends", 16, gpu=1, bound=16, disruption=Disruption(), queue="q")
    not_preemptible(scenario, "large", 5, priority=9)
    decided = scenario.decide()
    assert (decided.evicted(), decided.reasons()) == ([], {"large": ABOVE})
    not_preemptible(scenario, "large", 4, priority=9)
    assert len(scenario.decide().evicted()) == 16


def test_a_nomination_counts_as_used() -> None:
    """Otherwise another gang could use up the guarantee elsewhere, and the victims were evicted in vain."""
    scenario = guaranteed()
    not_preemptible(not_preemptible(scenario, "waits", 4, gpu=2), "next", 4)
    usage = {NodeName("n-0"): {GPU: 4}}
    nomination = Nomination(usage=usage, victims=(), until=scenario.now + 1, attempts=1)
    scenario.memory = Memory(nominations={GangId("gang-waits"): nomination})
    assert scenario.decide().reasons()["next"] is LIMIT
    scenario.change("next", priority=1)
    assert scenario.decide().placed() == ["next"]


def test_the_plugin_can_be_disabled() -> None:
    config = SchedulerConfig(plugins=(PluginConfig(name="not-preemptible", enabled=False),))
    assert not_preemptible(guaranteed(), "large", 5).decide(config).placed() == ["large"]


GANGS = st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.sampled_from("ab")), max_size=7)


@given(GANGS, st.integers(0, 8), st.integers(0, 8), st.integers(0, 8), st.integers(0, 99))
@holds(60)
def test_such_gangs_never_use_more_than_is_guaranteed(
    gangs: list[tuple[int, bool, str]], top: int, a: int, b: int, shuffle: int
) -> None:
    """Exactly the gangs that do not exceed a guarantee are placed, in order."""
    scenario = Scenario().nodes("n", 6, gpu=8, cpu=1000).queue("top", guarantee={GPU: top})
    stated = {"a": a, "b": b, "top": top}
    for queue in "ab":
        scenario.queue(queue, parent="top", guarantee={GPU: stated[queue]})
    for index, (count, stays, queue) in enumerate(gangs):
        fields = {"disruption": STAYS} if stays else {}
        scenario.gang(f"g{index}", count, gpu=1, queue=queue, **fields)
    decided = scenario.decide(shuffle=shuffle)
    reports = decided.result.queues
    kept = {name: reports[name].guarantee.get(GPU, 0) for name in stated}
    held = dict.fromkeys(stated, 0)
    placed = decided.placed()
    for name in placed:
        count, stays, queue = gangs[int(name[1:])]
        for each in (queue, "top") if stays else ():
            held[each] += count
    assert all(held[name] <= amount for name, amount in stated.items())
    assert held["a"] + held["b"] <= kept["a"] + kept["b"]
    for index, (count, stays, queue) in enumerate(gangs):
        if f"g{index}" not in placed:
            assert stays
            takes_all = held["a"] + held["b"] + count > kept["a"] + kept["b"]
            is_above = held[queue] + count > (kept if takes_all else stated)[queue]
            assert is_above or held["top"] + count > kept["top"]


def test_cores_are_guaranteed_as_devices_are() -> None:
    scenario = guaranteed(guarantee={GPU: 4, CPU: 2000})
    verdict = not_preemptible(scenario, "fits", 3).decide().verdict("fits")
    assert verdict.reason is ABOVE
    assert "3 cpu" in verdict.message


RACKED = st.tuples(st.integers(1, 8), st.integers(0, 3), st.booleans(), st.booleans())


@given(st.lists(RACKED, min_size=2, max_size=6), st.integers(4, 16), st.integers(0, 99))
@holds(40)
def test_they_never_use_more_with_joint_admission_and_surplus(
    gangs: list[tuple[int, int, bool, bool]], guarantee: int, shuffle: int
) -> None:
    """Partly used racks, so that starts that fail are solved again jointly with those that did not."""
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


def test_a_guarantee_of_nothing_holds_every_such_gang_back() -> None:
    assert not_preemptible(guaranteed(0), "one", 1).decide().reasons()["one"] is ABOVE
    assert not_preemptible(guaranteed(0), "none", 1, gpu=0).decide().placed() == ["none"]


@pytest.mark.parametrize("size", [1, 2])
def test_on_an_empty_cluster_a_gang_starts_although_the_guarantees_do_not_fit(size: int) -> None:
    """Each of two queues is guaranteed all devices, so that the scaled guarantees are half of a gang."""
    scenario = Scenario().nodes("n", 1, gpu=size)
    for queue in ("p", "q"):
        scenario.queue(queue, guarantee={GPU: size})
        scenario.gang(f"{queue}-gang", 1, gpu=size, queue=queue, disruption=STAYS)
    decided = scenario.decide()
    assert len(decided.placed()) == 1
    assert scenario.take(decided).decide().placed() == []
