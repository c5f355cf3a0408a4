"""Starts the observer process and follows its progress."""

import asyncio
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from phalanx_controlplane.controlplane import ControlPlane
from phalanx_controlplane.process import die_with_parent

from bench.harness.observation import Observation
from bench.harness.observer import CREATED, MET, WATCHING
from bench.harness.workloads import Workload


class ObserverFailed(Exception):
    """The observer ended before the run was over."""


class Observer:
    """A running observer.

    `created`: it has seen every pod; `met`: the run may end; `ended`: the observation can be read. All but
    `met` are also set when it fails.
    """

    def __init__(self, process: Process, output: Path) -> None:
        self.created = asyncio.Event()
        self.met = asyncio.Event()
        self.ended = asyncio.Event()
        self._process = process
        self._output = output

    def stop(self) -> None:
        """Ask it to write its observation."""
        if self._process.returncode is None:
            self._process.terminate()

    def read(self) -> Observation:
        """Read the observation. Raises ObserverFailed."""
        if self._process.returncode != 0:
            raise ObserverFailed(f"the observer ended with {self._process.returncode}")
        return msgspec.json.decode(self._output.read_bytes(), type=Observation)

    async def follow(self) -> None:
        """Follow its output until it has ended."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            word = line.decode().strip()
            if word == CREATED:
                self.created.set()
            elif word == MET:
                self.met.set()
        await self._process.wait()
        self.created.set()
        self.ended.set()


@asynccontextmanager
async def observing(plane: ControlPlane, workload: Workload) -> AsyncIterator[Observer]:
    """Start an observer and wait until it watches. Raises ObserverFailed."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "observation.json"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.harness.observer"),
            *("--kubeconfig", str(plane.kubeconfig_path), "--expected", str(workload.pods)),
            *("--until", workload.until, "--output", str(output)),
            stdout=PIPE,
            start_new_session=True,
            preexec_fn=die_with_parent(),
        )
        assert process.stdout is not None
        if (await process.stdout.readline()).decode().strip() != WATCHING:
            raise ObserverFailed("the observer could not watch")
        observer = Observer(process, output)
        following = asyncio.create_task(observer.follow())
        try:
            yield observer
        finally:
            observer.stop()
            await following
