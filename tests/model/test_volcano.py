"""PodGroups of Volcano become the same gangs, and what is written on them: docs/dialects/volcano.md."""

from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.cache.events import Applied, Deleted
from phalanx.model.api.volcano import VolcanoPodGroup
from phalanx.model.conversion.pods import read_pod
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.dialects.dialect import ReportedGang, StatusWrite
from phalanx.model.dialects.volcano import VOLCANO, read_volcano_pod_group, wanted_without_pods
from phalanx.model.gangs import GangKind
from phalanx.model.reasons import Objection, Reason

from tests.cache.world import gangs_of, new_cache, only_gang, reasons_of, take_snapshot
from tests.model.written import allows_non_preemptible, label, named, node, other_pod_group, pod, pod_group

GROUP = "scheduling.k8s.io/group-name"
TASK = "volcano.sh/task-spec"
NOW, LONG_AGO = "2026-01-01T00:00:00Z", "2020-01-01T00:00:00Z"


def group(**spec: Any) -> VolcanoPodGroup:
    return other_pod_group(VolcanoPodGroup, **spec)


def member(
    name: str, *, of: str = "g", task: str = "", meta: dict[str, Any] | None = None, **rest: Any
) -> Any:
    annotations = {GROUP: of, **({TASK: task} if task else {}), **(meta or {}).get("annotations", {})}
    return pod(name, meta={**(meta or {}), "annotations": annotations}, **rest)


# --- the table of the page ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"), [({}, 1), ({"minMember": 0}, 1), ({"minMember": 1}, 1), ({"minMember": 3}, 3)]
)
def test_the_minimum(spec: dict[str, Any], expected: int) -> None:
    gang = only_gang(group(uid="G", **spec), member("a"), member("b"), member("c"))
    assert (gang.id, gang.kind, gang.dialect) == ("G", GangKind.POD_GROUP, VOLCANO.name)
    assert (gang.min_member, len(gang.members), gang.problems) == (expected, 3, ())
    assert gang.disruption.eviction_mode == "All"


@pytest.mark.parametrize(
    ("minimum", "tasks", "roles"),
    [
        (3, {"ps": 1, "worker": 2}, {"ps": 1, "worker": 2}),
        (4, {"ps": 1, "worker": 2}, {"ps": 1, "worker": 2}),
        (2, {"ps": 1, "worker": 2}, {}),
        (3, {"ps": 0, "worker": 2}, {"worker": 2}),
        (0, {"ps": 1}, {}),
    ],
)
def test_minimums_of_tasks_count_if_they_fit_into_that_of_the_group(
    minimum: int, tasks: dict[str, int], roles: dict[str, int]
) -> None:
    """Volcano ignores them otherwise: a Job's tasks have their replicas as minimum by default."""
    gang = only_gang(group(minMember=minimum, minTaskMember=tasks), member("a", task="ps"))
    assert {role.name: role.min_member for role in gang.roles} == roles
    assert gang.problems == ()


@pytest.mark.parametrize(
    ("annotation", "of_label", "role"), [("ps", "worker", "ps"), ("", "worker", "worker"), ("", "", "")]
)
def test_a_pod_names_its_task_by_annotation_else_by_label(annotation: str, of_label: str, role: str) -> None:
    labels = {TASK: of_label} if of_label else {}
    (found,) = only_gang(group(), member("a", task=annotation, labels=labels)).members
    assert found.role == role


def test_pods_of_tasks_without_a_minimum_are_members() -> None:
    gang = only_gang(
        group(minMember=2, minTaskMember={"ps": 1}), member("a", task="ps"), member("b", task="other")
    )
    assert (gang.problems, len(gang.members)) == ((), 2)


@pytest.mark.parametrize(
    ("spec", "meta", "of_pod", "queue"),
    [
        ({"queue": "a"}, {"labels": {label("queue"): "b"}}, "c", "a"),
        ({"queue": "default"}, {"labels": {label("queue"): "b"}}, "c", "b"),
        ({"queue": "default"}, {}, "c", "c"),
        ({"queue": "default"}, {}, "", "of-namespace"),
        ({}, {}, "", "of-namespace"),
    ],
)
def test_the_queue(spec: dict[str, Any], meta: dict[str, Any], of_pod: str, queue: str) -> None:
    space = named("Namespace", "team", labels={label("queue"): "of-namespace"})
    labels = {label("queue"): of_pod} if of_pod else {}
    assert only_gang(space, group(meta=meta, **spec), member("a", labels=labels)).queue == queue


