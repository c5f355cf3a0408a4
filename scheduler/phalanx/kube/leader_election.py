"""Leader election by a Lease: the holder works, other candidates wait until it is released or expires.

Two rules prevent two leaders from writing at once. A leader stops writing `renew_deadline` after the start of
its last successful renewal, by its own monotonic clock; other candidates wait `duration`, which is longer,
after the last change that they saw. Wall-clock times in the Lease are informative only. The difference of the
two durations tolerates clocks that run at different rates.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
import structlog
from msgspec import Struct

from phalanx.clock import Clock
from phalanx.kube.api_fields import format_micro_time
from phalanx.kube.client import Client, Patch
from phalanx.kube.errors import ApiError, Conflict, NotFound
from phalanx.limits import LEASE_ATTEMPT_TIMEOUT_S, LEASE_DURATION_S, LEASE_RENEW_DEADLINE_S
from phalanx.model.api.core import Lease, LeaseSpec
from phalanx.model.api.kinds import KINDS
from phalanx.observe.ports import LeaseReports
from phalanx.ports import OutcomeUnknown, RequestNotSent

_LEASE_WRITE_MARGIN_S: Final = 1.0
"""Seconds before the renew deadline when no new write starts. Each write has this long for its response."""

_LEASE_RETRY_PERIOD_S: Final = 2.0
"""Seconds between two attempts to acquire or renew the Lease."""

_LEASE_FAILED_PAUSE_S: Final = 0.25
"""Seconds after a failed renewal. A restarting API server should not cost the leader its Lease."""

_log = structlog.get_logger(__name__)

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Lease).decode
_FAILED: Final = (ApiError, OutcomeUnknown, RequestNotSent, msgspec.MsgspecError)


class LostLease(Exception):
    """Leadership was lost while work was still in progress."""


class Identity(Struct, frozen=True):
    """The name of a replica, unique to the process, and the Lease that all replicas share."""

    name: str
    lease_namespace: str
    lease_name: str = "phalanx"


class LeaseTimes(Struct, frozen=True):
    """Durations in seconds. `duration` is rounded up to whole seconds in the object, as the API requires."""

    duration: float = LEASE_DURATION_S
    renew_deadline: float = LEASE_RENEW_DEADLINE_S
    retry_period: float = _LEASE_RETRY_PERIOD_S
    failed_pause: float = _LEASE_FAILED_PAUSE_S
    attempt_timeout: float = LEASE_ATTEMPT_TIMEOUT_S
    write_margin: float = _LEASE_WRITE_MARGIN_S


DEFAULT_TIMES: Final = LeaseTimes()


class Leadership:
    """One candidate, and the Fence of all writers.

    Its client needs a connection of its own, so that many binds do not delay a renewal.
    """

    def __init__(
        self,
        *,
        client: Client,
        identity: Identity,
        clock: Clock,
        reports: LeaseReports,
        jitter: Callable[[], float],
        times: LeaseTimes = DEFAULT_TIMES,
    ) -> None:
        """`jitter` returns random numbers in [0, 1)."""
        self.leading = asyncio.Event()
        """Set while this candidate leads."""
        self.lost = asyncio.Event()
        """Set once this candidate has led and leads no more."""
        self.uid = ""
        """The UID of the Lease, once this candidate has led."""
        self.epoch = 0
        """The number of transitions of the Lease: the leader's term."""
        namespace, name = identity.lease_namespace, identity.lease_name
        self._client = client
        self._collection = KINDS["Lease"].path(namespace=namespace)
        self._path = KINDS["Lease"].path(namespace=namespace, name=name)
        self._name = name
        self._identity = identity.name
        self._clock = clock
        self._reports = reports
        self._jitter = jitter
        self._times = times
        self._version = ""
        self._deadline = 0.0
        self._seen: LeaseSpec | None = None
        self._seen_at = 0.0
        self._log = _log.bind(lease=f"{namespace}/{name}", identity=identity.name)

    def may_write(self) -> bool:
        """Whether a write may be sent now, with time left for its answer."""
        return self.leading.is_set() and self.remaining() >= self._times.write_margin

    def remaining(self) -> float:
        """Seconds until this leader must have stopped writing."""
        return self._deadline - self._clock.monotonic()

    async def run(
        self, work: Callable[[], Awaitable[None]], *, on_waiting: Callable[[], None] = lambda: None
    ) -> None:
        """Wait for leadership, then do `work` while it lasts, and release the Lease in any case.

        `on_waiting` is called once where the Lease cannot be acquired at once: another candidate may hold it
        for long. Returns when `work` returns, raises what `work` raises. Raises LostLease after cancelling
        `work`.
        """
        if not await self._attempt():
            on_waiting()
            await self._campaign()
        self._begin()
        try:
            await self._lead(work)
        finally:
            self._end()
            await self._release()

    async def _lead(self, work: Callable[[], Awaitable[None]]) -> None:
        worker = asyncio.ensure_future(work())
        renewer = asyncio.create_task(self._keep_renewed())
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
        self._reports.leadership_changed(leading=True)
        self._log.info("became leader", epoch=self.epoch)

    def _end(self) -> None:
        if self.leading.is_set():
            self.leading.clear()
            self.lost.set()
            self._reports.leadership_changed(leading=False)
            self._log.info("stopped leading", epoch=self.epoch)

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
            self._log.info("lease acquired by another candidate")
        except _FAILED as error:
            self._log.warning("lease not acquired", error=str(error))
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
        if lease.spec.holder_identity and not self._has_expired(lease.spec):
            return False
        await self._write(
            self._spec(transitions=(lease.spec.lease_transitions or 0) + 1),
            version=lease.metadata.resource_version,
        )
        return True

    def _has_expired(self, spec: LeaseSpec) -> bool:
        """Whether the Lease expired: its duration has passed on our monotonic clock since it changed."""
        if spec.holder_identity == self._identity:
            return True
        if spec != self._seen:
            self._seen, self._seen_at = spec, self._clock.monotonic()
        duration = spec.lease_duration_seconds or self._times.duration
        return self._clock.monotonic() >= self._seen_at + duration

    # --- staying the leader --------------------------------------------------------------------------------

    async def _keep_renewed(self) -> None:
        """Renew the Lease until it cannot be renewed in time. Raises LostLease."""
        planned = self._clock.monotonic() + self._times.retry_period
        while True:
            await asyncio.sleep(min(planned - self._clock.monotonic(), self.remaining()))
            if self.remaining() <= 0:
                raise LostLease(f"the lease was not renewed for {self._times.renew_deadline} s")
            try:
                await self._renew()
            except _FAILED as error:
                self._log.warning("lease not renewed", error=str(error))
                self._version = ""
                pause = min(self._times.failed_pause, self._times.retry_period)
            else:
                self._reports.lease_renewed(delay_s=max(0.0, self._clock.monotonic() - planned))
                pause = self._times.retry_period
            planned = self._clock.monotonic() + pause

    async def _renew(self) -> None:
        """Renew once; read first where the last answer is unknown. Raises LostLease when another holds it."""
        if not self._version:
            self._version = await self._present_version(self._attempt_timeout())
        await self._write({"renewTime": format_micro_time(self._clock.now_ms())}, version=self._version)

    async def _present_version(self, timeout: float) -> str:
        """The version of the Lease in the API. Raises LostLease when another holds it."""
        lease = await self._client.get(self._path, _decode, timeout=timeout)
        if lease.spec.holder_identity != self._identity or lease.spec.lease_transitions != self.epoch:
            raise LostLease(f"the lease is held by {lease.spec.holder_identity or 'no candidate'}")
        return lease.metadata.resource_version

    async def _release(self) -> None:
        """Release the Lease, so that the next leader starts at once; if that fails, the Lease expires."""
        if not self._version:
            return
        version, self._version = self._version, ""
        try:
            try:
                await self._give_up(version)
            except Conflict:  # a renewal that was on its way has been written
                await self._give_up(await self._present_version(self._times.attempt_timeout))
        except (LostLease, *_FAILED) as error:
            self._log.info("lease not released", error=str(error))

    async def _give_up(self, version: str) -> None:
        spec = {
            "holderIdentity": None,
            "leaseDurationSeconds": 1,
            "renewTime": format_micro_time(self._clock.now_ms()),
        }
        body = _encode({"metadata": {"resourceVersion": version}, "spec": spec})
        await self._client.patch(self._path, body, how=Patch.MERGE, timeout=self._times.attempt_timeout)

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
        """Write the Lease; the deadline counts from before the request, the earliest time it was applied."""
        started = self._clock.monotonic()
        body = _encode({"metadata": {"resourceVersion": version}, "spec": spec})
        timeout = self._attempt_timeout() if self.leading.is_set() else self._times.attempt_timeout
        self._adopt(await self._client.patch(self._path, body, how=Patch.MERGE, timeout=timeout), started)

    def _adopt(self, body: bytes, started: float) -> None:
        lease = _decode(body)
        self.uid = lease.metadata.uid
        self._version = lease.metadata.resource_version
        self._deadline = started + self._times.renew_deadline
        self.epoch = lease.spec.lease_transitions or 0

    def _attempt_timeout(self) -> float:
        return max(0.001, min(self._times.attempt_timeout, self.remaining()))


async def _cancelled(task: "asyncio.Future[Any]") -> None:
    """Cancel a task and wait for it; its own failure was reported before or no longer matters."""
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()
