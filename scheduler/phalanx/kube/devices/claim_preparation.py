"""The claims of one gang while it is bound: reserved together before the first bind, and given back."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from phalanx.kube.binding import BinderCallbacks
from phalanx.kube.devices.claim_documents import ClaimLost
from phalanx.kube.devices.claim_writer import ClaimWriter
from phalanx.kube.devices.device_waits import DeviceWait, DeviceWaits
from phalanx.kube.flow_control import RateLimiter
from phalanx.kube.preparation import Preparation, Preparer, Progress
from phalanx.kube.writing import WriteContext
from phalanx.model.decisions import Bind, GiveBack, Placement
from phalanx.model.events import ApiEvent
from phalanx.model.names import PodUid
from phalanx.model.supplies.devices.claims import ClaimGrant


class ClaimPreparer(Preparer):
    """Reserves claims to devices, and waits until the drivers have prepared them."""

    def __init__(self, context: WriteContext, callbacks: BinderCallbacks, limiter: RateLimiter) -> None:
        self._writer = ClaimWriter(context, callbacks.on_claim)
        self._limiter = limiter
        self._waits = DeviceWaits(context.clock, callbacks)

    def prepare(self, placement: Placement, resume: Callable[[], None], log: Any) -> Preparation | None:
        if not any(bind.grants for bind in placement.binds):
            return None
        return ClaimPreparation(
            placement, self._writer, self._limiter, self._waits, DeviceWait(placement, resume, log)
        )

    def notice(self, event: ApiEvent) -> None:
        self._waits.notice(event)

    def resume_all(self) -> None:
        self._waits.resume_all()

    async def give_back(self, held: GiveBack) -> None:
        """Give back the claims that an earlier leader reserved, if the pod still waits."""
        await self._limiter.acquire()
        if await self._writer.is_waiting(held):
            for grant in held.grants:
                await self._limiter.acquire()
                await self._writer.give_back(grant, held.pod)


class ClaimPreparation(Preparation):
    """Knows which claims are reserved. A claim that several pods share is written once for all of them."""

    precedes_record: ClassVar[bool] = False
    what: ClassVar[str] = "the claims"

    def __init__(
        self,
        placement: Placement,
        writer: ClaimWriter,
        limiter: RateLimiter,
        waits: DeviceWaits,
        wait: DeviceWait,
    ) -> None:
        self._writer = writer
        self._limiter = limiter
        self._waits = waits
        self._wait = wait
        self._missing: dict[str, tuple[ClaimGrant, list[Bind]]] = {}
        self._of_pod: dict[PodUid, tuple[ClaimGrant, ...]] = {}
        for bind in placement.binds:
            for grant in bind.grants:
                self._missing.setdefault(grant.uid, (grant, []))[1].append(bind)

    async def advance(self, binds: Sequence[Bind]) -> Progress:
        if self._missing:
            await self._reserve_all()
            return Progress.AGAIN
        return Progress.LATER if self._waits.hold(self._wait, binds) else Progress.DONE

    @property
    def waits(self) -> bool:
        return self._wait.since is not None

    @property
    def may_be_withdrawn(self) -> bool:
        return self.waits

    def may_hold(self, pod: PodUid) -> bool:
        return pod in self._of_pod

    async def give_back(self, bind: Bind) -> None:
        for grant in self._of_pod.get(bind.pod, ()):
            await self._limiter.acquire()
            await self._writer.give_back(grant, bind.pod)
        self._of_pod.pop(bind.pod, None)

    def end(self) -> None:
        self._waits.end(self._wait)

    async def _reserve_all(self) -> None:
        """Reserve what is not reserved yet. Raises ClaimLost if a claim is lost, else the first error."""
        waiting = list(self._missing.values())
        for _, binds in waiting:
            # Also a write that fails may have been applied.
            self._of_pod.update({bind.pod: bind.grants for bind in binds})
        errors = await asyncio.gather(
            *(self._reserve(grant, binds) for grant, binds in waiting), return_exceptions=True
        )
        failed = [error for error in errors if error is not None]
        lost = [error for error in failed if isinstance(error, ClaimLost)]
        for error in (*lost, *failed):
            raise error

    async def _reserve(self, grant: ClaimGrant, binds: Sequence[Bind]) -> None:
        await self._limiter.acquire()
        await self._writer.reserve(grant, binds)
        del self._missing[grant.uid]
