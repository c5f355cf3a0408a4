"""The chart of a comparison, with a row for each workload. Needs matplotlib."""

from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

from bench.harness.figures import spread
from bench.harness.run import Run
from bench.harness.tables import Column, Comparison, columns
from bench.harness.workloads import Until, Workload

_ROW_INCHES: Final = 2.6


def draw(comparison: Comparison, to: Path) -> None:
    """Write a PNG: on the left the main figure of each scheduler, on the right a curve over time.

    The curve shows the bound pods, or for pods that end the used share of the cluster.
    """
    workloads = list(comparison.workloads.values())
    figure, axes = plt.subplots(
        len(workloads), 2, figsize=(12, _ROW_INCHES * len(workloads) + 0.5), squeeze=False
    )
    names = list(dict.fromkeys(run.contender for run in comparison.runs))
    colours = {name: f"C{number}" for number, name in enumerate(names)}
    for workload, (left, right) in zip(workloads, axes, strict=True):
        runs = [run for run in comparison.runs if run.workload == workload.name]
        _bars(left, workload, runs, colours)
        _curves(right, workload, runs, colours)
    figure.tight_layout()
    figure.savefig(to, dpi=110)
    plt.close(figure)


def main_column(workload: Workload) -> Column:
    """The main figure of a workload, which the bars show."""
    by_heading = {column.heading: column for column in columns(workload)}
    if workload.until is Until.ANSWERED:
        return by_heading["whole gangs" if len(workload.arriving()) > 1 else "last refusal s"]
    return by_heading["p99 ms" if workload.arrival.per_second else "last bind s"]


def _bars(axis: Any, workload: Workload, runs: list[Run], colours: dict[str, str]) -> None:
    column = main_column(workload)
    names = list(dict.fromkeys(run.contender for run in runs))
    for place, name in enumerate(names):
        mine = [run for run in runs if run.contender == name]
        found = spread([column.read(run) for run in mine if not run.trouble])
        if found is None:
            axis.text(0, place, "  not finished", va="center", fontsize=8)
            continue
        reach = [[found.median - found.least], [found.most - found.median]]
        axis.barh(place, found.median, xerr=reach, color=colours[name], capsize=3)
        axis.text(found.most, place, f"  {found.median:,.{column.decimals}f}", va="center", fontsize=8)
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.invert_yaxis()
    axis.margins(x=0.15)
    axis.set_title(f"{workload.name}: {column.heading}", fontsize=9)


def _curves(axis: Any, workload: Workload, runs: list[Run], colours: dict[str, str]) -> None:
    for run in runs:
        if run.figures is not None and run.figures.curve:
            seconds, bound, shares = zip(*run.figures.curve, strict=True)
            values = [100 * share for share in shares] if workload.run_seconds else bound
            label = run.contender if run.round == 1 else None
            axis.plot(seconds, values, color=colours[run.contender], linewidth=1, label=label)
    what = "% of the cluster held" if workload.run_seconds else "pods bound"
    axis.set_title(f"{what}, over seconds", fontsize=9)
    if axis.lines:
        axis.legend(fontsize=7, loc="lower right", framealpha=0.6)
