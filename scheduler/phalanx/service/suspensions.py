"""Evict gangs by suspending their workloads, so that an eviction costs no retry, and resume these workloads.

docs/preemption.md has the rule. A workload is resumed when there is capacity for its gang or after some
minutes; if its pods cannot be awaited, as soon as all its pods with nodes are being deleted. Where it cannot
be suspended, or its controller does not delete the pods, they are deleted one by one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
import structlog

from phalanx.framework.config import SchedulerConfig
from phalanx.kube.decode import Undecodable
from phalanx.kube.errors import ApiError, is_refused, retry_after
from phalanx.kube.events import PodEvents, PodRef, reference
from phalanx.kube.flow_control import Backoff, FairQueue
from phalanx.kube.workload_suspender import SUSPENSIONS_MAX, Root, Suspension, WorkloadSuspender
from phalanx.kube.writing import WriteContext
from phalanx.model.api.kinds import KINDS
from phalanx.model.awaited_pods import is_awaited, workload_of_awaited
from phalanx.model.conversion.workload_members import Workload
from phalanx.model.decisions import Evict, EvictionReason, Placement
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.names import PodUid
from phalanx.model.pods import Controller, Pod
from phalanx.ports import OutcomeUnknown, RequestNotSent
from phalanx.service.awaited_gangs import AwaitedGangs, kinds_of_members, owner_of_members
from phalanx.service.cluster_state import ClusterState
from phalanx.service.gang_records import has_own_status

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

_COMING_CHECK_S: Final = 5.0
"""Seconds between two looks at a resumed workload whose pods have not come: nodes are held for them."""

_STATE_CHECK_S: Final = 30.0
"""Seconds between two looks at a suspended workload that waits: its user may hold or delete it."""

_LATE_WRITE_S: Final = 60.0
"""Seconds after which no request of an earlier leader takes effect any more: --request-timeout of the API
server is one minute by default."""

_log = structlog.get_logger(__name__)

_FAILED: Final = (ApiError, OutcomeUnknown, RequestNotSent, msgspec.MsgspecError, Undecodable)

Done = Callable[[bool], None]
_T = TypeVar("_T")
_Request = Callable[[], Awaitable[None]]


class Suspensions:
    """Call `load` before the first cycle, then `run`. `end` returns at once."""

    def __init__(
        self,
        context: WriteContext,
        *,
        state: ClusterState,
        suspender: WorkloadSuspender,
        message: Callable[[Evict], str],
        events: PodEvents,
    ) -> None:
        """`message`: that of an eviction for the tenant."""
        self.is_on = True
        self.waits_minutes: int | None = None
        """Minutes after its suspension when a workload is resumed in any case."""
        self._context = context
        self._state = state
        self._suspender = suspender
        self._message = message
        self._events = events
        self._open: dict[str, Suspension] = {}
        """By the UID of the workload."""
        self._evicted: dict[str, frozenset[PodUid]] = {}
        """The pods for which this leader has suspended these workloads."""
        self._has_open = asyncio.Event()
        self._inherited: set[str] = set()
        """UIDs of workloads that the last leader may not have suspended yet."""
        self._late_until = 0.0
        """The last leader may have sent suspensions that take effect until then, in monotonic seconds."""
        self._busy: set[str] = set()
        """UIDs of workloads of which a request is in flight or will be repeated."""
        self._awaited = AwaitedGangs(state, context.clock)
        self.pods_changed = self._awaited.pods_changed
        """Call it after each event about pods, with the gangs that it changed."""
        self._checked: dict[str, float] = {}
        """When each waiting workload was last read, in monotonic seconds."""
        self._queue: FairQueue[_Request] = FairQueue(
            lambda request: request(), workers=_CONCURRENCY, workers_per_tenant=_CONCURRENCY
        )

    def configure(self, config: SchedulerConfig) -> None:
        """Use this configuration from now on."""
        self.is_on = config.suspend_evicted_workloads
        self.waits_minutes = config.suspended_minutes

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
                self._expect_late_writes()
                self._resume_ended()
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
        if gang is None:
            done(False)
            return
        self._report_on_group(gang, evictions)
        if self.is_on:
            self._queue.put(gang.namespace, partial(self._evict, gang, evictions, done))
        else:
            self._delete(gang, evictions, done)

    def resumes(self, placement: Placement) -> bool:
        """Resume the workload for whose pods a placement is; whether these do not exist yet."""
        suspension = self._awaited.place(placement)
        if suspension is not None and suspension.uid in self._open:
            self._put_resume(suspension)
        return suspension is not None

    def give_up(self, evictions: Sequence[Evict]) -> bool:
        """Release what these pods hold if they do not exist yet; whether that is so."""
        for eviction in evictions:
            self._awaited.drop(workload_of_awaited(eviction.pod))
        return any(is_awaited(eviction.pod) for eviction in evictions)

    def _report_on_group(self, gang: Gang, evictions: Sequence[Evict]) -> None:
        if has_own_status(gang):
            group = reference(KINDS["PodGroup"], gang.namespace, gang.name, gang.uid)
            self._events.preempted(group, message=self._text(evictions))

    def _delete(self, gang: Gang, evictions: Sequence[Evict], done: Done) -> None:
        """Let the pods be deleted. Their controllers have an event, because those of the pods are lost."""
        evicted = {eviction.pod for eviction in evictions}
        controllers = {pod.controller for pod in gang.members if pod.uid in evicted}
        for owner in controllers:
            kind = self._suspender.kind_named(owner.workload) if owner is not None else None
            if owner is not None and kind is not None:
                about = reference(kind, gang.namespace, owner.name, owner.uid)
                self._events.preempted(about, message=self._text(evictions))
        done(False)

    def _text(self, evictions: Sequence[Evict]) -> str:
        pods = "1 pod" if len(evictions) == 1 else f"{len(evictions)} pods"
        return f"{pods} of it: {self._message(evictions[0])}"

    def _resume_ended(self) -> None:
        for uid, suspension in self._open.items():
            if uid in self._busy or not self._is_ended(suspension):
                continue
            if not self._awaited.waits(suspension, until_ms=self._waits_until(suspension)):
                self._put_resume(suspension)
            elif self._is_to_be_read(uid):
                self._busy.add(uid)
                self._queue.put(suspension.namespace, partial(self._check, suspension))

    def _waits_until(self, suspension: Suspension) -> int | None:
        minutes = self.waits_minutes
        return None if minutes is None else suspension.since_ms + minutes * 60_000

    def _put_resume(self, suspension: Suspension) -> None:
        if suspension.uid not in self._busy:
            self._busy.add(suspension.uid)
            self._queue.put(suspension.namespace, partial(self._resume, suspension))

    def _is_to_be_read(self, uid: str) -> bool:
        now = self._context.clock.monotonic()
        is_overdue = now >= self._checked.get(uid, now) + _STATE_CHECK_S
        if is_overdue or uid not in self._checked:
            self._checked[uid] = now
        return is_overdue

    async def _check(self, suspension: Suspension) -> None:
        """Await no pods of a workload that somebody has resumed, holds or has deleted."""
        try:
            waits = await self._suspender.is_suspended(suspension)
        except _FAILED as error:
            _log_of(suspension).info("suspended workload not read", error=str(error))
            waits = True
        self._busy.discard(suspension.uid)
        if not waits:
            self._awaited.drop(suspension.uid)
            self._put_resume(suspension)

    def _is_ended(self, suspension: Suspension) -> bool:
        """Whether the evicted pods are being deleted. There are others if somebody else resumed the workload.

        What the last leader has evicted has the condition DisruptionTarget. The PodGroup may be gone.
        """
        cache = self._state.cache
        evicted = [cache.pod(uid) for uid in self._evicted.get(suspension.uid, ())]
        gang = cache.gang(suspension.gang)
        pods = gang.members if gang is not None else cache.pods_of((suspension.uid,))
        marked = [pod for pod in pods if pod.disruption]
        left = [pod for pod in (*evicted, *marked) if pod is not None]
        return not any(pod.holds_node and not pod.deleting for pod in left)

    # --- suspend ------------------------------------------------------------------------------------------

    async def _evict(self, gang: Gang, evictions: Sequence[Evict], done: Done) -> None:
        suspension = await self._repeated(lambda: self._begin(gang, evictions))
        if suspension is None:
            self._delete(gang, evictions, done)
            return
        pods = sum(not pod.is_finished for pod in self._present(gang).members)
        is_suspended = await self._repeated(lambda: self._suspender.suspend(suspension, pods=pods))
        if not is_suspended:
            self._queue.put(gang.namespace, partial(self._resume, suspension))
            self._delete(gang, evictions, done)
            return
        self._busy.discard(suspension.uid)
        _log_of(suspension).info("workload suspended to evict its pods")
        when = "there is capacity for it" if suspension.members else "its pods end"
        message = f"Suspended: {self._message(evictions[0])}. It is resumed when {when}"
        self._events.suspended(self._workload(suspension), message=message)
        done(True)

    async def _begin(self, gang: Gang, evictions: Sequence[Evict]) -> Suspension | None:
        """Open a suspension, or continue that of the last leader. Only the first attempt suspends.

        If the PodGroup is gone since, the pods are another gang, whose eviction is decided again.
        """
        cache, gang = self._state.cache, self._present(gang)
        evicted = {eviction.pod for eviction in evictions}
        workload = cache.workload(gang.id)
        controllers = controllers_of(gang, evicted, workload)
        root = await self._suspender.root(gang.namespace, controllers) if controllers else None
        if root is None:
            return None
        is_preempted = all(eviction.reason is EvictionReason.PREEMPTED for eviction in evictions)
        kinds = kinds_of_members(gang, workload) if is_preempted else ()
        new = await self._new_suspension(root, gang, kinds)
        known = self._open.get(root.uid)
        is_other = known is not None and known.gang != gang.id and await self._suspender.is_suspended(known)
        owners = root.owners if workload is None else root.owners | cache.owned_workloads(workload.group.uid)
        if has_other_pods(gang, workload, cache.pods_of(owners)) or root.uid in self._busy:
            return None
        goes_on = root.uid in self._inherited or (is_other and root.uid in self._open)
        if not goes_on and (root.uid in self._open or len(self._open) >= SUSPENSIONS_MAX):
            return None
        self._inherited.discard(root.uid)
        self._add(msgspec.structs.replace(self._open[root.uid], gang=gang.id) if goes_on else new)
        self._evicted[root.uid] = frozenset(evicted)
        self._busy.add(root.uid)
        return self._open[root.uid]

    async def _new_suspension(self, root: Root, gang: Gang, kinds: Sequence[Sequence[Pod]]) -> Suspension:
        """A suspension that begins now. `kinds`: the pods that wait while it lasts."""
        token = str(self._context.clock.now_ms())
        new = Suspension(root.kind, gang.namespace, root.name, root.uid, gang.id, token)
        owner = owner_of_members(gang, self._state.cache.known_workloads)
        return await self._suspender.with_members(new, kinds, owner)

    def _present(self, gang: Gang) -> Gang:
        return self._state.cache.gang(gang.id) or gang

    async def _repeated(self, request: Callable[[], Awaitable[_T]]) -> _T | None:
        """The answer to a request that is repeated if it fails; None if it fails too often."""
        backoff = self._new_backoff()
        for attempt in range(_ATTEMPTS_MAX):
            try:
                return await request()
            except _FAILED as error:
                _log.info("workload not suspended", attempt=attempt, error=str(error))
                if isinstance(error, OutcomeUnknown):
                    self._expect_late_writes()
                if is_refused(error):
                    return None
                await asyncio.sleep(backoff.next(at_least=retry_after(error)))
        return None

    def _expect_late_writes(self) -> None:
        self._late_until = self._context.clock.monotonic() + _LATE_WRITE_S

    def _add(self, suspension: Suspension) -> None:
        self._open[suspension.uid] = suspension
        self._has_open.set()

    # --- resume -------------------------------------------------------------------------------------------

    async def _resume(self, suspension: Suspension) -> None:
        try:
            is_resumed = await self._suspender.resume(suspension)
        except _FAILED as error:
            _log_of(suspension).info("workload not resumed, retrying", error=str(error))
            self._repeat_later(partial(self._resume, suspension), suspension, error)
            return
        if is_resumed:
            _log_of(suspension).info("workload resumed")
            message = "Resumed after its pods were evicted"
            self._events.resumed(self._workload(suspension), message=message)
            self._check_coming_later(suspension)
        else:
            self._awaited.drop(suspension.uid)
            if self._context.clock.monotonic() < self._late_until:
                self._repeat_later(partial(self._resume, suspension), suspension)
                return
        await self._forget(suspension)

    def _check_coming_later(self, suspension: Suspension) -> None:
        if self._awaited.is_held(suspension.uid):
            check = partial(self._check_coming, suspension)
            self._queue.put_later(suspension.namespace, check, delay=_COMING_CHECK_S)

    async def _check_coming(self, suspension: Suspension) -> None:
        """Hold no nodes for pods of a workload that was deleted, or suspended again, before they came."""
        try:
            if not await self._suspender.makes_pods(suspension):
                self._awaited.drop(suspension.uid)
        except _FAILED as error:
            _log_of(suspension).info("resumed workload not read", error=str(error))
        self._check_coming_later(suspension)

    async def _forget(self, suspension: Suspension) -> None:
        """What may not be written is no record either."""
        try:
            await self._suspender.forget(suspension)
        except _FAILED as error:
            _log_of(suspension).info("suspension not forgotten", error=str(error))
            if not is_refused(error):
                self._repeat_later(partial(self._forget, suspension), suspension, error)
                return
        uid = suspension.uid
        del self._open[uid]
        self._evicted.pop(uid, None)
        self._checked.pop(uid, None)
        self._busy.discard(uid)
        self._inherited.discard(uid)
        if not self._open:
            self._has_open.clear()

    def _repeat_later(
        self, request: _Request, suspension: Suspension, error: Exception | None = None
    ) -> None:
        least = retry_after(error) if error is not None else None
        self._queue.put_later(suspension.namespace, request, delay=max(_BACKOFF_LONGEST_S, least or 0.0))

    def _workload(self, suspension: Suspension) -> PodRef:
        kind = self._suspender.kind_named(suspension.kind)
        assert kind is not None
        return reference(kind, suspension.namespace, suspension.name, suspension.uid)

    def _new_backoff(self) -> Backoff:
        return self._context.backoff(first=_BACKOFF_FIRST_S, longest=_BACKOFF_LONGEST_S)


def controllers_of(
    gang: Gang, evicted: Collection[PodUid], workload: Workload | None
) -> Sequence[Controller]:
    """The controllers of all pods of the gang; none if a pod has no controller, or keeps its node.

    `workload` is known if the gang is all of it.
    """
    pods = [pod for pod in gang.members if not pod.is_finished and not pod.deleting]
    if any(pod.holds_node and pod.uid not in evicted for pod in pods):
        return ()
    if gang.kind is GangKind.WORKLOAD and workload is not None:
        group = workload.group
        return (Controller(kind="", name=group.name, uid=group.uid, workload=workload.kind),)
    controllers = {pod.controller.uid: pod.controller for pod in pods if pod.controller is not None}
    return tuple(controllers.values()) if all(pod.controller is not None for pod in pods) else ()


def has_other_pods(gang: Gang, workload: Workload | None, pods: Iterable[Pod]) -> bool:
    """Whether some of these pods, all those of a workload, are not in the gang and would end with it.

    A pod of another scheduler without a role, such as the one that submits the work of a RayJob, serves the
    others.
    """
    roles = {role.name for role in workload.roles} if workload is not None else None
    ours = {pod.scheduler_name for pod in gang.members}
    others = [pod for pod in pods if pod.uid not in gang.by_uid and not pod.is_finished and not pod.deleting]
    return any(roles is None or pod.role in roles or pod.scheduler_name in ours for pod in others)


def _log_of(suspension: Suspension) -> Any:
    return _log.bind(workload=f"{suspension.kind} {suspension.namespace}/{suspension.name}")
