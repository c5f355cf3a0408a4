"""Runs on a real Dask cluster of processes on loopback of which a worker is killed: the same results.

Left out of `make test`: `pytest -m dask tests/lab/test_dask.py`. `python -m bench.lab` plays a long trace so.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from phalanx_simulator.commands.dask_cluster import dask_executor

from tests.lab.dask_processes import Cluster, kill_one_that_works, running_cluster

JOBS = 80

pytestmark = [pytest.mark.dask, pytest.mark.filterwarnings("default")]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path) as running:
        yield running


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
    assert cluster.dead == 1, "one worker died"
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
