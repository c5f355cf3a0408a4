"""Builds the Go program that runs kube-scheduler's Filter and Score plugins, once, and asks it."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from msgspec import Struct
from phalanx_controlplane import go_modules
from phalanx_controlplane.programs import Program, ProgramMissing

Document = dict[str, Any]

PROGRAM: Final = Program(
    name="oracle",
    module=Path(__file__).parent / "program",
    cache="oracle",
    source="k8s.io/kubernetes",
    package=".",
)


class Refusal(Struct, frozen=True):
    """The first plugin that refuses a node, and its reason."""

    plugin: str
    reason: str


class Answer(Struct, frozen=True):
    """The nodes on which kube-scheduler could place the pod, and why not on each other one."""

    feasible: tuple[str, ...] = ()
    refused: dict[str, Refusal] = {}
    scores: dict[str, dict[str, int]] = {}
    """By plugin and feasible node, if the question asks for them: before they are normalized and weighted."""
    claims: dict[str, Document] = {}
    """By name, the status of the claims of the pod before a bind to the first feasible node, if asked for."""
    error: str = ""
    """Why there is no answer, such as a pod that the API server would refuse."""


class Plugins:
    """One process, which answers any number of questions."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def ask(
        self, objects: Sequence[Document], pod: str, score: Document | None = None, *, reserve: bool = False
    ) -> Answer:
        """The answer for a pod, as "namespace/name", in the cluster of these objects. It is one of them.

        `score`: settings of Score plugins; None does not ask them. `reserve`: ask for claims too.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        question = {"objects": objects, "pod": pod, "score": score, "reserve": reserve}
        stdin.write(json.dumps(question).encode() + b"\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise RuntimeError("the oracle ended without an answer; its stderr says why")
        return msgspec.json.decode(line, type=Answer)


@contextmanager
def running() -> Iterator[Plugins]:
    """The program, built if that is necessary. Raises ProgramMissing."""
    PROGRAM.build(lambda _line: None)
    command = [PROGRAM.built().program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield Plugins(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def is_ci() -> bool:
    """Whether a missing program is a failure."""
    return os.environ.get("CI", "").lower() in ("1", "true")


def require_program() -> None:
    """Skip the test if the program is missing and cannot be built; in CI, fail it."""
    try:
        PROGRAM.built()
    except ProgramMissing as missing:
        if go_modules.can_build():
            return
        reason = f"no oracle: {missing}, and there is no Go to build it with"
        if is_ci():
            pytest.fail(reason)
        pytest.skip(reason)
