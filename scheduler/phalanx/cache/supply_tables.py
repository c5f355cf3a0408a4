"""What the cache asks of the tables of a supply: kinds of the API, and what follows from them for pods."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from phalanx.cache.events import ChangeLog
from phalanx.cache.table import ObjectStore
from phalanx.model.decisions import Bind
from phalanx.model.names import PodUid
from phalanx.model.nodes import Node
from phalanx.model.overridden_methods import methods_of, overrides
from phalanx.model.pods import Pod
from phalanx.model.supplies.part import SupplyPart, SupplyVersions


class SupplyTables:
    """Subclasses override what they need."""

    name: str
    """That of the supply."""

    tables: Mapping[str, ObjectStore[Any]]
    """By kind."""

    @property
    def needed(self) -> tuple[str, ...]:
        """Kinds that must be watched from now on, beside those that always are."""
        return ()

    versions = SupplyVersions()

    # --- snapshots ----------------------------------------------------------------------------------------

    def view(self) -> SupplyPart:
        """The part of the snapshot. It is the same object until something changes."""
        raise NotImplementedError

    def filter_view(self) -> SupplyPart:
        """As much of it as filters of nodes read beside the node. By default they read nothing."""
        raise NotImplementedError

    def count_changes(self, log: ChangeLog) -> None:
        """Changes of the supply count in the next snapshot."""
        if self.name in log.supplies_freed:
            of_cluster = self.versions.cluster + (self.name in log.supplies_changed)
            self.versions = SupplyVersions(self.versions.capacity + 1, of_cluster)

    # --- events -------------------------------------------------------------------------------------------

    def pod_changed(self, old: Pod | None, new: Pod | None, log: ChangeLog) -> None:
        """A pod was added, changed or removed, of any scheduler. Its gang does not follow yet."""

    def gang_changed(self, old: Pod | None, new: Pod | None, log: ChangeLog) -> None:
        """A pod was added, changed or removed, and all else follows already."""

    def assume(self, bind: Bind, log: ChangeLog) -> None:
        """The pod is assumed to be bound, and gets what was decided for it."""

    def forget(self, pod: PodUid, log: ChangeLog) -> None:
        """The pod is not bound after all."""

    def before_list(self, kind: str) -> None:
        """All objects of the kind come next, whatever versions were known."""

    def set_listed(self, kind: str, log: ChangeLog) -> None:
        """All objects of the kind are known."""

    def nodes_changed(self, is_offered: Callable[[str], bool], log: ChangeLog) -> None:
        """All nodes are known. `is_offered`: whether some node offers a resource."""

    # --- questions ----------------------------------------------------------------------------------------

    def conflict(self, pod: Pod, node: Node) -> str:
        """Why a pod that is assumed on the node must not be bound to it; empty if nothing forbids it."""
        return ""

    def shortage(self, pod: Pod) -> str:
        """Of what the node of the pod has too little since the decision; empty for nothing."""
        return ""

    def not_ready(self, pod: PodUid) -> str:
        """Why the pod must not be bound yet; empty if nothing delays it."""
        return ""

    def provided(self, pod: Pod, node: Node) -> frozenset[str]:
        """Resources that the pod requests and gets from the supply: the node has none of them."""
        return frozenset()


def by_method(supplies: Sequence[SupplyTables]) -> Mapping[str, tuple[SupplyTables, ...]]:
    """For each method the tables that override it: others need not be told or asked."""
    return {
        name: tuple([each for each in supplies if overrides(type(each), name, SupplyTables)])
        for name in methods_of(SupplyTables)
    }
