"""Bugs of other schedulers, recreated in our code: the mutants, and the run that catches each.

A mutant is a small edit of one module's source, made while a separate process imports it (`apply.py`); the
product does not know of it. An edit's old text must occur exactly once in the module, so that the bank is
adapted to every change of that code.
"""

from collections.abc import Mapping

from msgspec import Struct


class Simulated(Struct, frozen=True):
    """Caught by simulated runs: any of the seeds `first..last` violates a check, tried in this order."""

    first: int
    last: int
    faults: str = "all"
    nodes: int = 16
    hours: float = 0.25
    load: float = 0.8


class Drilled(Struct, frozen=True):
    """Caught by a drill (crashes, replies, views): every `every`-th plan of an act, from the `start`-th."""

    drill: str
    act: str
    every: int = 1
    start: int = 0
    most: int = 40


class Played(Struct, frozen=True):
    """Caught by its own play: `module:function` under tests/bugbank returns what is wrong, or None."""

    play: str


def words_of(catcher: Simulated | Drilled | Played) -> str:
    """The catcher as a text for tables."""
    match catcher:
        case Simulated():
            return f"seeds {catcher.first} to {catcher.last} of {catcher.faults} on {catcher.nodes} nodes"
        case Drilled():
            return f"drill {catcher.drill} of {catcher.act}"
        case Played():
            return f"play {catcher.play}"


class Mutant(Struct, frozen=True):
    """`name` describes the bug in a few words; `issues` are its upstream numbers, such as "Volcano #5805".

    `edits`: old text to new text, in the module named by `module` (dotted). `slow`: it takes more than two
    seconds to catch, and is not run with the other tests. Simulated runs that catch it too are in `seeds.py`.
    """

    name: str
    issues: tuple[str, ...]
    module: str
    edits: Mapping[str, str]
    caught_by: Simulated | Drilled | Played
    slow: bool = False
