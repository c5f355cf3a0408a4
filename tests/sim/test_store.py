"""Revisions, history and compaction of the store, compared with complete copies of each revision."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx_simulator.embedded.store import Change, ChangeType, Compacted, Key, Store

NAMES = ("a", "b", "c")
WRITES = st.lists(st.tuples(st.sampled_from(("put", "remove")), st.sampled_from(NAMES)), max_size=30)

State = dict[str, Any]


def key(name: str, namespace: str = "default") -> Key:
    return Key("pods", namespace, name)


def item(name: str, value: int = 0) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"value": value}}


def state_of(store: Store, at: int | None = None) -> State:
    return {entry.key.name: entry.data for entry in store.entries("pods", at=at)}


def write_all(store: Store, writes: list[tuple[str, str]]) -> dict[int, State]:
    """Do the writes, and return a complete copy of the state at each revision."""
    states = {store.revision: state_of(store)}
    for number, (verb, name) in enumerate(writes):
        if verb == "put":
            store.put(key(name), item(name, number))
        elif store.get(key(name)) is not None:
            store.remove(key(name))
        states[store.revision] = state_of(store)
    return states


def replayed(state: State, changes: list[Change]) -> State:
    state = dict(state)
    for change in changes:
        name = change.entry.key.name
        assert (name in state) == (change.type is not ChangeType.ADDED)
        if change.type is ChangeType.DELETED:
            del state[name]
        else:
            state[name] = change.entry.data
    return state


@given(WRITES)
def test_every_past_state_can_be_read(writes: list[tuple[str, str]]) -> None:
    store = Store()
    for revision, state in write_all(store, writes).items():
        assert state_of(store, at=revision) == state


@given(WRITES)
def test_changes_since_any_revision_lead_to_the_present_state(writes: list[tuple[str, str]]) -> None:
    store = Store()
    for revision, state in write_all(store, writes).items():
        assert replayed(state, store.changes_since("pods", revision)) == state_of(store)


@given(WRITES, st.integers(1, 5))
def test_a_bounded_history_is_correct_or_compacted(writes: list[tuple[str, str]], limit: int) -> None:
    store = Store(history_limit=limit)
    states = write_all(store, writes)
    for revision, state in states.items():
        if revision < store.oldest_revision("pods"):
            with pytest.raises(Compacted):
                store.changes_since("pods", revision)
        else:
            assert replayed(state, store.changes_since("pods", revision)) == state_of(store)
    assert store.changes_since("pods", store.revision) == []


def test_each_write_takes_the_next_revision() -> None:
    store = Store()
    first = store.put(key("a"), item("a"))
    second = store.put(Key("nodes", "", "n"), item("n"))
    removed = store.remove(key("a"))
    assert [one.revision for one in (first, second, removed)] == [2, 3, 4]
    assert removed.data["metadata"]["resourceVersion"] == "4"


def test_stored_objects_are_never_changed() -> None:
    store = Store()
    given = item("a")
    entry = store.put(key("a"), given)
    store.put(key("a"), item("a", 1))
    assert given == item("a")
    assert entry.data["spec"] == {"value": 0}


def test_entries_are_in_order_of_their_paths() -> None:
    store = Store()
    for namespace, name in (("b", "a"), ("a", "b"), ("a-b", "a"), ("a", "a")):
        store.put(key(name, namespace), item(name))
    paths = [entry.key.path for entry in store.entries("pods")]
    assert paths == ["a-b/a", "a/a", "a/b", "b/a"]
    assert [entry.key.path for entry in store.entries("pods", "a")] == ["a/a", "a/b"]


def test_compacted_revisions_cannot_be_read() -> None:
    store = Store()
    for number in range(3):
        store.put(key("a"), item("a", number))
    store.compact(3)
    assert len(store.changes_since("pods", 3)) == 1
    with pytest.raises(Compacted) as refused:
        store.changes_since("pods", 2)
    assert refused.value.oldest == 3


def test_subscribers_receive_changes_of_their_resource_until_they_unsubscribe() -> None:
    store = Store()
    pods: list[str] = []
    everything: list[str] = []
    leave = store.subscribe("pods", lambda change: pods.append(change.entry.key.name))
    store.subscribe(None, lambda change: everything.append(change.entry.key.name))
    store.put(key("a"), item("a"))
    store.put(Key("nodes", "", "n"), item("n"))
    leave()
    leave()
    store.remove(key("a"))
    assert pods == ["a"]
    assert everything == ["a", "n", "a"]
