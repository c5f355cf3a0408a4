"""Reserve volumes that exist already for claims: write `claimRef` of a PersistentVolume, or take it back.

The volume controller binds a claim to the volume that names it. A reservation is taken back only while the
controller has not started: it writes the phase Bound first, and a write to an older version fails.
"""

from typing import Any, Final

import msgspec

from phalanx.kube.client import Patch
from phalanx.kube.decode import decoder_of
from phalanx.kube.errors import Conflict, NotFound
from phalanx.kube.flow_control import RateLimiter
from phalanx.kube.writing import WriteContext
from phalanx.limits import BIND_ATTEMPTS_MAX
from phalanx.model.api.core import ClaimReference, PersistentVolume
from phalanx.model.api.kinds import KINDS
from phalanx.model.supplies.volumes.published import UnboundClaim

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = decoder_of(PersistentVolume)
_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
"""Annotation with which kube-scheduler lets the volume controller undo a binding that it did not ask for."""


class VolumeTaken(Exception):
    """The volume is for another claim, or gone. The text says which."""


class VolumeReservations:
    """Writes and removes reservations. A write repeats what it finds written already."""

    def __init__(self, context: WriteContext, rate_limiter: RateLimiter) -> None:
        self._context = context
        self._client = context.client
        self._rate_limiter = rate_limiter

    async def reserve(self, name: str, claim: UnboundClaim) -> None:
        """Let the volume name the claim. Raises VolumeTaken, Conflict, or other errors that may pass."""
        found = await self._read(name)
        if self.is_reserved(found, claim):
            return
        if found.spec.claim_ref is not None:
            other = f"{found.spec.claim_ref.namespace}/{found.spec.claim_ref.name}"
            raise VolumeTaken(f"PersistentVolume {name} was taken by claim {other}")
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
        }
        await self._patch(found, annotation="yes", reference=reference)

    async def confirm(self, name: str, claim: UnboundClaim) -> None:
        """Raises VolumeTaken if the volume does not name the claim any more."""
        if not self.is_reserved(await self._read(name), claim):
            raise VolumeTaken(f"PersistentVolume {name} was released by the volume controller")

    async def release(self, name: str, claim: UnboundClaim) -> None:
        """Take the reservation back, unless the volume controller has started to bind the claim."""
        for _ in range(BIND_ATTEMPTS_MAX):
            try:
                found = await self._read(name)
                if not self.is_reserved(found, claim) or found.status.phase == "Bound":
                    return
                await self._patch(found, annotation=None, reference=None)
            except (VolumeTaken, NotFound):
                return
            except Conflict:
                continue
            return

    def is_reserved(self, volume: PersistentVolume, claim: UnboundClaim) -> bool:
        reference: ClaimReference | None = volume.spec.claim_ref
        return reference is not None and reference.uid == claim.uid

    async def _read(self, name: str) -> PersistentVolume:
        try:
            return await self._client.get(_path(name), _decode, timeout=self._context.timeout())
        except NotFound as error:
            raise VolumeTaken(f"PersistentVolume {name} does not exist") from error

    async def _patch(self, found: PersistentVolume, *, annotation: str | None, reference: Any) -> None:
        """Change the volume if it is still as read. Raises Conflict otherwise."""
        meta = found.metadata
        metadata = {
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "annotations": {_BY_CONTROLLER: annotation},
        }
        body = _encode({"metadata": metadata, "spec": {"claimRef": reference}})
        await self._rate_limiter.acquire()
        timeout = self._context.timeout()
        await self._client.patch(_path(meta.name), body, how=Patch.MERGE, timeout=timeout)


def _path(name: str) -> str:
    return KINDS["PersistentVolume"].path(name=name)
