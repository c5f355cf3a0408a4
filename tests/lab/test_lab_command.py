"""`phalanx lab`: a study from a file and from options, its outputs, and bad input."""

import json
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from phalanx.cli.app import main
from phalanx.cli.exits import Exit
from phalanx_simulator.commands import executors

JOBS = (
    "timestamp,duration,num_gpus,cluster\n2026-01-05 00:00:00,36000,8,red\n2026-01-05 01:00:00,7200,16,blue\n"
)
STUDY = """
history: {path: jobs.csv, format: philly}
cluster: {nodes: 2}
variants:
  - name: as it is
  - {name: more, addNodes: 1}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "study.yaml").write_text(STUDY)
    return tmp_path


def test_a_file_and_options_give_the_same_study(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = folder / "page.html"
    assert main(["lab", str(folder / "study.yaml"), "-o", "json", "--page", str(page)]) == 0
    by_file = json.loads(capsys.readouterr().out)
    options = ["--history", str(folder / "jobs.csv"), "--format", "philly", "--nodes", "2"]
    assert main(["lab", *options, "--variant", "more={addNodes: 1}", "-o", "json", "-j", "1"]) == 0
    assert json.loads(capsys.readouterr().out) == by_file
    waits = [each["outcome"]["waits"]["9+"]["meanS"] for each in by_file["variants"]]
    assert waits == [9 * 3600.0, 0.0]
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "lab: expected the file of a study, or --history and --format"),
        (
            ["study.yaml", "--days", "1"],
            "lab: expected the file of a study, or a study by options; found both",
        ),
        (["nowhere.yaml"], "nowhere.yaml: expected a readable file: No such file"),
        (["jobs.csv"], "jobs.csv: "),
        (["study.yaml", "--resume", "jobs.csv"], "--resume: expected a folder, found jobs.csv: File exists"),
        (["study.yaml", "--jobs", "0"], "--jobs: expected a number above 0, found 0"),
        (["study.yaml", "--page", "nowhere/page.html"], "--page: expected a file in a folder that can be"),
        (
            ["--history", "x", "--format", "philly", "--variant", "more"],
            "--variant: expected NAME={KEY: VALUE}",
        ),
        (["--history", "x", "--format", "philly", "--variant", "a=["], "--variant: a: not YAML"),
        (["--history", "x", "--format", "xml"], "lab: history.format: Invalid enum value 'xml'"),
        (["--history", "nowhere", "--format", "sacct", "--nodes", "1"], "lab: nowhere: cannot be read"),
        (
            ["--history", "jobs.csv", "--format", "philly"],
            "lab: cluster: expected nodes, loadPercent or pools",
        ),
    ],
)
def test_bad_input_is_named(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(folder)
    assert main(["lab", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_seeds_of_a_simulation_are_needed_for_dask(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", "1", "--dask", "tcp://127.0.0.1:1"]) == 2
    assert "--dask: expected with many seeds (--seeds), found with one" in capsys.readouterr().err


def test_the_notes_of_runs_are_kept_until_no_process_can_write_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a process creates a file while its folder is removed, and Ctrl-C ends with an error."""
    notes: list[Path] = []

    class Interrupted(Executor):
        def submit(self, _function: Any, /, *arguments: Any, **_named: Any) -> "Future[Any]":
            notes.append(arguments[1])
            raise KeyboardInterrupt

    @contextmanager
    def processes(_jobs: int, _dask: str | None) -> Iterator[Executor]:
        try:
            yield Interrupted()
        finally:
            assert notes[0].parent.is_dir()

    monkeypatch.setattr(executors, "executor", processes)
    assert main(["lab", str(folder / "study.yaml")]) == Exit.INTERRUPTED
    assert not notes[0].parent.exists()
