"""Reserved members: a gang may start before all members exist, with capacity held for the declared ones."""

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
from phalanx.model.records import GangRecord, PlacedMembers
from phalanx.model.resources import CPU, MEMORY

from tests.builders import GI, Scenario
from tests.examples import holds

EXECUTOR = shape_of_requests({CPU: 1000, MEMORY: GI})
ROLES = (RoleSpec("driver", 1, 1), RoleSpec("executor", 5, 2, EXECUTOR))


def spark(cpu: int, *, nodes: int = 1, **fields: object) -> Scenario:
    """A waiting driver, which will create five executors; it starts only with capacity held for two."""
    scenario = Scenario("rack").nodes("n", nodes, cpu=cpu, within="r").queue("a").queue("b")
    return submit(scenario, "g", **{"queue": "a", **fields})


def submit(scenario: Scenario, name: str, **fields: object) -> Scenario:
    settings = {"min": 3, "reserves": True, "roles": ROLES, "role": "driver", **fields}
    return scenario.gang(name, 1, **settings)


def executors(scenario: Scenario, name: str, count: int) -> Scenario:
    """The running driver creates its executors."""
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
def test_a_driver_starts_only_if_its_executors_fit_too(cpu: int, starts: bool) -> None:
    decided = spark(cpu).decide()
    assert decided.nodes("g") == (["n-0"] if starts else [])
    if not starts:
        found = decided.verdict("g")
        assert (found.reason, "3 pods" in found.message) == (Reason.ABOVE_CLUSTER_CAPACITY, True)
        assert found.evidence[-1].finding == "2 pods to come, with capacity to reserve"


def test_a_gang_that_does_not_reserve_waits_for_its_members() -> None:
    decided = spark(8, reserves=False).decide()
    assert decided.verdict("g").reason is Reason.MEMBERS_MISSING


@pytest.mark.parametrize("forgotten", [False, True])
@pytest.mark.parametrize("assumed", [False, True])
def test_capacity_is_held_while_the_driver_is_bound_and_runs(assumed: bool, forgotten: bool) -> None:
    """Checked in the cycle of the start, while the bind is in flight, and after a scheduler restart."""
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


@pytest.mark.parametrize("cpu", [4, 5])
def test_a_start_keeps_what_it_reserves_or_is_given_up_as_a_whole(cpu: int) -> None:
    """The second gang of b is covered by the guarantee, but is tried after the start of g."""
    scenario = Scenario("rack").nodes("n", 1, cpu=cpu, within="r").queue("a", priority=1)
    scenario.queue("b", guarantee={CPU: 2_000})
    submit(scenario, "g", queue="a", created=0)
    scenario.gang("large", 8, cpu=1, queue="b", priority=1, created=1).gang(
        "small", 2, cpu=1, queue="b", created=1
    )
    decided = scenario.decide()
    assert len(decided.nodes("small")) == 2
    assert len(decided.nodes("g")) == (1 if cpu == 5 else 0)


def test_a_gang_starts_again_with_its_reservation_after_a_failed_bind() -> None:
    scenario = filler(spark(5))
    first = scenario.decide()
    scenario.memory = first.result.memory
    scenario.capacity_version += 1
    again = scenario.decide()
    assert (again.nodes("g"), len(again.nodes("filler"))) == (["n-0"], 2)


def test_executors_use_the_held_capacity_and_surplus_more() -> None:
    scenario = filler(spark(6), priority=-1)
    scenario.take(scenario.decide())
    executors(scenario, "g", 5)
    decided = scenario.decide()
    assert decided.nodes("g") == ["n-0", "n-0"]
    assert len(scenario.take(decided).members("filler")) == 9
    assert scenario.decide().result.memory.compositions[GangId("gang-g")].since == 0


def test_capacity_is_held_for_members_that_do_not_exist_yet() -> None:
    scenario = spark(3)
    scenario.take(scenario.decide())
    filler(executors(scenario, "g", 1))
    decided = scenario.decide()
    assert (decided.nodes("g"), decided.nodes("filler")) == (["n-0"], [])


