"""Preemption with pod affinity, anti-affinity, GPU shares and NUMA zones: no eviction is useless."""

from msgspec.structs import replace
from phalanx.model.names import PodUid
from phalanx.model.pods import Device, PodPhase
from phalanx.model.reasons import Reason
from phalanx.model.resources import GPU

from tests.builders import Scenario, numa, term


def test_pods_that_match_the_affinity_of_the_gang_are_not_evicted() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8)
    scenario.gang("data", 1, gpu=8, on=["n-0"], labels={"app": "data"})
    decided = scenario.gang("high", 1, gpu=8, priority=5, near=[term(app="data")]).decide()
    assert decided.evicted() == []


def test_another_victim_is_chosen_though_it_costs_more() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8)
    scenario.gang("data", 1, gpu=4, on=["n-0"], labels={"app": "data"})
    scenario.gang("other", 2, gpu=2, on=["n-0"] * 2)
    decided = scenario.gang("high", 1, gpu=4, priority=5, near=[term(app="data")]).decide()
    assert sorted(decided.evicted()) == ["other-0", "other-1"]


def test_one_of_several_pods_that_match_the_affinity_may_be_evicted() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8)
    for index in (0, 1):
        scenario.gang(f"data-{index}", 1, gpu=4, on=["n-0"], labels={"app": "data"})
    decided = scenario.gang("high", 1, gpu=4, priority=5, near=[term(app="data")]).decide()
    assert len(decided.evicted()) == 1


def test_pods_that_match_the_anti_affinity_are_evicted() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8)
    scenario.gang("noisy", 1, gpu=1, on=["n-0"], labels={"app": "noisy"})
    decided = scenario.gang("high", 1, gpu=1, priority=5, apart=[term(app="noisy")]).decide()
    assert decided.evicted() == ["noisy-0"]


def test_no_gang_is_evicted_where_a_protected_pod_matches_the_anti_affinity() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8)
    scenario.gang("noisy", 1, gpu=1, on=["n-0"], labels={"app": "noisy"}, priority=9)
    scenario.gang("low", 1, gpu=7, on=["n-0"])
    decided = scenario.gang("high", 1, gpu=1, priority=5, apart=[term(app="noisy")]).decide()
    assert decided.evicted() == []


def _two_apart(nodes: int) -> Scenario:
    """Nodes full of small gangs; one of two important pods with anti-affinity that need half a node each."""
    scenario = Scenario().nodes("n", nodes, gpu=8)
    for index in range(nodes):
        for half in (0, 1):
            scenario.gang(f"low-{index}-{half}", 1, gpu=4, on=[f"n-{index}"])
    return scenario.gang("one", 1, gpu=4, priority=5, labels={"app": "x"}, apart=[term(app="x")])


def _with_second(scenario: Scenario) -> Scenario:
    return scenario.gang("two", 1, gpu=4, priority=5, labels={"app": "x"}, apart=[term(app="x")])


def test_pods_with_anti_affinity_are_nominated_on_two_nodes() -> None:
    decided = _with_second(_two_apart(2)).decide()
    assert len({each.node for each in decided.result.nominations}) == 2
    assert len(decided.evicted()) == 2


def test_only_one_of_two_pods_with_anti_affinity_is_nominated_on_one_node() -> None:
    decided = _with_second(_two_apart(1)).decide()
    assert len(decided.evicted()) == 1


def test_anti_affinity_holds_against_nominations_of_earlier_cycles() -> None:
    scenario = _two_apart(2)
    first = scenario.decide()
    second = _with_second(scenario.terminate(first)).decide()
    nodes = [each.node for each in (*first.result.nominations, *second.result.nominations)]
    assert len(nodes) == len(set(nodes)) == 2


def _on_device(scenario: Scenario, gang: str, device: int, taken: int) -> None:
    (pod,) = scenario.members(gang)
    scenario.change(gang, members=(replace(pod, device=Device(device, taken)),))


