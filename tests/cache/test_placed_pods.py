"""The incremental index of placed pods for pod affinity; it is kept only while affinity terms exist."""

from typing import Any

import pytest
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, ChangeLog, Changes, Deleted
from phalanx.cache.placed_pods import PlacedPodIndex
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.conversion.pods import read_pod
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.memory import Memory
from phalanx.model.names import PodUid
from phalanx.model.pods import Pod
from phalanx.model.snapshot import Snapshot
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.assumed import assumed
from tests.model.written import named, node, pod

TERM = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "x"}}}


def affinity(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def cache_with(*objects: Any, gangs_move: bool = False) -> Cache:
    cache = Cache(scheduler_name="phalanx", gangs_move=gangs_move)
    cache.apply_all(map(Applied, (node("n"), node("m"), *objects)))
    return cache


def seen(cache: Cache) -> Snapshot:
    check_cache(cache)
    return cache.snapshot(now=0, seed=0, memory=Memory())


def foreign_pods(cache: Cache) -> dict[str, list[tuple[dict[str, str], dict[str, int]]]]:
    return {
        owner: [(dict(each.labels), {str(k): v for k, v in each.nodes.items()}) for each in placed]
        for owner, placed in seen(cache).foreign_pods.items()
    }


def placed_pods(cache: Cache) -> list[tuple[dict[str, str], dict[str, int]]]:
    return [
        (dict(each.labels), {str(k): v for k, v in each.nodes.items()}) for each in seen(cache).placed_pods
    ]


def apply(cache: Cache, written: Any) -> Changes:
    return cache.apply(Applied(written))


def test_placed_pods_are_not_indexed_without_affinity_terms() -> None:
    cache = cache_with(pod("a", uid="a", nodeName="n", labels={"app": "x"}))
    assert (seen(cache).pod_affinity_terms, seen(cache).placed_pods) == ((), ())


def test_pods_of_other_schedulers_are_known_by_their_owner_as_well() -> None:
    theirs = {"nodeName": "n", "schedulerName": "other", "labels": {"app": "x"}}
    mine = pod("a", uid="a", nodeName="n", labels={"app": "x"})
    cache = cache_with(mine, *(pod(name, uid=name, owner="j", **theirs) for name in "bc"))
    assert foreign_pods(cache) == {}
    apply(cache, pod("w", uid="w", **affinity("podAntiAffinity", TERM)))
    assert foreign_pods(cache) == {"Job team/job-j": [({"app": "x"}, {"n": 2})]}
    apply(cache, pod("d", uid="d", **theirs))
    cache.apply(Deleted("Pod", "team", "b"))
    assert foreign_pods(cache) == {
        "Job team/job-j": [({"app": "x"}, {"n": 1})],
        "pod team/d": [({"app": "x"}, {"n": 1})],
    }
    cache.apply(Deleted("Pod", "team", "c"))
    assert list(foreign_pods(cache)) == ["pod team/d"]


def test_pods_that_no_term_distinguishes_are_counted_together() -> None:
    old = [pod(name, uid=name, nodeName="n", labels={"app": "x", "index": name}) for name in "ab"]
    cache = cache_with(*old, pod("c", uid="c", nodeName="m", schedulerName="other"))
    apply(cache, pod("w", uid="w", **affinity("podAntiAffinity", TERM)))
    assert placed_pods(cache) == [({}, {"m": 1}), ({"app": "x"}, {"n": 2})]
    apply(
        cache,
        pod(
            "v",
            uid="v",
            **affinity("podAffinity", {**TERM, "labelSelector": {"matchLabels": {"index": "a"}}}),
        ),
    )
    assert ({"app": "x", "index": "a"}, {"n": 1}) in placed_pods(cache)
    cache.apply(Deleted("Pod", "team", "w"))
    cache.apply(Deleted("Pod", "team", "v"))
    assert (seen(cache).pod_affinity_terms, seen(cache).placed_pods) == ((), ())


def test_assumed_and_terminating_pods_are_placed_and_ended_pods_are_not() -> None:
    cache = cache_with(pod("w", uid="w", labels={"app": "x"}, **affinity("podAntiAffinity", TERM)))
    assert placed_pods(cache) == []
    cache.apply(assumed("w", "n"))
    assert placed_pods(cache) == [({"app": "x"}, {"n": 1})]
    assert seen(cache).placed_pods[0].anti_affinity != ()
    apply(cache, pod("t", uid="t", nodeName="m", labels={"app": "x"}, meta=LEAVING))
    assert [nodes for _, nodes in placed_pods(cache)] == [{"m": 1}, {"n": 1}]
    apply(cache, pod("t", uid="t", nodeName="m", labels={"app": "x"}, status={"phase": "Succeeded"}))
    assert placed_pods(cache) == [({"app": "x"}, {"n": 1})]


def test_affinity_terms_count_while_their_pods_wait_or_are_placed() -> None:
    near = pod("w", uid="w", **affinity("podAffinity", TERM))
    cache = cache_with(near, pod("f", uid="f", schedulerName="other", **affinity("podAntiAffinity", TERM)))
    assert len(seen(cache).pod_affinity_terms) == 1, "waiting pods of other schedulers do not count"
    apply(cache, pod("f", uid="f", schedulerName="other", nodeName="n", **affinity("podAntiAffinity", TERM)))
    cache.apply(Deleted("Pod", "team", "w"))
    assert [len(each.anti_affinity) for each in seen(cache).placed_pods] == [1]


def test_a_placed_pod_that_matches_a_waiting_affinity_term_counts_as_new_capacity() -> None:
    cache = cache_with(pod("w", uid="w", **affinity("podAffinity", TERM)))
    assert not apply(cache, pod("a", uid="a", nodeName="n", labels={"app": "y"})).capacity_grew
    assert apply(cache, pod("b", uid="b", nodeName="n", labels={"app": "x"})).capacity_grew
    assert apply(cache, pod("b", uid="b", nodeName="n", labels={"app": "z"})).capacity_grew


def preferred(kind: str, weight: int, term: dict[str, Any]) -> dict[str, Any]:
    one = {"weight": weight, "podAffinityTerm": term}
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [one]}}}


