"""What pods of other schedulers use, by who made them: verdicts name whose end would help."""

from collections.abc import Iterable, Mapping
from typing import Final

from phalanx.cache.usage import Ledger
from phalanx.model.conversion.membership import gang_key
from phalanx.model.gangs import GangKind
from phalanx.model.gpu_shares import pod_usage
from phalanx.model.names import NodeName
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources

OF_NODES: Final = ("DaemonSet", "Node")
"""Controllers whose pods stay as long as their node does."""


class ForeignUsage:
    """A ledger per owner: a controller, or a pod without one. Pods in a group are left to the gangs."""

    def __init__(self, *, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name
        self._ledgers: dict[str, Ledger[NodeName]] = {}
        self._views: dict[str, Mapping[NodeName, Resources]] = {}
        self._view: Mapping[str, Mapping[NodeName, Resources]] | None = {}

    def replace(self, old: Pod | None, new: Pod | None) -> None:
        """A pod came, changed or went."""
        before, after = self._held(old), self._held(new)
        if before == after:
            return
        if before is not None:
            owner, node, amounts = before
            self._ledgers[owner].remove(node, amounts)
            if not self._ledgers[owner]:
                del self._ledgers[owner]
            self._forget_view(owner)
        if after is not None:
            owner, node, amounts = after
            self._ledgers.setdefault(owner, Ledger()).add(node, amounts)
            self._forget_view(owner)

    def view(self) -> Mapping[str, Mapping[NodeName, Resources]]:
        """Per owner and node, sorted; the same mapping until something changes."""
        if self._view is None:
            for owner, ledger in self._ledgers.items():
                if owner not in self._views:
                    self._views[owner] = ledger.view()
            self._view = {owner: self._views[owner] for owner in sorted(self._ledgers)}
        return self._view

    def check(self, pods: Iterable[Pod]) -> None:
        """Assert that it is what these pods, all there are, use."""
        recomputed = ForeignUsage(scheduler_name=self._scheduler_name)
        for pod in pods:
            recomputed.replace(None, pod)
        assert recomputed.view() == self.view(), "foreign work differs from the sum of its pods"

    def _forget_view(self, owner: str) -> None:
        self._views.pop(owner, None)
        self._view = None

    def _held(self, pod: Pod | None) -> tuple[str, NodeName, Resources] | None:
        if (
            pod is None
            or pod.node is None
            or not pod.holds_node
            or pod.scheduler_name == self._scheduler_name
        ):
            return None
        if gang_key(pod).kind is not GangKind.POD:
            return None
        made_by = pod.controller
        if made_by is None:
            return f"pod {pod}", pod.node, pod_usage(pod)
        if made_by.kind in OF_NODES:
            return None
        return f"{made_by.kind} {pod.namespace}/{made_by.name}", pod.node, pod_usage(pod)
