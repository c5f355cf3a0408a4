"""`python -m bench.plots`: a chart of each committed result in bench/results that has one. Needs matplotlib.

The charts of `docs/benchmarks.md` are drawn as SVG into docs/pictures too.
The charts of OpenB are drawn by `bench.openb.plot`.
"""

import json
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

RESULTS = Path(__file__).parent / "results"
PICTURES = Path(__file__).parents[1] / "docs" / "pictures"

SHOWN = ("sweep", "infeasible", "joint_admission", "growth")
"""Results whose charts the page of benchmarks shows."""

COMPARISONS = ("side_by_side", "levels", "large")
"""Comparisons of schedulers whose charts the page shows; `make bench` draws the PNG."""


def solver_scale(cases: Sequence[dict[str, Any]]) -> Figure:
    """Milliseconds to a certified answer, median and most, per case."""
    figure, axis = plt.subplots(figsize=(10, 0.5 * len(cases) + 1))
    labels = [
        f"{case['case']}, {case['pods']} pods on {case['nodes']:,}: {case['proven']}/{case['seeds']} proven"
        for case in cases
    ]
    places = range(len(cases))
    axis.barh(places, [case["millisecondsMax"] for case in cases], color="lightgray", label="most")
    axis.barh(places, [case["millisecondsP50"] for case in cases], label="median")
    _name(axis, places, labels)
    axis.set_xlabel("CPU milliseconds")
    axis.legend()
    return figure


def sweep(table: dict[str, dict[str, Any]]) -> Figure:
    """Per kind of gang, how many instances were proven, and in how many greedy search alone was worse."""
    figure, axis = plt.subplots(figsize=(9, 4))
    names = [name for name in table if name != "all"]
    wide, places = 0.38, range(len(names))
    for offset, key, label in (
        (-wide / 2, "proven", "proven optimal or infeasible"),
        (wide / 2, "betterThanGreedy", "better than greedy search"),
    ):
        shares = [100 * table[name][key] / table[name]["instances"] for name in names]
        axis.bar([place + offset for place in places], shares, wide, label=label)
    axis.set_xticks(list(places), [name.replace("_", " ") for name in names])
    axis.set_ylabel("% of instances")
    axis.legend(loc="lower right")
    return figure


def infeasible(table: dict[str, dict[str, Any]]) -> Figure:
    """How long an explanation takes, per kind of conflict."""
    figure, axis = plt.subplots(figsize=(9, 0.5 * len(table) + 1))
    places = range(len(table))
    axis.barh(places, [row["millisecondsMax"] for row in table.values()], color="lightgray", label="most")
    axis.barh(places, [row["millisecondsP50"] for row in table.values()], label="median")
    _name(axis, places, [name.replace("_", " ") for name in table])
    axis.set_xlabel("CPU milliseconds")
    axis.legend()
    return figure


def joint_admission(result: dict[str, Any]) -> Figure:
    """Value beyond sequential admission, and its upper bound, per instance."""
    cases = result["cases"]
    figure, axes = plt.subplots(1, len(cases), figsize=(3 * len(cases), 4), squeeze=False, sharey=True)
    for axis, each in zip(axes[0], cases, strict=True):
        runs = sorted(each["runs"], key=lambda run: float(run["bound"] / run["greedy"]))
        places = range(len(runs))
        bound, reached = (
            [100 * (run[key] / run["greedy"] - 1) for run in runs] for key in ("bound", "joint")
        )
        axis.bar(places, bound, color="lightgray", label="bound")
        axis.bar(places, reached, label="reached")
        case = each["case"]
        axis.set_title(f"{case['name']}: {case['gangs']} gangs,\n{case['nodes']:,} nodes", fontsize=9)
        axis.set_xticks([])
    axes[0][0].set_ylabel("% of value beyond sequential admission")
    axes[0][0].legend()
    return figure


def victims(cases: Sequence[dict[str, Any]]) -> Figure:
    """Cost of greedy rules and the proven bound, in percent of the cost found; and CPU seconds."""
    figure, (costs, times) = plt.subplots(1, 2, figsize=(12, 0.5 * len(cases) + 1), width_ratios=(2, 1))
    labels = []
    for each in cases:
        case, runs = each["case"], each["runs"]
        proven = sum(run["proven"] for run in runs)
        labels.append(f"{case['name']}: {case['pods']} on {case['nodes']:,}, {proven}/{len(runs)} proven")
    places = range(len(cases))
    for key, marker, label in (
        ("bound", "|", "bound"),
        ("best_ratio", "x", "ratio"),
        ("cheapest_first", "o", "cheapest first"),
    ):
        means = [
            sum(100 * run[key] / run["cost"] for run in each["runs"]) / len(each["runs"]) for each in cases
        ]
        costs.plot(means, places, marker, label=label)
    costs.axvline(100, color="lightgray")
    costs.set_xlabel("% of the cost that was found")
    costs.legend()
    _name(costs, places, labels)
    times.barh(places, [max(run["seconds"] for run in each["runs"]) for each in cases])
    _name(times, places, [""] * len(cases))
    times.set_xlabel("CPU seconds, most")
    return figure


