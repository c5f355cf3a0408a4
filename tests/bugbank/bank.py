"""Bugs of other schedulers, made again in our code: what each looks like and which run catches it.

A mutant is a small edit of one module's source, made while a process of its own imports it (`apply.py`);
nothing in the product knows of it. An edit's old text must occur exactly once in the module, so that the bank
cannot outlive the code that it edits.
"""

from collections.abc import Mapping

from msgspec import Struct


class Simulated(Struct, frozen=True):
    """Caught by whole runs: any of the seeds `first..last` violates a check, tried in this order."""

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
    """Caught by a play of its own: `module:function` under tests/bugbank says what is wrong, or None."""

    play: str


def words_of(catcher: Simulated | Drilled | Played) -> str:
    """For a table."""
    match catcher:
        case Simulated():
            return f"seeds {catcher.first} to {catcher.last} of {catcher.faults} on {catcher.nodes} nodes"
        case Drilled():
            return f"drill {catcher.drill} of {catcher.act}"
        case Played():
            return f"play {catcher.play}"


class Mutant(Struct, frozen=True):
    """`name` says the bug in a few words; `issues` are its upstream numbers, such as "Volcano #5805".

    `edits`: old text to new text, in the module named by `module` (dotted). `slow`: it takes more than two
    seconds to catch, and is not run with the other tests. Whole runs that catch it too are in `seeds.py`.
    """

    name: str
    issues: tuple[str, ...]
    module: str
    edits: Mapping[str, str]
    caught_by: Simulated | Drilled | Played
    slow: bool = False
