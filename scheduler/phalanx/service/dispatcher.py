"""From a cycle's result to work in progress, and from the outcomes of that work back to the cache."""

import structlog

from phalanx.cache.events import Applied, Assumed, Forgotten
from phalanx.clock import Clock
from phalanx.framework.retry import RetryConfig
from phalanx.kube.bind_outcomes import BindAborted, BindOutcome, BindRefused, Bound, LeadershipLost
from phalanx.kube.bind_plan import PodGroupRef
from phalanx.kube.binder import Binder
from phalanx.kube.evictor import Evictor
from phalanx.model.decisions import Bind, CycleResult, Evict, Placement
from phalanx.model.gangs import GangKind
from phalanx.model.names import GangId
from phalanx.model.pods import BindBackoff
from phalanx.service.cluster_state import ClusterState
from phalanx.service.reporter import Reporter

_log = structlog.get_logger(__name__)


class Dispatcher:
    """Gives placements to the binder and evictions to the evictor; hears what became of them."""

    def __init__(
        self,
        *,
        view: ClusterState,
        binder: Binder,
        evictor: Evictor,
        reporter: Reporter,
        clock: Clock,
        retry: RetryConfig,
    ) -> None:
        self._view = view
        self._binder = binder
        self._evictor = evictor
        self._reporter = reporter
        self._clock = clock
        self._retry = retry

    def dispatch(self, result: CycleResult) -> None:
        """Start everything that the cycle decided.

        PodGroups are looked up before anything is assumed: each gang that changes is read anew when one is
        asked for.
        """
        self._reporter.cycle_finished(result)
        pod_groups = [self._pod_group(placement.gang) for placement in result.placements]
        for placement, pod_group in zip(result.placements, pod_groups, strict=True):
            self._place(placement, pod_group)
        by_gang: dict[GangId, list[Evict]] = {}
        for eviction in result.evictions:
            by_gang.setdefault(eviction.gang, []).append(eviction)
        for evictions in by_gang.values():
            self._evictor.submit(evictions)

    def outcome(self, placement: Placement, outcome: BindOutcome) -> None:
        """One bind is settled. A gang that lost one is completed, or released whole, by the next cycles."""
        bind = outcome.bind
        match outcome:
            case Bound():
                self._reporter.bound(bind)
            case BindRefused(reason=reason, message=message, pod=pod):
                if pod is not None:
                    self._view.take(Applied(pod))
                self._forget(bind, f"{reason}: {message}")
            case BindAborted(why=why):
                self._forget(bind, why)
            case LeadershipLost(sent=sent):
                if not sent:
                    self._view.take(Forgotten(bind.pod))

    def _forget(self, bind: Bind, why: str) -> None:
        """Hold the pod for a while that doubles with each failure in a row."""
        pod = self._view.cache.pod(bind.pod)
        before = pod.bind_backoff.failures if pod is not None and pod.bind_backoff is not None else 0
        until = self._clock.now_ms() + self._retry.bind_backoff_ms(before)
        hold = BindBackoff(until=until, failures=before + 1, why=why)
        self._view.take(Forgotten(bind.pod, hold))

    def _place(self, placement: Placement, pod_group: PodGroupRef | None) -> None:
        """The cluster went on while the cycle was thinking: a gang whose pods changed is decided anew."""
        pods = [self._view.cache.pod(bind.pod) for bind in placement.binds]
        if not all(pod is not None and pod.is_waiting for pod in pods):
            _log.info("placement is out of date", gang=placement.group, cycle=placement.cycle)
            self._view.reason.set()
            return
        for bind in placement.binds:
            self._view.take(Assumed(bind.pod, bind.node, bind.device))
        self._binder.submit(placement, pod_group=pod_group)

    def _pod_group(self, gang_id: GangId) -> PodGroupRef | None:
        """The gang's object, if it has one."""
        gang = self._view.cache.gang(gang_id)
        if gang is None or gang.kind is not GangKind.POD_GROUP:
            return None
        return PodGroupRef(namespace=gang.namespace, name=gang.name, uid=gang.id)
