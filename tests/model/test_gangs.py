"""Gangs: membership, queue and priority, start, and contradictions in their specification."""

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from phalanx.limits import GANG_PROBLEMS_MAX, PARTIAL_GANG_RELEASED_S
from phalanx.model.api import core, pod_groups
from phalanx.model.api.pod_groups import Recovery, RecoveryMode, TopologyRequest
from phalanx.model.api.values import duration_ms
from phalanx.model.conversion.cluster_objects import PriorityLevel
from phalanx.model.conversion.gangs import GangContext, read_gangs
from phalanx.model.conversion.pod_groups import gang_key, read_pod_group
from phalanx.model.conversion.pods import read_pod
from phalanx.model.conversion.queue_rules import QueueRules
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.gangs import Gang, GangKind, RoleSpec
from phalanx.model.names import GangId, QueueName
from phalanx.model.queues import DEFAULT, Queue
from phalanx.model.reasons import Reason
from phalanx.model.resources import CPU, GPU, MEMORY, PODS
from phalanx.model.supplies.gpu_shares.devices import GPU_SHARE

from tests.examples import holds
from tests.model.written import label, pod, pod_group

CLASSES = {"high": PriorityLevel(100, "Never")}
TRUSTED = Queue(QueueName("trusted"), max_pod_group_priority=1000)
QUEUES = {queue.name: queue for queue in (DEFAULT, TRUSTED)}


def member(name: str, *, group: str = "g", labels: Mapping[str, str] | None = None, **rest: Any) -> core.Pod:
    """A pod that names PodGroup g."""
    return pod(name, labels={label("pod-group"): group, **(labels or {})}, **rest)


def read(
    *pods: core.Pod,
    group: pod_groups.PodGroup | None = None,
    namespace: Mapping[str, str] | None = None,
    before: Gang | None = None,
    assumed: tuple[str, ...] = (),
) -> tuple[Gang, ...]:
    """The gangs of these pods, which all have one key. `assumed` names pods that are assumed on node n."""
    shapes = ShapeCache()
    domain = [read_pod(written, shapes=shapes, classes=CLASSES) for written in pods]
    domain = [
        structs.replace(each, node="n", assumed=True) if each.name in assumed else each for each in domain
    ]
    (key,) = {gang_key(each) for each in domain}
    context = GangContext(
        scheduler_name="phalanx",
        group=read_pod_group(group) if group else None,
        rules=QueueRules(QUEUES, {"team": namespace or {}}),
        classes=CLASSES,
        before={before.id: before} if before else {},
    )
    return read_gangs(key, domain, context)


def only(*pods: core.Pod, **rest: Any) -> Gang:
    (gang,) = read(*pods, **rest)
    return gang


def names(gang: Gang) -> list[str]:
    return [each.name for each in gang.members]


# --- membership ---------------------------------------------------------------------------------------------


def test_a_pod_alone_is_a_gang_of_one() -> None:
    gang = only(pod("p", uid="u", meta={"creationTimestamp": "2026-01-01T00:00:10Z"}))
    assert (gang.id, gang.kind, str(gang), gang.min_member) == ("u", GangKind.POD, "team/p", 1)
    assert (gang.created, gang.queue, gang.problems) == (1767225610, "default", ())


def test_pods_of_a_group_are_one_gang() -> None:
    roles = [{"name": "ps", "count": 1}, {"name": "worker", "count": 3, "minMember": 2}]
    gang = only(
        member("b", labels={label("role"): "ps"}),
        member("a", labels={label("role"): "worker"}),
        group=pod_group(
            uid="G",
            minMember=3,
            roles=roles,
            topology={"name": "net", "required": "rack", "preferred": "host"},
        ),
    )
    assert (gang.id, gang.kind, str(gang), gang.min_member) == ("G", GangKind.POD_GROUP, "team/g", 3)
    assert gang.roles == (RoleSpec("ps", 1, 1), RoleSpec("worker", 3, 2))
    assert gang.topology == TopologyRequest("net", "rack", "host")
    assert names(gang) == ["a", "b"]
    assert not gang.problems


