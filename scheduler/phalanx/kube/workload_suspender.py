"""Suspend a workload to end its pods, and resume it.

The controller of a suspended workload deletes its pods and does not count them as failures. What is suspended
by the scheduler is stored before in a ConfigMap that no tenant can write, so that the next leader resumes it.
The token of the suspension is written to the workload together with the suspension: a workload without it was
suspended by somebody else, or resumed meanwhile.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from phalanx.kube.client import Patch
from phalanx.kube.decode import decode_leniently
from phalanx.kube.errors import NotFound
from phalanx.kube.own_config_map import OwnConfigMap
from phalanx.kube.writing import WriteContext
from phalanx.limits import OWNER_CHAIN_MAX
from phalanx.model.api import core
from phalanx.model.api.kind import Kind
from phalanx.model.api.kinds import KINDS, kind_of_workload
from phalanx.model.api.meta import ObjectList, OwnerReference
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.awaited_pods import AwaitedMembers, template_of
from phalanx.model.names import ANNOTATION_SUSPENSION, KUEUE_QUEUE_LABEL, GangId
from phalanx.model.pods import Controller, Pod
from phalanx.model.workloads.job import JOB
from phalanx.model.workloads.kind import WorkloadKind, set_suspended, value_at
from phalanx.model.workloads.known import WorkloadKinds

SUSPENSIONS_NAME: Final = "phalanx-suspensions"
"""The name of the ConfigMap."""

SUSPENSIONS_MAX: Final = 2_000
"""Workloads that are suspended at the same time. One takes about 250 bytes of the 1 MiB of a ConfigMap."""

_WITH_MEMBERS_MAX: Final = 500_000
"""Bytes of the ConfigMap up to which it also holds members: about 1,000 for each kind of pod of a gang."""

_KUEUE: Final = "kueue.x-k8s.io"
_CRON_JOB: Final = "CronJob"
"""It creates Jobs, and does not change them afterwards."""

_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_decode_workload: Final = msgspec.json.Decoder(WorkloadObject).decode
_decode_page: Final = msgspec.json.Decoder(ObjectList[WorkloadObject]).decode
_decode_pod: Final = msgspec.json.Decoder(core.Pod).decode


class Root(Struct, frozen=True):
    """The object that decides whether the pods of a gang run."""

    kind: str
    """The name of its `WorkloadKind`."""
    name: str
    uid: str
    owners: frozenset[str]
    """UIDs of it and of what it owns: the controllers of its pods."""


class Suspension(Struct, frozen=True, omit_defaults=True):
    """A workload that is suspended to evict its gang.

    `token`: differs between suspensions of one object; the time of the suspension, in ms since the epoch.
    `members`: the pods for which it waits while it is suspended; empty if it is resumed as soon as its pods
    are being deleted.
    """

    kind: str
    """The name of its `WorkloadKind`."""
    namespace: str
    name: str
    uid: str
    gang: GangId
    token: str
    members: tuple[AwaitedMembers, ...] = ()

    @property
    def since_ms(self) -> int:
        """When it began."""
        return int(self.token) if self.token.isascii() and self.token.isdigit() else 0


_decode_suspension: Final = msgspec.json.Decoder(Suspension).decode


class WorkloadSuspender:
    """Sends the requests.

    All methods raise ApiError, OutcomeUnknown, RequestNotSent, MsgspecError or Undecodable.
    """

    def __init__(
        self,
        context: WriteContext,
        *,
        namespace: str,
        kinds: WorkloadKinds,
    ) -> None:
        """`namespace` is the scheduler's own."""
        self._context = context
        self._client = context.client
        self._kinds = kinds
        self._map = OwnConfigMap(context, namespace=namespace, name=SUSPENSIONS_NAME)

    async def stored(self) -> tuple[Suspension, ...]:
        """The suspensions in the ConfigMap, of kinds that are known."""
        await self._map.read()
        stored = [_suspension_in(text) for text in self._map.data.values()]
        return tuple(each for each in stored if each is not None and self._kinds.suspended_as(each.kind))

    async def root(self, namespace: str, controllers: Sequence[Controller]) -> Root | None:
        """The object above all these controllers of pods; None if it cannot be suspended to end their pods.

        The controllers are of one gang. Above the first owner, an object must own nothing else of the kind.
        """
        current = min(controllers, key=lambda each: (each.workload != JOB.name, each.uid))
        owners = {current.uid}
        for _ in range(OWNER_CHAIN_MAX):
            kind = self._kinds.suspended_as(current.workload)
            if kind is None or not kind.suspended:
                return None
            found = await self._get(kind, namespace, current)
            if found is None or is_of_kueue(found):
                return None
            above = _controller(found)
            if above is None:
                is_all = all(each.uid in owners for each in controllers)
                return Root(kind.name, current.name, current.uid, frozenset(owners)) if is_all else None
            siblings = await self._owned_by(above.uid, kind, namespace)
            if len(owners) > 1 and siblings != {current.uid}:
                return None
            owners |= {above.uid, *siblings}
            workload = self._kinds.above_owner(above.api_version, above.kind)
            current = Controller(kind=above.kind, name=above.name, uid=above.uid, workload=workload)
        return None

    async def _owned_by(self, uid: str, kind: WorkloadKind, namespace: str) -> set[str]:
        """UIDs of the objects of this kind whose controller has this UID."""
        owned: set[str] = set()
        async for body in self._client.pages(kind_of_workload(kind).path(namespace=namespace)):
            for item in decode_leniently(_decode_page, body).items or ():
                above = _controller(item)
                if above is not None and above.uid == uid:
                    owned.add(item.metadata.uid)
        return owned

    async def with_members(
        self, suspension: Suspension, kinds: Sequence[Sequence[Pod]], owner: OwnerReference | None
    ) -> Suspension:
        """The suspension with the members that wait while it lasts: pods by kind, of which the first one is
        read. Without them if a pod is gone, or the ConfigMap is full. `owner`: see `template_of`."""
        members: list[AwaitedMembers] = []
        for pods in kinds:
            written = await self._pod(suspension.namespace, pods[0])
            if written is None or any(volume.ephemeral is not None for volume in written.spec.volumes):
                return suspension
            members.append(AwaitedMembers(len(pods), template_of(written, owner)))
        found = replace(suspension, members=tuple(members))
        others = sum(len(text) for uid, text in self._map.data.items() if uid != suspension.uid)
        return found if others + len(_encode(found)) <= _WITH_MEMBERS_MAX else suspension

    async def _pod(self, namespace: str, pod: Pod) -> core.Pod | None:
        path = KINDS["Pod"].path(namespace=namespace, name=pod.name)
        try:
            found = await self._client.get(path, _read_pod, timeout=self._context.timeout())
        except NotFound:
            return None
        return found if found.metadata.uid == pod.uid else None

    async def suspend(self, suspension: Suspension, *, pods: int) -> bool:
        """Suspend the workload if that ends these pods and no others, and nobody else decides about it."""
        found = await self._present(suspension)
        if found is not None and self._is_ours(suspension, found):
            return True
        kind = self._kind_of(suspension)
        if found is None or not is_suspendable(found, kind, pods=pods):
            return False
        await self._map.change({suspension.uid: _encode(suspension).decode()})
        await self._patch(suspension, found, is_suspended=True)
        return True

    async def is_suspended(self, suspension: Suspension) -> bool:
        """Whether the workload is there and still suspended by this suspension."""
        found = await self._present(suspension)
        return found is not None and self._is_ours(suspension, found)

    async def makes_pods(self, suspension: Suspension) -> bool:
        """Whether the workload is there and not suspended."""
        found = await self._present(suspension)
        return found is not None and _value_at(found, self._kind_of(suspension).suspended) is not True

    async def resume(self, suspension: Suspension) -> bool:
        """Resume the workload; False if it is gone, or not suspended by this suspension."""
        found = await self._present(suspension)
        if found is None or not _has_token(suspension, found):
            return False
        is_ours = self._is_ours(suspension, found)
        await self._patch(suspension, found, is_suspended=False if is_ours else None)
        return is_ours

    async def forget(self, suspension: Suspension) -> None:
        """Remove it from the ConfigMap, after the workload is resumed."""
        await self._map.read_if_unknown()
        if suspension.uid in self._map.data:
            await self._map.change({suspension.uid: None})

    async def _present(self, suspension: Suspension) -> WorkloadObject | None:
        kind = self._kind_of(suspension)
        return await self._get(kind, suspension.namespace, suspension)

    async def _get(
        self, kind: WorkloadKind, namespace: str, named: Controller | Suspension
    ) -> WorkloadObject | None:
        """The object of this name if it has this UID."""
        path = kind_of_workload(kind).path(namespace=namespace, name=named.name)
        try:
            found = await self._client.get(path, _read_workload, timeout=self._context.timeout())
        except NotFound:
            return None
        return found if found.metadata.uid == named.uid else None

    async def _patch(
        self, suspension: Suspension, found: WorkloadObject, *, is_suspended: bool | None
    ) -> None:
        """Change the workload as it was found. Raises Conflict if it has changed since.

        With None only the annotation is removed.
        """
        token = suspension.token if is_suspended else None
        metadata = {
            "uid": suspension.uid,
            "resourceVersion": found.metadata.resource_version,
            "annotations": {ANNOTATION_SUSPENSION: token},
        }
        kind = self._kind_of(suspension)
        body = {"metadata": metadata, **({} if is_suspended is None else set_suspended(kind, is_suspended))}
        path = kind_of_workload(kind).path(namespace=suspension.namespace, name=suspension.name)
        await self._client.patch(path, _encode(body), how=Patch.MERGE, timeout=self._context.timeout())

    def _kind_of(self, suspension: Suspension) -> WorkloadKind:
        kind = self._kinds.suspended_as(suspension.kind)
        assert kind is not None, "it was suspended, or read from the ConfigMap"
        return kind

    def kind_named(self, name: str) -> Kind | None:
        """The kind of workloads of this name as the API has it."""
        kind = self._kinds.suspended_as(name)
        return kind_of_workload(kind) if kind is not None else None

    def _is_ours(self, suspension: Suspension, found: WorkloadObject) -> bool:
        is_suspended = _value_at(found, self._kind_of(suspension).suspended) is True
        return is_suspended and _has_token(suspension, found) and not is_of_kueue(found)