def greedy_loses(rows: Sequence[dict[str, Any]]) -> Figure:
    """Per case, whether each method finds the optimum, a higher cost, or no placement."""
    ways = {
        "phalanx": "Phalanx",
        "fullestFirst": "fullest node first",
        "emptiestFirst": "emptiest node first",
    }
    figure, axis = plt.subplots(figsize=(9, 0.5 * len(rows) + 1))
    shades = [[_loss(row[way], row["best"]) for way in ways] for row in rows]
    axis.imshow(shades, cmap="RdYlGn_r", vmin=0, vmax=2, aspect="auto", alpha=0.6)
    for place, row in enumerate(rows):
        for column, way in enumerate(ways):
            axis.text(column, place, _shown_loss(row[way], row["best"]), ha="center", va="center", fontsize=8)
    axis.set_xticks(range(len(ways)), list(ways.values()))
    axis.set_yticks(range(len(rows)), [f"{row['case']} ({row['placements']:,} placements)" for row in rows])
    return figure


def _loss(cost: list[int] | None, best: list[int]) -> int:
    return 2 if cost is None else int(cost != best)


def _shown_loss(cost: list[int] | None, best: list[int]) -> str:
    if cost is None:
        return "not placed"
    shown = "/".join(map(str, cost))
    return f"best {shown}".rstrip() if cost == best else f"{shown} instead of {'/'.join(map(str, best))}"


def as_proven(result: dict[str, Any]) -> Figure:
    """Gangs per rack on the real control plane, and how many have the certificate proven offline."""
    figure, axis = plt.subplots(figsize=(9, 3))
    counts = list(result["gangsByRack"].values())
    axis.bar(range(len(counts)), counts)
    axis.set_xlabel(f"racks; {result['gangsInSeveralRacks']} gangs in several")
    axis.set_ylabel("gangs")
    axis.set_title(
        f"{result['sameCertificate']} of {result['gangs']} placed and proven as offline", fontsize=9
    )
    return figure


