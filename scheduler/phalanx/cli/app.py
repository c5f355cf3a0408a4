"""The command line `phalanx`, also `kubectl phalanx`: its commands, and what their exit codes mean.

A command is loaded when it is called, so that help is quick.
"""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import PurePath
from typing import Final

from cyclopts import App, CycloptsError

from phalanx.cli.exits import BadInput, Exit

_KUBECTL_PLUGIN: Final = "kubectl-phalanx"

_STDIN: Final = "/dev/stdin"
"""A lone hyphen is an option without a name to cyclopts: it travels as this."""

_COMMANDS: Final = {
    "phalanx.cli.run:run": "Run the scheduler.",
    "phalanx_simulator.commands.demo:demo": "Show gangs placed by the real scheduler, in three acts.",
    "phalanx.cli.decide:decide": "Decide what would happen to the objects in some files, without a cluster.",
    "phalanx.cli.snapshot:snapshot": "Save what a running scheduler knew and decided in its last cycle.",
    "phalanx.cli.replay:replay": "Decide a saved cycle again and compare.",
    "phalanx_simulator.commands.simulate:simulate": (
        "Run the scheduler in virtual time under seeded faults, and check it."
    ),
    "phalanx_simulator.commands.drill:drill": (
        "Play short acts of the scheduler with a fault at every point of them."
    ),
    "phalanx.cli.install:install": "Install the CRDs into a cluster, or print them.",
    "phalanx.cli.version:version": "Print the versions of Phalanx and of what it decides with.",
}

_EXIT_CODES: Final = """\
Exit codes: 0 done, 1 something failed or differs, 2 bad input, 3 decide did not settle, 130 interrupted.\
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. What the user did wrong is told on standard error."""
    try:
        code = _app()(
            [_STDIN if each == "-" else each for each in _given(arguments)],
            exit_on_error=False,
            print_error=True,
            result_action="return_value",
        )
        sys.stdout.flush()
    except CycloptsError:
        return Exit.BAD_INPUT
    except BadInput as problem:
        print(problem.report(), file=sys.stderr)
        return Exit.BAD_INPUT
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return Exit.PIPE_CLOSED
    return code if isinstance(code, int) else Exit.OK


def _given(arguments: Sequence[str] | None) -> Sequence[str]:
    return sys.argv[1:] if arguments is None else arguments


def _app() -> App:
    as_plugin = PurePath(sys.argv[0]).name == _KUBECTL_PLUGIN
    app = App(
        name="kubectl phalanx" if as_plugin else "phalanx",
        help="A batch scheduler for Kubernetes GPU clusters: whole gangs or nothing.",
        help_epilogue=_EXIT_CODES,
        version=lambda: version("phalanx-scheduler"),
        version_flags="--version",
        suppress_keyboard_interrupt=False,
    )
    for target, summary in _COMMANDS.items():
        app.command(target, name=target.rpartition(":")[2], help=summary)
    return app


def _forget_stdout() -> None:
    """Nobody reads on; the interpreter must not complain when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