def test_the_reservation_expires_and_is_reported() -> None:
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


def test_the_reservation_restarts_when_the_driver_is_replaced() -> None:
    scenario = spark(3)
    scenario.take(scenario.decide())
    scenario.now += 2 * CAPACITY_HOLD_MS
    scenario.take(scenario.decide())
    (driver,) = scenario.members("g")
    fresh = replace(driver, uid=PodUid("fresh"), node=None, phase=PodPhase.PENDING)
    scenario.change("g", members=(fresh,), started=False, starts_over=True)
    scenario.take(scenario.decide())
    assert filler(scenario).decide().nodes("filler") == []


def test_no_reservation_is_reported_when_the_driver_has_ended() -> None:
    for phase in (PodPhase.SUCCEEDED, PodPhase.FAILED):
        scenario = filler(spark(5))
        scenario.take(scenario.decide())
        (driver,) = scenario.members("g")
        scenario.change("g", members=(replace(driver, phase=phase),))
        scenario.now += 2 * CAPACITY_HOLD_MS
        scenario.capacity_version += 1
        assert set(scenario.decide().reasons()) <= {"filler"}


@pytest.mark.parametrize(
    ("priority", "minimum", "placed"), [(-1, 1, 2), (0, 1, 2), (0, 4, 0), (1, 1, 2), (1, 4, 4)]
)
def test_only_minimums_of_higher_priority_use_reserved_capacity(
    priority: int, minimum: int, placed: int
) -> None:
    scenario = spark(5)
    scenario.take(scenario.decide())
    decided = filler(scenario, priority=priority, min=minimum).decide()
    assert len(decided.nodes("filler")) == placed


def test_reserved_capacity_is_held_while_a_gang_of_higher_priority_waits_in_its_queue() -> None:
    """The other queue is served first then, and must not use the reserved capacity."""
    scenario = spark(5)
    scenario.take(scenario.decide())
    scenario.gang("large", 9, cpu=1, priority=1, queue="a")
    decided = filler(scenario, min=3).decide()
    assert (decided.placed(), decided.verdict("filler").reason) == ([], Reason.CAPACITY_RESERVED)


def test_reserved_capacity_that_was_lost_is_replaced() -> None:
    scenario = Scenario().nodes("n", 3, cpu=2).queue("a").queue("b")
    scenario.take(submit(scenario, "g", queue="a").decide())
    (driver,) = scenario.members("g")
    held = scenario.memory.compositions[GangId("gang-g")].held
    lost = next(name for name in sorted(held) if name != driver.node)
    scenario.gang("other", 1, cpu=2, on=(lost,))
    assert filler(scenario, cpu=2).decide().nodes("filler") == []


def test_no_capacity_is_held_for_a_gang_that_cannot_be_tried() -> None:
    scenario = spark(5)
    scenario.take(scenario.decide())
    executors(scenario, "g", 1).change(
        "g", problems=(Objection(Reason.INCONSISTENT_GANG, "spec.x: is wrong"),)
    )
    assert len(filler(scenario).decide().nodes("filler")) == 4


def test_reserved_capacity_counts_for_the_queue_limit_but_not_as_allocated() -> None:
    scenario = Scenario().nodes("n", 4, cpu=8).queue("a", limit={CPU: 5000})
    decided = submit(submit(scenario, "g", queue="a"), "h", queue="a").decide()
    assert decided.placed() == ["g"]
    assert decided.verdict("h").reason is Reason.QUEUE_LIMIT
    assert decided.result.queues["a"].allocated[CPU] == 1000


def test_no_capacity_is_reserved_beyond_the_limit_of_the_queue() -> None:
    """A gang of higher priority used the rest of the limit, so that not all members could be placed now."""
    scenario = filler(Scenario().nodes("n", 1, cpu=8).queue("a", limit={CPU: 5000}).queue("b"), priority=-1)
    scenario.take(submit(scenario, "g", queue="a").decide())
    scenario.remove("filler").gang("other", 3, cpu=1, queue="a", priority=1)
    decided = filler(scenario).decide()
    assert (len(decided.nodes("other")), len(decided.nodes("filler"))) == (3, 3)
    (parts,) = decided.result.memory.compositions[GangId("gang-g")].held.values()
    assert [part.count for part in parts] == [1]


