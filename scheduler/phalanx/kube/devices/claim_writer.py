"""Writes allocations and reservations of ResourceClaims, before the pods that use them are bound.

A write repeats what it finds written already, so it can be tried again after any failure. Another scheduler
may allocate the same claim: the first write of the status is the one that counts.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from phalanx.kube.api_fields import format_time
from phalanx.kube.client import Patch
from phalanx.kube.decode import decoder_of
from phalanx.kube.devices.claim_documents import (
    FINALIZER,
    ClaimLost,
    Document,
    extended_claim_document,
    extended_claim_status,
    is_extended_claim_of,
    needed_classes,
    release,
    reservation,
    same_requests,
)
from phalanx.kube.errors import Conflict, Invalid, NotFound
from phalanx.kube.writing import WriteContext
from phalanx.model.api.kinds import KINDS
from phalanx.model.decisions import Bind, GiveBack
from phalanx.model.names import PodUid
from phalanx.model.supplies.devices.api import ResourceClaim
from phalanx.model.supplies.devices.claims import ClaimGrant

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = decoder_of(Document)


class ClaimWriter:
    """Reserves claims for pods, and gives them back."""

    def __init__(
        self, context: WriteContext, on_seen: Callable[[ResourceClaim], None] = lambda _: None
    ) -> None:
        """`on_seen` is called with each claim as read and as written: watches may show it later than what
        follows from it, such as the end of its pod."""
        self._on_seen = on_seen
        self._context = context
        self._client = context.client

    async def reserve(self, grant: ClaimGrant, binds: Sequence[Bind]) -> None:
        """Write the allocation, if the claim has none, and these pods as consumers.

        A claim for extended resources is created before, and named in the status of its pod afterwards.
        Raises ClaimLost if that cannot succeed; other errors may pass, Conflict among them.
        """
        if grant.extended_claim is None:
            await self._allocate(grant, binds)
            return
        (bind,) = binds
        grant = await self._create(grant, bind)
        await self._allocate(grant, binds)
        path = KINDS["Pod"].path(namespace=bind.namespace, name=bind.name, subresource="status")
        body = _encode(extended_claim_status(grant, uid=bind.pod))
        try:
            await self._client.patch(path, body, how=Patch.MERGE, timeout=self._context.timeout())
        except (Invalid, NotFound) as error:
            raise ClaimLost(f"pod {bind.namespace}/{bind.name}: {error.message}") from None

    async def _create(self, grant: ClaimGrant, bind: Bind) -> ClaimGrant:
        """Create the claim for the extended resources of a pod, or find it; the grant with its UID."""
        document = extended_claim_document(grant, pod=bind.name, uid=bind.pod)
        path = KINDS["ResourceClaim"].path(namespace=grant.namespace)
        try:
            body = await self._client.create(path, _encode(document), timeout=self._context.timeout())
            claim = self._seen(_decode(body))
        except Conflict:
            claim = await self._read(grant)
            if not is_extended_claim_of(claim, bind.pod) or not same_requests(claim, document):
                raise ClaimLost(f"{grant} exists already, for something else") from None
        except (Invalid, NotFound) as error:
            raise ClaimLost(f"{grant}: {error.message}") from None
        return replace(grant, uid=claim["metadata"]["uid"])

    async def _allocate(self, grant: ClaimGrant, binds: Sequence[Bind]) -> None:
        try:
            claim = await self._read(grant)
            classes = {name: await self._read_class(name) for name in needed_classes(claim, grant)}
        except NotFound as error:
            raise ClaimLost(f"{grant}: {error.message}") from None
        pods = [{"resource": "pods", "name": bind.name, "uid": bind.pod} for bind in binds]
        now = format_time(self._context.clock.now_ms())
        status = reservation(claim, grant, pods=pods, classes=classes, now=now)
        if status is None:
            return
        try:
            if "allocation" in status and FINALIZER not in claim["metadata"].get("finalizers", ()):
                finalizers = [*claim["metadata"].get("finalizers", ()), FINALIZER]
                claim = await self._patch(grant, claim, {"metadata": {"finalizers": finalizers}})
            await self._patch(grant, claim, {"status": status}, subresource="status")
        except (Invalid, NotFound) as error:
            raise ClaimLost(f"{grant}: {error.message}") from None

    async def is_waiting(self, held: GiveBack) -> bool:
        """Whether the pod exists and has no node: a bind of the last leader may have been applied late."""
        path = KINDS["Pod"].path(namespace=held.namespace, name=held.name)
        try:
            pod = await self._client.get(path, _decode, timeout=self._context.timeout())
        except NotFound:
            return False
        return bool(pod["metadata"].get("uid") == held.pod and not pod["spec"].get("nodeName"))

    async def give_back(self, grant: ClaimGrant, pod: PodUid) -> None:
        """Remove the pod from the consumers; with the last one, an allocation that was decided for it.

        A claim for extended resources is deleted.
        """
        try:
            claim = await self._read(grant)
            if grant.extended_claim is not None or grant.is_for_extended:
                await self._delete(grant, claim, pod)
                return
            status = release(claim, grant, uid=pod)
            if status is None:
                return
            claim = await self._patch(grant, claim, {"status": status}, subresource="status")
            finalizers = claim["metadata"].get("finalizers", [])
            if "allocation" in status and FINALIZER in finalizers:
                rest = [each for each in finalizers if each != FINALIZER]
                await self._patch(grant, claim, {"metadata": {"finalizers": rest}})
        except NotFound:
            return

    async def _delete(self, grant: ClaimGrant, claim: Document, pod: PodUid) -> None:
        if not is_extended_claim_of(claim, pod):
            return
        if finalizers := claim["metadata"].get("finalizers"):
            rest = [each for each in finalizers if each != FINALIZER]
            claim = await self._patch(grant, claim, {"metadata": {"finalizers": rest}})
        path = KINDS["ResourceClaim"].path(namespace=grant.namespace, name=grant.name)
        uid = claim["metadata"]["uid"]
        await self._client.delete(path, uid=uid, timeout=self._context.timeout())

    async def _read(self, grant: ClaimGrant) -> Document:
        path = KINDS["ResourceClaim"].path(namespace=grant.namespace, name=grant.name)
        return self._seen(await self._client.get(path, _decode, timeout=self._context.timeout()))

    def _seen(self, claim: Document) -> Document:
        self._on_seen(msgspec.convert(claim, ResourceClaim))
        return claim

    async def _read_class(self, name: str) -> Document:
        path = KINDS["DeviceClass"].path(name=name)
        return await self._client.get(path, _decode, timeout=self._context.timeout())

    async def _patch(
        self, grant: ClaimGrant, claim: Document, change: Document, *, subresource: str = ""
    ) -> Document:
        """Change the claim if it is still as read. Raises Conflict otherwise."""
        path = KINDS["ResourceClaim"].path(
            namespace=grant.namespace, name=grant.name, subresource=subresource
        )
        version = {"resourceVersion": claim["metadata"]["resourceVersion"]}
        body = {**change, "metadata": {**change.get("metadata", {}), **version}}
        timeout = self._context.timeout()
        written = await self._client.patch(path, _encode(body), how=Patch.MERGE, timeout=timeout)
        return self._seen(_decode(written))
