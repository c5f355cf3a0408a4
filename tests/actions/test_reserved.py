"""Gangs that reserve start before all members exist, when there is room for those that roles declare."""

from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.limits import CAPACITY_HOLD_MS
from phalanx.model.conversion.shapes import shape_of_requests
from phalanx.model.gangs import RoleSpec
from phalanx.model.memory import Memory
from phalanx.model.names import GangId, PodUid
from phalanx.model.pods import Pod, PodPhase
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import CPU, MEMORY

from tests.builders import GI, Scenario

EXECUTOR = shape_of_requests({CPU: 1000, MEMORY: GI})
ROLES = (RoleSpec("driver", 1, 1), RoleSpec("executor", 5, 2, EXECUTOR))


def spark(cpu: int, *, nodes: int = 1, **fields: object) -> Scenario:
    """A driver that waits; it will make five executors, of which two must start with it."""
    scenario = Scenario("rack").nodes("n", nodes, cpu=cpu, within="r").queue("a").queue("b")
    return submit(scenario, "g", **{"queue": "a", **fields})


def submit(scenario: Scenario, name: str, **fields: object) -> Scenario:
    settings = {"min": 3, "reserves": True, "roles": ROLES, "role": "driver", **fields}
    return scenario.gang(name, 1, **settings)


def executors(scenario: Scenario, name: str, count: int) -> Scenario:
    """The driver runs and creates its executors."""
    members = scenario.members(name)
    (driver, *_) = members
    new = [
        replace(
            driver,
            uid=PodUid(f"{name}-e{index}"),
            name=f"{name}-e{index}",
            role="executor",
            shape=EXECUTOR,
            node=None,
            index=index + 1,
            phase=PodPhase.PENDING,
        )
        for index in range(count)
    ]
    return scenario.change(name, members=(*members, *new))


def filler(scenario: Scenario, **fields: object) -> Scenario:
    return scenario.gang("filler", 9, **{"min": 1, "cpu": 1, "queue": "b", **fields})


@pytest.mark.parametrize(("cpu", "starts"), [(3, True), (2, False)])
def test_a_driver_starts_when_there_is_room_for_its_executors_too(cpu: int, starts: bool) -> None:
    decided = spark(cpu).decide()
    assert decided.nodes("g") == (["n-0"] if starts else [])
    if not starts:
        found = decided.verdict("g")
        assert (found.reason, "3 pods" in found.message) == (Reason.ABOVE_CLUSTER_CAPACITY, True)
        assert found.evidence[-1].finding == "2 pods to come, with capacity to reserve"


def test_one_that_does_not_reserve_waits_for_its_members() -> None:
    decided = spark(8, reserves=False).decide()
    assert decided.verdict("g").reason is Reason.MEMBERS_MISSING


@pytest.mark.parametrize("forgotten", [False, True])
@pytest.mark.parametrize("assumed", [False, True])
def test_the_room_is_held_while_the_driver_is_bound_and_runs(assumed: bool, forgotten: bool) -> None:
    """Five cores: in the cycle of the start, while its bind is under way, and after a restart."""
    scenario = filler(spark(5))
    first = scenario.decide()
    assert (first.nodes("g"), len(first.nodes("filler"))) == (["n-0"], 2)
    scenario.take(first)
    if assumed:
        members = tuple(replace(pod, assumed=True, phase=PodPhase.PENDING) for pod in scenario.members("g"))
        scenario.change("g", members=members, started=False)
    if forgotten:
        scenario.memory = Memory()
    later = scenario.decide()
    assert (later.nodes("g"), later.nodes("filler")) == ([], [])
    found = later.verdict("filler")
    assert (found.reason, "team/g" in found.message) == (Reason.CAPACITY_RESERVED, True)
    assert "g" not in later.reasons()


def test_a_bind_that_fails_lets_the_gang_start_anew_with_its_reservation() -> None:
    scenario = filler(spark(5))
    first = scenario.decide()
    scenario.memory = first.result.memory
    scenario.capacity_version += 1
    again = scenario.decide()
    assert (again.nodes("g"), len(again.nodes("filler"))) == (["n-0"], 2)


