"""The effect of single events on the cache: assumptions, order of events, identity, triggers of a cycle."""

from typing import Any

import pytest
from msgspec import structs
from phalanx.cache.cache import Cache
from phalanx.cache.events import NOTHING, Applied, Changes, Deleted, Forgotten, Relisted
from phalanx.model.api.meta import KubeObject
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.pods import BindBackoff
from phalanx.model.supplies.known import is_chosen_by_kubelet
from phalanx.model.supplies.volumes.published import ClusterVolumes
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.assumed import assumed
from tests.cache.world import new_cache, take_snapshot
from tests.model.written import claim, label, named, native_pod_group, node, pod, pod_group

U = PodUid("u")
N1, N2 = NodeName("n1"), NodeName("n2")


def one_gpu(name: str = "p", *, uid: str = "u", version: str = "", **rest: Any) -> Any:
    return pod(name, uid=uid, requests={"nvidia.com/gpu": 1}, meta={"resourceVersion": version}, **rest)


def apply(cache: Cache, item: KubeObject) -> Changes:
    return cache.apply(Applied(item))


def queues() -> tuple[KubeObject, ...]:
    """Queues a and b, which accept all namespaces."""
    return named("Queue", "a", spec={}), named("Queue", "b", spec={})


def gpus(cache: Cache) -> dict[str, int]:
    """The used GPUs per node; usage per node and per queue must agree when all pods are ours."""
    snapshot = take_snapshot(cache)
    check_cache(cache)
    used = {name: state.used.get("nvidia.com/gpu", 0) for name, state in snapshot.nodes.items()}
    for per_node in snapshot.queue_usage.values():
        for name, amounts in per_node.items():
            if name in used:
                assert used[name] == amounts.get("nvidia.com/gpu", 0)
    return {name: amount for name, amount in used.items() if amount}


# --- assumed pods -------------------------------------------------------------------------------------------


def test_an_assumed_pod_uses_its_node_until_it_is_forgotten() -> None:
    cache = new_cache(node("n1"), one_gpu())
    changes = cache.apply(assumed(U, N1))
    assert (changes.pods, changes.nodes, changes.gangs) == ((U,), (N1,), ("u",))
    assert not changes.may_unblock
    found = cache.pod(U)
    assert found is not None
    assert (found.node, found.assumed, found.is_waiting) == (N1, True, False)
    assert gpus(cache) == {"n1": 1}
    changes = cache.apply(Forgotten(U))
    assert changes.capacity_grew
    assert gpus(cache) == {}
    assert cache.apply(Forgotten(U)) == NOTHING


def test_the_api_confirms_an_assumption() -> None:
    cache = new_cache(node("n1"), one_gpu())
    cache.apply(assumed(U, N1))
    apply(cache, one_gpu())
    assert gpus(cache) == {"n1": 1}
    changes = apply(cache, one_gpu(nodeName="n1"))
    assert (changes.pods, changes.nodes, changes.may_unblock) == ((U,), (), False)
    assert gpus(cache) == {"n1": 1}
    assert cache.apply(Forgotten(U)) == NOTHING
    found = cache.pod(U)
    assert found is not None
    assert not found.assumed


def test_a_foreign_bind_overrides_an_assumption() -> None:
    cache = new_cache(node("n1"), node("n2"), one_gpu())
    cache.apply(assumed(U, N1))
    changes = apply(cache, one_gpu(nodeName="n2"))
    assert changes.capacity_grew
    assert gpus(cache) == {"n2": 1}


def test_the_last_assumption_replaces_earlier_ones() -> None:
    cache = new_cache(node("n1"), node("n2"), one_gpu())
    cache.apply(assumed(U, N1))
    cache.apply(assumed(U, N2))
    assert gpus(cache) == {"n2": 1}


@pytest.mark.parametrize("state", [{"nodeName": "n2"}, {"status": {"phase": "Failed"}}, None])
def test_invalid_assumptions_are_ignored(state: dict[str, Any] | None) -> None:
    cache = new_cache(node("n1"), node("n2"), *([one_gpu(**state)] if state else []))
    before = take_snapshot(cache)
    assert cache.apply(assumed(U, N1)) == NOTHING
    assert take_snapshot(cache) == before


def test_deleting_a_pod_removes_its_assumption() -> None:
    cache = new_cache(node("n1"), one_gpu())
    cache.apply(assumed(U, N1))
    assert cache.apply(Deleted("Pod", "team", "p", "u")).capacity_grew
    apply(cache, one_gpu(uid="u2"))
    assert gpus(cache) == {}
    assert cache.apply(Forgotten(U)) == NOTHING