def test_pods_of_a_controller_with_min_member_are_one_gang() -> None:
    wants = {label("min-member"): "2"}
    gang = only(pod("a", labels=wants, owner="j"), pod("b", labels=wants, owner="j"))
    assert (gang.id, gang.kind, str(gang), gang.min_member) == ("team/j", GangKind.LABEL, "team/job-j", 2)


def test_gang_keys_are_distinct() -> None:
    wants = {label("min-member"): "2"}
    pods = [
        pod("a", labels=wants, owner="j"),
        pod("b", labels=wants, owner="k"),
        pod("c", labels=wants, owner="j", namespace="other"),
        pod("d", labels=wants),
        pod("e", owner="j"),
        member("f"),
        member("g", group="h"),
        member("h", namespace="other"),
        member("i", group="j"),
    ]
    shapes = ShapeCache()
    keys = {gang_key(read_pod(each, shapes=shapes, classes={})) for each in pods}
    assert len(keys) == len(pods)


def test_pods_of_a_missing_pod_group_are_one_gang_with_a_problem() -> None:
    gang = only(member("a"), member("b"))
    assert gang.id == "missing:team/g"
    assert len(gang.members) == 2
    assert [problem.reason for problem in gang.problems] == [Reason.POD_GROUP_NOT_FOUND]


def test_a_recreated_group_is_a_new_gang() -> None:
    assert only(member("a"), group=pod_group(uid="G1")).id != only(member("a"), group=pod_group(uid="G2")).id


def test_the_controller_of_the_group_must_own_the_pod() -> None:
    joined, other = read(
        member("mine", owner="j"), member("theirs", uid="t", owner="k"), group=pod_group(uid="G", owner="j")
    )
    assert (joined.id, names(joined), joined.problems) == ("G", ["mine"], ())
    assert (other.id, names(other), other.kind) == ("t", ["theirs"], GangKind.POD)
    assert other.problems[0].reason is Reason.NOT_A_MEMBER


def test_any_owner_reference_makes_a_pod_a_member() -> None:
    owners = [
        {"kind": "Job", "name": "k", "uid": "k", "controller": True},
        {"kind": "JobSet", "name": "j", "uid": "j"},
    ]
    gang = only(member("a", meta={"ownerReferences": owners}), group=pod_group(owner="j"))
    assert not gang.problems


def test_a_pod_that_is_no_member_does_not_use_the_queue_of_the_group() -> None:
    (other,) = read(member("theirs"), group=pod_group(owner="j", queue="rich"))
    assert other.queue == "default"


def test_pods_of_other_schedulers_alone_are_no_gang() -> None:
    assert read(member("a", schedulerName="other"), group=pod_group()) == ()


# --- properties of a gang -----------------------------------------------------------------------------------


