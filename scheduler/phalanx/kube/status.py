"""Write statuses: the PodScheduled condition of pods, the status of PodGroups and Queues.

A status is written only when it differs from the one seen, and not again until the watch had time to show it.
The patch of a built-in kind carries the UID, the patch of a custom resource the resourceVersion it is based
on (a real API server ignores the UID there). So an object recreated under the same name is never changed, and
the writes of others are not lost. A failed write is forgotten; call again when the object is next seen. The
binder writes `placementEpoch`; it is left alone here.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from phalanx.kube.api_fields import format_time, message_text
from phalanx.kube.background_writer import BackgroundWriter
from phalanx.kube.client import Patch
from phalanx.kube.decode import PartialObject
from phalanx.kube.writing import WriteContext
from phalanx.limits import CONDITION_MESSAGE_MAX_BYTES, STATUS_SENT_KEPT
from phalanx.model.api.kinds import KINDS
from phalanx.model.api.meta import ObjectMeta
from phalanx.model.api.pod_groups import PodGroup, PodGroupStatus
from phalanx.model.api.queues import Queue, QueueStatus
from phalanx.model.conversion.conditions import PASSING_CONDITIONS, merge_conditions
from phalanx.model.dialects.dialect import Dialect, StatusWrite
from phalanx.model.names import NodeName, PodUid
from phalanx.model.pods import Pod, Scheduled

_STATUS_ECHO_S: Final = 30.0
"""Seconds within which a written status must arrive by the watch. Otherwise it was undone, and it is written
again."""

_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_decode_partial: Final = msgspec.json.Decoder(PartialObject).decode


class _Request(Struct, frozen=True):
    """The last status that was requested for an object."""

    status: bytes
    at: float
    """Monotonic seconds."""


Maps = Mapping[str, Mapping[str, Any]]
"""The map fields of a status by name: a merge patch must name the entries that it removes."""

_NO_MAPS: Final[Maps] = {}


class _Base(Struct, frozen=True):
    """The state of an object after our last write."""

    seen: str
    """The resourceVersion that the write was based on."""
    written: str
    """The resourceVersion after the write."""
    maps: Maps


class StatusWriter:
    """Requests status writes. Every method returns at once; `writer` sends."""

    def __init__(
        self,
        context: WriteContext,
        *,
        writer: BackgroundWriter,
        on_lost: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_lost` receives the UID of an object whose status could not be written."""
        self._context = context
        self._client = context.client
        self._clock = context.clock
        self._writer = writer
        self._on_lost = on_lost
        self._requested: dict[str, _Request] = {}
        self._bases: dict[str, _Base] = {}

    def pod_waits(self, pod: Pod, *, reason: str, message: str, node: NodeName | None = None) -> None:
        """Set PodScheduled=False and the nominated node, unless the pod has both already."""
        wanted = Scheduled("False", reason, message_text(message, CONDITION_MESSAGE_MAX_BYTES))
        if (pod.scheduled, pod.nominated) == (wanted, node):
            self._drop(pod.uid)
            return
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": wanted.message}
        without_time = _encode((condition, node))
        if pod.scheduled is None or pod.scheduled.status != "False":
            condition["lastTransitionTime"] = format_time(self._clock.now_ms())
        if not self._is_new(pod.uid, without_time):
            return
        path = KINDS["Pod"].path(namespace=pod.namespace, name=pod.name, subresource="status")
        status: dict[str, Any] = {"conditions": [condition]}
        if pod.nominated != node:
            status["nominatedNodeName"] = node
        body = _encode({"metadata": {"uid": pod.uid}, "status": status})

        self._put_strategic(pod.uid, path, body)

    def try_acquire(self, pod: PodUid) -> bool:
        """Drop the pending write about a pod that is to be bound; False while one is in flight."""
        return self._drop(pod)

    def pod_group(self, group: PodGroup, status: PodGroupStatus) -> None:
        """Replace the status except `placement_epoch`. `group` is the object as last seen."""
        wanted = msgspec.structs.replace(
            status,
            conditions=merge_conditions(
                group.status.conditions, status.conditions, passing=PASSING_CONDITIONS
            ),
            placement_epoch=group.status.placement_epoch,
        )
        if wanted == group.status and self._is_up_to_date(group.metadata):
            return
        body = msgspec.to_builtins(wanted)
        del body["placementEpoch"]
        if self._is_new(group.metadata.uid, _encode(body)):
            self._put("PodGroup", group.metadata, body)

    def pod_group_of(self, dialect: Dialect, seen: ObjectMeta, write: StatusWrite | None) -> None:
        """Set fields of the status of a PodGroup of another dialect; None drops the pending write."""
        rules = dialect.status
        if rules is None or write is None:
            self._drop(seen.uid)
        elif self._is_new(seen.uid, _encode(_without_times(write.fields))):
            if rules.is_built_in:
                self._merge(dialect.kind, seen, write)
            else:
                self._put(dialect.kind, seen, write.fields, subresource=rules.subresource)

    def _merge(self, kind: str, seen: ObjectMeta, write: StatusWrite) -> None:
        """Set fields of the status of a built-in kind; its lists of conditions are merged by type."""
        path = KINDS[kind].path(namespace=seen.namespace, name=seen.name, subresource="status")
        base = {"uid": seen.uid}
        if not write.is_final:
            base["resourceVersion"] = seen.resource_version
        body = _encode({"metadata": base, "status": write.fields})

        self._put_strategic(seen.uid, path, body)

    def _put_strategic(self, uid: str, path: str, body: bytes) -> None:
        async def write() -> None:
            await self._client.patch(path, body, how=Patch.STRATEGIC, timeout=self._context.timeout())

        self._writer.put(uid, write, on_lost=lambda: self._forget(uid))

    def queue(self, queue: Queue, status: QueueStatus) -> None:
        """Replace the status. `queue` is the object as last seen."""
        wanted = msgspec.structs.replace(
            status, conditions=merge_conditions(queue.status.conditions, status.conditions)
        )
        if wanted == queue.status and self._is_up_to_date(queue.metadata):
            return
        seen = queue.status
        maps = {
            "allocated": seen.allocated,
            "guarantee": seen.guarantee,
            "fairShare": seen.fair_share,
            "borrowed": seen.borrowed,
            "averageUse": seen.average_use,
        }
        body = msgspec.to_builtins(wanted)
        if self._is_new(queue.metadata.uid, _encode(body)):
            self._put("Queue", queue.metadata, body, maps)

    def _is_up_to_date(self, seen: ObjectMeta) -> bool:
        """Drop the pending write; False where our own write has changed the object since, or may do so."""
        base = self._bases.get(seen.uid)
        is_ahead = base is not None and base.seen == seen.resource_version
        return self._drop(seen.uid) and not is_ahead

    def _put(
        self,
        kind: str,
        seen: ObjectMeta,
        status: Mapping[str, Any],
        maps: Maps = _NO_MAPS,
        subresource: str = "status",
    ) -> None:
        """Set the status of a custom resource; the version it is based on is chosen when it is sent.

        `maps` are the map fields of the status seen.
        """
        uid = seen.uid
        path = KINDS[kind].path(namespace=seen.namespace, name=seen.name, subresource=subresource)

        async def write() -> None:
            base = self._bases.get(uid)
            after_ours = base is not None and base.seen == seen.resource_version
            version = base.written if base is not None and after_ours else seen.resource_version
            current = base.maps if base is not None and after_ours else maps
            whole = {**status, **{name: _removing(status[name], current[name]) for name in current}}
            body = _encode({"metadata": {"resourceVersion": version}, "status": whole})
            answer = await self._client.patch(path, body, how=Patch.MERGE, timeout=self._context.timeout())
            written = _decode_partial(answer).metadata.resource_version
            self._bases[uid] = _Base(seen.resource_version, written, {name: status[name] for name in maps})
            _drop_oldest(self._bases)

        self._writer.put(uid, write, on_lost=lambda: self._forget(uid))

    def _is_new(self, uid: str, wanted: bytes) -> bool:
        """Whether this differs from the last request, or that was long ago."""
        now = self._clock.monotonic()
        before = self._requested.pop(uid, None)
        if before is not None and before.status == wanted and now < before.at + _STATUS_ECHO_S:
            self._requested[uid] = before
            return False
        self._requested[uid] = _Request(wanted, now)
        _drop_oldest(self._requested)
        return True

    def _drop(self, uid: str) -> bool:
        """Drop the pending write; False while one is in flight."""
        self._requested.pop(uid, None)
        return self._writer.drop(uid)

    def _forget(self, uid: str) -> None:
        self._requested.pop(uid, None)
        self._bases.pop(uid, None)
        self._on_lost(uid)


def _without_times(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields without the transition times of conditions, which alone are no reason to write."""
    conditions = [{**each, "lastTransitionTime": ""} for each in fields.get("conditions", ())]
    return {**fields, "conditions": conditions}


def _drop_oldest(table: dict[str, Any]) -> None:
    if len(table) > STATUS_SENT_KEPT:
        del table[next(iter(table))]


def _removing(wanted: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, Any]:
    """Name the entries to remove as null, as a merge patch requires."""
    return {**wanted, **{name: None for name in sorted(current) if name not in wanted}}
