"""Dispatch the decisions of a cycle to binder and evictor, and apply the outcomes of binds to the cache."""

from typing import Final

import structlog

from phalanx.cache.events import Applied, Assumed, AwaitsDevices, Forgotten
from phalanx.clock import Clock
from phalanx.framework.retry import RetryConfig
from phalanx.kube.binder import Binder
from phalanx.kube.binding import (
    PROVISIONING_FAILED,
    BindAborted,
    BindOutcome,
    BindRefused,
    Bound,
    LeadershipLost,
    PodGroupRef,
)
from phalanx.kube.evictor import Evictor
from phalanx.model.decisions import Bind, CycleResult, Evict, Placement
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, NodeName
from phalanx.model.pods import BindBackoff
from phalanx.model.supplies.devices.api import ResourceClaim
from phalanx.service.bind_confirmations import BindConfirmations
from phalanx.service.cluster_state import ClusterState
from phalanx.service.gang_records import GangRecords, has_own_status
from phalanx.service.gang_starts import GangStarts
from phalanx.service.reporter import Reporter
from phalanx.service.suspensions import Suspensions

_FAILED_NODES_KEPT: Final = 32
"""Nodes for which provisioning has failed that are remembered for a pod."""

_log = structlog.get_logger(__name__)


class Dispatcher:
    """Starts what a cycle decided, and handles the outcome of each bind."""

    def __init__(
        self,
        *,
        state: ClusterState,
        binder: Binder,
        evictor: Evictor,
        reporter: Reporter,
        clock: Clock,
        retry: RetryConfig,
        starts: GangStarts,
        confirmations: BindConfirmations,
        records: GangRecords,
        suspensions: Suspensions,
    ) -> None:
        self._state = state
        self._binder = binder
        self._evictor = evictor
        self._reporter = reporter
        self._clock = clock
        self._starts = starts
        self._confirmations = confirmations
        self._records = records
        self._suspensions = suspensions
        self.retry = retry
        """The delays in effect."""

    def dispatch(self, result: CycleResult) -> None:
        """Start all binds and evictions of a cycle.

        Gangs are looked up before anything is assumed, because the cache derives each gang that changed
        again when it is next asked for.
        """
        self._records.cycle_finished(result)
        self._reporter.cycle_finished(result)
        gangs = [self._state.cache.gang(placement.gang) for placement in result.placements]
        for placement, gang in zip(result.placements, gangs, strict=True):
            self._place(placement, gang)
        self._starts.cycle_finished(result)
        by_gang: dict[GangId, list[Evict]] = {}
        for eviction in result.evictions:
            by_gang.setdefault(eviction.gang, []).append(eviction)
        for evictions in by_gang.values():
            if not self._suspensions.give_up(evictions):
                self._evictor.submit(evictions)
        for each in result.withdrawn:
            self._binder.withdraw((each.pod,), each.message)
        self._binder.give_back(self._state.cache.leftover_claims(now=self._clock.now_ms()))

    def handle_outcome(self, placement: Placement, outcome: BindOutcome) -> None:
        """Apply the outcome of one bind. The next cycles complete a gang that lost a bind, or release it."""
        bind = outcome.bind
        self._starts.bind_finished(placement, is_bound=isinstance(outcome, Bound))
        match outcome:
            case Bound():
                self._confirmations.bound(bind.pod)
                self._reporter.bound(bind)
            case BindRefused(reason=reason, message=message, pod=pod):
                if pod is not None:
                    self._state.apply(Applied(pod))
                failed_on = bind.node if reason == PROVISIONING_FAILED else None
                self._forget(bind, f"{reason}: {message}", failed_on)
            case BindAborted(is_withdrawn=True):
                self._state.apply(Forgotten(bind.pod))
            case BindAborted(reason=reason):
                self._forget(bind, reason)
            case LeadershipLost(sent=sent):
                if not sent:
                    self._state.apply(Forgotten(bind.pod))

    def devices_awaited(self, placement: Placement, why: str) -> None:
        """Note whether the binds of a placement wait for devices; `why` is empty if not."""
        for bind in placement.binds:
            self._state.apply(AwaitsDevices(bind.pod, is_so=bool(why)))
        self._reporter.devices_awaited(placement, why)

    def claim_seen(self, claim: ResourceClaim) -> None:
        """Apply a claim as a write returned it, unless it is gone already: the watch may be behind."""
        if self._state.cache.has_resource_claim(claim.metadata.uid):
            self._state.apply(Applied(claim))

    def _forget(self, bind: Bind, reason: str, failed_on: NodeName | None = None) -> None:
        """End the assumption of a pod and start its bind back-off.

        `failed_on`: the node for which a volume of the pod was not provisioned.
        """
        pod = self._state.cache.pod(bind.pod)
        last = pod.bind_backoff if pod is not None else None
        before, nodes = (last.failures, last.failed_on) if last is not None else (0, ())
        if failed_on is not None:
            nodes = (*(node for node in nodes if node != failed_on), failed_on)[-_FAILED_NODES_KEPT:]
        until = self._clock.now_ms() + self.retry.bind_backoff_ms(before)
        backoff = BindBackoff(until=until, failures=before + 1, why=reason, failed_on=nodes)
        self._state.apply(Forgotten(bind.pod, backoff))

    def _place(self, placement: Placement, gang: Gang | None) -> None:
        """Submit a placement, unless a pod of it changed during the cycle; the gang is then decided again."""
        pods = [self._state.cache.pod(bind.pod) for bind in placement.binds]
        waiting = [pod for pod in pods if pod is not None and pod.is_waiting]
        if len(waiting) < len(pods):
            _log.info("placement outdated: its pods changed", gang=placement.group, cycle=placement.cycle)
            self._state.trigger.set()
            return
        if self._suspensions.resumes(placement):
            return
        self._starts.placed(placement, gang, waiting)
        for bind in placement.binds:
            self._state.apply(Assumed(bind, placement.queue))
        self._binder.submit(placement, pod_group=_pod_group(gang))


def _pod_group(gang: Gang | None) -> PodGroupRef | None:
    """Return the PodGroup object of a gang, if it has one in whose status a placement is recorded."""
    if gang is None or not has_own_status(gang):
        return None
    return PodGroupRef(namespace=gang.namespace, name=gang.name, uid=gang.id)
