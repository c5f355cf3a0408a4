"""PodGroups of scheduling.k8s.io become the same gangs as those of Phalanx: docs/dialects.md."""

from typing import Any

import pytest
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied
from phalanx.model.api.kinds import KINDS, KubeObject
from phalanx.model.conversion.pods import read_pod
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.dialects.known import DIALECTS
from phalanx.model.dialects.native import NATIVE, read_native_pod_group
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.names import API_GROUP
from phalanx.model.reasons import Reason

from tests.cache.world import new_cache, take_snapshot
from tests.model.written import label, named, native_pod_group, pod, pod_group


def member(name: str, *, group: str = "g", **rest: Any) -> Any:
    return pod(name, schedulingGroup={"podGroupName": group}, **rest)


def gangs(cache: Cache) -> dict[str, Gang]:
    return {str(key): gang for key, gang in take_snapshot(cache).gangs.items()}


def only(*objects: KubeObject) -> Gang:
    (gang,) = gangs(new_cache(*objects)).values()
    return gang


def reasons(gang: Gang) -> list[Reason]:
    return [problem.reason for problem in gang.problems]


# --- the table of docs/dialects.md --------------------------------------------------------------------------


def test_a_gang_policy_holds_so_many_pods_together() -> None:
    gang = only(native_pod_group(uid="G", min_count=2), member("a"), member("b"), member("c"))
    assert (gang.id, gang.kind, gang.dialect, gang.name) == ("G", GangKind.POD_GROUP, NATIVE.name, "g")
    assert (gang.min_member, len(gang.members), gang.problems) == (2, 3, ())


def test_pods_of_a_basic_policy_start_one_by_one() -> None:
    gang = only(native_pod_group(schedulingPolicy={"basic": {}}), member("a"), member("b"))
    assert (gang.min_member, gang.disruption.eviction_mode) == (1, "Single")


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ({}, "Single"),
        ({"disruptionMode": {"single": {}}}, "Single"),
        ({"disruptionMode": {"all": {}}}, "All"),
    ],
)
def test_the_disruption_mode(mode: dict[str, Any], expected: str) -> None:
    assert only(native_pod_group(**mode), member("a")).disruption.eviction_mode == expected


def test_a_topology_key_is_a_required_level() -> None:
    constraints = {"topology": [{"key": "example.com/rack"}]}
    gang = only(native_pod_group(schedulingConstraints=constraints), member("a"))
    assert (gang.topology.required, gang.topology.preferred) == ("example.com/rack", None)


def test_a_pod_group_alone_raises_no_priority_but_lowers_it() -> None:
    high = named("PriorityClass", "high", value=100)
    group = native_pod_group(priorityClassName="high", priority=100)
    raised = only(high, group, member("a", priority=7))
    assert (raised.priority, len(raised.ignored)) == (7, 1)
    assert only(high, group, member("a", priority=200)).priority == 100
    assert only(native_pod_group(priority=0), member("a", priority=7)).priority == 7


def test_a_class_that_does_not_exist_is_an_error() -> None:
    gang = only(native_pod_group(priorityClassName="ghost"), member("a"))
    assert reasons(gang) == [Reason.INVALID_OBJECT]


def test_the_preemption_policy() -> None:
    assert not only(native_pod_group(preemptionPolicy="Never"), member("a")).may_preempt
    assert only(native_pod_group(), member("a")).may_preempt


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
    assert only(space, native_pod_group(meta=group), member("a", labels=labels)).queue == queue


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"resourceClaims": [{"name": "gpu"}]}, "spec.resourceClaims"),
        ({"parentCompositePodGroupName": "all"}, "spec.parentCompositePodGroupName"),
        ({"schedulingPolicy": {"ofALaterRelease": {}}}, "spec.schedulingPolicy"),
        ({"disruptionMode": {"ofALaterRelease": {}}}, "spec.disruptionMode"),
        (
            {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            "spec.schedulingConstraints.topology[1]",
        ),
    ],
)
def test_fields_without_a_counterpart_are_refused_by_name(spec: dict[str, Any], path: str) -> None:
    (problem,) = only(native_pod_group(**spec), member("a")).problems
    assert problem.reason is Reason.UNSUPPORTED_FIELD
    assert f" {path}" in problem.message
    assert path in problem.next_step


def test_a_minimum_below_one_is_an_error() -> None:
    gang = only(native_pod_group(min_count=0), member("a"))
    assert (gang.min_member, reasons(gang)) == (1, [Reason.INCONSISTENT_GANG])


# --- members ------------------------------------------------------------------------------------------------


def test_a_native_pod_group_and_ours_of_one_name_are_two_gangs() -> None:
    ours, native = pod_group("g", uid="OURS"), native_pod_group("g", uid="NATIVE", min_count=2)
    cache = new_cache(ours, native, pod("a", labels={label("pod-group"): "g"}), member("b"))
    found = gangs(cache)
    assert {key: [each.name for each in gang.members] for key, gang in found.items()} == {
        "NATIVE": ["b"],
        "OURS": ["a"],
    }
    assert [found[key].dialect for key in ("OURS", "NATIVE")] == [API_GROUP, NATIVE.name]


def test_missing_pod_groups_of_one_name_are_two_gangs() -> None:
    found = gangs(new_cache(pod("a", labels={label("pod-group"): "g"}), member("b")))
    assert list(found) == ["missing:scheduling.k8s.io:team/g", "missing:team/g"]
    messages = [gang.problems[0].message for gang in found.values()]
    assert ["scheduling.k8s.io/v1beta1" in message for message in messages] == [True, False]


def test_the_gang_follows_its_pod_group() -> None:
    cache = new_cache(member("a"), member("b"))
    assert reasons(*gangs(cache).values()) == [Reason.POD_GROUP_NOT_FOUND]
    assert cache.apply(Applied(native_pod_group(min_count=2))).may_unblock
    assert [gang.min_member for gang in gangs(cache).values()] == [2]
    cache.apply(Applied(native_pod_group(min_count=1)))
    assert [gang.min_member for gang in gangs(cache).values()] == [1]


def test_pod_groups_of_other_schedulers_trigger_no_cycle() -> None:
    cache = new_cache()
    assert not cache.apply(Applied(native_pod_group())).may_unblock
    assert not cache.apply(Applied(member("a", schedulerName="default-scheduler"))).may_unblock


@pytest.mark.parametrize("other", ["pod-group", "min-member"])
def test_a_pod_that_two_dialects_claim_is_refused_with_both_named(other: str) -> None:
    written = member("a", group="theirs", owner="j", labels={label(other): "1"})
    (problem,) = read_pod(written, shapes=ShapeCache(), classes={}).problems
    assert problem.reason is Reason.INCONSISTENT_GANG
    assert NATIVE.field in problem.message
    assert label(other) in problem.message


def test_the_owner_of_a_native_pod_group_does_not_limit_its_members() -> None:
    owner = {"kind": "Job", "name": "other", "uid": "other", "controller": True}
    gang = only(native_pod_group(meta={"ownerReferences": [owner]}), member("a", owner="j"))
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
    assert only(group, member("a", nodeName="n"), member("b")).started == (started_at > 0)


def test_every_dialect_has_a_kind_of_its_own() -> None:
    kinds = [KINDS[dialect.kind] for dialect in DIALECTS.values()]
    assert [kind.group for kind in kinds] == list(DIALECTS)
    assert {kind.api_name for kind in kinds} == {"PodGroup"}