def test_the_executors_take_the_room_and_more_where_there_is_some() -> None:
    scenario = filler(spark(6), priority=-1)
    scenario.take(scenario.decide())
    executors(scenario, "g", 5)
    decided = scenario.decide()
    assert decided.nodes("g") == ["n-0", "n-0"]
    assert len(scenario.take(decided).members("filler")) == 9
    assert scenario.decide().result.memory.compositions[GangId("gang-g")].since == 0


def test_room_is_held_for_those_that_have_not_come_yet() -> None:
    scenario = spark(3)
    scenario.take(scenario.decide())
    filler(executors(scenario, "g", 1))
    decided = scenario.decide()
    assert (decided.nodes("g"), decided.nodes("filler")) == (["n-0"], [])


def test_after_its_time_the_room_is_given_back_and_the_gang_says_so() -> None:
    scenario = filler(spark(5))
    first = scenario.decide()
    assert first.result.wake_at == scenario.now + CAPACITY_HOLD_MS
    scenario.take(first)
    scenario.now += CAPACITY_HOLD_MS - 1
    held = scenario.decide()
    assert held.nodes("filler") == []
    scenario.take(held)
    scenario.now += 1
    late = scenario.decide()
    assert len(late.nodes("filler")) == 2
    found = late.verdict("g")
    assert found.reason is Reason.RESERVATION_EXPIRED
    assert "2 pods of role executor did not come within 10 minutes" in found.message
    scenario.take(late)
    executors(scenario, "g", 2)
    assert scenario.decide().verdict("g").reason is Reason.INSUFFICIENT_CAPACITY
    scenario.remove("filler")
    assert scenario.decide().nodes("g") == ["n-0", "n-0"]


def test_a_driver_that_is_replaced_late_gets_its_time_anew() -> None:
    scenario = spark(3)
    scenario.take(scenario.decide())
    scenario.now += 2 * CAPACITY_HOLD_MS
    scenario.take(scenario.decide())
    (driver,) = scenario.members("g")
    fresh = replace(driver, uid=PodUid("fresh"), node=None, phase=PodPhase.PENDING)
    scenario.change("g", members=(fresh,), started=False, starts_over=True)
    scenario.take(scenario.decide())
    assert filler(scenario).decide().nodes("filler") == []


def test_nobody_is_told_of_a_reservation_when_the_driver_has_ended() -> None:
    for phase in (PodPhase.SUCCEEDED, PodPhase.FAILED):
        scenario = filler(spark(5))
        scenario.take(scenario.decide())
        (driver,) = scenario.members("g")
        scenario.change("g", members=(replace(driver, phase=phase),))
        scenario.now += 2 * CAPACITY_HOLD_MS
        scenario.capacity_version += 1
        assert set(scenario.decide().reasons()) <= {"filler"}


@pytest.mark.parametrize(("priority", "placed"), [(-1, 2), (0, 2), (1, 4)])
def test_only_work_of_higher_priority_goes_before_what_is_reserved(priority: int, placed: int) -> None:
    scenario = spark(5)
    scenario.take(scenario.decide())
    assert len(filler(scenario, priority=priority).decide().nodes("filler")) == placed


def test_what_is_reserved_is_kept_while_work_of_higher_priority_holds_up_its_queue() -> None:
    """The other queue comes first then, and must leave the room alone all the same."""
    scenario = spark(5)
    scenario.take(scenario.decide())
    scenario.gang("large", 9, cpu=1, priority=1, queue="a")
    decided = filler(scenario, min=3).decide()
    assert (decided.placed(), decided.verdict("filler").reason) == ([], Reason.CAPACITY_RESERVED)


def test_room_that_cannot_be_had_any_more_is_looked_for_anew() -> None:
    scenario = Scenario().nodes("n", 3, cpu=2).queue("a").queue("b")
    scenario.take(submit(scenario, "g", queue="a").decide())
    (driver,) = scenario.members("g")
    room = scenario.memory.compositions[GangId("gang-g")].held
    lost = next(name for name in sorted(room) if name != driver.node)
    scenario.gang("other", 1, cpu=2, on=(lost,))
    assert filler(scenario, cpu=2).decide().nodes("filler") == []


