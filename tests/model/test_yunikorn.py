"""Applications of YuniKorn become gangs: docs/dialects/yunikorn.md."""

import json
from typing import Any

import pytest
from phalanx.cache.events import Applied, Deleted
from phalanx.limits import PLACEHOLDERS_MAX
from phalanx.model.conversion.pods import read_pod
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.names import API_GROUP
from phalanx.model.pods import PodShape
from phalanx.model.reasons import Reason
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.cache.world import gangs_of, new_cache, only_gang, reasons_of
from tests.model.written import allows_non_preemptible, job, label, named, pod, pod_group, pod_of_job

DOMAIN = "yunikorn.apache.org"
APP, GROUP, GROUPS = f"{DOMAIN}/app-id", f"{DOMAIN}/task-group-name", f"{DOMAIN}/task-groups"
PARAMETERS, ALLOW, QUEUE = (
    f"{DOMAIN}/schedulingPolicyParameters",
    f"{DOMAIN}/allow-preemption",
    f"{DOMAIN}/queue",
)


def group(name: str = "workers", minimum: Any = 2, **more: Any) -> dict[str, Any]:
    return {"name": name, "minMember": minimum, "minResource": {"cpu": 1}, **more}


SPARK = [group("driver", 1), group("executor", 3, minResource={"cpu": 2, "memory": "1Gi"})]


def member(
    name: str,
    task_group: str = "workers",
    *,
    defines: Any = None,
    app: str = "app",
    more: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    **rest: Any,
) -> Any:
    """A pod of application `app`; `defines` are its task groups, as a text or as what the JSON says."""
    text = defines if defines is None or isinstance(defines, str) else json.dumps(defines)
    written = {GROUP: task_group, GROUPS: text, **(more or {})}
    annotations = {key: value for key, value in written.items() if value}
    labels = {**({"applicationId": app} if app else {}), **(labels or {})}
    return pod(name, labels=labels, meta={"annotations": annotations}, **rest)


def first(*groups: Any, name: str = "a", **more: Any) -> Any:
    """The first pod, of task group `workers`, with these task groups or with two workers."""
    return member(name, defines=list(groups) or [group()], **more)


def shapes(gang: Gang) -> dict[str, PodShape | None]:
    return {role.name: role.shape for role in gang.roles}


# --- the application ----------------------------------------------------------------------------------------


def test_an_application_is_a_gang_of_its_task_groups() -> None:
    gang = only_gang(member("d", "driver", defines=SPARK), member("e", "executor"))
    assert (gang.kind, gang.dialect, gang.name) == (GangKind.POD_GROUP, DOMAIN, "app")
    assert [(role.name, role.count, role.min_member) for role in gang.roles] == [
        ("driver", 1, 1),
        ("executor", 3, 3),
    ]
    assert (gang.min_member, gang.reserves, gang.problems) == (4, True, ())
    executor = shapes(gang)["executor"]
    assert executor is not None
    assert executor.requests == {"cpu": 2000, "memory": 2**30, "pods": 1}


@pytest.mark.parametrize(
    ("labels", "annotations", "app"),
    [
        ({APP: "a", "applicationId": "a", "spark-app-selector": "d"}, {APP: "a"}, "a"),
        ({"applicationId": "b", "spark-app-selector": "d"}, {APP: "b"}, "b"),
        ({"spark-app-selector": "d"}, {APP: "b"}, "b"),
        ({"applicationId": "c", "spark-app-selector": "d"}, {}, "c"),
        ({"spark-app-selector": "d"}, {}, "d"),
        ({APP: "team-uniqueautogen"}, {}, "team-uid-team-a"),
    ],
)
def test_the_application_id(labels: dict[str, str], annotations: dict[str, str], app: str) -> None:
    gang = only_gang(first(app="", labels=labels, more=annotations))
    assert (gang.name, gang.problems) == (app, ())


@pytest.mark.parametrize(
    ("labels", "named_path"),
    [({}, f"[{GROUPS}] without an application ID"), ({APP: "a", "applicationId": "b"}, "[applicationId]: b")],
)
def test_no_or_several_application_ids_are_refused(labels: dict[str, str], named_path: str) -> None:
    (problem,) = only_gang(first(app="", labels=labels)).problems
    assert problem.reason is Reason.UNSUPPORTED_FIELD
    assert named_path in problem.message


