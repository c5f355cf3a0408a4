"""A gang that cannot be repaired in its required domain restarts elsewhere where its `recovery` allows it."""

from itertools import combinations_with_replacement

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.limits import NODE_LOSS_GRACE_MS
from phalanx.model.api.pod_groups import Recovery, RecoveryMode
from phalanx.model.names import PodUid
from phalanx.model.pods import PodPhase

from tests.builders import Scenario
from tests.examples import holds

RESTARTS = Recovery(on_member_failure=RecoveryMode.RESTART, on_node_loss=RecoveryMode.REPLACE)


def lost(recovery: Recovery = RESTARTS, *, racks: int = 2, **fields: object) -> Scenario:
    """Two pods ran in rack a. One was deleted and created again; another gang has taken its node."""
    scenario = Scenario("rack")
    for rack in "ab"[:racks]:
        scenario.nodes(rack, 2, gpu=8, within=rack)
    level = fields.pop("level", "rack")
    scenario.gang("g", 2, gpu=8, on=["a-0", "a-1"], required=level, recovery=recovery, **fields)
    first, second = scenario.members("g")
    again = replace(second, uid=PodUid("g-1-again"), node=None, phase=PodPhase.PENDING)
    scenario.change("g", members=(first, again))
    return scenario.gang("other", 1, gpu=1, on=["a-1"], priority=9)


def evicted_after(scenario: Scenario, ms: int = NODE_LOSS_GRACE_MS) -> list[str]:
    first = scenario.decide()
    assert not first.evicted()
    assert first.result.wake_at is None or first.result.wake_at > scenario.now
    scenario.memory = first.result.memory
    scenario.now += ms
    second = scenario.decide()
    scenario.memory = second.result.memory
    return second.evicted()


def test_the_gang_restarts_where_it_fits_as_a_whole() -> None:
    scenario = lost()
    assert evicted_after(scenario, NODE_LOSS_GRACE_MS - 1) == []
    scenario.now += 1
    decided = scenario.decide()
    assert decided.evicted() == ["g-0"]
    assert {each.reason for each in decided.result.evictions} == {"GangRestarted"}
    assert "required domain" in decided.result.evictions[0].message
    scenario.take(decided).change("g", started=False, starts_over=True)
    assert scenario.decide().where("g") == {"b": 2}


def test_the_grace_period_of_the_gang_applies() -> None:
    assert evicted_after(lost(replace(RESTARTS, grace_period="5s")), 5000) == ["g-0"]


@pytest.mark.parametrize("mode", [RecoveryMode.REPLACE, RecoveryMode.WAIT])
def test_without_a_restart_in_its_recovery_the_gang_waits(mode: RecoveryMode) -> None:
    assert evicted_after(lost(Recovery(on_member_failure=mode, on_node_loss=mode))) == []


def test_a_gang_without_a_required_domain_waits() -> None:
    """It can be repaired anywhere, so no restart helps it."""
    scenario = lost(level=None).gang("full", 2, gpu=8, on=["b-0", "b-1"], priority=9)
    assert evicted_after(scenario) == []


def test_a_gang_that_fits_nowhere_else_stays() -> None:
    scenario = lost().gang("full", 1, gpu=1, on=["b-0"], priority=9)
    assert evicted_after(scenario) == []
    scenario.remove("full")
    assert evicted_after(scenario) == ["g-0"]


def test_a_gang_that_is_repaired_when_pods_have_terminated_stays() -> None:
    scenario = lost()
    (other,) = scenario.members("other")
    scenario.change("other", members=(replace(other, deleting=True, ended=scenario.now // 1000),))
    assert evicted_after(scenario) == []


def test_a_gang_with_a_pod_that_nobody_recreates_is_not_restarted() -> None:
    assert evicted_after(lost(controller=None)) == []


def test_a_surplus_member_that_finds_no_node_is_no_reason() -> None:
    assert evicted_after(lost(min=1)) == []


# --- brute force --------------------------------------------------------------------------------------------

NODES = ("a-0", "a-1", "b-0", "b-1")


def fits(free: dict[str, int], count: int, gpu: int, nodes: tuple[str, ...]) -> bool:
    """Whether so many pods of this size fit these nodes together."""
    return any(
        all(gpu * some.count(node) <= free[node] for node in nodes)
        for some in combinations_with_replacement(nodes, count)
    )


@given(
    st.lists(st.integers(0, 4), min_size=4, max_size=4),
    st.lists(st.sampled_from(NODES[:2]), min_size=1, max_size=2),
    st.integers(1, 4),
)
@holds(40)
def test_gangs_restart_exactly_if_that_helps_them(used: list[int], on: list[str], gpu: int) -> None:
    """One pod of the gang is lost; the rest is in rack a. Others use so many of the 4 GPUs of each node."""
    taken = dict(zip(NODES, used, strict=True))
    free = {node: 4 - taken[node] - gpu * on.count(node) for node in NODES}
    if min(free.values()) < 0:
        return
    scenario = Scenario("rack").nodes("a", 2, gpu=4, within="a").nodes("b", 2, gpu=4, within="b")
    for node, amount in taken.items():
        scenario.gang(f"on-{node}", 1, gpu=amount, on=[node], priority=9)
    scenario.gang("g", len(on) + 1, gpu=gpu, on=on, required="rack", recovery=RESTARTS, started=True)
    is_repaired = fits(free, 1, gpu, NODES[:2])
    without = {node: 4 - taken[node] for node in NODES}
    fits_whole = any(fits(without, len(on) + 1, gpu, rack) for rack in (NODES[:2], NODES[2:]))
    assert bool(evicted_after(scenario)) == (not is_repaired and fits_whole)
