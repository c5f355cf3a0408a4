"""Sends whole gangs: the placement to the PodGroup's status first, then one bind per pod, each to its end.

A gang whose first bind was sent is finished; one that has not begun can be given back whole. All binds share
one queue: gangs stand in it in the order of their arrival, but the binds of a gang that has begun come before
any other gang, so that few are partly bound at a time. What must wait (a retry, a read-back) waits outside
the queue, so that it holds up nobody else.
"""

import asyncio
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

import msgspec
import structlog

from phalanx.clock import Clock
from phalanx.kube.backoff import Backoff
from phalanx.kube.bind_outcomes import BindAborted, BindOutcome, BindRefused, Bound, LeadershipLost
from phalanx.kube.bind_plan import PlacementCheck, PodGroupRef, judge, placement_patch
from phalanx.kube.client import Client, Patch
from phalanx.kube.decode import PartialObject
from phalanx.kube.errors import ApiError, Conflict, NotFound, ServerError, TooManyRequests, Unauthorized
from phalanx.kube.fence import Fence, write_timeout
from phalanx.kube.pace import RateLimiter
from phalanx.limits import (
    BIND_ATTEMPTS_MAX,
    BIND_BACKOFF_FIRST_S,
    BIND_BACKOFF_LONGEST_S,
    POD_BUSY_RETRY_S,
    THROTTLED_WAIT_S,
    WRITE_BURST,
    WRITE_CONCURRENCY,
    WRITES_PER_SECOND,
)
from phalanx.model.api.core import Pod
from phalanx.model.api.kinds import KINDS
from phalanx.model.decisions import Bind, Placement
from phalanx.model.gpu_shares import device_annotations
from phalanx.model.names import PodUid
from phalanx.observe.ports import WriteReports
from phalanx.ports import OutcomeUnknown, RequestNotSent

_log = structlog.get_logger(__name__)

_decode_named: Final = msgspec.json.Decoder(PartialObject).decode
_decode_pod: Final = msgspec.json.Decoder(Pod).decode
_PERHAPS_APPLIED: Final = (ServerError, OutcomeUnknown)
_NOT_APPLIED: Final = (TooManyRequests, Unauthorized, RequestNotSent)
_STOPPING: Final = "the scheduler stops"


class _Rank(IntEnum):
    """Order in the queue."""

    BIND = 0
    GANG = 1


class _Gang:
    """A placement on its way. `written`: its PodGroup says so, and its binds may follow.

    `reads_version`: a write of that has failed, and what was last seen of the PodGroup may be why.
    """

    def __init__(
        self, placement: Placement, pod_group: PodGroupRef | None, number: int, backoff: Backoff
    ) -> None:
        self.placement = placement
        self.pod_group = pod_group
        self.number = number
        self.backoff = backoff
        self.attempts = 0
        self.reads_version = False
        self.written = pod_group is None
        self.begun = False
        self.log = _log.bind(gang=placement.group, cycle=placement.cycle, cause=placement.cause)


class _Pod:
    """One bind on its way. `unknown`: a request may have been applied, and nothing has been read since."""

    def __init__(self, gang: _Gang, bind: Bind, index: int, backoff: Backoff) -> None:
        self.gang = gang
        self.bind = bind
        self.index = index
        self.backoff = backoff
        self.attempts = 0
        self.unknown = False
        self.refusal: ApiError | None = None
        self.first_sent = 0.0

    @property
    def name(self) -> str:
        """For logs."""
        return f"{self.bind.namespace}/{self.bind.name}"