def test_applications_of_two_namespaces_are_two_gangs() -> None:
    assert len(gangs_of(new_cache(first(), first(namespace="other")))) == 2


def test_pods_of_other_schedulers_are_no_members_and_cause_no_cycle() -> None:
    cache = new_cache()
    assert not cache.apply(Applied(first(schedulerName="yunikorn"))).may_unblock
    assert gangs_of(cache) == {}


def test_the_first_pod_defines_and_the_next_one_after_it_is_gone() -> None:
    times = [{"creationTimestamp": f"2026-01-01T00:00:0{second}Z"} for second in range(3)]
    cache = new_cache(
        *(
            pod(
                f"p{2 - number}",
                labels={"applicationId": "app"},
                meta={**times[number], "annotations": {GROUPS: json.dumps([group(minimum=number + 1)])}},
            )
            for number in (2, 0, 1)
        )
    )
    for left, number in ((3, 0), (2, 1), (1, 2)):
        (gang,) = gangs_of(cache).values()
        assert len(gang.members) == left
        assert gang.roles[0].min_member == number + 1
        hints = [hint for hint in gang.ignored if f"{GROUPS} counts on the first pod only, p" in hint]
        assert (gang.problems, len(hints)) == ((), left > 1)
        cache.apply(Deleted("Pod", "team", f"p{2 - number}"))
    assert gangs_of(cache) == {}


def test_pods_wait_while_no_pod_defines_the_task_groups() -> None:
    cache = new_cache(member("e"))
    (gang,) = gangs_of(cache).values()
    assert reasons_of(gang) == [Reason.POD_GROUP_NOT_FOUND]
    assert GROUPS in gang.problems[0].message
    assert cache.apply(Applied(first())).may_unblock
    (gang,) = gangs_of(cache).values()
    assert (len(gang.members), gang.problems) == (2, ())


def test_a_pod_without_a_task_group_that_defines_them_is_needed_too() -> None:
    assert only_gang(member("d", "", defines=[group()])).min_member == 3
    assert only_gang(first()).min_member == 2


def of_run(number: int, name: str, *, phase: str, minimum: int = 2) -> Any:
    """A pod of a run of a minute that begins after so many minutes."""
    begins, ends = (f"2026-01-01T00:{minute:02}:00Z" for minute in (number, number + 1))
    ended = {"containerStatuses": [{"state": {"terminated": {"exitCode": 0, "finishedAt": ends}}}]}
    return pod(
        name,
        labels={"applicationId": "app"},
        meta={
            "creationTimestamp": begins,
            "annotations": {GROUP: "workers", GROUPS: json.dumps([group(minimum=minimum)])},
        },
        status={"phase": phase, "startTime": begins, **(ended if phase == "Succeeded" else {})},
        nodeName="n" if phase != "Pending" else "",
    )


def test_pods_of_an_earlier_run_are_in_no_gang_with_those_of_the_next() -> None:
    old = [of_run(0, f"old-{number}", phase="Succeeded") for number in range(2)]
    (before,) = gangs_of(new_cache(*old)).values()
    assert (before.started, len(before.members)) == (True, 2)
    cache = new_cache(*old, *(of_run(9, f"new-{number}", phase="Pending", minimum=3) for number in range(2)))
    check_cache(cache)
    gang, *others = sorted(gangs_of(cache).values(), key=lambda gang: gang.kind is GangKind.POD)
    assert ([pod.name for pod in gang.members], gang.min_member) == (["new-0", "new-1"], 3)
    assert (gang.started, gang.ignored, gang.problems) == (False, (), ())
    assert [len(each.members) for each in others] == [1, 1]


def test_pods_that_follow_those_that_have_ended_are_of_the_same_run() -> None:
    pods = [
        of_run(0, "a", phase="Succeeded"),
        of_run(0, "b", phase="Running"),
        of_run(9, "c", phase="Pending"),
    ]
    (gang,) = gangs_of(new_cache(*pods)).values()
    assert (len(gang.members), gang.started) == (3, True)
    (gang,) = gangs_of(new_cache(pods[0], of_run(1, "c", phase="Pending"))).values()
    assert (len(gang.members), gang.started) == (2, True)


