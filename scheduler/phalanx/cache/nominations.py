"""Pods of other schedulers that are nominated to a node and not bound yet.

Their scheduler has evicted others for them, or is about to bind them: `status.nominatedNodeName`. They are
summed up per node and priority, since a gang respects only nominations of its own and of higher priorities.
"""

from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import NamedTuple

from phalanx.cache.events import ChangeLog
from phalanx.limits import AMOUNT_MAX, NOMINATED_PODS_NAMED_MAX
from phalanx.model.names import NodeName, PodUid
from phalanx.model.nodes import NominatedPods
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources, sum_of
from phalanx.model.supplies.known import pod_usage

View = Mapping[NodeName, tuple[NominatedPods, ...]]


class _Nominated(NamedTuple):
    node: NodeName
    priority: int
    amounts: Resources
    name: str


class NominationTable:
    """Nominated pods by node. A node without any has no entry."""

    def __init__(self, *, scheduler_name: str, believed: Iterable[str] | None) -> None:
        """`believed`: the schedulers whose nominations count; None for all but ours."""
        self._scheduler_name = scheduler_name
        self._believed = None if believed is None else frozenset(believed)
        self._pods: dict[NodeName, dict[PodUid, _Nominated]] = {}
        self._known: dict[NodeName, tuple[NominatedPods, ...]] = {}
        self._stale: dict[NodeName, None] = {}
        self._view: View = {}

    def replace(self, old: Pod | None, new: Pod | None, log: ChangeLog) -> None:
        """A pod was added, changed or removed.

        When a nomination ends, capacity may be free, or a gang waits for another reason than before.
        """
        if (old is None or old.nominated is None) and (new is None or new.nominated is None):
            return
        before, after = self._nominated(old), self._nominated(new)
        if before == after:
            return
        if old is not None and before is not None:
            pods = self._pods[before.node]
            del pods[old.uid]
            if not pods:
                del self._pods[before.node]
            self._mark(before.node, log)
            log.mark_capacity_grew()
        if new is not None and after is not None:
            self._pods.setdefault(after.node, {})[new.uid] = after
            self._mark(after.node, log)

    def view(self) -> View:
        """All nominated pods by node, and there by priority, the highest first.

        It is the same mapping until something changes.
        """
        if self._stale:
            for node in self._stale:
                self._refresh(node)
            self._view = {node: self._known[node] for node in sorted(self._known)}
            self._stale = {}
        return self._view

    def on(self, node: NodeName) -> tuple[NominatedPods, ...]:
        return self.view().get(node, ())

    def _mark(self, node: NodeName, log: ChangeLog) -> None:
        self._stale[node] = None
        log.node(node)

    def _nominated(self, pod: Pod | None) -> _Nominated | None:
        """The nomination of the pod if it counts. A gated pod is bound by no scheduler."""
        if pod is None or pod.nominated is None or not pod.is_waiting or pod.gated:
            return None
        if pod.scheduler_name == self._scheduler_name:
            return None
        if self._believed is not None and pod.scheduler_name not in self._believed:
            return None
        name = f"pod {pod} of scheduler {pod.scheduler_name}"
        return _Nominated(pod.nominated, pod.priority, pod_usage(pod), name)

    def _refresh(self, node: NodeName) -> None:
        by_priority: dict[int, list[_Nominated]] = {}
        for pod in self._pods.get(node, {}).values():
            by_priority.setdefault(pod.priority, []).append(pod)
        if by_priority:
            highest_first = sorted(by_priority, reverse=True)
            self._known[node] = tuple(_together(by_priority[priority]) for priority in highest_first)
        else:
            self._known.pop(node, None)


def _together(pods: list[_Nominated]) -> NominatedPods:
    total = sum_of([pod.amounts for pod in pods])
    return NominatedPods(
        priority=pods[0].priority,
        amounts={name: min(total[name], AMOUNT_MAX) for name in sorted(total)},
        count=len(pods),
        names=tuple(nsmallest(NOMINATED_PODS_NAMED_MAX, [pod.name for pod in pods])),
    )
