"""All drills by name."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from phalanx_simulator.drills.crashes import crash_plans
from phalanx_simulator.drills.drill import Playable
from phalanx_simulator.drills.load_faults import FULL, TENTH, load_plans
from phalanx_simulator.drills.operations import ACTS, Act
from phalanx_simulator.drills.preemption_operations import PREEMPTION_OPERATIONS
from phalanx_simulator.drills.races import race_plans
from phalanx_simulator.drills.replies import reply_plans
from phalanx_simulator.drills.watch_faults import view_plans
from phalanx_simulator.invariants.check import Check

ALL_OPERATIONS: Final = (*ACTS, *PREEMPTION_OPERATIONS)
"""Every act that is repeated with faults."""

Plans = Callable[[Act, int, tuple[type[Check], ...]], Iterator[Playable]]

OPERATION_DRILLS: Final[Mapping[str, Plans]] = {
    "crashes": lambda act, seed, checks: crash_plans(act, seed=seed, checks=checks),
    "replies": lambda act, seed, checks: reply_plans(act, seed=seed, checks=checks),
    "races": lambda act, seed, checks: race_plans(act, seed=seed, checks=checks),
    "views": lambda act, seed, _checks: view_plans(act, seed=seed),
}
"""F1, F3, F9 at every bind, and F2 of the fault matrix: each act with each of their faults."""

LOAD: Final = "load"
"""F13, which has its own acts."""


def plans_of(
    drill: str,
    *,
    seed: int,
    checks: tuple[type[Check], ...],
    full: bool = False,
    acts: Collection[str] = (),
) -> Iterator[Playable]:
    """All plans of a drill, operation by operation; deterministic.

    Raises KeyError.

    `full`: the load of the fault matrix, not a tenth of it. `acts`: of these only, by name.
    """
    if drill == LOAD:
        yield from load_plans(seed=seed, size=FULL if full else TENTH)
        return
    for act in [act for act in ALL_OPERATIONS if not acts or act.name in acts]:
        yield from OPERATION_DRILLS[drill](act, seed, checks)
