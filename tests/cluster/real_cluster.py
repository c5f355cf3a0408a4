"""A cluster with real kubelets for tests: `python -m phalanx_controlplane.nodes` as a child process."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml
from phalanx_controlplane.nodes import programs

Document = dict[str, Any]
T = TypeVar("T")

START_TIMEOUT_S: Final = 600.0
UNTIL_TIMEOUT_S: Final = 240.0
"""Seconds until something must have happened. On a busy machine everything takes ten times as long."""
POLL_S: Final = 0.3


class RealCluster:
    """A running cluster."""

    def __init__(self, folder: Path, process: asyncio.subprocess.Process) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.programs = programs.find_or_build(lambda _line: None)
        self._process = process

    async def command(self, line: str) -> None:
        """`stop NODE` or `start NODE`; returns when it is done."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        await self._process.stdin.drain()
        assert await self._line() == f"done {line}"

    async def until_ready(self) -> None:
        """Wait until all nodes are Ready."""
        line = await self._line()
        assert line.startswith("ready "), line

    async def _line(self) -> str:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), START_TIMEOUT_S)
        return line.decode().strip()

    async def kubectl(self, *arguments: str, text: str = "") -> str:
        """What kubectl prints. It must succeed."""
        code, output = await self.try_kubectl(*arguments, text=text)
        assert code == 0, f"kubectl {' '.join(arguments)}: {output}"
        return output

    async def try_kubectl(self, *arguments: str, text: str = "") -> tuple[int, str]:
        """The exit code of kubectl, and what it prints."""
        done = await asyncio.to_thread(
            subprocess.run,
            [self.programs.path("kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=UNTIL_TIMEOUT_S,
            check=False,
        )
        return done.returncode, done.stdout if done.returncode == 0 else done.stderr

    async def apply(self, *documents: Document) -> None:
        """Apply objects."""
        await self.kubectl("apply", "--server-side", "-f", "-", text=yaml.safe_dump_all(documents))

    async def get(self, *arguments: str) -> Document:
        """An object or a list of objects."""
        found: Document = json.loads(await self.kubectl("get", *arguments, "-o", "json"))
        return found

    async def pods(self, *arguments: str) -> list[Document]:
        """The pods that a selector names."""
        items: list[Document] = (await self.get("pods", *arguments))["items"]
        return items


async def until(what: str, read: Callable[[], Awaitable[T]], good: Callable[[T], bool]) -> T:
    """Read until the value is good. Fails with the last value."""
    deadline = asyncio.get_running_loop().time() + UNTIL_TIMEOUT_S
    while not good(found := await read()):
        assert asyncio.get_running_loop().time() < deadline, f"not in time: {what}; last seen {found}"
        await asyncio.sleep(POLL_S)
    return found


@asynccontextmanager
async def real_cluster(folder: Path, *images: Path, nodes: int = 2) -> AsyncIterator[RealCluster]:
    """Run a cluster while the context lasts."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "phalanx_controlplane.nodes", "up", "--commands"),
        *(f"--folder={folder}", f"--nodes={nodes}"),
        *(f"--image={image}" for image in images),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    cluster = RealCluster(folder, process)
    try:
        await cluster.until_ready()
        yield cluster
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