# --- pods without a task group ------------------------------------------------------------------------------


def free(name: str = "x", **rest: Any) -> Any:
    return member(name, "", **rest)


@pytest.mark.parametrize("order", [0, 1])
def test_pods_without_a_task_group_are_beyond_the_minimum(order: int) -> None:
    pods = [first(), free(labels={"spark-role": "workers", "queue": "other"})]
    gang = only_gang(*(pods if order else pods[::-1]))
    assert len(gang.members) == 2
    assert (gang.min_member, gang.problems, gang.queue) == (2, (), "default")
    assert sorted(each.role for each in gang.members) == ["", "workers"]


@pytest.mark.parametrize("definition", ["[]", ""])
def test_without_task_groups_each_pod_is_what_it_is_without_yunikorn(definition: str) -> None:
    pods = [free("a", defines=definition), free("b"), free("c", app="other")]
    gangs = gangs_of(new_cache(*pods)).values()
    assert [(gang.kind, len(gang.members), gang.problems) for gang in gangs] == [(GangKind.POD, 1, ())] * 3


def test_pods_of_a_job_join_an_application_and_leave_it() -> None:
    labels = {"applicationId": "app"}
    cache = new_cache(job("j", parallelism=2), *(pod_of_job("j", n, labels=labels) for n in range(2)))
    (before,) = gangs_of(cache).values()
    assert (before.kind, before.problems) == (GangKind.WORKLOAD, ())
    assert cache.apply(Applied(first())).may_unblock
    (gang,) = gangs_of(cache).values()
    assert (gang.dialect, len(gang.members), gang.problems) == (DOMAIN, 3, ())
    cache.apply(Applied(job("j", parallelism=1)))
    check_cache(cache)
    cache.apply(Deleted("Pod", "team", "a"))
    (after,) = gangs_of(cache).values()
    assert (after.kind, len(after.members)) == (GangKind.WORKLOAD, 2)
    check_cache(cache)


def test_a_gang_of_the_label_min_member_does_not_join() -> None:
    pods = [first(), free(owner="j", labels={label("min-member"): "1"})]
    assert {gang.kind for gang in gangs_of(new_cache(*pods)).values()} == {GangKind.POD_GROUP, GangKind.LABEL}


# --- two gangs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "owner", "other"),
    [
        ({label("pod-group"): "ours"}, "", f"PodGroup ours of {API_GROUP}"),
        ({label("min-member"): "1"}, "j", f"label {label('min-member')}"),
    ],
)
def test_a_pod_that_two_claim_is_refused_with_both_named(
    labels: dict[str, str], owner: str, other: str
) -> None:
    cache = new_cache(pod_group("ours"), first(labels=labels, owner=owner))
    (gang,) = gangs_of(cache).values()
    assert reasons_of(gang) == [Reason.INCONSISTENT_GANG]
    assert other in gang.problems[0].message
    assert f"application app of {DOMAIN} by annotation {GROUP}" in gang.problems[0].message


def test_a_pod_that_ignores_its_application_id_does_not_join() -> None:
    cache = new_cache(first(), free(more={f"{DOMAIN}/ignore-application": "true"}))
    assert {gang.name: len(gang.members) for gang in gangs_of(cache).values()} == {"app": 1, "x": 1}


def test_an_application_id_alone_claims_nothing() -> None:
    cache = new_cache(pod_group("ours"), first(), free(labels={label("pod-group"): "ours"}))
    assert {gang.name: gang.problems for gang in gangs_of(cache).values()} == {"ours": (), "app": ()}


# --- fields of task groups ----------------------------------------------------------------------------------


def test_the_capacity_that_is_reserved_has_selectors_tolerations_and_node_affinity() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    wanted = group(
        nodeSelector={"pool": "gpu"},
        tolerations=[{"key": "k", "operator": "Exists"}],
        affinity=affinity,
        labels={"a": "b"},
        annotations={"c": "d"},
        topologySpreadConstraints=[],
    )
    gang = only_gang(first(wanted))
    shape = shapes(gang)["workers"]
    assert gang.problems == ()
    assert shape is not None
    assert shape.node_selector == (("pool", "gpu"),)
    assert len(shape.tolerations) == len(shape.required_affinity) == 1


