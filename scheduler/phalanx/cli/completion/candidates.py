"""Which words can follow on a command line: commands, options, values, and live names of the cluster."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from cyclopts import App

from phalanx.cli.commands import Command
from phalanx.cli.completion.names import Candidate, Cluster, live_names

FILES: Final = ":files"

_OF_OPTIONS: Final = {
    "--namespace": "namespaces",
    "--context": "contexts",
    "--queue": "queues",
    "--node": "nodes",
    "--drain": "nodes",
    "--like": "nodes",
    "--kubeconfig": FILES,
    "--config": FILES,
    "--submit": FILES,
    "--filename": FILES,
}
"""What the value of an option is."""

_OF_COMMANDS: Final = {
    "why": "gangs",
    "hold": "gangs",
    "release": "gangs",
    "queues": "queues",
    "nodes": "nodes",
    "drain-plan": "nodes",
    "topo": "topologies",
    "replay": FILES,
}
"""What the words of a command are."""

Lookup = Callable[[str, Cluster], list[Candidate]]


def candidates(
    words: Sequence[str], app: App, commands: Mapping[str, Command], lookup: Lookup = live_names
) -> list[Candidate]:
    """The candidates for the last word, after the words before it; the words begin behind `phalanx`."""
    *before, prefix = words or ("",)
    found = _all(before, prefix, app, commands, lookup)
    return [each for each in found if each[0] == FILES or each[0].startswith(prefix)]


def _all(
    before: Sequence[str], prefix: str, app: App, commands: Mapping[str, Command], lookup: Lookup
) -> list[Candidate]:
    if not before:
        return [(name, command.summary) for name, command in commands.items()]
    name = before[0]
    if name not in commands:
        return []
    arguments: list[Any] = list(app[name].assemble_argument_collection())
    named = {option: each for each in arguments for option in each.names if option.startswith("-")}
    if prefix.startswith("-"):
        options = [(option, each) for option, each in named.items() if option.startswith("--")]
        return [(option, _help(each)) for option, each in options]
    last = named.get(before[-1])
    if last is not None and last.hint is not bool:
        return _values(last, _cluster(before), lookup)
    return _names(_OF_COMMANDS.get(name, ""), _cluster(before), lookup)


def _values(argument: Any, cluster: Cluster, lookup: Lookup) -> list[Candidate]:
    choices = argument.get_choices()
    if choices:
        return [(choice, "") for choice in choices]
    what = next((_OF_OPTIONS[name] for name in argument.names if name in _OF_OPTIONS), "")
    return _names(what, cluster, lookup)


def _names(what: str, cluster: Cluster, lookup: Lookup) -> list[Candidate]:
    if what == FILES:
        return [(FILES, "")]
    return lookup(what, cluster) if what else []


def _help(argument: Any) -> str:
    return str(argument.parameter.help or "").splitlines()[0] if argument.parameter.help else ""


def _cluster(words: Sequence[str]) -> Cluster:
    """The cluster options among the words."""
    given = dict(pairwise(words))
    split = dict(word.split("=", 1) for word in words if word.startswith("--") and "=" in word)
    values = {**given, **split}
    return Cluster(
        kubeconfig=values.get("--kubeconfig"),
        context=values.get("--context"),
        namespace=values.get("--namespace") or values.get("-n"),
    )
