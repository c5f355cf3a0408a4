"""`phalanx simulate`: the production scheduler in virtual time under seeded faults, with all checks."""

import math
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from cyclopts import Parameter
from phalanx.cli.exits import BadInput, Exit

from phalanx_simulator.commands.options import HERE, WorkerOptions
from phalanx_simulator.commands.progress import progress
from phalanx_simulator.commands.workers import leaving_at_once

if TYPE_CHECKING:
    from phalanx_simulator.campaigns.jobs import TraceJob
    from phalanx_simulator.runs.scenarios import Request
    from phalanx_simulator.runs.simulation import Summary
    from phalanx_simulator.runs.totals import Adder

SIM_SEEDS_MAX: Final = 1_000_000
"""Most runs of one command: months of computing. A larger number is a typing error."""


def simulate(
    *,
    seed: int | None = None,
    seeds: str | None = None,
    workers: WorkerOptions = HERE,
    nodes: int = 32,
    hours: float = 1.0,
    faults: str = "all",
    load: float = 0.7,
    trace: Path | None = None,
    workload: str = "plain",
    events: Annotated[bool, Parameter(negative="")] = False,
    twin: Annotated[bool, Parameter(negative="")] = False,
    output: Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])] = "text",
) -> int:
    """Run the scheduler in virtual time under seeded faults: exit code 0 when no check was violated, else 1.

    Parameters
    ----------
    seed
        The run's seed; the same seed and settings give the same run. Default: 0.
    seeds
        Many runs, FIRST..LAST, instead of one.
    nodes
        Nodes of the cluster, eight GPUs each, eight to a rack, four racks to a block.
    hours
        Simulated hours in which jobs are submitted and faults start; the cluster then rests for half an hour.
    faults
        A fault profile (none, calm, network, leaders, nodes, correlated, pods, objects, rivals, cluster, all,
        storm) with many short gangs, or published fault rates (life, life-x10, life-x100) with jobs as in
        Microsoft's Philly trace.
    load
        GPU time that the jobs request, as a fraction of the GPU time of the cluster.
    trace
        A CSV of real jobs with the columns timestamp (ISO 8601), duration (seconds), num_gpus and cluster
        (their queue), instead of random ones.
    workload
        plain, claims (volumes, devices), prepared, shares, queues, native, volcano; plain with a trace.
    events
        Print a line for each fault, placement and eviction on standard error.
    twin
        Run the same jobs without faults too, and report the difference. One seed only.
    output
        text, or json.
    """
    from phalanx_simulator.runs.scenarios import Request

    _refuse_unknown(faults, workload, trace)
    jobs = 1 if workers.jobs is None else workers.jobs
    _require_positive(("--nodes", nodes), ("--hours", hours), ("--jobs", jobs), ("--load", load))
    size: dict[str, Any] = {"nodes": nodes, "hours": hours, "faults": faults, "load": load}
    request = Request(seed=0, trace=_read_trace(trace, nodes=nodes), workload=workload, **size)
    first, last = _range(seed, seeds)
    if first == last:
        _refuse_dask(workers.dask)
        request = msgspec.structs.replace(request, seed=first)
        return _one(request, trace, events=events, twin=twin, output=output)
    if twin:
        raise BadInput("--twin: expected with one seed, found with many")
    return _many(request, trace, range(first, last + 1), jobs=jobs, dask=workers.dask, output=output)


def _refuse_unknown(faults: str, workload: str, trace: Path | None) -> None:
    from phalanx_simulator.runs.scenarios import FAULTS, WORKLOADS

    for flag, name, known in (("--faults", faults, FAULTS), ("--workload", workload, WORKLOADS)):
        if name not in known:
            raise BadInput(f"{flag}: expected one of {', '.join(known)}; found {name}")
    if trace is not None and workload != "plain":
        raise BadInput(f"--workload: expected plain with --trace, found {workload}")


def _refuse_dask(dask: str | None) -> None:
    if dask is not None:
        raise BadInput("--dask: expected with many seeds (--seeds), found with one")


def _require_positive(*amounts: tuple[str, float]) -> None:
    for flag, value in amounts:
        if not 0 < value < math.inf:
            raise BadInput(f"{flag}: expected a number above 0, found {value}")


def _range(seed: int | None, seeds: str | None) -> tuple[int, int]:
    if seeds is None:
        return (seed or 0), (seed or 0)
    if seed is not None:
        raise BadInput("--seed, --seeds: expected one of them, found both")
    first, dots, last = seeds.partition("..")
    if not (dots and first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
        raise BadInput(f"--seeds: expected FIRST..LAST such as 1..100, found {seeds}")
    if int(last) - int(first) >= SIM_SEEDS_MAX:
        raise BadInput(f"--seeds: expected at most {SIM_SEEDS_MAX} seeds, found {seeds}")
    return int(first), int(last)


def _read_trace(trace: Path | None, *, nodes: int) -> "tuple[TraceJob, ...]":
    """Read the trace.

    Jobs that are larger than the cluster are left out later; at least one job must fit.
    """
    from phalanx_simulator.campaigns.jobs import TraceError, read_trace
    from phalanx_simulator.runs.scenarios import GPUS_PER_NODE

    if trace is None:
        return ()
    try:
        read = read_trace(trace)
    except OSError as error:
        raise BadInput(f"--trace: expected a readable file, found {trace}: {error.strerror}") from error
    except TraceError as error:
        raise BadInput(f"--trace: {error}") from error
    gpus = nodes * GPUS_PER_NODE
    if all(job.pods * job.gpus_per_pod > gpus for job in read):
        raise BadInput(f"--trace: expected a job of at most {gpus} GPUs, all that {nodes} nodes have")
    return read


def _one(request: "Request", trace: Path | None, *, events: bool, twin: bool, output: str) -> int:
    from phalanx_simulator.runs.simulation import total_seconds

    seconds = total_seconds(request.hours) * (1 + twin)
    with leaving_at_once(), progress("simulated seconds", total=seconds) as advance:
        summary = _run(request, advance=advance, events=events, twin=twin)
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(summary)).decode())
    else:
        print(_text(summary))
    if summary.violation_count:
        print(f"again: {command(request, trace)}", file=sys.stderr)
    return Exit.FAILED if summary.violation_count else Exit.OK


