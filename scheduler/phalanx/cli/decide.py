"""`phalanx decide`: decide about the objects in manifest files, as the scheduler would."""

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from phalanx.cli.configuration import read_config
from phalanx.cli.exits import BadInput, Exit
from phalanx.cli.manifests.read import read_manifests
from phalanx.cli.static_cluster import StaticCluster, run_until_stable
from phalanx.limits import DECIDE_CYCLES_MAX
from phalanx.model.api.values import parse_time
from phalanx.model.decisions import CycleResult
from phalanx.model.texts import printable
from phalanx.model.workloads.known import workload_kinds


def decide(
    *,
    filename: Annotated[list[str], Parameter(name=["--filename", "-f"], consume_multiple=True, negative=())],
    config: Path | None = None,
    output: Annotated[Literal["json", "table"], Parameter(name=["--output", "-o"])] = "json",
    now: str | None = None,
) -> int:
    """Decide about the objects in manifest files, without a cluster.

    Cycles run until nothing changes: bound pods count as running, evicted pods as deleted. The time goes on
    only while the scheduler waits because of its own decisions, for half a minute at most.

    Parameters
    ----------
    filename
        Manifests in YAML or JSON: files, folders, or - for standard input.
    config
        The scheduler's configuration file; default: all defaults.
    output
        Output format.
    now
        The time in RFC 3339; default: the latest time in the manifests.
    """
    settings = read_config(config)
    moment = None if now is None else _time(now)
    manifests = read_manifests(filename, workload_kinds(settings.workloads), settings.queue_dialects)
    for note in manifests.notes:
        print(printable(f"note: {note}"), file=sys.stderr)
    now_ms = int((moment or manifests.latest).timestamp() * 1000)
    cluster = StaticCluster(manifests.objects, config=settings, now=now_ms)
    results, has_converged = run_until_stable(cluster, settings)
    _show(results, cluster, output)
    if not has_converged:
        print(f"decide did not converge after {DECIDE_CYCLES_MAX} cycles", file=sys.stderr)
        return Exit.NOT_CONVERGED
    return Exit.OK


def _time(text: str) -> datetime:
    at = parse_time(text)
    if at is None:
        raise BadInput(f"--now: expected a time such as 2026-12-24T18:00:00Z, found {text}")
    return at


def _show(results: Sequence[CycleResult], cluster: StaticCluster, output: str) -> None:
    if output == "json":
        from phalanx.cli.decide_json import report

        sys.stdout.write(report(results).decode() + "\n")
    else:
        from phalanx.cli.decide_table import show

        show(results, ignored=cluster.waiting_for_others())
