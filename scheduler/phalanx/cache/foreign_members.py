"""Pods of workloads that name another scheduler: a role whose pods these are is not waited for."""

from collections.abc import Iterable, Mapping
from typing import Final

from phalanx.model.conversion.pod_groups import gang_key
from phalanx.model.gangs import GangKind
from phalanx.model.names import PodUid
from phalanx.model.pods import Controller, Pod

OwnerId = tuple[str, str]
"""Namespace and UID of a controller of pods."""

_NONE: Final[Mapping[PodUid, Pod]] = {}


class ForeignMembers:
    """These pods by controller."""

    def __init__(self, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name
        self._pods: dict[OwnerId, dict[PodUid, Pod]] = {}

    def __bool__(self) -> bool:
        return bool(self._pods)

    def of(self, owner: OwnerId) -> Mapping[PodUid, Pod]:
        """The pods of a controller."""
        return self._pods.get(owner, _NONE)

    def replace(self, old: Pod | None, new: Pod | None) -> list[tuple[str, Controller]]:
        """A pod was added, changed or removed: the namespaces and controllers whose gang this concerns."""
        if self._is_ours(old) and self._is_ours(new):
            return []
        before, after = self._controller(old), self._controller(new)
        if before is not None and old is not None:
            found = self._pods[old.namespace, before.uid]
            del found[old.uid]
            if not found:
                del self._pods[old.namespace, before.uid]
        if after is not None and new is not None:
            self._pods.setdefault((new.namespace, after.uid), {})[new.uid] = new
        if old is not None and new is not None and before == after:
            is_same = (old.role, old.all_labels) == (new.role, new.all_labels)
            before, after = (None, None) if is_same else (before, None)
        ends = ((old, before), (new, after))
        return [(pod.namespace, each) for pod, each in ends if pod is not None and each is not None]

    def _is_ours(self, pod: Pod | None) -> bool:
        return pod is None or pod.scheduler_name == self._scheduler_name

    def _controller(self, pod: Pod | None) -> Controller | None:
        if pod is None or pod.controller is None or self._is_ours(pod):
            return None
        return pod.controller if gang_key(pod).kind is GangKind.WORKLOAD else None

    def check(self, pods: Iterable[Pod]) -> None:
        """Assert that these are the pods of other schedulers among all pods."""
        expected = {
            ((pod.namespace, controller.uid), pod.uid)
            for pod in pods
            if (controller := self._controller(pod)) is not None
        }
        assert expected == {(owner, uid) for owner, found in self._pods.items() for uid in found}, "foreign"