def test_members_count_by_priority_then_index_then_age_then_name() -> None:
    def at(second: int) -> dict[str, Any]:
        return {"creationTimestamp": f"2026-01-01T00:00:0{second}Z"}

    index = "batch.kubernetes.io/job-completion-index"
    gang = only(
        member("f", meta=at(1)),
        member("e", meta=at(1)),
        member("d", meta=at(0)),
        member("c", labels={index: "10"}),
        member("b", labels={index: "9"}),
        member("a", priority=1, meta=at(9)),
        group=pod_group(),
    )
    assert names(gang) == ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize(
    ("group", "labels", "namespace", "expected"),
    [
        ("of-group", "of-pod", "of-namespace", "of-group"),
        (None, "of-pod", "of-namespace", "of-pod"),
        (None, None, "of-namespace", "of-namespace"),
        (None, None, None, "default"),
        (None, "", "", "default"),
    ],
)
def test_queue(group: str | None, labels: str | None, namespace: str | None, expected: str) -> None:
    def queue(name: str | None) -> dict[str, str]:
        return {} if name is None else {label("queue"): name}

    spec = {} if group is None else {"queue": group}
    gang = only(member("a", labels=queue(labels)), group=pod_group(**spec), namespace=queue(namespace))
    assert gang.queue == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, (-3, "PreemptLowerPriority")),
        ({"priorityClassName": "high"}, (100, "Never")),
        ({"preemptionPolicy": "Never"}, (-3, "Never")),
        (
            {"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"},
            (100, "PreemptLowerPriority"),
        ),
    ],
)
def test_priority_is_that_of_the_group_if_the_queue_allows_it_or_the_lowest_of_its_members(
    spec: dict[str, Any], expected: tuple[int, str]
) -> None:
    group = pod_group(queue="trusted", **spec)
    gang = only(member("a", priority=5), member("b", priority=-3), group=group)
    assert (gang.priority, gang.preemption_policy) == expected
    assert not gang.problems


def test_a_started_gang_stays_started() -> None:
    waiting = [member("a", nodeName="n"), member("b")]
    group = pod_group(uid="G", minMember=2)
    before = only(*waiting, group=group)
    assert not before.started
    started_before = structs.replace(before, started=True)
    assert only(*waiting, group=group, before=started_before).started
    assert not only(*waiting, group=group, before=structs.replace(started_before, id=GangId("other"))).started
    assert only(member("a", nodeName="n"), member("b", nodeName="n"), group=group).started
    assert not only(*waiting, group=group, assumed=("b",)).started
    with_start = structs.replace(
        group, status=structs.replace(group.status, started_at="2026-01-01T00:00:00Z")
    )
    assert only(*waiting, group=with_start).started


def test_a_role_declares_the_requests_of_missing_members() -> None:
    requests = {"cpu": "500m", "memory": "2Gi", GPU: 1, "example.com/none": 0}
    roles = [{"name": "a", "count": 1}, {"name": "b", "count": 2, "requests": requests}]
    gang = only(
        member("x", labels={label("role"): "a"}),
        group=pod_group(minMember=3, startWhen="Reserved", roles=roles),
    )
    assert (gang.reserves, gang.problems, gang.roles[0].shape) == (True, (), None)
    shape = gang.roles[1].shape
    assert shape is not None
    assert shape.requests == {CPU: 500, MEMORY: 2 << 30, GPU: 1, PODS: 1}
    alike = only(member("y", labels={label("role"): "a"}), group=pod_group(roles=roles)).roles[1].shape
    assert alike is not None
    assert alike.key == shape.key


def test_a_reserving_gang_starts_with_its_first_bound_member() -> None:
    requests = {"name": "worker", "count": 2, "requests": {"cpu": 1}}
    group = pod_group(uid="G", minMember=2, startWhen="Reserved", roles=[requests])
    mine = {label("role"): "worker"}
    assert not only(member("a", labels=mine), group=group).started
    assert not only(member("a", labels=mine, nodeName="n"), group=group, assumed=("a",)).started
    first = only(member("a", labels=mine, nodeName="n"), group=group)
    assert first.started
    restarted = only(member("b", labels=mine), group=group, before=first)
    assert (restarted.started, restarted.starts_over) == (False, True)


def test_a_gang_that_lost_all_members_starts_again_when_its_minimum_is_placed() -> None:
    group = pod_group(uid="G", minMember=2)
    status = structs.replace(group.status, started_at="2026-01-01T00:00:00Z")
    with_start = structs.replace(group, status=status)
    fresh = [member("a"), member("b")]
    restarted = only(*fresh, group=with_start)
    assert (restarted.started, restarted.starts_over) == (False, True)
    half = only(member("a", nodeName="n"), member("b"), group=with_start, before=restarted)
    assert (half.started, half.starts_over) == (False, True)
    whole = only(member("a", nodeName="n"), member("b", nodeName="n"), group=with_start, before=half)
    assert (whole.started, whole.starts_over) == (True, False)
    assert not only(*fresh, group=group).starts_over
    failed = only(member("a", nodeName="n", status={"phase": "Failed"}), group=with_start)
    assert (failed.started, failed.starts_over) == (True, False)


