"""Queues take back what they are due, and no more."""

from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.framework.retry import EVICTION_CHECK_MS, RetryConfig
from phalanx.model.api.pod_groups import Disruption
from phalanx.model.queues import Flavor
from phalanx.model.reasons import Reason
from phalanx.model.resources import CPU, GPU

from tests.builders import Scenario

VICTIM_SEARCH_PERIOD_MS = RetryConfig().victim_search_ms


def tenants(**queues: dict[str, Any]) -> Scenario:
    """Two nodes of 8 GPUs; queue a has filled them with gangs of 4."""
    scenario = Scenario().nodes("n", 2, gpu=8, cpu=640)
    for name, fields in queues.items():
        scenario.queue(name, **fields)
    for index in range(4):
        scenario.gang(f"a{index}", 2, gpu=2, queue="a", on=[f"n-{index // 2}"] * 2)
    return scenario


def gangs_gone(scenario: Scenario) -> int:
    return len({each.gang for each in scenario.decide().result.evictions})


def test_a_guarantee_comes_back() -> None:
    scenario = tenants(a={}, b={"guarantee": {GPU: 8}})
    decided = scenario.gang("b", 4, gpu=2, queue="b").decide()
    assert len(decided.evicted()) == 4
    assert {each.beneficiary for each in decided.result.evictions} == {"team/b"}
    assert {each.message for each in decided.result.evictions} == {
        "evicted so that team/b of queue b can start: queue a uses more than its guarantee"
    }
    assert decided.reasons()["b"] is Reason.EVICTION_IN_PROGRESS


def test_another_guarantee_is_not_touched() -> None:
    scenario = tenants(a={"guarantee": {GPU: 12}}, b={"guarantee": {GPU: 8}})
    assert gangs_gone(scenario.gang("b", 4, gpu=2, queue="b")) == 0


def test_a_fair_share_comes_back() -> None:
    scenario = tenants(a={}, b={})
    decided = scenario.gang("b", 4, gpu=2, queue="b").decide()
    assert len({each.gang for each in decided.result.evictions}) == 2
    assert {each.message for each in decided.result.evictions} == {
        "evicted so that team/b of queue b can start: queue a uses more than its fair share"
    }


def test_more_than_a_fair_share_does_not() -> None:
    scenario = tenants(a={}, b={})
    assert gangs_gone(scenario.gang("b", 5, gpu=2, queue="b")) == 0


def test_the_weight_counts() -> None:
    scenario = tenants(a={"weight": 3}, b={})
    scenario.gang("b", 2, gpu=2, queue="b").gang("c", 2, gpu=2, queue="b")
    assert gangs_gone(scenario) == 1


def test_the_last_gang_may_bring_a_queue_below_its_share_and_does_not_come_back() -> None:
    scenario = Scenario().queue("a").queue("b").nodes("n", 1, gpu=10)
    scenario.gang("a0", 1, gpu=5, queue="a", on=["n-0"]).gang("a1", 1, gpu=4, queue="a", on=["n-0"])
    scenario.gang("b", 1, gpu=5, queue="b")
    decided = scenario.decide()
    assert decided.evicted() == ["a1-0"]
    scenario.take(decided)
    for _ in range(4):
        decided = scenario.decide()
        scenario.take(decided)
        assert decided.evicted() == []


def test_priority_counts_for_nothing_between_queues() -> None:
    scenario = tenants(a={"weight": 3}, b={})
    scenario.gang("b0", 1, gpu=4, queue="b", on=[]).remove("a3").gang("b1", 1, gpu=4, queue="b", on=["n-1"])
    scenario.change("b0", priority=100)
    assert gangs_gone(scenario) == 1
    assert {each.gang for each in scenario.decide().result.evictions} == {"gang-b1"}


def test_a_queue_that_never_preempts_waits() -> None:
    scenario = tenants(a={}, b={"guarantee": {GPU: 8}})
    assert gangs_gone(scenario.gang("b", 4, gpu=2, queue="b", preemption_policy="Never")) == 0


