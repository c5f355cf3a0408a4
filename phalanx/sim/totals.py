"""Many runs together: violations, faults and marks added up, outcomes in total."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from phalanx.sim.limits import SIM_VIOLATIONS_KEPT
from phalanx.sim.simulation import Summary


class FailedSeed(Struct, frozen=True):
    """The first violation of a run that had any."""

    seed: int
    check: str
    subject: str
    message: str


class Totals(Struct, frozen=True, rename="camel"):
    """`goodput`: GPU time that was not lost, of all that was held. `marks`: rare paths, times reached."""

    seeds: int
    simulated_hours: float
    cycles: int
    violation_count: int
    failed: tuple[FailedSeed, ...]
    faults: Mapping[str, int]
    marks: Mapping[str, int]
    jobs_submitted: int
    jobs_finished: int
    gangs_broken: int
    gpu_hours_held: float
    gpu_hours_lost: float
    goodput: float | None

    def text(self) -> str:
        """For a terminal."""
        faults = ", ".join(f"{family} {count}" for family, count in self.faults.items()) or "none"
        marks = ", ".join(f"{mark} {count}" for mark, count in self.marks.items()) or "none"
        return "\n".join(
            [
                f"{self.seeds} seeds, {self.simulated_hours:.1f} simulated hours, {self.cycles} cycles",
                f"faults      {faults}",
                f"jobs        {self.jobs_finished} of {self.jobs_submitted} finished",
                f"gangs       broken {self.gangs_broken} times",
                (
                    f"GPU hours   {self.gpu_hours_held:.1f} held, {self.gpu_hours_lost:.1f} lost, "
                    f"goodput {self.goodput}"
                ),
                f"reached     {marks}",
                f"violations  {self.violation_count}",
                *(f"  seed {one.seed}: {one.check} {one.subject}: {one.message}" for one in self.failed),
            ]
        )


class Adder:
    """Takes summaries in any order."""

    def __init__(self) -> None:
        self._summaries: list[Summary] = []

    def add(self, summary: Summary) -> None:
        """One more run."""
        self._summaries.append(summary)

    def totals(self) -> Totals:
        """Of all so far."""
        runs = self._summaries
        outcomes = [run.outcomes for run in runs]
        held = sum(one.gpu_hours_held for one in outcomes)
        lost = sum(one.gpu_hours_lost for one in outcomes)
        return Totals(
            seeds=len(runs),
            simulated_hours=round(sum(run.simulated_hours for run in runs), 3),
            cycles=sum(run.cycles for run in runs),
            violation_count=sum(run.violation_count for run in runs),
            failed=_failed(runs),
            faults=added(run.faults for run in runs),
            marks=added(run.marks for run in runs),
            jobs_submitted=sum(one.jobs_submitted for one in outcomes),
            jobs_finished=sum(one.jobs_finished for one in outcomes),
            gangs_broken=sum(one.gangs_broken for one in outcomes),
            gpu_hours_held=round(held, 3),
            gpu_hours_lost=round(lost, 3),
            goodput=round(1 - lost / held, 4) if held else None,
        )


def _failed(runs: list[Summary]) -> tuple[FailedSeed, ...]:
    firsts = [(run.seed, run.violations[0]) for run in runs if run.violations]
    return tuple(
        FailedSeed(seed, first.check, first.subject, first.message)
        for seed, first in sorted(firsts, key=lambda one: one[0])[:SIM_VIOLATIONS_KEPT]
    )


def added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Counts by name, summed up, in the order of the names."""
    total: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            total[name] = total.get(name, 0) + count
    return dict(sorted(total.items()))
