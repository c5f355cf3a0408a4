"""Write a placement, with the record of the gang, to the status of its PodGroup before the first bind."""

from typing import Final

import msgspec

from phalanx.kube.bind_jobs import GangJob
from phalanx.kube.binding import BinderCallbacks, PodGroupRef, placement_patch
from phalanx.kube.client import Patch
from phalanx.kube.decode import PartialObject
from phalanx.kube.errors import NotFound
from phalanx.kube.flow_control import RateLimiter
from phalanx.kube.writing import WriteContext
from phalanx.model.api.kinds import KINDS

_decode_partial: Final = msgspec.json.Decoder(PartialObject).decode


class PlacementWriter:
    """Writes at the rate of binds."""

    def __init__(self, context: WriteContext, callbacks: BinderCallbacks, rate_limiter: RateLimiter) -> None:
        self._context = context
        self._client = context.client
        self._callbacks = callbacks
        self._rate_limiter = rate_limiter

    async def write(self, gang: GangJob, group: PodGroupRef) -> None:
        """Write the placement to the status of the gang's PodGroup."""
        await self._rate_limiter.acquire()
        version = "" if gang.reads_version else self._callbacks.pod_group_version(group)
        if not version:
            version = await self._read_version(group)
        path = KINDS["PodGroup"].path(namespace=group.namespace, name=group.name, subresource="status")
        record = self._callbacks.newest_record(gang.placement)
        body = placement_patch(gang.placement, record, version=version, epoch=self._context.fence.epoch)
        await self._client.patch(path, body, how=Patch.MERGE, timeout=self._context.timeout())

    async def _read_version(self, group: PodGroupRef) -> str:
        """Raises NotFound when the name belongs to another PodGroup now."""
        path = KINDS["PodGroup"].path(namespace=group.namespace, name=group.name)
        meta = (await self._client.get(path, _decode_partial, timeout=self._context.timeout())).metadata
        if meta.uid != group.uid:
            raise NotFound(code=404, reason="NotFound", message="the name belongs to another PodGroup now")
        return meta.resource_version
