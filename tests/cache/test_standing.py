"""Which pods stand where, as terms see them: kept by increments, and only where there are terms."""

from typing import Any

import pytest
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Assumed, Changes, Deleted
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.memory import Memory
from phalanx.model.names import NodeName, PodUid
from phalanx.model.snapshot import Snapshot

from tests.model.written import named, node, pod

TERM = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "x"}}}


def asks(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def cache_with(*objects: Any) -> Cache:
    cache = Cache(scheduler_name="phalanx")
    cache.apply_all(map(Applied, (node("n"), node("m"), *objects)))
    return cache


def seen(cache: Cache) -> Snapshot:
    cache.check_invariants()
    return cache.snapshot(now=0, seed=0, memory=Memory())


def placed_pods(cache: Cache) -> list[tuple[dict[str, str], dict[str, int]]]:
    return [
        (dict(each.labels), {str(k): v for k, v in each.nodes.items()}) for each in seen(cache).placed_pods
    ]


def apply(cache: Cache, written: Any) -> Changes:
    return cache.apply(Applied(written))


def test_nothing_is_kept_while_nobody_asks() -> None:
    cache = cache_with(pod("a", uid="a", nodeName="n", labels={"app": "x"}))
    assert (seen(cache).pod_affinity_terms, seen(cache).placed_pods) == ((), ())


def test_pods_that_no_term_tells_apart_are_counted_together() -> None:
    old = [pod(name, uid=name, nodeName="n", labels={"app": "x", "index": name}) for name in "ab"]
    cache = cache_with(*old, pod("c", uid="c", nodeName="m", schedulerName="other"))
    apply(cache, pod("w", uid="w", **asks("podAntiAffinity", TERM)))
    assert placed_pods(cache) == [({}, {"m": 1}), ({"app": "x"}, {"n": 2})]
    apply(
        cache,
        pod("v", uid="v", **asks("podAffinity", {**TERM, "labelSelector": {"matchLabels": {"index": "a"}}})),
    )
    assert ({"app": "x", "index": "a"}, {"n": 1}) in placed_pods(cache)
    cache.apply(Deleted("Pod", "team", "w"))
    cache.apply(Deleted("Pod", "team", "v"))
    assert (seen(cache).pod_affinity_terms, seen(cache).placed_pods) == ((), ())


def test_assumed_and_terminating_pods_stand_where_they_are_and_ended_ones_do_not() -> None:
    cache = cache_with(pod("w", uid="w", labels={"app": "x"}, **asks("podAntiAffinity", TERM)))
    assert placed_pods(cache) == []
    cache.apply(Assumed(PodUid("w"), NodeName("n")))
    assert placed_pods(cache) == [({"app": "x"}, {"n": 1})]
    assert seen(cache).placed_pods[0].anti_affinity != ()
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    apply(cache, pod("t", uid="t", nodeName="m", labels={"app": "x"}, meta=leaving))
    assert [nodes for _, nodes in placed_pods(cache)] == [{"m": 1}, {"n": 1}]
    apply(cache, pod("t", uid="t", nodeName="m", labels={"app": "x"}, status={"phase": "Succeeded"}))
    assert placed_pods(cache) == [({"app": "x"}, {"n": 1})]


def test_terms_count_while_their_pods_wait_or_have_a_node() -> None:
    near = pod("w", uid="w", **asks("podAffinity", TERM))
    cache = cache_with(near, pod("f", uid="f", schedulerName="other", **asks("podAntiAffinity", TERM)))
    assert len(seen(cache).pod_affinity_terms) == 1, "what waits for another scheduler keeps nobody away"
    apply(cache, pod("f", uid="f", schedulerName="other", nodeName="n", **asks("podAntiAffinity", TERM)))
    cache.apply(Deleted("Pod", "team", "w"))
    assert [len(each.anti_affinity) for each in seen(cache).placed_pods] == [1]


def test_what_a_waiting_pod_may_ask_for_lets_refused_gangs_be_tried_again() -> None:
    cache = cache_with(pod("w", uid="w", **asks("podAffinity", TERM)))
    assert not apply(cache, pod("a", uid="a", nodeName="n", labels={"app": "y"})).capacity_grew
    assert apply(cache, pod("b", uid="b", nodeName="n", labels={"app": "x"})).capacity_grew
    assert apply(cache, pod("b", uid="b", nodeName="n", labels={"app": "z"})).capacity_grew


ANY = {"topologyKey": "rack", "labelSelector": {}}
SHOPS = {**ANY, "namespaceSelector": {"matchLabels": {"kind": "shop"}}}
EVERYWHERE = {**ANY, "namespaceSelector": {}}
INDEX = "apps.kubernetes.io/pod-index"
FIRST = {"topologyKey": "rack", "labelSelector": {"matchLabels": {INDEX: "0"}}}
NOBODY = {"topologyKey": "rack"}
OLD = {"topologyKey": "rack", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}


@pytest.mark.parametrize(
    ("term", "there", "found"),
    [
        (TERM, {"labels": {"app": "x"}}, "rack"),
        (TERM, {"labels": {"app": "y"}}, ""),
        (TERM, {"labels": {"app": "x"}, "namespace": "other"}, ""),
        ({**TERM, "namespaces": ["other"]}, {"labels": {"app": "x"}, "namespace": "other"}, "rack"),
        ({**TERM, "topologyKey": "zone"}, {"labels": {"app": "x"}}, ""),
        (ANY, {}, "rack"),
        (ANY, {"namespace": "other"}, ""),
        (SHOPS, {"namespace": "other"}, "rack"),
        (SHOPS, {}, ""),
        (EVERYWHERE, {"namespace": "elsewhere"}, "rack"),
        (NOBODY, {}, ""),
        (OLD, {"labels": {"app": "z"}}, "rack"),
        (FIRST, {"labels": {INDEX: "0"}}, "rack"),
        (FIRST, {"labels": {INDEX: "1"}}, ""),
        (OLD, {"labels": {"application": "z"}}, ""),
    ],
)
def test_pods_that_must_be_apart_are_told_in_both_directions(
    term: dict[str, Any], there: dict[str, Any], found: str
) -> None:
    rack = {"rack": "r"}
    other = pod("t", uid="t", nodeName="m", **there)
    mine = pod("a", uid="a", **asks("podAntiAffinity", term))
    cache = cache_with(node("n", labels=rack), node("m", labels=rack), other, mine)
    cache.apply(Applied(named("Namespace", "other", labels={"kind": "shop"})))
    session = Session(seen(cache), SchedulerConfig())
    (gang,) = [each for each in session.gangs.values() if each.name == "a"]
    assert len(session.eligibility(gang.members[0]).rejected) == (2 if found else 0)
    cache.apply(Assumed(PodUid("a"), NodeName("n")))
    assert [cache.anti_affinity_conflict(one) for uid in "at" if (one := cache.pod(PodUid(uid)))] == [
        found,
        found,
    ]