def at(second: int) -> str:
    return f"1970-01-01T00:{second // 60:02}:{second % 60:02}Z"


@pytest.mark.parametrize(
    ("recreated", "rest", "started"),
    [
        (PARTIAL_GANG_RELEASED_S + 10, {}, True),
        (PARTIAL_GANG_RELEASED_S + 9, {}, False),
        (PARTIAL_GANG_RELEASED_S + 10, {"status": {"phase": "Failed", "reason": "OutOfcpu"}}, False),
        (PARTIAL_GANG_RELEASED_S + 10, {"status": {"phase": "Failed"}}, True),
        (PARTIAL_GANG_RELEASED_S + 10, {"status": {"phase": "Pending"}}, False),
    ],
)
def test_a_gang_by_label_that_lost_a_member_has_started(
    recreated: int, rest: dict[str, Any], *, started: bool
) -> None:
    """Two pods created at 5 s, one running since 10 s; the other is deleted or failed, and was recreated."""
    labels = {label("min-member"): "2"}

    def of(name: str, second: int, **more: Any) -> core.Pod:
        return pod(name, owner="job", labels=labels, meta={"creationTimestamp": at(second)}, **more)

    running = of("a", 5, nodeName="n", status={"phase": "Running", "startTime": at(10)})
    others = [of("b", 5, **rest)] if rest else []
    assert only(running, *others, of("c", recreated)).started is started


def test_the_recovery_policy_is_read() -> None:
    policy = {"onMemberFailure": "Restart", "onNodeLoss": "Replace", "gracePeriod": "1m30s"}
    found = only(member("a"), group=pod_group(recovery=policy)).recovery
    assert (found.member_failure_mode, found.node_loss_mode) == (RecoveryMode.RESTART, RecoveryMode.REPLACE)
    assert found.grace_ms == 90_000
    assert only(member("a"), group=pod_group(recovery={})).recovery == Recovery()


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1h30m", 5_400_000),
        ("0s", 0),
        ("999999h", 3_599_996_400_000),
        ("", None),
        ("30", None),
        ("1s1h", None),
    ],
)
def test_durations(text: str, ms: int | None) -> None:
    assert duration_ms(text) == ms


def test_a_gang_has_not_started_while_a_role_is_below_its_minimum() -> None:
    roles = [{"name": "ps", "count": 1}, {"name": "worker", "count": 2, "minMember": 1}]
    group = pod_group(uid="G", minMember=2, roles=roles)
    workers = [member(name, nodeName="n", labels={label("role"): "worker"}) for name in ("a", "b")]
    server = member("s", nodeName="n", labels={label("role"): "ps"})
    assert not only(*workers, group=group).started
    assert only(*workers, server, group=group).started


