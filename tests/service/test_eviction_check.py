"""What speaks against an eviction when the cluster has changed since it was decided."""

import pytest

from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied
from phalanx.model.decisions import Evict
from phalanx.model.names import PodUid
from phalanx.service.eviction_check import CacheEvictionCheck
from tests.model.written import label, pod


@pytest.mark.parametrize(
    ("phase", "said"), [("Running", None), ("Failed", None), ("Succeeded", "gang team/g is finishing")]
)
def test_a_gang_that_has_begun_to_succeed_is_left_alone(phase: str, said: str | None) -> None:
    cache = Cache(scheduler_name="phalanx")
    labels = {label("pod-group"): "g"}
    cache.apply(Applied(pod("a", uid="a", labels=labels)))
    cache.apply(Applied(pod("b", uid="b", labels=labels, status={"phase": phase})))
    (gang,) = cache.gang_ids()
    eviction = Evict(pod=PodUid("a"), namespace="team", name="a", gang=gang, cycle=1, reason="r", message="m")
    assert CacheEvictionCheck(cache).why_not(eviction) == said


@pytest.mark.parametrize(
    ("name", "said"), [("g", None), ("h", "the pod is no member of gang team/g any more")]
)
def test_a_pod_that_has_moved_to_another_gang_is_left_alone(name: str, said: str | None) -> None:
    cache = Cache(scheduler_name="phalanx")
    for each in ("a", "b"):
        cache.apply(Applied(pod(each, uid=each, labels={label("pod-group"): "g"})))
    (gang,) = cache.gang_ids()
    cache.apply(Applied(pod("a", uid="a", labels={label("pod-group"): name})))
    eviction = Evict(pod=PodUid("a"), namespace="team", name="a", gang=gang, cycle=1, reason="r", message="m")
    assert CacheEvictionCheck(cache).why_not(eviction) == said


def test_a_gang_that_is_gone_speaks_for_nobody() -> None:
    cache = Cache(scheduler_name="phalanx")
    cache.apply(Applied(pod("a", uid="a")))
    (gang,) = cache.gang_ids()
    eviction = Evict(pod=PodUid("a"), namespace="team", name="a", gang=gang, cycle=1, reason="r", message="m")
    assert CacheEvictionCheck(Cache(scheduler_name="phalanx")).why_not(eviction) is None
