"""S11, L6, L7, L8: processes keep running, one leads, it lists before it decides, and retries are bounded."""

from collections import deque
from typing import Final

from phalanx.kube.leader_election import LostLease
from phalanx.limits import LEASE_ATTEMPT_TIMEOUT_S
from phalanx.model.api.kinds import KINDS, WATCHED_KINDS
from phalanx.model.decisions import CycleResult
from phalanx.model.snapshot import Snapshot

from phalanx_simulator.hosts.host import State
from phalanx_simulator.hosts.replica import Process
from phalanx_simulator.invariants.bounds import FAILOVER_S, FIRST_CYCLE_S, REFUSED_BINDS_MAX
from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.records import CONFIG_MAPS
from phalanx_simulator.invariants.truth import Truth

_MINUTE_S = 60.0


class NoProcessExits(Check):
    """S11: a process ends only when killed, stopped, or after losing its Lease."""

    name = "S11"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._reported: dict[str, None] = {}

    def on_tick(self) -> None:
        for replica in self.context.replicas:
            process = replica.process
            if process is not None and process.task.done() and process.host.name not in self._reported:
                self._reported[process.host.name] = None
                self._judge(process)

    def _judge(self, process: Process) -> None:
        if process.host.state is State.DEAD or process.task.cancelled():
            return
        error = process.task.exception()
        if error is not None and not is_lost_lease(error):
            self.violated(process.host.name, f"ended with {_reported(error)}")


def is_lost_lease(error: BaseException) -> bool:
    """Whether a process ended only because it lost its Lease."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_lost_lease(cause) for cause in error.exceptions)
    return isinstance(error, LostLease)


def _reported(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


class LeaderExists(Check):
    """L6: after a leader is lost another one leads within FAILOVER_S, and decides within FIRST_CYCLE_S.

    It applies if a candidate, or the leader, was running and undisturbed for all of that time. The time
    starts again when a renewal of a leader that has given up is applied late: candidates must then wait until
    the Lease expires. S3 covers the partly bound gangs of the old leader.
    """

    name = "L6"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._led_at = 0.0
        self._leader = ""
        self._since = 0.0
        self._decided: dict[str, None] = {}

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        self._decided[host] = None

    def on_call(self, call: Call) -> None:
        if not call.is_lease or not call.is_write or call.stage is not Stage.LANDED or not call.succeeded:
            return
        if self.now - call.exchange.sent_at > LEASE_ATTEMPT_TIMEOUT_S:
            self._led_at = self.now

    def on_tick(self) -> None:
        leader = self._present_leader()
        if leader:
            self._led_at = self.now
            self._check_leader(leader)
            return
        self._leader = ""
        waited_s = self.now - self._led_at
        if waited_s > FAILOVER_S and self._any_candidate(waited_s):
            self.violated("the schedulers", f"no leader for {waited_s:.0f} s")
            self._led_at = self.now

    def _check_leader(self, leader: str) -> None:
        if leader != self._leader:
            self._leader, self._since = leader, self.now
        led_s = self.now - self._since
        calm_s = self.truth.healthy_s(leader)
        if leader not in self._decided and led_s > FIRST_CYCLE_S and calm_s >= led_s:
            self._decided[leader] = None
            self.violated(leader, f"has led for {led_s:.0f} s without a cycle")

    def _present_leader(self) -> str:
        for replica in self.context.replicas:
            process = replica.process
            if process is None or process.host.state is not State.RUNNING or process.task.done():
                continue
            if process.scheduler.is_leading and not process.network.partitioned:
                return process.host.name
        return ""

    def _any_candidate(self, seconds: float) -> bool:
        processes = [replica.process for replica in self.context.replicas]
        return any(
            process is not None and self.truth.healthy_s(process.host.name) >= seconds
            for process in processes
        )


class SyncedBeforeDeciding(Check):
    """L7: a leader's first cycle comes after a complete list since it got the Lease, and after it read the
    records of gangs.

    Optional kinds of other projects are not required.
    """

    name = "L7"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._leads_since: dict[str, float] = {}
        self._read_records_at: dict[str, float] = {}

    def on_call(self, call: Call) -> None:
        if call.key.resource == CONFIG_MAPS and call.verb == "get" and call.stage is Stage.ANSWERED:
            if (call.exchange.outcome or "") in _READ:
                self._read_records_at[call.host] = call.exchange.sent_at
            return
        if not call.is_lease or not call.is_write or call.stage is not Stage.ANSWERED or not call.answered_ok:
            return
        spec = call.body.get("spec") or {}
        if spec.get("holderIdentity"):
            self._leads_since[call.host] = call.exchange.sent_at

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        since, process = self._leads_since.pop(host, None), self.truth.process_of(host)
        if since is None or process is None:
            return
        kinds = [KINDS[kind].resource for kind in WATCHED_KINDS if not KINDS[kind].optional]
        late = [kind for kind in kinds if process.network.received.listed_at.get(kind, -1.0) < since]
        if late:
            self.violated(host, f"decided before it listed {', '.join(late)}")
        if self._read_records_at.get(host, -1.0) < since:
            self.violated(host, "decided before it read the records of gangs")


_READ: Final = ("200", "404")
"""Answers that say what the records are; there are none before the first start."""


_RETRIABLE = ("401", "429")
"""Refusals that are not permanent: a credential is renewed, and a busy server asks for a later retry."""


class RefusedBindsBackOff(Check):
    """L8: a permanently refused bind is sent at most REFUSED_BINDS_MAX times a minute."""

    name = "L8"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._refused: dict[str, deque[float]] = {}

    def on_call(self, call: Call) -> None:
        if not call.is_bind or call.stage is not Stage.ANSWERED:
            return
        outcome = call.exchange.outcome or ""
        if outcome.startswith("2"):
            self._refused.pop(call.uid, None)
        if not outcome.startswith("4") or outcome in _RETRIABLE:
            return
        times = self._refused.setdefault(call.uid, deque(maxlen=REFUSED_BINDS_MAX))
        if len(times) == REFUSED_BINDS_MAX and times[0] > self.now - _MINUTE_S:
            self.violated(call.key.path, f"bind refused {REFUSED_BINDS_MAX + 1} times within a minute")
            times.clear()
        times.append(self.now)
