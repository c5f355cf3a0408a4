"""Leadership by a Lease: who holds it works, everybody else waits until it is given up or runs out.

Two rules keep two leaders from writing. A leader stops writing `renew_deadline` after the start of its last
successful renewal, by its own monotonic clock; others wait `duration`, which is longer, after the last change
that they saw. Wall-clock times in the Lease are for people. Clocks that run at different rates are covered as
far as the difference of the two durations goes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
import structlog
from msgspec import Struct

from phalanx.clock import Clock
from phalanx.kube.client import Client, Patch
from phalanx.kube.errors import ApiError, Conflict, NotFound
from phalanx.kube.timestamps import format_micro_time
from phalanx.limits import (
    LEASE_ATTEMPT_TIMEOUT_S,
    LEASE_DURATION_S,
    LEASE_FAILED_PAUSE_S,
    LEASE_RENEW_DEADLINE_S,
    LEASE_RETRY_PERIOD_S,
    LEASE_WRITE_MARGIN_S,
)
from phalanx.model.api.core import Lease, LeaseSpec
from phalanx.model.api.kinds import KINDS
from phalanx.observe.ports import LeaseReports
from phalanx.ports import OutcomeUnknown, RequestNotSent

_log = structlog.get_logger(__name__)

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Lease).decode
_FAILED: Final = (ApiError, OutcomeUnknown, RequestNotSent, msgspec.MsgspecError)


class LostLease(Exception):
    """Leadership has ended against our will."""


class LeaseTimes(Struct, frozen=True):
    """Seconds. `duration` is rounded up to whole seconds in the object, as the API wants it."""

    duration: float = LEASE_DURATION_S
    renew_deadline: float = LEASE_RENEW_DEADLINE_S
    retry_period: float = LEASE_RETRY_PERIOD_S
    failed_pause: float = LEASE_FAILED_PAUSE_S
    attempt_timeout: float = LEASE_ATTEMPT_TIMEOUT_S
    write_margin: float = LEASE_WRITE_MARGIN_S


DEFAULT_TIMES: Final = LeaseTimes()


class Leadership:
    """One candidate. Its client has a connection of its own, so that no storm of binds delays a renewal.

    `leading` is set while this candidate leads, `lost` once it has led and does not any more. It is the Fence
    of everything that writes.
    """

    def __init__(
        self,
        *,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock,
        reports: LeaseReports,
        jitter: Callable[[], float],
        times: LeaseTimes = DEFAULT_TIMES,
    ) -> None:
        """`identity` is unique to this process. `jitter` gives numbers in [0, 1)."""
        self.leading = asyncio.Event()
        self.lost = asyncio.Event()
        self.epoch = 0
        self._client = client
        self._collection = KINDS["Lease"].path(namespace=namespace)
        self._path = KINDS["Lease"].path(namespace=namespace, name=name)
        self._name = name
        self._identity = identity
        self._clock = clock
        self._reports = reports
        self._jitter = jitter
        self._times = times
        self._version = ""
        self._deadline = 0.0
        self._seen: LeaseSpec | None = None
        self._seen_at = 0.0
        self._log = _log.bind(lease=f"{namespace}/{name}", identity=identity)

    def may_write(self) -> bool:
        """Whether a write may be sent now; there is time for its answer."""
        return self.leading.is_set() and self.remaining() >= self._times.write_margin

    def remaining(self) -> float:
        """Seconds until this leader must have stopped writing."""
        return self._deadline - self._clock.monotonic()

    async def run(
        self, work: Callable[[], Awaitable[None]], *, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        """Wait for leadership, then do `work` while it lasts; the Lease is given back however that ends.

        `meanwhile` is called once where the Lease cannot be had at once: somebody else may hold it for long.
        Returns when `work` returns, raises what `work` raises. Raises LostLease after cancelling `work`.
        """
        if not await self._attempt():
            meanwhile()
            await self._campaign()
        self._begin()
        try:
            await self._lead(work)
        finally:
            self._end()
            await self._release()

    async def _lead(self, work: Callable[[], Awaitable[None]]) -> None:
        worker = asyncio.ensure_future(work())
        renewer = asyncio.create_task(self._keep())
        try:
            await asyncio.wait((worker, renewer), return_when=asyncio.FIRST_COMPLETED)
            if worker.done():
                worker.result()
            else:
                self._end()
                renewer.result()
        finally:
            await _cancelled(renewer)
            await _cancelled(worker)

    def _begin(self) -> None:
        self.lost.clear()
        self.leading.set()
        self._reports.leading(True)
        self._log.info("leading", epoch=self.epoch)

    def _end(self) -> None:
        if self.leading.is_set():
            self.leading.clear()
            self.lost.set()
            self._reports.leading(False)
            self._log.info("not leading any more", epoch=self.epoch)

    # --- becoming the leader -------------------------------------------------------------------------------

    async def _campaign(self) -> None:
        while True:
            await asyncio.sleep(self._times.retry_period * (1 + 0.2 * self._jitter()))
            if await self._attempt():
                return

    async def _attempt(self) -> bool:
        try:
            return await self._try_to_acquire()
        except Conflict:
            self._log.info("another candidate was faster")
        except _FAILED as error:
            self._log.warning("lease not acquired", why=str(error))
        return False

    async def _try_to_acquire(self) -> bool:
        started = self._clock.monotonic()
        try:
            lease = await self._client.get(self._path, _decode, timeout=self._times.attempt_timeout)
        except NotFound:
            body = _encode({"metadata": {"name": self._name}, "spec": self._spec(transitions=0)})
            self._adopt(
                await self._client.create(self._collection, body, timeout=self._times.attempt_timeout),
                started,
            )
            return True
        if lease.spec.holder_identity and not self._has_run_out(lease.spec):
            return False
        await self._write(
            self._spec(transitions=(lease.spec.lease_transitions or 0) + 1),
            version=lease.metadata.resource_version,
        )
        return True

    def _has_run_out(self, spec: LeaseSpec) -> bool:
        """By our clock, since we saw it change: nobody else's clock is asked."""
        if spec.holder_identity == self._identity:
            return True
        if spec != self._seen:
            self._seen, self._seen_at = spec, self._clock.monotonic()
        duration = spec.lease_duration_seconds or self._times.duration
        return self._clock.monotonic() >= self._seen_at + duration

    # --- staying the leader --------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Renew until it cannot be done any more. Raises LostLease."""
        planned = self._clock.monotonic() + self._times.retry_period
        while True:
            await asyncio.sleep(min(planned - self._clock.monotonic(), self.remaining()))
            if self.remaining() <= 0:
                raise LostLease(f"not renewed for {self._times.renew_deadline} s")
            try:
                await self._renew()
            except _FAILED as error:
                self._log.warning("lease not renewed", why=str(error))
                self._version = ""
                pause = min(self._times.failed_pause, self._times.retry_period)
            else:
                self._reports.lease_renewed(late_s=max(0.0, self._clock.monotonic() - planned))
                pause = self._times.retry_period
            planned = self._clock.monotonic() + pause

    async def _renew(self) -> None:
        """Reads first when the last answer is not known. Raises LostLease when somebody else holds it."""
        if not self._version:
            lease = await self._client.get(self._path, _decode, timeout=self._attempt_timeout())
            if lease.spec.holder_identity != self._identity or lease.spec.lease_transitions != self.epoch:
                raise LostLease(f"held by {lease.spec.holder_identity or 'nobody'}")
            self._version = lease.metadata.resource_version
        await self._write({"renewTime": format_micro_time(self._clock.now_ms())}, version=self._version)

    async def _release(self) -> None:
        """Let the next leader begin at once. Whatever goes wrong, the Lease runs out by itself."""
        if not self._version:
            return
        spec = {
            "holderIdentity": None,
            "leaseDurationSeconds": 1,
            "renewTime": format_micro_time(self._clock.now_ms()),
        }
        body = _encode({"metadata": {"resourceVersion": self._version}, "spec": spec})
        self._version = ""
        try:
            await self._client.patch(self._path, body, how=Patch.MERGE, timeout=self._times.attempt_timeout)
        except _FAILED as error:
            self._log.info("lease not released", why=str(error))

    # --- both ----------------------------------------------------------------------------------------------

    def _spec(self, *, transitions: int) -> dict[str, Any]:
        now = format_micro_time(self._clock.now_ms())
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(-(-self._times.duration // 1)),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    async def _write(self, spec: dict[str, Any], *, version: str) -> None:
        """The deadline counts from before the request: the Lease may have been written that early."""
        started = self._clock.monotonic()
        body = _encode({"metadata": {"resourceVersion": version}, "spec": spec})
        timeout = self._attempt_timeout() if self.leading.is_set() else self._times.attempt_timeout
        self._adopt(await self._client.patch(self._path, body, how=Patch.MERGE, timeout=timeout), started)

    def _adopt(self, body: bytes, started: float) -> None:
        lease = _decode(body)
        self._version = lease.metadata.resource_version
        self._deadline = started + self._times.renew_deadline
        self.epoch = lease.spec.lease_transitions or 0

    def _attempt_timeout(self) -> float:
        return max(0.001, min(self._times.attempt_timeout, self.remaining()))


async def _cancelled(task: "asyncio.Future[Any]") -> None:
    """End a task and wait for it; its own failure has been reported or does not matter any more."""
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()
