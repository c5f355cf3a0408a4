"""Differences between two mappings that share most of their values."""

from collections.abc import Mapping, Sequence
from itertools import compress, count
from operator import is_not
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def differences(before: Mapping[K, V], after: Mapping[K, V]) -> tuple[dict[K, V], dict[K, V]]:
    """The entries that are gone or replaced, and those that are new. Values are compared by identity.

    Equal values at the begin and at the end of both mappings are skipped fast, as sorted mappings have them
    after few changes.
    """
    old, new = list(before.values()), list(after.values())
    first = _common(old, new)
    last = min(_common(old[::-1], new[::-1]), len(old) - first, len(new) - first)
    keys = list(after)[first : len(after) - last]
    changed = {key: after[key] for key in keys if before.get(key) is not after[key]}
    gone = {key: before[key] for key in list(before)[first : len(before) - last] if key not in after}
    return {**gone, **{key: before[key] for key in changed if key in before}}, changed


def _common(left: Sequence[V], right: Sequence[V]) -> int:
    """The number of equal values at the begin."""
    found = compress(count(), map(is_not, left, right))
    return next(found, min(len(left), len(right)))