def test_a_pod_that_fails_unbound_is_no_longer_assumed() -> None:
    cache = new_cache(node("n1"), one_gpu())
    cache.apply(assumed(U, N1))
    apply(cache, one_gpu(status={"phase": "Failed"}))
    assert gpus(cache) == {}


def test_an_assumed_pod_does_not_start_its_gang() -> None:
    cache = new_cache(node("n1"), one_gpu(labels={label("pod-group"): "g"}), pod_group(uid="G"))
    cache.apply(assumed(U, N1))
    assert not take_snapshot(cache).gangs["G"].started
    apply(cache, one_gpu(labels={label("pod-group"): "g"}, nodeName="n1"))
    assert take_snapshot(cache).gangs["G"].started
    apply(cache, one_gpu(labels={label("pod-group"): "g"}, nodeName="n1", status={"phase": "Failed"}))
    assert take_snapshot(cache).gangs["G"].started


def test_a_bind_backoff_is_kept_until_the_pod_is_bound() -> None:
    cache = new_cache(one_gpu())
    bind_backoff = BindBackoff(until=5, failures=1, why="node full")
    cache.apply(assumed(U, N1))
    cache.apply(Forgotten(U, bind_backoff))
    for _ in range(2):
        found = cache.pod(U)
        assert found is not None
        assert (found.node, found.bind_backoff) == (None, bind_backoff)
        apply(cache, one_gpu(labels={"a": "b"}))
    apply(cache, one_gpu(nodeName="n1"))
    found = cache.pod(U)
    assert found is not None
    assert found.bind_backoff is None
    check_cache(cache)


# --- nodes and pods, in any order ---------------------------------------------------------------------------


def test_pods_may_be_reported_before_their_node() -> None:
    cache = new_cache(one_gpu(nodeName="n1"))
    assert take_snapshot(cache).nodes == {}
    assert cache.node_state(N1) is None
    assert apply(cache, node("n1")).capacity_grew
    assert gpus(cache) == {"n1": 1}


def test_a_recreated_node_keeps_the_pods_bound_to_its_name() -> None:
    cache = new_cache(node("n1", uid="old"), one_gpu(nodeName="n1"))
    assert cache.apply(Deleted("Node", "", "n1", "old")).nodes == ("n1",)
    assert take_snapshot(cache).nodes == {}
    apply(cache, node("n1", uid="new"))
    assert cache.apply(Deleted("Node", "", "n1", "old")) == NOTHING
    assert gpus(cache) == {"n1": 1}


def test_a_recreated_node_has_a_new_uid() -> None:
    cache = new_cache(node("n1", uid="old"))
    assert apply(cache, node("n1", uid="new")).nodes == ("n1",)
    assert cache.apply(Deleted("Node", "", "n1", "old")) == NOTHING
    assert take_snapshot(cache).nodes[N1].node.uid == "new"


def test_used_resources_are_sorted_by_name() -> None:
    one, other = pod("a", requests={"memory": 1}, nodeName="n1"), pod("b", requests={"cpu": 1}, nodeName="n1")
    for order in ((one, other), (other, one)):
        assert list(take_snapshot(new_cache(node("n1"), *order)).nodes[N1].used) == ["cpu", "memory", "pods"]


def test_a_heartbeat_changes_nothing() -> None:
    cache = new_cache(node("n1"))
    before = take_snapshot(cache)
    beat = node("n1")
    beat = structs.replace(beat, metadata=structs.replace(beat.metadata, resource_version="99"))
    assert apply(cache, beat) is NOTHING
    assert take_snapshot(cache).nodes is before.nodes


AMOUNTS = {"cpu": "8", "nvidia.com/gpu": "8"}
TAINT = {"key": "k", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("labels", "spec", "allocatable", "grew"),
    [
        ({}, {}, {**AMOUNTS, "cpu": "9"}, True),
        ({}, {}, {**AMOUNTS, "memory": "1"}, True),
        ({}, {}, {**AMOUNTS, "cpu": "7"}, False),
        ({}, {}, {"cpu": "8"}, False),
        ({"zone": "a"}, {}, AMOUNTS, True),
        ({}, {"unschedulable": True}, AMOUNTS, False),
        ({}, {"taints": [TAINT]}, AMOUNTS, False),
    ],
)
def test_a_node_that_lost_capacity_does_not_trigger_a_cycle(
    labels: dict[str, str], spec: dict[str, Any], allocatable: dict[str, str], grew: bool
) -> None:
    cache = new_cache(node("n1", status={"allocatable": AMOUNTS}))
    version = take_snapshot(cache).capacity_version
    changed = node("n1", labels=labels, spec=spec, status={"allocatable": allocatable})
    changes = apply(cache, changed)
    assert (changes.nodes, changes.capacity_grew, changes.may_unblock) == (("n1",), grew, grew)
    assert take_snapshot(cache).capacity_version == version + grew
    assert apply(cache, node("n1", status={"allocatable": AMOUNTS})).capacity_grew is not (
        grew and not labels
    )


