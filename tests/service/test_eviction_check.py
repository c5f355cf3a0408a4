"""What speaks against an eviction when the cluster has changed since it was decided."""

import pytest
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Deleted
from phalanx.model.decisions import Evict, EvictionReason
from phalanx.model.names import GangId, PodUid
from phalanx.service.write_checks import CacheEvictionCheck

from tests.model.written import label, node, pod, pod_group


def evict(gang: GangId, reason: str = "Preempted", beneficiary: str = "") -> Evict:
    """Of pod a."""
    name = "a"
    return Evict(PodUid(name), "team", name, gang, 1, EvictionReason(reason), "m", beneficiary)


def objection(cache: Cache, eviction: Evict, *, breaker: str = "") -> str | None:
    return CacheEvictionCheck(cache, lambda: breaker).objection(eviction)


@pytest.mark.parametrize(
    ("phase", "said"), [("Running", None), ("Failed", None), ("Succeeded", "gang team/g is finishing")]
)
def test_a_gang_that_has_begun_to_succeed_is_left_alone(phase: str, said: str | None) -> None:
    cache = Cache(scheduler_name="phalanx")
    labels = {label("pod-group"): "g"}
    cache.apply(Applied(pod("a", uid="a", labels=labels)))
    cache.apply(Applied(pod("b", uid="b", labels=labels, status={"phase": phase})))
    (gang,) = cache.gang_ids()
    eviction = evict(gang)
    assert objection(cache, eviction) == said


@pytest.mark.parametrize(
    ("name", "said"), [("g", None), ("h", "the pod is no longer a member of gang team/g")]
)
def test_a_pod_that_has_moved_to_another_gang_is_left_alone(name: str, said: str | None) -> None:
    cache = Cache(scheduler_name="phalanx")
    for each in ("a", "b"):
        cache.apply(Applied(pod(each, uid=each, labels={label("pod-group"): "g"})))
    (gang,) = cache.gang_ids()
    cache.apply(Applied(pod("a", uid="a", labels={label("pod-group"): name})))
    eviction = evict(gang)
    assert objection(cache, eviction) == said


def test_a_pod_whose_gang_is_gone_is_left_alone() -> None:
    cache = Cache(scheduler_name="phalanx")
    cache.apply(Applied(pod("a", uid="a")))
    (gang,) = cache.gang_ids()
    eviction = evict(gang)
    assert objection(Cache(scheduler_name="phalanx"), eviction) == "its gang is gone"


def test_a_gang_whose_pod_group_was_made_anew_is_left_alone() -> None:
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
    ("reason", "beneficiary", "said"),
    [
        ("GangIncomplete", "", "the breaker is open: 6 of 11"),
        ("MemberReplaced", "", "the breaker is open: 6 of 11"),
        ("GangRestarted", "", "the breaker is open: 6 of 11"),
        ("Preempted", "team/other", None),
        ("Preempted", "", None),
        ("Consolidated", "team/other", None),
    ],
)
def test_no_fault_is_answered_while_the_breaker_is_open(
    reason: str, beneficiary: str, said: str | None
) -> None:
    cache, gang = on_node(ready="Unknown")
    eviction = evict(gang, reason, beneficiary)
    assert objection(cache, eviction) is None
    assert objection(cache, eviction, breaker="6 of 11") == said


@pytest.mark.parametrize(
    ("ready", "taints", "reason", "said"),
    [
        ("True", (), "MemberReplaced", "node n is available again"),
        ("Unknown", (), "MemberReplaced", None),
        ("True", ("dead",), "MemberReplaced", None),
        ("True", (), "GangRestarted", None),
        ("True", (), "GangIncomplete", None),
        ("True", (), "Preempted", None),
    ],
)
def test_a_member_whose_node_came_back_is_not_replaced(
    ready: str, taints: tuple[str, ...], reason: str, said: str | None
) -> None:
    cache, gang = on_node(ready=ready, taints=taints)
    assert objection(cache, evict(gang, reason)) == said


def test_a_member_whose_node_is_gone_is_replaced() -> None:
    cache, gang = on_node()
    cache.apply(Deleted("Node", "", "n"))
    assert objection(cache, evict(gang, "MemberReplaced")) is None
