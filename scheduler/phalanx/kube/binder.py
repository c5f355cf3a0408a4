"""Bind whole gangs: let their volumes be bound, record the placement, reserve their claims to devices, wait
for binding conditions, bind every pod.

A gang whose first bind was sent is completed; a gang that has not started can be aborted as a whole. All
binds share one priority queue: gangs in the order of submission, but the binds of a started gang before any
other gang, so that few gangs are partly bound at a time. A retry or a read waits outside the queue and blocks
no other work.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import structlog

from phalanx.kube.bind_jobs import GangJob, PodJob, Rank, UnboundJob
from phalanx.kube.binding import (
    OUTCOME_NAMES,
    PROVISIONING_FAILED,
    BindAborted,
    BinderCallbacks,
    BindOutcome,
    BindRefused,
    Bound,
    LeadershipLost,
    PodGroupRef,
    outcome_of,
    reason_of,
)
from phalanx.kube.decode import decoder_of
from phalanx.kube.devices.claim_documents import ClaimLost
from phalanx.kube.devices.claim_writer import ClaimWriter
from phalanx.kube.devices.device_waits import DevicesLate, DeviceWaits
from phalanx.kube.devices.gang_claims import GangClaims, LeftoverClaims
from phalanx.kube.errors import (
    NOT_APPLIED,
    PERHAPS_APPLIED,
    ApiError,
    Conflict,
    NotFound,
    TooManyRequests,
    is_refused,
    retry_after,
)
from phalanx.kube.flow_control import Backoff, RateLimiter
from phalanx.kube.placement_writer import PlacementWriter
from phalanx.kube.volume_binder import VolumeBinder, VolumeFailed, VolumeProgress, VolumesOutdated
from phalanx.kube.writing import WriteContext
from phalanx.limits import (
    BIND_ATTEMPTS_MAX,
    BIND_BACKOFF_FIRST_S,
    BIND_BACKOFF_LONGEST_S,
    CLAIM_CHECK_PERIOD_S,
    POD_BUSY_RETRY_S,
    THROTTLED_WAIT_S,
    WRITE_BURST,
    WRITE_CONCURRENCY,
    WRITE_TIMEOUT_S,
    WRITES_PER_SECOND,
)
from phalanx.model.api.core import Pod
from phalanx.model.api.kinds import KINDS
from phalanx.model.decisions import GiveBack, Placement, bind_annotations
from phalanx.model.events import ApiEvent
from phalanx.model.named_parts import plain
from phalanx.model.names import PodUid
from phalanx.ports import OutcomeUnknown, RequestNotSent

_log = structlog.get_logger(__name__)

_decode_pod: Final = decoder_of(Pod)
_STOPPING: Final = "the scheduler stops"


class Binder:
    """Accepts placements with `submit`, works while `run` runs, reports one BindOutcome per bind."""

    def __init__(
        self,
        context: WriteContext,
        callbacks: BinderCallbacks,
        *,
        concurrency: int = WRITE_CONCURRENCY,
        per_second: float = WRITES_PER_SECOND,
    ) -> None:
        """`concurrency` bounds the binds in flight, `per_second` their rate."""
        self.idle = asyncio.Event()
        """Set while no bind is open."""
        self.none_due = asyncio.Event()
        """Set while no bind can be sent: all that are open wait until claims of their gangs are bound."""
        self._waiting: set[PodUid] = set()
        """Pods with open binds whose gangs wait for volumes or devices, which may take minutes."""
        self._context = context
        self._client = context.client
        self._fence = context.fence
        self._reports = context.reports
        self._callbacks = callbacks
        self._concurrency = concurrency
        self._rate_limiter = RateLimiter(per_second=per_second, burst=WRITE_BURST, clock=context.clock)
        self._placements = PlacementWriter(context, callbacks, self._rate_limiter)
        self._volumes = VolumeBinder(context, callbacks.unbound_claims, self._rate_limiter)
        self._devices = DeviceWaits(context.clock, callbacks, self._put_gang)
        self._claim_writer = ClaimWriter(context, callbacks.on_claim)
        self._unbound: set[PodUid] = set()
        """Pods whose claims are being given back."""
        self._queue: asyncio.PriorityQueue[tuple[int, int, int, Any]] = asyncio.PriorityQueue()
        self._open: dict[PodUid, PodJob] = {}
        self._gangs = 0
        self._stopping = False
        self._throttled: PodUid | None = None
        self._check_idle()

    def submit(self, placement: Placement, *, pod_group: PodGroupRef | None = None) -> None:
        """Accept the binds of a gang and return at once; `pod_group` where the gang has such an object.

        While a bind of one of its pods is open, the other binds are aborted and the open ones continue.
        """
        claims = GangClaims(placement, self._claim_writer, self._rate_limiter)
        gang = GangJob(placement, pod_group, self._gangs, self._new_backoff(), claims)
        self._gangs += 1
        if any(bind.pod in self._open or bind.pod in self._unbound for bind in placement.binds):
            for bind in placement.binds:
                if bind.pod not in self._open:
                    aborted = BindAborted(bind, "another bind of the gang is still in progress")
                    self._callbacks.on_outcome(placement, aborted)
            return
        for index, bind in enumerate(placement.binds):
            self._open[bind.pod] = PodJob(gang, bind, index, self._new_backoff())
        if placement.binds:
            self._check_idle()
            self._reports.writes_pending("bind", len(self._open))
            self._put_gang(gang)

    def give_back(self, held: Iterable[GiveBack]) -> None:
        """Give back claims that are held for pods without a bind, unless that is in progress; it returns at
        once."""
        for each in held:
            if each.pod not in self._open and each.pod not in self._unbound:
                claims = LeftoverClaims(self._claim_writer, self._rate_limiter)
                self._unbind(UnboundJob(claims, each, (Rank.GANG, self._gangs, 0), self._new_backoff()))
                self._gangs += 1

    def withdraw(self, pods: Iterable[PodUid], reason: str) -> None:
        """End the placements of these pods if they wait for devices; return at once. Others continue."""
        gangs = {self._open[pod].gang for pod in pods if pod in self._open}
        for gang in sorted(gangs, key=lambda gang: gang.number):
            if gang.awaits_devices_since is not None and not gang.started:
                self._abort(gang, reason, is_withdrawn=True)

    def notice(self, event: ApiEvent) -> None:
        """Look again at gangs that wait for devices, if this event of the API concerns them."""
        self._devices.notice(event)

    def is_open(self, pod: PodUid) -> bool:
        """Whether a bind of this pod is in progress: nothing else may change the pod."""
        return pod in self._open

    async def run(self) -> None:
        """Work until cancelled. Requests in flight are cancelled too, so call `stop` first."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._concurrency):
                workers.create_task(self._work())

    async def stop(self, *, within: float) -> None:
        """Complete the started gangs, abort the others, and after `within` seconds abort the rest."""
        self._stopping = True
        self._devices.resume_all()
        try:
            async with asyncio.timeout(within):
                await self.idle.wait()
        except TimeoutError:
            for pod in tuple(self._open.values()):
                lost = LeadershipLost(pod.bind, sent=True)
                self._finish(pod, lost if pod.unknown else BindAborted(pod.bind, _STOPPING))

    async def _work(self) -> None:
        while True:
            _, _, _, job = await self._queue.get()
            if isinstance(job, VolumeProgress):
                await self._volumes.release(job)
            elif isinstance(job, GangJob):
                await self._start(job)
            elif isinstance(job, UnboundJob):
                await self._give_back(job)
            elif job.bind.pod in self._open:
                await self._advance(job)

    # --- gangs ---------------------------------------------------------------------------------------------

    async def _start(self, gang: GangJob) -> None:
        if self._has_unbound_volumes(gang) and not await self._bind_volumes(gang):
            return
        if self._is_prevented(gang):
            return
        if gang.placement_written and gang.claims.are_reserved:
            pods = self._pods_of(gang)
            for pod in () if self._must_wait(gang, pods) else pods:
                self._put(pod)
            return
        try:
            if gang.placement_written:
                await gang.claims.reserve()
            elif gang.pod_group is not None:
                await self._placements.write(gang, gang.pod_group)
            else:
                self._await_record(gang)
                return
        except ClaimLost as lost:
            self._abort(gang, str(lost))
            return
        except (ApiError, OutcomeUnknown, RequestNotSent, msgspec.MsgspecError) as error:
            self._not_written(gang, error)
            return
        gang.placement_written = True
        self._put_gang(gang)

    def _await_record(self, gang: GangJob) -> None:
        """Go on when the record of the gang is stored. Many gangs wait for one write, and no worker does."""

        def resume(error: Exception | None) -> None:
            if error is not None:
                self._not_written(gang, error)
                return
            gang.placement_written = True
            self._put_gang(gang)

        self._callbacks.when_recorded(gang.placement, resume)

    def _not_written(self, gang: GangJob, error: Exception) -> None:
        """Try again later, unless the API server will refuse it again."""
        if is_refused(error):
            self._abort(gang, f"{_step(gang)} cannot be written: {error}")
        else:
            gang.reads_version = True
            self._start_later(gang, error)

    def _has_unbound_volumes(self, gang: GangJob) -> bool:
        """Whether claims of the gang are not bound yet."""
        progress = gang.volumes
        if (
            not progress.are_bound
            and progress.since is None
            and not self._volumes.are_unbound(gang.placement)
        ):
            progress.are_bound = True
        return not progress.are_bound

    async def _bind_volumes(self, gang: GangJob) -> bool:
        """Take a step for the claims of the gang; whether all are bound, so that its pods may be.

        The placement is checked before the first write, and again when all claims are bound.
        """
        waits = gang.volumes.since is not None
        if (self._must_end(gang) if waits else self._is_prevented(gang)) or not self._pods_of(gang):
            return False
        try:
            await self._volumes.advance(gang.placement, gang.volumes)
        except VolumesOutdated as error:
            self._abort(gang, str(error))
        except VolumeFailed as error:
            for pod in self._pods_of(gang):
                is_cause = pod.bind.pod == error.bind.pod
                refused = BindRefused(pod.bind, PROVISIONING_FAILED, str(error))
                self._finish(pod, refused if is_cause else BindAborted(pod.bind, str(error)))
            self._release_volumes(gang)
        else:
            if gang.volumes.are_bound:
                self._waiting.difference_update(pod.bind.pod for pod in self._pods_of(gang))
            else:
                self._waiting.update(pod.bind.pod for pod in self._pods_of(gang))
                asyncio.get_running_loop().call_later(CLAIM_CHECK_PERIOD_S, self._put_gang, gang)
            self._check_idle()
        return gang.volumes.are_bound

    def _must_end(self, gang: GangJob) -> bool:
        """Whether leadership has ended or the scheduler stops; the gang is then finished.

        The next leader finds the selected nodes of the claims and goes on with them.
        """
        if not self._fence.may_write():
            for pod in self._pods_of(gang):
                self._finish(pod, LeadershipLost(pod.bind, sent=False))
            return True
        if self._stopping:
            self._abort(gang, _STOPPING)
        return self._stopping

    def _release_volumes(self, gang: GangJob) -> None:
        if gang.volumes.written:
            self._queue.put_nowait((Rank.GANG, gang.number, 0, gang.volumes))

    def _is_prevented(self, gang: GangJob) -> bool:
        """Check leadership and placement before the PodGroup is written, and again before the first bind.

        The gang may have waited in the queue for both. A gang that must not start is finished here.
        """
        if self._must_end(gang):
            return True
        objection = self._callbacks.check.gang(gang.placement)
        if objection is not None:
            self._abort(gang, objection)
        return objection is not None

    def _must_wait(self, gang: GangJob, pods: Sequence[PodJob]) -> bool:
        """Whether devices of the gang are not ready. It is started again when they are, or never will be."""
        try:
            waits = self._devices.hold(gang, [pod.bind for pod in pods])
        except DevicesLate as late:
            self._abort(gang, str(late))
            return True
        (self._waiting.update if waits else self._waiting.difference_update)(pod.bind.pod for pod in pods)
        self._check_idle()
        return waits

    def _start_later(self, gang: GangJob, error: Exception) -> None:
        gang.attempts += 1
        if gang.attempts >= BIND_ATTEMPTS_MAX:
            self._abort(gang, f"{_step(gang)} cannot be written: {error}")
            return
        gang.log.debug("writing the placement failed, retrying", error=str(error))
        delay = gang.backoff.next(at_least=retry_after(error))
        asyncio.get_running_loop().call_later(delay, self._put_gang, gang)

    def _abort(self, gang: GangJob, reason: str, *, is_withdrawn: bool = False) -> None:
        gang.log.info("gang binding aborted", reason=plain(reason))
        for pod in self._pods_of(gang):
            self._finish(pod, BindAborted(pod.bind, reason, is_withdrawn))
        if reason != _STOPPING:
            self._release_volumes(gang)

    def _pods_of(self, gang: GangJob) -> list[PodJob]:
        pods = (self._open.get(bind.pod) for bind in gang.placement.binds)
        return [pod for pod in pods if pod is not None and pod.gang is gang]

    # --- pods ----------------------------------------------------------------------------------------------

    async def _advance(self, pod: PodJob) -> None:
        """Take the next step of one bind."""
        if pod.unknown:
            await self._read(pod)
            return
        await self._rate_limiter.acquire()
        if not self._fence.may_write():
            self._finish(pod, LeadershipLost(pod.bind, sent=False))
        elif self._stopping and not pod.gang.started:
            self._finish(pod, BindAborted(pod.bind, _STOPPING))
        elif (objection := self._callbacks.check.bind(pod.gang.placement, pod.bind)) is not None:
            self._finish(pod, BindAborted(pod.bind, objection))
        elif not self._callbacks.try_acquire(pod.bind.pod):
            self._put_later(pod, POD_BUSY_RETRY_S)
        else:
            await self._send(pod)

    async def _send(self, pod: PodJob) -> None:
        bind = pod.bind
        pod.gang.started = True
        pod.attempts += 1
        pod.unknown = True  # until an answer arrives, also when this task is cancelled
        pod.first_sent = pod.first_sent or self._context.clock.monotonic()
        pod.gang.log.debug(
            "bind sent", pod=pod.name, node=bind.node, pods_version=self._callbacks.pods_version()
        )
        try:
            annotations = bind_annotations(pod.gang.placement, bind)
            await self._client.bind(bind, annotations=annotations, timeout=self._context.timeout())
        except (Conflict, NotFound) as error:
            pod.refusal = error
            await self._read(pod)
        except NOT_APPLIED as error:
            pod.unknown = False
            self._retry(pod, error)
        except PERHAPS_APPLIED as error:
            self._retry(pod, error)
        except ApiError as error:
            self._finish(pod, BindRefused(bind, error.reason, error.message))
        else:
            self._throttled = None
            self._finish(pod, Bound(bind))

    def _retry(self, pod: PodJob, error: Exception) -> None:
        self._reports.bind_retried(type(error).__name__)
        if pod.attempts >= BIND_ATTEMPTS_MAX and not pod.unknown:
            message = f"given up after {pod.attempts} attempts: {error}"
            self._finish(pod, BindRefused(pod.bind, "GaveUp", message))
            return
        wait = retry_after(error)
        if isinstance(error, TooManyRequests):
            wait = wait or THROTTLED_WAIT_S
            self._pause_if_not_alone(pod, wait)
        pod.gang.log.debug("bind failed, retrying", pod=pod.name, error=str(error))
        self._put_later(pod, pod.backoff.next(at_least=wait))

    def _pause_if_not_alone(self, pod: PodJob, wait: float) -> None:
        """Pause all binds when two different pods in a row are throttled: the limit is on this client."""
        if self._throttled not in (None, pod.bind.pod):
            self._rate_limiter.pause(wait)
        self._throttled = pod.bind.pod

    async def _read(self, pod: PodJob) -> None:
        """Read the pod to learn the outcome of its bind; repeated until the API server answers.

        Also while it may not write: the lease may be renewed again, and nobody else would learn the outcome.
        """
        bind = pod.bind
        path = KINDS["Pod"].path(namespace=bind.namespace, name=bind.name)
        try:
            found = await self._client.get(path, _decode_pod, timeout=WRITE_TIMEOUT_S)
        except NotFound as error:
            self._finish(pod, BindRefused(bind, error.reason, error.message))
        except (ApiError, OutcomeUnknown, RequestNotSent, msgspec.MsgspecError) as error:
            pod.gang.log.info("reading the pod failed, retrying", pod=pod.name, error=str(error))
            self._put_later(pod, pod.backoff.next(at_least=retry_after(error)))
        else:
            self._conclude(pod, found)

    def _conclude(self, pod: PodJob, found: Pod) -> None:
        outcome = outcome_of(pod.bind, found, pod.refusal)
        if outcome is not None:
            self._finish(pod, outcome)
        elif pod.attempts >= BIND_ATTEMPTS_MAX:
            message = f"not bound after {pod.attempts} attempts"
            self._finish(pod, BindRefused(pod.bind, "GaveUp", message, found))
        else:
            pod.unknown = False
            self._put(pod)

    def _put_later(self, pod: PodJob, delay: float) -> None:
        asyncio.get_running_loop().call_later(delay, self._put, pod)

    def _put(self, pod: PodJob) -> None:
        self._queue.put_nowait((Rank.BIND, pod.gang.number, pod.index, pod))

    def _put_gang(self, gang: GangJob) -> None:
        self._queue.put_nowait((Rank.GANG, gang.number, 0, gang))

    def _finish(self, pod: PodJob, outcome: BindOutcome) -> None:
        if self._open.pop(pod.bind.pod, None) is None:
            return
        self._waiting.discard(pod.bind.pod)
        self._devices.end(pod.gang)
        seconds = self._context.clock.monotonic() - pod.first_sent if pod.first_sent else 0.0
        self._reports.writes_pending("bind", len(self._open))
        self._reports.bind_finished(OUTCOME_NAMES[type(outcome)], seconds=seconds)
        if not isinstance(outcome, Bound):
            pod.gang.log.info("pod not bound", pod=pod.name, node=pod.bind.node, reason=reason_of(outcome))
        # the next leader owns the claims of a pod that may be bound after all
        is_decided = not isinstance(outcome, (Bound, LeadershipLost))
        if is_decided and pod.gang.claims.may_hold(pod.bind.pod):
            order = (Rank.BIND, pod.gang.number, -1 - pod.index)
            self._unbind(UnboundJob(pod.gang.claims, pod.bind, order, self._new_backoff()))
        self._check_idle()
        self._callbacks.on_outcome(pod.gang.placement, outcome)

    # --- claims of pods that are not bound -----------------------------------------------------------------

    async def _give_back(self, unbound: UnboundJob) -> None:
        """Give back the claims of a pod. Without leadership they remain: the next leader owns them."""
        unbound.attempts += 1
        try:
            await unbound.claims.give_back(unbound.bind)
        except (ApiError, OutcomeUnknown, RequestNotSent, msgspec.MsgspecError) as error:
            if self._fence.may_write() and unbound.attempts < BIND_ATTEMPTS_MAX:
                delay = unbound.backoff.next(at_least=retry_after(error))
                asyncio.get_running_loop().call_later(delay, self._put_unbound, unbound)
                return
            name = f"{unbound.bind.namespace}/{unbound.bind.name}"
            _log.warning("claims of a pod remain reserved", pod=name, error=str(error))
        self._unbound.discard(unbound.bind.pod)
        self._check_idle()

    def _unbind(self, unbound: UnboundJob) -> None:
        self._unbound.add(unbound.bind.pod)
        self._check_idle()
        self._put_unbound(unbound)

    def _put_unbound(self, unbound: UnboundJob) -> None:
        self._queue.put_nowait((*unbound.rank, unbound))

    def _check_idle(self) -> None:
        _set_or_clear(self.idle, is_set=not self._open and not self._unbound)
        _set_or_clear(self.none_due, is_set=len(self._waiting) == len(self._open) and not self._unbound)

    def _new_backoff(self) -> Backoff:
        return self._context.backoff(first=BIND_BACKOFF_FIRST_S, longest=BIND_BACKOFF_LONGEST_S)


def _set_or_clear(event: asyncio.Event, *, is_set: bool) -> None:
    if is_set:
        event.set()
    else:
        event.clear()


def _step(gang: GangJob) -> str:
    if gang.placement_written:
        return "the claims"
    return "the gang's record" if gang.pod_group is None else "the PodGroup's status"