def test_failed_and_terminating_members_do_not_count() -> None:
    group = pod_group(uid="G", minMember=1)
    leaving = member("a", nodeName="n", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert not only(leaving, group=group).started
    assert not only(member("a", nodeName="n", status={"phase": "Failed"}), group=group).started
    assert only(member("a", nodeName="n", status={"phase": "Succeeded"}), group=group).started


# --- minimums that follow from subgroups --------------------------------------------------------------------


def random_parts(random: Random) -> list[dict[str, Any]]:
    """Subgroups that form a forest; those with inner ones may have no minimum."""
    parts: list[dict[str, Any]] = []
    for number in range(random.randint(1, 9)):
        parent = random.choice([None, *(part["name"] for part in parts)])
        parts.append({"name": f"part-{number}", "parent": parent, "minMember": random.randint(1, 4)})
    for part in parts:
        if any(other["parent"] == part["name"] for other in parts) and random.random() < 0.7:
            part["minMember"] = None
    random.shuffle(parts)
    return parts


def by_the_documentation(parts: list[dict[str, Any]], name: str | None) -> list[int]:
    """The minimums of the subgroups directly inside this one, or without a parent, in any order."""
    return [
        part["minMember"] or sum(by_the_documentation(parts, part["name"]))
        for part in parts
        if part["parent"] == name
    ]


@holds(100)
@given(seed=st.integers(0, 2**32))
def test_minimums_follow_from_those_of_inner_subgroups(seed: int) -> None:
    random = Random(seed)
    parts = random_parts(random)
    outer = by_the_documentation(parts, None)
    some = random.choice([None, random.randint(1, len(outer))])
    written = pod_group(uid="G", minMember=None, minSubGroups=some, subGroups=parts)
    found = only(member("a"), group=written)
    assert found.min_member == sum(sorted(outer)[:some])
    for part in found.subgroups:
        inner = by_the_documentation(parts, part.name)
        (own,) = [each["minMember"] for each in parts if each["name"] == part.name]
        assert part.min_member == (own or sum(inner))
    assert not [problem for problem in found.problems if "is missing" in problem.message]


def test_a_minimum_that_is_written_counts() -> None:
    parts = [{"name": "a"}, {"name": "b", "parent": "a", "minMember": 2}]
    assert only(member("a"), group=pod_group(uid="G", minMember=5, subGroups=parts)).min_member == 5
    roles = [{"name": "worker", "count": 6, "minMember": 4}]
    written = pod_group(uid="G", minMember=None, subGroups=parts, roles=roles)
    assert only(member("a"), group=written).min_member == 4


# --- problems -----------------------------------------------------------------------------------------------


def chain_of_subgroups(levels: int) -> list[dict[str, Any]]:
    """Each inside the one before it."""
    inner = [{"name": f"s{number}", "parent": f"s{number - 1}"} for number in range(1, levels)]
    return [{"name": "s0"}, *inner[:-1], {**inner[-1], "minMember": 1}]


def test_subgroups_nest_in_64_levels() -> None:
    spec = {"minMember": None, "subGroups": chain_of_subgroups(64)}
    pod = member("a", labels={label("subgroup"): "s63"})
    assert only(pod, group=pod_group(uid="G", **spec)).problems == ()


ROLES = [{"name": "ps", "count": 1}, {"name": "worker", "count": 3, "minMember": 1}]
PROBLEMS: list[tuple[dict[str, Any], Reason, str]] = [
    ({"minMember": 0}, Reason.INCONSISTENT_GANG, "spec.minMember: 0"),
    ({"minMember": 5, "roles": ROLES}, Reason.INCONSISTENT_GANG, "spec.minMember: 5 is more than the 4"),
    ({"minMember": 1, "roles": ROLES}, Reason.INCONSISTENT_GANG, "spec.minMember: 1 is less than the 2"),
    (
        {"minMember": 2, "roles": [{"name": "worker", "count": 1, "minMember": 2}, ROLES[1]]},
        Reason.INCONSISTENT_GANG,
        "spec.minMember",
    ),
    ({"priorityClassName": "gone"}, Reason.INVALID_OBJECT, "spec.priorityClassName"),
    ({"minMember": None}, Reason.INCONSISTENT_GANG, "spec.minMember: is missing, and there are no"),
    (
        {"subGroups": [{"name": "a"}]},
        Reason.INCONSISTENT_GANG,
        "spec.subGroups[0].minMember: is missing, and no subgroup is inside 'a'",
    ),
    (
        {
            "subGroups": [
                {"name": "a", "segmentSize": 2, "topology": {"required": "rack"}},
                {"name": "b", "parent": "a", "minMember": 3},
            ],
            "minMember": None,
        },
        Reason.INCONSISTENT_GANG,
        "spec.subGroups[0].minMember: 3 is not a multiple of segmentSize 2",
    ),
    (
        {"minMember": 2, "subGroups": [{"name": "a", "minMember": 3}]},
        Reason.INCONSISTENT_GANG,
        "spec.minMember: 2 is less than the 3 that the subgroups need",
    ),
    (
        {"subGroups": [{"name": "a", "minMember": 1, "parent": "b"}]},
        Reason.INCONSISTENT_GANG,
        "spec.subGroups[0].parent: there is no subgroup 'b'",
    ),
    (
        {
            "subGroups": [
                {"name": "a", "minMember": 1, "parent": "b"},
                {"name": "b", "minMember": 1, "parent": "a"},
            ]
        },
        Reason.INCONSISTENT_GANG,
        "spec.subGroups[0].parent: 'a' is its own ancestor",
    ),
    (
        {"subGroups": chain_of_subgroups(3_000), "minMember": None},
        Reason.INCONSISTENT_GANG,
        "spec.subGroups[64].parent: more than 64 levels of subgroups",
    ),
    (
        {"subGroups": [{"name": "a", "minMember": 1}, {"name": "a", "minMember": 1}], "minMember": 2},
        Reason.INCONSISTENT_GANG,
        "spec.subGroups[1].name: 'a' is not unique",
    ),
    (
        {"minMember": 4, "subGroups": [{"name": "a", "minMember": 4, "segmentSize": 2}]},
        Reason.INCONSISTENT_GANG,
        "spec.subGroups[0].segmentSize: 2 needs topology.required",
    ),
    (
        {
            "minMember": 4,
            "subGroups": [{"name": "a", "minMember": 4, "segmentSize": 3, "topology": {"required": "rack"}}],
        },
        Reason.INCONSISTENT_GANG,
        "spec.subGroups[0].minMember: 4 is not a multiple of segmentSize 3",
    ),
    (
        {"minSubGroups": 1},
        Reason.INCONSISTENT_GANG,
        "spec.minSubGroups: 1 is not between 1 and the 0 subgroups without a parent",
    ),
    (
        {"minSubGroups": 0, "subGroups": [{"name": "a", "minMember": 1}]},
        Reason.INCONSISTENT_GANG,
        "spec.minSubGroups: 0 is not between 1 and the 1",
    ),
    (
        {
            "minMember": 4,
            "minSubGroups": 2,
            "subGroups": [
                {"name": name, "minMember": least} for name, least in (("a", 3), ("b", 2), ("c", 4))
            ],
        },
        Reason.INCONSISTENT_GANG,
        "spec.minMember: 4 is less than the 5 that the subgroups need at least",
    ),
    ({"startBy": "tomorrow"}, Reason.INVALID_OBJECT, "spec.startBy: expected a time such as"),
    ({"startBy": ""}, Reason.INVALID_OBJECT, "spec.startBy"),
    ({"startBy": "2026-01-01T00:00:00"}, Reason.INVALID_OBJECT, "spec.startBy"),
    ({"startBy": "0001-01-01T00:00:00+23:59"}, Reason.INVALID_OBJECT, "spec.startBy"),
    ({"startWhen": "Reserved"}, Reason.INVALID_OBJECT, "spec.startWhen: Reserved needs spec.roles with req"),
    (
        {"minMember": 10001, "startWhen": "Reserved", "roles": [{"name": "worker", "count": 20000}]},
        Reason.INVALID_OBJECT,
        "spec.startWhen: Reserved needs",
    ),
    (
        {
            "minMember": 10001,
            "startWhen": "Reserved",
            "roles": [{"name": "worker", "count": 20000, "minMember": 0, "requests": {"cpu": 1}}],
        },
        Reason.INVALID_OBJECT,
        "spec.startWhen: capacity cannot be reserved in gangs of more than 10000 members",
    ),
    ({"startWhen": "Eventually"}, Reason.INVALID_OBJECT, "spec.startWhen: expected one of Arrived, Reserved"),
    (
        {"startWhen": "Reserved", "subGroups": [{"name": "a", "minMember": 1}]},
        Reason.UNSUPPORTED_FIELD,
        "spec.startWhen: Reserved beside spec.subGroups",
    ),
    ({"disruption": {"mode": "Some"}}, Reason.INVALID_OBJECT, "spec.disruption.mode"),
    ({"disruption": {"minRuntime": "soon"}}, Reason.INVALID_OBJECT, "spec.disruption.minRuntime"),
    ({"runtime": {"max": "soon"}}, Reason.INVALID_OBJECT, "spec.runtime.max: expected a duration"),
    ({"runtime": {"estimate": "0s"}}, Reason.INVALID_OBJECT, "spec.runtime.estimate: expected a duration"),
    (
        {"runtime": {"estimate": "2h", "max": "1h"}},
        Reason.INVALID_OBJECT,
        "spec.runtime.estimate: 2h is longer",
    ),
    ({"recovery": {"onNodeLoss": "Panic"}}, Reason.INVALID_OBJECT, "spec.recovery.onNodeLoss"),
    ({"recovery": {"gracePeriod": "soon"}}, Reason.INVALID_OBJECT, "spec.recovery.gracePeriod"),
    (
        {"roles": [{"name": "worker", "count": 1, "requests": {"cpu": "much"}}]},
        Reason.INVALID_OBJECT,
        "spec.roles[worker].requests[cpu]: 'much' is not valid",
    ),
    (
        {"roles": [{"name": "worker", "count": 1, "requests": {GPU_SHARE: 500}}]},
        Reason.INVALID_OBJECT,
        "spec.roles[worker].requests: a share of a GPU cannot be reserved",
    ),
    (
        {"roles": [{"name": "worker", "count": 1, "requests": {f"x/{n}": 1 for n in range(257)}}]},
        Reason.INVALID_OBJECT,
        "spec.roles[worker].requests: requests 257 resources, expected at most 256",
    ),
]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({}, (None, None)),
        ({"max": "1h"}, (None, 3_600_000)),
        ({"estimate": "30m", "max": "1h"}, (1_800_000, 3_600_000)),
        ({"estimate": "1h", "max": "1h"}, (3_600_000, 3_600_000)),
    ],
)
def test_the_declared_runtime_is_read(written: dict[str, str], read: tuple[int | None, int | None]) -> None:
    gang = only(member("a"), group=pod_group(runtime=written))
    assert ((gang.runtime.estimate_ms, gang.runtime.max_ms), gang.problems) == (read, ())


