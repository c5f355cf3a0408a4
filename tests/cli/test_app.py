"""The frame around all commands: help, exit codes, interruption, closed pipes."""

import subprocess
import sys
from pathlib import Path

import pytest
from phalanx.cli.app import main

from tests.cli.conftest import Phalanx

SWAP = Path(__file__).resolve().parent.parent / "scenarios" / "swap.yaml"
HEAVY = ("ortools", "numpy", "aiohttp", "kubernetes_asyncio", "textual", "structlog", "phalanx.framework")


def test_help_names_every_command_and_the_exit_codes(phalanx: Phalanx) -> None:
    done = phalanx("--help")
    assert done.code == 0
    for word in ("decide", "snapshot", "replay", "install", "run", "version", "Exit codes"):
        assert word in done.out


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; from phalanx.cli.app import main; main(['--help']); "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", ["decide", "snapshot", "replay", "install", "run", "version"])
def test_every_command_has_help(command: str, phalanx: Phalanx) -> None:
    done = phalanx(command, "--help")
    assert done.code == 0
    assert f"phalanx {command}" in done.out


def test_it_is_a_kubectl_plugin(phalanx: Phalanx, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kubectl-phalanx", "--help"])
    assert "kubectl phalanx" in phalanx("--help").out


def test_version(phalanx: Phalanx) -> None:
    lines = phalanx("version").out.splitlines()
    assert [line.split()[0] for line in lines] == ["phalanx", "ortools", "python"]


def test_interruption_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(names: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("phalanx.cli.decide.read_manifests", interrupted)
    assert main(["decide", "-f", str(SWAP)]) == 130
    assert capsys.readouterr().err == ""


def test_a_closed_pipe_is_no_traceback() -> None:
    command = [sys.executable, "-m", "phalanx.cli", "decide", "-f", str(SWAP)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 141
