"""Pods per second from a scheduler's start, with all pods waiting, to the last bind; side by side in one run.

    python -m bench.backlog [--nodes N] [--gangs N] [--size N] [--rounds N] [--only NAME] [--output FILE]

Every contender gets a fresh control plane of its own, one after the other, in turn over the rounds.
"""

import argparse
import asyncio
import contextlib
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.harness import contenders, workload
from bench.harness.cluster import gates, nodes_usable, served
from bench.harness.contenders import Contender, Running
from bench.harness.gangs import NAMESPACE, pods
from bench.harness.observer import Observation
from bench.harness.processes import Used, used_by
from bench.harness.workload import Workload
from phalanx.controlplane.controlplane import ControlPlane
from phalanx.controlplane.fakes import create_many, namespace


class Figures(Struct, frozen=True):
    """One run of one contender. Times in seconds since its start."""

    contender: str
    first_bind_s: float
    last_bind_s: float
    pods_per_s: float
    rate_per_s: float
    used: Used | None
    overcommitted_nodes: int


async def run_once(contender: Contender, load: Workload) -> Figures:
    """A fresh control plane, the workload on it, then the contender."""
    flags = gates(contender.feature_gates)
    async with ControlPlane.start(kube_scheduler=contender.kube_scheduler, **flags) as plane:
        if contender.kube_scheduler is not None:
            await plane.stop_component("kube-scheduler")
        await _create(plane, contender, load)
        async with _observer(plane, expected=load.pods) as output, contender.start(plane) as running:
            await output.done.wait()
            return _figures(contender, load, output.read(), running=running, used=_used(running))


async def _create(plane: ControlPlane, contender: Contender, load: Workload) -> None:
    dialect = contender.dialect
    async with plane.session() as session:
        definitions = dialect.crds()
        await create_many(session, definitions)
        await create_many(session, [namespace(NAMESPACE)])
        await served(session, definitions, path=dialect.ready_path())
        await create_many(session, dialect.setup())
        await create_many(session, workload.nodes(load))
        await nodes_usable(session, expected=load.nodes)
        gangs = workload.gangs(load)
        await create_many(session, [group for gang in gangs for group in dialect.group(gang)])
        await create_many(session, [dialect.pod(gang, pod) for gang in gangs for pod in pods(gang)])


class _Output:
    """Where the observer's process puts what it saw."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.done = asyncio.Event()

    def read(self) -> Observation:
        return msgspec.json.decode(self.path.read_bytes(), type=Observation)


@contextlib.asynccontextmanager
async def _observer(plane: ControlPlane, *, expected: int):  # type: ignore[no-untyped-def]
    with tempfile.TemporaryDirectory() as folder:
        output = _Output(Path(folder) / "observation.json")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.harness.observer"),
            *("--kubeconfig", str(plane.kubeconfig_path), "--expected", str(expected)),
            *("--output", str(output.path)),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        await process.stdout.readline()

        async def wait() -> None:
            await process.wait()
            output.done.set()

        waiting = asyncio.create_task(wait())
        try:
            yield output
        finally:
            await waiting


def _used(running: Running) -> Used | None:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return used_by(running.pid)
    return None


def _figures(
    contender: Contender, load: Workload, seen: Observation, *, running: Running, used: Used | None
) -> Figures:
    if len(seen.bound_at) != load.pods:
        raise SystemExit(f"{contender.name}: only {len(seen.bound_at)} of {load.pods} pods were bound")
    first, last = seen.bound_at[0], seen.bound_at[-1]
    per_node = Counter(seen.nodes)
    return Figures(
        contender=contender.name,
        first_bind_s=round(first - running.started_at, 2),
        last_bind_s=round(last - running.started_at, 2),
        pods_per_s=round(load.pods / (last - running.started_at)),
        rate_per_s=round(load.pods / (last - first)),
        used=used,
        overcommitted_nodes=sum(count * load.cpu > workload.NODE_CORES for count in per_node.values()),
    )


def table(results: list[Figures]) -> str:
    """Medians per contender, as Markdown."""
    lines = [
        "| scheduler | first bind s | last bind s | pods/s in all | pods/s first to last | CPU s | RSS MiB |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in dict.fromkeys(f.contender for f in results):
        runs = [f for f in results if f.contender == name]
        used = [f.used for f in runs if f.used is not None]
        cpu = f"{statistics.median(u.cpu_s for u in used):.1f}" if used else "-"
        rss = f"{statistics.median(u.rss_mib for u in used):.0f}" if used else "-"
        columns = (
            statistics.median(getattr(f, field) for f in runs)
            for field in ("first_bind_s", "last_bind_s", "pods_per_s", "rate_per_s")
        )
        first, last, total, rate = columns
        lines.append(f"| {name} | {first:.1f} | {last:.1f} | {total:.0f} | {rate:.0f} | {cpu} | {rss} |")
    return "\n".join(lines)


async def compare(load: Workload, *, rounds: int, only: str) -> list[Figures]:
    """Every contender whose name contains `only` once per round, in turn."""
    results = []
    for number in range(rounds):
        for contender in [each for each in contenders.ALL if only in each.name]:
            print(f"round {number + 1}: {contender.name} ...", file=sys.stderr, flush=True)
            results.append(await run_once(contender, load))
            print(f"  {msgspec.json.encode(results[-1]).decode()}", file=sys.stderr, flush=True)
    return results


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--gangs", type=int, default=100)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="", help="part of a contender's name")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    load = Workload(nodes=args.nodes, gangs=args.gangs, size=args.size)
    results = asyncio.run(compare(load, rounds=args.rounds, only=args.only))
    print(table(results))
    if args.output:
        args.output.write_bytes(msgspec.json.format(msgspec.json.encode(results)))


if __name__ == "__main__":
    main()
