"""Differences between two mappings that share most of their values."""

import sys
from collections.abc import Iterable, Mapping
from itertools import compress, count, islice
from operator import is_not
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def differences(before: Mapping[K, V], after: Mapping[K, V]) -> tuple[dict[K, V], dict[K, V]]:
    """The entries that are gone or replaced, and those that are new. Values are compared by identity.

    Equal values at the begin and at the end of both mappings are skipped fast, as sorted mappings have them
    after few changes.
    """
    most = min(len(before), len(after))
    first = min(_common(before.values(), after.values()), most)
    ends = reversed(list(before.values())), reversed(list(after.values()))
    last = min(_common(*ends), most - first)
    keys = islice(after, first, len(after) - last)
    changed = {key: after[key] for key in keys if before.get(key) is not after[key]}
    gone = {key: before[key] for key in islice(before, first, len(before) - last) if key not in after}
    return {**gone, **{key: before[key] for key in changed if key in before}}, changed


def _common(left: Iterable[V], right: Iterable[V]) -> int:
    """The number of equal values at the begin; many if all are equal."""
    return next(compress(count(), map(is_not, left, right)), sys.maxsize)
