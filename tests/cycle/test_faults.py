"""Invariants of every cycle in random histories of faults of nodes, members and gangs."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig, ToleranceConfig
from phalanx.model.api.pod_groups import Recovery, RecoveryMode
from phalanx.model.decisions import CycleResult
from phalanx.model.memory import Memory
from phalanx.model.pod_failures import PodFailure
from phalanx.model.pods import Pod, PodPhase

from tests.builders import Decided, Scenario
from tests.examples import holds

CONFIG = SchedulerConfig(tolerance=ToleranceConfig(breaker_nodes_min=2))
MODES = st.sampled_from([RecoveryMode.REPLACE, RecoveryMode.RESTART, *RecoveryMode])
UNKNOWN = {"Ready": "Unknown"}
HEALTH = st.sampled_from([{}, {"Ready": "True"}, UNKNOWN, UNKNOWN, {"GpuXidError": "True"}])
FATES = st.sampled_from([*["stays"] * 6, "fails", "succeeds", "is deleted", "is recreated"])
GANGS = ("a", "b")
NODES = 4


def after_fate(pod: Pod, fate: str, failure: PodFailure, now_s: int) -> Pod:
    if pod.node is None or pod.is_finished or fate == "stays":
        return pod
    if fate == "fails":
        return replace(pod, phase=PodPhase.FAILED, failure=failure, ended=now_s)
    if fate == "succeeds":
        return replace(pod, phase=PodPhase.SUCCEEDED)
    if fate == "is deleted":
        return replace(pod, deleting=True, ended=now_s)
    fresh = {"uid": f"{pod.uid}+", "node": None, "phase": PodPhase.PENDING, "created": now_s}
    return replace(pod, **fresh, deleting=False)


def check(scenario: Scenario, decided: Decided) -> None:
    result = decided.result
    members = {pod.uid: (gang, pod) for gang in scenario._gangs.values() for pod in gang.members}
    conditions = {name: node.conditions for name, node in scenario._nodes.items()}
    for node in decided.binds.values():
        assert conditions[node] in ({}, {"Ready": "True"})
    for eviction in result.evictions:
        gang, pod = members[eviction.pod]
        assert not result.stats.breaker
        assert pod.controller is not None
        assert not gang.is_finishing
        assert not pod.deleting
        assert eviction.pod not in decided.binds
    encoded = msgspec.json.encode(result)
    assert msgspec.json.decode(encoded, type=CycleResult) == result
    again = scenario.decide(CONFIG, shuffle=2)
    assert msgspec.json.encode(again.result) == encoded


@holds(25)
@given(st.data())
def test_faults_never_violate_the_invariants(data: st.DataObject) -> None:
    scenario = Scenario("rack").queue("a").queue("b")
    for index in range(NODES):
        scenario.nodes(f"n{index}", 1, gpu=2, within=f"r{index // 2}")
    for name in GANGS:
        grace = st.sampled_from([None, "0s", "5s"])
        recovery = Recovery(data.draw(MODES), data.draw(MODES), data.draw(grace))
        required = data.draw(st.sampled_from([None, "rack"]))
        scenario.gang(name, 3, gpu=1, min=2, queue=name, recovery=recovery, required=required)
    scenario.take(scenario.decide(CONFIG))
    for _ in range(4):
        scenario.now += data.draw(st.sampled_from([1000, 40_000, 700_000]))
        scenario.capacity_version += 1
        for index in range(NODES):
            scenario.nodes(f"n{index}", 1, gpu=2, within=f"r{index // 2}", conditions=data.draw(HEALTH))
        for name in GANGS:
            fates = [(data.draw(FATES), data.draw(st.sampled_from(PodFailure))) for _ in range(3)]
            pods = zip(scenario.members(name), fates, strict=False)
            changed = [after_fate(pod, *fate, scenario.now // 1000) for pod, fate in pods]
            scenario.change(name, members=(*changed, *scenario.members(name)[3:]))
        decided = scenario.decide(CONFIG)
        check(scenario, decided)
        scenario.take(decided)


def test_a_cycle_without_memory_is_the_first() -> None:
    """A trial or a replay without memory never sees a mass fault."""
    scenario = Scenario().nodes("n", 4, conditions={"Ready": "False"})
    scenario.memory = Memory()
    assert scenario.decide(CONFIG).result.stats.breaker == ""
