"""Mutants that whole runs catch too, with the seeds that do: nobody has staged anything for them.

Nearly all runs are of one kind, the cheapest in which much goes wrong: six minutes of a storm over eight
nodes, in about two seconds. Those of leaders that come and go, and of all faults, have eighteen minutes. Each
range begins with the first seed that catches the mutant; those behind it are for the day on which a change of
the scheduler moves what happens. `python -m tests.bugbank.search` finds them. Mutants that are not here are
not caught by such seeds from 1 to 3, or were not tried.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from tests.bugbank.bank import Simulated

STORM: Final = Simulated(1, 3, faults="storm", nodes=8, hours=0.1, load=0.9)
LEADERS: Final = Simulated(1, 3, faults="leaders", nodes=8, hours=0.3, load=0.9)
ALL: Final = Simulated(1, 3, faults="all", nodes=12, hours=0.3, load=0.9)


def _storm(first: int) -> Simulated:
    return replace(STORM, first=first)


def _leaders(first: int) -> Simulated:
    return replace(LEADERS, first=first)


def _all(first: int) -> Simulated:
    return replace(ALL, first=first)


SEEDS: Final[Mapping[str, Simulated]] = {
    "assumed pods use nothing": _all(2),
    "evictions of a pod go to any pod of the same name": _storm(2),
    "binds are sent before a whole placement exists": _storm(1),
    "gangs take what they get and wait for the rest": _storm(1),
    "members that have failed count": _storm(1),
    "deleted pods are not noticed": _storm(1),
    "pods that have ended still use their node": _storm(1),
    "a new list keeps what it does not hold": _all(2),
    "capacity that was given back wakes nobody": _storm(1),
    "a refusal is remembered although there is more capacity": _storm(1),
    "a leader writes for longer than its Lease lasts": _storm(2),
    "a Lease that is held is taken": _leaders(1),
    "pods of other schedulers are not counted": _all(1),
    "what is placed is booked twice": _storm(2),
    "a namespace's gangs leave empty entries": _storm(1),
    "versions of pods that are gone are kept": _storm(1),
}
"""By the mutant's name."""

AMONG_TESTS: Final = (
    "binds are sent before a whole placement exists",
    "deleted pods are not noticed",
    "pods that have ended still use their node",
    "a namespace's gangs leave empty entries",
)
"""Caught by each of the seeds. Tried whenever tests run; the others by `python -m tests.bugbank`."""
