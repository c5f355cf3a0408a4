"""--watch shows a view again when it has changed; colours; what a command does not import."""

import asyncio
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.verbs.conftest import World, gpu_pod

PROGRAM = str(Path(sys.executable).parent / "phalanx")


async def test_watch_prints_changes_until_it_is_interrupted(world: World) -> None:
    world.create(gpu_pod("first", space="default"))
    words = ("jobs", "--watch", "--interval", "0.05", "--kubeconfig", str(world.kubeconfig))
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # a shell starts background jobs with SIGINT ignored, and children inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    header = await process.stdout.readline()
    assert header.startswith(b"NAME")
    assert (await process.stdout.readline()).startswith(b"pod/first")
    world.create(gpu_pod("second", space="default"))
    frame = b"".join([await process.stdout.readline() for _ in range(4)])
    assert frame.startswith(b"\nNAME")
    assert b"pod/second" in frame
    process.send_signal(signal.SIGINT)
    rest, errors = await process.communicate()
    assert (process.returncode, rest, errors) == (130, b"", b"")


async def test_an_interval_of_nothing_is_refused(world: World) -> None:
    done = await world.run("jobs", "--watch", "--interval", "0")
    assert (done.code, done.err) == (2, "--interval: expected a number above 0, found 0\n")


def in_a_terminal(kubeconfig: Path, **environment: str) -> bytes:
    """The output of `phalanx jobs` in a terminal."""
    theirs, ours = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **environment}
    words = [PROGRAM, "jobs", "-A", "--kubeconfig", str(kubeconfig)]
    subprocess.run(words, stdin=ours, stdout=ours, stderr=ours, env=env, check=True)
    os.close(ours)
    found = os.read(theirs, 1 << 20)
    os.close(theirs)
    return found


async def test_colours_are_used_on_a_terminal_only_and_not_with_no_color(tenants: World) -> None:
    coloured = await asyncio.to_thread(in_a_terminal, tenants.kubeconfig)
    assert b"\x1b[33mWaiting\x1b[0m" in coloured
    assert b"\x1b[3" not in await asyncio.to_thread(in_a_terminal, tenants.kubeconfig, NO_COLOR="1")
    assert "\x1b" not in (await tenants.run("jobs", "-A")).out


HEAVY = (
    "ortools",
    "numpy",
    "aiohttp",
    "jsonschema",
    "structlog",
    "asyncio",
    "rich",
    "phalanx.solver",
)


@pytest.mark.parametrize(
    ("verb", "more"), [("queues", ("phalanx.cache",)), ("jobs", ()), ("why", ()), ("hold", ()), ("nodes", ())]
)
def test_a_command_imports_no_more_than_it_needs(verb: str, more: tuple[str, ...]) -> None:
    """People wait for them. The imports of the scheduler would take a second."""
    program = (
        f"import sys, phalanx.cli.verbs.{verb}; "
        f"print([name for name in {(*HEAVY, *more)!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]"]
