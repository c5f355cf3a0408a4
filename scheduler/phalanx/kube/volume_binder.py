"""Let the claims of a placement be bound before its pods are.

A claim of a class with WaitForFirstConsumer gets the annotation `volume.kubernetes.io/selected-node`. Its
provisioner then creates a volume for this node, and kube-controller-manager binds the claim. A provisioner
that cannot do so removes the annotation. No pod of the placement is bound before all its claims are. If one
of them fails, annotations that were written for the placement and led to no volume are removed, so that the
gang may go elsewhere as a whole. A claim for which a volume was decided that exists already needs no
provisioner: the volume is reserved for it instead (`phalanx.kube.volume_reservation`).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import msgspec
import structlog
from msgspec import Struct

from phalanx.kube.binding import PROVISIONING_FAILED, BinderCallbacks
from phalanx.kube.client import Patch
from phalanx.kube.decode import decoder_of
from phalanx.kube.errors import (
    TRANSIENT,
    ApiError,
    Conflict,
    NotFound,
)
from phalanx.kube.flow_control import RateLimiter
from phalanx.kube.preparation import Preparation, Preparer, Progress, Unprepared
from phalanx.kube.volume_reservation import VolumeReservations, VolumeTaken
from phalanx.kube.writing import WriteContext
from phalanx.limits import (
    BIND_ATTEMPTS_MAX,
    CLAIM_BIND_TIMEOUT_S,
    CLAIM_CHECK_PERIOD_S,
    WRITE_CONCURRENCY,
)
from phalanx.model.api.core import PersistentVolumeClaim
from phalanx.model.api.kinds import KINDS
from phalanx.model.decisions import Bind, Placement
from phalanx.model.names import NodeName
from phalanx.model.supplies.volumes.published import UnboundClaim
from phalanx.model.supplies.volumes.read import SELECTED_NODE

CLAIM_READ_PERIOD_S: Final = 2.0
"""Seconds after which a claim is read that does not show the selected node. The watch is usually faster."""

_log = structlog.get_logger(__name__)

_encode: Final = msgspec.json.Encoder().encode
_decode_claim: Final = decoder_of(PersistentVolumeClaim)
_PASSING: Final = (*TRANSIENT, msgspec.MsgspecError)
"""Errors after which the next attempt may succeed."""


class VolumesOutdated(Unprepared):
    """A pod of the placement, or its node, is gone."""


class VolumeFailed(Unprepared):
    """A claim cannot be bound for the node of this bind."""

    def __init__(self, bind: Bind, message: str) -> None:
        super().__init__(message, bind=bind, reason=PROVISIONING_FAILED)


class _Written(Struct):
    """An annotation that was written, or a volume that was reserved."""

    claim: UnboundClaim
    node: NodeName
    volume: str
    checked: float
    """When it was written or compared with the API (monotonic seconds)."""
    is_certain: bool = False
    """Whether the API server has confirmed the write."""


class _Wanted(Struct):
    """A claim that is not bound, with the binds of the pods that mount it."""

    claim: UnboundClaim
    binds: list[Bind]
    volume: str = ""
    """The PersistentVolume that was decided for it; empty for none."""

    @property
    def is_selected(self) -> bool:
        """Whether the provisioner was asked for a node of these pods, or need not be asked."""
        if self.volume:
            return False
        return not self.claim.needs_node or any(self.claim.selected_node == bind.node for bind in self.binds)


class VolumePreparer(Preparer):
    """Finds the placements of which claims are not bound."""

    def __init__(self, context: WriteContext, callbacks: BinderCallbacks, limiter: RateLimiter) -> None:
        self._writers = _Writers(context, VolumeReservations(context, limiter), limiter)
        self._unbound = callbacks.unbound_claims

    def prepare(self, placement: Placement, resume: Callable[[], None], log: Any) -> Preparation | None:
        if not any(self._unbound(bind) for bind in placement.binds):
            return None
        return VolumePreparation(placement, self._writers, self._unbound, resume)


class _Writers(Struct, frozen=True):
    """What all placements share."""

    context: WriteContext
    reservations: VolumeReservations
    limiter: RateLimiter


class VolumePreparation(Preparation):
    """Writes the selected nodes of the claims of one placement and follows what becomes of them.

    The next leader finds the selected nodes of the claims and goes on with them.
    """

    precedes_record: ClassVar[bool] = True
    what: ClassVar[str] = "the volumes"

    def __init__(
        self,
        placement: Placement,
        writers: _Writers,
        unbound: Callable[[Bind], tuple[UnboundClaim, ...] | None],
        resume: Callable[[], None],
    ) -> None:
        """`unbound`: the claims of a placed pod that are not bound; None if the placement is outdated."""
        self._placement = placement
        self._context = writers.context
        self._client = writers.context.client
        self._rate_limiter = writers.limiter
        self._reservations = writers.reservations
        self._unbound = unbound
        self._resume = resume
        self._since: float | None = None
        """When the first claim was found unbound (monotonic seconds)."""
        self._written: dict[str, _Written] = {}

    async def advance(self, binds: Sequence[Bind]) -> Progress:
        """Take the next step for all claims. Raises VolumesOutdated, or VolumeFailed."""
        wanted = self._wanted()
        if not wanted:
            return Progress.DONE
        now = self._context.clock.monotonic()
        since = self._since = now if self._since is None else self._since
        for key, each in wanted.items():
            if each.claim.failure:
                raise VolumeFailed(each.binds[0], f"PersistentVolumeClaim {key}: {each.claim.failure}")
        missing = {key: each for key, each in wanted.items() if not each.is_selected}
        known = {key: written for key, written in self._written.items() if written.is_certain}
        await self._in_parallel([each for key, each in missing.items() if key not in known])
        for key, each in missing.items():
            if key in known:
                await self._confirm(each, known[key])
        if now - since > CLAIM_BIND_TIMEOUT_S:
            key, each = next(iter(wanted.items()))
            raise VolumeFailed(
                each.binds[0],
                f"PersistentVolumeClaim {key} was not bound within {CLAIM_BIND_TIMEOUT_S:.0f} seconds",
            )
        asyncio.get_running_loop().call_later(CLAIM_CHECK_PERIOD_S, self._resume)
        return Progress.LATER

    @property
    def waits(self) -> bool:
        return self._since is not None

    @property
    def has_written(self) -> bool:
        return bool(self._written)

    def _wanted(self) -> dict[str, _Wanted]:
        found: dict[str, _Wanted] = {}
        for bind in self._placement.binds:
            claims = self._unbound(bind)
            if claims is None:
                raise VolumesOutdated(f"pod {bind.namespace}/{bind.name} or node {bind.node} is gone")
            volumes = dict(bind.volumes)
            for claim in claims:
                each = found.setdefault(str(claim), _Wanted(claim, [], volumes.get(str(claim), "")))
                each.binds.append(bind)
        return found

    async def _in_parallel(self, wanted: list[_Wanted]) -> None:
        """Write the selected nodes, some at a time. All writes end before an error is raised."""
        for start in range(0, len(wanted), WRITE_CONCURRENCY):
            part = wanted[start : start + WRITE_CONCURRENCY]
            answers = await asyncio.gather(*(self._select(each) for each in part), return_exceptions=True)
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer

    async def _select(self, wanted: _Wanted) -> None:
        """Reserve the volume, or ask the provisioner for one for the node of the first pod."""
        claim, bind = wanted.claim, wanted.binds[0]
        try:
            written = _Written(claim, bind.node, wanted.volume, self._context.clock.monotonic())
            self._written[str(claim)] = written
            if wanted.volume:
                await self._reservations.reserve(wanted.volume, claim)
            else:
                body = {"metadata": {"uid": claim.uid, "annotations": {SELECTED_NODE: bind.node}}}
                await self._rate_limiter.acquire()
                await self._patch(claim, body)
            written.is_certain = True
        except VolumeTaken as error:
            raise VolumeFailed(bind, f"PersistentVolumeClaim {claim}: {error}") from error
        except (Conflict, *_PASSING) as error:
            _log.info("selecting the node of a claim failed, retrying", claim=str(claim), error=str(error))
        except ApiError as error:
            message = f"PersistentVolumeClaim {claim}: the selected node cannot be written: {error}"
            raise VolumeFailed(bind, message) from error

    async def _confirm(self, wanted: _Wanted, written: _Written) -> None:
        """Read a claim that does not show the node: the watch may be late, or the provisioner gave up."""
        now = self._context.clock.monotonic()
        if now - written.checked < CLAIM_READ_PERIOD_S:
            return
        written.checked = now
        claim, bind = wanted.claim, wanted.binds[0]
        try:
            if written.volume:
                await self._reservations.confirm(written.volume, claim)
            found = await self._read(claim)
        except VolumeTaken as error:
            raise VolumeFailed(bind, f"PersistentVolumeClaim {claim}: {error}") from error
        except NotFound as error:
            raise VolumeFailed(bind, f"PersistentVolumeClaim {claim}: it does not exist") from error
        except (ApiError, *_PASSING) as error:
            _log.info("reading a claim failed, retrying", claim=str(claim), error=str(error))
            return
        if written.volume or found.spec.volume_name:
            return
        if found.metadata.annotations.get(SELECTED_NODE) == written.node:
            return
        raise VolumeFailed(
            bind,
            f"PersistentVolumeClaim {claim}: its provisioner has created no volume for node {written.node}",
        )

    async def release(self) -> None:
        """Remove the annotations and reservations that led to no bound claim. Bound claims keep theirs."""
        for written in self._written.values():
            try:
                if written.volume:
                    await self._reservations.release(written.volume, written.claim)
                else:
                    await self._release(written)
            except (ApiError, *_PASSING) as error:
                _log.warning(
                    "the selected node or volume of a claim remains",
                    claim=str(written.claim),
                    error=str(error),
                )

    async def _release(self, written: _Written) -> None:
        for _ in range(BIND_ATTEMPTS_MAX):
            try:
                found = await self._read(written.claim)
                meta = found.metadata
                if found.spec.volume_name or meta.annotations.get(SELECTED_NODE) != written.node:
                    return
                annotations = {SELECTED_NODE: None}
                version = {"uid": meta.uid, "resourceVersion": meta.resource_version}
                await self._rate_limiter.acquire()
                await self._patch(written.claim, {"metadata": {**version, "annotations": annotations}})
            except NotFound:
                return
            except Conflict:
                continue
            return

    async def _read(self, claim: UnboundClaim) -> PersistentVolumeClaim:
        """Raises NotFound if the name belongs to another claim now."""
        found = await self._client.get(_path(claim), _decode_claim, timeout=self._context.timeout())
        if found.metadata.uid != claim.uid:
            raise NotFound(code=404, reason="NotFound", message="the name belongs to another claim now")
        return found

    async def _patch(self, claim: UnboundClaim, body: object) -> None:
        timeout = self._context.timeout()
        await self._client.patch(_path(claim), _encode(body), how=Patch.MERGE, timeout=timeout)


def _path(claim: UnboundClaim) -> str:
    return KINDS["PersistentVolumeClaim"].path(namespace=claim.namespace, name=claim.name)
