"""Preemption where pods must be near each other, or apart, or share GPUs and zones: nobody goes in vain."""

from msgspec.structs import replace
from phalanx.model.names import PodUid
from phalanx.model.pods import Device, PodPhase
from phalanx.model.reasons import Reason
from phalanx.model.resources import GPU

from tests.builders import Scenario, numa, term


def test_whom_the_gang_must_be_near_to_is_not_evicted_for_it() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8)
    scenario.gang("data", 1, gpu=8, on=["n-0"], labels={"app": "data"})
    decided = scenario.gang("high", 1, gpu=8, priority=5, near=[term(app="data")]).decide()
    assert decided.evicted() == []


def test_somebody_else_goes_though_it_costs_more() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8)
    scenario.gang("data", 1, gpu=4, on=["n-0"], labels={"app": "data"})
    scenario.gang("other", 2, gpu=2, on=["n-0"] * 2)
    decided = scenario.gang("high", 1, gpu=4, priority=5, near=[term(app="data")]).decide()
    assert sorted(decided.evicted()) == ["other-0", "other-1"]


def test_one_of_those_that_it_must_be_near_to_may_go() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8)
    for index in (0, 1):
        scenario.gang(f"data-{index}", 1, gpu=4, on=["n-0"], labels={"app": "data"})
    decided = scenario.gang("high", 1, gpu=4, priority=5, near=[term(app="data")]).decide()
    assert len(decided.evicted()) == 1


def test_whom_the_gang_must_be_apart_from_goes() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8)
    scenario.gang("noisy", 1, gpu=1, on=["n-0"], labels={"app": "noisy"})
    decided = scenario.gang("high", 1, gpu=1, priority=5, apart=[term(app="noisy")]).decide()
    assert decided.evicted() == ["noisy-0"]


def test_whom_nothing_helps_evicts_nobody() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8)
    scenario.gang("noisy", 1, gpu=1, on=["n-0"], labels={"app": "noisy"}, priority=9)
    scenario.gang("low", 1, gpu=7, on=["n-0"])
    decided = scenario.gang("high", 1, gpu=1, priority=5, apart=[term(app="noisy")]).decide()
    assert decided.evicted() == []


def _two_apart(nodes: int) -> Scenario:
    """Each node is full of small gangs; two important pods that must be apart want half a node each."""
    scenario = Scenario().nodes("n", nodes, gpu=8)
    for index in range(nodes):
        for half in (0, 1):
            scenario.gang(f"low-{index}-{half}", 1, gpu=4, on=[f"n-{index}"])
    return scenario.gang("one", 1, gpu=4, priority=5, labels={"app": "x"}, apart=[term(app="x")])


def _wants_apart(scenario: Scenario) -> Scenario:
    return scenario.gang("two", 1, gpu=4, priority=5, labels={"app": "x"}, apart=[term(app="x")])


def test_pods_that_must_be_apart_get_room_on_two_nodes() -> None:
    decided = _wants_apart(_two_apart(2)).decide()
    assert len({each.node for each in decided.result.nominations}) == 2
    assert len(decided.evicted()) == 2


def test_pods_that_must_be_apart_get_room_on_one_node_once() -> None:
    decided = _wants_apart(_two_apart(1)).decide()
    assert len(decided.evicted()) == 1


def test_who_comes_a_cycle_later_keeps_apart_too() -> None:
    scenario = _two_apart(2)
    first = scenario.decide()
    second = _wants_apart(scenario.dying(first)).decide()
    nodes = [each.node for each in (*first.result.nominations, *second.result.nominations)]
    assert len(nodes) == len(set(nodes)) == 2


def _on_device(scenario: Scenario, gang: str, device: int, taken: int) -> None:
    (pod,) = scenario.members(gang)
    scenario.change(gang, members=(replace(pod, device=Device(device, taken)),))


def test_the_device_is_kept_on_which_a_share_gets_room() -> None:
    """Of device 0 the victim leaves less than the share needs: who took the rest would be in its way."""
    scenario = Scenario().nodes("n", 1, shared=2)
    scenario.gang("low", 1, share=600, on=["n-0"]).gang("keeps", 1, share=400, on=["n-0"], priority=99)
    _on_device(scenario, "low", 0, 600)
    _on_device(scenario, "keeps", 1, 400)
    scenario.gang("high", 1, share=800, priority=5)
    first = scenario.decide()
    assert first.evicted() == ["low-0"]
    scenario.dying(first).gang("early", 1, share=400, priority=5, preemption_policy="Never")
    second = scenario.decide()
    assert second.devices("early") == {"early-0": 1}
    assert second.reasons() == {"high": Reason.EVICTION_IN_PROGRESS}


