"""Composite groups of scheduling.k8s.io become gangs with subgroups: docs/dialects.md."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from phalanx.cache.events import Applied, Deleted
from phalanx.model.dialects.composite import COMPOSITE, gangs_of_parts
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.reasons import Reason
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.cache.world import gangs_of, new_cache, only_gang, reasons_of
from tests.model.written import composite_pod_group, label, named, native_pod_group, pod, pod_group

RACK = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
BLOCK = {"schedulingConstraints": {"topology": [{"key": "block"}]}}
BASIC = {"schedulingPolicy": {"basic": {}}}
ALL = {"disruptionMode": {"all": {}}}


def member(name: str, group: str, **rest: Any) -> Any:
    return pod(name, schedulingGroup={"podGroupName": group}, **rest)


def part(name: str, parent: str = "all", min_count: int = 1, **rest: Any) -> Any:
    return native_pod_group(name, min_count=min_count, parentCompositePodGroupName=parent, **rest)


def subgroups(gang: Gang) -> list[tuple[str, int, str, str | None]]:
    return [(each.name, each.min_member, each.parent, each.required) for each in gang.subgroups]


# --- the tables of docs/dialects.md -------------------------------------------------------------------------


def test_a_composite_group_is_a_gang_whose_subgroups_are_its_pod_groups() -> None:
    whole = composite_pod_group(uid="ALL", min_group_count=2, **BLOCK)
    groups = (part("ps", min_count=1), part("workers", min_count=2, **RACK))
    pods = (member("p", "ps"), member("w0", "workers"), member("w1", "workers"))
    gang = only_gang(whole, *groups, *pods)
    assert (gang.id, gang.kind, gang.dialect, gang.name) == ("ALL", GangKind.POD_GROUP, COMPOSITE.name, "all")
    assert subgroups(gang) == [("ps", 1, "", None), ("workers", 2, "", "rack")]
    assert (gang.min_member, gang.min_subgroups, gang.topology.required) == (3, 0, "block")
    assert [(each.name, each.subgroup) for each in gang.members] == [
        ("p", "ps"),
        ("w0", "workers"),
        ("w1", "workers"),
    ]
    assert gang.problems == ()


def test_groups_inside_groups_are_subgroups_inside_subgroups() -> None:
    tree = (
        composite_pod_group(min_group_count=2),
        composite_pod_group("left", parent="all", min_group_count=2, **BLOCK),
        composite_pod_group("right", parent="all", min_group_count=1, **BLOCK),
        part("a", "left", 2, **RACK),
        part("left", "left", 3, **RACK),
        part("b", "right", 4),
    )
    gang = only_gang(*tree, member("p", "a"))
    assert subgroups(gang) == [
        ("CompositePodGroup/left", 5, "", "block"),
        ("a", 2, "CompositePodGroup/left", "rack"),
        ("left", 3, "CompositePodGroup/left", "rack"),
        ("CompositePodGroup/right", 4, "", "block"),
        ("b", 4, "CompositePodGroup/right", None),
    ]
    assert (gang.min_member, gang.problems) == (9, ())


def test_fewer_groups_may_be_enough_for_the_outermost_one_only() -> None:
    outer = composite_pod_group(min_group_count=1)
    gang = only_gang(outer, part("a", min_count=3), part("b", min_count=2), member("p", "a"))
    assert (gang.min_subgroups, gang.min_member, gang.problems) == (1, 2, ())
    inner = composite_pod_group("inner", parent="all", min_group_count=1)
    (problem,) = only_gang(outer, inner, part("a", "inner"), part("b", "inner"), member("p", "a")).problems
    assert problem.reason is Reason.UNSUPPORTED_FIELD
    assert "CompositePodGroup inner field spec.schedulingPolicy that needs 1 of 2 groups" in problem.message


def test_the_policy_basic_of_a_pod_group_needs_one_pod() -> None:
    gang = only_gang(composite_pod_group(), part("a", **BASIC), member("p", "a"), member("q", "a"))
    assert (subgroups(gang), len(gang.members)) == ([("a", 1, "", None)], 2)


def test_a_basic_composite_group_holds_nothing_together() -> None:
    tree = (
        composite_pod_group(**BASIC),
        composite_pod_group("inner", parent="all"),
        part("a", "inner"),
        part("b", min_count=2),
        part("c", **BASIC),
    )
    found = gangs_of(new_cache(*tree, member("p", "a"), member("q", "b"), member("r", "c"), member("s", "c")))
    assert [(gang.name, gang.kind, gang.min_member) for gang in found.values()] == [
        ("inner", GangKind.POD_GROUP, 1),
        ("b", GangKind.POD_GROUP, 2),
        ("r", GangKind.POD, 1),
        ("s", GangKind.POD, 1),
    ]
    assert [gang.problems for gang in found.values()] == [(), (), (), ()]


@pytest.mark.parametrize("more", [RACK, ALL])
def test_a_basic_composite_group_that_asks_for_more_needs_one_of_its_groups(more: dict[str, Any]) -> None:
    gang = only_gang(composite_pod_group(**BASIC, **more), part("a"), part("b"), member("p", "a"))
    assert (gang.name, gang.min_subgroups) == ("all", 1)


def test_queue_and_class_of_the_outermost_group_count_for_the_groups_inside() -> None:
    low, queue = named("PriorityClass", "low", value=3), {"labels": {label("queue"): "q"}}
    rest = {"priorityClassName": "low", "preemptionPolicy": "Never", "meta": queue}
    for policy in ({}, BASIC):
        gang = only_gang(low, composite_pod_group(**policy, **rest), part("a"), member("p", "a", priority=5))
        assert (gang.queue, gang.priority, gang.may_preempt, gang.problems) == ("q", 3, False, ())


@pytest.mark.parametrize(
    ("one", "other", "text"),
    [
        (
            {"priorityClassName": "x"},
            {"priorityClassName": "y"},
            "spec.priorityClassName: 'x' in all, 'y' in a",
        ),
        (
            {"preemptionPolicy": "Never"},
            {"preemptionPolicy": "PreemptLowerPriority"},
            "spec.preemptionPolicy",
        ),
        (
            {"meta": {"labels": {label("queue"): "q"}}},
            {"meta": {"labels": {label("queue"): "r"}}},
            f"label {label('queue')}: 'q' in all, 'r' in a",
        ),
    ],
)
@pytest.mark.parametrize("policy", [{}, BASIC])
def test_groups_of_a_tree_agree(policy: Any, one: Any, other: Any, text: str) -> None:
    classes = [named("PriorityClass", name, value=3) for name in ("x", "y")]
    gang = only_gang(*classes, composite_pod_group(**policy, **one), part("a", **other), member("p", "a"))
    assert reasons_of(gang) == [Reason.INCONSISTENT_GANG]
    assert text in gang.problems[0].message


@pytest.mark.parametrize(
    ("outer", "inner", "mode", "refused"),
    [({}, {}, "Single", False), (ALL, {}, "All", False), (ALL, ALL, "All", False), ({}, ALL, "Single", True)],
)
def test_the_disruption_mode(outer: Any, inner: Any, mode: str, refused: bool) -> None:
    gang = only_gang(composite_pod_group(**outer), part("a", **inner), member("p", "a"))
    assert gang.disruption.eviction_mode == mode
    assert reasons_of(gang) == [Reason.UNSUPPORTED_FIELD] * refused
    assert all("PodGroup a field spec.disruptionMode.all" in problem.message for problem in gang.problems)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"schedulingPolicy": {}}, "spec.schedulingPolicy"),
        ({"disruptionMode": {}}, "spec.disruptionMode"),
        ({"later": {"a": 1}}, "spec.later"),
        (
            {"schedulingPolicy": {"gang": {"minGroupCount": 1, "later": 1}}},
            "spec.schedulingPolicy.gang.later",
        ),
        (
            {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            "spec.schedulingConstraints.topology[1]",
        ),
    ],
)
def test_fields_without_a_counterpart_are_refused_by_name(spec: dict[str, Any], path: str) -> None:
    (problem,) = only_gang(composite_pod_group(**spec), part("a"), member("p", "a")).problems
    assert problem.reason is Reason.UNSUPPORTED_FIELD
    assert f"CompositePodGroup field {path}" in problem.message


def test_a_refused_field_of_a_part_is_one_of_the_gang() -> None:
    gang = only_gang(composite_pod_group(), part("a", resourceClaims=[{"name": "gpu"}]), member("p", "a"))
    assert [problem.message for problem in gang.problems] == [
        "PodGroup a: PodGroup field spec.resourceClaims is not supported yet"
    ]


# --- cases --------------------------------------------------------------------------------------------------


def test_a_missing_composite_group_is_waited_for() -> None:
    inner = composite_pod_group("inner", parent="all")
    cache = new_cache(inner, part("a", "inner"), part("b"), member("p", "a"), member("q", "b"))
    (gang,) = gangs_of(cache).values()
    assert (gang.id, reasons_of(gang)) == (f"missing:{COMPOSITE.name}:team/all", [Reason.POD_GROUP_NOT_FOUND])
    assert "no CompositePodGroup 'all'" in gang.problems[0].message
    changes = cache.apply(Applied(composite_pod_group(uid="ALL", min_group_count=2)))
    assert changes.may_unblock
    assert {"ALL", f"missing:{COMPOSITE.name}:team/all"} <= set(changes.gangs)
    (gang,) = gangs_of(cache).values()
    assert (gang.id, gang.problems, len(gang.members)) == ("ALL", (), 2)


def test_pods_keep_their_gang_when_a_composite_group_is_removed() -> None:
    cache = new_cache(composite_pod_group(), part("a"), member("p", "a", nodeName="n1"), member("q", "a"))
    (before,) = gangs_of(cache).values()
    assert (before.started, before.problems) == (True, ())
    cache.apply(Deleted("CompositePodGroup", "team", "all"))
    (gang,) = gangs_of(cache).values()
    assert (len(gang.members), reasons_of(gang)) == (2, [Reason.POD_GROUP_NOT_FOUND])
    check_cache(cache)


@pytest.mark.parametrize("at", ["all", "inner"])
def test_missing_groups_are_waited_for(at: str) -> None:
    tree = (
        composite_pod_group(min_group_count=2 if at == "all" else 1),
        composite_pod_group("inner", parent="all", min_group_count=2 if at == "inner" else 1),
    )
    cache = new_cache(*tree, part("a", "inner"), member("p", "a"))
    (gang,) = gangs_of(cache).values()
    assert reasons_of(gang) == [Reason.MEMBERS_MISSING]
    assert f"CompositePodGroup {at} needs 2 groups, and 1 exist" in gang.problems[0].message
    assert cache.apply(Applied(part("b", at))).may_unblock
    (gang,) = gangs_of(cache).values()
    assert (gang.problems, {each.name for each in gang.subgroups} >= {"a", "b"}) == ((), True)


def test_the_minimum_of_a_part_may_change() -> None:
    cache = new_cache(composite_pod_group(), part("a", min_count=2), member("p", "a"))
    assert [gang.min_member for gang in gangs_of(cache).values()] == [2]
    assert cache.apply(Applied(part("a", min_count=1))).may_unblock
    assert [gang.min_member for gang in gangs_of(cache).values()] == [1]


def test_groups_that_contain_each_other_are_no_gang() -> None:
    circle = [composite_pod_group(name, parent=parent) for name, parent in (("x", "y"), ("y", "x"))]
    cache = new_cache(*circle, part("a", "x"), part("b", "y"), member("p", "a"), member("q", "b"))
    assert [(gang.name, reasons_of(gang)) for gang in gangs_of(cache).values()] == [
        ("a", [Reason.INCONSISTENT_GANG]),
        ("b", [Reason.INCONSISTENT_GANG]),
    ]


@pytest.mark.parametrize("policy", [{}, BASIC])
def test_trees_have_at_most_four_levels(policy: Any) -> None:
    def tree(depth: int) -> Sequence[Any]:
        names = ["all", "l2", "l3", "l4"][:depth]
        more = [composite_pod_group(name, parent=above) for above, name in pairwise(names)]
        return (composite_pod_group(**policy), *more, part("a", names[-1]), member("p", "a"))

    assert only_gang(*tree(3)).problems == ()
    deep = only_gang(*tree(4))
    assert (deep.name, reasons_of(deep)) == ("a", [Reason.INCONSISTENT_GANG])
    shallow = gangs_of(new_cache(*tree(4), part("b", "l2" if policy else "all"), member("q", "b"))).values()
    assert [reasons_of(gang) for gang in shallow] == [[Reason.INCONSISTENT_GANG]] * 2


def test_a_gang_has_at_most_64_groups() -> None:
    def gang(count: int) -> Gang:
        parts = [part(f"a{number}") for number in range(count)]
        return only_gang(composite_pod_group(min_group_count=count), *parts, member("p", "a0"))

    assert (len(gang(64).subgroups), gang(64).problems) == (64, ())
    assert reasons_of(gang(65)) == [Reason.UNSUPPORTED_FIELD]


def test_a_basic_part_of_a_gang_counts_as_a_gang_beside_one_of_phalanx() -> None:
    both = member("p", "a", labels={label("pod-group"): "g"})
    cache = new_cache(pod_group(), part("a", **BASIC), both)
    for tree, problems in (
        (composite_pod_group(), [Reason.INCONSISTENT_GANG]),
        (composite_pod_group(uid="again", **BASIC), []),
    ):
        assert cache.apply(Applied(tree)).may_unblock
        (gang,) = gangs_of(cache).values()
        assert reasons_of(gang) == problems
        check_cache(cache)


def test_groups_without_pods_of_ours_trigger_no_cycle() -> None:
    cache = new_cache()
    for each in (composite_pod_group(), part("a"), member("p", "a", schedulerName="default-scheduler")):
        assert not cache.apply(Applied(each)).may_unblock


# --- start and status ---------------------------------------------------------------------------------------


def started(minute: int) -> dict[str, Any]:
    condition = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "r", "message": ""}
    return {"conditions": [{**condition, "lastTransitionTime": f"1970-01-01T00:0{minute}:00Z"}]}


@pytest.mark.parametrize(
    ("least", "minutes", "at"),
    [(2, (1, 0), 0), (2, (2, 1), 120), (1, (2, 1), 60), (1, (0, 3), 180), (1, (0, 0), 0)],
)
def test_the_conditions_of_its_parts_tell_that_a_gang_has_started(
    least: int, minutes: tuple[int, int], at: int
) -> None:
    groups = [
        part(name, status=started(minute) if minute else {})
        for name, minute in zip("ab", minutes, strict=True)
    ]
    gang = only_gang(composite_pod_group(min_group_count=least), *groups, member("p", "a", nodeName="n1"))
    assert gang.started_at == at


def statuses(least: int, *bound: str) -> dict[str, bool]:
    """Per PodGroup, whether it counts as scheduled."""
    groups = (part("a"), part("b", min_count=2), part("c"))
    pods = [
        member(name, name[0], **({"nodeName": "n1"} if name in bound else {})) for name in ("a0", "b0", "b1")
    ]
    gang = only_gang(composite_pod_group(min_group_count=least), *groups[:2], *pods)
    parts = {each.members[0].subgroup: each for each in gangs_of_parts(gang)}
    return {name: each.started or each.reaches_minimum for name, each in sorted(parts.items())}


def test_a_part_is_scheduled_when_the_gang_has_started_and_its_own_pods_are_bound() -> None:
    assert statuses(2, "a0", "b0") == {"a": False, "b": False}
    assert statuses(2, "a0", "b0", "b1") == {"a": True, "b": True}
    assert statuses(1, "a0") == {"a": True, "b": False}
    assert statuses(1, "a0", "b0", "b1") == {"a": True, "b": True}