def test_a_pod_group_alone_raises_no_priority_but_lowers_it() -> None:
    high = named("PriorityClass", "high", value=100)
    assert only_gang(high, group(priorityClassName="high"), member("a", priority=7)).priority == 7
    assert only_gang(high, group(priorityClassName="high"), member("a", priority=200)).priority == 100
    assert reasons_of(only_gang(group(priorityClassName="ghost"), member("a"))) == [Reason.INVALID_OBJECT]


@pytest.mark.parametrize("where", ["annotations", "labels"])
def test_preemptable_and_cooldown_time(where: str) -> None:
    def disruption(**marks: str) -> tuple[bool, int]:
        found = only_gang(
            allows_non_preemptible(),
            group(meta={where: {f"volcano.sh/{key}": value for key, value in marks.items()}}),
            member("a"),
        )
        assert found.problems == ()
        return found.disruption.is_preemptible, found.disruption.min_runtime_ms

    assert disruption() == (True, 0)
    assert disruption(preemptable="true") == (True, 0)
    assert disruption(preemptable="false") == (False, 0)
    assert disruption(**{"cooldown-time": "600s"}) == (True, 600_000)


@pytest.mark.parametrize(
    ("key", "value"), [("volcano.sh/preemptable", "maybe"), ("volcano.sh/cooldown-time", "long")]
)
def test_an_invalid_annotation_is_an_error(key: str, value: str) -> None:
    (problem,) = only_gang(group(meta={"annotations": {key: value}}), member("a")).problems
    assert problem.reason is Reason.INVALID_OBJECT
    assert key in problem.message


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"networkTopology": {"mode": "hard"}}, "highestTierAllowed"),
        (
            {"networkTopology": {"highestTierName": "rack", "highestTierAllowed": 1}},
            "spec.networkTopology.highestTierName beside highestTierAllowed",
        ),
        ({"subGroupPolicy": [{"name": "p", "subGroupSize": 2}]}, "spec.subGroupPolicy[p] without matchLabel"),
        (
            {"subGroupPolicy": [{"name": "p", "matchLabelKeys": ["k"], "networkTopology": {"mode": "hard"}}]},
            "spec.subGroupPolicy[p].networkTopology with mode hard and without",
        ),
        ({"meta": {"annotations": {"volcano.sh/revocable-zone": "*"}}}, "volcano.sh/revocable-zone"),
        ({"meta": {"annotations": {"volcano.sh/sla-waiting-time": "1h"}}}, "volcano.sh/sla-waiting-time"),
        ({"meta": {"annotations": {"sla-waiting-time": "1h"}}}, "sla-waiting-time"),
        ({"meta": {"annotations": {"volcano.sh/jdb-min-available": "1"}}}, "volcano.sh/jdb-min-available"),
        ({"meta": {"annotations": {"volcano.sh/jdb-max-unavailable": "1"}}}, "jdb-max-unavailable"),
        ({"meta": {"annotations": {"volcano.sh/task-topology-anti-affinity": "a"}}}, "anti-affinity"),
        ({"meta": {"annotations": {"volcano.sh/task-topology-task-order": "a"}}}, "task-order"),
    ],
)
def test_fields_without_a_counterpart_are_refused_by_name(spec: dict[str, Any], path: str) -> None:
    (problem,) = only_gang(group(**spec), member("a")).problems
    assert problem.reason is Reason.UNSUPPORTED_FIELD
    assert path in problem.message


@pytest.mark.parametrize(
    ("written", "traffic"),
    [
        ("ps,worker", {("ps", "worker")}),
        ("ps,worker;ps,evaluator", {("ps", "worker"), ("evaluator", "ps")}),
        ("worker", {("worker", "worker")}),
        ("a, b ,c;;a,b", {("a", "b"), ("a", "c"), ("b", "c")}),
        ("", set()),
    ],
)
def test_task_affinity_is_traffic(written: str, traffic: set[tuple[str, str]]) -> None:
    annotations = {"volcano.sh/task-topology-affinity": written}
    gang = only_gang(group(meta={"annotations": annotations}), member("a"))
    assert gang.problems == ()
    assert {(one.sender, one.receiver) for one in gang.spec.traffic} == traffic
    assert {one.weight for one in gang.spec.traffic} <= {1}


