"""The results of a comparison, and their Markdown tables: medians, with the range in brackets."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct

from bench.harness.figures import Spread, spread
from bench.harness.machine import Machine
from bench.harness.rules import Rule
from bench.harness.run import SCHEDULER, Run
from bench.harness.workloads import Clock, Until, Workload


class Comparison(Struct, frozen=True, rename="camel"):
    """The JSON that `python -m bench` writes. `deviations`: differences from defaults, by scheduler.

    `absent`: schedulers that cannot be compared, and why.
    """

    machine: Machine
    deviations: dict[str, str]
    workloads: dict[str, Workload]
    runs: list[Run]
    absent: dict[str, str] = {}


BUSY: Final = 0.2
"""Usage of the machine by other processes is reported below a table from this share on."""

Read = Callable[[Run], float | None]


class Column(Struct, frozen=True):
    """A heading, the function that reads the value, and the number of decimals."""

    heading: str
    read: Read
    decimals: int = 0


def _figure(name: str) -> Read:
    return lambda run: getattr(run.figures, name, None)


def _cpu(process: str) -> Read:
    return lambda run: run.used[process].cpu_s if process in run.used else None


def _cpu_when_calm(run: Run) -> float | None:
    return run.used_when_calm[SCHEDULER].cpu_s if SCHEDULER in run.used_when_calm else None


def _cpu_per_10k(run: Run) -> float | None:
    used, seen = run.used.get(SCHEDULER), run.figures
    return 10_000 * used.cpu_s / seen.bound if used and seen and seen.bound else None


def _peak(run: Run) -> float | None:
    return run.used_when_calm[SCHEDULER].peak_mib if SCHEDULER in run.used_when_calm else None


_BINDS = (
    Column("first bind s", _figure("first_bind_s"), 2),
    Column("last bind s", _figure("last_bind_s"), 2),
    Column("pods/s in all", _figure("pods_per_s")),
    Column("pods/s first to last", _figure("rate_per_s")),
)
_LATENCY = (
    Column("p50 ms", _figure("latency_p50_ms")),
    Column("p99 ms", _figure("latency_p99_ms")),
    Column("creation late by s", lambda run: run.creation_late_s, 2),
)
_WHOLE = Column("whole gangs", _figure("whole_gangs"))
_ANSWERS = (
    Column("pods bound", _figure("bound")),
    _WHOLE,
    Column("pods held by partial gangs", _figure("pods_in_partial_gangs")),
    Column("pods refused", _figure("refused")),
    Column("last refusal s", _figure("last_refusal_s"), 2),
)
_SKEW = (Column("largest skew between zones", _figure("largest_skew")),)
_RACKS = (Column("racks per gang", _figure("racks_per_gang"), 1),)
_LEVEL = (Column("gangs outside their level", _figure("torn_gangs")),)
_EVICTED = (Column("pods evicted", lambda run: run.evicted),)
_COST = (
    Column("CPU s", _cpu(SCHEDULER), 1),
    Column("with Events", _cpu_when_calm, 1),
    Column("CPU s per 10,000 pods", _cpu_per_10k, 1),
    Column("MiB", _peak),
    Column("Events", lambda run: run.events),
    Column("API server CPU s", _cpu("kube-apiserver"), 1),
    Column("etcd CPU s", _cpu("etcd"), 1),
)
_OCCUPANCY = (Column("mean occupancy %", lambda run: _percent(run), 1),)


def _percent(run: Run) -> float | None:
    share = run.figures.mean_occupancy if run.figures else None
    return None if share is None else 100 * share


def columns(workload: Workload) -> tuple[Column, ...]:
    """The columns that are relevant for this workload."""
    found = _ANSWERS if workload.until is Until.ANSWERED else _BINDS
    if workload.arrival.per_second and workload.until is Until.BOUND:
        found = (*_LATENCY, *found)
    if any(kind.level for kind in workload.gangs):
        found = (*found, *_LEVEL)
    for rule, more in ((Rule.SPREAD, _SKEW), (Rule.AFFINITY, _RACKS)):
        if any(kind.rule is rule for kind in workload.gangs):
            found = (*found, *more)
    if any(kind.rule for kind in workload.gangs):
        found = (*found, _WHOLE)
    if any(kind.existing for kind in workload.gangs):
        found = (*found, *_EVICTED)
    if workload.run_seconds:
        found = (*found, *_OCCUPANCY)
    return (*found, *_COST)


def markdown(comparison: Comparison) -> str:
    """The tables of all workloads, with the machine and the versions."""
    parts = [_about(comparison.machine)]
    for workload in comparison.workloads.values():
        parts.append(f"## {workload.name}\n\n{workload.about} {_clock(workload)}")
        parts.append(table(workload, [run for run in comparison.runs if run.workload == workload.name]))
    parts += _named("Not as shipped", comparison.deviations)
    parts += _named("Not compared", comparison.absent)
    return "\n\n".join(parts) + "\n"


def _named(heading: str, words: dict[str, str]) -> list[str]:
    listed = [f"- {name}: {text}" for name, text in words.items() if text]
    return [f"## {heading}\n\n" + "\n".join(listed)] if listed else []


def table(workload: Workload, runs: Sequence[Run]) -> str:
    """A row for each scheduler; below the table a sentence for each unfinished run."""
    shown = columns(workload)
    lines = [
        "| " + " | ".join(["scheduler", "runs", *(column.heading for column in shown)]) + " |",
        "| " + " | ".join(["---"] * (len(shown) + 2)) + " |",
    ]
    for name in dict.fromkeys(run.contender for run in runs):
        mine = [run for run in runs if run.contender == name]
        good = [run for run in mine if not run.trouble]
        cells = [_cell(good, column) for column in shown]
        lines.append("| " + " | ".join([name, f"{len(good)} of {len(mine)}", *cells]) + " |")
    notes = [*_failures(runs), *_overcommitments(runs), *_disturbances(runs)]
    return "\n".join(lines + ([""] if notes else []) + notes)


def _cell(runs: Sequence[Run], column: Column) -> str:
    found = spread([column.read(run) for run in runs])
    return "-" if found is None else _shown(found, column.decimals)


def _shown(found: Spread, decimals: int) -> str:
    median, least, most = (f"{value:,.{decimals}f}" for value in (found.median, found.least, found.most))
    return median if least == most else f"{median} ({least}–{most})"


def _failures(runs: Iterable[Run]) -> list[str]:
    return [f"- {run.contender}, round {run.round}: {run.trouble}" for run in runs if run.trouble]


def _overcommitments(runs: Iterable[Run]) -> list[str]:
    """Bare binding POSTs over-commit nodes where round-robin does not fit; a scheduler must not."""
    return [
        f"- {run.contender}, round {run.round}: {run.figures.overcommitted_nodes} nodes over-committed"
        for run in runs
        if run.figures is not None and run.figures.overcommitted_nodes
    ]


def _disturbances(runs: Iterable[Run]) -> list[str]:
    return [
        f"- {run.contender}, round {run.round}: others used {run.busy_before:.0%} of the machine before"
        for run in runs
        if run.busy_before > BUSY
    ]


def _clock(workload: Workload) -> str:
    if workload.clock is Clock.BACKLOG:
        return "Seconds count from the start of the scheduler's process, with all pods waiting."
    return "Seconds count from the first creation, with the scheduler running."


def _about(machine: Machine) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    return (
        f"{machine.day}, {machine.cores} cores ({machine.processor}), {machine.memory_gib} GiB, "
        f"{machine.system}; {versions}. Medians, with the range in brackets."
    )
