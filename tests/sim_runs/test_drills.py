"""A sample of the plans of each fault drill. `make soak` plays many more; test_load.py covers load.

The sample has plans of each operation and of each kind of fault. It reaches the coverage points of one of
a hundred plans of crashes, replies and views with one of ten races: 60, the same as with 16 plans of each
operation. All plans of an operation share one run up to their faults.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final

import pytest
from phalanx_simulator.drills.catalogue import ALL_OPERATIONS, OPERATION_DRILLS
from phalanx_simulator.drills.drill import Outcome, Plan, Playable, play, play_together
from phalanx_simulator.drills.operations import Operation
from phalanx_simulator.invariants.catalogue import ALL_CHECKS

from tests.sim_runs.seeds import OF_DRILLS

PER_OPERATION: Final = {"crashes": 2, "replies": 5, "views": 2, "races": 3}
"""By drill: this many plans of each operation are played."""

KIND: Final = {
    "crashes": r": (\w+) at step",
    "replies": r": (POST /binding|DELETE /pods|).* x\d+: (.+)$",
    "views": r": (.+?) of ",
    "races": r": (.+) #",
}
"""By drill: the kind of fault in the name of a plan. Replies to binds and to evictions are separate kinds."""

Kind = tuple[str, ...]


def by_kind(drill: str, plans: Sequence[Plan]) -> dict[Kind, list[Plan]]:
    """The plans of each kind of fault."""
    found: dict[Kind, list[Plan]] = {}
    for plan in plans:
        kind = re.search(KIND[drill], plan.name)
        assert kind is not None, plan.name
        found.setdefault(kind.groups(), []).append(plan)
    return found


def sample(kinds: Mapping[Kind, Sequence[Plan]], count: int, played: Counter[Kind]) -> Iterator[Plan]:
    """One plan of each of the kinds that were played least; plans are spread by the golden ratio."""
    for kind in sorted(kinds, key=lambda each: played[each])[:count]:
        plans = kinds[kind]
        yield plans[played.total() * 618 % 1000 * len(plans) // 1000]
        played[kind] += 1


class Samples:
    """Selects plans, operation by operation, and knows which kinds of faults there are."""

    def __init__(self) -> None:
        self.played = {drill: Counter[Kind]() for drill in OPERATION_DRILLS}
        self.kinds: dict[str, set[Kind]] = {drill: set() for drill in OPERATION_DRILLS}

    def of(self, operation: Operation) -> list[Plan]:
        """Plans of all drills, in the order of their steps, so that they share one run up to their faults."""
        undisturbed = cache(lambda: play(operation, seed=1, checks=ALL_CHECKS))
        chosen: list[Plan] = []
        for drill, plans_of in OPERATION_DRILLS.items():
            found = by_kind(drill, list(plans_of(operation, 1, undisturbed)))
            chosen += sample(found, PER_OPERATION[drill], self.played[drill])
            self.kinds[drill] |= {*found}
        return sorted(chosen, key=lambda plan: -1 if plan.fault.step is None else plan.fault.step)


@pytest.mark.usefixtures("quiet")
def test_plans_of_each_operation_and_of_each_kind_of_fault_complete() -> None:
    problems: dict[str, str | None] = {}
    samples = Samples()

    reached: set[str] = set()

    def take(plan: Playable, outcome: Outcome) -> None:
        problems[plan.name] = outcome.problem
        reached.update(outcome.coverage)

    for operation in ALL_OPERATIONS:
        play_together(samples.of(operation), checks=ALL_CHECKS, take=take)
    assert {name: problem for name, problem in problems.items() if problem is not None} == {}
    assert sorted(OF_DRILLS - reached) == []
    assert len(problems) == sum(PER_OPERATION.values()) * len(ALL_OPERATIONS)
    assert {drill: {*played} for drill, played in samples.played.items()} == samples.kinds