def is_suspendable(found: WorkloadObject, kind: WorkloadKind, *, pods: int) -> bool:
    """Whether its suspension ends these pods and no others, and nobody else suspends and resumes it.

    `pods`: how many there are. A Job says how many it has.
    """
    meta, active = found.metadata, found.status.get("active")
    has_others = kind.name == JOB.name and isinstance(active, int) and active > pods
    is_going = meta.deletion_timestamp is not None or _value_at(found, kind.suspended) is True
    return not (has_others or _controller(found) is not None or is_going or is_of_kueue(found))


def is_of_kueue(found: WorkloadObject) -> bool:
    """Whether Kueue suspends and resumes the workload."""
    meta = found.metadata
    managers = (found.spec.get("managedBy"), _value_at(found, "spec.runPolicy.managedBy"))
    return (
        KUEUE_QUEUE_LABEL in meta.labels
        or any(owner.api_version.startswith(_KUEUE) for owner in meta.owner_references)
        or any(isinstance(each, str) and each.startswith(_KUEUE) for each in managers)
    )


def _controller(found: WorkloadObject) -> OwnerReference | None:
    """The owner that may change the workload back."""
    owners = [owner for owner in found.metadata.owner_references if owner.controller]
    return next((owner for owner in owners if owner.kind != _CRON_JOB), None)


def _has_token(suspension: Suspension, found: WorkloadObject) -> bool:
    return found.metadata.annotations.get(ANNOTATION_SUSPENSION) == suspension.token


def _value_at(found: WorkloadObject, path: str) -> object:
    return value_at({"spec": found.spec, "status": found.status}, path)


def _suspension_in(text: str) -> Suspension | None:
    try:
        return _decode_suspension(text)
    except msgspec.MsgspecError:
        return None


def _read_workload(body: bytes) -> WorkloadObject:
    return decode_leniently(_decode_workload, body)


def _read_pod(body: bytes) -> core.Pod:
    return decode_leniently(_decode_pod, body)