def test_nothing_is_kept_for_a_gang_that_cannot_be_tried() -> None:
    scenario = spark(5)
    scenario.take(scenario.decide())
    executors(scenario, "g", 1).change(
        "g", problems=(Objection(Reason.INCONSISTENT_GANG, "spec.x: is wrong"),)
    )
    assert len(filler(scenario).decide().nodes("filler")) == 4


def test_what_is_reserved_is_on_the_account_of_the_queue_but_not_shown_as_used() -> None:
    scenario = Scenario().nodes("n", 4, cpu=8).queue("a", limit={CPU: 5000})
    decided = submit(submit(scenario, "g", queue="a"), "h", queue="a").decide()
    assert decided.placed() == ["g"]
    assert decided.verdict("h").reason is Reason.QUEUE_LIMIT
    assert decided.result.queues["a"].allocated[CPU] == 1000


def test_no_room_is_kept_beyond_the_limit_of_the_queue() -> None:
    """Work of higher priority used the rest of it: members that came now could not take all that was kept."""
    scenario = filler(Scenario().nodes("n", 1, cpu=8).queue("a", limit={CPU: 5000}).queue("b"), priority=-1)
    scenario.take(submit(scenario, "g", queue="a").decide())
    scenario.remove("filler").gang("other", 3, cpu=1, queue="a", priority=1)
    decided = filler(scenario).decide()
    assert (len(decided.nodes("other")), len(decided.nodes("filler"))) == (3, 3)
    (parts,) = decided.result.memory.compositions[GangId("gang-g")].held.values()
    assert [part.count for part in parts] == [1]


def test_members_that_turn_out_to_be_larger_do_not_take_what_is_kept_for_others() -> None:
    scenario = Scenario().nodes("n", 1, cpu=7)
    for name in ("g", "h"):
        scenario.take(submit(scenario, name).decide())
    executors(scenario, "g", 1)
    driver, executor = scenario.members("g")
    larger = replace(executor, shape=shape_of_requests({CPU: 2000, MEMORY: GI}))
    scenario.change("g", members=(driver, larger))
    scenario.take(scenario.decide())
    kept = scenario.memory.compositions[GangId("gang-h")].held["n-0"]
    assert [(part.count, part.shape.requests[CPU]) for part in kept] == [(2, 1000)]


def test_the_driver_goes_where_its_executors_have_room_beside_it() -> None:
    scenario = Scenario("rack").nodes("s", 1, cpu=2, within="r1").nodes("m", 1, cpu=3, within="r2")
    assert submit(scenario, "g", required="rack").decide().nodes("g") == ["m-0"]


def test_a_role_without_requests_must_have_arrived() -> None:
    scenario = spark(8, roles=(ROLES[0], RoleSpec("executor", 5, 2)))
    found = scenario.decide().verdict("g")
    assert (found.reason, "role executor needs 2 more" in found.message) == (Reason.MEMBERS_MISSING, True)


def test_nothing_starts_without_a_pod_to_bind() -> None:
    declared = (RoleSpec("driver", 1, 1, EXECUTOR), ROLES[1], RoleSpec("helper", 2, 0))
    scenario = spark(8, role="helper", roles=declared)
    decided = scenario.decide()
    assert (decided.placed(), decided.verdict("g").reason) == ([], Reason.MEMBERS_MISSING)


def test_no_more_stand_ins_are_made_than_a_cycle_can_bear() -> None:
    absurd = (ROLES[0], RoleSpec("executor", 1 << 31, 1 << 30, EXECUTOR))
    scenario = spark(8, min=1 << 31, roles=absurd)
    assert scenario.decide().verdict("g").reason is Reason.MEMBERS_MISSING
    scenario.change("g", members=(replace(scenario.members("g")[0], node="n-0"),), started=True)
    assert filler(scenario).decide().verdict("filler").reason is Reason.CAPACITY_RESERVED