@pytest.mark.parametrize(
    ("written", "says"), [("ps,ps", "named twice"), (",".join(map(str, range(20))), "190 pairs of tasks")]
)
def test_wrong_task_affinity_is_an_error(written: str, says: str) -> None:
    annotations = {"volcano.sh/task-topology-affinity": written}
    (problem,) = only_gang(group(meta={"annotations": annotations}), member("a")).problems
    assert problem.reason is Reason.INVALID_OBJECT
    assert says in problem.message


@pytest.mark.parametrize(
    ("wanted", "required"),
    [
        ({"mode": "hard", "highestTierAllowed": 2}, "topology.volcano.sh/tier-2"),
        ({"highestTierAllowed": 0}, "topology.volcano.sh/tier-0"),
        ({"mode": "soft"}, None),
        ({"mode": "soft", "highestTierAllowed": 2}, None),
    ],
)
def test_the_network_topology(wanted: dict[str, Any], required: str | None) -> None:
    gang = only_gang(group(networkTopology=wanted), member("a"))
    assert gang.problems == ()
    assert (gang.topology.name, gang.topology.required, gang.topology.preferred) == (
        "hypernodes.topology.volcano.sh",
        required,
        "topology.volcano.sh/tier-1",
    )


def test_hyper_nodes_are_a_topology_of_the_snapshot_and_labels_of_its_nodes() -> None:
    """In whatever order they arrive, and until they are gone."""
    members = [{"type": "Node", "selector": {"exactMatch": {"name": "n"}}}]
    rack = named("HyperNode", "rack", spec={"tier": 1, "members": members})
    objects = (node("n"), node("other"), rack)
    for order in permutations(objects):
        cache = new_cache(*order)
        found = take_snapshot(cache)
        assert "hypernodes.topology.volcano.sh" in found.topologies
        label_of = {name: state.node.labels for name, state in found.nodes.items()}
        assert label_of == {"n": {"topology.volcano.sh/tier-1": "rack"}, "other": {}}
        assert take_snapshot(cache).topologies is found.topologies
        assert cache.apply(Deleted("HyperNode", "", "rack")).cluster_changed
        after = take_snapshot(cache)
        assert "hypernodes.topology.volcano.sh" not in after.topologies
        assert {name: dict(state.node.labels) for name, state in after.nodes.items()} == {
            "n": {},
            "other": {},
        }


def test_a_field_of_a_later_release_is_refused_by_name() -> None:
    later = replace(group(), unknown_fields=("spec.ofALaterRelease",))
    (problem,) = only_gang(later, member("a")).problems
    assert "spec.ofALaterRelease" in problem.message


@pytest.mark.parametrize("key", ["revocable-zone", "numa-topology-policy", "task-priority"])
def test_annotations_of_pods_without_a_counterpart_are_refused_once(key: str) -> None:
    meta = {"annotations": {f"volcano.sh/{key}": "1"}}
    (problem,) = only_gang(group(), member("a", meta=meta), member("b", meta=meta)).problems
    assert problem.reason is Reason.UNSUPPORTED_FIELD
    assert key in problem.message
    alone = pod("alone", meta=meta)
    assert only_gang(alone).problems == ()


@pytest.mark.parametrize("where", ["annotations", "labels"])
@pytest.mark.parametrize(("key", "value"), [("preemptable", "false"), ("cooldown-time", "600s")])
def test_what_a_pod_says_about_its_eviction_counts_if_its_pod_group_says_it_too(
    key: str, value: str, where: str
) -> None:
    """Volcano writes it on both, but reads it on pods."""
    marks = {f"volcano.sh/{key}": value}
    pods = [
        member(name, **({"meta": {"annotations": marks}} if where == "annotations" else {"labels": marks}))
        for name in ("a", "b")
    ]
    assert only_gang(group(meta={"annotations": marks}), *pods).problems == ()
    (problem,) = only_gang(group(), *pods).problems
    assert problem.reason is Reason.UNSUPPORTED_FIELD
    assert key in problem.message
    assert "PodGroup" in problem.next_step
    other = {f"volcano.sh/{key}": "true" if key == "preemptable" else "1h"}
    assert reasons_of(only_gang(group(meta={"labels": other}), *pods)) == [Reason.UNSUPPORTED_FIELD]


def test_pods_that_may_be_evicted_need_no_such_pod_group() -> None:
    """That is the default."""
    assert only_gang(group(), member("a", labels={"volcano.sh/preemptable": "true"})).problems == ()


