"""The jobs of Knavigator's gang benchmark, and the figures of a run."""

from typing import Final

from msgspec import Struct

JOBS: Final = (
    *((1, 32), (2, 16), (3, 10), (1, 2), (4, 8), (5, 6), (2, 1), (6, 5), (1, 2), (7, 4), (1, 2), (2, 1)),
    *((8, 4), (9, 3), (1, 5)),
)
"""Numbers of jobs and of pods per job, in the order of submission."""

NODES: Final = 32
GPUS: Final = 8
RUN_S: Final = 120.0


class Times(Struct):
    """When each pod was seen running and ended, in seconds; `submitted`: when all jobs were submitted."""

    submitted: float
    began: dict[str, float] = {}
    ended: dict[str, float] = {}

    def saw(self, pod: str, phase: str, now: float) -> None:
        """Record a change of a pod."""
        if phase == "Running":
            self.began.setdefault(pod, now)
        if phase == "Succeeded":
            self.ended.setdefault(pod, now)


class Played(Struct, frozen=True, rename="camel"):
    """The figures of a run, in seconds. `occupancy`: the share of all node-seconds in which pods ran.

    `busy`: the nodes in use at equally spaced times, one per run time in the makespan. `violations`: failed
    checks of the simulator, or pods bound to a node that already had one.
    """

    ordering: str
    jobs: int
    pods: int
    finished: int
    lower_bound_s: float
    makespan_s: float
    occupancy: float
    busy: tuple[int, ...]
    violations: int


def sizes() -> list[int]:
    """The size of each job."""
    return [size for count, size in JOBS for _ in range(count)]


def lower_bound_s(jobs: list[int], nodes: int, run_s: float) -> float:
    """The sum of all node-seconds divided by the number of nodes."""
    return sum(jobs) * run_s / nodes


def played(
    times: Times, jobs: list[int], *, nodes: int, run_s: float, ordering: str, violations: int
) -> Played:
    """Compute the figures of a run."""
    makespan = max(times.ended.values(), default=times.submitted) - times.submitted
    began = {name: times.began.get(name, at) for name, at in times.ended.items()}
    ran = sum(at - began[name] for name, at in times.ended.items())
    turns = round(makespan / run_s)
    moments = [times.submitted + makespan * (index + 0.5) / turns for index in range(turns)]
    return Played(
        ordering=ordering,
        jobs=len(jobs),
        pods=sum(jobs),
        finished=len(times.ended),
        lower_bound_s=lower_bound_s(jobs, nodes, run_s),
        makespan_s=round(makespan, 3),
        occupancy=round(ran / (makespan * nodes), 5) if makespan else 0.0,
        busy=tuple(sum(began[name] <= at < end for name, end in times.ended.items()) for at in moments),
        violations=violations,
    )
