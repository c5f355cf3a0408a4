"""The claims of one gang while it is bound: reserved together before the first bind, and given back."""

import asyncio
from collections.abc import Sequence

from phalanx.kube.devices.claim_documents import ClaimLost
from phalanx.kube.devices.claim_writer import ClaimWriter
from phalanx.kube.flow_control import RateLimiter
from phalanx.model.decisions import Bind, GiveBack, Placement
from phalanx.model.names import PodUid
from phalanx.model.supplies.devices.claims import ClaimGrant


class GangClaims:
    """Knows which claims are reserved. A claim that several pods share is written once for all of them."""

    def __init__(self, placement: Placement, writer: ClaimWriter, limiter: RateLimiter) -> None:
        self._writer = writer
        self._limiter = limiter
        self._missing: dict[str, tuple[ClaimGrant, list[Bind]]] = {}
        self._of_pod: dict[PodUid, tuple[ClaimGrant, ...]] = {}
        for bind in placement.binds:
            for grant in bind.grants:
                self._missing.setdefault(grant.uid, (grant, []))[1].append(bind)

    @property
    def are_reserved(self) -> bool:
        return not self._missing

    async def reserve(self) -> None:
        """Reserve what is not reserved yet. Raises ClaimLost if a claim is lost, else the first other
        error."""
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

    def may_hold(self, pod: PodUid) -> bool:
        """Whether a claim may have been reserved for the pod."""
        return pod in self._of_pod

    async def give_back(self, bind: Bind | GiveBack) -> None:
        """Give back the claims of a pod that is not bound. It may be repeated after an error."""
        for grant in self._of_pod.get(bind.pod, ()):
            await self._limiter.acquire()
            await self._writer.give_back(grant, bind.pod)
        self._of_pod.pop(bind.pod, None)


class LeftoverClaims:
    """The claims of a pod that an earlier leader reserved and did not give back."""

    def __init__(self, writer: ClaimWriter, limiter: RateLimiter) -> None:
        self._writer = writer
        self._limiter = limiter

    async def give_back(self, held: Bind | GiveBack) -> None:
        """Give back the claims if the pod still waits. It may be repeated after an error."""
        await self._limiter.acquire()
        if isinstance(held, GiveBack) and await self._writer.is_waiting(held):
            for grant in held.grants:
                await self._limiter.acquire()
                await self._writer.give_back(grant, held.pod)