def test_minimum_resources_beyond_the_requests_of_all_pods_are_refused() -> None:
    """Volcano writes the names of quotas too."""
    quota = {"cpu": "2", "requests.cpu": "2", "limits.cpu": "9", "pods": "2", "count/pods": "2"}
    pods = [member(name, requests={"cpu": 1}) for name in ("a", "b")]
    assert only_gang(group(minMember=2, minResources=quota), *pods).problems == ()
    assert reasons_of(only_gang(group(minMember=2, minResources={"cpu": "3"}), *pods)) == [
        Reason.UNSUPPORTED_FIELD
    ]


# --- members ------------------------------------------------------------------------------------------------


def test_the_index_of_a_task_is_the_rank() -> None:
    pods = [member(name, labels={"volcano.sh/task-index": rank}) for name, rank in (("a", "2"), ("b", "1"))]
    assert [each.name for each in only_gang(group(), *pods).members] == ["b", "a"]


def test_pods_of_other_schedulers_are_no_members_and_cause_no_cycle() -> None:
    cache = new_cache()
    assert not cache.apply(Applied(group())).may_unblock
    assert not cache.apply(Applied(member("a", schedulerName="volcano"))).may_unblock
    assert gangs_of(cache) == {}


def test_a_pod_that_two_dialects_claim_is_refused_with_both_named() -> None:
    cache = new_cache(pod_group("ours"), group(), member("a", labels={label("pod-group"): "ours"}))
    (gang,) = gangs_of(cache).values()
    assert reasons_of(gang)[0] is Reason.INCONSISTENT_GANG
    for text in (VOLCANO.field, label("pod-group")):
        assert text in gang.problems[0].message


def test_a_missing_pod_group_is_named_with_its_api() -> None:
    (problem,) = only_gang(member("a")).problems
    assert problem.reason is Reason.POD_GROUP_NOT_FOUND
    assert "scheduling.volcano.sh/v1beta1" in problem.message
    assert GROUP in problem.next_step


def test_pods_of_different_groups_are_interchangeable_for_the_solver() -> None:
    shapes = ShapeCache()
    pods = [read_pod(member("p", of=name), shapes=shapes, classes={}) for name in ("g", "h")]
    assert pods[0].shape is pods[1].shape


# --- the start ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "condition", "started_at"),
    [
        ("", None, 0),
        ("Pending", None, 0),
        ("Inqueue", ("Scheduled", "1970-01-01T00:01:00Z"), 0),
        ("Running", ("Scheduled", "1970-01-01T00:01:00Z"), 60),
        ("Running", ("Unschedulable", "1970-01-01T00:01:00Z"), 1),
        ("Running", ("Scheduled", "no time"), 1),
        ("Unknown", None, 1),
        ("Completed", None, 1),
    ],
)
def test_the_phase_says_that_it_has_started(
    phase: str, condition: tuple[str, str] | None, started_at: int
) -> None:
    known = [{"type": condition[0], "lastTransitionTime": condition[1]}] if condition else []
    seen = group(minMember=2, status={"phase": phase, "conditions": known})
    assert read_volcano_pod_group(seen).started_at == started_at
    assert only_gang(seen, member("a", nodeName="n"), member("b")).started == (started_at > 0)


# --- the status ---------------------------------------------------------------------------------------------

RUNNING = {"nodeName": "n", "status": {"phase": "Running"}}
BOUND = {"nodeName": "n"}
SUCCEEDED = {"nodeName": "n", "status": {"phase": "Succeeded"}}
FAILED = {"nodeName": "n", "status": {"phase": "Failed"}}
WAITING: dict[str, Any] = {}


def write_for(
    *pods: dict[str, Any], reason: str = "QueueLimit", message: str = "m", seen: dict[str, Any] | None = None
) -> StatusWrite | None:
    """What is written for two needed pods of these states."""
    written_group = group(minMember=2, status=seen or {})
    gang = only_gang(written_group, *(member(f"p{i}", **each) for i, each in enumerate(pods)))
    assert VOLCANO.status is not None
    return VOLCANO.status.wanted(ReportedGang(gang, reason, message, NOW), written_group)