@pytest.mark.parametrize(("spec", "reason", "says"), PROBLEMS)
def test_invalid_groups_are_reported(spec: dict[str, Any], reason: Reason, says: str) -> None:
    gang = only(member("a", labels={label("role"): "worker"}), group=pod_group(**spec))
    assert gang.problems[0].reason is reason
    assert says in gang.problems[0].message


@pytest.mark.parametrize(
    ("roles", "says"),
    [
        ([{"name": "a", "count": 1}, {"name": "a", "count": 1}], "spec.roles[1].name"),
        ([{"name": "a", "count": 0}, {"name": "b", "count": 2}], "spec.roles[0].count"),
        ([{"name": "a", "count": 2, "minMember": -1}], "spec.roles[0].minMember"),
    ],
)
def test_invalid_roles_are_reported(roles: list[dict[str, Any]], says: str) -> None:
    gang = only(member("x", labels={label("role"): "a"}), group=pod_group(minMember=2, roles=roles))
    assert any(says in problem.message for problem in gang.problems)


@pytest.mark.parametrize(
    ("traffic", "says"),
    [
        ([{"from": "a", "to": "b"}], "spec.traffic[0].to: there is no role 'b'"),
        ([{"from": "b", "to": "a"}], "spec.traffic[0].from: there is no role 'b'"),
        ([{"from": "a", "to": "a"}] * 2, "spec.traffic[1]: from 'a' to 'a' is not unique"),
        ([{"from": "a", "to": "a", "weight": 0}], "spec.traffic[0].weight: 0 is not between 1 and 1000000"),
        ([{"from": "a", "to": "a", "weight": 1000001}], "spec.traffic[0].weight: 1000001"),
        ([{"from": "a", "to": "a"}] * 65, "spec.traffic: 65 entries are more than 64"),
    ],
)
def test_invalid_traffic_is_reported(traffic: list[dict[str, Any]], says: str) -> None:
    group = pod_group(minMember=2, roles=[{"name": "a", "count": 2}], traffic=traffic)
    first, *_ = only(member("x", labels={label("role"): "a"}), group=group).problems
    assert first.reason is Reason.INCONSISTENT_GANG
    assert first.message.startswith(f"PodGroup field {says}")


