"""Reclaim: queues get back their guarantee and fair share by evictions, and no more."""

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


def evicted_gangs(scenario: Scenario) -> int:
    return len({each.gang for each in scenario.decide().result.evictions})


def test_a_guarantee_is_reclaimed() -> None:
    scenario = tenants(a={}, b={"guarantee": {GPU: 8}})
    decided = scenario.gang("b", 4, gpu=2, queue="b").decide()
    assert len(decided.evicted()) == 4
    assert {each.beneficiary for each in decided.result.evictions} == {"team/b"}
    assert {each.message for each in decided.result.evictions} == {
        "evicted so that team/b of queue b can start: queue a uses more than its guarantee"
    }
    assert decided.reasons()["b"] is Reason.EVICTION_IN_PROGRESS


def test_no_gang_within_the_guarantee_of_its_queue_is_evicted() -> None:
    scenario = tenants(a={"guarantee": {GPU: 12}}, b={"guarantee": {GPU: 8}})
    assert evicted_gangs(scenario.gang("b", 4, gpu=2, queue="b")) == 0


def test_a_fair_share_is_reclaimed() -> None:
    scenario = tenants(a={}, b={})
    decided = scenario.gang("b", 4, gpu=2, queue="b").decide()
    assert len({each.gang for each in decided.result.evictions}) == 2
    assert {each.message for each in decided.result.evictions} == {
        "evicted so that team/b of queue b can start: queue a uses more than its fair share"
    }


def test_no_more_than_the_fair_share_is_reclaimed() -> None:
    scenario = tenants(a={}, b={})
    assert evicted_gangs(scenario.gang("b", 5, gpu=2, queue="b")) == 0


def test_fair_shares_are_reclaimed_by_weight() -> None:
    scenario = tenants(a={"weight": 3}, b={})
    scenario.gang("b", 2, gpu=2, queue="b").gang("c", 2, gpu=2, queue="b")
    assert evicted_gangs(scenario) == 1


def test_the_last_victim_may_bring_its_queue_below_its_share_and_is_not_reclaimed() -> None:
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


def test_priority_does_not_count_between_queues() -> None:
    scenario = tenants(a={"weight": 3}, b={})
    scenario.gang("b0", 1, gpu=4, queue="b", on=[]).remove("a3").gang("b1", 1, gpu=4, queue="b", on=["n-1"])
    scenario.change("b0", priority=100)
    assert evicted_gangs(scenario) == 1
    assert {each.gang for each in scenario.decide().result.evictions} == {"gang-b1"}


def test_a_gang_with_preemption_policy_never_does_not_reclaim() -> None:
    scenario = tenants(a={}, b={"guarantee": {GPU: 8}})
    assert evicted_gangs(scenario.gang("b", 4, gpu=2, queue="b", preemption_policy="Never")) == 0


def test_a_gang_is_protected_for_the_reclaim_minimum_run_time_of_its_queue() -> None:
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
    assert evicted_gangs(scenario) == 2


def test_shares_are_compared_below_the_common_ancestor() -> None:
    """Inside org-1 one team uses everything and the other nothing: no victim is in org-2."""
    scenario = Scenario().queue("org-1").queue("org-2").nodes("n", 2, gpu=8)
    for name in ("a", "b"):
        scenario.queue(name, parent="org-1")
    scenario.queue("c", parent="org-2")
    scenario.gang("a0", 1, gpu=4, queue="a", on=["n-0"]).gang("a1", 1, gpu=4, queue="a", on=["n-0"])
    scenario.gang("c0", 1, gpu=8, queue="c", on=["n-1"]).gang("b", 1, gpu=4, queue="b")
    decided = scenario.decide()
    assert len(decided.evicted()) == 1
    assert decided.evicted()[0].startswith("a")


def test_no_gang_within_a_flavor_guarantee_is_evicted() -> None:
    flavor = Flavor("fast", (("group", "n"),), guarantee={GPU: 16})
    scenario = tenants(a={"flavors": [flavor]}, b={"guarantee": {GPU: 8}})
    assert evicted_gangs(scenario.gang("b", 4, gpu=2, queue="b")) == 0


@pytest.mark.parametrize(("selector", "gone"), [({"group": "n"}, 2), ({}, 0)])
@pytest.mark.parametrize("parent", [None, "org"])
def test_a_flavor_guarantee_is_reclaimed(selector: dict[str, str], gone: int, parent: str | None) -> None:
    """Only for a gang that can run nowhere else. A parent inherits the guarantees of its children."""
    flavor = Flavor("fast", (("group", "n"),), guarantee={GPU: 8})
    scenario = tenants(a={"weight": 1000}, org={}, b={"flavors": [flavor], "parent": parent})
    scenario.nodes("m", 1, gpu=2).nodes("o", 1)
    decided = scenario.gang("b", 4, gpu=2, queue="b", selector=selector).decide()
    assert len({each.gang for each in decided.result.evictions}) == gone
    assert all(each.message.endswith("more than its guarantee") for each in decided.result.evictions)


