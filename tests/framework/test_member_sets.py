"""The sufficient sets of members in their order, against all subsets of some pods.

The check follows `docs/roles.md` ("Which members start").
"""

from collections.abc import Sequence
from itertools import islice, product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace
from phalanx.framework.member_sets import first_sufficient, next_sets
from phalanx.framework.minimum_members import MissingMembers
from phalanx.model.gangs import SubgroupSpec
from phalanx.model.pods import Pod

from tests.builders import Scenario
from tests.examples import holds

Member = tuple[str, str, int]
"""Role, subgroup and GPUs."""


class Case(Struct, frozen=True):
    """Waiting members, and what is missing in total, by role and by subgroup."""

    members: tuple[Member, ...]
    total: int
    roles: dict[str, int]
    parts: tuple[SubgroupSpec, ...]

    # --- for the scheduler --------------------------------------------------------------------------------

    def found(self, most: int) -> list[list[int]]:
        pods = self._pods()
        missing = MissingMembers(self.total, self.roles, {part.name: part.min_member for part in self.parts})
        first = first_sufficient(pods, missing, self.parts)
        sets = [first, *islice(next_sets(first, pods, missing, self.parts, steps=10_000), most - 1)]
        numbers = {pod.uid: number for number, pod in enumerate(pods)}
        return [sorted(numbers[pod.uid] for pod in each) for each in sets]

    def _pods(self) -> list[Pod]:
        scenario = Scenario().gang("g", 0)
        for role, _, gpus in self.members:
            scenario.role("g", 1, gpu=gpus, role=role)
        pairs = zip(scenario.members("g"), self.members, strict=True)
        return [replace(pod, subgroup=subgroup) for pod, (_, subgroup, _) in pairs]

    # --- by the documentation -----------------------------------------------------------------------------

    def sets(self) -> list[list[int]]:
        """All sets without a member too many in order; of equal members, the first ones are in a set."""
        choices = product((True, False), repeat=len(self.members))
        every = ([number for number, chosen in enumerate(choice) if chosen] for choice in choices)
        return [each for each in every if self._is_minimal(each) and self._has_first_ones(each)]

    def _is_minimal(self, chosen: Sequence[int]) -> bool:
        return self._is_enough(chosen) and not any(
            self._is_enough([other for other in chosen if other != number]) for number in chosen
        )

    def _is_enough(self, chosen: Sequence[int]) -> bool:
        there = [self.members[number] for number in chosen]
        return (
            len(there) >= self.total
            and all(sum(each[0] == role for each in there) >= least for role, least in self.roles.items())
            and all(
                sum(self._is_inside(each[1], part.name) for each in there) >= part.min_member
                for part in self.parts
            )
        )

    def _is_inside(self, subgroup: str, outer: str) -> bool:
        parents = {part.name: part.parent for part in self.parts}
        return subgroup == outer or (subgroup != "" and self._is_inside(parents[subgroup], outer))

    def _has_first_ones(self, chosen: Sequence[int]) -> bool:
        return not any(
            self.members[number] == self.members[earlier]
            for number in chosen
            for earlier in range(number)
            if earlier not in chosen
        )


def case(chance: Random) -> Case:
    """Up to nine members of up to three roles, and up to five subgroups, some of them nested."""
    parts = [
        SubgroupSpec(f"s{number}", chance.choice((0, 1, 1, 2))) for number in range(chance.randint(0, 3))
    ]
    if parts and chance.random() < 0.5:
        parts.append(SubgroupSpec("inner", 1, parent="s0"))
        parts.append(SubgroupSpec("innermost", 1, parent=chance.choice(("s0", "inner"))))
    roles = [f"r{number}" for number in range(chance.randint(0, 3))]
    names = ["", *(part.name for part in parts)]
    kinds = [
        (chance.choice(["", *roles]), chance.choice(names), chance.randint(1, 2))
        for _ in range(chance.randint(2, 7))
    ]
    members = tuple(chance.choice(kinds) for _ in range(chance.randint(3, 9)))
    there = {role: sum(each[0] == role for each in members) for role in roles}
    least = {role: chance.randint(0, min(2, there[role])) for role in roles}
    return Case(members, chance.randint(1, 5), least, tuple(parts))


@given(st.randoms(use_true_random=False))
@holds(200)
def test_all_sets_are_found_in_their_order(chance: Random) -> None:
    each = case(chance)
    expected = each.sets()
    if expected:
        assert each.found(most=40) == expected[:40]


S = SubgroupSpec("s", 1)


@pytest.mark.parametrize(
    ("members", "total", "roles", "expected"),
    [
        pytest.param(
            [("ps", "", 2), ("ps", "s", 1), ("", "s", 1)],
            0,
            {"ps": 1},
            [[0, 2], [1]],
            id="a larger set is first",
        ),
        pytest.param(
            [("", "", 1), ("", "", 2), ("", "s", 1), ("ps", "s", 1)],
            3,
            {"ps": 1},
            [[0, 1, 3], [0, 2, 3], [1, 2, 3]],
            id="only the last pod has the role",
        ),
    ],
)
def test_a_pod_of_a_role_and_a_subgroup_does_not_hide_a_set(
    members: list[Member], total: int, roles: dict[str, int], expected: list[list[int]]
) -> None:
    assert Case(tuple(members), total, roles, (S,)).found(most=40) == expected


def test_a_large_gang_finds_its_next_sets() -> None:
    """Depth-first search alone finds eight of them within its bounds."""
    chance = Random(100)
    members = tuple(
        (f"r{chance.randrange(4)}", f"s{chance.randrange(6)}", chance.randint(1, 4)) for _ in range(100)
    )
    parts = tuple(SubgroupSpec(f"s{number}", 8) for number in range(6))
    found = Case(members, 50, {f"r{number}": 10 for number in range(4)}, parts).found(most=33)
    order = [[number not in each for number in range(100)] for each in found]
    assert len(found) == 33
    assert order == sorted(order)
