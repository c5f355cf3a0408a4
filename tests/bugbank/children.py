"""Applies mutants one after the other, each in a separate child process that has imported everything already.

`python -m tests.bugbank.children` is the process from which the children are forked. It reads requests and
writes answers, one line of JSON each, and runs no product code itself.
"""

import gc
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from msgspec import Struct

from tests.bugbank.apply import main as apply
from tests.bugbank.preloaded import preload

ROOT = Path(__file__).parents[2]


class Request(Struct):
    """`sound`: run the catchers of these mutants on the unchanged code; otherwise there is one mutant.

    `seeds`: use simulated runs as catchers.
    """

    mutants: tuple[str, ...]
    sound: bool = False
    seeds: bool = False


class Answer(Struct):
    """`code` as of `apply`: 0 caught, 1 not caught, 2 the edit does not fit. CPU `seconds`."""

    code: int
    said: str
    seconds: float


class Children:
    """Use it in a `with` block."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", __name__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def ask(self, *mutants: str, sound: bool = False, seeds: bool = False) -> Answer:
        """Apply one mutant, or run the catchers of these on the unchanged code; wait for the result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(Request(mutants, sound, seeds)) + b"\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._process.stdout.readline(), type=Answer)


def _serve() -> None:
    preload()
    gc.collect()
    gc.freeze()
    for line in sys.stdin.buffer:
        answer = _in_a_child(msgspec.json.decode(line, type=Request))
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


def _in_a_child(request: Request) -> Answer:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(writing, sys.stdout.fileno())
        code = 3
        try:
            flags = {"--sound": request.sound, "--seeds": request.seeds}
            code = apply([*request.mutants, *(flag for flag, is_set in flags.items() if is_set)])
            sys.stdout.flush()
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, errors="replace") as said:
        text = said.read().strip()
    _, status, usage = os.wait4(child, 0)
    return Answer(os.waitstatus_to_exitcode(status), text, usage.ru_utime + usage.ru_stime)


if __name__ == "__main__":
    _serve()
