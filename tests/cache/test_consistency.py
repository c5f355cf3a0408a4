"""After any history of events, the cache equals one that is rebuilt from the same objects."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from phalanx.cache.cache import Cache
from phalanx.cache.events import Deleted, Event, Forgotten
from phalanx.model.names import PodUid
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.cache.world import ApiState, encoded, histories, new_cache, take_snapshot
from tests.examples import holds


@holds(20)
@given(histories(), st.randoms(use_true_random=False), st.sets(st.integers(0, 29)))
def test_the_cache_equals_one_rebuilt_from_scratch(
    history: list[Event], order: Any, snapshots: set[int]
) -> None:
    cache, api = new_cache(), ApiState()
    for number, event in enumerate(history):
        cache.apply(event)
        api.apply(event)
        if number in snapshots:
            take_snapshot(cache)
        check_cache(cache)
    found, expected = take_snapshot(cache), take_snapshot(api.rebuild(order.shuffle))
    assert encoded(found) == encoded(expected)
    assert all(found.gangs[key].started for key, gang in expected.gangs.items() if gang.started)


@holds(20)
@given(histories(), st.randoms(use_true_random=False))
def test_nothing_is_left_after_everything_is_deleted(history: list[Event], order: Any) -> None:
    cache, api = new_cache(), ApiState()
    for event in history:
        cache.apply(event)
        api.apply(event)
    deletions = [Deleted(*key) for key in api.objects]
    order.shuffle(deletions)
    for deletion in deletions:
        cache.apply(deletion)
    check_cache(cache)
    for uid in api.assumed:
        cache.apply(Forgotten(PodUid(uid)))
    take_snapshot(cache)
    empty = new_cache()
    take_snapshot(empty)
    assert entries(cache) == entries(empty)


@holds(20)
@given(histories())
def test_snapshots_never_change(history: list[Event]) -> None:
    cache = new_cache()
    handed_out = []
    for event in history:
        cache.apply(event)
        snapshot = take_snapshot(cache)
        handed_out.append((snapshot, encoded(snapshot)))
    assert all(encoded(snapshot) == before for snapshot, before in handed_out)


@holds(20)
@given(histories())
def test_events_are_idempotent(history: list[Event]) -> None:
    cache = new_cache()
    for event in history:
        cache.apply(event)
        before = take_snapshot(cache)
        again = cache.apply(event)
        assert (again.pods, again.nodes, again.may_unblock) == ((), (), False), event
        assert take_snapshot(cache) == before


def entries(cache: Cache) -> dict[str, int]:
    """The number of entries of each container inside the cache that is not empty.

    A view of a table is None until somebody asks for it, and then may be empty.
    """
    found: dict[str, int] = {}
    _count(cache, "cache", found, set())
    return {path: count for path, count in found.items() if count}


def _count(thing: Any, path: str, found: dict[str, int], seen: set[int]) -> None:
    if id(thing) in seen or callable(thing) or isinstance(thing, (str, int, Struct)):
        return
    seen.add(id(thing))
    if hasattr(thing, "__len__"):
        found[path] = len(thing)
    for name, value in getattr(thing, "__dict__", {}).items():
        _count(value, f"{path}.{name}", found, seen)
