"""Totals of many runs: violations, faults, coverage, outcomes."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from phalanx_simulator.invariants.check import SIM_VIOLATIONS_KEPT
from phalanx_simulator.runs.outcomes import Histogram, Outcomes, per_fault, percentile
from phalanx_simulator.runs.outcomes import added as added_histograms
from phalanx_simulator.runs.simulation import Summary


class SeedViolation(Struct, frozen=True):
    """The first violation of a run."""

    seed: int
    at_s: float
    check: str
    subject: str
    message: str


class Totals(Struct, frozen=True, rename="camel"):
    """Totals of many runs. Fields of outcomes have the same meaning as those of one run.

    violations: the first violation of each of the first seeds with violations; `violation_count` counts all.
    Percentiles are upper bounds of `AT_MOST_S`, computed from the histograms of all seeds.
    """

    seeds: int
    simulated_hours: float
    cycles: int
    violation_count: int
    violations: tuple[SeedViolation, ...]
    faults: Mapping[str, int]
    coverage: Mapping[str, int]
    jobs_submitted: int
    jobs_finished: int
    gangs_broken: int
    gangs_whole_again: int
    restarts: int
    faults_met: int
    restarts_per_fault: float | None
    pods_lost: int
    pods_lost_by_faults: int
    whole_after_fault_p50_s: int | None
    whole_after_fault_p99_s: int | None
    whole_again_p50_s: int | None
    whole_again_p99_s: int | None
    whole_after_fault: Histogram
    whole_again: Histogram
    gpu_hours_held: float
    gpu_hours_lost: float
    goodput: float | None

    def text(self) -> str:
        """The totals as text for a terminal."""
        faults = ", ".join(f"{family} {count}" for family, count in self.faults.items()) or "none"
        coverage = ", ".join(f"{point} {count}" for point, count in self.coverage.items()) or "none"
        return "\n".join(
            [
                f"{self.seeds} seeds, {self.simulated_hours:.1f} simulated hours, {self.cycles} cycles",
                f"faults      {faults}",
                f"jobs        {self.jobs_finished} of {self.jobs_submitted} finished",
                *gangs_in_words(self),
                pods_in_words(self),
                (
                    f"GPU hours   {self.gpu_hours_held:.1f} held, {self.gpu_hours_lost:.1f} lost, "
                    f"goodput {self.goodput}"
                ),
                f"reached     {coverage}",
                f"violations  {self.violation_count}",
                *(
                    f"  seed {violation.seed}: {violation.check} {violation.subject}: {violation.message}"
                    for violation in self.violations
                ),
            ]
        )


def gangs_in_words(out: Outcomes | Totals) -> list[str]:
    """Lines about broken gangs and restarts for a terminal."""
    after_loss = _spread(out.whole_again_p50_s, out.whole_again_p99_s, "loss")
    after_fault = _spread(out.whole_after_fault_p50_s, out.whole_after_fault_p99_s, "fault")
    return [
        f"gangs       broken {out.gangs_broken} times, whole again {out.gangs_whole_again}{after_loss}",
        f"restarts    {out.restarts} by {out.faults_met} faults that affected a gang{after_fault}",
    ]


def pods_in_words(out: Outcomes | Totals) -> str:
    """A line about lost pods for a terminal."""
    return f"pods lost   {out.pods_lost}, {out.pods_lost_by_faults} of them by faults"


def _spread(p50_s: float | None, p99_s: float | None, since: str) -> str:
    """Median and p99 as text; empty if nothing was measured."""
    return "" if p50_s is None else f": {p50_s} s (median), {p99_s} s (p99) after the {since}"


class Adder:
    """Adds up summaries, in any order."""

    def __init__(self) -> None:
        self._summaries: list[Summary] = []

    def add(self, summary: Summary) -> None:
        """Add a run."""
        self._summaries.append(summary)

    def totals(self) -> Totals:
        """Totals of all runs so far."""
        runs = self._summaries
        outcomes = [run.outcomes for run in runs]
        held = sum(outcome.gpu_hours_held for outcome in outcomes)
        lost = sum(outcome.gpu_hours_lost for outcome in outcomes)
        after_fault = added_histograms(outcome.whole_after_fault for outcome in outcomes)
        after_loss = added_histograms(outcome.whole_again for outcome in outcomes)
        counts = {name: sum(getattr(outcome, name) for outcome in outcomes) for name in _COUNTS}
        return Totals(
            seeds=len(runs),
            simulated_hours=round(sum(run.simulated_hours for run in runs), 3),
            cycles=sum(run.cycles for run in runs),
            violation_count=sum(run.violation_count for run in runs),
            violations=_first_violations(runs),
            faults=added(run.faults for run in runs),
            coverage=added(run.coverage for run in runs),
            **counts,
            restarts_per_fault=per_fault(counts["restarts"], counts["faults_met"]),
            whole_after_fault_p50_s=percentile(after_fault, 50),
            whole_after_fault_p99_s=percentile(after_fault, 99),
            whole_again_p50_s=percentile(after_loss, 50),
            whole_again_p99_s=percentile(after_loss, 99),
            whole_after_fault=after_fault,
            whole_again=after_loss,
            gpu_hours_held=round(held, 3),
            gpu_hours_lost=round(lost, 3),
            goodput=round(1 - lost / held, 4) if held else None,
        )


_COUNTS: Final = (
    "jobs_submitted",
    "jobs_finished",
    "gangs_broken",
    "gangs_whole_again",
    "restarts",
    "faults_met",
    "pods_lost",
    "pods_lost_by_faults",
)
"""Fields of outcomes whose total is the sum."""


def _first_violations(runs: list[Summary]) -> tuple[SeedViolation, ...]:
    firsts = [(run.seed, run.violations[0]) for run in runs if run.violations]
    return tuple(
        SeedViolation(seed, first.at_s, first.check, first.subject, first.message)
        for seed, first in sorted(firsts, key=lambda one: one[0])[:SIM_VIOLATIONS_KEPT]
    )


def added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Sums of the counts by name, ordered by name."""
    total: dict[str, int] = {}
    for counted in counts:
        for name, count in counted.items():
            total[name] = total.get(name, 0) + count
    return dict(sorted(total.items()))
