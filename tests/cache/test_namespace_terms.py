"""The different terms of the pods of a namespace are bounded, as docs/topology.md says."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.cache import namespace_terms
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Deleted
from phalanx.model.api import core
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.assumed import assumed
from tests.cache.world import gangs_of, new_cache, take_snapshot
from tests.examples import holds
from tests.model.written import node, pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def term(app: str) -> dict[str, Any]:
    return {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": app}}}


def written(
    name: str, apps: str, *, kind: str = "podAntiAffinity", created: int = 0, **rest: Any
) -> core.Pod:
    """A pod with a term for each letter of `apps`."""
    terms = [term(app) for app in apps]
    affinity = {kind: {REQUIRED: terms}} if terms else {}
    meta = {"creationTimestamp": f"2026-01-01T00:00:{created:02}Z"}
    return pod(name, uid=name, affinity=affinity, meta=meta, **rest)


def refused(cache: Cache) -> dict[str, str]:
    """The message of each pod that waits because of the bound."""
    check_cache(cache)
    return {
        gang.members[0].name: gang.problems[0].message for gang in gangs_of(cache).values() if gang.problems
    }


def apps_of(cache: Cache) -> set[str]:
    """The values of the labels that the terms of the snapshot select."""
    snapshot = take_snapshot(cache)
    terms = [*snapshot.pod_affinity_terms, snapshot.preferred_pod_terms]
    found = (each.selector for group in terms for each in group if each.selector is not None)
    return {value for each in found for part in each.requirements for value in part.values}


@pytest.fixture
def _four_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace_terms, "NAMESPACE_TERMS_MAX", 4)


@pytest.mark.usefixtures("_four_terms")
class TestFourTerms:
    def test_pods_beyond_the_bound_wait_and_the_field_and_the_bound_are_named(self) -> None:
        cache = new_cache(written("a", "abc"), written("b", "cd"), written("c", "de", kind="podAffinity"))
        (message,) = refused(cache).values()
        assert message.startswith("pod c: spec.affinity.podAffinity: the pods of namespace team have 4 ")
        assert "at most 4 are supported" in message
        assert apps_of(cache) == set("abcd")

    def test_pods_with_known_terms_and_of_other_namespaces_do_not_wait(self) -> None:
        other = written("x", "wxyz", namespace="other")
        cache = new_cache(written("a", "abcd"), written("b", "efgh"), written("c", "ab"), other)
        assert refused(cache).keys() == {"b"}

    def test_the_oldest_pod_is_next_when_terms_are_gone(self) -> None:
        cache = new_cache(
            written("a", "abcd"), written("c", "ef", created=2), written("b", "efgh", created=1)
        )
        cache.apply(Applied(written("d", "x", created=3)))
        assert refused(cache).keys() == {"b", "c", "d"}
        cache.apply(Deleted("Pod", "team", "a", "a"))
        assert refused(cache).keys() == {"d"}
        cache.apply(Applied(written("b", "efgh", created=1, status={"phase": "Failed"})))
        assert refused(cache) == {}
        assert apps_of(cache) == set("efx")

    def test_a_pod_that_is_assumed_keeps_its_terms(self) -> None:
        cache = new_cache(node("n"), written("a", "abcd"), written("b", "efgh"))
        cache.apply(assumed("a", "n"))
        assert (refused(cache).keys(), apps_of(cache)) == ({"b"}, set("abcd"))

    def test_placed_pods_beyond_twice_the_bound_keep_away_all_pods_of_their_namespace(self) -> None:
        there = {"nodeName": "n", "status": {"phase": "Running"}}
        cache = new_cache(
            node("n"), written("a", "abcd"), written("b", "efgh", **there), written("c", "i", **there)
        )
        check_cache(cache)
        (coarse,) = [
            each for (each,) in take_snapshot(cache).pod_affinity_terms if not each.selector.requirements
        ]  # type: ignore[union-attr]
        assert (coarse.topology_key, coarse.namespaces) == ("rack", ("team",))
        assert apps_of(cache) == set("abcdefgh")

    def test_pods_of_other_schedulers_count_only_with_a_node(self) -> None:
        cache = new_cache(written("a", "abcd", schedulerName="other"), written("b", "efgh"))
        assert refused(cache) == {}


steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "assume", "end", "delete"]),
        st.integers(0, 7),
        st.sets(st.sampled_from("abcdefgh"), max_size=4),
    ),
    max_size=25,
)


@holds(40)
@given(steps=steps, most=st.integers(1, 6))
def test_terms_never_exceed_the_bound_and_no_pod_waits_within_it(
    steps: list[tuple[str, int, set[str]]], most: int
) -> None:
    """The oracle keeps the letters of each pod that exists, and reads which pods wait."""
    letters: dict[str, str] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(namespace_terms, "NAMESPACE_TERMS_MAX", most)
        cache = new_cache(node("n"))
        for step, number, apps in steps:
            name = f"p{number}"
            if step == "add" and name not in letters:
                letters[name] = "".join(sorted(apps))
                cache.apply(Applied(written(name, letters[name], created=number)))
            elif step == "assume" and name in letters and name not in refused(cache):
                cache.apply(assumed(name, "n"))
            elif step == "end" and name in letters:
                cache.apply(
                    Applied(written(name, letters.pop(name), created=number, status={"phase": "Failed"}))
                )
            elif step == "delete" and name in letters:
                cache.apply(Deleted("Pod", "team", name, name))
                del letters[name]
            waiting = refused(cache)
            taking_part = {app for name, own in letters.items() if name not in waiting for app in own}
            assert apps_of(cache) == taking_part
            assert len(taking_part) <= most
            if waiting:
                oldest = min(waiting)
                assert len(taking_part | set(letters[oldest])) > most
