"""Mutants that simulated runs catch too, with the seeds that do; these runs are not written for them.

Nearly all runs are of the cheapest kind with many faults: six minutes of a storm on eight nodes, in about two
seconds. Those of leader changes, and of all faults, have eighteen minutes. Each range starts with the first
seed that catches the mutant; the next ones are a reserve for changes of the scheduler that alter the runs.
`python -m tests.bugbank.search` finds the seeds. Mutants that are not listed are not caught by seeds from
1 to 3, or were not tried.
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
    "assumed pods use nothing": _storm(1),
    "evictions of a pod apply to any pod of the same name": _storm(2),
    "binds are sent before a complete placement exists": _storm(1),
    "gangs hold partial capacity and wait for the rest": _storm(1),
    "members that have failed count": _storm(1),
    "deleted pods are not noticed": _storm(1),
    "pods that have ended still use their node": _storm(1),
    "a new list does not remove missing objects": _all(2),
    "freed capacity does not trigger a cycle": _storm(1),
    "a refusal is remembered although there is more capacity": _storm(1),
    "a leader writes beyond the duration of its Lease": _storm(2),
    "a Lease that another replica holds is acquired": _leaders(1),
    "pods of other schedulers are not counted": _all(1),
    "placed pods are counted twice in the ledger": _storm(2),
    "a namespace's gangs leave empty entries": _storm(1),
    "versions of deleted pods are kept": _storm(1),
}
"""By the mutant's name."""

AMONG_TESTS: Final = (
    "binds are sent before a complete placement exists",
    "deleted pods are not noticed",
    "pods that have ended still use their node",
    "a namespace's gangs leave empty entries",
)
"""Caught by each of the seeds. Run with the tests; the others by `python -m tests.bugbank`."""