def health(**statuses: str) -> Any:
    beat = [{"type": kind, "status": each, "lastHeartbeatTime": "x"} for kind, each in statuses.items()]
    return node("n1", status={"allocatable": AMOUNTS, "conditions": beat})


@pytest.mark.parametrize(
    ("before", "after", "grew", "may_unblock"),
    [
        ({"Ready": "True"}, {"Ready": "False"}, False, True),
        ({"Ready": "True"}, {"Ready": "Unknown"}, False, True),
        ({"Ready": "False"}, {"Ready": "True"}, True, True),
        ({"Ready": "False"}, {}, True, True),
        ({"GpuXidError": "True"}, {"GpuXidError": "False"}, True, True),
        ({"Ready": "True"}, {"Ready": "True"}, False, False),
    ],
)
def test_a_changed_condition_triggers_a_cycle(
    before: dict[str, str], after: dict[str, str], *, grew: bool, may_unblock: bool
) -> None:
    cache = new_cache(health(**before))
    changes = apply(cache, health(**after))
    assert (changes.capacity_grew, changes.may_unblock) == (grew, may_unblock)
    assert take_snapshot(cache).nodes[N1].node.conditions == after


def test_a_lost_node_triggers_a_cycle_but_adds_no_capacity() -> None:
    cache = new_cache(node("n1"))
    evicting = node("n1", spec={"taints": [{"key": "k", "effect": "NoExecute"}]})
    for changes in (apply(cache, evicting), cache.apply(Deleted("Node", "", "n1"))):
        assert (changes.capacity_grew, changes.may_unblock) == (False, True)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_uses_nothing(phase: str) -> None:
    cache = new_cache(node("n1"), one_gpu(nodeName="n1"))
    assert apply(cache, one_gpu(nodeName="n1", status={"phase": phase})).capacity_grew
    assert gpus(cache) == {}


def test_a_terminating_pod_uses_its_node_until_it_is_deleted() -> None:
    cache = new_cache(node("n1"), one_gpu(nodeName="n1"))
    leaving = one_gpu(nodeName="n1")
    meta = structs.replace(
        leaving.metadata,
        deletion_timestamp=named(
            "Pod", "x", deletionTimestamp="2026-01-01T00:00:00Z"
        ).metadata.deletion_timestamp,
    )
    apply(cache, structs.replace(leaving, metadata=meta))
    assert gpus(cache) == {"n1": 1}


def test_a_resize_changes_what_is_used() -> None:
    cache = new_cache(node("n1"), one_gpu(nodeName="n1"))
    changes = apply(cache, pod("p", uid="u", requests={"nvidia.com/gpu": 3}, nodeName="n1"))
    assert changes.nodes == ("n1",)
    assert gpus(cache) == {"n1": 3}


def test_foreign_pods_use_capacity_and_are_not_gangs() -> None:
    cache = new_cache(node("n1"), one_gpu(nodeName="n1", schedulerName="other"))
    snapshot = take_snapshot(cache)
    used = snapshot.nodes[N1].used
    assert {name: amount for name, amount in used.items() if not is_chosen_by_kubelet(name)} == {
        "nvidia.com/gpu": 1,
        "pods": 1,
    }
    assert snapshot.nodes[N1].free["nvidia.com/gpu"] == 7
    assert not snapshot.gangs
    assert not snapshot.queue_usage


# --- identity -----------------------------------------------------------------------------------------------


def test_a_recreated_pod_replaces_the_old_one() -> None:
    cache = new_cache(node("n1"), one_gpu(nodeName="n1"))
    changes = apply(cache, one_gpu(uid="u2"))
    assert changes.pods == ("u", "u2")
    assert cache.pod(U) is None
    assert gpus(cache) == {}
    assert cache.apply(Deleted("Pod", "team", "p", "u")) == NOTHING
    assert cache.apply(Deleted("Pod", "team", "p")) != NOTHING


