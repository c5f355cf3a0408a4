"""PodGroups of scheduling.k8s.io become the same gangs as those of Phalanx: docs/dialects.md."""

from typing import Any

import pytest
from phalanx.cache.events import Applied, Deleted
from phalanx.model.api.kinds import KINDS
from phalanx.model.conversion.pods import read_pod
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.dialects.known import WITH_OBJECTS
from phalanx.model.dialects.native import NATIVE, read_native_pod_group
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.names import API_GROUP
from phalanx.model.reasons import Reason
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.cache.world import gangs_of, new_cache, only_gang, reasons_of
from tests.model.written import label, named, native_pod_group, pod, pod_group


def member(name: str, *, group: str = "g", **rest: Any) -> Any:
    return pod(name, schedulingGroup={"podGroupName": group}, **rest)


# --- the table of docs/dialects.md --------------------------------------------------------------------------


def test_a_gang_policy_holds_so_many_pods_together() -> None:
    gang = only_gang(native_pod_group(uid="G", min_count=2), member("a"), member("b"), member("c"))
    assert (gang.id, gang.kind, gang.dialect, gang.name) == ("G", GangKind.POD_GROUP, NATIVE.name, "g")
    assert (gang.min_member, len(gang.members), gang.problems) == (2, 3, ())


def basic(**rest: Any) -> Any:
    return native_pod_group(schedulingPolicy={"basic": {}}, **rest)


def test_pods_of_a_basic_policy_are_gangs_of_one() -> None:
    """As if the PodGroup did not exist: each in its turn, with its own queue, priority and errors."""
    class_, queue = named("PriorityClass", "low", value=3), {label("queue"): "q"}
    cache = new_cache(class_, basic(), member("a", priority=5, labels=queue), member("b", priority=7))
    found = gangs_of(cache).values()
    assert [(gang.id, gang.kind, str(gang), gang.queue, gang.priority, gang.problems) for gang in found] == [
        ("uid-team-a", GangKind.POD, "team/a", "q", 5, ()),
        ("uid-team-b", GangKind.POD, "team/b", "default", 7, ()),
    ]
    check_cache(cache)


def test_queue_and_class_of_a_basic_policy_count_for_each_of_its_pods() -> None:
    low, queue = named("PriorityClass", "low", value=3), {"labels": {label("queue"): "q"}}
    group = basic(priorityClassName="low", preemptionPolicy="Never", meta=queue)
    gang = only_gang(low, group, member("a", priority=5))
    assert (gang.queue, gang.priority, gang.may_preempt) == ("q", 3, False)
    assert reasons_of(only_gang(basic(priorityClassName="ghost"), member("a"))) == [Reason.INVALID_OBJECT]


def test_a_pod_of_a_basic_policy_has_its_own_age_and_start() -> None:
    condition = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "r", "message": ""}
    status = {"conditions": [{**condition, "lastTransitionTime": "1970-01-01T00:01:00Z"}]}
    made = {"creationTimestamp": "1970-01-01T00:02:00Z"}
    bound, waiting = gangs_of(
        new_cache(basic(status=status), member("a", nodeName="n1"), member("b", meta=made))
    ).values()
    assert (bound.started, waiting.started, waiting.created) == (True, False, 120)


@pytest.mark.parametrize(
    "spec",
    [
        {"schedulingConstraints": {"topology": [{"key": "rack"}]}},
        {"disruptionMode": {"all": {}}},
        {"resourceClaims": [{"name": "gpu"}]},
    ],
)
def test_pods_of_a_basic_policy_that_share_more_are_one_gang(spec: dict[str, Any]) -> None:
    gang = only_gang(basic(**spec), member("a"), member("b"))
    assert (gang.kind, gang.min_member, len(gang.members)) == (GangKind.POD_GROUP, 1, 2)


def test_changes_of_a_basic_policy_are_changes_of_the_gangs_of_its_pods() -> None:
    cache = new_cache(member("a"), member("b"))
    gangs_of(cache)
    assert {"uid-team-a", "uid-team-b"} <= set(cache.apply(Applied(basic())).gangs)
    assert list(gangs_of(cache)) == ["uid-team-a", "uid-team-b"]
    changes = cache.apply(Applied(basic(meta={"labels": {label("queue"): "q"}})))
    assert {"uid-team-a", "uid-team-b"} <= set(changes.gangs)
    assert [gang.queue for gang in gangs_of(cache).values()] == ["q", "q"]
    assert cache.apply(Applied(member("a", nodeName="n1"))).gangs == ("uid-team-a",)
    assert set(cache.apply(Deleted("NativePodGroup", "team", "g")).gangs) >= {"uid-team-a", "uid-team-b"}
    assert list(gangs_of(cache)) == ["missing:scheduling.k8s.io:team/g"]
    check_cache(cache)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ({}, "Single"),
        ({"disruptionMode": {"single": {}}}, "Single"),
        ({"disruptionMode": {"all": {}}}, "All"),
    ],
)
def test_the_disruption_mode(mode: dict[str, Any], expected: str) -> None:
    assert only_gang(native_pod_group(**mode), member("a")).disruption.eviction_mode == expected