def test_names_of_fields_are_read_in_any_case() -> None:
    gang = only_gang(first({"Name": "workers", "MinMember": 2, "MINRESOURCE": {"cpu": 1}}))
    assert (gang.min_member, gang.problems) == (2, ())


@pytest.mark.parametrize(
    ("written", "reason", "path"),
    [
        ([group(topologySpreadConstraints=[{"maxSkew": 1}])], "unsupported", "[0].topologySpreadConstraints"),
        ([group(), group("b", later=1)], "unsupported", "[1].later"),
        ("nonsense", "invalid", "expected a list in JSON"),
        ("{}", "invalid", "expected a list in JSON"),
        ([1], "invalid", "[0]: expected an object"),
        ([group(f"g{n}") for n in range(33)], "invalid", "expected at most 32 task groups"),
        ([group(""), group()], "invalid", "[0].name"),
        ([group(minimum=0)], "invalid", "[0].minMember"),
        ([group(minimum=True)], "invalid", "[0].minMember"),
        ([group(minResource=None)], "invalid", "[0].minResource: expected amounts"),
        ([group(minResource={"cpu": "many"})], "invalid", "[0].minResource[cpu]"),
        ([group(minResource={"cpu": [1]})], "invalid", "[0].minResource[cpu]"),
        ([group(minResource={"pods": 1})], "invalid", "[0].minResource[pods]"),
        ([group(), group()], "invalid", "[1].name: 'workers' is not unique"),
        ([group(tolerations=[1])], "invalid", "[0]: expected tolerations"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(written: Any, reason: str, path: str) -> None:
    problems = only_gang(member("a", defines=written)).problems
    expected = Reason.UNSUPPORTED_FIELD if reason == "unsupported" else Reason.INVALID_OBJECT
    found = [problem for problem in problems if path in problem.message]
    assert [problem.reason for problem in found] == [expected]
    assert GROUPS in found[0].message


def test_no_capacity_is_reserved_for_very_large_applications_and_shares_of_gpus() -> None:
    large = only_gang(first(group(minimum=PLACEHOLDERS_MAX + 1)))
    share = only_gang(first(group(minResource={f"{API_GROUP}/gpu-share": 500})))
    for gang in (large, share):
        assert (gang.reserves, gang.problems, shapes(gang)) == (False, (), {"workers": None})


def test_an_unknown_task_group_is_refused_by_name() -> None:
    problems = only_gang(first(), member("b", "other")).problems
    assert [problem.reason for problem in problems] == [Reason.INCONSISTENT_GANG]
    assert f"annotation {GROUP} of pod b is 'other', not one of workers" in problems[0].message


# --- parameters and other annotations -----------------------------------------------------------------------


@pytest.mark.parametrize("value", ["gangSchedulingStyle=Hard", "placeholderTimeoutInSeconds=600", " "])
def test_parameters_with_a_counterpart(value: str) -> None:
    gang = only_gang(first(more={PARAMETERS: value}))
    assert (gang.problems, gang.ignored) == ((), ())


def test_another_time_of_the_placeholders_is_said_with_the_verdict() -> None:
    more = {PARAMETERS: "placeholderTimeoutInSeconds=30 gangSchedulingStyle=Hard"}
    gang = only_gang(first(more=more))
    assert gang.problems == ()
    (hint,) = gang.ignored
    assert "application app: placeholderTimeoutInSeconds 30 counts as 600" in hint


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("gangSchedulingStyle=Soft", Reason.UNSUPPORTED_FIELD),
        ("placeholderTimeoutSeconds=30", Reason.UNSUPPORTED_FIELD),
        ("placeholderTimeoutInSeconds=soon", Reason.INVALID_OBJECT),
        ("gangSchedulingStyle", Reason.INVALID_OBJECT),
        ("gangSchedulingStyle=Hard=Soft", Reason.INVALID_OBJECT),
    ],
)
def test_other_parameters_are_refused_by_name(value: str, reason: Reason) -> None:
    (problem,) = only_gang(first(more={PARAMETERS: value})).problems
    assert problem.reason is reason
    assert PARAMETERS in problem.message
    assert value.partition("=")[0] in problem.message


@pytest.mark.parametrize(
    ("labels", "annotations", "queue"),
    [
        ({label("queue"): "a", QUEUE: "b"}, {QUEUE: "b"}, "a"),
        ({QUEUE: "root.B.c", "queue": "d"}, {QUEUE: "root.d"}, "b.c"),
        ({"queue": "d"}, {QUEUE: "root.c"}, "c"),
        ({"queue": "d"}, {}, "d"),
        ({}, {}, "default"),
    ],
)
def test_the_queue(labels: dict[str, str], annotations: dict[str, str], queue: str) -> None:
    assert only_gang(first(labels=labels, more=annotations)).queue == queue


@pytest.mark.parametrize(("labels", "queue"), [({QUEUE: "b", "queue": "b"}, "b"), ({"queue": "d"}, None)])
def test_the_label_queue_of_a_pod_of_spark_means_nothing(labels: dict[str, str], queue: str | None) -> None:
    spark = {"spark-app-selector": "spark-1", **labels}
    written = pod("driver", labels=spark)
    assert read_pod(written, shapes=ShapeCache(), classes={}).queue == queue


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ({QUEUE: "a"}, {QUEUE: "a"}, False),
        ({QUEUE: "a"}, {}, False),
        ({QUEUE: "a"}, {QUEUE: "b"}, True),
        ({ALLOW: "false"}, {}, False),
        ({}, {ALLOW: "true"}, False),
        ({}, {ALLOW: "false"}, True),
        ({}, {PARAMETERS: "gangSchedulingStyle=Soft"}, False),
    ],
)
def test_pods_that_ask_for_something_else_are_refused(
    one: dict[str, str], other: dict[str, str], differ: bool
) -> None:
    problems = only_gang(first(more=one), member("b", more=other)).problems
    assert [problem.reason for problem in problems] == ([Reason.INCONSISTENT_GANG] if differ else [])


