"""What all commands share: help, exit codes, interruption, closed pipes."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from phalanx.cli.app import main
from phalanx.cli.commands import BUILT_IN, GROUP, commands_for

from tests.cli.conftest import Phalanx

SWAP = Path(__file__).resolve().parent.parent / "scenarios" / "swap.yaml"
HEAVY = (
    *("ortools", "numpy", "aiohttp", "jsonschema", "textual", "structlog"),
    "phalanx.framework",
)


def test_help_names_every_command_and_the_exit_codes(phalanx: Phalanx) -> None:
    done = phalanx("--help")
    assert done.code == 0
    for word in ("decide", "snapshot", "replay", "install", "run", "version", "Exit codes"):
        assert word in done.out


def test_help_does_not_import_heavy_modules() -> None:
    program = (
        "import sys; from phalanx.cli.app import main; main(['--help']); "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", sorted(commands_for([]).keys() - {"convert"}))
def test_every_command_has_help(command: str, phalanx: Phalanx) -> None:
    done = phalanx(command, "--help")
    assert done.code == 0
    assert f"phalanx {command}" in done.out


def test_commands_of_other_packages_are_found_by_their_entry_points(phalanx: Phalanx) -> None:
    assert {"demo", "simulate", "drill"} <= commands_for(["--help"]).keys()
    assert "demo" in phalanx("--help").out
    assert phalanx("drill", "--help").code == 0


def test_a_built_in_command_does_not_look_for_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phalanx.cli.commands.entry_points", lambda **_: pytest.fail("looked up"))
    assert commands_for(["decide", "-f", "x"]) == BUILT_IN


@pytest.mark.parametrize("target", ["no.such.module:COMMAND", "phalanx.cli.exits:Exit"])
def test_a_broken_entry_point_does_not_break_the_other_commands(
    target: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = [EntryPoint(name, value, GROUP) for name, value in (("broken", target), ("run", target))]
    monkeypatch.setattr("phalanx.cli.commands.entry_points", lambda **_: entries)
    assert commands_for([]) == BUILT_IN
    assert capsys.readouterr().err.startswith("command broken: ")


def test_the_program_works_as_a_kubectl_plugin(phalanx: Phalanx, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kubectl-phalanx", "--help"])
    assert "kubectl phalanx" in phalanx("--help").out


def test_version(phalanx: Phalanx) -> None:
    lines = phalanx("version").out.splitlines()
    assert [line.split()[0] for line in lines] == ["phalanx", "ortools", "python"]


def test_an_interrupted_command_prints_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("phalanx.cli.decide.read_manifests", interrupted)
    assert main(["decide", "-f", str(SWAP)]) == 130
    assert capsys.readouterr().err == ""


def test_a_closed_pipe_prints_no_traceback() -> None:
    command = [sys.executable, "-m", "phalanx.cli", "decide", "-f", str(SWAP)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 141