def test_what_a_queue_lends_is_safe_for_its_time() -> None:
    scenario = tenants(a={"reclaim_min_runtime_ms": 60_000}, b={"guarantee": {GPU: 8}})
    for index in range(4):
        pods = tuple(
            replace(pod, running_since=scenario.now // 1000) for pod in scenario.members(f"a{index}")
        )
        scenario.change(f"a{index}", members=pods)
    scenario.gang("b", 4, gpu=2, queue="b")
    decided = scenario.decide()
    assert not decided.evicted()
    scenario.take(decided)
    scenario.now += 60_000
    assert gangs_gone(scenario) == 2


def test_shares_compare_where_the_paths_part() -> None:
    """Inside org-1 one team has all, and the other nothing: org-2 has no part in that."""
    scenario = Scenario().queue("org-1").queue("org-2").nodes("n", 2, gpu=8)
    for name in ("a", "b"):
        scenario.queue(name, parent="org-1")
    scenario.queue("c", parent="org-2")
    scenario.gang("a0", 1, gpu=4, queue="a", on=["n-0"]).gang("a1", 1, gpu=4, queue="a", on=["n-0"])
    scenario.gang("c0", 1, gpu=8, queue="c", on=["n-1"]).gang("b", 1, gpu=4, queue="b")
    decided = scenario.decide()
    assert len(decided.evicted()) == 1
    assert decided.evicted()[0].startswith("a")


def test_the_guarantee_of_a_flavor_is_kept_on_its_nodes() -> None:
    flavor = Flavor("fast", (("group", "n"),), guarantee={GPU: 16})
    scenario = tenants(a={"flavors": [flavor]}, b={"guarantee": {GPU: 8}})
    assert gangs_gone(scenario.gang("b", 4, gpu=2, queue="b")) == 0


@pytest.mark.parametrize(("selector", "gone"), [({"group": "n"}, 2), ({}, 0)])
@pytest.mark.parametrize("parent", [None, "org"])
def test_the_guarantee_of_a_flavor_comes_back(
    selector: dict[str, str], gone: int, parent: str | None
) -> None:
    """To a gang that can run nowhere else; a parent guarantees what its children do."""
    flavor = Flavor("fast", (("group", "n"),), guarantee={GPU: 8})
    scenario = tenants(a={"weight": 1000}, org={}, b={"flavors": [flavor], "parent": parent})
    scenario.nodes("m", 1, gpu=2).nodes("o", 1)
    decided = scenario.gang("b", 4, gpu=2, queue="b", selector=selector).decide()
    assert len({each.gang for each in decided.result.evictions}) == gone
    assert all(each.message.endswith("more than its guarantee") for each in decided.result.evictions)


def test_the_guarantee_of_a_flavor_is_used_up_by_what_its_parent_uses_there() -> None:
    flavor = Flavor("fast", (("group", "n"),), guarantee={GPU: 8})
    scenario = tenants(
        a={"weight": 1000},
        org={},
        b={"flavors": [flavor], "parent": "org"},
        c={"parent": "org", "reclaim_min_runtime_ms": 1 << 50},
    )
    scenario.remove("a0").gang("c", 1, gpu=4, queue="c", on=["n-0"], disruption=Disruption(preemptible=False))
    assert gangs_gone(scenario.gang("b", 4, gpu=2, queue="b", selector={"group": "n"})) == 0


@pytest.mark.parametrize(
    ("sizes", "gone"), [((4,), 1), ((1, 3), 2), ((2, 2), 0), ((1, 1, 2), 0), ((1, 1, 1, 1), 0)]
)
def test_only_the_last_gang_that_goes_may_be_more_than_is_beyond_the_share(
    sizes: tuple[int, ...], gone: int
) -> None:
    """Queue a is two devices above its share, and a whole node is asked for. The largest may not go."""
    scenario = Scenario().queue("a").queue("b").nodes("n", 2, gpu=8)
    scenario.gang("large", 1, gpu=6, queue="a", on=["n-0"], disruption=Disruption(preemptible=False))
    for index, gpu in enumerate(sizes):
        scenario.gang(f"a{index}", 1, gpu=gpu, queue="a", on=["n-1"])
    assert gangs_gone(scenario.gang("b", 1, gpu=8, queue="b")) == gone


def test_a_gang_with_members_beyond_its_minimum_is_one_gang_too() -> None:
    """It is one device above the share of its queue, and is the last gang that goes."""
    scenario = Scenario().queue("a").queue("b").nodes("n", 2, gpu=8)
    scenario.gang("a", 9, min=8, gpu=1, queue="a", on=["n-0"] * 2 + ["n-1"] * 7)
    assert gangs_gone(scenario.gang("b", 1, gpu=8, queue="b")) == 1


def test_an_eviction_that_was_lost_is_not_decided_again_below_a_guarantee_raised_since() -> None:
    scenario = tenants(a={}, b={})
    first = scenario.gang("b", 4, gpu=2, queue="b").decide()
    assert len(first.evicted()) == 4
    scenario.memory = first.result.memory
    scenario.queue("a", guarantee={GPU: 16})
    scenario.now += EVICTION_CHECK_MS
    second = scenario.decide()
    assert second.evicted() == []
    assert second.reasons()["b"] is not Reason.EVICTION_IN_PROGRESS


@pytest.mark.parametrize(("guarantee", "gone"), [(4, 1), (8, 2), (3, 0)])
def test_no_eviction_takes_more_than_the_guarantee_that_is_wanted(guarantee: int, gone: int) -> None:
    """Queue a has weight enough that only the guarantee of b is due to b."""
    scenario = tenants(a={"weight": 1000}, b={"guarantee": {GPU: guarantee}})
    for index in range(4):
        scenario.gang(f"b{index}", 2, gpu=2, queue="b")
    assert gangs_gone(scenario) == gone


@pytest.mark.parametrize(("guarantee", "gone"), [({CPU: 64_000}, 0), ({GPU: 8}, 2)])
def test_a_guarantee_of_cores_takes_no_devices(guarantee: dict[str, int], gone: int) -> None:
    """Devices that are asked for must be guaranteed; of cores and memory counts what the guarantee names."""
    scenario = tenants(a={"weight": 1000}, b={"guarantee": guarantee})
    assert gangs_gone(scenario.gang("b", 4, gpu=2, queue="b")) == gone


def test_a_guarantee_of_one_kind_of_device_is_enough() -> None:
    """Beside GPUs pods often ask for network devices, which nobody guarantees."""
    scenario = tenants(a={"weight": 1000}, b={"guarantee": {GPU: 8}})
    for name, node in scenario._nodes.items():
        scenario._nodes[name] = replace(node, allocatable={**node.allocatable, "rdma/hca": 8})
    scenario.gang("b", 4, gpu=2, queue="b")
    shape = scenario.members("b")[0].shape
    shape = replace(shape, key=f"{shape.key}-rdma", requests={**shape.requests, "rdma/hca": 1})
    scenario.change("b", members=tuple(replace(pod, shape=shape) for pod in scenario.members("b")))
    assert gangs_gone(scenario) == 2


def test_a_guarantee_of_cores_takes_cores() -> None:
    scenario = Scenario().queue("a", weight=1000).queue("b", guarantee={CPU: 8_000}).nodes("n", 1, cpu=16)
    scenario.gang("a0", 1, cpu=8, queue="a", on=["n-0"]).gang("a1", 1, cpu=8, queue="a", on=["n-0"])
    assert gangs_gone(scenario.gang("b", 1, cpu=8, queue="b")) == 1


def test_who_found_nobody_looks_again_when_shares_change() -> None:
    """A third queue wants its part, and then no more: nothing became free by that."""
    scenario = tenants(a={}, b={}, c={})
    scenario.gang("b", 4, gpu=2, queue="b").gang("c", 8, gpu=1, queue="c", preemption_policy="Never")
    for _ in range(2):
        decided = scenario.decide()
        assert decided.evicted() == []
        scenario.take(decided)
    del scenario._gangs["c"]
    assert gangs_gone(scenario) == 2


def test_who_found_nobody_looks_again_when_another_queue_takes_more() -> None:
    """The other queue had its share when it was looked at, and then placed more elsewhere."""
    scenario = Scenario().queue("a").queue("b").nodes("n", 1, gpu=8).nodes("m", 1, gpu=8)
    scenario.gang("a0", 1, gpu=8, queue="a", on=["n-0"]).gang(
        "b", 1, gpu=8, queue="b", selector={"group": "n"}
    )
    scenario.take(scenario.decide())
    scenario.gang("a1", 1, gpu=8, queue="a", selector={"group": "m"})
    gone = []
    for _ in range(3):
        decided = scenario.decide()
        gone += decided.evicted()
        scenario.take(decided)
    assert gone == ["a0-0"]


def test_who_found_nobody_looks_again_when_more_may_be_taken_of_the_same_queue() -> None:
    """A third queue wants its part, so that less is due to the one that is above its share already."""
    scenario = (
        Scenario().queue("a").queue("b", weight=10).queue("c").nodes("n", 2, gpu=8).nodes("m", 1, gpu=8)
    )
    for index, node in enumerate(("n-0", "n-0", "n-1", "n-1", "m-0")):
        scenario.gang(f"a{index}", 1, gpu=4, queue="a", on=[node])
    scenario.gang("b", 1, gpu=8, queue="b", selector={"group": "n"})
    scenario.gang("a5", 1, gpu=8, queue="a", selector={"group": "n"})
    for _ in range(2):
        decided = scenario.decide()
        assert decided.evicted() == []
        scenario.take(decided)
    scenario.gang("c", 1, gpu=8, queue="c", selector={"group": "m"}, preemption_policy="Never")
    soon = scenario.decide()
    assert (soon.evicted(), soon.result.wake_at) == ([], scenario.now + VICTIM_SEARCH_PERIOD_MS)
    scenario.take(soon)
    scenario.now += VICTIM_SEARCH_PERIOD_MS
    assert gangs_gone(scenario) == 2


def test_pods_that_are_stuck_in_deletion_are_no_part_of_a_guarantee() -> None:
    """Found by the simulator: what a queue has left beside them is all that its guarantee covers."""
    scenario = tenants(a={"guarantee": {GPU: 8}}, b={"guarantee": {GPU: 8}})
    scenario.now = 60_000_000_000
    for name in ("a0", "a1"):
        stuck = tuple(replace(pod, deleting=True, ended=1) for pod in scenario.members(name))
        scenario.change(name, members=stuck)
    assert gangs_gone(scenario.gang("b", 4, gpu=2, queue="b")) == 0


def test_cores_that_nobody_lacks_keep_no_gang_from_its_share_of_devices() -> None:
    """Found by a property: a large gang that needs few cores for its devices waits in the same queue."""
    scenario = Scenario().queue("a").queue("b", weight=3).nodes("n", 2, gpu=4)
    for index in range(3):
        scenario.gang(f"a{index}", 1, gpu=1, queue="a", on=["n-0"])
    scenario.gang("b0", 5, gpu=1, queue="b", on=["n-0", *["n-1"] * 4])
    scenario.gang("large", 1, gpu=4, queue="b").gang("b1", 1, gpu=1, queue="b")
    assert gangs_gone(scenario) == 1


def test_nobody_goes_for_cores_beyond_its_share_that_nobody_lacks() -> None:
    """Queue b uses its share of the devices. One device is free on each node, and a gang wants two on one."""
    scenario = Scenario().queue("a").queue("b").nodes("n", 2, gpu=4)
    for node in ("n-0", "n-1"):
        scenario.gang(f"a-{node}", 1, gpu=1, queue="a", on=[node])
        for index in range(2):
            scenario.gang(f"b{index}-{node}", 1, gpu=1, cpu=2, queue="b", on=[node])
    scenario.gang("large", 2, gpu=4, queue="b").gang("a", 1, gpu=2, queue="a")
    report = scenario.decide().result.queues["b"]
    assert report.allocated[GPU] == report.fair_share[GPU]
    assert report.allocated[CPU] > report.fair_share[CPU]
    assert gangs_gone(scenario) == 0


def test_a_queue_beyond_its_limit_gives_back_though_there_is_enough_for_all() -> None:
    """One device is free on each of two nodes, and a gang wants two on one."""
    scenario = Scenario().queue("a").queue("c", limit={GPU: 1}).nodes("n", 2, gpu=4)
    scenario.gang("a0", 2, gpu=2, queue="a", on=["n-0", "n-1"])
    scenario.gang("c0", 2, min=1, gpu=1, queue="c", on=["n-0", "n-1"])
    assert len(scenario.gang("a1", 1, gpu=2, queue="a").decide().evicted()) == 1