def test_preferred_terms_count_while_their_pods_wait_or_are_placed() -> None:
    old = pod("a", uid="a", nodeName="n", labels={"app": "x", "index": "a"})
    cache = cache_with(old, pod("w", uid="w", **preferred("podAffinity", 7, TERM)))
    assert (seen(cache).pod_affinity_terms, len(seen(cache).preferred_pod_terms)) == ((), 1)
    assert placed_pods(cache) == [({"app": "x"}, {"n": 1})]
    cache.apply(assumed("w", "m"))
    weights = [[each.weight for each in pods.preferred] for pods in seen(cache).placed_pods]
    assert weights == [[7], []]
    cache.apply(Deleted("Pod", "team", "w"))
    assert (seen(cache).preferred_pod_terms, seen(cache).placed_pods) == ((), ())


def test_preferred_terms_of_pods_of_other_schedulers_count_when_they_are_placed() -> None:
    wanted = {"schedulerName": "other", **preferred("podAntiAffinity", 7, TERM)}
    cache = cache_with(pod("f", uid="f", **wanted))
    assert seen(cache).preferred_pod_terms == ()
    apply(cache, pod("f", uid="f", nodeName="n", **wanted))
    assert [[each.weight for each in pods.preferred] for pods in seen(cache).placed_pods] == [[-7]]


def test_required_affinity_of_placed_pods_is_counted_with_weight_0() -> None:
    cache = cache_with(pod("a", uid="a", nodeName="n", **affinity("podAffinity", TERM)))
    assert seen(cache).pod_affinity_terms == ()
    assert [[each.weight for each in pods.preferred] for pods in seen(cache).placed_pods] == [[0]]


