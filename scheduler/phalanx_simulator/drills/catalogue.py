"""All drills by name."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Final

from phalanx_simulator.drills.crashes import crash_plans
from phalanx_simulator.drills.drill import Outcome, Plan, Playable, play
from phalanx_simulator.drills.load_faults import FULL, TENTH, load_plans
from phalanx_simulator.drills.operations import OPERATIONS, Operation
from phalanx_simulator.drills.preemption_operations import PREEMPTION_OPERATIONS
from phalanx_simulator.drills.races import race_plans
from phalanx_simulator.drills.replies import reply_plans
from phalanx_simulator.drills.watch_faults import view_plans
from phalanx_simulator.invariants.check import Check

ALL_OPERATIONS: Final = (*OPERATIONS, *PREEMPTION_OPERATIONS)
"""Every operation that is repeated with faults."""

Undisturbed = Callable[[], Outcome]
"""Runs the operation without a fault: most drills need its steps or its requests."""

Plans = Callable[[Operation, int, Undisturbed], Iterator[Plan]]

OPERATION_DRILLS: Final[Mapping[str, Plans]] = {
    "crashes": lambda operation, seed, played: crash_plans(operation, seed=seed, undisturbed=played()),
    "replies": lambda operation, seed, played: reply_plans(operation, seed=seed, undisturbed=played()),
    "races": lambda operation, seed, played: race_plans(operation, seed=seed, undisturbed=played()),
    "views": lambda operation, seed, _played: view_plans(operation, seed=seed),
}
"""F1, F3, F9 at every bind, and F2 of the fault matrix: each operation with each of their faults."""

LOAD: Final = "load"
"""F13, which has its own operations."""


def plans_of(
    drill: str,
    *,
    seed: int,
    checks: tuple[type[Check], ...],
    full: bool = False,
    operations: Collection[str] = (),
) -> Iterator[Playable]:
    """All plans of a drill, operation by operation; deterministic.

    `full`: the load of the fault matrix, not a tenth of it. `operations`: names of the only operations to
    use. Raises KeyError for an unknown drill.
    """
    if drill == LOAD:
        yield from load_plans(seed=seed, size=FULL if full else TENTH)
        return
    for operation in ALL_OPERATIONS:
        if not operations or operation.name in operations:
            undisturbed = partial(play, operation, seed=seed, checks=checks)
            yield from OPERATION_DRILLS[drill](operation, seed, undisturbed)
