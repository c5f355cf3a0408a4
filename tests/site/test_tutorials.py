"""The commands of the tutorials print what the pages show, one page after the other on one control plane."""

import asyncio
import os
import shutil
import sys
import time
from pathlib import Path

import pytest
from phalanx_controlplane.components import ENDLESS_STAGES
from phalanx_controlplane.controlplane import ControlPlane

from tests.controlplane_fixture import require_binaries
from tests.e2e.scheduler_process import install, scheduler
from tests.site.console import Command, File, comparable, run, steps

pytestmark = pytest.mark.xdist_group("tutorials")
"""All of them: large groups start first, and the pages on a cluster take longest of all tests."""

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
ON_A_CLUSTER = ("start", "share-64-gpus", "two-racks", "operate")
"""Pages whose commands need a cluster, in the order in which they follow each other."""

READ_TIMEOUT_S = 30
"""How long after a command the cluster may take to reach the state that the page shows."""

READS = ("kubectl get", "phalanx why", "phalanx jobs", "phalanx queues", "phalanx topo")
"""Commands that only read the cluster."""

READ_PAUSE_S = 0.3
"""Between two reads: a kubectl that starts again at once takes a whole core."""

OFFLINE = ("ray-and-spark", "from-volcano", "from-kai", "from-kueue")


def differences(page: str, folder: Path, environment: dict[str, str]) -> list[str]:
    """Play a page; each command that prints something else, with what it prints."""
    found = []
    for step in steps((TUTORIALS / f"{page}.md").read_text()):
        match step:
            case File(name=name, text=text):
                (folder / name).write_text(text)
            case Command():
                printed = printed_by(step, folder, environment)
                if comparable(printed) != comparable(step.output):
                    found.append(f"{page}.md: $ {step.line}\n{printed}")
    return found


def printed_by(command: Command, folder: Path, environment: dict[str, str]) -> str:
    """What a command prints. A read of the cluster is repeated until it prints what the page shows."""
    deadline = time.monotonic() + READ_TIMEOUT_S
    while True:
        printed = run(command, folder, environment)
        as_shown = comparable(printed) == comparable(command.output)
        if as_shown or not command.line.startswith(READS) or time.monotonic() > deadline:
            return printed
        time.sleep(READ_PAUSE_S)


def environment() -> dict[str, str]:
    """With the programs of this environment, and the width of the pages."""
    return {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "110"}


@pytest.mark.controlplane
async def test_tutorials_on_a_cluster(tmp_path: Path) -> None:
    require_binaries()
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    async with ControlPlane.start(stages=ENDLESS_STAGES) as plane:
        kubeconfig = await install(plane)
        admin = environment() | {"KUBECONFIG": str(plane.kubeconfig_path)}
        async with scheduler(plane, kubeconfig):
            for page in ON_A_CLUSTER:
                assert await asyncio.to_thread(differences, page, tmp_path, admin) == []


@pytest.mark.parametrize("page", OFFLINE)
def test_a_tutorial_without_a_cluster(page: str, tmp_path: Path) -> None:
    assert differences(page, tmp_path, environment()) == []


@pytest.mark.parametrize("page", [*ON_A_CLUSTER, *OFFLINE])
def test_a_tutorial_has_commands_and_shows_what_they_print(page: str) -> None:
    commands = [step for step in steps((TUTORIALS / f"{page}.md").read_text()) if isinstance(step, Command)]
    assert len(commands) >= 2
    assert [command.line for command in commands if not command.output] == []


def test_every_tutorial_is_played() -> None:
    assert {path.stem for path in TUTORIALS.glob("*.md")} == {*ON_A_CLUSTER, *OFFLINE}


def test_the_comparison_sees_a_different_node() -> None:
    shown = "NAME  NODE  AGE\npretrain-0-x7k2p  gpu-1  12s\n"
    assert comparable(shown) == comparable("NAME   NODE   AGE\npretrain-0-bcdfg   gpu-1   1m2s\n")
    assert comparable(shown) != comparable(shown.replace("gpu-1", "gpu-2"))
