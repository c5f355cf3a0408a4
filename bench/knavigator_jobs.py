"""Knavigator's gang benchmark: its jobs, and what a run of them comes to."""

from typing import Final

from msgspec import Struct

JOBS: Final = (
    *((1, 32), (2, 16), (3, 10), (1, 2), (4, 8), (5, 6), (2, 1), (6, 5), (1, 2), (7, 4), (1, 2), (2, 1)),
    *((8, 4), (9, 3), (1, 5)),
)
"""How many jobs of how many pods, in the order in which they are submitted."""

NODES: Final = 32
GPUS: Final = 8
RUN_S: Final = 120.0


class Times(Struct):
    """When each pod was seen to begin and to end, in seconds; `submitted`: when all could begin."""

    submitted: float
    began: dict[str, float] = {}
    ended: dict[str, float] = {}

    def saw(self, pod: str, phase: str, now: float) -> None:
        """A pod was written."""
        if phase == "Running":
            self.began.setdefault(pod, now)
        if phase == "Succeeded":
            self.ended.setdefault(pod, now)


class Played(Struct, frozen=True, rename="camel"):
    """One run, in seconds. `occupancy`: the part of all node-seconds in which pods ran.

    `busy`: the nodes in use, at as many equal distances as run times fit into the makespan. `violations`:
    checks of the simulator that failed, or pods that were given a node that had one.
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
    """All node-seconds, spread over all nodes."""
    return sum(jobs) * run_s / nodes


def played(
    times: Times, jobs: list[int], *, nodes: int, run_s: float, ordering: str, violations: int
) -> Played:
    """What a run came to."""
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
