"""CPU seconds and memory of processes and their children, from /proc."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_SAMPLE_S: Final = 0.25
_CALM_S: Final = 1.0
_CALM_CPU_S: Final = 0.05
_CALM_WITHIN_S: Final = 30.0


class Used(Struct, frozen=True, rename="camel"):
    """Resource usage of a process. `peak_mib` is the largest resident set since its start."""

    cpu_s: float
    peak_mib: int


def used_by(pid: int) -> Used | None:
    """Usage of this process and its running children; None when it has ended."""
    try:
        if _state(pid) in "ZX":
            return None
        pids = [pid, *_children(pid)]
        return Used(cpu_s=round(sum(map(_cpu_s, pids)), 2), peak_mib=sum(map(_peak_mib, pids)))
    except (FileNotFoundError, ProcessLookupError):
        return None


class Meter:
    """Usage of named processes since they are followed; for ended processes, the last reading."""

    def __init__(self) -> None:
        self._pids: dict[str, int] = {}
        self._last: dict[str, Used] = {}
        self._before: dict[str, float] = {}

    def follow(self, name: str, pid: int, *, since_birth: bool = False) -> None:
        """Measure a process; with `since_birth`, its earlier usage counts too."""
        self._pids[name] = pid
        used = used_by(pid)
        if used is not None:
            self._last[name] = used
            self._before[name] = 0.0 if since_birth else used.cpu_s

    def read(self) -> dict[str, Used]:
        """The current usage by name."""
        for name, pid in self._pids.items():
            used = used_by(pid)
            if used is not None:
                self._last[name] = used
                self._before.setdefault(name, 0.0)
        return {
            name: Used(round(used.cpu_s - self._before[name], 2), used.peak_mib)
            for name, used in self._last.items()
        }

    async def ended(self, name: str) -> None:
        """Wait until that process has ended."""
        while used_by(self._pids[name]) is not None:
            await asyncio.sleep(_SAMPLE_S)

    async def calm(self, name: str) -> dict[str, Used]:
        """Wait until that process is idle, at most half a minute, and return the usage."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CALM_WITHIN_S):
                before = -1.0
                while (used := self.read().get(name)) is not None and used.cpu_s - before > _CALM_CPU_S:
                    before = used.cpu_s
                    await asyncio.sleep(_CALM_S)
        return self.read()


@asynccontextmanager
async def metering() -> AsyncIterator[Meter]:
    """A meter that samples periodically, so that it has readings of processes that end."""
    meter = Meter()

    async def look() -> None:
        while True:
            meter.read()
            await asyncio.sleep(_SAMPLE_S)

    looking = asyncio.create_task(look())
    try:
        yield meter
    finally:
        looking.cancel()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _peak_mib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")), 0)