def test_members_must_name_a_role_of_the_group() -> None:
    group = pod_group(minMember=2, roles=ROLES)
    for role in ({}, {label("role"): "boss"}):
        gang = only(member("a", labels=role), group=group)
        assert [problem.reason for problem in gang.problems] == [Reason.INCONSISTENT_GANG]
        assert label("role") in gang.problems[0].message
    assert not only(member("a", labels={label("role"): "boss"}), group=pod_group()).problems


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ({"schedulerName": "phalanx"}, {"schedulerName": "other"}, "spec.schedulerName"),
        ({"labels": {label("queue"): "a"}}, {"labels": {label("queue"): "b"}}, label("queue")),
        ({"labels": {label("queue"): "a"}}, {}, label("queue")),
    ],
)
def test_members_must_agree(first: dict[str, Any], second: dict[str, Any], says: str) -> None:
    pods = member("a", **first), member("b", **second)
    gang = only(*pods, group=pod_group())
    assert [problem.reason for problem in gang.problems] == [Reason.INCONSISTENT_GANG]
    assert says in gang.problems[0].message
    ended = member("b", **second, status={"phase": "Failed"})
    assert not only(pods[0], ended, group=pod_group()).problems


def test_the_queue_of_the_group_overrides_the_labels_of_pods() -> None:
    pods = member("a", labels={label("queue"): "a"}), member("b", labels={label("queue"): "b"})
    assert not only(*pods, group=pod_group(queue="c")).problems


