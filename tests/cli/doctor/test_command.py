"""The command line of `phalanx doctor`, and how it shows findings."""

import io
from pathlib import Path

import pytest
from phalanx.cli.doctor.command import show
from phalanx.cli.doctor.finding import CheckFindings, Finding, Severity
from rich.console import Console

from tests.cli.conftest import Phalanx


def test_no_cluster(phalanx: Phalanx, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("{}")
    done = phalanx("doctor", "--kubeconfig", file)
    assert done.code == 1
    assert done.err.startswith("doctor: no cluster to connect to")


def test_a_missing_kubeconfig_is_named(
    phalanx: Phalanx, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line; the library of kubeconfigs reported a missing key."""
    file = tmp_path / "none"
    monkeypatch.setenv("KUBECONFIG", str(file))
    for command in ("doctor", "jobs"):
        done = phalanx(command)
        assert (done.code, done.out) == (1, "")
        assert done.err == (
            f"{command}: no cluster to connect to: tried {file}: there is no such file; "
            "--kubeconfig or $KUBECONFIG names another one\n"
        )


def test_bad_input(phalanx: Phalanx, tmp_path: Path) -> None:
    done = phalanx("doctor", "--kubeconfig", tmp_path / "none")
    assert done.code == 2
    assert done.err.startswith("--kubeconfig: expected a readable file")
    assert phalanx("doctor", "-o", "yaml").code == 2


def shown(*results: CheckFindings) -> list[str]:
    text = io.StringIO()
    show(results, Console(file=text, width=80, highlight=False, soft_wrap=True))
    return [line.rstrip() for line in text.getvalue().splitlines()]


def test_findings_are_shown_with_what_to_do() -> None:
    error = Finding(Severity.ERROR, "Queue [q]", "Its parent is missing.", "Correct it.")
    note = Finding(Severity.NOTE, "Pod a/b", "It waits.", "Wait.")
    lines = shown(
        CheckFindings("queues", (error,)), CheckFindings("lease", ()), CheckFindings("pods", (note,))
    )
    assert lines == [
        *("error queues: Queue [q]", "  Its parent is missing.", "  -> Correct it."),
        *("note pods: Pod a/b", "  It waits.", "  -> Wait."),
        "3 checks: 1 error, 1 note",
    ]


def test_a_healthy_installation_is_one_line() -> None:
    assert shown(CheckFindings("queues", ())) == ["1 check: nothing is wrong"]


def test_long_findings_are_shown_whole_in_a_pipe() -> None:
    """Where the output is no terminal, the width is 80."""
    long = Finding(Severity.ERROR, "Lease a/b", "No scheduler leads. " * 9, "Look at its pods. " * 9)
    lines = shown(CheckFindings("lease", (long,)))
    assert lines[1:3] == [f"  {long.problem}".rstrip(), f"  -> {long.action}".rstrip()]


def test_names_do_not_control_the_terminal() -> None:
    found = Finding(Severity.NOTE, "Pod a/\x1b[31mb", "It waits for \x1b]0;pwned\x07.", "Delete \x9bb.")
    lines = shown(CheckFindings("pods", (found,)))
    assert lines[:3] == [
        *(r"note pods: Pod a/\x1b[31mb", r"  It waits for \x1b]0;pwned\x07.", r"  -> Delete \x9bb."),
    ]
