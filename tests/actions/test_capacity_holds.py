"""Capacity holds: capacity of lost members is held for started gangs below their minimum (Volcano #5805)."""

import pytest
from msgspec.structs import replace
from phalanx.actions.reservations.capacity_holds import CAPACITY_HOLD_WITHOUT_MEMBERS_MS
from phalanx.limits import CAPACITY_HOLD_MS
from phalanx.model.gangs import GangKind, SubgroupSpec
from phalanx.model.names import PodUid
from phalanx.model.pods import PodPhase
from phalanx.model.reasons import Reason
from phalanx.model.resources import GPU

from tests.builders import Decided, Scenario


def with_lost_member(*, filler_priority: int = 0, **fields: object) -> Scenario:
    """A gang that fills two nodes has lost a member and has no replacement yet; a filler would fit there."""
    scenario = Scenario("rack").nodes("n", 2, gpu=8, within="r")
    scenario.queue("a").queue("b")
    scenario.gang("g", 2, gpu=8, bound=2, queue="a", **fields)
    scenario.take(scenario.decide())
    scenario.change("g", members=scenario.members("g")[:1])
    scenario.capacity_version += 1
    return scenario.gang("filler", 1, gpu=8, queue="b", priority=filler_priority)


@pytest.mark.parametrize("kind", [GangKind.POD_GROUP, GangKind.LABEL])
def test_a_filler_must_not_take_the_released_capacity(kind: GangKind) -> None:
    decided = with_lost_member(kind=kind).decide()
    assert decided.placements("filler") == []
    found = decided.verdict("filler")
    assert found.reason is Reason.CAPACITY_RESERVED
    assert "team/g" in found.message
    assert [each.finding for each in found.evidence] == [
        "lacks 1 pod with 1 cpu, 1Gi memory, 8 nvidia.com/gpu"
    ]
    assert "g" not in decided.reasons()


def test_the_replacement_gets_the_held_capacity() -> None:
    scenario = with_lost_member()
    scenario.memory = scenario.decide().result.memory
    (kept,) = scenario.members("g")
    fresh = replace(kept, uid=PodUid("fresh"), node=None, phase=PodPhase.PENDING)
    decided = scenario.change("g", members=(kept, fresh)).decide()
    assert (decided.nodes("g"), decided.nodes("filler")) == (["n-1"], [])
    assert decided.verdict("filler").reason is Reason.INSUFFICIENT_CAPACITY
    assert scenario.take(decided).decide().result.memory.compositions["gang-g"].since == 0


@pytest.mark.parametrize(("priority", "placed"), [(-1, []), (0, []), (1, ["n-1"])])
def test_only_gangs_of_higher_priority_use_held_capacity(priority: int, placed: list[str]) -> None:
    assert with_lost_member(filler_priority=priority).decide().nodes("filler") == placed


def test_a_capacity_hold_expires_and_does_not_restart() -> None:
    scenario = with_lost_member()
    first = scenario.decide()
    assert first.result.wake_at == scenario.now + CAPACITY_HOLD_MS
    scenario.memory = first.result.memory
    scenario.now += CAPACITY_HOLD_MS - 1
    again = scenario.decide()
    assert again.nodes("filler") == []
    scenario.memory = again.result.memory
    scenario.now += 1
    late = scenario.decide()
    assert late.nodes("filler") == ["n-1"]
    scenario.memory = late.result.memory
    assert scenario.decide().result.wake_at is None


def test_a_restarted_scheduler_infers_the_lost_member_from_the_others() -> None:
    scenario = with_lost_member()
    scenario.memory = type(scenario.memory)()
    assert scenario.decide().reasons() == {"filler": Reason.CAPACITY_RESERVED}


def test_no_capacity_is_held_for_finishing_or_deleted_gangs() -> None:
    for fields in ({"phase": PodPhase.SUCCEEDED}, {"deleting": True}):
        scenario = with_lost_member()
        (last,) = scenario.members("g")
        decided = scenario.change("g", members=(replace(last, **fields),)).decide()
        assert decided.nodes("filler") != []


def test_no_capacity_is_held_for_a_failed_pod_without_a_group() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8)
    scenario.gang("g", 1, gpu=8, bound=1, kind=GangKind.POD)
    scenario.take(scenario.decide())
    (failed,) = scenario.members("g")
    scenario.change("g", members=(replace(failed, phase=PodPhase.FAILED),))
    scenario.capacity_version += 1
    assert scenario.gang("filler", 1, gpu=8).decide().nodes("filler") == ["n-0"]


def test_the_hold_of_a_gang_with_only_failed_pods_is_shorter() -> None:
    scenario = with_lost_member()
    (last,) = scenario.members("g")
    scenario.change("g", members=(replace(last, phase=PodPhase.FAILED),))
    assert scenario.decide().result.wake_at == scenario.now + CAPACITY_HOLD_WITHOUT_MEMBERS_MS


def test_no_hold_is_computed_while_no_gang_waits() -> None:
    scenario = with_lost_member()
    waiting = scenario.decide()
    scenario.remove("filler")
    alone = scenario.decide()
    assert (waiting.result.stats.solves != {}, alone.result.stats.solves) == (True, {})


def test_no_capacity_is_held_for_a_gang_that_never_started() -> None:
    scenario = with_lost_member()
    decided = scenario.change("g", started=False).decide()
    assert decided.nodes("filler") == ["n-1"]