def test_use_of_a_sibling_counts_against_a_flavor_guarantee() -> None:
    flavor = Flavor("fast", (("group", "n"),), guarantee={GPU: 8})
    scenario = tenants(
        a={"weight": 1000},
        org={},
        b={"flavors": [flavor], "parent": "org"},
        c={"parent": "org", "reclaim_min_runtime_ms": 1 << 50},
    )
    scenario.remove("a0").gang("c", 1, gpu=4, queue="c", on=["n-0"], disruption=Disruption(preemptible=False))
    assert evicted_gangs(scenario.gang("b", 4, gpu=2, queue="b", selector={"group": "n"})) == 0


@pytest.mark.parametrize(
    ("sizes", "gone"), [((4,), 1), ((1, 3), 2), ((2, 2), 0), ((1, 1, 2), 0), ((1, 1, 1, 1), 0)]
)
def test_only_the_last_victim_may_exceed_what_its_queue_borrowed(sizes: tuple[int, ...], gone: int) -> None:
    """Queue a is two devices above its share; its largest gang is protected. A whole node is requested."""
    scenario = Scenario().queue("a").queue("b").nodes("n", 2, gpu=8)
    scenario.gang("large", 1, gpu=6, queue="a", on=["n-0"], disruption=Disruption(preemptible=False))
    for index, gpu in enumerate(sizes):
        scenario.gang(f"a{index}", 1, gpu=gpu, queue="a", on=["n-1"])
    assert evicted_gangs(scenario.gang("b", 1, gpu=8, queue="b")) == gone


def test_a_gang_with_surplus_counts_as_one_victim() -> None:
    """The queue is one device above its share, and this gang is the last victim."""
    scenario = Scenario().queue("a").queue("b").nodes("n", 2, gpu=8)
    scenario.gang("a", 9, min=8, gpu=1, queue="a", on=["n-0"] * 2 + ["n-1"] * 7)
    assert evicted_gangs(scenario.gang("b", 1, gpu=8, queue="b")) == 1


def test_a_lost_eviction_is_not_repeated_below_a_raised_guarantee() -> None:
    scenario = tenants(a={}, b={})
    first = scenario.gang("b", 4, gpu=2, queue="b").decide()
    assert len(first.evicted()) == 4
    scenario.memory = first.result.memory
    scenario.queue("a", guarantee={GPU: 16})
    scenario.now += EVICTION_CHECK_MS
    second = scenario.decide()
    assert second.evicted() == []
    assert second.reasons()["b"] is not Reason.EVICTION_IN_PROGRESS


@pytest.mark.parametrize(("guarantee", "gone"), [(4, 1), (8, 2), (2, 0)])
def test_no_more_than_the_guarantee_is_reclaimed(guarantee: int, gone: int) -> None:
    """The weight of queue a is so large that b is entitled to its guarantee only."""
    scenario = tenants(a={"weight": 1000}, b={"guarantee": {GPU: guarantee}})
    for index in range(4):
        scenario.gang(f"b{index}", 2, gpu=2, queue="b")
    assert evicted_gangs(scenario) == gone


@pytest.mark.parametrize(("guarantee", "gone"), [({CPU: 64_000}, 0), ({GPU: 8}, 2)])
def test_a_guarantee_of_cores_reclaims_no_devices(guarantee: dict[str, int], gone: int) -> None:
    """Requested devices must be guaranteed; cores and memory count only if the guarantee names them."""
    scenario = tenants(a={"weight": 1000}, b={"guarantee": guarantee})
    assert evicted_gangs(scenario.gang("b", 4, gpu=2, queue="b")) == gone


def test_a_guarantee_of_one_kind_of_device_is_sufficient() -> None:
    """Pods often request network devices in addition to GPUs, and no queue guarantees those."""
    scenario = tenants(a={"weight": 1000}, b={"guarantee": {GPU: 8}})
    for name, node in scenario._nodes.items():
        scenario._nodes[name] = replace(node, allocatable={**node.allocatable, "rdma/hca": 8})
    scenario.gang("b", 4, gpu=2, queue="b")
    shape = scenario.members("b")[0].shape
    shape = replace(shape, key=f"{shape.key}-rdma", requests={**shape.requests, "rdma/hca": 1})
    scenario.change("b", members=tuple(replace(pod, shape=shape) for pod in scenario.members("b")))
    assert evicted_gangs(scenario) == 2


