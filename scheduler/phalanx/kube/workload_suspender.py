"""Suspend a workload to end its pods, and resume it.

The controller of a suspended workload deletes its pods and does not count them as failures. What is suspended
by the scheduler is stored before in a ConfigMap that no tenant can write, so that the next leader resumes it.
The token of the suspension is written to the workload together with the suspension: a workload without it was
suspended by somebody else, or resumed meanwhile.
"""

from typing import Final

import msgspec
from msgspec import Struct

from phalanx.kube.client import Patch
from phalanx.kube.decode import decode_leniently
from phalanx.kube.errors import NotFound
from phalanx.kube.own_config_map import OwnConfigMap
from phalanx.kube.writing import WriteContext
from phalanx.model.api.kinds import kind_named
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.names import ANNOTATION_SUSPENSION, KUEUE_QUEUE_LABEL, GangId
from phalanx.model.workloads.job import JOB
from phalanx.model.workloads.kind import WorkloadKind, names_on_path, value_at
from phalanx.model.workloads.known import WorkloadKinds

SUSPENSIONS_NAME: Final = "phalanx-suspensions"
"""The name of the ConfigMap."""

SUSPENSIONS_MAX: Final = 2_000
"""Workloads that are suspended at the same time. One takes about 250 bytes of the 1 MiB of a ConfigMap."""

_KUEUE: Final = "kueue.x-k8s.io"
_CRON_JOB: Final = "CronJob"
"""It creates Jobs, and does not change them afterwards."""

_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_decode_workload: Final = msgspec.json.Decoder(WorkloadObject).decode


class Suspension(Struct, frozen=True):
    """A workload that is suspended to evict its gang. `token`: differs between suspensions of one object."""

    kind: str
    """The name of its `WorkloadKind`."""
    namespace: str
    name: str
    uid: str
    gang: GangId
    token: str


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
        return tuple(each for each in stored if each is not None and each.kind in self._kinds.by_name)

    async def suspend(self, suspension: Suspension, *, pods: int) -> bool:
        """Suspend the workload if that ends these pods and no others, and nobody else decides about it."""
        found = await self._get(suspension)
        if found is not None and self._is_ours(suspension, found):
            return True
        kind = self._kinds.by_name[suspension.kind]
        if found is None or not is_suspendable(found, kind, pods=pods):
            return False
        await self._map.change({suspension.uid: _encode(suspension).decode()})
        await self._patch(suspension, found, is_suspended=True)
        return True

    async def resume(self, suspension: Suspension) -> bool:
        """Resume the workload; False if it is gone, or not suspended by this suspension."""
        found = await self._get(suspension)
        if found is None or not self._is_ours(suspension, found):
            return False
        await self._patch(suspension, found, is_suspended=False)
        return True

    async def forget(self, suspension: Suspension) -> None:
        """Remove it from the ConfigMap, after the workload is resumed."""
        await self._map.change({suspension.uid: None})

    async def _get(self, suspension: Suspension) -> WorkloadObject | None:
        try:
            found = await self._client.get(
                self._path_of(suspension), _read_workload, timeout=self._context.timeout()
            )
        except NotFound:
            return None
        return found if found.metadata.uid == suspension.uid else None

    async def _patch(self, suspension: Suspension, found: WorkloadObject, *, is_suspended: bool) -> None:
        """Change the workload as it was found. Raises Conflict if it has changed since."""
        token = suspension.token if is_suspended else None
        metadata = {
            "uid": suspension.uid,
            "resourceVersion": found.metadata.resource_version,
            "annotations": {ANNOTATION_SUSPENSION: token},
        }
        value: object = is_suspended
        for name in reversed(names_on_path(self._kinds.by_name[suspension.kind].suspended)):
            value = {name: value}
        assert isinstance(value, dict)
        body = _encode({"metadata": metadata, **value})
        await self._client.patch(
            self._path_of(suspension), body, how=Patch.MERGE, timeout=self._context.timeout()
        )

    def _path_of(self, suspension: Suspension) -> str:
        kind = kind_named(suspension.kind, self._kinds)
        return kind.path(namespace=suspension.namespace, name=suspension.name)

    def _is_ours(self, suspension: Suspension, found: WorkloadObject) -> bool:
        is_suspended = _value_at(found, self._kinds.by_name[suspension.kind].suspended) is True
        is_same = found.metadata.annotations.get(ANNOTATION_SUSPENSION) == suspension.token
        return is_suspended and is_same and not is_of_kueue(found)


def is_suspendable(found: WorkloadObject, kind: WorkloadKind, *, pods: int) -> bool:
    """Whether its suspension ends these pods and no others, and nobody else suspends and resumes it.

    `pods`: how many there are. A Job says how many it has.
    """
    meta, active = found.metadata, found.status.get("active")
    has_others = kind.name == JOB.name and isinstance(active, int) and active > pods
    is_part = any(owner.controller and owner.kind != _CRON_JOB for owner in meta.owner_references)
    is_going = meta.deletion_timestamp is not None or _value_at(found, kind.suspended) is True
    return not (has_others or is_part or is_going or is_of_kueue(found))


def is_of_kueue(found: WorkloadObject) -> bool:
    """Whether Kueue suspends and resumes the workload."""
    meta = found.metadata
    managers = (found.spec.get("managedBy"), _value_at(found, "spec.runPolicy.managedBy"))
    return (
        KUEUE_QUEUE_LABEL in meta.labels
        or any(owner.api_version.startswith(_KUEUE) for owner in meta.owner_references)
        or any(isinstance(each, str) and each.startswith(_KUEUE) for each in managers)
    )


def _value_at(found: WorkloadObject, path: str) -> object:
    return value_at({"spec": found.spec, "status": found.status}, path)


def _suspension_in(text: str) -> Suspension | None:
    try:
        return _decode_suspension(text)
    except msgspec.MsgspecError:
        return None


def _read_workload(body: bytes) -> WorkloadObject:
    return decode_leniently(_decode_workload, body)