def test_a_uid_has_one_name() -> None:
    cache = new_cache(node("n1"), one_gpu("p", nodeName="n1"))
    apply(cache, one_gpu("q", nodeName="n1"))
    assert gpus(cache) == {"n1": 1}
    assert cache.apply(Deleted("Pod", "team", "p", "u")) == NOTHING


def test_the_namespace_of_a_cluster_scoped_object_is_ignored() -> None:
    cache = new_cache(named("Node", "n1", namespace="team"), named("Node", "n1", namespace="other"))
    assert list(take_snapshot(cache).nodes) == ["n1"]
    cache.apply(Deleted("Node", "elsewhere", "n1"))
    assert not take_snapshot(cache).nodes
    check_cache(cache)


def test_an_older_resource_version_is_ignored_except_in_a_list() -> None:
    cache = new_cache(node("n1"), one_gpu(nodeName="n1", version="20"))
    assert apply(cache, one_gpu(version="19")) == NOTHING
    assert apply(cache, one_gpu(uid="older", version="9")) == NOTHING
    assert gpus(cache) == {"n1": 1}
    cache.apply(Relisted("Pod", (one_gpu(version="5"),)))
    assert gpus(cache) == {}
    assert apply(cache, one_gpu(nodeName="n1", version="6")) != NOTHING


@pytest.mark.parametrize("version", ["", "x", "-1", "１", "9" * 5000])
def test_objects_with_invalid_resource_versions_are_applied(version: str) -> None:
    cache = new_cache(one_gpu(version="20"))
    assert apply(cache, one_gpu(nodeName="n1", version=version)) != NOTHING


def test_a_recreated_group_is_a_new_gang() -> None:
    labels = {label("pod-group"): "g"}
    cache = new_cache(one_gpu(labels=labels, nodeName="n1"), pod_group(uid="G1"))
    assert take_snapshot(cache).gangs["G1"].started
    changes = apply(cache, pod_group(uid="G2", minMember=2))
    assert changes.gangs == ("G1", "G2")
    snapshot = take_snapshot(cache)
    assert list(snapshot.gangs) == ["G2"]
    assert not snapshot.gangs["G2"].started


def test_relisting_replaces_a_kind_and_keeps_undecodable_objects() -> None:
    cache = new_cache(one_gpu("a", uid="a"), one_gpu("b", uid="b"), one_gpu("c", uid="c"), node("n1"))
    cache.apply(Relisted("Pod", (one_gpu("a", uid="a"), one_gpu("d", uid="d")), (("team", "b"),)))
    assert list(take_snapshot(cache).gangs) == ["a", "b", "d"]
    assert list(take_snapshot(cache).nodes) == ["n1"]


def test_unused_kinds_are_accepted() -> None:
    cache = new_cache()
    assert apply(cache, named("Lease", "l", namespace="team")) == NOTHING
    assert cache.apply(Deleted("Lease", "team", "l")) == NOTHING
    assert cache.apply(Relisted("Lease", ())) == NOTHING


def _budget(allowed: int, **selector: object) -> KubeObject:
    status = {"disruptionsAllowed": allowed}
    found: KubeObject = named(
        "PodDisruptionBudget", "b", namespace="team", spec={"selector": selector}, status=status
    )
    return found


def test_a_budget_that_allows_more_disruptions_triggers_a_cycle() -> None:
    cache = new_cache()
    assert apply(cache, _budget(1)) == NOTHING
    assert apply(cache, _budget(2)).capacity_grew
    assert apply(cache, _budget(1)) == NOTHING
    assert [str(each) for each in take_snapshot(cache).disruption_budgets] == ["team/b"]
    assert apply(cache, _budget(1, matchLabels={"a": "b"})).capacity_grew
    assert cache.apply(Deleted("PodDisruptionBudget", "team", "b")).capacity_grew
    assert take_snapshot(cache).disruption_budgets == ()


# --- triggers of a cycle ------------------------------------------------------------------------------------


def may_unblock(cache: Cache, item: KubeObject) -> bool:
    return apply(cache, item).may_unblock


