"""Runs on a real Dask cluster of processes on loopback of which a worker is killed: the same results.

Left out of `make test`: `pytest -m dask tests/lab/test_dask.py`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from msgspec import Struct
from phalanx_simulator.commands.dask_cluster import dask_executor

START_S = 300
"""How long the scheduler and the workers may take to start on a loaded machine."""

JOBS = 80

pytestmark = [pytest.mark.dask, pytest.mark.filterwarnings("default")]


class Cluster(Struct):
    """A running cluster. The workers are processes without a nanny, so that a killed one stays dead."""

    address: str
    workers: list["subprocess.Popen[bytes]"]


@contextmanager
def process(*words: str) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        try:
            yield child
        finally:
            child.kill()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    file = tmp_path / "scheduler.json"
    common = ["--scheduler-file", str(file), "--no-dashboard"]
    with ExitStack() as stack:
        scheduler = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *common]
        stack.enter_context(process(*scheduler))
        deadline = time.monotonic() + START_S
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        worker = ["distributed.cli.dask_worker", *common, "--host", "127.0.0.1"]
        one = [*worker, "--nthreads", "1", "--no-nanny", "--local-directory", str(tmp_path)]
        workers = [stack.enter_context(process(*one)) for _ in range(2)]
        yield Cluster(json.loads(file.read_text())["address"], workers)


def kill_one_that_works(cluster: Cluster, command: "subprocess.Popen[bytes]") -> None:
    """Kill the first worker that has a run, as the cluster's scheduler sees it."""
    from distributed import Client

    with Client(cluster.address, timeout=START_S, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=START_S)
        pids = client.run(os.getpid)
        deadline = time.monotonic() + START_S
        while command.poll() is None and time.monotonic() < deadline:
            at_work = [worker for worker, keys in client.processing().items() if keys]
            if at_work:
                os.kill(pids[at_work[0]], signal.SIGKILL)
                return
            time.sleep(0.05)
    raise AssertionError("no worker got a run")


def study(folder: Path) -> Path:
    rows = [
        f"2026-01-05 {at // 20:02}:{at % 20:02}:00,{3600 + 60 * at},{1 + 5 * at % 16},q{at % 3}"
        for at in range(JOBS)
    ]
    (folder / "jobs.csv").write_text("\n".join(["timestamp,duration,num_gpus,cluster", *rows, ""]))
    file = folder / "study.yaml"
    file.write_text(
        "history: {path: jobs.csv, format: philly}\n"
        "cluster: {nodes: 6}\n"
        "variants:\n"
        "  - name: as it is\n"
        "  - {name: more, addNodes: 6}\n"
        "  - {name: backfill, backfill: Easy}\n"
        "  - {name: equal, guarantees: none}\n"
    )
    return file


def printed_by(*words: str) -> bytes:
    return subprocess.run(
        [sys.executable, "-m", "phalanx.cli", *words], capture_output=True, check=True
    ).stdout


def with_a_death(cluster: Cluster, *words: str) -> bytes:
    """What the command prints while a worker that has a run is killed."""
    command = [sys.executable, "-m", "phalanx.cli", *words, "--dask", cluster.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        kill_one_that_works(cluster, running)
        out, _ = running.communicate()
    assert running.returncode == 0
    assert sum(worker.poll() is not None for worker in cluster.workers) == 1, "one worker died"
    return out


def test_a_study_has_the_same_results(cluster: Cluster, tmp_path: Path) -> None:
    words = ["lab", str(study(tmp_path)), "-o", "json"]
    assert with_a_death(cluster, *words) == printed_by(*words, "--jobs", "1")


def test_seeds_have_the_same_totals(cluster: Cluster) -> None:
    words = ["simulate", "--seeds", "1..4", "--nodes", "8", "--hours", "0.2", "-o", "json"]
    assert with_a_death(cluster, *words) == printed_by(*words)


def test_an_address_without_a_scheduler_is_refused() -> None:
    from phalanx.cli.exits import BadInput

    with pytest.raises(BadInput, match="--dask: "), dask_executor("tcp://127.0.0.1:1"):
        raise AssertionError("connected to nothing")