def test_a_topology_key_is_a_required_level() -> None:
    constraints = {"topology": [{"key": "example.com/rack"}]}
    gang = only_gang(native_pod_group(schedulingConstraints=constraints), member("a"))
    assert (gang.topology.required, gang.topology.preferred) == ("example.com/rack", None)


def test_a_pod_group_alone_raises_no_priority_but_lowers_it() -> None:
    high = named("PriorityClass", "high", value=100)
    group = native_pod_group(priorityClassName="high", priority=100)
    raised = only_gang(high, group, member("a", priority=7))
    assert (raised.priority, len(raised.ignored)) == (7, 1)
    assert only_gang(high, group, member("a", priority=200)).priority == 100
    assert only_gang(native_pod_group(priority=0), member("a", priority=7)).priority == 7


def test_a_class_that_does_not_exist_is_an_error() -> None:
    gang = only_gang(native_pod_group(priorityClassName="ghost"), member("a"))
    assert reasons_of(gang) == [Reason.INVALID_OBJECT]


def test_the_preemption_policy() -> None:
    assert not only_gang(native_pod_group(preemptionPolicy="Never"), member("a")).may_preempt
    assert only_gang(native_pod_group(), member("a")).may_preempt


@pytest.mark.parametrize(
    ("group", "labels", "namespace", "queue"),
    [
        ({"labels": {label("queue"): "of-group"}}, {label("queue"): "of-pod"}, {}, "of-group"),
        ({}, {label("queue"): "of-pod"}, {label("queue"): "of-namespace"}, "of-pod"),
        ({}, {}, {label("queue"): "of-namespace"}, "of-namespace"),
        ({}, {}, {}, "default"),
    ],
)
def test_the_queue(
    group: dict[str, Any], labels: dict[str, str], namespace: dict[str, str], queue: str
) -> None:
    space = named("Namespace", "team", labels=namespace)
    assert only_gang(space, native_pod_group(meta=group), member("a", labels=labels)).queue == queue


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"resourceClaims": [{"name": "gpu"}]}, "spec.resourceClaims"),
        ({"schedulingPolicy": {}}, "spec.schedulingPolicy"),
        ({"disruptionMode": {}}, "spec.disruptionMode"),
        ({"later": {"a": 1}}, "spec.later"),
        ({"schedulingPolicy": {"later": {}}}, "spec.schedulingPolicy.later"),
        ({"schedulingPolicy": {"basic": {"later": 1}}}, "spec.schedulingPolicy.basic.later"),
        ({"schedulingPolicy": {"gang": {"minCount": 1, "later": 1}}}, "spec.schedulingPolicy.gang.later"),
        ({"disruptionMode": {"later": {}}}, "spec.disruptionMode.later"),
        ({"disruptionMode": {"all": {"later": True}}}, "spec.disruptionMode.all.later"),
        (
            {"schedulingConstraints": {"topology": [{"key": "a", "later": ""}]}},
            "spec.schedulingConstraints.topology[0].later",
        ),
        (
            {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            "spec.schedulingConstraints.topology[1]",
        ),
    ],
)
def test_fields_without_a_counterpart_are_refused_by_name(spec: dict[str, Any], path: str) -> None:
    (problem,) = only_gang(native_pod_group(**spec), member("a")).problems
    assert problem.reason is Reason.UNSUPPORTED_FIELD
    assert f" {path}" in problem.message
    assert path in problem.next_step


def test_fields_that_need_no_counterpart_are_not_refused() -> None:
    reference = {"workloadName": "w", "templateName": "t"}
    group = native_pod_group(workloadRef=reference, priority=7, later=None, disruptionMode={"single": {}})
    assert only_gang(group, member("a")).problems == ()


def test_a_minimum_below_one_is_an_error() -> None:
    gang = only_gang(native_pod_group(min_count=0), member("a"))
    assert (gang.min_member, reasons_of(gang)) == (1, [Reason.INCONSISTENT_GANG])


# --- members ------------------------------------------------------------------------------------------------


def test_a_native_pod_group_and_ours_of_one_name_are_two_gangs() -> None:
    ours, native = pod_group("g", uid="OURS"), native_pod_group("g", uid="NATIVE", min_count=2)
    cache = new_cache(ours, native, pod("a", labels={label("pod-group"): "g"}), member("b"))
    found = gangs_of(cache)
    assert {key: [each.name for each in gang.members] for key, gang in found.items()} == {
        "NATIVE": ["b"],
        "OURS": ["a"],
    }
    assert [found[key].dialect for key in ("OURS", "NATIVE")] == [API_GROUP, NATIVE.name]


def test_missing_pod_groups_of_one_name_are_two_gangs() -> None:
    found = gangs_of(new_cache(pod("a", labels={label("pod-group"): "g"}), member("b")))
    assert list(found) == ["missing:scheduling.k8s.io:team/g", "missing:team/g"]
    messages = [gang.problems[0].message for gang in found.values()]
    assert ["scheduling.k8s.io/v1beta1" in message for message in messages] == [True, False]


