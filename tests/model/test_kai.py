"""PodGroups of KAI become the same gangs, and what is written on them: docs/dialects/kai.md."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from phalanx.model.api.kai import KaiPodGroup
from phalanx.model.api.meta import KubeObject
from phalanx.model.conversion.cluster_objects import DEFAULT
from phalanx.model.dialects.dialect import ReportedGang, StatusWrite
from phalanx.model.dialects.kai import KAI
from phalanx.model.gangs import GangKind
from phalanx.model.reasons import Reason

from tests.cache.world import gangs_of, new_cache, only_gang, take_snapshot
from tests.model.written import allows_non_preemptible, label, named, other_pod_group, pod, pod_group

NOW, LONG_AGO = "2026-01-01T00:00:00Z", "2020-01-01T00:00:00Z"
POOL = "kai.scheduler/node-pool"


def group(**spec: Any) -> KaiPodGroup:
    return other_pod_group(KaiPodGroup, **spec)


def member(name: str, *, part: str = "", annotations: dict[str, str] | None = None, **rest: Any) -> Any:
    labels = {**({"kai.scheduler/subgroup-name": part} if part else {}), **rest.pop("labels", {})}
    meta = {"annotations": {"pod-group-name": "g", **(annotations or {})}}
    return pod(name, labels=labels, meta=meta, **rest)


def refused(*objects: KubeObject) -> str:
    problem = only_gang(*objects).problems[0]
    assert problem.reason is Reason.UNSUPPORTED_FIELD
    return problem.message


# --- the table of the page ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [({}, 1), ({"minMember": None}, 1), ({"minMember": 0}, 1), ({"minMember": 2}, 2)],
)
def test_the_minimum(spec: dict[str, Any], expected: int) -> None:
    gang = only_gang(group(uid="G", **spec), member("a"), member("b"))
    assert (gang.id, gang.kind, gang.dialect) == ("G", GangKind.POD_GROUP, KAI.name)
    assert (gang.min_member, len(gang.members), gang.problems) == (expected, 2, ())


def test_the_minimum_of_a_group_with_subgroups_is_that_of_the_subgroups() -> None:
    """Older PodGroups have the number of pods, or that of subgroups, in minMember. KAI uses neither."""
    parts = [{"name": "head", "minMember": 1}, {"name": "workers", "minMember": 3}]
    gang = only_gang(
        group(minMember=2, subGroups=parts), member("a", part="head"), member("b", part="workers")
    )
    assert (gang.min_member, gang.problems) == (4, ())
    assert {part.name: part.min_member for part in gang.subgroups} == {"head": 1, "workers": 3}
    assert [pod.subgroup for pod in gang.members] == ["head", "workers"]


def test_subgroups_nest_and_all_inside_one_are_needed() -> None:
    parts = [
        {"name": "decode", "minSubGroup": 2},
        {"name": "leaders", "parent": "Decode", "minMember": 1},
        {"name": "workers", "parent": "decode", "minMember": 4},
        {"name": "prefill", "minMember": 2},
    ]
    gang = only_gang(group(minSubGroup=1, subGroups=parts), member("a", part="leaders"))
    assert {part.name: (part.parent, part.min_member) for part in gang.subgroups} == {
        "decode": ("", 5),
        "leaders": ("decode", 1),
        "workers": ("decode", 4),
        "prefill": ("", 2),
    }
    assert (gang.min_member, gang.min_subgroups, gang.problems) == (2, 1, ())


PARTS: list[dict[str, Any]] = [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 1}]
LEVEL = {"requiredTopologyLevel": "rack"}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"preemptibility": "semi-preemptible"}, "spec.preemptibility: semi-preemptible"),
        ({"markUnschedulable": False}, "spec.markUnschedulable: false"),
        ({"schedulingBackoff": 1}, "spec.schedulingBackoff: 1"),
        ({"preemptionDelay": "soon"}, "spec.preemptionDelay"),
        ({"stalenessGracePeriod": "30s"}, "spec.stalenessGracePeriod"),
        ({"minSubGroup": 1}, "spec.minSubGroup: 1"),
        ({"minSubGroup": 0, "subGroups": PARTS}, "spec.minSubGroup: 0"),
        ({"minSubGroup": 3, "subGroups": PARTS}, "spec.minSubGroup: 3"),
        ({"subGroups": [{"name": "a", "minMember": 0}]}, "spec.subGroups[0].minMember: 0"),
        ({"subGroups": [{"name": "a", "minMember": 1, "minSubGroup": 1}]}, "spec.subGroups[0].minSubGroup"),
        (
            {"subGroups": [{"name": "a", "minSubGroup": 1}, *({**part, "parent": "a"} for part in PARTS[1:])]}
            | {"minMember": None, "schedulingBackoff": 2},
            "spec.schedulingBackoff: 2",
        ),
        (
            {"subGroups": [{"name": "a", "minMember": 2}, {"name": "c", "minMember": 1, "parent": "a"}]},
            "spec.subGroups[0].minMember",
        ),
        ({"topologyConstraint": LEVEL}, "spec.topologyConstraint without topology"),
        (
            {"subGroups": [{**PARTS[0], "topologyConstraint": LEVEL}]},
            "spec.subGroups[0].topologyConstraint without topology",
        ),
        ({"meta": {"labels": {POOL: "pool"}}}, f"metadata.labels[{POOL}]"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(spec: dict[str, Any], path: str) -> None:
    assert path in refused(group(**spec), member("a"))


@pytest.mark.parametrize(
    "spec",
    [
        {"markUnschedulable": True},
        {"schedulingBackoff": -1},
        {"preemptionDelay": "0s"},
        {"preemptionDelay": "5m"},
        {"stalenessGracePeriod": "-1s"},
        {"preemptibility": "preemptible"},
        {"topologyConstraint": {"topology": "net"}},
    ],
)
def test_what_is_the_behaviour_of_phalanx_is_accepted(spec: dict[str, Any]) -> None:
    gang = only_gang(group(**spec), member("a"))
    assert (gang.problems, gang.disruption.is_preemptible, gang.topology.required) == ((), True, None)


def test_a_field_of_a_later_release_is_refused_by_name() -> None:
    assert "spec.later" in refused(replace(group(), unknown_fields=("spec.later",)), member("a"))


@pytest.mark.parametrize("annotation", ["gpu-fraction", "gpu-memory", "mps"])
def test_parts_of_gpus_are_refused(annotation: str) -> None:
    assert annotation in refused(group(), member("a", annotations={annotation: "0.5"}))


def test_a_pod_of_a_node_pool_is_refused() -> None:
    assert POOL in refused(group(), member("a", labels={POOL: "pool"}))


@pytest.mark.parametrize(
    ("spec", "meta", "of_pod", "queue"),
    [
        ({"queue": "a"}, {label("queue"): "b"}, {label("queue"): "c"}, "a"),
        ({}, {label("queue"): "b"}, {label("queue"): "c"}, "b"),
        ({}, {}, {label("queue"): "c", "kai.scheduler/queue": "d"}, "c"),
        ({}, {}, {"kai.scheduler/queue": "d"}, "d"),
        ({}, {}, {}, "default"),
    ],
)
def test_the_queue(spec: dict[str, Any], meta: dict[str, str], of_pod: dict[str, str], queue: str) -> None:
    assert only_gang(group(meta={"labels": meta}, **spec), member("a", labels=of_pod)).queue == queue


def test_the_queue_label_of_kai_counts_for_pods_without_a_pod_group() -> None:
    assert only_gang(pod("a", labels={"kai.scheduler/queue": "q"})).queue == "q"


@pytest.mark.parametrize(
    ("of_class", "preemptibility", "expected"),
    [
        (99, "", True),
        (100, "", False),
        (100, "preemptible", True),
        (50, "non-preemptible", False),
    ],
)
def test_preemptibility_follows_from_the_class_if_it_is_not_written(
    of_class: int, preemptibility: str, expected: bool
) -> None:
    spec = {"preemptibility": preemptibility} if preemptibility else {}
    level = named("PriorityClass", "level", value=of_class)
    written_group = group(priorityClassName="level", **spec)
    gang = only_gang(allows_non_preemptible(), level, written_group, member("a", priority=of_class))
    assert (gang.priority, gang.disruption.is_preemptible) == (of_class, expected)


def test_a_group_without_a_class_is_preemptible() -> None:
    assert only_gang(group(), member("a", priority=1000)).disruption.is_preemptible


def test_the_topology_is_that_of_kai() -> None:
    wanted = {"topology": "net", "requiredTopologyLevel": "zone", "preferredTopologyLevel": "rack"}
    levels = [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]
    cache = new_cache(
        named("KaiTopology", "net", spec={"levels": levels}), group(topologyConstraint=wanted), member("a")
    )
    snapshot = take_snapshot(cache)
    (gang,) = snapshot.gangs.values()
    assert gang.topology.name is not None
    found = snapshot.topologies[gang.topology.name]
    assert [(each.name, each.node_label) for each in found.levels] == [("zone", "zone"), ("rack", "rack")]
    assert (gang.topology.required, gang.topology.preferred, gang.problems) == ("zone", "rack", ())


def test_topologies_of_subgroups() -> None:
    parts = [{**part, "topologyConstraint": {**LEVEL, "topology": "net"}} for part in PARTS]
    gang = only_gang(group(subGroups=parts), member("a", part="a"), member("b", part="b"))
    assert [(part.topology, part.required) for part in gang.subgroups] == [("kai.scheduler/net", "rack")] * 2
    assert gang.problems == ()


def test_a_topology_of_kai_is_never_the_default() -> None:
    levels = [{"nodeLabel": "zone"}]
    topologies = take_snapshot(new_cache(named("KaiTopology", "default", spec={"levels": levels}))).topologies
    assert {name: len(each.levels) for name, each in topologies.items()} == {
        DEFAULT: 0,
        "kai.scheduler/default": 1,
    }


# --- members ------------------------------------------------------------------------------------------------


def test_pods_of_other_schedulers_are_no_members() -> None:
    assert gangs_of(new_cache(group(), member("a", schedulerName="kai-scheduler"))) == {}


def test_an_unknown_subgroup_is_named_with_the_label_of_kai() -> None:
    (problem,) = only_gang(group(), member("a", part="other")).problems
    assert "label kai.scheduler/subgroup-name of pod a is 'other'" in problem.message


def test_a_pod_that_two_dialects_claim_is_refused_with_both_named() -> None:
    message = only_gang(
        pod_group("ours"), group(), member("a", labels={label("pod-group"): "ours"})
    ).problems[0]
    assert message.reason is Reason.INCONSISTENT_GANG
    assert KAI.field in message.message
    assert label("pod-group") in message.message


def test_a_missing_pod_group_is_named_with_its_api() -> None:
    (problem,) = only_gang(member("a")).problems
    assert problem.reason is Reason.POD_GROUP_NOT_FOUND
    assert "scheduling.run.ai/v2alpha2" in problem.message


# --- status -------------------------------------------------------------------------------------------------


def waits(written_group: KaiPodGroup, message: str = "why") -> StatusWrite | None:
    assert KAI.status is not None
    gang = only_gang(written_group, member("a"))
    return KAI.status.wanted(ReportedGang(gang, "InsufficientCapacity", message, NOW), written_group)


def sent(found: StatusWrite | None) -> list[dict[str, Any]]:
    """The conditions as they are sent."""
    assert found is not None
    conditions: list[dict[str, Any]] = msgspec.json.decode(
        msgspec.json.encode(found.fields["schedulingConditions"])
    )
    return conditions


def condition(**changes: Any) -> dict[str, Any]:
    return {
        "type": "UnschedulableOnNodePool",
        "nodePool": "default",
        "reason": "Unschedulable",
        "message": "why",
        "reasons": [{"reason": "InsufficientCapacity", "message": "why"}],
        "lastTransitionTime": NOW,
        "status": "True",
        "transitionID": "1",
        **changes,
    }


def status(*conditions: dict[str, Any]) -> dict[str, Any]:
    return {"schedulingConditions": list(conditions), "resourcesStatus": {"requested": {"cpu": "1"}}}


def test_a_waiting_group_has_the_condition_of_kai() -> None:
    assert sent(waits(group())) == [condition()]


def test_the_same_reason_is_written_once() -> None:
    assert waits(group(status=status(condition(lastTransitionTime=LONG_AGO, transitionID="7")))) is None


def test_another_message_is_the_next_transition_and_other_node_pools_stay() -> None:
    other = condition(nodePool="pool", transitionID="2", details={})
    first, last = sent(waits(group(status=status(other, condition(transitionID="7"))), "other"))
    changed = condition(
        message="other", reasons=[{"reason": "InsufficientCapacity", "message": "other"}], transitionID="8"
    )
    assert (first["nodePool"], first["transitionID"], last) == ("pool", "2", changed)


@pytest.mark.parametrize("seen", [(), (condition(),)])
def test_a_started_group_has_no_condition(seen: tuple[dict[str, Any], ...]) -> None:
    assert KAI.status is not None
    written_group = group(status=status(*seen))
    gang = only_gang(written_group, member("a", nodeName="n"))
    found = KAI.status.wanted(ReportedGang(gang, "", "", NOW), written_group)
    assert found == (StatusWrite({"schedulingConditions": []}) if seen else None)
