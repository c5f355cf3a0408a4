"""A sample of the plans of each fault drill. `make soak` plays many more; test_load.py covers load.

The sample has plans of each operation and of each kind of fault. It reaches the coverage points of one of
a hundred plans of crashes, replies and views with one of ten races.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pytest
from phalanx_simulator.drills.catalogue import ALL_OPERATIONS, OPERATION_DRILLS
from phalanx_simulator.drills.drill import Outcome, Playable, play_each
from phalanx_simulator.invariants.catalogue import ALL_CHECKS

PER_OPERATION: Final = {"crashes": 3, "replies": 5, "views": 3, "races": 5}
"""By drill: this many plans of each operation are played."""

KIND: Final = {
    "crashes": r": (\w+) at step",
    "replies": r": (POST /binding|DELETE /pods|).* x\d+: (.+)$",
    "views": r": (.+?) of ",
    "races": r": (.+) #",
}
"""By drill: the kind of fault in the name of a plan. Replies to binds and to evictions are separate kinds."""


def by_kind(drill: str, plans: Sequence[Playable]) -> dict[tuple[str, ...], list[Playable]]:
    """The plans of each kind of fault."""
    found: dict[tuple[str, ...], list[Playable]] = {}
    for plan in plans:
        kind = re.search(KIND[drill], plan.name)
        assert kind is not None, plan.name
        found.setdefault(kind.groups(), []).append(plan)
    return found


def sample(
    kinds: Mapping[tuple[str, ...], Sequence[Playable]], count: int, played: Counter[tuple[str, ...]]
) -> Iterator[Playable]:
    """One plan of each of the kinds that were played least; plans are spread by the golden ratio."""
    for kind in sorted(kinds, key=lambda each: played[each])[:count]:
        plans = kinds[kind]
        yield plans[played.total() * 618 % 1000 * len(plans) // 1000]
        played[kind] += 1


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("drill", OPERATION_DRILLS)
def test_a_plan_of_each_operation_and_of_each_kind_of_fault_completes(drill: str) -> None:
    problems: dict[str, str | None] = {}
    played = Counter[tuple[str, ...]]()
    kinds = set[tuple[str, ...]]()

    def take(plan: Playable, outcome: Outcome) -> None:
        problems[plan.name] = outcome.problem

    for operation in ALL_OPERATIONS:
        plans = list(OPERATION_DRILLS[drill](operation, 1, ALL_CHECKS))
        found = by_kind(drill, plans)
        chosen = list(sample(found, PER_OPERATION[drill], played))
        play_each([plan for plan in plans if plan in chosen], checks=ALL_CHECKS, take=take)
        kinds |= {*found}
    assert {name: problem for name, problem in problems.items() if problem is not None} == {}
    assert len(problems) == PER_OPERATION[drill] * len(ALL_OPERATIONS)
    assert {*played} == kinds
