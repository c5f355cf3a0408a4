"""Forecast when running gangs end, from their declared run time or from earlier gangs of their kind.

A gang that runs longer than expected is not ended. Whenever its expected run time has passed, it is doubled:
a wrong run time changes an expected end but never removes it. But a gang that was placed before a reserved
start because of its maximum run time is evicted for that start: its end is the time of the eviction.

A gang that declares no run time is expected to run as long as the last gangs of its kind that succeeded and
whose pods still exist. Gangs of a kind have the same queue, namespace, minMember and name (or controller),
apart from a number at the end of the name. Other running gangs have an assumed run time, by default a day:
97 % of the jobs of Microsoft's Philly trace (msr-fiddle/philly-traces) ended within a day. Pods that are
always restarted, and pods of other schedulers, have no assumed run time. No gang is placed before others
because of an assumed run time.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Final, Protocol

from msgspec import Struct

from phalanx.framework.config import SchedulerConfig
from phalanx.framework.plugin import NEVER
from phalanx.limits import RUN_TIME_NOTICE_MS
from phalanx.model.api.pod_groups import Runtime
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.memory import Memory
from phalanx.model.names import GangId, QueueName
from phalanx.model.pods import Pod

ASSUMED_RUN_MIN_MS: Final = 60_000
"""Minimum run time in milliseconds of a gang of unknown run time: many fail soon after their start."""

DELETION_EXPECTED_MS: Final = 30_000
"""Milliseconds until a gang that is being deleted is gone: the usual grace period of a pod."""

OBSERVED_RUNS_MIN: Final = 3
"""Minimum number of runs of a kind for a forecast: a single run may not be typical."""

OBSERVED_RUNS_MAX: Final = 8
"""Maximum number of runs of a kind for a forecast, the last ones: older ones may have been other work."""

Kind = tuple[GangKind, str, QueueName, str, int]
"""Gangs of one kind are expected to run equally long."""


class Method(StrEnum):
    """The source of a forecast, the most reliable first."""

    MAXIMUM = "maximum run times"
    ESTIMATE = "estimates"
    OBSERVED = "run times of earlier gangs"
    ASSUMED = "assumed run times"
    AHEAD = "after gangs ahead of it"


class Expected(Struct, frozen=True):
    """A likely run time, and the planned one, which is no shorter; milliseconds."""

    likely_ms: int
    planned_ms: int
    method: Method


class End(Struct, frozen=True):
    """Milliseconds since the epoch, all after now: `likely` <= `at` <= `latest`.

    `at` is the planned end. `latest` doubles a run time that is no maximum. A maximum that has passed counts
    as an estimate.
    """

    at: int
    likely: int
    latest: int
    method: Method


def declared(runtime: Runtime) -> Expected | None:
    """The declared run time: the maximum, else the estimate, else None."""
    planned = runtime.max_ms or runtime.estimate_ms
    if planned is None:
        return None
    method = Method.MAXIMUM if runtime.max_ms else Method.ESTIMATE
    return Expected(runtime.estimate_ms or planned, planned, method)


def end_of_run(expected: Expected, *, began: int, now: int) -> End:
    """The forecast end of a run that began at this time."""
    at = _next_end(began, expected.planned_ms, now)
    likely = min(at, _next_end(began, expected.likely_ms, now))
    if expected.method is not Method.MAXIMUM:
        return End(at, likely, at + (at - began), expected.method)
    is_over = began + expected.planned_ms <= now
    return End(at, likely, at, Method.ESTIMATE if is_over else Method.MAXIMUM)


def _next_end(began: int, run_ms: int, now: int) -> int:
    """The end after the run time, doubled until it is in the future."""
    while began + run_ms <= now:
        run_ms *= 2
    return began + run_ms


class _Hooks(Protocol):
    def protected_until(self, victim: Gang, beneficiary: Gang) -> int: ...


class _Session(Protocol):
    """The parts of the session that forecasts need."""

    @property
    def gangs(self) -> Mapping[GangId, Gang]: ...
    @property
    def config(self) -> SchedulerConfig: ...
    @property
    def now(self) -> int: ...
    @property
    def memory(self) -> Memory: ...
    @property
    def hooks(self) -> _Hooks: ...


class RunTimeForecast:
    """Forecasts for the gangs of one session; None if no run time is known or assumed."""

    def __init__(self, session: _Session) -> None:
        self._session = session
        self._now = session.now
        assumed = session.config.backfill.assumed_runtime_ms
        self._assumed = (
            Expected(min(ASSUMED_RUN_MIN_MS, assumed), assumed, Method.ASSUMED) if assumed else None
        )

    def end_of(self, gang: Gang) -> End | None:
        """The time at which the capacity of a gang that has nodes is expected to be free."""
        holding = [pod for pod in gang.members if pod.holds_node]
        if holding and all(pod.deleting for pod in holding):
            soon = self._now + DELETION_EXPECTED_MS
            return End(soon, soon, soon, Method.ESTIMATE)
        due = self.due_of(gang.id)
        if due is not None and holding:
            return End(due, due, due, Method.MAXIMUM)
        return self._end(gang, self._expected(gang) or self._assumed_of(holding))

    def due_of(self, gang: GangId) -> int | None:
        """When the gang ends or is evicted, if it was placed before a reserved start; None if it is not."""
        entry, gangs = self._session.memory.let_in.get(gang), self._session.gangs
        if entry is None or gang not in gangs:
            return None
        if entry.ends > self._now:
            return entry.ends
        reserved = self._session.memory.reserved_starts
        noticed = (entry.noticed or self._now) + RUN_TIME_NOTICE_MS
        ends = [
            max(
                noticed,
                self._session.hooks.protected_until(gangs[gang], gangs[other]),
                reserved[other].held_from if other in reserved else 0,
            )
            for other in entry.before
            if other in gangs
        ]
        end = min(ends, default=NEVER)
        if end > self._now:
            return end if end < NEVER else None
        return self._now + DELETION_EXPECTED_MS if self._now < end + RUN_TIME_NOTICE_MS else None

    def end_if_placed(self, gang: Gang) -> End | None:
        """The end of the gang if its other members were placed now.

        The run begins when the kubelet starts the first of the remaining members. One that has a node but
        does not run counts from when it got the node.
        """
        return self._end(gang, self._expected(gang))

    def _end(self, gang: Gang, expected: Expected | None) -> End | None:
        if expected is None:
            return None
        left = [pod for pod in gang.members if pod.holds_node and not pod.deleting]
        known = [pod.running_since or pod.bound_since for pod in left]
        began = min([self._now, *(1000 * since for since in known if since)])
        return end_of_run(expected, began=began, now=self._now)

    def _assumed_of(self, pods: Sequence[Pod]) -> Expected | None:
        ours = self._session.config.scheduler_name
        may_end = all(pod.scheduler_name == ours and not pod.restarts_always for pod in pods)
        return self._assumed if may_end else None

    def end_after(self, gang: Gang, start: int) -> int | None:
        """The planned end (ms) of a gang that starts at this time."""
        expected = self._expected(gang)
        return start + expected.planned_ms if expected is not None else None

    def expected_ms(self, gang: Gang) -> int | None:
        """The planned run time of the gang; None if unknown."""
        expected = self._expected(gang)
        return expected.planned_ms if expected is not None else None

    def _expected(self, gang: Gang) -> Expected | None:
        return declared(gang.runtime) or self._observed.get(kind_of(gang))

    @cached_property
    def _observed(self) -> Mapping[Kind, Expected]:
        return observed(self._session.gangs.values())


def observed(gangs: Iterable[Gang]) -> dict[Kind, Expected]:
    """For each kind with enough runs, the shortest and the longest of its last runs."""
    runs: dict[Kind, list[tuple[int, int]]] = {}
    for gang in gangs:
        spans = [pod.ran for pod in gang.members if pod.ran is not None]
        if len(spans) >= gang.min_member and all(pod.is_finished for pod in gang.members):
            began, ended = min(began for began, _ in spans), max(ended for _, ended in spans)
            runs.setdefault(kind_of(gang), []).append((ended, max(1, ended - began) * 1000))
    found: dict[Kind, Expected] = {}
    for kind, known in runs.items():
        last = [run for _, run in sorted(known)[-OBSERVED_RUNS_MAX:]]
        if len(last) >= OBSERVED_RUNS_MIN:
            found[kind] = Expected(min(last), max(last), Method.OBSERVED)
    return found


def kind_of(gang: Gang) -> Kind:
    owner = gang.members[0].controller if gang.kind is GangKind.POD else None
    name = _stem(owner.name if owner is not None else gang.name)
    return (gang.kind, gang.namespace, gang.queue, name, gang.min_member)


def _stem(name: str) -> str:
    """The name without the part after the last dash if that has a digit: nightly-29384756, train-3."""
    head, _, last = name.rpartition("-")
    return head if head and any(letter.isdigit() for letter in last) else name