def test_a_guarantee_of_cores_reclaims_cores() -> None:
    scenario = Scenario().queue("a", weight=1000).queue("b", guarantee={CPU: 8_000}).nodes("n", 1, cpu=16)
    scenario.gang("a0", 1, cpu=8, queue="a", on=["n-0"]).gang("a1", 1, cpu=8, queue="a", on=["n-0"])
    assert evicted_gangs(scenario.gang("b", 1, cpu=8, queue="b")) == 1


def test_the_victim_search_is_repeated_when_shares_change() -> None:
    """A third queue has demand and then none: nothing became free by that."""
    scenario = Scenario().queue("a").queue("b").queue("c").nodes("n", 2, gpu=8)
    scenario.gang("a", 8, gpu=2, queue="a", on=["n-0"] * 4 + ["n-1"] * 4)
    scenario.gang("b", 4, gpu=2, queue="b").gang("c", 8, gpu=1, queue="c", preemption_policy="Never")
    for _ in range(2):
        decided = scenario.decide()
        assert decided.evicted() == []
        scenario.take(decided)
    del scenario._gangs["c"]
    assert evicted_gangs(scenario) == 1


def test_the_victim_search_is_repeated_when_another_queue_uses_more() -> None:
    """The other queue used its share in the first search, and then got more elsewhere."""
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


def test_the_victim_search_is_repeated_when_a_queue_is_entitled_to_less() -> None:
    """A third queue gets demand, so that the queue above its share is entitled to less."""
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
    assert evicted_gangs(scenario) == 2


def test_pods_stuck_in_deletion_do_not_count_for_a_guarantee() -> None:
    """Found by the simulator: the other pods of the queue are all within its guarantee."""
    scenario = tenants(a={"guarantee": {GPU: 8}}, b={"guarantee": {GPU: 8}})
    scenario.now = 60_000_000_000
    for name in ("a0", "a1"):
        stuck = tuple(replace(pod, deleting=True, ended=1) for pod in scenario.members(name))
        scenario.change(name, members=stuck)
    assert evicted_gangs(scenario.gang("b", 4, gpu=2, queue="b")) == 0


def test_abundant_cores_do_not_prevent_the_reclaim_of_devices() -> None:
    """Found by a property test: a large gang with few cores per device waits in the same queue."""
    scenario = Scenario().queue("a").queue("b", weight=3).nodes("n", 2, gpu=4)
    for index in range(3):
        scenario.gang(f"a{index}", 1, gpu=1, queue="a", on=["n-0"])
    scenario.gang("b0", 5, gpu=1, queue="b", on=["n-0", *["n-1"] * 4])
    scenario.gang("large", 1, gpu=4, queue="b").gang("b1", 1, gpu=1, queue="b")
    assert evicted_gangs(scenario) == 1


def test_no_gang_is_evicted_for_its_use_of_abundant_cores() -> None:
    """Queue b uses its share of the devices. One device is free on each node, and a gang needs two on one."""
    scenario = Scenario().queue("a").queue("b").nodes("n", 2, gpu=4)
    for node in ("n-0", "n-1"):
        scenario.gang(f"a-{node}", 1, gpu=1, queue="a", on=[node])
        for index in range(2):
            scenario.gang(f"b{index}-{node}", 1, gpu=1, cpu=2, queue="b", on=[node])
    scenario.gang("large", 2, gpu=4, queue="b").gang("a", 1, gpu=2, queue="a")
    report = scenario.decide().result.queues["b"]
    assert report.allocated[GPU] == report.fair_share[GPU]
    assert report.allocated[CPU] > report.fair_share[CPU]
    assert evicted_gangs(scenario) == 0


def test_use_above_the_limit_is_reclaimed_though_capacity_is_abundant() -> None:
    """One device is free on each of two nodes, and a gang needs two on one."""
    scenario = Scenario().queue("a").queue("c", limit={GPU: 1}).nodes("n", 2, gpu=4)
    scenario.gang("a0", 2, gpu=2, queue="a", on=["n-0", "n-1"])
    scenario.gang("c0", 2, min=1, gpu=1, queue="c", on=["n-0", "n-1"])
    assert len(scenario.gang("a1", 1, gpu=2, queue="a").decide().evicted()) == 1


@pytest.mark.parametrize("limit", [{}, {CPU: 2000}])
@pytest.mark.parametrize("gpus", [1, 3])
def test_a_limit_of_abundant_cores_does_not_keep_devices(limit: dict[str, int], gpus: int) -> None:
    """Queue c has no whole device of its share, and a gang of 3 takes a beyond its own."""
    scenario = Scenario().queue("a", weight=9).queue("b", weight=9).queue("c", limit=limit)
    scenario.nodes("n", 1, gpu=4, cpu=64)
    scenario.gang("c0", 1, gpu=4, cpu=4, queue="c", on=["n-0"]).gang("b0", 1, gpu=4, cpu=1, queue="b")
    assert scenario.gang("a0", 1, gpu=gpus, cpu=1, queue="a").decide().evicted() == ["c0-0"]
