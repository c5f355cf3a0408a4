"""A component as a child process that ends with its parent.

It uses Popen and polling instead of subprocesses of asyncio. One control plane is used from many event loops,
one for each test, and asyncio binds a process to the loop that started it.
"""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from phalanx_controlplane import limits

_PR_SET_PDEATHSIG: Final = 1

_INHERITED: Final = ("PATH", "GOGC")
"""Environment variables of this process that components get too. GOGC: how rarely Go collects garbage."""


class ComponentFailed(Exception):
    """A component ended or was not ready in time. The message contains the end of its log."""


class Process:
    """A running program with one log file for its output.

    On Linux the kernel kills it when the thread that started it ends. That thread must therefore live as long
    as the control plane: use the main thread, or the thread of the event loop.
    """

    def __init__(
        self,
        *,
        name: str,
        command: Sequence[str],
        log: Path,
        home: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=home,
                env={"HOME": str(home), "PATH": os.defpath, **_inherited(), **(environment or {})},
                start_new_session=True,
                preexec_fn=die_with_parent(),
            )

    @property
    def pid(self) -> int:
        """The process ID."""
        return self._popen.pid

    @property
    def running(self) -> bool:
        """Whether it still runs."""
        return self._popen.poll() is None

    async def stop(self) -> None:
        """Terminate it, and kill it if it does not end in time."""
        self._signal(signal.SIGTERM)
        if not await self._ended_within(limits.CONTROL_PLANE_STOP_TIMEOUT_S):
            await self.kill()

    async def kill(self) -> None:
        """Kill it at once, as in a crash."""
        self._signal(signal.SIGKILL)
        await self._ended_within(limits.CONTROL_PLANE_STOP_TIMEOUT_S)

    def tail(self, lines: int) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _signal(self, number: signal.Signals) -> None:
        if self.running:
            self._popen.send_signal(number)

    async def _ended_within(self, seconds: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self.running and loop.time() < deadline:
            await asyncio.sleep(limits.CONTROL_PLANE_POLL_S)
        return not self.running


def _inherited() -> dict[str, str]:
    return {name: os.environ[name] for name in _INHERITED if name in os.environ}


def die_with_parent() -> Callable[[], None] | None:
    """Return a pre-exec hook that lets the kernel kill the child when its parent ends."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def in_child() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent ended before the request took effect
            os._exit(1)

    return in_child
