"""Which evictions are dropped because the cluster has changed since the decision."""

import pytest
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Deleted
from phalanx.model.decisions import Evict, EvictionReason
from phalanx.model.names import GangId, PodUid
from phalanx.service.write_checks import CacheEvictionCheck

from tests.model.written import label, node, pod, pod_group


def evict(gang: GangId, reason: str = "Preempted", beneficiary: str = "") -> Evict:
    """An eviction of pod a."""
    name = "a"
    return Evict(PodUid(name), "team", name, gang, 1, EvictionReason(reason), "m", beneficiary)


def objection(cache: Cache, eviction: Evict, *, breaker: str = "") -> str | None:
    return CacheEvictionCheck(cache, lambda: breaker).objection(eviction)


@pytest.mark.parametrize(
    ("phase", "expected"), [("Running", None), ("Failed", None), ("Succeeded", "gang team/g is finishing")]
)
def test_a_finishing_gang_is_not_evicted(phase: str, expected: str | None) -> None:
    cache = Cache(scheduler_name="phalanx")
    labels = {label("pod-group"): "g"}
    cache.apply(Applied(pod("a", uid="a", labels=labels)))
    cache.apply(Applied(pod("b", uid="b", labels=labels, status={"phase": phase})))
    (gang,) = cache.gang_ids()
    eviction = evict(gang)
    assert objection(cache, eviction) == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("g", None), ("h", "the pod is no longer a member of gang team/g")]
)
def test_a_pod_that_has_moved_to_another_gang_is_not_evicted(name: str, expected: str | None) -> None:
    cache = Cache(scheduler_name="phalanx")
    for each in ("a", "b"):
        cache.apply(Applied(pod(each, uid=each, labels={label("pod-group"): "g"})))
    (gang,) = cache.gang_ids()
    cache.apply(Applied(pod("a", uid="a", labels={label("pod-group"): name})))
    eviction = evict(gang)
    assert objection(cache, eviction) == expected


def test_a_pod_whose_gang_is_gone_is_not_evicted() -> None:
    cache = Cache(scheduler_name="phalanx")
    cache.apply(Applied(pod("a", uid="a")))
    (gang,) = cache.gang_ids()
    eviction = evict(gang)
    assert objection(Cache(scheduler_name="phalanx"), eviction) == "its gang is gone"


def test_a_pod_whose_pod_group_was_recreated_is_not_evicted() -> None:
    cache = Cache(scheduler_name="phalanx")
    cache.apply(Applied(pod_group("g", uid="old")))
    cache.apply(Applied(pod("a", uid="a", labels={label("pod-group"): "g"})))
    (gang,) = cache.gang_ids()
    eviction = evict(gang)
    cache.apply(Deleted("PodGroup", "team", "g", "old"))
    cache.apply(Applied(pod_group("g", uid="new")))
    assert objection(cache, eviction) == "its gang is gone"


def on_node(*, ready: str = "True", taints: tuple[str, ...] = ()) -> tuple[Cache, GangId]:
    """Pod a runs on node n."""
    cache = Cache(scheduler_name="phalanx")
    cache.apply(Applied(pod("a", uid="a", nodeName="n")))
    there = [{"key": key, "effect": "NoExecute"} for key in taints]
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    cache.apply(Applied(node("n", spec={"taints": there}, status=status)))
    (gang,) = cache.gang_ids()
    return cache, gang


@pytest.mark.parametrize(
    ("reason", "beneficiary", "expected"),
    [
        ("GangIncomplete", "", "the breaker is open: 6 of 11"),
        ("MemberReplaced", "", "the breaker is open: 6 of 11"),
        ("GangRestarted", "", "the breaker is open: 6 of 11"),
        ("Preempted", "team/other", None),
        ("Preempted", "", None),
        ("Consolidated", "team/other", None),
    ],
)
def test_evictions_for_recovery_are_dropped_while_the_breaker_is_open(
    reason: str, beneficiary: str, expected: str | None
) -> None:
    cache, gang = on_node(ready="Unknown")
    eviction = evict(gang, reason, beneficiary)
    assert objection(cache, eviction) is None
    assert objection(cache, eviction, breaker="6 of 11") == expected


@pytest.mark.parametrize(
    ("ready", "taints", "reason", "expected"),
    [
        ("True", (), "MemberReplaced", "node n is available again"),
        ("Unknown", (), "MemberReplaced", None),
        ("True", ("dead",), "MemberReplaced", None),
        ("True", (), "GangRestarted", None),
        ("True", (), "GangIncomplete", None),
        ("True", (), "Preempted", None),
    ],
)
def test_a_member_whose_node_is_available_again_is_not_replaced(
    ready: str, taints: tuple[str, ...], reason: str, expected: str | None
) -> None:
    cache, gang = on_node(ready=ready, taints=taints)
    assert objection(cache, evict(gang, reason)) == expected


def test_a_member_whose_node_is_gone_is_replaced() -> None:
    cache, gang = on_node()
    cache.apply(Deleted("Node", "", "n"))
    assert objection(cache, evict(gang, "MemberReplaced")) is None


def test_a_pod_of_another_scheduler_is_evicted_while_the_configuration_selects_it() -> None:
    cache = Cache(scheduler_name="phalanx", is_evictable=lambda pod: ("app", "sweep") in pod.all_labels)
    fields = {"uid": "a", "schedulerName": "other", "nodeName": "n"}
    for labels, expected in (({"app": "sweep"}, None), ({}, "its gang is gone")):
        cache.apply(Applied(pod("a", labels=labels, **fields)))
        assert objection(cache, evict(GangId("a"), beneficiary="team/g")) == expected