def test_changes_of_a_waiting_pod_that_trigger_a_cycle() -> None:
    cache = new_cache()
    assert may_unblock(cache, one_gpu(schedulingGates=[{"name": "hold"}]))
    assert may_unblock(cache, one_gpu())
    assert not may_unblock(cache, one_gpu())
    status = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    assert not may_unblock(cache, one_gpu(status=status))
    assert may_unblock(cache, one_gpu(labels={label("queue"): "other"}, status=status))
    assert not may_unblock(cache, one_gpu("other", uid="o", schedulerName="other"))
    assert not may_unblock(cache, one_gpu("other", uid="o", schedulerName="other", nodeName="n1"))


def new_members(cache: Cache, count: int, **fields: Any) -> list[tuple[bool, bool]]:
    """Whether a cycle may place a gang, or report a new verdict, after each of these pods."""
    found = [apply(cache, pod(f"m{index}", uid=f"m{index}", **fields)) for index in range(count)]
    return [(each.may_unblock, each.has_new_verdicts) for each in found]


VERDICT_ONLY, MAY_UNBLOCK = (False, True), (True, False)


def test_a_member_of_an_incomplete_gang_only_changes_the_verdict() -> None:
    inside = {"labels": {label("pod-group"): "g"}}
    assert new_members(new_cache(pod_group(minMember=3)), 4, **inside) == [
        VERDICT_ONLY,
        VERDICT_ONLY,
        MAY_UNBLOCK,
        MAY_UNBLOCK,
    ]
    assert new_members(new_cache(), 3, **inside) == [VERDICT_ONLY] * 3
    reserving = {"startWhen": "Reserved", "roles": [{"name": "w", "count": 3}]}
    assert new_members(new_cache(pod_group(minMember=3, **reserving)), 1, **inside) == [MAY_UNBLOCK]
    group = pod_group(minMember=3)
    started = structs.replace(group, status=structs.replace(group.status, started_at="2026-01-01T00:00:00Z"))
    assert new_members(new_cache(started), 1, **inside) == [MAY_UNBLOCK]
    assert new_members(new_cache(group), 1, schedulerName="other") == [(False, False)]


def test_a_replacement_of_a_member_of_a_running_gang_triggers_a_cycle() -> None:
    inside = {"labels": {label("pod-group"): "g"}}
    runs = [pod(name, uid=name, nodeName="n1", **inside) for name in ("a", "b")]
    cache = new_cache(node("n1"), pod_group(minMember=2), *runs)
    take_snapshot(cache)
    cache.apply(Deleted("Pod", "team", "a"))
    assert new_members(cache, 1, **inside) == [MAY_UNBLOCK]


def test_the_deletion_of_a_bound_member_triggers_a_cycle_while_its_gang_has_not_started() -> None:
    """The gang is released if it stays incomplete. Its capacity grows later, when the pod has ended."""
    inside = {"nodeName": "n1", "labels": {label("pod-group"): "g"}}
    going = {**inside, "meta": {"deletionTimestamp": "2026-01-01T00:00:30Z"}}
    for minimum, expected in ((3, VERDICT_ONLY), (2, (False, False))):
        members = [pod(name, uid=name, **inside) for name in ("a", "b")]
        cache = new_cache(node("n1"), pod_group(minMember=minimum), *members)
        take_snapshot(cache)
        found = [apply(cache, pod("a", uid="a", **going)) for _ in range(2)]
        again = (False, False)
        assert [(each.may_unblock, each.has_new_verdicts) for each in found] == [expected, again]
    alone = new_cache(node("n1"), pod("a", uid="a", nodeName="n1"))
    assert not apply(alone, pod("a", uid="a", nodeName="n1", meta=going["meta"])).has_new_verdicts


def test_a_gang_by_min_member_label_triggers_a_cycle_when_it_is_complete() -> None:
    owner = {"kind": "Job", "name": "j", "uid": "j", "controller": True, "apiVersion": "batch/v1"}
    fields = {"labels": {label("min-member"): "2"}, "meta": {"ownerReferences": [owner]}}
    assert new_members(new_cache(), 3, **fields) == [VERDICT_ONLY, MAY_UNBLOCK, MAY_UNBLOCK]
    assert new_members(new_cache(), 2) == [MAY_UNBLOCK, MAY_UNBLOCK]


def test_the_deletion_of_a_conflicting_member_triggers_a_cycle() -> None:
    cache = new_cache(pod_group(), one_gpu("a", uid="a", labels={label("pod-group"): "g"}))
    apply(cache, one_gpu("b", uid="b", labels={label("pod-group"): "g"}, schedulerName="other"))
    assert cache.apply(Deleted("Pod", "team", "b")).may_unblock