class Binder:
    """Takes placements with `submit`, works while `run` runs, reports one Outcome per bind."""

    def __init__(
        self,
        *,
        client: Client,
        fence: Fence,
        check: PlacementCheck,
        on_outcome: Callable[[Placement, BindOutcome], None],
        reports: WriteReports,
        clock: Clock,
        jitter: Callable[[], float],
        try_acquire: Callable[[PodUid], bool] = lambda _: True,
        newest: Callable[[PodGroupRef], str] = lambda _: "",
        seen: Callable[[], str] = lambda: "",
        concurrency: int = WRITE_CONCURRENCY,
        per_second: float = WRITES_PER_SECOND,
    ) -> None:
        """`try_acquire` asks other writers to leave a pod alone; False while one of them is just writing.

        `newest` is the resourceVersion of a PodGroup as last seen, empty where it is to be read, `seen` the
        resourceVersion up to which the watch of pods has come, for the log.
        """
        self.idle = asyncio.Event()
        self.idle.set()
        self._client = client
        self._fence = fence
        self._check = check
        self._on_outcome = on_outcome
        self._reports = reports
        self._clock = clock
        self._jitter = jitter
        self._stand_aside = try_acquire
        self._newest = newest
        self._seen = seen
        self._concurrency = concurrency
        self._pace = RateLimiter(per_second=per_second, burst=WRITE_BURST, clock=clock)
        self._queue: asyncio.PriorityQueue[tuple[int, int, int, Any]] = asyncio.PriorityQueue()
        self._open: dict[PodUid, _Pod] = {}
        self._gangs = 0
        self._stopping = False
        self._throttled: PodUid | None = None

    def submit(self, placement: Placement, *, pod_group: PodGroupRef | None = None) -> None:
        """Take a gang's binds; `pod_group` where the gang has an object. Returns at once.

        While a bind of one of its pods is open, the others are given back and the open ones go on.
        """
        gang = _Gang(placement, pod_group, self._gangs, self._new_backoff())
        self._gangs += 1
        if any(bind.pod in self._open for bind in placement.binds):
            for bind in placement.binds:
                if bind.pod not in self._open:
                    self._on_outcome(placement, BindAborted(bind, "a bind of its gang is not settled yet"))
            return
        for index, bind in enumerate(placement.binds):
            self._open[bind.pod] = _Pod(gang, bind, index, self._new_backoff())
        if placement.binds:
            self.idle.clear()
            self._reports.waiting("bind", len(self._open))
            self._put_gang(gang)

    def is_open(self, pod: PodUid) -> bool:
        """Whether a bind of this pod is not settled yet: nothing else may touch the pod."""
        return pod in self._open

    async def run(self) -> None:
        """Work until cancelled; requests in flight are cancelled too, so `stop` first."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._concurrency):
                workers.create_task(self._work())

    async def stop(self, *, within: float) -> None:
        """Finish the gangs that have begun, give back the others, and after `within` seconds the rest."""
        self._stopping = True
        try:
            async with asyncio.timeout(within):
                await self.idle.wait()
        except TimeoutError:
            for pod in tuple(self._open.values()):
                lost = LeadershipLost(pod.bind, sent=True)
                self._settle(pod, lost if pod.unknown else BindAborted(pod.bind, _STOPPING))

    async def _work(self) -> None:
        while True:
            _, _, _, job = await self._queue.get()
            if isinstance(job, _Gang):
                await self._begin(job)
            elif job.bind.pod in self._open:
                await self._advance(job)

    # --- gangs ---------------------------------------------------------------------------------------------

    async def _begin(self, gang: _Gang) -> None:
        if self._may_not_begin(gang):
            return
        if gang.written:
            for pod in self._pods_of(gang):
                self._put(pod)
            return
        try:
            await self._write_placement(gang)
        except (Conflict, *_PERHAPS_APPLIED, *_NOT_APPLIED, msgspec.MsgspecError) as error:
            gang.reads_version = True
            self._begin_later(gang, error)
            return
        except ApiError as error:
            self._give_back(gang, f"the PodGroup's status cannot be written: {error}")
            return
        gang.written = True
        self._put_gang(gang)

    def _may_not_begin(self, gang: _Gang) -> bool:
        """Checked before the PodGroup is written and again after, since it may have waited for both."""
        if not self._fence.may_write():
            for pod in self._pods_of(gang):
                self._settle(pod, LeadershipLost(pod.bind, sent=False))
            return True
        why = _STOPPING if self._stopping else self._check.gang(gang.placement)
        if why is not None:
            self._give_back(gang, why)
        return why is not None

    async def _write_placement(self, gang: _Gang) -> None:
        group = gang.pod_group
        if group is None:
            return
        await self._pace.turn()
        version = "" if gang.reads_version else self._newest(group)
        if not version:
            version = await self._read_version(group)
        path = KINDS["PodGroup"].path(namespace=group.namespace, name=group.name, subresource="status")
        body = placement_patch(gang.placement, version=version, epoch=self._fence.epoch)
        await self._client.patch(path, body, how=Patch.MERGE, timeout=write_timeout(self._fence))

    async def _read_version(self, group: PodGroupRef) -> str:
        """Raises NotFound when the name belongs to another PodGroup by now."""
        path = KINDS["PodGroup"].path(namespace=group.namespace, name=group.name)
        meta = (await self._client.get(path, _decode_named, timeout=write_timeout(self._fence))).metadata
        if meta.uid != group.uid:
            raise NotFound(code=404, reason="NotFound", message="the name belongs to another PodGroup now")
        return meta.resource_version

    def _begin_later(self, gang: _Gang, error: Exception) -> None:
        gang.attempts += 1
        if gang.attempts >= BIND_ATTEMPTS_MAX:
            self._give_back(gang, f"the PodGroup's status cannot be written: {error}")
            return
        gang.log.info("gang begins later", why=str(error))
        delay = gang.backoff.next(at_least=_retry_after(error))
        asyncio.get_running_loop().call_later(delay, self._put_gang, gang)

    def _give_back(self, gang: _Gang, why: str) -> None:
        gang.log.info("gang given back", why=why)
        for pod in self._pods_of(gang):
            self._settle(pod, BindAborted(pod.bind, why))

    def _pods_of(self, gang: _Gang) -> list[_Pod]:
        pods = (self._open.get(bind.pod) for bind in gang.placement.binds)
        return [pod for pod in pods if pod is not None and pod.gang is gang]

    # --- pods ----------------------------------------------------------------------------------------------

    async def _advance(self, pod: _Pod) -> None:
        """The next step of one bind."""
        if pod.unknown:
            await self._read_back(pod)
            return
        await self._pace.turn()
        if not self._fence.may_write():
            self._settle(pod, LeadershipLost(pod.bind, sent=False))
        elif self._stopping and not pod.gang.begun:
            self._settle(pod, BindAborted(pod.bind, _STOPPING))
        elif (why := self._check.bind(pod.gang.placement, pod.bind)) is not None:
            self._settle(pod, BindAborted(pod.bind, why))
        elif not self._stand_aside(pod.bind.pod):
            self._later(pod, POD_BUSY_RETRY_S)
        else:
            await self._send(pod)

    async def _send(self, pod: _Pod) -> None:
        bind = pod.bind
        pod.gang.begun = True
        pod.attempts += 1
        pod.unknown = True  # until an answer says otherwise, also when this task is cancelled
        pod.first_sent = pod.first_sent or self._clock.monotonic()
        pod.gang.log.debug("bind sent", pod=pod.name, node=bind.node, seen=self._seen())
        try:
            await self._client.bind(
                namespace=bind.namespace,
                name=bind.name,
                uid=bind.pod,
                node=bind.node,
                annotations=device_annotations(bind.device),
                timeout=write_timeout(self._fence),
            )
        except (Conflict, NotFound) as error:
            pod.refusal = error
            await self._read_back(pod)
        except _NOT_APPLIED as error:
            pod.unknown = False
            self._retry(pod, error)
        except _PERHAPS_APPLIED as error:
            self._retry(pod, error)
        except ApiError as error:
            self._settle(pod, BindRefused(bind, error.reason, error.message))
        else:
            self._throttled = None
            self._settle(pod, Bound(bind))

    def _retry(self, pod: _Pod, error: Exception) -> None:
        self._reports.bind_retried(type(error).__name__)
        if pod.attempts >= BIND_ATTEMPTS_MAX and not pod.unknown:
            self._settle(pod, BindRefused(pod.bind, "GaveUp", f"after {pod.attempts} attempts: {error}"))
            return
        wait = _retry_after(error)
        if isinstance(error, TooManyRequests):
            wait = wait or THROTTLED_WAIT_S
            self._hold_all_if_not_alone(pod, wait)
        pod.gang.log.info("bind again", pod=pod.name, why=str(error))
        self._later(pod, pod.backoff.next(at_least=wait))

    def _hold_all_if_not_alone(self, pod: _Pod, wait: float) -> None:
        """Two pods in a row are throttled: it is about us, not about an object, so all binds wait."""
        if self._throttled not in (None, pod.bind.pod):
            self._pace.hold(wait)
        self._throttled = pod.bind.pod

    async def _read_back(self, pod: _Pod) -> None:
        """What the API says about this very pod; asked again until it answers."""
        bind = pod.bind
        if not self._fence.may_write():
            self._settle(pod, LeadershipLost(bind, sent=True))
            return
        path = KINDS["Pod"].path(namespace=bind.namespace, name=bind.name)
        try:
            found = await self._client.get(path, _decode_pod, timeout=write_timeout(self._fence))
        except NotFound as error:
            self._settle(pod, BindRefused(bind, error.reason, error.message))
        except (ApiError, OutcomeUnknown, RequestNotSent, msgspec.MsgspecError) as error:
            pod.gang.log.info("read back again", pod=pod.name, why=str(error))
            self._later(pod, pod.backoff.next(at_least=_retry_after(error)))
        else:
            self._judge(pod, found)

    def _judge(self, pod: _Pod, found: Pod) -> None:
        outcome = judge(pod.bind, found, pod.refusal)
        if outcome is not None:
            self._settle(pod, outcome)
        elif pod.attempts >= BIND_ATTEMPTS_MAX:
            message = f"not bound after {pod.attempts} attempts"
            self._settle(pod, BindRefused(pod.bind, "GaveUp", message, found))
        else:
            pod.unknown = False
            self._put(pod)

    def _later(self, pod: _Pod, delay: float) -> None:
        asyncio.get_running_loop().call_later(delay, self._put, pod)

    def _put(self, pod: _Pod) -> None:
        self._queue.put_nowait((_Rank.BIND, pod.gang.number, pod.index, pod))

    def _put_gang(self, gang: _Gang) -> None:
        self._queue.put_nowait((_Rank.GANG, gang.number, 0, gang))

    def _settle(self, pod: _Pod, outcome: BindOutcome) -> None:
        if self._open.pop(pod.bind.pod, None) is None:
            return
        seconds = self._clock.monotonic() - pod.first_sent if pod.first_sent else 0.0
        self._reports.waiting("bind", len(self._open))
        self._reports.bind_finished(_OUTCOME_NAMES[type(outcome)], seconds=seconds)
        if not isinstance(outcome, Bound):
            pod.gang.log.info("bind not done", pod=pod.name, node=pod.bind.node, why=_why(outcome))
        if not self._open:
            self.idle.set()
        self._on_outcome(pod.gang.placement, outcome)

    def _new_backoff(self) -> Backoff:
        return Backoff(first=BIND_BACKOFF_FIRST_S, longest=BIND_BACKOFF_LONGEST_S, jitter=self._jitter)


_OUTCOME_NAMES: Final[dict[type[BindOutcome], str]] = {
    Bound: "bound",
    BindRefused: "refused",
    BindAborted: "given-back",
    LeadershipLost: "lost",
}


def _why(outcome: BindOutcome) -> str:
    match outcome:
        case BindRefused(reason=reason, message=message):
            return f"{reason}: {message}"
        case BindAborted(why=why):
            return why
        case LeadershipLost(sent=sent):
            return "leadership lost, sent before" if sent else "leadership lost"
        case Bound():
            return ""


def _retry_after(error: Exception) -> float | None:
    return error.retry_after if isinstance(error, ApiError) else None