def test_a_gang_that_lost_all_members_goes_before_fillers() -> None:
    """Even if it is younger than they are, and its queue would not be next."""
    scenario = with_lost_member()
    (kept,) = scenario.members("g")
    fresh = [replace(kept, uid=PodUid(f"f{i}"), node=None, phase=PodPhase.PENDING) for i in range(2)]
    scenario.change("g", members=tuple(fresh), started=False, starts_over=True, created=99)
    scenario.gang("more", 1, gpu=8, queue="b")
    assert scenario.decide().nodes("g") == ["n-0", "n-1"]


def test_capacity_is_held_in_the_shape_of_the_lost_role() -> None:
    scenario = Scenario().nodes("big", 1, gpu=8).nodes("small", 2, cpu=4)
    scenario.gang("g", 1, gpu=8, role="worker", min=2, on=("big-0",), started=True)
    scenario.role("g", 1, role="leader", cpu=4, on=("small-0",), min=1)
    scenario.memory = scenario.decide().result.memory
    scenario.change("g", members=scenario.members("g")[:1])
    scenario.gang("filler", 2, min=1, cpu=4, selector={"group": "small"})
    decided = scenario.decide()
    assert len(decided.nodes("filler")) == 1
    assert Decided(decided.result).verdict("filler").reason is Reason.CAPACITY_RESERVED


def test_held_capacity_is_not_reported_as_allocated() -> None:
    used = with_lost_member().decide().result.queues["a"].allocated
    assert used[GPU] == 8


def test_capacity_is_held_within_the_required_domain() -> None:
    scenario = Scenario("rack").nodes("n", 1, gpu=8, within="r").nodes("m", 1, gpu=8, within="s")
    scenario.gang("g", 1, min=2, gpu=8, on=("n-0",), required="rack", started=True).gang("filler", 1, gpu=8)
    assert scenario.decide().nodes("filler") == ["m-0"]


@pytest.mark.parametrize(("started_with", "kept"), [("ab", 1), ("abc", 1), ("aabb", 2)])
def test_capacity_is_held_for_as_many_lost_subgroups_as_are_missing(started_with: str, kept: int) -> None:
    """One pod per node. All pods except those of subgroup a are lost, and two whole subgroups are needed."""
    count = len(started_with)
    scenario = Scenario("rack").nodes("n", count, gpu=8).queue("a").queue("b")
    scenario.gang("g", count, min=2, gpu=8, bound=count, queue="a", started=True)
    least = 2 if "aa" in started_with else 1
    parts = tuple(SubgroupSpec(name, least) for name in sorted({*started_with}))
    named = zip(scenario.members("g"), started_with, strict=True)
    members = tuple(replace(pod, subgroup=name) for pod, name in named)
    scenario.change("g", members=members, subgroups=parts, min_subgroups=2)
    scenario.take(scenario.decide())
    scenario.change("g", members=tuple(pod for pod in members if pod.subgroup == "a"))
    scenario.capacity_version += 1
    decided = scenario.gang("filler", count, min=1, gpu=8, queue="b").decide()
    assert len(decided.nodes("filler")) == count - started_with.count("a") - kept


def test_no_capacity_is_held_for_a_lost_subgroup_that_another_one_replaced() -> None:
    """The gang started with a and b, lost b, got c, then lost half of a: one is missing, two were lost."""
    scenario = Scenario("rack").nodes("n", 6, gpu=8).queue("a").queue("b")
    scenario.gang("g", 6, min=4, gpu=8, bound=6, queue="a", started=True)
    named = zip(scenario.members("g"), "aabbcc", strict=True)
    a0, a1, b0, b1, c0, c1 = (replace(pod, subgroup=name) for pod, name in named)
    parts = tuple(SubgroupSpec(name, 2) for name in "abc")
    scenario.change("g", members=(a0, a1, b0, b1), subgroups=parts, min_subgroups=2)
    for members in ((a0, a1), (a0, a1, replace(c0, node=None), replace(c1, node=None))):
        scenario.take(scenario.decide()).change("g", members=members)
    scenario.take(scenario.decide())
    scenario.change("g", members=(a0, c0, c1))
    scenario.capacity_version += 1
    decided = scenario.gang("filler", 6, min=1, gpu=8, queue="b").decide()
    assert len(decided.nodes("filler")) == 2


@pytest.mark.parametrize(
    ("named", "reason"), [("aaa", Reason.INSUFFICIENT_CAPACITY), ("aab", Reason.CAPACITY_RESERVED)]
)
def test_a_hold_in_another_rack_does_not_explain_why_a_placed_subgroup_waits(
    named: str, reason: Reason
) -> None:
    """Two members fill the small rack. The hold is in the other rack, which only another subgroup may use."""
    scenario = Scenario("rack").nodes("small", 1, gpu=2, within="r1").nodes("n", 2, gpu=1, within="r2")
    scenario.queue("a").queue("b").gang("g", 2, gpu=1, on=["n-0", "n-1"], queue="a")
    scenario.take(scenario.decide()).change("g", members=scenario.members("g")[:1])
    scenario.capacity_version += 1
    parts = tuple(SubgroupSpec(name, 1, required="rack") for name in sorted({*named}))
    scenario.gang("late", 3, min=2, gpu=1, queue="b", subgroups=parts, min_subgroups=1)
    pairs = zip(scenario.members("late"), named, strict=True)
    scenario.change("late", members=tuple(replace(pod, subgroup=name) for pod, name in pairs))
    decided = scenario.decide()
    assert decided.where("late") == {"small": 2}
    assert decided.verdict("late").reason is reason
