"""A separate process that watches pods and records when each is first seen created, bound and running.

Condition times are not used because their resolution is one second. The clock is CLOCK_MONOTONIC, which all
processes of a machine share, so that the parent process may subtract its own readings. The process prints
WATCHING when it watches, CREATED when every pod was seen and MET when the run may end; on SIGTERM it writes
its observation.
"""

import argparse
import asyncio
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import msgspec
from phalanx.kube.connect import connect
from phalanx.kube.transport import HttpTransport

from bench.harness.gangs import PODS_PATH, UNOBSERVED_LABEL
from bench.harness.observation import Line, Observation, Record
from bench.harness.transports import closing
from bench.harness.workloads import Until

WATCHING: Final = "watching"
CREATED: Final = "created"
MET: Final = "met"

_LOOK_S: Final = 0.02
_IDLE_S: Final = 3600.0
_ERROR: Final = "ERROR"


async def observe(*, kubeconfig: Path, expected: int, until: Until, stop: asyncio.Event) -> Observation:
    """Watch from now until everything is observed, or until `stop`."""
    record = Record(expected=expected, until=until)
    watches: list[str] = []
    async with connect(kubeconfig=str(kubeconfig)) as cluster, closing(cluster.transport()) as transport:
        watching = asyncio.create_task(_watch(transport, record, watches))
        printed: set[str] = set()
        while not (stop.is_set() or watching.done() or record.is_complete(now=time.monotonic())):
            _print_progress(record, printed)
            await asyncio.sleep(_LOOK_S)
        if watching.done():
            watching.result()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    _print_progress(record, printed)
    return Observation(record.pods, watches=len(watches))


def _print_progress(record: Record, printed: set[str]) -> None:
    """Print the progress, each word once."""
    for word, is_so in ((CREATED, record.all_created), (MET, record.is_met(now=time.monotonic()))):
        if is_so and word not in printed:
            printed.add(word)
            print(word, flush=True)


async def _watch(transport: HttpTransport, record: Record, watches: list[str]) -> None:
    """Watch until cancelled; adds to `watches` the resource version from which each watch started."""
    version = ""
    while True:
        query = {"watch": "true", "labelSelector": f"!{UNOBSERVED_LABEL}"}
        if version:
            query["resourceVersion"] = version
        async with transport.stream(PODS_PATH, query=query, idle_timeout=_IDLE_S) as (_, lines):
            if not watches:
                print(WATCHING, flush=True)
            watches.append(version)
            version = await _note(lines, record)


async def _note(lines: AsyncIterator[bytes], record: Record) -> str:
    """Record events until the watch ends; returns the version to resume from, "" for the current one."""
    decode = msgspec.json.Decoder(Line).decode
    version = ""
    async for raw in lines:
        line = decode(raw)
        if line.type == _ERROR:
            return ""
        record.note(line, now=time.monotonic())
        version = line.object.metadata.resource_version
    return version


async def _main(options: argparse.Namespace) -> Observation:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    return await observe(
        kubeconfig=options.kubeconfig, expected=options.expected, until=Until(options.until), stop=stop
    )


def main() -> None:
    """Command line: what to watch, and where to write the observation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--expected", type=int, required=True)
    parser.add_argument("--until", choices=list(Until), required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    options.output.write_bytes(msgspec.json.encode(asyncio.run(_main(options))))


if __name__ == "__main__":
    main()
