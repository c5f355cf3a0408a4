"""The command line `phalanx`, also `kubectl phalanx`: option parsing and exit codes for all commands.

A command is imported when it is called, so that help is quick.
"""

import gc
import os
import platform
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import PurePath
from typing import Final

from cyclopts import App, CycloptsError

from phalanx.cli.commands import commands_for
from phalanx.cli.exits import BadInput, Exit

_KUBECTL_PLUGIN: Final = "kubectl-phalanx"

_COMPLETE: Final = "__complete"
"""What completion scripts ask: the words so far follow."""

_STDIN: Final = "/dev/stdin"
"""Stands for a lone hyphen, which cyclopts parses as an option without a name."""

_EXIT_CODES: Final = """\
Exit codes: 0 success, 1 failure or difference, 2 bad input, 3 decide did not converge, 4 not found,
5 the gang waits, 130 interrupted.\
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors of the user are printed to standard error."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == [_COMPLETE]:
        return _complete(given[1:])
    try:
        code = _parsed(given)()
        sys.stdout.flush()
    except CycloptsError:
        return Exit.BAD_INPUT
    except BadInput as problem:
        print(problem.report(), file=sys.stderr)
        return Exit.BAD_INPUT
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        _discard_stdout()
        return Exit.PIPE_CLOSED
    return code if isinstance(code, int) else Exit.OK


def _parsed(given: Sequence[str]) -> Callable[[], object]:
    """Import and parse; without garbage collection, which takes a tenth of the time and frees nothing.

    Raises CycloptsError.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        words = [_STDIN if argument == "-" else argument for argument in given]
        command, bound, _ = _app(list(given)).parse_args(words, exit_on_error=False, print_error=True)
    finally:
        if was_enabled:
            gc.enable()
    return lambda: command(*bound.args, **bound.kwargs)


def complete_for_kubectl() -> int:
    """Print the candidates for `kubectl phalanx`, as kubectl asks the program kubectl_complete-phalanx."""
    return _complete(sys.argv[1:], end=":4")


def _complete(words: Sequence[str], *, end: str = "") -> int:
    """Print the candidates for the last word. `end`: the last line, a directive of cobra for kubectl.

    Names of files are asked for by directive 0, which kubectl answers with files.
    """
    from phalanx.cli.completion.candidates import FILES, candidates

    for_files = False
    for word, text in candidates(words, _app(list(words)), commands_for(list(words[:-1]))):
        for_files |= word == FILES
        if word != FILES or not end:
            print(f"{word}\t{text}" if text else word)
    if end:
        print(":0" if for_files else end)
    return Exit.OK


def print_versions() -> None:
    """Print the versions of Phalanx and of the solver that it uses: equal versions decide the same."""
    print(f"phalanx {version('phalanx-scheduler')}")
    print(f"ortools {version('ortools')}")
    print(f"python  {platform.python_version()}")


def _app(arguments: list[str]) -> App:
    is_plugin = PurePath(sys.argv[0]).name == _KUBECTL_PLUGIN
    app = App(
        name="kubectl phalanx" if is_plugin else "phalanx",
        help="A batch scheduler for Kubernetes GPU clusters: whole gangs or nothing.",
        help_epilogue=_EXIT_CODES,
        version=lambda: version("phalanx-scheduler"),
        version_flags="--version",
        suppress_keyboard_interrupt=False,
    )
    for name, command in commands_for(arguments).items():
        app.command(command.target, name=name, help=command.summary)
    return app


def _discard_stdout() -> None:
    """Redirect standard output to nowhere, so that the interpreter's last flush does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