@pytest.mark.parametrize(
    ("of_pod", "of_class", "expected"),
    [
        ({}, {}, True),
        ({ALLOW: "false"}, {}, False),
        ({}, {ALLOW: "false"}, False),
        ({ALLOW: "true"}, {ALLOW: "false"}, True),
    ],
)
def test_opting_out_of_preemption(of_pod: dict[str, str], of_class: dict[str, str], expected: bool) -> None:
    level = named("PriorityClass", "c", value=0)
    level.metadata.annotations.update(of_class)
    gang = only_gang(allows_non_preemptible(), level, first(more=of_pod, priorityClassName="c"))
    assert gang.disruption.preemptible in ((None, True) if expected else (False,))


def test_a_priority_class_that_opts_out_later_counts() -> None:
    classes = named("PriorityClass", "c", value=0)
    cache = new_cache(allows_non_preemptible(), classes, first(priorityClassName="c"))
    (before,) = gangs_of(cache).values()
    assert before.disruption.preemptible is not False
    changed = named("PriorityClass", "c", value=0)
    changed.metadata.annotations[ALLOW] = "false"
    cache.apply(Applied(changed))
    (gang,) = gangs_of(cache).values()
    assert gang.disruption.preemptible is False


def test_the_class_of_the_first_pod_raises_no_priority() -> None:
    level = named("PriorityClass", "c", value=9)
    gang = only_gang(level, first(priority=9, priorityClassName="c"), member("b", priority=5))
    assert gang.priority == 5


def test_placeholder_pods_are_refused_and_the_user_means_nothing() -> None:
    for key in (f"{DOMAIN}/placeholder", f"{DOMAIN}/ignore-application"):
        (problem,) = only_gang(first(more={key: "true"})).problems
        assert key in problem.message
    assert only_gang(first(more={f"{DOMAIN}/user.info": '{"user": "u"}'})).problems == ()


def test_the_gang_has_started_with_its_first_pod() -> None:
    assert only_gang(first(nodeName="n", status={"phase": "Running"})).started
    assert not only_gang(first()).started
