"""The results of a study, with what each variant changes from the first one."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx_simulator.lab.engine.outcome import SIZES, Outcome
from phalanx_simulator.lab.study.study import Study
from phalanx_simulator.lab.study.variants import Plan


class Played(Struct, frozen=True, rename="camel"):
    """The days that were played. `gpus_wanted`: the average demand if each job ran from its submission."""

    path: str
    format: str
    first_day: int
    days: int
    jobs: int
    jobs_before: int
    gpus_wanted: float
    period_s: int


class Change(Struct, frozen=True, rename="camel"):
    """A figure of the first variant, and of this one; None if it is not known."""

    figure: str
    before: float | None
    after: float | None


class VariantResult(Struct, frozen=True, rename="camel"):
    """One variant."""

    name: str
    nodes: int
    gpus: int
    outcome: Outcome
    changes: tuple[Change, ...] = ()


class Results(Struct, frozen=True, rename="camel"):
    """All of it. The same study gives the same results, byte for byte, wherever it is played."""

    played: Played
    notes: tuple[str, ...]
    variants: tuple[VariantResult, ...]


class Figure(Struct, frozen=True):
    """One figure of a run: how it is named, read and shown. `lower_is_better` None: neither."""

    name: str
    read: Callable[[Outcome], float | None]
    show: Callable[[float], str]
    lower_is_better: bool | None = None


def shown_time(seconds: float) -> str:
    """Seconds as `12.3 min` or `4.5 h`."""
    return f"{seconds / 60:,.1f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def printable(text: str) -> str:
    """Escape control characters: names come from files, and go to terminals and into XML."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"


def _mean(out: Outcome) -> float | None:
    return out.all_waits.mean_s if out.all_waits else None


def _p95(out: Outcome) -> float | None:
    return out.all_waits.p95_s if out.all_waits else None


FIGURES: Final = (
    Figure("mean wait", _mean, shown_time, True),
    Figure("95th percentile of waits", _p95, shown_time, True),
    Figure("used GPU time", lambda out: out.utilisation, _percent),
    Figure("goodput", lambda out: out.goodput, _percent, False),
    Figure("fairness (Jain's index)", lambda out: out.jain, lambda value: f"{value:.3f}", False),
    Figure("evictions", lambda out: float(out.evictions), lambda value: f"{value:,.0f}", True),
    Figure("lost GPU hours", lambda out: out.lost_gpu_hours, lambda value: f"{value:,.1f}", True),
    Figure("jobs never started", lambda out: float(out.never_started), lambda value: f"{value:,.0f}", True),
)


def size_figures(variants: Sequence[VariantResult]) -> tuple[Figure, ...]:
    """The mean wait of each size class that has jobs."""
    sizes = [name for name, _ in SIZES if any(name in each.outcome.waits for each in variants)]
    return tuple(Figure(f"mean wait, {size} GPUs", _mean_of(size), shown_time, True) for size in sizes)


def _mean_of(size: str) -> Callable[[Outcome], float | None]:
    return lambda out: out.waits[size].mean_s if size in out.waits else None


def results_of(study: Study, plan: Plan, outcomes: Sequence[Outcome]) -> Results:
    """Put together what the runs found."""
    window = plan.cases[0].window
    new = sum(job.is_new for job in window.jobs)
    variants = tuple(
        VariantResult(case.name, sum(pool.nodes for pool in case.setup.pools), case.setup.gpus, outcome)
        for case, outcome in zip(plan.cases, outcomes, strict=True)
    )
    figures = (*FIGURES, *size_figures(variants))
    first = variants[0].outcome
    played = Played(
        study.history.path,
        study.history.format.value,
        window.first_day,
        window.days,
        new,
        len(window.jobs) - new,
        round(window.wanted, 1),
        study.period_seconds,
    )
    compared = tuple(replace(each, changes=_changes(figures, first, each.outcome)) for each in variants)
    return Results(played, plan.notes, compared)


def _changes(figures: Sequence[Figure], first: Outcome, this: Outcome) -> tuple[Change, ...]:
    if this is first:
        return ()
    return tuple(Change(each.name, each.read(first), each.read(this)) for each in figures)


def sentences(results: Results) -> list[tuple[str, list[str]]]:
    """What each further variant would have changed, in words: the figures that differ."""
    first, *others = results.variants
    figures = {each.name: each for each in (*FIGURES, *size_figures(results.variants))}
    said = []
    for variant in others:
        lines = [
            line
            for change in variant.changes
            if (line := _sentence(figures[change.figure], change, first.name)) is not None
        ]
        said.append((variant.name, lines or [f"nothing that these figures show, compared with {first.name}"]))
    return said


def _sentence(figure: Figure, change: Change, first: str) -> str | None:
    """None for a figure that is shown alike in both, or not known in one."""
    if change.before is None or change.after is None:
        return None
    before, after = figure.show(change.before), figure.show(change.after)
    if before == after:
        return None
    text = f"{figure.name}: {after} instead of {before}"
    if change.before:
        text += f" ({100 * (change.after - change.before) / change.before:+,.0f} %)"
    if figure.lower_is_better is None:
        return text
    better = (change.after < change.before) == figure.lower_is_better
    return f"{text}, {'better' if better else 'worse'}"