def growth(result: dict[str, Any]) -> Figure:
    """CPU seconds and memory of one cycle over nodes and over pods, both axes logarithmic."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 4))
    for axis, by, key in ((axes[0], "nodes", "byNodes"), (axes[1], "pods", "byPods")):
        rows, exponents = result[key]["rows"], result[key]["exponents"]
        for of, unit in (("cpuSeconds", "CPU s"), ("grownMiB", "MiB")):
            label = f"{unit}, exponent {exponents[of]:.2f}"
            axis.loglog([row[by] for row in rows], [row[of] for row in rows], marker="o", label=label)
        axis.set_xlabel(by)
        axis.legend()
    return figure


def philly(result: dict[str, Any]) -> Figure:
    """Per policy and load: mean wait by size, utilisation, fairness, lost GPU time."""
    runs = result["runs"]
    sizes = list(dict.fromkeys(size for each in runs for size in each["outcome"]["waits"]))
    panels: list[tuple[str, Callable[[Any], float]]] = [
        *((f"mean wait, {size} GPUs, h", partial(_mean_hours, size)) for size in sizes),
        ("GPU time used, %", lambda out: float(100 * out["utilisation"])),
        ("Jain index of held over fair share", lambda out: float(out["jain"])),
        ("evictions per 1,000 gangs", lambda out: float(out["evictionsPerThousand"])),
        ("GPU hours lost", lambda out: float(out["lostGpuHours"])),
    ]
    rows = -(-len(panels) // 4)
    figure, axes = plt.subplots(rows, 4, figsize=(14, 3 * rows), squeeze=False)
    policies = list(dict.fromkeys(each["policy"] for each in runs))
    loads = list(dict.fromkeys(each["loadPercent"] for each in runs))
    wide = 0.8 / len(policies)
    for axis, (title, value) in zip(axes.flat, panels, strict=False):
        for index, policy in enumerate(policies):
            bars = [value(each["outcome"]) for each in runs if each["policy"] == policy]
            axis.bar([place + index * wide for place in range(len(bars))], bars, wide, label=policy)
        axis.set_title(title, fontsize=9)
        axis.set_xticks(
            [place + 0.4 - wide / 2 for place in range(len(loads))], [f"{load} %" for load in loads]
        )
    for axis in axes.flat[len(panels) :]:
        axis.remove()
    axes[0][0].legend(fontsize=7)
    return figure


def traffic(cases: Sequence[dict[str, Any]]) -> Figure:
    """Traffic between nodes and racks, and the modelled step, per case and scheduler."""
    panels = (
        ("betweenNodesGb", "GB between nodes in a step"),
        ("betweenRacksGb", "GB between racks in a step"),
        ("stepMeanS", "modelled seconds of a step, mean of jobs"),
    )
    methods = list(cases[0]["methods"])
    figure, axes = plt.subplots(1, len(panels), figsize=(14, 0.75 * len(cases) + 1.5), sharey=True)
    high = 0.8 / len(methods)
    for axis, (key, title) in zip(axes, panels, strict=True):
        for index, method in enumerate(methods):
            places = [place + index * high for place in range(len(cases))]
            values = [each["methods"][method][key] for each in cases]
            bars = axis.barh(places, values, high, label=method)
            axis.bar_label(bars, [f"{value:.3g}" for value in values], fontsize=6, padding=2)
        _name(axis, range(len(cases)), [each["case"] for each in cases])
        axis.set_title(title, fontsize=9)
        axis.margins(x=0.12)
    axes[0].legend(fontsize=7, loc="upper right")
    return figure


def _mean_hours(size: str, outcome: dict[str, Any]) -> float:
    return float(outcome["waits"].get(size, {"meanS": 0.0})["meanS"]) / 3600


def _name(axis: Any, places: Sequence[int], labels: Sequence[str]) -> None:
    """Label bars from the top down, in the order of the table."""
    axis.set_yticks(list(places), labels, fontsize=8)
    axis.invert_yaxis()


def last_binds(runs: Sequence[dict[str, Any]]) -> Figure:
    """Seconds until the last bind by scheduler: the median, and the range; one chart for each workload."""
    workloads = list(dict.fromkeys(run["workload"] for run in runs))
    figure, axes = plt.subplots(len(workloads), 1, figsize=(9, 2.6 * len(workloads)), squeeze=False)
    for axis, workload in zip(axes[:, 0], workloads, strict=True):
        seconds: dict[str, list[float]] = {}
        for run in runs:
            if run["workload"] == workload and run["figures"] is not None and not run["trouble"]:
                seconds.setdefault(run["contender"], []).append(run["figures"]["lastBindS"])
        names = sorted(seconds, key=lambda name: statistics.median(seconds[name]))
        medians = [statistics.median(seconds[name]) for name in names]
        reach = [
            [median - min(seconds[name]) for median, name in zip(medians, names, strict=True)],
            [max(seconds[name]) - median for median, name in zip(medians, names, strict=True)],
        ]
        colours = ["C0" if name == "phalanx" else "lightgray" for name in names]
        axis.barh(range(len(names)), medians, xerr=reach, color=colours, capsize=3)
        _name(axis, range(len(names)), names)
        axis.set_title(f"{workload}: seconds until the last bind")
    return figure


CHARTS: Final[dict[str, Callable[[Any], Figure]]] = {
    chart.__name__: chart
    for chart in (
        solver_scale,
        sweep,
        infeasible,
        joint_admission,
        victims,
        greedy_loses,
        as_proven,
        growth,
        philly,
        traffic,
    )
}


def main() -> None:
    """Draw all charts whose results exist, and print the file names."""
    for name, chart in CHARTS.items():
        source, to = RESULTS / f"{name}.json", RESULTS / f"{name}.png"
        if not source.exists():
            print(f"{source.name}: missing; python -m bench.{name} writes it")
            continue
        figure = chart(json.loads(source.read_text())["result"])
        figure.tight_layout()
        figure.savefig(to, dpi=110)
        print(to.name)
        if name in SHOWN:
            _save_svg(figure, PICTURES / f"{name}.svg")
    for name in COMPARISONS:
        figure = last_binds(json.loads((RESULTS / f"{name}.json").read_text())["runs"])
        figure.tight_layout()
        _save_svg(figure, PICTURES / f"{name}.svg")


def _save_svg(figure: Figure, to: Path) -> None:
    """The same figure gives the same file."""
    with mpl.rc_context({"svg.hashsalt": to.stem}):
        figure.savefig(to, metadata={"Date": None})
    print(to.name)


if __name__ == "__main__":
    main()
