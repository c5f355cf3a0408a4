"""A real Dask cluster of processes on loopback, of which a worker can be killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

START_S = 300
"""How long the scheduler and the workers may take to start on a loaded machine."""


class Cluster(Struct):
    """A running cluster. The workers are processes without a nanny, so that a killed one stays dead."""

    address: str
    workers: list["subprocess.Popen[bytes]"]

    @property
    def dead(self) -> int:
        """How many workers have ended."""
        return sum(worker.poll() is not None for worker in self.workers)


@contextmanager
def _process(*words: str) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        try:
            yield child
        finally:
            child.kill()


@contextmanager
def running_cluster(folder: Path, *, workers: int = 2) -> Iterator[Cluster]:
    """A scheduler and workers of one thread each, which write below this folder."""
    file = folder / "scheduler.json"
    common = ["--scheduler-file", str(file), "--no-dashboard"]
    with ExitStack() as stack:
        scheduler = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *common]
        stack.enter_context(_process(*scheduler))
        deadline = time.monotonic() + START_S
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        worker = ["distributed.cli.dask_worker", *common, "--host", "127.0.0.1"]
        one = [*worker, "--nthreads", "1", "--no-nanny", "--local-directory", str(folder)]
        started = [stack.enter_context(_process(*one)) for _ in range(workers)]
        yield Cluster(json.loads(file.read_text())["address"], started)


def kill_one_that_works(cluster: Cluster, command: "subprocess.Popen[bytes]", *, after_s: float = 0) -> None:
    """Kill the first worker that has a run, so long after it is first seen with one.

    Raises AssertionError if no worker has a run before the command ends.
    """
    from distributed import Client

    with Client(cluster.address, timeout=START_S, set_as_default=False) as client:
        client.wait_for_workers(len(cluster.workers), timeout=START_S)
        pids = client.run(os.getpid)
        deadline = time.monotonic() + START_S
        while command.poll() is None and time.monotonic() < deadline:
            if not _at_work(client.processing()):
                time.sleep(0.05)
                continue
            time.sleep(after_s)
            at_work = _at_work(client.processing())
            if at_work:
                os.kill(pids[at_work[0]], signal.SIGKILL)
                return
    raise AssertionError("no worker got a run")


def _at_work(processing: dict[str, list[str]]) -> list[str]:
    """The addresses of workers that have runs."""
    return [worker for worker, keys in processing.items() if keys]