def test_the_gang_follows_its_pod_group() -> None:
    cache = new_cache(member("a"), member("b"))
    assert reasons_of(*gangs_of(cache).values()) == [Reason.POD_GROUP_NOT_FOUND]
    assert cache.apply(Applied(native_pod_group(min_count=2))).may_unblock
    assert [gang.min_member for gang in gangs_of(cache).values()] == [2]
    cache.apply(Applied(native_pod_group(min_count=1)))
    assert [gang.min_member for gang in gangs_of(cache).values()] == [1]


def test_pod_groups_of_other_schedulers_trigger_no_cycle() -> None:
    cache = new_cache()
    assert not cache.apply(Applied(native_pod_group())).may_unblock
    assert not cache.apply(Applied(member("a", schedulerName="default-scheduler"))).may_unblock


@pytest.mark.parametrize(
    ("ours", "kind", "text"),
    [
        ({label("pod-group"): "train"}, GangKind.POD_GROUP, "PodGroup train of scheduling.phalanx.dev"),
        ({label("min-member"): "2"}, GangKind.LABEL, f"label {label('min-member')}"),
    ],
)
def test_a_pod_may_name_a_second_pod_group_that_is_no_gang(
    ours: dict[str, str], kind: GangKind, text: str
) -> None:
    """The Job controller may make a PodGroup with the policy basic for each Job."""
    pods = [member(name, owner="j", labels=ours) for name in ("a", "b")]
    cache = new_cache(pod_group("train", minMember=2), *pods)

    def gang() -> Gang:
        (found,) = gangs_of(cache).values()
        assert (found.kind, found.min_member, len(found.members)) == (kind, 2, 2)
        check_cache(cache)
        return found

    assert reasons_of(gang()) == [Reason.POD_GROUP_NOT_FOUND]
    assert "g" in gang().problems[0].message
    changes = cache.apply(Applied(basic()))
    assert (changes.may_unblock, gang().id in changes.gangs) == (True, True)
    assert gang().problems == ()
    assert not cache.apply(Applied(basic(meta={"annotations": {"a": "b"}}))).may_unblock

    cache.apply(Applied(native_pod_group(min_count=2)))
    (problem,) = gang().problems
    assert problem.reason is Reason.INCONSISTENT_GANG
    assert text in problem.message
    assert f"PodGroup g of {NATIVE.name} by {NATIVE.field}" in problem.message
    for each in pods:
        cache.apply(Deleted("Pod", "team", each.metadata.name))
    assert not cache.apply(Applied(basic())).may_unblock


def test_an_invalid_minimum_in_a_label_is_an_error_beside_a_native_pod_group() -> None:
    written = member("a", owner="j", labels={label("min-member"): "x"})
    assert [each.reason for each in read_pod(written, shapes=ShapeCache(), classes={}).problems] == [
        Reason.INVALID_OBJECT
    ]


def test_the_owner_of_a_native_pod_group_does_not_limit_its_members() -> None:
    owner = {"kind": "Job", "name": "other", "uid": "other", "controller": True}
    gang = only_gang(native_pod_group(meta={"ownerReferences": [owner]}), member("a", owner="j"))
    assert gang.problems == ()


def test_pods_of_different_groups_are_interchangeable_for_the_solver() -> None:
    shapes = ShapeCache()
    pods = [read_pod(member("p", group=name), shapes=shapes, classes={}) for name in ("g", "h")]
    assert pods[0].shape is pods[1].shape


# --- the start ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "status", "time", "started_at"),
    [
        ("PodGroupInitiallyScheduled", "True", "1970-01-01T00:01:00Z", 60),
        ("PodGroupInitiallyScheduled", "True", "no time", 1),
        ("PodGroupInitiallyScheduled", "False", "1970-01-01T00:01:00Z", 0),
        ("DisruptionTarget", "True", "1970-01-01T00:01:00Z", 0),
    ],
)
def test_the_condition_says_that_it_has_started(type_: str, status: str, time: str, started_at: int) -> None:
    condition = {"type": type_, "status": status, "reason": "r", "message": "", "lastTransitionTime": time}
    group = native_pod_group(min_count=2, status={"conditions": [condition]})
    assert read_native_pod_group(group).started_at == started_at
    assert only_gang(group, member("a", nodeName="n"), member("b")).started == (started_at > 0)


def test_every_dialect_has_a_kind_of_its_own() -> None:
    kinds = [KINDS[dialect.kind] for dialect in WITH_OBJECTS]
    assert all(
        each.name in (kind.group, kind.resource) for each, kind in zip(WITH_OBJECTS, kinds, strict=True)
    )
    assert len({dialect.name for dialect in WITH_OBJECTS}) == len(WITH_OBJECTS)
    assert {kind.api_name for kind in kinds} == {"PodGroup", "CompositePodGroup"}