def test_preferred_spread_constraints_count_while_their_pods_wait() -> None:
    spread = {**TERM, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    old = pod("a", uid="a", nodeName="n", labels={"app": "x", "index": "a"})
    cache = cache_with(old, pod("w", uid="w", topologySpreadConstraints=[spread]))
    assert len(seen(cache).pod_affinity_terms) == 1
    assert placed_pods(cache) == [({"app": "x"}, {"n": 1})]
    cache.apply(assumed("w", "m"))
    assert (seen(cache).pod_affinity_terms, seen(cache).placed_pods) == ((), ())


SPREAD = {**TERM, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}


def running(name: str, **fields: Any) -> Any:
    """A pod on n that a controller recreates."""
    return pod(name, uid=name, owner="c", nodeName="n", topologySpreadConstraints=[SPREAD], **fields)


def test_rules_of_running_pods_are_kept_only_if_gangs_may_be_moved() -> None:
    near = affinity("podAffinity", {**TERM, "topologyKey": "site"})
    assert not seen(cache_with(running("r", **near))).pod_affinity_terms
    cache = cache_with(gangs_move=True)
    alone = pod("alone", uid="alone", nodeName="n", topologySpreadConstraints=[SPREAD])
    for other in (alone, running("foreign", schedulerName="other"), running("left", meta=LEAVING)):
        apply(cache, other)
        assert not seen(cache).pod_affinity_terms
    apply(cache, running("r", labels={"app": "x"}, **near))
    terms = seen(cache).pod_affinity_terms
    assert sorted((term.topology_key, term.for_spread) for (term,) in terms) == [
        ("rack", True),
        ("site", False),
    ]
    assert ({"app": "x"}, {"n": 1}) in placed_pods(cache)
    apply(cache, running("r", labels={"app": "x"}, meta=LEAVING, **near))
    assert not seen(cache).pod_affinity_terms


def test_pods_are_not_counted_again_when_a_pod_with_rules_gets_its_node() -> None:
    counts = []
    pods: list[Pod] = []

    def listed() -> list[Pod]:
        counts.append(len(pods))
        return pods

    index = PlacedPodIndex(scheduler_name="phalanx", pods=listed, gangs_move=True)
    shapes = ShapeCache()
    waits, runs = (
        read_pod(each, shapes=shapes, classes={})
        for each in (
            pod("r", uid="r", owner="c", topologySpreadConstraints=[SPREAD]),
            running("r"),
        )
    )
    index.replace(None, waits, ChangeLog())
    index.view()
    index.replace(waits, runs, ChangeLog())
    assert len(index.view().placed_pods) == 1
    assert counts == [0]


def test_a_pod_that_terminates_is_no_new_capacity_if_only_running_pods_have_rules() -> None:
    cache = cache_with(running("r", labels={"app": "x"}), gangs_move=True)
    apply(cache, pod("t", uid="t", nodeName="n", labels={"app": "x"}))
    seen(cache)
    ends = pod("t", uid="t", nodeName="n", labels={"app": "x"}, meta=LEAVING)
    assert not apply(cache, ends).capacity_grew
    assert [each.is_terminating for each in seen(cache).placed_pods] == [False, True]


EVERY_POD = {"topologyKey": "rack", "labelSelector": {}}
SHOP_NAMESPACES = {**EVERY_POD, "namespaceSelector": {"matchLabels": {"kind": "shop"}}}
ALL_NAMESPACES = {**EVERY_POD, "namespaceSelector": {}}
INDEX = "apps.kubernetes.io/pod-index"
FIRST_INDEX = {"topologyKey": "rack", "labelSelector": {"matchLabels": {INDEX: "0"}}}
NO_PODS = {"topologyKey": "rack"}
EXISTS = {
    "topologyKey": "rack",
    "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
}


@pytest.mark.parametrize(
    ("term", "placed", "found"),
    [
        (TERM, {"labels": {"app": "x"}}, "rack"),
        (TERM, {"labels": {"app": "y"}}, ""),
        (TERM, {"labels": {"app": "x"}, "namespace": "other"}, ""),
        ({**TERM, "namespaces": ["other"]}, {"labels": {"app": "x"}, "namespace": "other"}, "rack"),
        ({**TERM, "topologyKey": "zone"}, {"labels": {"app": "x"}}, ""),
        (EVERY_POD, {}, "rack"),
        (EVERY_POD, {"namespace": "other"}, ""),
        (SHOP_NAMESPACES, {"namespace": "other"}, "rack"),
        (SHOP_NAMESPACES, {}, ""),
        (ALL_NAMESPACES, {"namespace": "elsewhere"}, "rack"),
        (NO_PODS, {}, ""),
        (EXISTS, {"labels": {"app": "z"}}, "rack"),
        (FIRST_INDEX, {"labels": {INDEX: "0"}}, "rack"),
        (FIRST_INDEX, {"labels": {INDEX: "1"}}, ""),
        (EXISTS, {"labels": {"application": "z"}}, ""),
    ],
)
def test_anti_affinity_applies_in_both_directions(
    term: dict[str, Any], placed: dict[str, Any], found: str
) -> None:
    rack = {"rack": "r"}
    other = pod("t", uid="t", nodeName="m", **placed)
    mine = pod("a", uid="a", **affinity("podAntiAffinity", term))
    cache = cache_with(node("n", labels=rack), node("m", labels=rack), other, mine)
    cache.apply(Applied(named("Namespace", "other", labels={"kind": "shop"})))
    session = Session(seen(cache), SchedulerConfig())
    (gang,) = [each for each in session.gangs.values() if each.name == "a"]
    assert len(session.eligibility(gang.members[0]).rejected) == (2 if found else 0)
    cache.apply(assumed("a", "n"))
    assert [cache.anti_affinity_conflict(one) for uid in "at" if (one := cache.pod(PodUid(uid)))] == [
        found,
        found,
    ]


NOTHING_MORE = (False, False)
CAPACITY = (True, False)
CLUSTER = (True, True)


@pytest.mark.parametrize(
    ("rules", "tainted", "gone"),
    [
        ({}, NOTHING_MORE, NOTHING_MORE),
        (affinity("podAffinity", TERM), NOTHING_MORE, NOTHING_MORE),
        (affinity("podAntiAffinity", TERM), NOTHING_MORE, CAPACITY),
        ({"topologySpreadConstraints": [SPREAD]}, CLUSTER, CLUSTER),
    ],
)
def test_a_node_that_does_not_count_any_more_may_let_pods_with_rules_fit(
    rules: dict[str, Any], tainted: tuple[bool, bool], gone: tuple[bool, bool]
) -> None:
    cache = cache_with(pod("w", uid="w", **rules))
    changes = apply(cache, node("m", spec={"taints": [{"key": "k", "effect": "NoSchedule"}]}))
    assert (changes.capacity_grew, changes.cluster_changed) == tainted
    changes = cache.apply(Deleted("Node", "", "m"))
    assert (changes.capacity_grew, changes.cluster_changed) == gone
