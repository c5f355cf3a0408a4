"""The commands of `phalanx`: the built-in ones, and those that other packages register as entry points.

A package adds commands with the entry-point group `phalanx.commands`: the entry's name is the command's name,
and the entry refers to a `Command`. The module that defines it must import nothing heavy, because
`phalanx --help` loads it.
"""

import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from msgspec import Struct

GROUP: Final = "phalanx.commands"


class Command(Struct, frozen=True):
    """A command, by reference: its module is imported when the command is called."""

    target: str
    """`module:function`; the function's signature defines the options, its docstring the help."""
    summary: str
    """One line for `phalanx --help`."""


BUILT_IN: Final = {
    "why": Command(
        "phalanx.cli.verbs.why:why", "Say why a gang waits and what would help, or where it runs."
    ),
    "jobs": Command(
        "phalanx.cli.verbs.jobs:jobs", "List all gangs: state, queue, place in line, since when, where."
    ),
    "queues": Command(
        "phalanx.cli.verbs.queues:queues", "Show the tree of queues with use and shares, as bars."
    ),
    "topo": Command(
        "phalanx.cli.verbs.topo:topo", "Show the topology: free devices, fragmentation, and who is where."
    ),
    "nodes": Command(
        "phalanx.cli.verbs.nodes:nodes", "Show nodes: state, faults, and what would be lost by draining them."
    ),
    "hold": Command(
        "phalanx.cli.verbs.hold:hold", "Keep a waiting gang from being started until it is released."
    ),
    "release": Command("phalanx.cli.verbs.hold:release", "Let a gang start that is held."),
    "what-if": Command(
        "phalanx.cli.verbs.what_if:what_if", "Say what would start, wait and be evicted after a change."
    ),
    "drain-plan": Command(
        "phalanx.cli.verbs.drain_plan:drain_plan",
        "Find an order in which to empty nodes with few restarts.",
    ),
    "top": Command("phalanx.cli.verbs.top:top", "Show queues, nodes, rates and the last decisions, live."),
    "run": Command("phalanx.cli.run:run", "Run the scheduler."),
    "decide": Command(
        "phalanx.cli.decide:decide", "Decide about the objects in manifest files, without a cluster."
    ),
    "config": Command(
        "phalanx.cli.config_file.commands:APP", "Check, show and explain the scheduler's configuration file."
    ),
    "snapshot": Command(
        "phalanx.cli.snapshot:snapshot", "Save the input and the result of a running scheduler's last cycle."
    ),
    "replay": Command("phalanx.cli.replay:replay", "Decide a saved cycle again and compare the results."),
    "install": Command("phalanx.cli.install:install", "Install the CRDs into a cluster, or print them."),
    "doctor": Command(
        "phalanx.cli.doctor.command:doctor", "Check an installation, and say for each finding what to do."
    ),
    "completion": Command(
        "phalanx.cli.completion.command:completion", "Print the completion script of bash, zsh or fish."
    ),
    "version": Command(
        "phalanx.cli.app:print_versions", "Print the versions of Phalanx and of the solver that it uses."
    ),
}


def commands_for(arguments: list[str]) -> dict[str, Command]:
    """Return the commands by name that the parser needs for these arguments.

    Looking up entry points takes tens of milliseconds, so it is left out for a built-in command.
    """
    if arguments and arguments[0] in BUILT_IN:
        return BUILT_IN
    return BUILT_IN | _registered()


def _registered() -> dict[str, Command]:
    """Load the commands of other packages, sorted by name; a built-in command cannot be replaced."""
    found = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    loaded = {entry.name: _load(entry) for entry in found if entry.name not in BUILT_IN}
    return {name: command for name, command in loaded.items() if command is not None}


def _load(entry: EntryPoint) -> Command | None:
    """Report an entry that cannot be loaded, so that it does not break the other commands."""
    try:
        command = entry.load()
    except Exception as error:  # a foreign module can fail in any way
        print(f"command {entry.name}: {entry.value} cannot be loaded: {error}", file=sys.stderr)
        return None
    if isinstance(command, Command):
        return command
    print(f"command {entry.name}: expected a Command, found {command!r}", file=sys.stderr)
    return None
