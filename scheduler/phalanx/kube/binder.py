"""Bind whole gangs: prepare what supplies need before and after the record, record the placement, bind every
pod.

A gang whose first bind was sent is completed; a gang that has not started can be aborted as a whole. All
binds share one priority queue: gangs in the order of submission, but the binds of a started gang before any
other gang, so that few gangs are partly bound at a time. A retry or a read waits outside the queue and blocks
no other work.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import structlog

from phalanx.kube.bind_jobs import GangJob, PodJob, Rank, UnboundJob
from phalanx.kube.binding import (
    OUTCOME_NAMES,
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
from phalanx.kube.preparation import Preparation, Preparer, PreparerType, Progress, Unprepared
from phalanx.kube.preparers import preparers as known_preparers
from phalanx.kube.writing import WriteContext
from phalanx.limits import (
    BIND_ATTEMPTS_MAX,
    BIND_BACKOFF_FIRST_S,
    BIND_BACKOFF_LONGEST_S,
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
from phalanx.model.overridden_methods import overrides
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
        preparers: Sequence[PreparerType] | None = None,
    ) -> None:
        """`concurrency` bounds the binds in flight, `per_second` their rate. `preparers` None: all that are
        installed."""
        self.idle = asyncio.Event()
        """Set while no bind is open."""
        self.none_due = asyncio.Event()
        """Set while no bind can be sent: all that are open wait for other programs."""
        self._waiting: set[PodUid] = set()
        """Pods with open binds whose gangs wait for other programs, which may take minutes."""
        self._context = context
        self._client = context.client
        self._fence = context.fence
        self._reports = context.reports
        self._callbacks = callbacks
        self._concurrency = concurrency
        self._rate_limiter = RateLimiter(per_second=per_second, burst=WRITE_BURST, clock=context.clock)
        self._placements = PlacementWriter(context, callbacks, self._rate_limiter)
        self._preparers = [
            new(context, callbacks, self._rate_limiter)
            for new in (known_preparers() if preparers is None else preparers)
        ]
        self._noticing = [each for each in self._preparers if overrides(type(each), "notice", Preparer)]
        self._unbound: set[PodUid] = set()
        """Pods for which something is being given back."""
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
        gang = GangJob(placement, pod_group, self._gangs, self._new_backoff())
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
            resume = partial(self._put_gang, gang)
            found = (each.prepare(placement, resume, gang.log) for each in self._preparers)
            gang.preparations = tuple([each for each in found if each is not None])
            gang.left = list(gang.preparations)
            self._check_idle()
            self._reports.writes_pending("bind", len(self._open))
            self._put_gang(gang)

    def give_back(self, held: Iterable[GiveBack]) -> None:
        """Give back what is held for pods without a bind, unless that is in progress; it returns at once."""
        for each in held:
            if each.pod not in self._open and each.pod not in self._unbound:
                steps = [partial(preparer.give_back, each) for preparer in self._preparers]
                self._unbind(UnboundJob(each, steps, (Rank.GANG, self._gangs, 0), self._new_backoff()))
                self._gangs += 1

    def withdraw(self, pods: Iterable[PodUid], reason: str) -> None:
        """End the placements of these pods, if what they wait for allows it; return at once."""
        gangs = {self._open[pod].gang for pod in pods if pod in self._open}
        for gang in sorted(gangs, key=lambda gang: gang.number):
            if not gang.started and any(each.may_be_withdrawn for each in gang.preparations):
                self._abort(gang, reason, is_withdrawn=True)

    def notice(self, event: ApiEvent) -> None:
        """Look again at gangs that wait, if this event of the API concerns them."""
        for preparer in self._noticing:
            preparer.notice(event)

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
        for preparer in self._preparers:
            preparer.resume_all()
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
            if isinstance(job, Preparation):
                await job.release()
            elif isinstance(job, GangJob):
                await self._start(job)
            elif isinstance(job, UnboundJob):
                await self._give_back(job)
            elif job.bind.pod in self._open:
                await self._advance(job)

    # --- gangs ---------------------------------------------------------------------------------------------

    async def _start(self, gang: GangJob) -> None:
        """Take the next steps of a gang, until it has to wait or its pods are bound."""
        for preparation in [each for each in gang.left if each.precedes_record]:
            is_prevented = self._must_end(gang) if preparation.waits else self._is_prevented(gang)
            if is_prevented or not await self._prepare(gang, preparation):
                return
        if self._is_prevented(gang):
            return
        if not gang.placement_written:
            await self._record(gang)
            return
        for preparation in tuple(gang.left):
            if not await self._prepare(gang, preparation):
                return
        for pod in self._pods_of(gang):
            self._put(pod)

    async def _prepare(self, gang: GangJob, preparation: Preparation) -> bool:
        """Take a step of a preparation; whether it is done. If not, the gang starts again later."""
        binds = [pod.bind for pod in self._pods_of(gang)]
        if not binds:
            return False
        try:
            progress = await preparation.advance(binds)
        except Unprepared as error:
            self._not_prepared(gang, error)
            return False
        except (ApiError, OutcomeUnknown, RequestNotSent, msgspec.MsgspecError) as error:
            self._not_written(gang, preparation.what, error)
            return False
        pods = [pod.bind.pod for pod in self._pods_of(gang)]
        (self._waiting.update if progress is Progress.LATER else self._waiting.difference_update)(pods)
        self._check_idle()
        if progress is Progress.DONE:
            gang.left.remove(preparation)
        elif progress is Progress.AGAIN:
            self._put_gang(gang)
        return progress is Progress.DONE

    def _not_prepared(self, gang: GangJob, error: Unprepared) -> None:
        if error.bind is None:
            self._abort(gang, str(error))
            return
        for pod in self._pods_of(gang):
            is_cause = pod.bind.pod == error.bind.pod
            refused = BindRefused(pod.bind, error.reason, str(error))
            self._finish(pod, refused if is_cause else BindAborted(pod.bind, str(error)))
        self._release(gang)

    async def _record(self, gang: GangJob) -> None:
        """Store the placement and the record of the gang; the gang then starts again."""
        if gang.pod_group is None:
            self._await_record(gang)
            return
        try:
            await self._placements.write(gang, gang.pod_group)
        except (ApiError, OutcomeUnknown, RequestNotSent, msgspec.MsgspecError) as error:
            self._not_written(gang, "the PodGroup's status", error)
            return
        gang.placement_written = True
        self._put_gang(gang)

    def _await_record(self, gang: GangJob) -> None:
        """Go on when the record of the gang is stored. Many gangs wait for one write, and no worker does."""

        def resume(error: Exception | None) -> None:
            if error is not None:
                self._not_written(gang, "the gang's record", error)
                return
            gang.placement_written = True
            self._put_gang(gang)

        self._callbacks.when_recorded(gang.placement, resume)

    def _not_written(self, gang: GangJob, what: str, error: Exception) -> None:
        """Try again later, unless the API server will refuse it again."""
        gang.attempts += 1
        if is_refused(error) or gang.attempts >= BIND_ATTEMPTS_MAX:
            self._abort(gang, f"{what} cannot be written: {error}")
            return
        gang.reads_version = True
        gang.log.debug("writing the placement failed, retrying", error=str(error))
        delay = gang.backoff.next(at_least=retry_after(error))
        asyncio.get_running_loop().call_later(delay, self._put_gang, gang)

    def _must_end(self, gang: GangJob) -> bool:
        """Whether leadership has ended or the scheduler stops; the gang is then finished."""
        if not self._fence.may_write():
            for pod in self._pods_of(gang):
                self._finish(pod, LeadershipLost(pod.bind, sent=False))
            return True
        if self._stopping:
            self._abort(gang, _STOPPING)
        return self._stopping

    def _release(self, gang: GangJob) -> None:
        for index, preparation in enumerate(gang.preparations):
            if preparation.has_written:
                self._queue.put_nowait((Rank.GANG, gang.number, index, preparation))

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

    def _abort(self, gang: GangJob, reason: str, *, is_withdrawn: bool = False) -> None:
        gang.log.info("gang binding aborted", reason=plain(reason))
        for pod in self._pods_of(gang):
            self._finish(pod, BindAborted(pod.bind, reason, is_withdrawn))
        if reason != _STOPPING:
            self._release(gang)

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
        for preparation in pod.gang.preparations:
            preparation.end()
        seconds = self._context.clock.monotonic() - pod.first_sent if pod.first_sent else 0.0
        self._reports.writes_pending("bind", len(self._open))
        self._reports.bind_finished(OUTCOME_NAMES[type(outcome)], seconds=seconds)
        if not isinstance(outcome, Bound):
            pod.gang.log.info("pod not bound", pod=pod.name, node=pod.bind.node, reason=reason_of(outcome))
        # the next leader owns what is held for a pod that may be bound after all
        is_decided = not isinstance(outcome, (Bound, LeadershipLost))
        steps = _held_for(pod) if is_decided else []
        if steps:
            order = (Rank.BIND, pod.gang.number, -1 - pod.index)
            self._unbind(UnboundJob(pod.bind, steps, order, self._new_backoff()))
        self._check_idle()
        self._callbacks.on_outcome(pod.gang.placement, outcome)

    # --- what is held for pods that are not bound -----------------------------------------------------------

    async def _give_back(self, unbound: UnboundJob) -> None:
        """Give back what is held for a pod. Without leadership it remains: the next leader owns it."""
        unbound.attempts += 1
        try:
            for step in unbound.steps:
                await step()
        except (ApiError, OutcomeUnknown, RequestNotSent, msgspec.MsgspecError) as error:
            if self._fence.may_write() and unbound.attempts < BIND_ATTEMPTS_MAX:
                delay = unbound.backoff.next(at_least=retry_after(error))
                asyncio.get_running_loop().call_later(delay, self._put_unbound, unbound)
                return
            name = f"{unbound.pod.namespace}/{unbound.pod.name}"
            _log.warning("claims of a pod remain reserved", pod=name, error=str(error))
        self._unbound.discard(unbound.pod.pod)
        self._check_idle()

    def _unbind(self, unbound: UnboundJob) -> None:
        self._unbound.add(unbound.pod.pod)
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


def _held_for(pod: PodJob) -> list[Callable[[], Awaitable[None]]]:
    """The steps that give back what may be held for a pod."""
    holders = [each for each in pod.gang.preparations if each.may_hold(pod.bind.pod)]
    return [partial(each.give_back, pod.bind) for each in holders]