def test_the_zone_is_kept_in_which_a_pod_gets_room() -> None:
    """The first of two victims has ended; a small pod would fit, but maybe in the zone that is to be free."""
    zones = numa({GPU: 4}, {GPU: 4}, free=[{GPU: 0}, {GPU: 2}])
    scenario = Scenario().nodes("n", 1, gpu=8, numa=zones)
    for name, priority in (("low-0", 0), ("low-1", 0), ("keeps", 99)):
        scenario.gang(name, 1, gpu=2, on=["n-0"], priority=priority, containers=[{GPU: 2}])
    scenario.gang("high", 1, gpu=4, priority=5, containers=[{GPU: 4}])
    first = scenario.decide()
    assert sorted(first.evicted()) == ["low-0-0", "low-1-0"]
    scenario.dying(first).remove("low-0").gang(
        "early", 1, gpu=2, priority=5, preemption_policy="Never", containers=[{GPU: 2}]
    )
    assert scenario.decide().placed() == []


def test_the_cheapest_goes_where_nobody_is_that_it_must_be_apart_from() -> None:
    """On the first node it would cost least, were there not one that is avoided and dear."""
    scenario = Scenario().nodes("n", 3, gpu=8)
    scenario.gang("noisy", 1, cpu=60, on=["n-0"], labels={"app": "noisy"})
    scenario.gang("near", 1, gpu=8, on=["n-0"]).gang("whole", 1, gpu=8, on=["n-2"])
    scenario.gang("half-0", 1, gpu=4, on=["n-1"]).gang("half-1", 1, gpu=4, on=["n-1"])
    scenario.now = 60_000_000_000
    for name, minutes in (
        ("noisy", 10_000),
        ("near", 60),
        ("half-0", 2520),
        ("half-1", 2520),
        ("whole", 2460),
    ):
        (pod,) = scenario.members(name)
        began = scenario.now // 1000 - minutes * 60
        scenario.change(name, members=(replace(pod, running_since=began),))
    decided = scenario.gang("high", 1, gpu=8, priority=10, apart=[term(app="noisy")]).decide()
    assert decided.evicted() == ["whole-0"]
    assert "lower bound" in str(decided.verdict("high").evidence)


def test_another_zone_is_free_for_others_while_the_victims_hold_all_of_theirs() -> None:
    zones = numa({GPU: 4}, {GPU: 4}, free=[{GPU: 0}, {GPU: 2}])
    scenario = Scenario().nodes("n", 1, gpu=8, numa=zones)
    scenario.gang("low", 1, gpu=4, on=["n-0"], containers=[{GPU: 4}])
    scenario.gang("keeps", 1, gpu=2, on=["n-0"], priority=99, containers=[{GPU: 2}])
    scenario.gang("high", 1, gpu=4, priority=5, containers=[{GPU: 4}])
    first = scenario.decide()
    assert first.evicted() == ["low-0"]
    small = {"gpu": 2, "priority": 5, "containers": [{GPU: 2}]}
    scenario.dying(first).gang("early", 1, preemption_policy="Never", **small)
    second = scenario.decide()
    assert second.placed() == ["early"]
    assert second.reasons() == {"high": Reason.EVICTION_IN_PROGRESS}


def test_nobody_takes_a_place_from_which_those_to_come_must_be_apart() -> None:
    """One victim is made anew before the other has ended: there is room on its old node, but not beside."""
    noisy = {"labels": {"app": "noisy"}, "apart": [term(app="noisy")]}
    scenario = Scenario().nodes("n", 2, gpu=8)
    for index in (0, 1):
        scenario.gang(f"low-{index}", 1, gpu=2, on=[f"n-{index}"], **noisy)
    decided = scenario.gang("high", 2, gpu=2, priority=5, **noisy).decide()
    assert sorted(decided.evicted()) == ["low-0-0", "low-1-0"]
    scenario.dying(decided)
    (pod,) = scenario.members("low-0")
    fresh = replace(pod, uid=PodUid("again"), node=None, phase=PodPhase.PENDING, deleting=False)
    scenario.change("low-0", members=(fresh,), started=False)
    decided = scenario.decide()
    assert decided.placed() == []
    scenario.remove("low-1").memory = decided.result.memory
    assert scenario.decide().placed() == ["high"]