@pytest.mark.parametrize(
    ("before", "pods", "phase", "counts"),
    [
        ("Pending", (WAITING, WAITING), "Inqueue", (0, 0, 0)),
        ("Inqueue", (WAITING, BOUND), "Inqueue", (0, 0, 0)),
        ("Inqueue", (BOUND, BOUND), "Running", (0, 0, 0)),
        ("Inqueue", (RUNNING, RUNNING, WAITING), "Running", (2, 0, 0)),
        ("Running", (RUNNING, WAITING), "Unknown", (1, 0, 0)),
        ("Running", (RUNNING, FAILED), "Unknown", (1, 0, 1)),
        ("Running", (RUNNING, SUCCEEDED), "Running", (1, 1, 0)),
        ("Running", (SUCCEEDED, SUCCEEDED), "Completed", (0, 2, 0)),
        ("Running", (SUCCEEDED, FAILED), "Completed", (0, 1, 1)),
        ("Running", (SUCCEEDED, SUCCEEDED, WAITING), "Running", (0, 2, 0)),
        ("Running", (FAILED, FAILED, WAITING), "Inqueue", (0, 0, 2)),
        ("Running", (WAITING, WAITING), "Inqueue", (0, 0, 0)),
    ],
)
def test_the_phase_and_the_counts(
    before: str, pods: tuple[dict[str, Any], ...], phase: str, counts: tuple[int, int, int]
) -> None:
    write = write_for(*pods, seen={"phase": before, "running": 9})
    assert write is not None
    found = write.fields
    assert found["phase"] == phase
    assert (found["running"], found["succeeded"], found["failed"]) == counts


def test_a_waiting_gang_is_unschedulable_with_the_verdict() -> None:
    write = write_for(WAITING, WAITING)
    assert write is not None
    (condition,) = write.fields["conditions"]
    assert condition == {
        "type": "Unschedulable",
        "status": "True",
        "reason": "QueueLimit",
        "message": "m",
        "lastTransitionTime": NOW,
    }


def test_a_started_gang_is_scheduled_and_no_longer_unschedulable() -> None:
    old = {"type": "Unschedulable", "status": "True", "lastTransitionTime": LONG_AGO}
    other = {"type": "OfOthers", "status": "True", "message": "kept"}
    write = write_for(RUNNING, RUNNING, seen={"phase": "Inqueue", "conditions": [old, other]})
    assert write is not None
    types = [each["type"] for each in write.fields["conditions"]]
    assert types == ["Scheduled", "OfOthers"]


def test_an_unchanged_status_is_not_written_and_a_condition_keeps_its_time() -> None:
    first = write_for(WAITING, WAITING)
    assert first is not None
    seen = {**first.fields, "conditions": [{**first.fields["conditions"][0], "lastTransitionTime": LONG_AGO}]}
    assert write_for(WAITING, WAITING, seen=seen) is None
    second = write_for(WAITING, WAITING, message="other", seen=seen)
    assert second is not None
    assert second.fields["conditions"][0]["lastTransitionTime"] == LONG_AGO


def test_a_gang_without_a_verdict_keeps_its_conditions() -> None:
    old = {"type": "Unschedulable", "status": "True", "message": "old", "lastTransitionTime": LONG_AGO}
    write = write_for(WAITING, WAITING, reason="", seen={"phase": "Pending", "conditions": [old]})
    assert write is not None
    assert write.fields["conditions"] == [old]


def test_a_pod_group_without_pods_is_put_in_queue_unless_something_is_against_it() -> None:
    write = wanted_without_pods(group(), None, NOW)
    assert write is not None
    assert (write.fields["phase"], write.fields["conditions"]) == ("Inqueue", [])
    closed = Objection(Reason.QUEUE_CLOSED, "queue q is closed", "Submit to another queue")
    refused = wanted_without_pods(group(), closed, NOW)
    assert refused is not None
    assert refused.fields["phase"] == "Pending"
    (condition,) = refused.fields["conditions"]
    assert (condition["reason"], condition["type"]) == ("QueueClosed", "Unschedulable")
    assert condition["message"] == "queue q is closed. Submit to another queue"
    again = group(status=dict(refused.fields))
    later = wanted_without_pods(again, None, NOW)
    assert later is not None
    assert (later.fields["phase"], later.fields["conditions"]) == ("Inqueue", [])
    assert wanted_without_pods(again, closed, "2026-01-02T00:00:00Z") is None


def test_a_condition_of_volcano_itself_is_decoded() -> None:
    """It leaves out empty fields, has an ID, and no time is null."""
    condition = {"type": "Scheduled", "status": "True", "transitionID": "t", "lastTransitionTime": None}
    (found,) = group(status={"conditions": [condition]}).status.conditions
    assert (found.transition_id, found.message) == ("t", "")
