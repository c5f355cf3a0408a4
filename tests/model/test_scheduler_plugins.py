"""PodGroups of scheduler-plugins become the same gangs: docs/dialects/scheduler-plugins.md."""

from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.cache.events import Applied
from phalanx.limits import PARTIAL_GANG_RELEASED_S
from phalanx.model.api.scheduler_plugins import SchedulerPluginsPodGroup
from phalanx.model.api.values import utc
from phalanx.model.conversion.pods import read_pod
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.dialects.scheduler_plugins import SCHEDULER_PLUGINS
from phalanx.model.gangs import GangKind
from phalanx.model.names import API_GROUP
from phalanx.model.reasons import Reason

from tests.cache.world import gangs_of, new_cache, only_gang, reasons_of
from tests.model.written import label, named, other_pod_group, pod, pod_group

LABEL = "scheduling.x-k8s.io/pod-group"


def group(**spec: Any) -> SchedulerPluginsPodGroup:
    return other_pod_group(SchedulerPluginsPodGroup, **spec)


def member(name: str, *, of: str = "g", labels: dict[str, str] | None = None, **rest: Any) -> Any:
    return pod(name, labels={LABEL: of, **(labels or {})}, **rest)


# --- the table of the page ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("spec", "expected"), [({}, 1), ({"minMember": 1}, 1), ({"minMember": 3}, 3)])
def test_the_minimum(spec: dict[str, Any], expected: int) -> None:
    gang = only_gang(group(uid="G", **spec), member("a"), member("b"), member("c"), member("d"))
    assert (gang.id, gang.kind, gang.dialect) == ("G", GangKind.POD_GROUP, SCHEDULER_PLUGINS.name)
    assert (gang.min_member, len(gang.members), gang.problems) == (expected, 4, ())
    assert gang.disruption.eviction_mode == "All"


def test_the_schedule_timeout_changes_nothing() -> None:
    one = only_gang(group(minMember=2, scheduleTimeoutSeconds=1), member("a"), member("b"))
    assert one == only_gang(group(minMember=2), member("a"), member("b"))


@pytest.mark.parametrize(
    ("needed", "expected"),
    [
        ({"cpu": 8, "memory": "2Gi"}, []),
        ({"cpu": "8001m"}, ["8001m cpu", "8 cpu", "2 pods"]),
        ({"requests.cpu": 9}, ["9 cpu"]),
        ({"example.com/gpu": 1}, ["1 example.com/gpu", "0 example.com/gpu"]),
        ({"limits.cpu": 99, "count/pods": 99, "pods": 2, "requests.memory": "2Gi"}, []),
        ({"pods": 3}, ["3 pods"]),
    ],
)
def test_minimum_resources_beyond_the_requests_of_all_pods_are_refused(
    needed: dict[str, Any], expected: list[str]
) -> None:
    requests = {"cpu": 4, "memory": "1Gi"}
    found = only_gang(
        group(minMember=2, minResources=needed), *(member(name, requests=requests) for name in ("a", "b"))
    ).problems
    assert [problem.reason for problem in found] == ([Reason.UNSUPPORTED_FIELD] if expected else [])
    for text in ("spec.minResources", *expected) if expected else ():
        assert text in found[0].message


@pytest.mark.parametrize(
    "pods",
    [
        [member("a")],
        [member("a", nodeName="n"), member("b")],
        [member("a", requests={"cpu": 9}), member("b")],
    ],
    ids=["too few pods", "starting", "enough"],
)
def test_minimum_resources_count_when_a_gang_could_start(pods: list[Any]) -> None:
    assert only_gang(group(minMember=2, minResources={"cpu": 9}), *pods).problems == ()