def test_members_larger_than_declared_do_not_use_capacity_reserved_for_others() -> None:
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


def test_the_driver_is_placed_where_its_executors_fit_in_its_rack() -> None:
    scenario = Scenario("rack").nodes("s", 1, cpu=2, within="r1").nodes("m", 1, cpu=3, within="r2")
    assert submit(scenario, "g", required="rack").decide().nodes("g") == ["m-0"]


def test_members_of_a_role_without_declared_requests_must_exist() -> None:
    scenario = spark(8, roles=(ROLES[0], RoleSpec("executor", 5, 2)))
    found = scenario.decide().verdict("g")
    assert (found.reason, "role executor needs 2 more" in found.message) == (Reason.MEMBERS_MISSING, True)


def test_a_gang_without_a_pod_to_bind_does_not_start() -> None:
    declared = (RoleSpec("driver", 1, 1, EXECUTOR), ROLES[1], RoleSpec("helper", 2, 0))
    scenario = spark(8, role="helper", roles=declared)
    decided = scenario.decide()
    assert (decided.placed(), decided.verdict("g").reason) == ([], Reason.MEMBERS_MISSING)


def test_the_number_of_placeholders_is_bounded() -> None:
    absurd = (ROLES[0], RoleSpec("executor", 1 << 31, 1 << 30, EXECUTOR))
    scenario = spark(8, min=1 << 31, roles=absurd)
    assert scenario.decide().verdict("g").reason is Reason.MEMBERS_MISSING
    scenario.change("g", members=(replace(scenario.members("g")[0], node="n-0"),), started=True)
    driver, executor = scenario.members("g")[0].shape.requests, EXECUTOR.requests
    placed = (PlacedMembers("driver", "", driver, 1), PlacedMembers("executor", "", executor, 0, 1 << 30))
    scenario.change("g", record=GangRecord(1, placed))
    assert filler(scenario).decide().verdict("filler").reason is Reason.CAPACITY_RESERVED


def test_a_min_member_above_the_role_minimums_is_filled_from_the_declared_roles() -> None:
    for cpu, starts in ((4, False), (5, True)):
        assert (spark(cpu, min=5).decide().nodes("g") == ["n-0"]) is starts


def test_an_existing_member_overrides_the_declared_shape_of_its_role() -> None:
    """An executor exists that requests two cores, so the other one is expected to do so too."""
    scenario = executors(spark(4), "g", 1)
    driver, other = scenario.members("g")
    scenario.change("g", members=(driver, replace(other, shape=shape_of_requests({CPU: 2000, MEMORY: GI}))))
    assert scenario.decide().nodes("g") == []


def test_victims_are_evicted_for_all_declared_members_and_their_capacity_is_held() -> None:
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


# --- the same gangs with all members ------------------------------------------------------------------------


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
@holds(15)
def test_the_same_gangs_start_as_when_all_members_exist(sizes: list[int], gangs: list[Work]) -> None:
    """The oracle has no reservations: it decides the same gangs when all missing members exist."""
    reserved = scenario_of(sizes, gangs, reserves=True)
    first = reserved.decide()
    whole = scenario_of(sizes, gangs, reserves=False).decide()
    assert first.placed() == whole.placed()
    for name in whole.placed():
        all_nodes, mine = whole.nodes(name), first.nodes(name)
        assert len(mine) == gangs[int(name[1:])].there
        assert all(mine.count(node) <= all_nodes.count(node) for node in mine)
    later = reserved.take(first).decide()
    assert later.placed() == [], "no gang uses the capacity of those that started"


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.lists(works, min_size=1, max_size=4))
@example([1, 2, 4], [Work(2, 1, 1, required=False), Work(2, 1, 2, required=True)])
@holds(15)
def test_all_members_of_started_gangs_fit_whenever_they_are_created(
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
