"""Preemption together with other decisions: a second preemptor, a release, orderings, reservations."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from phalanx.actions.preemption.search_turns import VICTIMS_WEIGHED_LEAST, VICTIMS_WEIGHED_MAX
from phalanx.actions.preemption.victims import VictimPool
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.framework.evictions import Beneficiary
from phalanx.framework.retry import RetryConfig
from phalanx.framework.session import Session
from phalanx.limits import PARTIAL_GANG_GRACE_MS
from phalanx.model.api.pod_groups import Recovery, RecoveryMode, Runtime
from phalanx.model.gangs import Minimum, RoleSpec
from phalanx.model.memory import Memory, Nomination
from phalanx.model.names import GangId, NodeName
from phalanx.model.pods import Pod
from phalanx.model.queues import Backfill, Ordering
from phalanx.model.reasons import Reason
from phalanx.model.resources import GPU

from tests.builders import Scenario

NOMINATION_MS = RetryConfig().nomination_ms
OWN_QUEUE_ONLY = SchedulerConfig(plugins=(PluginConfig(name="reclaim", enabled=False),))


def test_two_preemptors_evict_different_members_of_one_gang() -> None:
    scenario = Scenario().nodes("a", 1, gpu=8).gang("elastic", 8, gpu=1, min=4, on=["a-0"] * 8)
    scenario.gang("h1", 1, gpu=1, priority=10).gang("h2", 1, gpu=1, priority=10)
    assert sorted(scenario.decide().evicted()) == ["elastic-6", "elastic-7"]


def test_released_pods_are_not_evicted_again() -> None:
    scenario = Scenario().nodes("a", 1, gpu=8).gang("broken", 8, gpu=2, on=["a-0"] * 4, started=False)
    scenario.memory = scenario.decide().result.memory
    scenario.now += PARTIAL_GANG_GRACE_MS
    decided = scenario.gang("high", 4, gpu=2, priority=10).decide()
    assert {each.reason for each in decided.result.evictions} == {"GangIncomplete"}


def test_a_victim_is_chosen_once_though_its_deletion_is_unconfirmed() -> None:
    scenario = Scenario().nodes("a", 2, gpu=8)
    for index in (0, 1):
        scenario.gang(f"low-{index}", 4, gpu=2, on=[f"a-{index}"] * 4)
    first = scenario.gang("high", 4, gpu=2, priority=10).decide()
    scenario.memory = first.result.memory
    scenario.gang("high2", 4, gpu=2, priority=10)
    scenario.now += 1000
    second = scenario.decide()
    assert len(second.evicted()) == 4
    assert not set(first.evicted()) & set(second.evicted())


def test_preemption_policy_never_does_not_affect_equal_gangs() -> None:
    scenario = Scenario().nodes("a", 1, gpu=8).gang("low", 4, gpu=2, on=["a-0"] * 4)
    scenario.gang("never", 4, gpu=2, priority=10, preemption_policy="Never").gang(
        "high", 4, gpu=2, priority=10
    )
    assert len(scenario.decide().evicted()) == 4


def test_gangs_that_get_members_in_the_same_cycle_become_victims_in_the_next_one() -> None:
    """A gang of lower priority gets a lost member back in the cycle in which `high` does not fit."""
    scenario = Scenario().nodes("n", 2, gpu=8).gang("low1", 1, gpu=8, on=["n-0"])
    scenario.gang("low2", 2, gpu=4, on=["n-1", "n-1"], priority=10).lose("low2").change("low2", priority=0)
    scenario.gang("high", 2, gpu=8, priority=10)
    evicted = []
    for _ in range(4):
        decided = scenario.decide()
        evicted += decided.evicted()
        assert evicted or decided.result.wake_at is not None
        scenario.take(decided)
        scenario.now += 60_000
    assert len(evicted) == 3


def test_a_start_of_the_same_cycle_is_given_up_before_more_gangs_are_evicted() -> None:
    """A gang of lower priority gets the last free node in the cycle in which `high` does not fit."""
    scenario = Scenario().nodes("n", 2, gpu=8).gang("low1", 1, gpu=8, on=["n-0"]).gang("low2", 1, gpu=8)
    decided = scenario.gang("high", 2, gpu=8, priority=10).decide()
    assert (decided.placed(), decided.evicted()) == ([], ["low1-0"])
    assert decided.reasons()["high"] is Reason.EVICTION_IN_PROGRESS
    scenario.take(decided)
    assert scenario.decide().placed() == ["high"]


def test_a_strict_fifo_queue_does_not_waste_an_eviction() -> None:
    scenario = Scenario().queue("q", ordering=Ordering.STRICT_FIFO).nodes("n", 1, gpu=4)
    scenario.gang("low", 1, gpu=2, queue="q", on=["n-0"])
    scenario.gang("keep", 1, gpu=2, queue="q", on=["n-0"], priority=99)
    scenario.gang("mid", 1, gpu=2, queue="q", priority=1).gang("late", 1, gpu=4, queue="q", priority=3)
    evicted = []
    for _ in range(20):
        decided = scenario.decide()
        evicted += decided.evicted()
        scenario.take(decided)
        scenario.capacity_version += 1
        scenario.now += 60_000
    assert evicted == ["low-0"]


def test_a_gang_that_is_blocked_by_a_reservation_still_heads_its_strict_queue() -> None:
    scenario = Scenario().nodes("n", 1, gpu=4)
    scenario.queue("strict", ordering=Ordering.STRICT_FIFO, backfill=Backfill.EASY)
    scenario.queue("q", backfill=Backfill.EASY)
    scenario.gang("run", 1, gpu=2, on=["n-0"], queue="q", runtime=Runtime(max="10m"))
    scenario.gang("wide", 1, gpu=4, queue="q", created=1)
    scenario.take(scenario.decide())
    scenario.gang("first", 1, gpu=2, queue="strict", created=2)
    scenario.gang("second", 1, gpu=1, queue="strict", created=3)
    scenario.capacity_version += 1
    assert scenario.decide().reasons()["first"] is Reason.WOULD_DELAY_RESERVATION


@pytest.mark.parametrize("mode", [Backfill.EASY, Backfill.CONSERVATIVE])
def test_no_gang_is_evicted_to_use_reserved_capacity(mode: Backfill) -> None:
    scenario = Scenario().queue("q", backfill=mode).nodes("n", 2, gpu=8).nodes("m", 1, gpu=8)
    scenario.now = 60_000_000_000
    scenario.gang("x", 1, gpu=8, on=["n-1"], queue="q", priority=20, runtime=Runtime(max="10m"))
    runs = tuple(replace(pod, running_since=scenario.now // 1000) for pod in scenario.members("x"))
    scenario.change("x", members=runs)
    scenario.gang("v", 1, gpu=8, on=["m-0"], queue="q", priority=0)
    scenario.gang("reserved", 2, gpu=8, queue="q", priority=10, selector={"group": "n"})
    scenario.gang("other", 2, gpu=8, queue="q", priority=5)
    evicted = []
    for _ in range(8):
        decided = scenario.decide()
        evicted += decided.evicted()
        scenario.take(decided)
        scenario.capacity_version += 1
        scenario.now += 60_000
    assert evicted == []


def nominate(scenario: Scenario, gang: str, *victims: str, **gpus: int) -> None:
    """Nominate the gang for these GPUs by node (dashes as underscores), which the victims are freeing."""
    pods = tuple(pod.uid for victim in victims for pod in scenario.members(victim))
    amounts = {NodeName(node.replace("_", "-")): {GPU: count} for node, count in gpus.items()}
    made = Nomination(usage=amounts, victims=pods, until=scenario.now + NOMINATION_MS, attempts=1)
    nominations = {**scenario.memory.nominations, GangId(f"gang-{gang}"): made}
    scenario.memory = Memory(nominations=nominations)


@pytest.mark.parametrize(
    ("priority", "queue", "node"), [(0, "q1", "z-0"), (9, "q1", "z-0"), (9, "q2", "a-0")]
)
def test_a_nominated_gang_does_not_use_the_nomination_of_another_one(
    priority: int, queue: str, node: str
) -> None:
    """`first` may use the other nomination if it has a higher priority in the same queue."""
    scenario = Scenario("rack").nodes("a", 2, gpu=8, within="1").nodes("z", 1, gpu=8, within="2")
    scenario.queue("q1").queue("q2").gang("low", 1, gpu=8, on=["a-1"])
    scenario.gang("first", 1, gpu=8, queue=queue, priority=priority)
    scenario.gang("second", 2, gpu=8, queue="q2", required="rack")
    nominate(scenario, "first", z_0=8)
    nominate(scenario, "second", "low", a_0=8, a_1=8)
    assert scenario.decide().nodes("first") == [node]


def test_a_gang_that_replaces_a_lost_member_is_not_cut_below_its_minimum() -> None:
    """One of six members is evicted from its lost node in the same cycle: only the whole gang is enough."""
    scenario = Scenario().nodes("n", 7, gpu=8)
    scenario.gang("elastic", 6, min=4, gpu=8, on=[f"n-{index}" for index in range(6)])
    scenario.change("elastic", recovery=Recovery(on_node_loss=RecoveryMode.REPLACE))
    scenario.gang("keeps", 1, gpu=8, on=["n-6"], priority=99)
    scenario.memory = scenario.decide().result.memory
    lost = NodeName("n-0")
    scenario._nodes[lost] = replace(scenario._nodes[lost], conditions={"Ready": "Unknown"})
    scenario.memory = scenario.decide().result.memory
    scenario.now += 3_600_000
    evicted = scenario.gang("high", 2, gpu=8, priority=5).decide().evicted()
    assert "elastic-0" in evicted
    assert len(evicted) == 6


def test_all_preemptors_are_tried_over_several_cycles() -> None:
    """The first gangs have no victims, and each has its own shape, so each needs a new try in each cycle."""
    scenario = Scenario().queue("a").queue("b", priority=-1).nodes("n", 1, gpu=8)
    scenario.gang("keeps", 1, gpu=7, on=["n-0"], priority=99).gang("low", 1, gpu=1, on=["n-0"], queue="b")
    for index in range(2 * VICTIMS_WEIGHED_MAX // VICTIMS_WEIGHED_LEAST):
        scenario.gang(f"large-{index}", 1, gpu=1, cpu=1 + index, priority=1, queue="a")
    scenario.gang("high", 1, gpu=1, priority=2, queue="b")
    evicted: list[str] = []
    for _ in range(4):
        decided = scenario.decide(OWN_QUEUE_ONLY)
        evicted += decided.evicted()
        scenario.take(decided)
        scenario.capacity_version += 1
        scenario.now += 1000
    assert evicted == ["low-0"]


def test_few_gangs_weigh_many_victims_in_one_cycle_and_all_have_a_turn() -> None:
    """Each cycle tries the first gang, which weighs all pods without result, and one that waits longest."""
    scenario = Scenario().queue("a").queue("b", priority=-1).nodes("n", 4, cpu=200, gpu=8)
    for node in range(4):
        scenario.gang(f"keeps-{node}", 1, gpu=7 + (node > 0), on=[f"n-{node}"], priority=99)
    scenario.gang("low", 1, gpu=1, on=["n-0"], queue="b")
    for index in range(VICTIMS_WEIGHED_MAX // 2):
        scenario.gang(f"weighed-{index}", 1, on=[f"n-{index % 4}"], queue="a")
    for index in range(6):
        scenario.gang(f"large-{index}", 1, gpu=1, cpu=1 + index, priority=1, queue="a")
    scenario.gang("high", 1, gpu=1, priority=2, queue="b")
    left: list[int] = []
    evicted: list[str] = []
    for _ in range(7):
        decided = scenario.decide(OWN_QUEUE_ONLY)
        left.append(len(decided.result.memory.preemption_retry_at))
        evicted += decided.evicted()
        scenario.take(decided)
        scenario.capacity_version += 1
        scenario.now += 1000
    assert left[0] == 5
    assert evicted == ["low-0"]


@pytest.mark.parametrize(("minimum", "asked", "evicted"), [(4, 100, 100), (198, 2, 2), (100, 99, 100)])
def test_surplus_of_a_large_gang_is_evicted_in_groups(minimum: int, asked: int, evicted: int) -> None:
    """Much surplus is evicted in groups of several members, little surplus one by one."""
    scenario = Scenario().nodes("n", 25, gpu=8)
    on = [f"n-{index // 8}" for index in range(200)]
    scenario.gang("elastic", 200, min=minimum, gpu=1, on=on).gang("high", asked, gpu=1, priority=5)
    assert len(scenario.decide().evicted()) == evicted


def test_the_minimum_of_a_large_gang_is_checked_a_few_times_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each check counts all members: a gang of 5,000 took seconds of every cycle."""
    asked: list[int] = []
    is_reached = Minimum.is_reached

    def counted(minimum: Minimum, members: Sequence[Pod]) -> bool:
        asked.append(len(members))
        return is_reached(minimum, members)

    scenario = Scenario().nodes("n", 25, gpu=8)
    scenario.gang("elastic", 200, min=198, gpu=1, on=[f"n-{index // 8}" for index in range(200)])
    session = Session(scenario.snapshot(), SchedulerConfig())
    gang = session.gangs[GangId("gang-elastic")]
    monkeypatch.setattr(Minimum, "is_reached", counted)
    VictimPool(session).victims_for(Beneficiary(replace(gang, id=GangId("h"), priority=5), {GPU: 1}))
    assert 0 < len(asked) < 10


def test_eviction_of_surplus_keeps_the_minimum_of_each_role() -> None:
    """Every second member has a role whose minimum is the number of its members."""
    scenario = Scenario().nodes("n", 25, gpu=8)
    scenario.gang("elastic", 0, min=104)
    for index in range(100):
        scenario.role("elastic", 1, gpu=1, role="fixed", on=[f"n-{index // 4}"])
        scenario.role("elastic", 1, gpu=1, role="more", on=[f"n-{index // 4}"])
    roles = (RoleSpec("fixed", 100, 100), RoleSpec("more", 100, 4))
    scenario.change("elastic", roles=roles, started=True).gang("high", 60, gpu=1, priority=5)
    evicted = scenario.decide().evicted()
    assert len(evicted) == 60
    assert all(int(name.removeprefix("elastic-")) % 2 for name in evicted)
