"""Bounds of writing that no other room knows; the others are in `scheduler/phalanx/limits.py`."""

from typing import Final

EVICT_CONCURRENCY: Final = 8
"""Evictions in flight at once: they are few, and binds go first."""

EVICT_CONCURRENCY_OF_NAMESPACE: Final = 4
"""Evictions of one namespace in flight at once: where its webhooks hang, others still have workers."""

EVICT_ATTEMPTS_MAX: Final = 8
"""Times that one eviction is tried: about half a minute, then the next cycle decides anew."""

EVICT_BACKOFF_FIRST_S: Final = 0.2
"""Seconds before an eviction is tried for the second time."""

EVICT_BACKOFF_LONGEST_S: Final = 10.0
"""Seconds between two attempts for one pod at most."""
