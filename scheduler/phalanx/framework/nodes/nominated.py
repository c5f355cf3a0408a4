"""Capacity that pods of other schedulers, nominated to nodes and not bound yet, withhold from gangs.

A gang treats such a pod of the same or a higher priority as if it used its node already, and one of a lower
priority as if it did not exist, as kube-scheduler treats its own nominated pods (`addGENominatedPods`).
"""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Final

from phalanx.model.names import NodeName
from phalanx.model.nodes import NominatedPods
from phalanx.model.resources import NONE, Resources, add

NO_NOMINATIONS: Final = 0
"""The number of priorities that a gang which respects no nomination respects."""

Usage = Mapping[NodeName, Resources]


class NominatedCapacity:
    """The nominations of a snapshot by their priorities, of which a gang respects the highest ones."""

    def __init__(self, nominated: Mapping[NodeName, tuple[NominatedPods, ...]]) -> None:
        self._nominated = nominated
        self._lowest_last = sorted({-each.priority for pods in nominated.values() for each in pods})
        self.all_priorities = len(self._lowest_last)
        """The number of different priorities."""
        self._withheld: dict[int, Usage] = {}

    def respected_by(self, priority: int) -> int:
        """How many priorities a gang of this priority respects: its own and the higher ones."""
        return bisect_right(self._lowest_last, -priority)

    def withheld(self, respected: int) -> Usage:
        """The amounts per node that the pods of so many priorities will use."""
        if respected not in self._withheld:
            lowest = -self._lowest_last[respected - 1] if respected else None
            self._withheld[respected] = {
                node: amounts
                for node, pods in self._nominated.items()
                if lowest is not None and (amounts := _sum(pods, lowest))
            }
        return self._withheld[respected]


def _sum(pods: tuple[NominatedPods, ...], lowest: int) -> Resources:
    """The amounts of pods of this priority and of higher ones."""
    total = NONE
    for each in pods:
        if each.priority >= lowest:
            total = add(total, each.amounts)
    return total
