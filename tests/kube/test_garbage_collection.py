"""Garbage collection is enabled again when the last of several overlapping pauses ends."""

import gc

from phalanx.kube.garbage_collection import GarbageCollection


def test_overlapping_pauses() -> None:
    collection = GarbageCollection()
    one, two = collection.paused(), collection.paused()
    with one:
        two.__enter__()
    assert not gc.isenabled()
    two.__exit__(None, None, None)
    assert gc.isenabled()


def test_a_failure_ends_the_pause() -> None:
    try:
        with GarbageCollection().paused():
            raise ValueError
    except ValueError:
        assert gc.isenabled()