def test_the_end_of_a_gang_triggers_a_cycle_which_forgets_it() -> None:
    """Of a native PodGroup when its last pod is deleted, since PodGroups without pods trigger none."""
    done = {"nodeName": "n1", "status": {"phase": "Succeeded"}}
    ours, native = {"labels": {label("pod-group"): "g"}}, {"schedulingGroup": {"podGroupName": "g"}}
    members = [pod("a", **ours, **done), *[pod(name, **native, **done) for name in ("b", "c")]]
    cache = new_cache(node("n1"), pod_group(), native_pod_group(), *members)
    take_snapshot(cache)
    deleted = [("Pod", "a"), ("PodGroup", "g"), ("Pod", "b"), ("Pod", "c"), ("NativePodGroup", "g")]
    found = [cache.apply(Deleted(kind, "team", name)) for kind, name in deleted]
    nothing = (False, False)
    assert [(each.may_unblock, each.has_new_verdicts) for each in found] == [
        *(nothing, MAY_UNBLOCK),
        *(nothing, VERDICT_ONLY, nothing),
    ]


def test_a_finished_pod_that_joins_a_gang_triggers_a_cycle() -> None:
    done = {"uid": "a", "nodeName": "n1", "status": {"phase": "Succeeded"}}
    cache = new_cache(
        pod_group(), one_gpu("b", uid="b", labels={label("pod-group"): "g"}), one_gpu("a", **done)
    )
    assert may_unblock(cache, one_gpu("a", labels={label("pod-group"): "g"}, **done))


def test_changes_of_a_pod_group_that_trigger_a_cycle() -> None:
    cache = new_cache()
    assert not may_unblock(cache, native_pod_group("without-pods"))
    apply(cache, one_gpu(labels={label("pod-group"): "g"}))
    group = pod_group(uid="G")
    assert may_unblock(cache, group)
    mine = structs.replace(group, status=structs.replace(group.status, phase="Pending", started_at="now"))
    assert not may_unblock(cache, mine)
    assert may_unblock(cache, pod_group(uid="G", minMember=2))


def test_a_gang_that_becomes_preemptible_frees_its_part_of_the_guarantee() -> None:
    cache = new_cache(pod_group(uid="G", disruption={"preemptible": False}))
    apply(cache, one_gpu(labels={label("pod-group"): "g"}, nodeName="n1"))
    assert not apply(cache, pod_group(uid="G", disruption={"preemptible": False})).capacity_grew
    assert apply(cache, pod_group(uid="G")).capacity_grew


@pytest.mark.parametrize(
    "spec",
    [
        {"priorityClassName": "low"},
        {"disruption": {"mode": "Single"}},
    ],
)
def test_a_gang_that_becomes_evictable_counts_as_new_capacity(spec: dict[str, object]) -> None:
    cache = new_cache(pod_group(uid="G"), one_gpu(labels={label("pod-group"): "g"}, nodeName="n1"))
    assert apply(cache, pod_group(uid="G", **spec)).capacity_grew


def test_a_changed_priority_class_counts_as_new_capacity() -> None:
    cache = new_cache(named("PriorityClass", "low", value=5))
    assert apply(cache, named("PriorityClass", "low", value=1)).capacity_grew


@pytest.mark.parametrize(
    "item",
    [
        named("Queue", "q", spec={"weight": 2}),
        named("Namespace", "team", labels={"a": "b"}),
        named("Topology", "t", spec={"levels": []}),
        claim(volume="v"),
    ],
    ids=lambda item: type(item).__name__,
)
def test_objects_that_count_as_new_capacity(item: KubeObject) -> None:
    cache = new_cache()
    assert apply(cache, item).capacity_grew
    assert apply(cache, item) == NOTHING


def test_a_running_gang_that_changes_its_queue_frees_quota() -> None:
    cache = new_cache(*queues(), node("n1"), one_gpu(nodeName="n1", labels={label("queue"): "a"}))
    assert list(take_snapshot(cache).queue_usage) == ["a"]
    assert apply(cache, one_gpu(nodeName="n1", labels={label("queue"): "b"})).capacity_grew
    assert list(take_snapshot(cache).queue_usage) == ["b"]


def test_the_queue_of_a_namespace_applies_to_its_gangs() -> None:
    cache = new_cache(*queues(), node("n1"), one_gpu(nodeName="n1"))
    changes = apply(cache, named("Namespace", "team", labels={label("queue"): "a"}))
    assert changes.gangs == ("u",)
    assert list(take_snapshot(cache).queue_usage) == ["a"]
    cache.apply(Deleted("Namespace", "", "team"))
    assert list(take_snapshot(cache).queue_usage) == ["default"]