def test_members_must_agree_on_min_member() -> None:
    gang = only(
        pod("a", labels={label("min-member"): "2"}, owner="j"),
        pod("b", labels={label("min-member"): "3"}, owner="j"),
    )
    assert gang.min_member == 3
    assert [problem.reason for problem in gang.problems] == [Reason.INCONSISTENT_GANG]


def test_invalid_fields_of_waiting_members_are_problems_of_the_gang() -> None:
    bad = {"workloadRef": {"name": "w", "podGroup": "g"}, "requests": {"cpu": "?"}}
    gang = only(member("a"), member("b", **bad), member("c", **bad), group=pod_group())
    assert [(problem.reason, problem.message.split(":")[0]) for problem in gang.problems] == [
        (Reason.INVALID_OBJECT, "pod b"),
        (Reason.UNSUPPORTED_FIELD, "pod b"),
    ]
    assert not only(member("a"), member("b", nodeName="n", **bad), group=pod_group()).problems


def test_the_number_of_problems_is_bounded() -> None:
    pods = [member(f"p{index}", labels={label("role"): "boss"}) for index in range(50)]
    assert len(only(*pods, group=pod_group(minMember=2, roles=ROLES)).problems) == GANG_PROBLEMS_MAX


def test_gangs_do_not_depend_on_the_order_of_pods() -> None:
    pods = [member(f"p{index}", priority=index % 3) for index in range(9)]
    assert read(*pods, group=pod_group()) == read(*reversed(pods), group=pod_group())