def _many(
    request: "Request", trace: Path | None, seeds: range, *, jobs: int, dask: str | None, output: str
) -> int:
    from phalanx_simulator.commands.workers import WorkersLost
    from phalanx_simulator.runs.totals import Adder

    adder = Adder()
    try:
        _add_all(adder, request, trace, seeds, jobs=jobs, dask=dask)
    except WorkersLost as error:
        print(f"simulate: {error}", file=sys.stderr)
        return Exit.FAILED
    result = adder.totals()
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(result)).decode())
    else:
        print(result.text())
    return Exit.FAILED if result.violation_count else Exit.OK


def _add_all(
    adder: "Adder", request: "Request", trace: Path | None, seeds: range, *, jobs: int, dask: str | None
) -> None:
    """Play the seeds and add them up in their order; print the command that repeats a failure."""
    from phalanx_simulator.commands.executors import executor

    requests = [msgspec.structs.replace(request, seed=seed) for seed in seeds]  # Dask takes no iterator
    with progress("seeds", total=len(seeds)) as advance, executor(jobs, dask) as pool:
        for done, summary in enumerate(pool.map(_run, requests), start=1):
            adder.add(summary)
            if summary.violation_count:
                failed = msgspec.structs.replace(request, seed=summary.seed)
                print(
                    f"seed {summary.seed}: {summary.violations[0].check}, again: {command(failed, trace)}",
                    file=sys.stderr,
                )
            advance(float(done))


def _run(
    request: "Request",
    *,
    advance: Callable[[float], None] = lambda _seconds: None,
    events: bool = False,
    twin: bool = False,
) -> "Summary":
    from phalanx.observe.logs import configure_logs

    from phalanx_simulator.invariants.catalogue import ALL_CHECKS
    from phalanx_simulator.runs.scenarios import scenario_of
    from phalanx_simulator.runs.simulation import simulate as play
    from phalanx_simulator.runs.simulation import with_twin

    configure_logs(level="critical")
    scenario = scenario_of(request, checks=ALL_CHECKS)
    summary = play(scenario, progress=advance, tell=_print_event if events else _ignore_event)
    return with_twin(summary, scenario) if twin else summary


def _print_event(at_s: float, line: str) -> None:
    print(f"{at_s:12.3f}  {line}", file=sys.stderr)


def _ignore_event(_at_s: float, _line: str) -> None:
    """Ignore events."""


def command(request: "Request", trace: Path | None) -> str:
    """The shell command that repeats this run exactly."""
    words = [
        "phalanx simulate",
        f"--seed {request.seed} --nodes {request.nodes} --hours {request.hours!r}",
        f"--faults {request.faults} --load {request.load!r}",
        *([f"--trace {shlex.quote(str(trace))}"] if trace else []),
        *([f"--workload {request.workload}"] if request.workload != "plain" else []),
    ]
    return " ".join(words)


def _twin(summary: "Summary") -> list[str]:
    if summary.twin is None or summary.cost is None:
        return []
    twin, cost = summary.twin, summary.cost
    return [
        (
            f"no faults   {twin.jobs_finished} of {twin.jobs_submitted} jobs finished, "
            f"gangs broken {twin.gangs_broken} times, {twin.gpu_hours_lost} GPU hours lost, "
            f"goodput {twin.goodput}"
        ),
        (
            f"the faults  cost {cost.jobs} jobs, {cost.gangs_broken} breaks of gangs, "
            f"{cost.pods_lost} pods, {cost.gpu_hours_lost} GPU hours, {cost.goodput} of goodput"
        ),
    ]


def _text(summary: "Summary") -> str:
    from phalanx_simulator.runs.totals import gangs_in_words, pods_in_words

    out = summary.outcomes
    faults = ", ".join(f"{family} {count}" for family, count in summary.faults.items()) or "none"
    lines = [
        f"seed {summary.seed}: {summary.simulated_hours:.2f} simulated hours, {summary.cycles} cycles",
        f"decisions   {summary.decision_hash}",
        f"faults      {faults}",
        f"jobs        {out.jobs_finished} of {out.jobs_submitted} finished",
        *gangs_in_words(out),
        f"GPU hours   {out.gpu_hours_held} held, {out.gpu_hours_lost} lost, goodput {out.goodput}",
        pods_in_words(out),
        *_twin(summary),
        f"reached     {', '.join(summary.coverage) or 'no rare path'}",
        f"violations  {summary.violation_count}",
    ]
    violations = (
        f"  {violation.check} at {violation.at_s} s, {violation.subject}: {violation.message}"
        for violation in summary.violations
    )
    return "\n".join([*lines, *violations])
