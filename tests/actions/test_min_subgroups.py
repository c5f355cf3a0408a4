"""Gangs with minSubGroups: which subgroups start together, which are placed later, and the messages."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace
from phalanx.actions.demands.demand import Demand, Stage
from phalanx.actions.demands.gang_demands import minimums_demand, start_demand
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied
from phalanx.model.gangs import Gang, SubgroupSpec
from phalanx.model.memory import Memory
from phalanx.model.reasons import Objection, Reason
from phalanx.model.records import GangRecord, placed_members, record_kinds

from tests.builders import Scenario, demands_of, term
from tests.model.written import label, pod, pod_group

BOUND = {"nodeName": "n", "status": {"phase": "Running"}}


def part(name: str, minimum: int, **spec: Any) -> dict[str, Any]:
    return {"name": name, "minMember": minimum, **spec}


def gang(
    waiting: Mapping[str, int],
    *,
    bound: Mapping[str, int] | None = None,
    started: str | None = None,
    role_of: Mapping[str, str] | None = None,
    **spec: Any,
) -> Gang:
    """A gang with this number of waiting and bound pods per subgroup; "" is none.

    `role_of`: the role of all pods of a subgroup.
    """
    cache = Cache(scheduler_name="phalanx")
    group = pod_group("g", **spec)
    cache.apply(Applied(replace(group, status=replace(group.status, started_at=started))))
    for names, state in ((bound or {}, BOUND), (waiting, {})):
        for name, count in names.items():
            labels = {label("pod-group"): "g", **({label("subgroup"): name} if name else {})}
            labels |= {label("role"): role_of[name]} if role_of else {}
            for index in range(count):
                uid = f"{name or 'none'}-{'b' if state else 'w'}{index}"
                cache.apply(Applied(pod(uid, uid=uid, labels=labels, **state)))
    (found,) = cache.snapshot(now=0, seed=0, memory=Memory()).gangs.values()
    assert found.problems == ()
    placed = placed_members(Counter(record_kinds(found.members).values()), {})
    return replace(found, record=GangRecord(1, placed) if bound else None)


def counts(demand: Demand) -> dict[str, int]:
    found: dict[str, int] = {}
    for batch in demand.batches:
        found[batch.subgroup] = found.get(batch.subgroup, 0) + len(batch.pods)
    return found


def described(found: Gang) -> list[tuple[Stage, bool, dict[str, int]]]:
    demands = demands_of(found)
    assert not isinstance(demands, Objection), demands
    return [(demand.stage, demand.is_whole, counts(demand)) for demand in demands]


THREE = [part("a", 2), part("b", 3), part("c", 2)]


def test_the_first_complete_subgroups_start_and_each_other_one_is_placed_whole() -> None:
    found = gang({"a": 1, "b": 4, "c": 2}, minMember=5, minSubGroups=2, subGroups=THREE)
    assert described(found) == [
        (Stage.START, True, {"b": 3, "c": 2}),
        (Stage.SURPLUS, False, {"b": 1}),
    ]
    found = gang({"a": 2, "b": 3, "c": 3}, minMember=5, minSubGroups=2, subGroups=THREE)
    assert described(found) == [
        (Stage.START, True, {"a": 2, "b": 3}),
        (Stage.SURPLUS, True, {"c": 2}),
    ]


def test_more_subgroups_start_where_the_first_ones_have_too_few_members() -> None:
    found = gang({"a": 2, "b": 3, "c": 2}, minMember=6, minSubGroups=2, subGroups=THREE)
    assert described(found) == [(Stage.START, True, {"a": 2, "b": 3, "c": 2})]


def test_members_in_no_subgroup_count_and_go_before_another_subgroup() -> None:
    found = gang({"": 1, "a": 2, "b": 3, "c": 2}, minMember=6, minSubGroups=2, subGroups=THREE)
    assert described(found) == [(Stage.START, True, {"a": 2, "b": 3, "": 1}), (Stage.SURPLUS, True, {"c": 2})]


def test_too_few_complete_subgroups_are_reported() -> None:
    found = demands_of(gang({"a": 2, "b": 1, "c": 1}, minMember=5, minSubGroups=2, subGroups=THREE))
    assert isinstance(found, Objection)
    assert found.message == ("1 of 2 required subgroups is complete; subgroup b needs 2 more pods, 1 waits")
    assert "lower minSubGroups" in found.next_step


def test_a_nested_subgroup_must_be_complete_too() -> None:
    nested = [part("a", 3), part("a-lead", 1, parent="a"), part("b", 2)]
    found = gang({"a": 3, "b": 2}, minMember=2, minSubGroups=1, subGroups=nested)
    assert described(found) == [(Stage.START, True, {"b": 2})]
    found = gang({"a": 2, "a-lead": 1, "b": 2}, minMember=2, minSubGroups=1, subGroups=nested)
    assert described(found)[0] == (Stage.START, True, {"a": 2, "a-lead": 1})


def test_a_subgroup_that_has_started_is_completed_first() -> None:
    found = gang({"a": 2, "b": 3, "c": 1}, bound={"c": 1}, minMember=4, minSubGroups=2, subGroups=THREE)
    assert described(found) == [(Stage.REPAIR, True, {"a": 2, "c": 1}), (Stage.SURPLUS, True, {"b": 3})]


def test_a_started_subgroup_gets_replacements_and_a_lost_one_is_placed_whole() -> None:
    """The gang started with a and b; a lost a member and b all members."""
    started = {"started": "2026-01-01T00:00:00Z", "minMember": 4, "minSubGroups": 2, "subGroups": THREE}
    found = gang({"a": 1, "b": 2}, bound={"a": 1}, **started)
    assert described(found) == [(Stage.REPAIR, False, {"a": 1})]
    found = gang({"a": 1, "b": 3, "c": 2}, bound={"a": 1}, **started)
    assert described(found) == [
        (Stage.REPAIR, False, {"a": 1}),
        (Stage.REPAIR, True, {"b": 3}),
        (Stage.SURPLUS, True, {"c": 2}),
    ]


def test_an_incomplete_subgroup_is_reported() -> None:
    found = demands_of(gang({"c": 1}, bound={"a": 2, "b": 3}, minMember=4, minSubGroups=2, subGroups=THREE))
    assert isinstance(found, Objection)
    assert found.message == "subgroup c needs 1 more pod, 1 waits"


def test_members_of_incomplete_subgroups_do_not_count_as_started() -> None:
    """Five bound members, but one whole subgroup only."""
    found = gang({}, bound={"a": 1, "b": 3, "c": 1}, minMember=5, minSubGroups=2, subGroups=THREE)
    assert not found.started
    found = gang({}, bound={"a": 2, "b": 3}, minMember=5, minSubGroups=2, subGroups=THREE)
    assert found.started
    found = gang({}, bound={"a": 2, "c": 2, "b": 1}, minMember=5, minSubGroups=2, subGroups=THREE)
    assert not found.started


def test_chosen_subgroups_start_with_their_minimums_until_they_are_enough() -> None:
    found = gang({"a": 3, "b": 3, "c": 2}, minMember=5, minSubGroups=2, subGroups=THREE)
    assert start_demand(found, ["a"], found.members) is None
    assert counts(minimums_demand(found, ["a"], found.members)) == {"a": 2}
    both = start_demand(found, ["a", "c"], found.members)
    assert both is not None
    assert counts(both) == {"a": 3, "c": 2}


def test_more_subgroups_start_where_the_first_ones_lack_a_role() -> None:
    """Only members of c have the role lead."""
    roles = [{"name": "lead", "count": 2, "minMember": 1}, {"name": "work", "count": 5, "minMember": 0}]
    found = gang(
        {"a": 2, "b": 3, "c": 2},
        role_of={"a": "work", "b": "work", "c": "lead"},
        minMember=2,
        minSubGroups=1,
        subGroups=THREE,
        roles=roles,
    )
    assert described(found)[0] == (Stage.START, True, {"a": 2, "b": 3, "c": 2})


def test_the_minimum_of_a_role_is_demanded_when_the_subgroups_are_enough() -> None:
    """Two members of a would be enough, but five workers are needed; b may provide three of them."""
    roles = [{"name": "work", "count": 8, "minMember": 5}]
    found = gang(
        {"a": 4, "b": 4},
        role_of={"a": "work", "b": "work"},
        minMember=5,
        minSubGroups=2,
        subGroups=THREE,
        roles=roles,
    )
    assert start_demand(found, ["a"], found.members) is None
    both = start_demand(found, ["a", "b"], found.members)
    assert both is not None
    assert both.count >= 5


def choice(scenario: Scenario, minimum: int, parts: Mapping[str, tuple[int, int]]) -> Scenario:
    """A gang that needs two of these subgroups; `parts`: by name, the pods and the GPUs of each pod."""
    specs = tuple(SubgroupSpec(name, pods) for name, (pods, _) in parts.items())
    (_, (first, gpus)), *others = parts.items()
    scenario.gang("g", first, min=minimum, gpu=gpus, subgroups=specs, min_subgroups=2)
    for name, (pods, gpus) in others:
        scenario.role("g", pods, gpu=gpus, role=name)
    own = [name for name, (pods, _) in parts.items() for _ in range(pods)]
    members = zip(scenario.members("g"), own, strict=True)
    return scenario.change(
        "g", members=tuple(replace(each, role="", subgroup=name) for each, name in members)
    )


def test_a_small_subgroup_that_leaves_no_capacity_for_another_is_left_out() -> None:
    """The only pod of `a` uses all GPUs."""
    scenario = choice(Scenario().nodes("n", 1, gpu=8), 3, {"a": (1, 8), "b": (2, 1), "c": (2, 1)})
    binds = scenario.decide().binds
    started = {pod.subgroup for pod in scenario.members("g") if pod.uid in binds}
    assert started == {"b", "c"}


def test_fewer_subgroups_with_more_members_start_where_not_all_fit() -> None:
    """`a` and `b` have five members but six are needed; all three have eight but seven fit."""
    scenario = choice(Scenario().nodes("n", 1, gpu=7), 6, {"a": (2, 1), "b": (3, 1), "c": (3, 1)})
    binds = scenario.decide().binds
    started = {pod.subgroup for pod in scenario.members("g") if pod.uid in binds}
    assert started == {"b", "c"}


def test_a_gang_that_may_start_with_other_subgroups_is_not_reported_as_impossible() -> None:
    parts = {"a": (1, 8), "b": (2, 1), "c": (2, 1)}
    scenario = choice(Scenario().nodes("n", 1, gpu=8).foreign("busy", "n-0", gpu=6), 3, parts)
    assert scenario.decide().verdict("g").reason is Reason.INSUFFICIENT_CAPACITY
    scenario = choice(Scenario().nodes("n", 1, gpu=3).foreign("busy", "n-0", gpu=1), 3, parts)
    assert scenario.decide().verdict("g").reason is Reason.ABOVE_CLUSTER_CAPACITY


def test_a_subgroup_with_a_member_that_runs_and_one_that_no_node_takes_does_not_block_another() -> None:
    parts = (SubgroupSpec("a", 2), SubgroupSpec("b", 1))
    scenario = Scenario().nodes("n", 1, gpu=2).gang("g", 1, min=1, on=["n-0"], started=False)
    scenario.role("g", 1, gpu=3).role("g", 1)
    own = zip(scenario.members("g"), "aab", strict=True)
    members = tuple(replace(each, role="", subgroup=name) for each, name in own)
    scenario.change("g", members=members, subgroups=parts, min_subgroups=1)
    assert scenario.decide().binds == {members[2].uid: "n-0"}


def test_a_subgroup_that_must_be_near_another_starts_with_it() -> None:
    """The pods of `a` do not fit together, and none of them starts without the pod of `b`."""
    parts, labels = (SubgroupSpec("a", 1), SubgroupSpec("b", 1)), {"app": "x"}
    scenario = Scenario().nodes("n", 1, gpu=3).gang("g", 2, min=2, gpu=2, near=[term(app="x")])
    scenario.role("g", 1, gpu=1, labels=labels)
    own = zip(scenario.members("g"), "aab", strict=True)
    members = tuple(replace(each, role="", subgroup=name) for each, name in own)
    scenario.change("g", members=members, subgroups=parts, min_subgroups=1)
    assert set(scenario.decide().binds) == {members[0].uid, members[2].uid}


def test_of_two_subgroups_that_may_start_later_the_one_that_is_possible_is_reported() -> None:
    """Only `c` fits when `busy` has ended."""
    parts = (SubgroupSpec("a", 1), SubgroupSpec("b", 2), SubgroupSpec("c", 1))
    scenario = Scenario().nodes("n", 1, gpu=4).foreign("busy", "n-0", gpu=2)
    scenario.gang("g", 1, min=1, gpu=1, on=["n-0"]).role("g", 3, gpu=2)
    own = zip(scenario.members("g"), "abbc", strict=True)
    members = tuple(replace(each, role="", subgroup=name) for each, name in own)
    found = scenario.change("g", members=members, subgroups=parts, min_subgroups=1).decide().verdict("g")
    assert found.reason is Reason.INSUFFICIENT_CAPACITY
    assert found.message.startswith("subgroup c: ")


def test_pods_that_the_first_choice_must_be_near_may_be_anywhere_in_the_empty_cluster() -> None:
    """`a` may use node m only, and must be near pods that run on node n. Those of `b` match its term too."""
    parts, labels = (SubgroupSpec("a", 1), SubgroupSpec("b", 1)), {"app": "x"}
    scenario = Scenario().nodes("n", 1, gpu=2).nodes("m", 1, gpu=2)
    scenario.foreign("busy", "n-0", "m-0", gpu=1).foreign_pod("x", "n-0", labels=labels)
    scenario.gang("g", 1, min=1, selector={"group": "m"}, near=[term(app="x")])
    scenario.role("g", 1, gpu=2, labels=labels)
    own = zip(scenario.members("g"), "ab", strict=True)
    members = tuple(replace(each, role="", subgroup=name) for each, name in own)
    scenario.change("g", members=members, subgroups=parts, min_subgroups=1)
    found = scenario.decide().verdict("g")
    assert found.reason is Reason.POD_AFFINITY
    assert "a pod that podAffinity selects runs on m-0" in found.next_step
