"""Completion of commands, options, values and live names."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from phalanx.cli.app import complete_for_kubectl, main
from phalanx.cli.commands import BUILT_IN

from tests.cli.verbs.conftest import World, tenants, world

__all__ = ["tenants", "world"]


def complete(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, str]:
    capsys.readouterr()
    assert main(["__complete", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    return dict(line.partition("\t")[::2] for line in lines)


def test_commands_with_their_summaries(capsys: pytest.CaptureFixture[str]) -> None:
    found = complete(capsys, "wh")
    assert found == {name: BUILT_IN[name].summary for name in ("why", "what-if")}
    assert {"demo", "jobs", "doctor"} <= complete(capsys, "").keys()


def test_options_and_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    found = complete(capsys, "jobs", "--")
    assert found["--all-namespaces"] == "All namespaces that you may read."
    assert complete(capsys, "jobs", "--out").keys() == {"--output"}
    assert complete(capsys, "jobs", "-o", "").keys() == {"table", "wide", "json", "yaml"}
    assert complete(capsys, "jobs", "-o", "j").keys() == {"json"}
    assert complete(capsys, "what-if", "--submit", "") == {":files": ""}
    assert complete(capsys, "none", "") == {}


def test_contexts_of_the_kubeconfig(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("contexts: [{name: east}, {name: west}]")
    assert complete(capsys, "jobs", "--kubeconfig", str(file), "--context", "").keys() == {"east", "west"}
    assert complete(capsys, "jobs", "--kubeconfig", str(tmp_path), "--context", "") == {}


async def test_live_names(tenants: World, capsys: pytest.CaptureFixture[str]) -> None:
    async def ask(*words: str) -> dict[str, str]:
        given = [words[0], "--kubeconfig", str(tenants.kubeconfig), *words[1:]]
        return await asyncio.to_thread(complete, capsys, *given)

    assert await ask("why", "-n", "vision", "") == {
        "busy": "Running",
        "large": "Pending InsufficientCapacity",
    }
    assert (await ask("why", "--namespace=vision", "b")).keys() == {"busy"}
    assert (await ask("queues", "")).keys() == {"all", "vision"}
    assert (await ask("nodes", "a1", "a")).keys() == {"a1", "a2"}
    assert (await ask("jobs", "-n", "vis")).keys() == {"vision"}
    assert (await ask("what-if", "--drain", "b")).keys() == {"b1"}
    assert (await ask("jobs", "--node", "b")).keys() == {"b1"}
    tenants.server.forbidden = ("/api/v1/nodes",)
    assert await ask("nodes", "") == {}


def test_no_cluster_is_no_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert complete(capsys, "why", "--kubeconfig", str(tmp_path / "none"), "") == {}


def test_kubectl_gets_a_directive(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-phalanx", "jobs", "-o", "y"])
    assert complete_for_kubectl() == 0
    assert capsys.readouterr().out == "yaml\n:4\n"
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-phalanx", "what-if", "--submit", ""])
    assert complete_for_kubectl() == 0
    assert capsys.readouterr().out == ":0\n"


BASH = """\
source <("$PHALANX" completion bash)
COMP_WORDS=("$PHALANX" jobs -o "j") COMP_CWORD=3
_phalanx
echo "${COMPREPLY[@]}"
COMP_WORDS=("$PHALANX" what-if --submit "$FOLDER/o") COMP_CWORD=3
_phalanx
echo "${COMPREPLY[@]}"
"""


def test_the_script_of_bash_in_a_real_bash(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").touch()
    program = Path(sys.executable).parent / "phalanx"
    env = {**os.environ, "PHALANX": str(program), "FOLDER": str(tmp_path)}
    done = subprocess.run(["bash", "-c", BASH], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["json", str(tmp_path / "one.yaml")], done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "__complete" in capsys.readouterr().out
    assert main(["completion", "csh"]) == 2