def test_failed_and_deleting_pods_do_not_count_for_minimum_resources() -> None:
    left = [
        member("old", requests={"cpu": 9}, status={"phase": "Failed"}),
        member("leaving", requests={"cpu": 9}, meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    ]
    assert reasons_of(only_gang(group(minResources={"cpu": 9}), member("a"), *left)) == [
        Reason.UNSUPPORTED_FIELD
    ]


def test_an_amount_that_is_none_is_an_error() -> None:
    (problem, *_) = only_gang(group(minResources={"cpu": "many"}), member("a")).problems
    assert problem.reason is Reason.INVALID_OBJECT
    assert "spec.minResources[cpu]" in problem.message


def test_a_field_of_a_later_release_is_refused_by_name() -> None:
    later = replace(group(), unknown_fields=("spec.priority",))
    (problem,) = only_gang(later, member("a")).problems
    assert problem.reason is Reason.UNSUPPORTED_FIELD
    assert "spec.priority" in problem.message


@pytest.mark.parametrize(
    ("of_group", "of_pod", "of_namespace", "queue"),
    [
        ("a", "b", "c", "a"),
        ("", "b", "c", "b"),
        ("", "", "c", "c"),
        ("", "", "", "default"),
    ],
)
def test_the_queue(of_group: str, of_pod: str, of_namespace: str, queue: str) -> None:
    def labels(name: str) -> dict[str, str]:
        return {label("queue"): name} if name else {}

    space = named("Namespace", "team", labels=labels(of_namespace))
    meta = {"labels": labels(of_group)}
    assert only_gang(space, group(meta=meta), member("a", labels=labels(of_pod))).queue == queue


def test_the_priority_is_that_of_the_pods() -> None:
    assert only_gang(group(), member("a", priority=7), member("b", priority=5)).priority == 5


def test_a_checkpoint_counts() -> None:
    meta = {"annotations": {f"{API_GROUP}/last-checkpoint": "1970-01-01T00:01:00Z"}}
    assert only_gang(group(meta=meta), member("a")).checkpointed == 60


def test_an_indirect_owner_does_not_limit_the_members() -> None:
    owner = {"kind": "TrainJob", "name": "t", "uid": "t", "controller": True}
    assert only_gang(group(meta={"ownerReferences": [owner]}), member("a", owner="job")).problems == ()


# --- members ------------------------------------------------------------------------------------------------


def test_pods_of_other_schedulers_are_no_members_and_cause_no_cycle() -> None:
    cache = new_cache()
    assert not cache.apply(Applied(group())).may_unblock
    assert not cache.apply(Applied(member("a", schedulerName="scheduler-plugins"))).may_unblock
    assert gangs_of(cache) == {}


def test_a_pod_that_two_dialects_claim_is_refused_with_both_named() -> None:
    cache = new_cache(pod_group("ours"), group(), member("a", labels={label("pod-group"): "ours"}))
    (gang,) = gangs_of(cache).values()
    message = gang.problems[0].message
    assert reasons_of(gang)[0] is Reason.INCONSISTENT_GANG
    assert SCHEDULER_PLUGINS.field in message
    assert label("pod-group") in message


def test_a_missing_pod_group_is_named_with_its_api() -> None:
    (problem,) = only_gang(member("a")).problems
    assert problem.reason is Reason.POD_GROUP_NOT_FOUND
    assert "scheduling.x-k8s.io/v1alpha1" in problem.message
    assert LABEL in problem.next_step


def test_pods_of_different_groups_are_interchangeable_for_the_solver() -> None:
    shapes = ShapeCache()
    pods = [read_pod(member("p", of=name), shapes=shapes, classes={}) for name in ("g", "h")]
    assert pods[0].shape is pods[1].shape


# --- the start ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("later", "started"), [(-1, False), (0, True)])
def test_a_gang_that_has_lost_a_member_has_started_although_its_status_does_not_tell(
    later: int, started: bool
) -> None:
    """A leader that sees it for the first time infers it, as for gangs without a PodGroup."""
    began = 1000
    made = utc(began + PARTIAL_GANG_RELEASED_S + later).isoformat().replace("+00:00", "Z")
    left = member(
        "a",
        nodeName="n",
        meta={"creationTimestamp": "1970-01-01T00:00:00Z"},
        status={"phase": "Running", "startTime": utc(began).isoformat().replace("+00:00", "Z")},
    )
    new = member("b", meta={"creationTimestamp": made})
    assert only_gang(group(minMember=2), left, new).started == started
