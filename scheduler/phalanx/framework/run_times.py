"""When gangs that run are expected to end: from what they say of their run time, else from what others took.

Nobody ends a gang that runs longer than expected. One that has outlived it is expected to run twice as long,
then four times, and so on: so a wrong run time moves an expected end, but never removes it.

Whoever says nothing is expected to run as long as the last gangs of its kind that have succeeded and whose
pods are still there: of the same queue, namespace, minMember and name or controller, but for a number at the
end of that. For others that run a time is assumed, a day unless the configuration says otherwise: of the jobs
of Microsoft's Philly trace (msr-fiddle/philly-traces) 97 % ended within one. Not so for pods that are
restarted whenever they end, and for those of other schedulers. Nobody is let in front of others for a time
that is only assumed.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Final

from msgspec import Struct

from phalanx.framework.config import SchedulerConfig
from phalanx.model.api.pod_groups import Runtime
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.names import QueueName
from phalanx.model.pods import Pod

ASSUMED_RUN_MIN_MS: Final = 60_000
"""Milliseconds for which a gang runs at least of which nobody knows how long that is: many fail at once."""

DELETION_EXPECTED_MS: Final = 30_000
"""Milliseconds within which a gang that is being deleted is expected to be gone: a pod's usual grace."""

OBSERVED_RUNS_MIN: Final = 3
"""Gangs of a kind that must have run before another one is expected to run as long: one may be chance."""

OBSERVED_RUNS_MAX: Final = 8
"""Gangs of a kind, the last ones, that count: what was long ago may have been other work."""

Kind = tuple[GangKind, str, QueueName, str, int]
"""What makes the run times of two gangs alike."""


class Method(StrEnum):
    """What an expected time rests on, in words; the surest first."""

    MAXIMUM = "maximum run times"
    ESTIMATE = "estimates"
    OBSERVED = "run times of earlier gangs"
    ASSUMED = "assumed run times"
    AHEAD = "after gangs ahead of it"


class Expected(Struct, frozen=True):
    """How long something probably runs, and the time, no shorter, that is planned with; milliseconds."""

    likely_ms: int
    planned_ms: int
    method: Method


class End(Struct, frozen=True):
    """Milliseconds since the epoch, all after now: `likely` <= `at` <= `latest`.

    `at` is planned with. `latest` leaves what has no maximum as much time again. A maximum that has passed is
    an estimate.
    """

    at: int
    likely: int
    latest: int
    method: Method


def declared(runtime: Runtime) -> Expected | None:
    """What a gang says itself: the maximum is planned with, else the estimate; None where it says nothing."""
    planned = runtime.max_ms or runtime.estimate_ms
    if planned is None:
        return None
    method = Method.MAXIMUM if runtime.max_ms else Method.ESTIMATE
    return Expected(runtime.estimate_ms or planned, planned, method)


def end_of_run(expected: Expected, *, begun: int, now: int) -> End:
    """When a run that began then is expected to end."""
    at = _next_end(begun, expected.planned_ms, now)
    likely = min(at, _next_end(begun, expected.likely_ms, now))
    if expected.method is not Method.MAXIMUM:
        return End(at, likely, at + (at - begun), expected.method)
    is_over = begun + expected.planned_ms <= now
    return End(at, likely, at, Method.ESTIMATE if is_over else Method.MAXIMUM)


def _next_end(begun: int, run_ms: int, now: int) -> int:
    """The run time, doubled until it has not passed."""
    while begun + run_ms <= now:
        run_ms *= 2
    return begun + run_ms


class RunTimeForecast:
    """What is expected of the gangs of one session; None where nothing is known, or assumed either."""

    def __init__(self, gangs: Collection[Gang], config: SchedulerConfig, *, now: int) -> None:
        self._gangs = gangs
        self._scheduler_name = config.scheduler_name
        self._now = now
        assumed = config.backfill.assumed_runtime_ms
        self._assumed = (
            Expected(min(ASSUMED_RUN_MIN_MS, assumed), assumed, Method.ASSUMED) if assumed else None
        )

    def end_of(self, gang: Gang) -> End | None:
        """When the room of a gang with a node is expected back."""
        holding = [pod for pod in gang.members if pod.holds_node]
        if holding and all(pod.deleting for pod in holding):
            soon = self._now + DELETION_EXPECTED_MS
            return End(soon, soon, soon, Method.ESTIMATE)
        return self._end(gang, self._expected(gang) or self._assumed_of(holding))

    def end_if_placed(self, gang: Gang) -> End | None:
        """When members that got a node now would end, together with those that have one.

        A gang begins when a kubelet takes its first member that is left; until then it has not begun.
        """
        return self._end(gang, self._expected(gang))

    def _end(self, gang: Gang, expected: Expected | None) -> End | None:
        if expected is None:
            return None
        left = [pod for pod in gang.members if pod.holds_node and not pod.deleting]
        known = [pod.running_since * 1000 for pod in left if pod.running_since]
        return end_of_run(expected, begun=min([self._now, *known]), now=self._now)

    def _assumed_of(self, pods: Sequence[Pod]) -> Expected | None:
        may_end = all(pod.scheduler_name == self._scheduler_name and not pod.restarts_always for pod in pods)
        return self._assumed if may_end else None

    def end_after(self, gang: Gang, start: int) -> int | None:
        """When a gang that starts then would end."""
        expected = self._expected(gang)
        return start + expected.planned_ms if expected is not None else None

    def expected_ms(self, gang: Gang) -> int | None:
        """How long the gang is planned to run; None where nothing is known."""
        expected = self._expected(gang)
        return expected.planned_ms if expected is not None else None

    def _expected(self, gang: Gang) -> Expected | None:
        return declared(gang.runtime) or self._observed.get(kind_of(gang))

    @cached_property
    def _observed(self) -> Mapping[Kind, Expected]:
        return observed(self._gangs)


def observed(gangs: Iterable[Gang]) -> dict[Kind, Expected]:
    """Per kind of which enough are known, the shortest and the longest run of its last gangs."""
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
    """Gangs of one kind are expected to run equally long."""
    owner = gang.members[0].controller if gang.kind is GangKind.POD else None
    name = _stem(owner.name if owner is not None else gang.name)
    return (gang.kind, gang.namespace, gang.queue, name, gang.min_member)


def _stem(name: str) -> str:
    """Without what follows the last dash, where that has a digit: nightly-29384756, sweep-x7f2k, train-3."""
    head, _, last = name.rpartition("-")
    return head if head and any(letter.isdigit() for letter in last) else name