def test_members_beyond_the_roles_are_taken_from_what_roles_declare() -> None:
    for cpu, starts in ((4, False), (5, True)):
        assert (spark(cpu, min=5).decide().nodes("g") == ["n-0"]) is starts


def test_a_member_that_exists_tells_what_its_role_is_like() -> None:
    """An executor has come that wants two cores; the other one will, too."""
    scenario = executors(spark(4), "g", 1)
    driver, other = scenario.members("g")
    scenario.change("g", members=(driver, replace(other, shape=shape_of_requests({CPU: 2000, MEMORY: GI}))))
    assert scenario.decide().nodes("g") == []


def test_others_are_evicted_for_the_whole_and_the_room_is_kept_for_it() -> None:
    scenario = Scenario().nodes("n", 1, cpu=3).queue("a").queue("b")
    scenario.gang("low", 1, cpu=2, bound=1, priority=-1, queue="a")
    submit(scenario, "g", queue="a")
    decided = scenario.decide()
    assert decided.evicted() == ["low-0"]
    scenario.take(decided)
    scenario.change("low", members=())
    scenario.remove("low")
    decided = filler(scenario).decide()
    assert (decided.nodes("g"), decided.nodes("filler")) == (["n-0"], [])


# --- the same gangs, all members there ----------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    members: int
    there: int
    cpu: int
    required: bool


works = st.builds(
    lambda members, there, cpu, required: Work(members, min(members, there), cpu, required),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.booleans(),
)


def scenario_of(sizes: list[int], gangs: list[Work], *, reserves: bool) -> Scenario:
    scenario = Scenario("rack")
    for index, cpu in enumerate(sizes):
        scenario.nodes(f"n{index}", 1, cpu=cpu, within=f"r{index % 2}")
    for index, work in enumerate(gangs):
        shape = shape_of_requests({CPU: work.cpu * 1000, MEMORY: GI})
        name, level = f"g{index}", "rack" if work.required else None
        scenario.gang(name, work.members, cpu=work.cpu, role="worker", required=level, reserves=reserves)
        members: tuple[Pod, ...] = tuple(replace(pod, shape=shape) for pod in scenario.members(name))
        if reserves:
            members = members[: work.there]
        scenario.change(name, members=members, roles=(RoleSpec("worker", work.members, 0, shape),))
    return scenario


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.lists(works, min_size=1, max_size=4))
def test_the_same_gangs_start_as_when_all_their_members_are_there(
    sizes: list[int], gangs: list[Work]
) -> None:
    """An oracle that knows nothing of reservations: the members that are missing have come."""
    reserved = scenario_of(sizes, gangs, reserves=True)
    first = reserved.decide()
    whole = scenario_of(sizes, gangs, reserves=False).decide()
    assert first.placed() == whole.placed()
    for name in whole.placed():
        all_nodes, mine = whole.nodes(name), first.nodes(name)
        assert len(mine) == gangs[int(name[1:])].there
        assert all(mine.count(node) <= all_nodes.count(node) for node in mine)
    later = reserved.take(first).decide()
    assert later.placed() == [], "the room of those that started is free to nobody"


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.lists(works, min_size=1, max_size=4))
@example([1, 2, 4], [Work(2, 1, 1, required=False), Work(2, 1, 2, required=True)])
def test_all_that_have_started_find_room_for_their_members_whenever_these_come(
    sizes: list[int], gangs: list[Work]
) -> None:
    scenario = scenario_of(sizes, gangs, reserves=True)
    decided = scenario.decide()
    started = decided.placed()
    scenario.take(decided)
    scenario.gang("filler", 9, min=1, cpu=1, created=99)
    for name in reversed(started):
        work = gangs[int(name[1:])]
        (first, *_) = scenario.members(name)
        fresh = [
            replace(first, uid=PodUid(f"{name}-m{i}"), name=f"{name}-m{i}", node=None, phase=PodPhase.PENDING)
            for i in range(work.there, work.members)
        ]
        scenario.change(name, members=(*scenario.members(name), *fresh))
        decided = scenario.decide()
        assert len(decided.nodes(name)) == len(fresh)
        scenario.take(decided)
