"""Fixtures of the tests of the command line."""

import io
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from phalanx.cli.app import main


class Done(NamedTuple):
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def cycles(self) -> list[dict[str, Any]]:
        return msgspec.json.decode(self.out)["cycles"]

    @property
    def binds(self) -> dict[str, str]:
        return {bind["pod"]: bind["node"] for cycle in self.cycles for bind in cycle["binds"]}

    @property
    def waiting(self) -> dict[str, str]:
        return {verdict["group"]: verdict["reason"] for verdict in self.cycles[-1]["verdicts"]}


Phalanx = Callable[..., Done]


@pytest.fixture
def phalanx(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Phalanx:
    """Run a command in this process: `phalanx("decide", "-f", path, stdin="...")`."""
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: object, stdin: str | None = None) -> Done:
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return run