def test_queues_that_accept_other_namespaces_move_the_charges_of_running_gangs() -> None:
    """Only the gangs that move are reported, and all changes may let waiting gangs start."""
    cache = new_cache(*queues(), node("n1"), named("Namespace", "team", labels={"team": "x"}))
    for name, queue in (("p", "a"), ("q", "b")):
        apply(cache, one_gpu(name, uid=name, nodeName="n1", labels={label("queue"): queue}))
    assert list(take_snapshot(cache).queue_usage) == ["a", "b"]
    for spec, usage in (
        ({"namespaceSelector": {"matchLabels": {"team": "y"}}}, ["b", "default"]),
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, ["a", "b"]),
    ):
        changes = apply(cache, named("Queue", "a", spec=spec))
        assert (changes.gangs, changes.capacity_grew) == (("p",), True)
        assert list(take_snapshot(cache).queue_usage) == usage
    assert apply(cache, named("Namespace", "team", labels={"team": "z"})).gangs == ("p", "q")
    assert list(take_snapshot(cache).queue_usage) == ["b", "default"]
    assert cache.apply(Deleted("Queue", "", "b")).gangs == ("q",)
    assert list(take_snapshot(cache).queue_usage) == ["default"]


def test_bounds_of_a_queue_apply_to_its_gangs_at_once() -> None:
    cache = new_cache(named("PriorityClass", "high", value=7), named("Queue", "a", spec={}))
    apply(cache, pod_group(uid="G", priorityClassName="high", queue="a", disruption={"minRuntime": "1h"}))
    apply(cache, one_gpu("p", labels={label("pod-group"): "g"}))
    gang = take_snapshot(cache).gangs[GangId("G")]
    assert (gang.priority, len(gang.ignored)) == (0, 2)
    spec = {"maxPodGroupPriority": 9, "disruption": {"maxMinRuntime": "2h"}}
    assert apply(cache, named("Queue", "a", spec=spec)).gangs == ("G",)
    gang = take_snapshot(cache).gangs[GangId("G")]
    assert (gang.priority, gang.ignored) == (7, ())
    assert apply(cache, named("Queue", "a", spec={**spec, "weight": 2})).gangs == ()


def test_a_bind_fixes_the_queue_of_a_running_gang() -> None:
    """The charge stays from the decision on, through the confirmation, whatever the labels say then."""
    cache = new_cache(*queues(), node("n1"), one_gpu(labels={label("queue"): "a"}))
    cache.apply(assumed(U, N1, queue="a"))
    other = {label("queue"): "b"}
    assert list(take_snapshot(cache).queue_usage) == ["a"]
    apply(cache, one_gpu(labels=other))
    assert list(take_snapshot(cache).queue_usage) == ["a"]
    charged = {"annotations": {label("charged-queue"): "a"}, "resourceVersion": ""}
    confirmed = pod("p", uid="u", requests={"nvidia.com/gpu": 1}, meta=charged, labels=other, nodeName="n1")
    assert not apply(cache, confirmed).capacity_grew
    assert list(take_snapshot(cache).queue_usage) == ["a"]
    check_cache(cache)


def test_a_priority_class_may_be_created_after_objects_that_name_it() -> None:
    cache = new_cache(
        named("Queue", "trusted", spec={"maxPodGroupPriority": 1000}),
        pod_group(uid="G", priorityClassName="high", queue="trusted"),
        one_gpu("a", uid="a", labels={label("pod-group"): "g"}),
        one_gpu("b", uid="b", priority=None, priorityClassName="high"),
    )
    assert [gang.priority for gang in take_snapshot(cache).gangs.values()] == [0, 0]
    assert apply(cache, named("PriorityClass", "high", value=7)).may_unblock
    snapshot = take_snapshot(cache)
    assert [gang.priority for gang in snapshot.gangs.values()] == [7, 7]
    assert not any(gang.problems for gang in snapshot.gangs.values())


