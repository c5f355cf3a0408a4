"""What objects say about themselves: the PodScheduled condition of pods, the status of PodGroups and Queues.

A status is written only when it differs from the one seen, and not again until the cluster had time to show
it. A pod's patch carries its UID, that of a custom resource the resourceVersion it is based on (a real API
server ignores the UID there): an object recreated under the same name is never touched, and what somebody
else wrote meanwhile is not lost. A write that fails is forgotten; ask again when the object is seen next.
`placementEpoch` belongs to the binder and is left alone here.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from phalanx.clock import Clock
from phalanx.kube.background_writer import BackgroundWriter
from phalanx.kube.client import Client, Patch
from phalanx.kube.conditions import merged
from phalanx.kube.decode import PartialObject
from phalanx.kube.fence import Fence, write_timeout
from phalanx.kube.text import shortened
from phalanx.kube.timestamps import format_time
from phalanx.limits import CONDITION_MESSAGE_MAX_BYTES, STATUS_ECHO_S, STATUS_SENT_KEPT
from phalanx.model.api.kinds import KINDS
from phalanx.model.api.meta import ObjectMeta
from phalanx.model.api.pod_groups import PodGroup, PodGroupStatus
from phalanx.model.api.queues import Queue, QueueStatus
from phalanx.model.names import PodUid
from phalanx.model.pods import Pod, Scheduled

_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_decode_named: Final = msgspec.json.Decoder(PartialObject).decode

UNSCHEDULABLE: Final = "Unschedulable"
"""The reason that cluster autoscalers look for."""


class _Asked(Struct, frozen=True):
    """What was asked for last, and when (monotonic)."""

    wanted: bytes
    at: float


Maps = Mapping[str, Mapping[str, Any]]
"""Maps of a status by name: a merge patch removes of them only what it names."""

_NO_MAPS: Final[Maps] = {}


class _Base(Struct, frozen=True):
    """After a write of ours to an object seen at version `seen` it is at `written`, with these maps."""

    seen: str
    written: str
    maps: Maps


class StatusWriter:
    """Every method returns at once; `writer` sends."""

    def __init__(
        self,
        *,
        client: Client,
        writer: BackgroundWriter,
        fence: Fence,
        clock: Clock,
        on_lost: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_lost` is told the UID of an object whose status could not be written: ask for it anew."""
        self._client = client
        self._writer = writer
        self._fence = fence
        self._clock = clock
        self._on_lost = on_lost
        self._asked: dict[str, _Asked] = {}
        self._based_on: dict[str, _Base] = {}

    def pod_unschedulable(self, pod: Pod, *, message: str, reason: str = UNSCHEDULABLE) -> None:
        """PodScheduled=False, unless the pod says so already."""
        wanted = Scheduled("False", reason, shortened(message, CONDITION_MESSAGE_MAX_BYTES))
        if pod.scheduled == wanted:
            self._nothing_to_do(pod.uid)
            return
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": wanted.message}
        known = _encode(condition)
        if pod.scheduled is None or pod.scheduled.status != "False":
            condition["lastTransitionTime"] = format_time(self._clock.now_ms())
        if not self._is_news(pod.uid, known):
            return
        path = KINDS["Pod"].path(namespace=pod.namespace, name=pod.name, subresource="status")
        body = _encode({"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}})

        async def write() -> None:
            await self._client.patch(path, body, how=Patch.STRATEGIC, timeout=write_timeout(self._fence))

        self._writer.put(pod.uid, write, on_lost=lambda: self._forget(pod.uid))

    def try_acquire(self, pod: PodUid) -> bool:
        """Forget what waits to be written about this pod: it is being bound. False while one is under way."""
        return self._nothing_to_do(pod)

    def pod_group(self, group: PodGroup, status: PodGroupStatus) -> None:
        """Replace the status, but for `placement_epoch`. `group` is the object as last seen."""
        wanted = msgspec.structs.replace(
            status,
            conditions=merged(group.status.conditions, status.conditions),
            placement_epoch=group.status.placement_epoch,
        )
        if wanted == group.status and self._stays_as_seen(group.metadata):
            return
        body = msgspec.to_builtins(wanted)
        del body["placementEpoch"]
        self._put("PodGroup", group.metadata, body)

    def queue(self, queue: Queue, status: QueueStatus) -> None:
        """Replace the status. `queue` is the object as last seen."""
        wanted = msgspec.structs.replace(
            status, conditions=merged(queue.status.conditions, status.conditions)
        )
        if wanted == queue.status and self._stays_as_seen(queue.metadata):
            return
        seen = queue.status
        maps = {
            "allocated": seen.allocated,
            "guarantee": seen.guarantee,
            "fairShare": seen.fair_share,
            "borrowed": seen.borrowed,
            "averageUse": seen.average_use,
        }
        self._put("Queue", queue.metadata, msgspec.to_builtins(wanted), maps)

    def _stays_as_seen(self, seen: ObjectMeta) -> bool:
        """Drop what waits; False where a write of ours has changed the object since, or is doing so."""
        base = self._based_on.get(seen.uid)
        is_ahead = base is not None and base.seen == seen.resource_version
        return self._nothing_to_do(seen.uid) and not is_ahead

    def _put(self, kind: str, seen: ObjectMeta, status: dict[str, Any], maps: Maps = _NO_MAPS) -> None:
        """Replace the status of a custom resource; what the write is based on is decided when it is sent.

        `maps` are those of the status seen.
        """
        uid = seen.uid
        if not self._is_news(uid, _encode(status)):
            return
        path = KINDS[kind].path(namespace=seen.namespace, name=seen.name, subresource="status")

        async def write() -> None:
            base = self._based_on.get(uid)
            after_ours = base is not None and base.seen == seen.resource_version
            version = base.written if base is not None and after_ours else seen.resource_version
            there = base.maps if base is not None and after_ours else maps
            whole = {**status, **{name: _without(status[name], there[name]) for name in there}}
            body = _encode({"metadata": {"resourceVersion": version}, "status": whole})
            answer = await self._client.patch(path, body, how=Patch.MERGE, timeout=write_timeout(self._fence))
            written = _decode_named(answer).metadata.resource_version
            self._based_on[uid] = _Base(seen.resource_version, written, {name: status[name] for name in maps})
            _drop_oldest(self._based_on)

        self._writer.put(uid, write, on_lost=lambda: self._forget(uid))

    def _is_news(self, uid: str, wanted: bytes) -> bool:
        """Whether this differs from what was asked for last, or that was long ago."""
        now = self._clock.monotonic()
        before = self._asked.pop(uid, None)
        if before is not None and before.wanted == wanted and now < before.at + STATUS_ECHO_S:
            self._asked[uid] = before
            return False
        self._asked[uid] = _Asked(wanted, now)
        _drop_oldest(self._asked)
        return True

    def _nothing_to_do(self, uid: str) -> bool:
        """Drop what waits; False while a write is under way."""
        self._asked.pop(uid, None)
        return self._writer.drop(uid)

    def _forget(self, uid: str) -> None:
        self._asked.pop(uid, None)
        self._based_on.pop(uid, None)
        self._on_lost(uid)


def _drop_oldest(table: dict[str, Any]) -> None:
    if len(table) > STATUS_SENT_KEPT:
        del table[next(iter(table))]


def _without(wanted: Mapping[str, Any], there: Mapping[str, Any]) -> dict[str, Any]:
    """A merge patch removes what it names as null."""
    return {**wanted, **{name: None for name in sorted(there) if name not in wanted}}
