"""Evict gangs by suspending their workloads, so that an eviction costs no retry, and resume these workloads.

docs/preemption.md has the rule. A workload is resumed as soon as all its pods with nodes are being deleted.
Where it cannot be suspended, or its controller does not delete the pods, they are deleted one by one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import structlog

from phalanx.kube.decode import Undecodable
from phalanx.kube.errors import ApiError, is_refused, retry_after
from phalanx.kube.events import PodEvents, PodRef
from phalanx.kube.flow_control import Backoff, FairQueue
from phalanx.kube.workload_suspender import SUSPENSIONS_MAX, Suspension, WorkloadSuspender
from phalanx.kube.writing import WriteContext
from phalanx.model.api.kinds import kind_named
from phalanx.model.conversion.workload_members import Workload
from phalanx.model.decisions import Evict
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.names import PodUid
from phalanx.model.workloads.job import JOB
from phalanx.model.workloads.known import WorkloadKinds
from phalanx.ports import OutcomeUnknown, RequestNotSent
from phalanx.service.cluster_state import ClusterState

_CONCURRENCY: Final = 4
"""Requests in flight: few workloads are evicted at once, and binds go first."""

_ATTEMPTS_MAX: Final = 4
"""Attempts to suspend a workload before its pods are deleted instead: some seconds."""

_BACKOFF_FIRST_S: Final = 0.2
"""Seconds before the second attempt."""

_BACKOFF_LONGEST_S: Final = 10.0
"""Seconds between two attempts at most, and before a failed resumption is repeated."""

_RESUME_CHECK_S: Final = 1.0
"""Seconds between two looks at the pods of suspended workloads."""

_LATE_WRITE_S: Final = 60.0
"""Seconds after which no request of an earlier leader takes effect any more: --request-timeout of the API
server is one minute by default."""

_log = structlog.get_logger(__name__)

_FAILED: Final = (ApiError, OutcomeUnknown, RequestNotSent, msgspec.MsgspecError, Undecodable)

Done = Callable[[bool], None]


_Request = Callable[[], Awaitable[None]]


class Suspensions:
    """Call `load` before the first cycle, then `run`. `end` returns at once."""

    def __init__(
        self,
        context: WriteContext,
        *,
        state: ClusterState,
        suspender: WorkloadSuspender,
        kinds: WorkloadKinds,
        message: Callable[[Evict], str],
        events: PodEvents,
    ) -> None:
        """`message`: that of an eviction for the tenant."""
        self.is_on = True
        self._context = context
        self._state = state
        self._suspender = suspender
        self._kinds = kinds
        self._message = message
        self._events = events
        self._open: dict[str, Suspension] = {}
        self._has_open = asyncio.Event()
        self._inherited: set[str] = set()
        """UIDs of workloads that the last leader may not have suspended yet."""
        self._late_until = 0.0
        """The last leader may have sent suspensions that take effect until then, in monotonic seconds."""
        self._busy: set[str] = set()
        """UIDs of workloads of which a request is in flight or will be repeated."""
        self._queue: FairQueue[_Request] = FairQueue(
            lambda request: request(), workers=_CONCURRENCY, workers_per_tenant=_CONCURRENCY
        )

    async def load(self) -> None:
        """Take over the suspensions of the last leader, as soon as the API server lets us."""
        backoff = self._new_backoff()
        while True:
            try:
                stored = await self._suspender.stored()
            except _FAILED as error:
                _log.warning("suspensions not read", error=str(error))
                if is_refused(error):
                    return
                await asyncio.sleep(backoff.next(at_least=retry_after(error)))
            else:
                for each in stored:
                    self._add(each)
                self._inherited = set(self._open)
                self._late_until = self._context.clock.monotonic() + _LATE_WRITE_S
                return

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._queue.run())
            while True:
                await self._has_open.wait()
                await asyncio.sleep(_RESUME_CHECK_S)
                self._resume_ended()

    def end(self, evictions: Sequence[Evict], done: Done) -> None:
        """Suspend the workload of these pods if that ends them and no others; `done` gets whether it does."""
        gang = self._state.cache.gang(evictions[0].gang)
        suspension = self._begin(gang, evictions) if gang is not None and self.is_on else None
        if gang is None or suspension is None:
            done(False)
            return
        pods = sum(not pod.is_finished for pod in gang.members)
        why = self._message(evictions[0])
        self._send(suspension, partial(self._evict, suspension, pods, why, done))

    def _begin(self, gang: Gang, evictions: Sequence[Evict]) -> Suspension | None:
        """Open a suspension, or continue that of the last leader. Only the first attempt suspends."""
        uids = {eviction.pod for eviction in evictions}
        found = suspension_of(gang, uids, self._state.cache.workload(gang.id), self._kinds)
        if found is None:
            return None
        if found.uid in self._inherited and found.uid not in self._busy:
            self._inherited.discard(found.uid)
            return self._open[found.uid]
        if found.uid in self._open or len(self._open) >= SUSPENSIONS_MAX:
            return None
        suspension = msgspec.structs.replace(found, token=str(self._context.clock.now_ms()))
        self._add(suspension)
        return suspension

    def _add(self, suspension: Suspension) -> None:
        self._open[suspension.uid] = suspension
        self._has_open.set()

    def _remove(self, suspension: Suspension) -> None:
        del self._open[suspension.uid]
        if not self._open:
            self._has_open.clear()

    def _send(self, suspension: Suspension, request: _Request) -> None:
        self._busy.add(suspension.uid)
        self._queue.put(suspension.namespace, request)

    def _resume_ended(self) -> None:
        for suspension in self._open.values():
            gang = self._state.cache.gang(suspension.gang)
            is_ended = gang is None or all(pod.deleting or not pod.holds_node for pod in gang.members)
            if is_ended and suspension.uid not in self._busy:
                self._send(suspension, partial(self._resume, suspension))

    async def _evict(self, suspension: Suspension, pods: int, why: str, done: Done) -> None:
        is_suspended = await self._suspend(suspension, pods)
        self._busy.discard(suspension.uid)
        if is_suspended:
            _log_of(suspension).info("workload suspended to evict its pods")
            message = f"Suspended: {why}. It is resumed when its pods end"
            self._events.suspended(self._reference(suspension), message=message)
        done(is_suspended)

    async def _suspend(self, suspension: Suspension, pods: int) -> bool:
        """A suspension of which the outcome is unknown stays open: it is ended like others."""
        backoff = self._new_backoff()
        for attempt in range(_ATTEMPTS_MAX):
            try:
                is_suspended = await self._suspender.suspend(suspension, pods=pods)
            except _FAILED as error:
                _log_of(suspension).info("workload not suspended", attempt=attempt, error=str(error))
                if is_refused(error):
                    return False
                await asyncio.sleep(backoff.next(at_least=retry_after(error)))
            else:
                if not is_suspended and not attempt:
                    self._remove(suspension)
                return is_suspended
        return False

    async def _resume(self, suspension: Suspension) -> None:
        try:
            is_resumed = await self._suspender.resume(suspension)
            if not is_resumed and self._context.clock.monotonic() < self._late_until:
                self._look_later(suspension, _BACKOFF_LONGEST_S)
                return
            await self._suspender.forget(suspension)
        except _FAILED as error:
            _log_of(suspension).info("workload not resumed, retrying", error=str(error))
            self._look_later(suspension, max(_BACKOFF_LONGEST_S, retry_after(error) or 0.0))
            return
        self._remove(suspension)
        self._busy.discard(suspension.uid)
        self._inherited.discard(suspension.uid)
        if is_resumed:
            _log_of(suspension).info("workload resumed")
            message = "Resumed after its pods were evicted"
            self._events.resumed(self._reference(suspension), message=message)

    def _reference(self, suspension: Suspension) -> PodRef:
        kind = kind_named(suspension.kind, self._kinds)
        return PodRef(suspension.namespace, suspension.name, suspension.uid, kind.api_name, kind.api_version)

    def _look_later(self, suspension: Suspension, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._busy.discard, suspension.uid)

    def _new_backoff(self) -> Backoff:
        return self._context.backoff(first=_BACKOFF_FIRST_S, longest=_BACKOFF_LONGEST_S)


def suspension_of(
    gang: Gang, evicted: Collection[PodUid], workload: Workload | None, kinds: WorkloadKinds
) -> Suspension | None:
    """The suspension that ends exactly the pods of the gang; None if not all that have nodes are evicted.

    `workload` is known if the gang is all of it. Else its pods may be those of one Job.
    """
    pods = [pod for pod in gang.members if not pod.is_finished and not pod.deleting]
    if any(pod.holds_node and pod.uid not in evicted for pod in pods):
        return None
    if gang.kind is GangKind.WORKLOAD and workload is not None:
        has_others = any(role.ours is False for role in workload.roles)
        if has_others or not kinds.by_name[workload.kind].suspended:
            return None
        group = workload.group
        return Suspension(workload.kind, group.namespace, group.name, group.uid, gang.id, "")
    owners = {pod.controller for pod in pods}
    owner = owners.pop() if len(owners) == 1 else None
    if owner is None or owner.workload != JOB.name:
        return None
    return Suspension(JOB.name, gang.namespace, owner.name, owner.uid, gang.id, "")


def _log_of(suspension: Suspension) -> Any:
    return _log.bind(workload=f"{suspension.kind} {suspension.namespace}/{suspension.name}")