def test_a_nomination_of_a_share_holds_one_device() -> None:
    """`high` needs more of device 0 than the victim uses: `early` must not use the rest of that device."""
    scenario = Scenario().nodes("n", 1, shared=2)
    scenario.gang("low", 1, share=600, on=["n-0"]).gang("keeps", 1, share=400, on=["n-0"], priority=99)
    _on_device(scenario, "low", 0, 600)
    _on_device(scenario, "keeps", 1, 400)
    scenario.gang("high", 1, share=800, priority=5)
    first = scenario.decide()
    assert first.evicted() == ["low-0"]
    scenario.terminate(first).gang("early", 1, share=400, priority=5, preemption_policy="Never")
    second = scenario.decide()
    assert second.devices("early") == {"early-0": 1}
    assert second.reasons() == {"high": Reason.EVICTION_IN_PROGRESS}


def test_a_nomination_of_an_aligned_pod_holds_a_zone() -> None:
    """One of two victims has ended. A small pod would fit, but the kubelet may use the nominated zone."""
    zones = numa({GPU: 4}, {GPU: 4}, free=[{GPU: 0}, {GPU: 2}])
    scenario = Scenario().nodes("n", 1, gpu=8, numa=zones)
    for name, priority in (("low-0", 0), ("low-1", 0), ("keeps", 99)):
        scenario.gang(name, 1, gpu=2, on=["n-0"], priority=priority, containers=[{GPU: 2}])
    scenario.gang("high", 1, gpu=4, priority=5, containers=[{GPU: 4}])
    first = scenario.decide()
    assert sorted(first.evicted()) == ["low-0-0", "low-1-0"]
    scenario.terminate(first).remove("low-0").gang(
        "early", 1, gpu=2, priority=5, preemption_policy="Never", containers=[{GPU: 2}]
    )
    assert scenario.decide().placed() == []


def test_the_cost_of_a_node_includes_pods_that_match_the_anti_affinity() -> None:
    """The victims on the first node would cost least without the pod that matches the anti-affinity."""
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


def test_another_zone_is_free_for_others_while_the_victims_use_their_whole_zone() -> None:
    zones = numa({GPU: 4}, {GPU: 4}, free=[{GPU: 0}, {GPU: 2}])
    scenario = Scenario().nodes("n", 1, gpu=8, numa=zones)
    scenario.gang("low", 1, gpu=4, on=["n-0"], containers=[{GPU: 4}])
    scenario.gang("keeps", 1, gpu=2, on=["n-0"], priority=99, containers=[{GPU: 2}])
    scenario.gang("high", 1, gpu=4, priority=5, containers=[{GPU: 4}])
    first = scenario.decide()
    assert first.evicted() == ["low-0"]
    small = {"gpu": 2, "priority": 5, "containers": [{GPU: 2}]}
    scenario.terminate(first).gang("early", 1, preemption_policy="Never", **small)
    second = scenario.decide()
    assert second.placed() == ["early"]
    assert second.reasons() == {"high": Reason.EVICTION_IN_PROGRESS}


def test_a_pod_is_not_placed_where_it_violates_the_anti_affinity_of_a_nomination() -> None:
    """One victim is recreated before the other has ended: its old node has capacity, but it is nominated."""
    noisy = {"labels": {"app": "noisy"}, "apart": [term(app="noisy")]}
    scenario = Scenario().nodes("n", 2, gpu=8)
    for index in (0, 1):
        scenario.gang(f"low-{index}", 1, gpu=2, on=[f"n-{index}"], **noisy)
    decided = scenario.gang("high", 2, gpu=2, priority=5, **noisy).decide()
    assert sorted(decided.evicted()) == ["low-0-0", "low-1-0"]
    scenario.terminate(decided)
    (pod,) = scenario.members("low-0")
    fresh = replace(pod, uid=PodUid("again"), node=None, phase=PodPhase.PENDING, deleting=False)
    scenario.change("low-0", members=(fresh,), started=False)
    decided = scenario.decide()
    assert decided.placed() == []
    scenario.remove("low-1").memory = decided.result.memory
    assert scenario.decide().placed() == ["high"]