def test_a_claim_is_updated_with_its_volume_and_storage_class() -> None:
    cache = new_cache(named("PersistentVolumeClaim", "c", namespace="team", spec={"storageClassName": "s"}))

    def reason() -> str:
        return take_snapshot(cache).part(ClusterVolumes).claims["team/c"].why_unusable

    assert "its StorageClass s does not exist" in reason()
    assert apply(cache, named("StorageClass", "s", volumeBindingMode="Immediate")).capacity_grew
    assert reason() == "it is not bound to a volume yet"
    assert apply(cache, named("StorageClass", "s", volumeBindingMode="WaitForFirstConsumer")).capacity_grew
    assert take_snapshot(cache).part(ClusterVolumes).claims["team/c"].provisioning is None
    late = named(
        "StorageClass", "s", volumeBindingMode="WaitForFirstConsumer", provisioner="example.com/disk"
    )
    assert apply(cache, late).capacity_grew
    assert take_snapshot(cache).part(ClusterVolumes).claims["team/c"].provisioning is not None
    apply(cache, claim(volume="v"))
    assert "does not exist" in reason()
    assert apply(cache, named("PersistentVolume", "v")).capacity_grew
    assert reason() == ""
    assert cache.apply(Deleted("PersistentVolume", "", "v")).capacity_grew
    assert "does not exist" in reason()


# --- snapshots ----------------------------------------------------------------------------------------------


def test_snapshots_share_unchanged_objects() -> None:
    cache = new_cache(node("n1"), node("n2"), one_gpu(), one_gpu("q", uid="q", nodeName="n2"))
    first = take_snapshot(cache)
    cache.apply(assumed(U, N1))
    second = take_snapshot(cache)
    assert second.nodes[N2] is first.nodes[N2]
    assert second.nodes[N1] is not first.nodes[N1]
    assert second.gangs["q"] is first.gangs["q"]
    assert second.queues is first.queues
    assert second.topologies is first.topologies
    assert take_snapshot(cache).gangs is second.gangs


def test_gangs_are_ordered_by_age_then_namespace_then_name() -> None:
    def aged(name: str, namespace: str, second: int) -> Any:
        meta = {"creationTimestamp": f"2026-01-01T00:00:0{second}Z"}
        return pod(name, namespace=namespace, uid=f"{namespace}/{name}", meta=meta)

    cache = new_cache(aged("a", "y", 2), aged("b", "x", 2), aged("a", "x", 2), aged("z", "z", 1))
    assert list(cache.gang_ids()) == ["z/z", "x/a", "x/b", "y/a"]
    assert list(take_snapshot(cache).gangs) == ["x/a", "x/b", "y/a", "z/z"]


def test_a_gang_is_found_by_its_id() -> None:
    cache = new_cache(one_gpu())
    found = cache.gang(take_snapshot(cache).gangs["u"].id)
    assert found is not None
    assert str(found) == "team/p"


def test_a_recreated_gang_is_listed_once() -> None:
    cache = new_cache(node("n1"), one_gpu(), one_gpu("other", uid="v"))
    assert list(take_snapshot(cache).gangs) == ["u", "v"]
    cache.apply(Deleted("Pod", "team", "p"))
    assert cache.gang(GangId("u")) is None
    apply(cache, one_gpu())
    assert cache.gang(GangId("u")) is not None
    assert list(take_snapshot(cache).gangs) == ["u", "v"]
    check_cache(cache)


@pytest.mark.parametrize("asked_before", [True, False], ids=["leader", "standby"])
def test_data_of_deleted_gangs_is_not_kept_until_another_cycle(asked_before: bool) -> None:
    """A standby runs no cycle."""
    cache = new_cache()
    groups = [pod_group(f"g{number}") for number in range(3)]
    pods = [pod(group.metadata.name, labels={label("pod-group"): group.metadata.name}) for group in groups]
    for item in [*groups, *pods]:
        apply(cache, item)
    if asked_before:
        take_snapshot(cache)
    for item in [*pods, *groups]:
        changes = cache.apply(Deleted(type(item).__name__, item.metadata.namespace, item.metadata.name))
        if asked_before:
            assert {cache.gang(gang) for gang in changes.gangs} == {None}
    assert _sizes(cache) == _sizes(new_cache())


def _sizes(cache: Cache) -> dict[str, int]:
    """Elements of each container of the table of gangs."""
    held = vars(cache._gangs).items()
    return {name: len(value) for name, value in held if isinstance(value, (dict, list, set))}


def test_a_feature_that_a_kubelet_declares_later_triggers_a_cycle() -> None:
    cache = new_cache(node("n1"))
    changes = apply(cache, node("n1", status={"declaredFeatures": ["F"]}))
    assert (changes.nodes, changes.capacity_grew) == (("n1",), True)
    assert take_snapshot(cache).nodes[N1].node.declared_features == ("F",)
