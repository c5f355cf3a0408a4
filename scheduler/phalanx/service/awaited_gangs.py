"""Gangs of suspended workloads that wait without pods, and the capacity that they get.

While a workload is suspended the cache has awaited pods in the place of its evicted ones, which wait in line
like others. A cycle that places them decides that the workload is resumed. They then hold their nodes until
the controller has made the first pod. From that on the gang is one that lost its members: capacity is held
for them as for other lost members, and a cycle places the pods when all have come.
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.cache.events import Awaited, Event
from phalanx.clock import Clock
from phalanx.kube.api_fields import format_time
from phalanx.kube.workload_suspender import Suspension
from phalanx.limits import PLACEHOLDERS_MAX
from phalanx.model.api import core
from phalanx.model.api.meta import OwnerReference
from phalanx.model.awaited_pods import awaited_pods, is_awaited, workload_of_awaited
from phalanx.model.conversion.workload_members import Workload, WorkloadRole
from phalanx.model.decisions import Placement, bind_annotations
from phalanx.model.gangs import Gang, GangKind, kind_of
from phalanx.model.names import GangId
from phalanx.model.pods import Pod
from phalanx.model.workloads.known import WorkloadKinds
from phalanx.service.cluster_state import ClusterState

_KINDS_MAX: Final = 16
"""Kinds of pods of one gang that are read and stored. Gangs have two or three."""

_COMING_S: Final = 60.0
"""Seconds for which a resumed workload keeps its nodes until its first pod comes. KubeRay takes ten."""


class _Held(Struct):
    """The awaited pods of one workload."""

    suspension: Suspension
    pods: tuple[core.Pod, ...]
    is_placed: bool = False


class AwaitedGangs:
    """Puts awaited pods into the cache, and takes them out of it. Keeps them by the UID of the workload."""

    def __init__(self, state: ClusterState, clock: Clock) -> None:
        self._state = state
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._by_gang: dict[GangId, str] = {}

    def waits(self, suspension: Suspension, *, until_ms: int | None) -> bool:
        """Whether its gang waits without pods, from the first call on; not after a time."""
        held = self._held.get(suspension.uid)
        is_over = until_ms is not None and self._clock.now_ms() >= until_ms
        if held is None and suspension.members and not is_over and not self._has_pods(suspension):
            self._add(suspension)
        elif held is not None and not held.is_placed and (is_over or not self._is_whole(held)):
            self.drop(suspension.uid)
        return suspension.uid in self._held

    def place(self, placement: Placement) -> Suspension | None:
        """Let awaited pods hold their nodes; the suspension is to be ended. None for other pods."""
        held = self._held.get(workload_of_awaited(placement.binds[0].pod))
        if held is None:
            return None
        binds = {str(bind.pod): bind for bind in placement.binds}
        placed = [(pod, binds[pod.metadata.uid]) for pod in held.pods if pod.metadata.uid in binds]
        on_nodes = [
            replace(
                pod,
                spec=replace(pod.spec, node_name=bind.node),
                metadata=replace(
                    pod.metadata,
                    annotations={**pod.metadata.annotations, **bind_annotations(placement, bind)},
                ),
            )
            for pod, bind in placed
        ]
        held.is_placed = True
        self._state.apply(Awaited(pods=tuple(on_nodes)))
        asyncio.get_running_loop().call_later(_COMING_S, self._give_up, held)
        return held.suspension

    def is_held(self, workload: str) -> bool:
        """Whether awaited pods of this workload hold nodes."""
        held = self._held.get(workload)
        return held is not None and held.is_placed

    def drop(self, workload: str) -> None:
        """Await its pods no longer."""
        held = self._held.pop(workload, None)
        if held is not None:
            self._by_gang.pop(held.suspension.gang, None)
            self._state.apply(Awaited(gone=tuple(map(_key, held.pods))))

    def pods_changed(self, _event: Event, gangs: Collection[GangId]) -> None:
        """Pods of these gangs came, changed or went. The first pod of a gang ends the wait for the others."""
        for gang in gangs if self._held else ():
            uid = self._by_gang.get(gang)
            if uid is not None and self._has_pods(self._held[uid].suspension):
                self.drop(uid)

    def _add(self, suspension: Suspension) -> None:
        pods = awaited_pods(
            suspension.members,
            workload=suspension.uid,
            name=suspension.name,
            created=format_time(self._clock.now_ms()),
        )
        self._held[suspension.uid] = _Held(suspension, pods)
        self._by_gang[suspension.gang] = suspension.uid
        self._state.apply(Awaited(pods=pods))

    def _give_up(self, held: _Held) -> None:
        if self._held.get(held.suspension.uid) is held:
            self.drop(held.suspension.uid)

    def _has_pods(self, suspension: Suspension) -> bool:
        gang = self._state.cache.gang(suspension.gang)
        return gang is not None and any(_is_there(pod) for pod in gang.members)

    def _is_whole(self, held: _Held) -> bool:
        """Whether the awaited pods are the gang that was evicted, and no others."""
        gang = self._state.cache.gang(held.suspension.gang)
        return gang is not None and held.pods[0].metadata.uid in gang.by_uid


def kinds_of_members(gang: Gang, workload: Workload | None) -> Sequence[Sequence[Pod]]:
    """The pods of a gang that wait while its workload is suspended, by kind; empty if they cannot.

    Pods come all at once: there is nothing to wait for where an autoscaler decides on their number, and where
    some are made when others run. Claims that are made for a pod are not there before it.
    """
    pods = [pod for pod in gang.members if _is_there(pod)]
    kinds: dict[object, list[Pod]] = {}
    for pod in pods:
        kinds.setdefault(kind_of(pod), []).append(pod)
    comes_later = workload is not None and any(_comes_later(role, workload) for role in workload.roles)
    is_possible = len(kinds) <= _KINDS_MAX and len(pods) <= PLACEHOLDERS_MAX and not comes_later
    return list(kinds.values()) if is_possible and not any(pod.device_claims for pod in pods) else []


def _comes_later(role: WorkloadRole, workload: Workload) -> bool:
    is_elastic = role.least is not None and workload.partial is None
    return is_elastic or role.one_first or not role.exists


def owner_of_members(gang: Gang, kinds: WorkloadKinds) -> OwnerReference | None:
    """The workload that is the gang. What is between it and the pods may be made again."""
    kind = kinds.by_name.get(gang.workload)
    if gang.kind is not GangKind.WORKLOAD or kind is None:
        return None
    return OwnerReference(
        kind=kind.kind, name=gang.name, uid=gang.uid, controller=True, api_version=kind.api_version
    )


def _is_there(pod: Pod) -> bool:
    return not (is_awaited(pod.uid) or pod.deleting or pod.is_finished)


def _key(pod: core.Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.name
