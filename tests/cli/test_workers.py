"""How long-running commands end: at once, with all their processes, and without a traceback."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

END_S = 60


@contextmanager
def running(*words: str) -> Iterator["subprocess.Popen[str]"]:
    """A command in a new Python process, killed at the end if it is still running."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-m", *words], stdout=pipe, stderr=pipe, text=True) as command:
        try:
            yield command
        finally:
            command.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_command(number: signal.Signals) -> None:
    with running("tests.cli.sleepers") as command:
        assert command.stdout is not None
        assert sorted(command.stdout.readline().strip() for _ in range(2)) == ["0", "1"]
        command.send_signal(number)
        command.communicate(timeout=END_S)  # returns when the last process that could write has ended


def test_an_interrupted_simulation_ends_at_once() -> None:
    with running("phalanx.cli", "simulate", "--nodes", "8", "--hours", "50", "--events") as command:
        assert command.stderr is not None
        assert " places " in next(line for line in command.stderr if " places " in line)
        command.send_signal(signal.SIGINT)
        out, rest = command.communicate(timeout=END_S)
    assert command.returncode == 130
    assert out == ""
    assert "Traceback" not in rest
    assert '"level"' not in rest
