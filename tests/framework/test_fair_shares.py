"""Fair shares: examples, and properties that are checked against independent linear programs."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ortools.linear_solver import pywraplp
from phalanx.framework.queues.division import Participant, QueueShare, bundle_of, divide, merged
from phalanx.framework.queues.water_filling import Bundle, fill
from phalanx.model.names import QueueName
from phalanx.model.resources import Resources

from tests.call_counts import counted
from tests.examples import holds

NAMES = ("cpu", "gpu", "memory")


def party(*waiting: Resources, used: Resources | None = None, parent: str = "", **fields: Any) -> Participant:
    """A queue with waiting gangs that request these amounts."""
    return Participant(
        parent=QueueName(parent) if parent else None,
        used=bundle_of(used or {}),
        waiting=merged(bundle_of(each) for each in waiting),
        **fields,
    )


def shares(capacity: Resources, **parties: Participant) -> dict[str, Resources]:
    """The fair share of each queue, without resources of which it gets nothing."""
    found = divide({QueueName(name): each for name, each in parties.items()}, capacity)
    return {
        name: {resource: amount for resource, amount in share.fair_share.items() if amount}
        for name, share in sorted(found.items())
    }


def gpus(capacity: int, **parties: Participant) -> dict[str, int]:
    found = shares({"gpu": capacity}, **parties)
    return {name: share.get("gpu", 0) for name, share in found.items()}


def wants(gpu: int, **fields: Any) -> Participant:
    return party({"gpu": gpu}, **fields)


def test_equal_queues_get_equal_shares_and_unused_parts_are_divided_again() -> None:
    assert gpus(8, a=wants(8), b=wants(8)) == {"a": 4, "b": 4}
    assert gpus(9, a=wants(1), b=wants(9), c=wants(9)) == {"a": 1, "b": 4, "c": 4}
    assert gpus(9, a=wants(1), b=wants(2), c=wants(3)) == {"a": 1, "b": 2, "c": 3}
    assert gpus(0, a=wants(1)) == {"a": 0}
    assert gpus(8, a=party()) == {"a": 0}


def test_shares_are_proportional_to_weights() -> None:
    assert gpus(9, a=wants(99, weight=2), b=wants(99)) == {"a": 6, "b": 3}
    assert gpus(9, a=wants(4, weight=2), b=wants(99)) == {"a": 4, "b": 5}


def test_guarantees_come_first_and_the_rest_is_divided_above_them() -> None:
    assert gpus(10, a=wants(10, guarantee={"gpu": 6}), b=wants(10)) == {"a": 8, "b": 2}
    assert gpus(10, a=wants(2, guarantee={"gpu": 6}), b=wants(10)) == {"a": 2, "b": 8}
    assert gpus(10, a=wants(3, guarantee={"gpu": 9}), b=wants(9, guarantee={"gpu": 1})) == {"a": 3, "b": 7}


def test_no_share_exceeds_the_limit_even_where_the_use_does() -> None:
    assert gpus(10, a=wants(9, limit={"gpu": 3}), b=wants(9)) == {"a": 3, "b": 7}
    assert gpus(10, a=party(used={"gpu": 9}, limit={"gpu": 3}), b=wants(4)) == {"a": 3, "b": 4}
    assert gpus(9, a=wants(9, limit={"gpu": 2}, guarantee={"gpu": 5}), b=wants(9)) == {"a": 2, "b": 7}


def test_a_limit_scales_down_the_other_resources_of_the_same_demand() -> None:
    found = shares(
        {"gpu": 16, "cpu": 100}, a=party({"gpu": 8, "cpu": 80}, limit={"gpu": 4}), b=party({"cpu": 99})
    )
    assert found == {"a": {"gpu": 4, "cpu": 40}, "b": {"cpu": 60}}


def test_a_queue_gets_cores_only_in_proportion_to_its_devices() -> None:
    found = shares({"gpu": 4, "cpu": 100}, a=party({"gpu": 8, "cpu": 80}), b=party({"cpu": 60}))
    assert found == {"a": {"gpu": 4, "cpu": 40}, "b": {"cpu": 60}}


def test_demand_for_cores_is_not_reduced_by_demand_for_devices_in_the_queue() -> None:
    found = shares({"gpu": 4, "cpu": 100}, a=party({"gpu": 8, "cpu": 8}, {"cpu": 50}), b=party({"gpu": 8}))
    assert found["a"]["cpu"] >= 50
    assert found["a"]["gpu"] + found["b"]["gpu"] in (3, 4)


def test_dominant_shares_are_compared() -> None:
    """The example of the DRF paper: 9 cores and 18 GB; tasks of (1, 4) and (3, 1)."""
    found = shares(
        {"cpu": 9, "memory": 18}, a=party({"cpu": 100, "memory": 400}), b=party({"cpu": 300, "memory": 100})
    )
    assert found == {"a": {"cpu": 3, "memory": 12}, "b": {"cpu": 6, "memory": 2}}


def test_shares_are_divided_level_by_level_down_the_tree() -> None:
    found = gpus(
        12,
        one=party(weight=2),
        two=party(),
        a=wants(99, parent="one"),
        b=wants(99, parent="one", weight=3),
        c=wants(99, parent="two"),
    )
    assert found == {"one": 8, "two": 4, "a": 2, "b": 6, "c": 4}


def test_the_limit_and_guarantee_of_a_parent_hold_for_all_queues_below() -> None:
    found = gpus(
        12,
        one=party(limit={"gpu": 4}),
        two=party(guarantee={"gpu": 2}),
        a=wants(99, parent="one"),
        b=wants(2, parent="two"),
        c=wants(3, parent="two"),
    )
    assert found == {"one": 4, "two": 5, "a": 4, "b": 2, "c": 3}


def test_a_parent_is_entitled_only_to_what_the_limits_of_its_children_let_them_use() -> None:
    found = gpus(
        9,
        p=party(guarantee={"gpu": 5}),
        a=wants(9, limit={"gpu": 2}, parent="p"),
        q=wants(9),
    )
    assert found == {"p": 2, "a": 2, "q": 7}


def test_the_own_use_of_a_parent_counts_among_its_children() -> None:
    found = gpus(10, one=party(used={"gpu": 4}), a=wants(99, parent="one"), b=wants(99))
    assert found == {"one": 5, "a": 2, "b": 5}


def test_the_resource_pods_is_never_dominant() -> None:
    found = shares({"pods": 10, "cpu": 100}, a=party({"pods": 10, "cpu": 90}), b=party({"cpu": 90}))
    assert found == {"a": {"pods": 5, "cpu": 50}, "b": {"cpu": 50}}
    assert shares({"pods": 10}, a=party({"pods": 4})) == {"a": {"pods": 4}}


def guarantees(capacity: int, **parties: Participant) -> dict[str, int]:
    found = divide({QueueName(name): each for name, each in parties.items()}, {"gpu": capacity})
    return {name: share.guarantee.get("gpu", 0) for name, share in sorted(found.items())}


def guaranteed(gpu: int, parent: str = "") -> Participant:
    return party(parent=parent, guarantee={"gpu": gpu})


def test_guarantees_beyond_the_capacity_are_scaled_down_proportionally() -> None:
    assert guarantees(8, a=guaranteed(4), b=guaranteed(4)) == {"a": 4, "b": 4}
    assert guarantees(8, a=guaranteed(12), b=guaranteed(4)) == {"a": 6, "b": 2}
    assert guarantees(1, a=guaranteed(1), b=guaranteed(1)) == {"a": 1, "b": 0}
    assert guarantees(4, a=guaranteed(1), b=guaranteed(3), c=guaranteed(3)) == {"a": 0, "b": 2, "c": 2}


def test_guarantees_beyond_that_of_the_parent_are_scaled_down_proportionally() -> None:
    assert guarantees(99, top=guaranteed(6), a=guaranteed(6, "top"), b=guaranteed(3, "top")) == {
        "top": 6,
        "a": 4,
        "b": 2,
    }


def test_pods_and_abundant_cores_do_not_bound_the_shares_of_children() -> None:
    """The parent gets three of four devices, and with them 1.5 pods and a part of its cores."""
    found = shares(
        {"gpu": 6, "cpu": 1000, "pods": 100},
        top=party(),
        other=party({"gpu": 4, "cpu": 4, "pods": 4}),
        a=party({"gpu": 1, "cpu": 40, "pods": 1}, parent="top"),
        b=party({"gpu": 3, "cpu": 3, "pods": 1}, parent="top"),
    )
    assert found["top"]["gpu"] == 3
    assert (found["a"]["gpu"], found["b"]["gpu"]) == (1, 2)


def test_a_resource_that_the_limit_of_an_ancestor_makes_scarce_bounds_the_shares_of_children() -> None:
    found = shares(
        {"gpu": 6},
        top=party(limit={"gpu": 1}),
        middle=party(parent="top"),
        a=party({"gpu": 1}, parent="middle"),
        b=party({"gpu": 3}, parent="top"),
    )
    assert found["middle"].get("gpu", 0) + found["b"].get("gpu", 0) <= 1
    assert found["a"].get("gpu", 0) <= found["middle"].get("gpu", 0)


def test_a_parent_without_a_guarantee_has_the_sum_of_its_children() -> None:
    assert guarantees(99, top=party(), a=guaranteed(6, "top"), b=guaranteed(3, "top"))["top"] == 9
    assert guarantees(6, top=party(), a=guaranteed(6, "top"), b=guaranteed(3, "top")) == {
        "top": 6,
        "a": 4,
        "b": 2,
    }


amounts = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 40), min_size=1)
some = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 40))


@st.composite
def trees(draw: st.DrawFn) -> tuple[dict[QueueName, Participant], Resources]:
    """Up to seven queues, each a root or a child of an earlier one, and the capacity."""
    parties: dict[QueueName, Participant] = {}
    for index in range(draw(st.integers(1, 7))):
        parent = draw(st.sampled_from(["", *parties]))
        parties[QueueName(f"q{index}")] = party(
            *draw(st.lists(amounts, max_size=3)),
            used=draw(some),
            parent=parent,
            weight=draw(st.integers(1, 5)),
            guarantee=draw(some),
            limit=draw(some),
        )
    return parties, {name: draw(st.integers(0, 100)) for name in NAMES}


def _sum(parts: list[Resources], name: str) -> int:
    return sum(part.get(name, 0) for part in parts)


def _is_short(
    name: str,
    parent: QueueName,
    parties: Mapping[QueueName, Participant],
    found: Mapping[QueueName, QueueShare],
    capacity: Resources,
) -> bool:
    """Whether the demand for it exceeds the capacity, or the limit of an ancestor of the queue."""
    asked = sum(found[each].demand.get(name, 0) for each in parties if parties[each].parent is None)
    above = parties[parent].parent
    while above is not None and found[above].demand.get(name, 0) <= parties[above].limit.get(name, asked):
        above = parties[above].parent
    return asked > capacity[name] or above is not None


@holds(60)
@given(trees())
def test_shares_keep_demands_guarantees_limits_and_parents(
    case: tuple[dict[QueueName, Participant], Resources],
) -> None:
    parties, capacity = case
    found = divide(parties, capacity)
    assert found == divide(dict(reversed(parties.items())), capacity)
    for name in NAMES:
        for parent in [None, *parties]:
            below = [found[each] for each in parties if parties[each].parent == parent]
            kept = found[parent].guarantee if parent else capacity
            due = found[parent].fair_share if parent else capacity
            assert _sum([share.guarantee for share in below], name) <= kept.get(name, 0)
            if parent is None or _is_short(name, parent, parties, found, capacity):
                assert _sum([share.fair_share for share in below], name) <= due.get(name, 0)
        for queue, share in found.items():
            due, demand = share.fair_share.get(name, 0), share.demand.get(name, 0)
            assert min(demand, share.guarantee.get(name, 0)) <= due <= demand
            assert due <= parties[queue].limit.get(name, due)
            assert share.guarantee.get(name, 0) <= parties[queue].limit.get(name, 1000)


def leximin(rows: list[tuple[Fraction, Resources]], capacity: Resources) -> list[float]:
    """The leximin levels (part / speed) of bundles: the smallest level is maximal, then the next one, …

    Solved as linear programs: maximise the common level of the bundles that are not fixed, then fix those
    that cannot rise above it while the others keep it.
    """
    fixed: dict[int, float] = {}
    while len(fixed) < len(rows):
        level, _ = _highest(rows, capacity, fixed, None, 0)
        stuck = [
            index
            for index in range(len(rows))
            if index not in fixed and _highest(rows, capacity, fixed, index, level)[0] <= level + 1e-6
        ]
        assert stuck
        fixed |= dict.fromkeys(stuck, level)
    return [fixed[index] for index in range(len(rows))]


def _highest(
    rows: list[tuple[Fraction, Resources]],
    capacity: Resources,
    fixed: Mapping[int, float],
    rising: int | None,
    level: float,
) -> tuple[float, None]:
    """The highest common level, or, with `rising`, that of this one while all others keep `level`."""
    solver = pywraplp.Solver.CreateSolver("GLOP")
    speeds = [float(speed) for speed, _ in rows]
    parts = [solver.NumVar(0, 1, str(index)) for index in range(len(rows))]
    top = solver.NumVar(0, solver.infinity(), "level")
    for name, amount in capacity.items():
        solver.Add(sum(parts[i] * each.get(name, 0) for i, (_, each) in enumerate(rows)) <= amount)
    for index, part in enumerate(parts):
        if index in fixed:
            solver.Add(part >= fixed[index] * speeds[index] - 1e-9)
        elif rising is None or index == rising:
            solver.Add(part >= top * speeds[index])
        else:
            solver.Add(part >= level * speeds[index] - 1e-9)
    solver.Maximize(top)
    assert solver.Solve() == pywraplp.Solver.OPTIMAL
    return top.solution_value(), None


speeds = st.builds(Fraction, st.integers(1, 6), st.integers(1, 6))


@holds(140)
@given(st.lists(st.tuples(speeds, amounts), min_size=1, max_size=6), some)
def test_water_filling_is_leximin(rows: list[tuple[Fraction, Resources]], some_capacity: Resources) -> None:
    capacity = {name: some_capacity.get(name, 0) for name in NAMES}
    parts = fill([Bundle(amounts, speed) for speed, amounts in rows], capacity)
    for name in NAMES:
        used = sum(
            (part * each.get(name, 0) for part, (_, each) in zip(parts, rows, strict=True)), Fraction(0)
        )
        assert used <= capacity[name]
    levels = [float(part / speed) for part, (speed, _) in zip(parts, rows, strict=True)]
    assert levels == pytest.approx(leximin(rows, capacity), abs=1e-4)


@holds(80)
@given(st.lists(st.tuples(st.integers(1, 5), amounts, some), min_size=1, max_size=5))
def test_siblings_of_one_bundle_each_are_leximin_above_their_guarantees(
    rows: list[tuple[int, Resources, Resources]],
) -> None:
    """One level of the tree: amounts differ from those of the linear program by less than 1, for rounding."""
    capacity = {"cpu": 90, "gpu": 50, "memory": 70}
    parties = {
        QueueName(f"q{index}"): party(bundle, weight=weight, guarantee=guarantee)
        for index, (weight, bundle, guarantee) in enumerate(rows)
    }
    found = list(divide(parties, capacity).values())
    due = [_smaller(bundle, share) for (_, bundle, _), share in zip(rows, found, strict=True)]
    rest = {name: amount - sum(mine.get(name, 0) for mine in due) for name, amount in capacity.items()}
    program: list[tuple[Fraction, Resources]] = []
    for (weight, bundle, _), mine in zip(rows, due, strict=True):
        started = max(Fraction(mine[name], bundle[name]) for name in bundle)
        shares = (Fraction(bundle[name] - mine[name], capacity[name]) for name in bundle)
        speed = weight / (max(shares) or 1)
        whole = {name: int(amount * started) for name, amount in bundle.items()}
        program.append((speed, {name: whole[name] - mine[name] for name in bundle}))
        program.append((speed, {name: bundle[name] - whole[name] for name in bundle}))
    parts = [
        min(1.0, level * float(speed))
        for level, (speed, _) in zip(leximin(program, rest), program, strict=True)
    ]
    for index, share in enumerate(found):
        for name, mine in due[index].items():
            rows_of_it = (2 * index, 2 * index + 1)
            exact = mine + sum(parts[row] * program[row][1][name] for row in rows_of_it)
            assert abs(share.fair_share[name] - exact) < 1 + 1e-3


def _smaller(bundle: Resources, share: QueueShare) -> dict[str, int]:
    return {name: min(amount, share.guarantee.get(name, 0)) for name, amount in bundle.items()}


def test_cores_of_guaranteed_devices_are_not_reduced_with_demand_above_the_guarantee() -> None:
    found = shares(
        {"gpu": 8, "cpu": 64},
        a=party({"gpu": 12, "cpu": 24}, guarantee={"gpu": 6}),
        b=party({"gpu": 8, "cpu": 8}),
    )
    assert found == {"a": {"gpu": 7, "cpu": 14}, "b": {"gpu": 1, "cpu": 1}}


def test_many_siblings_with_odd_bundles_are_divided() -> None:
    """Their common denominator has more bits than the algorithm keeps."""
    parties = {QueueName(f"q{index:03}"): party({"memory": 2**40 + 2 * index + 1}) for index in range(200)}
    found = [each.fair_share["memory"] for each in divide(parties, {"memory": 2**44}).values()]
    assert sum(found) in range(2**44 - len(found), 2**44 + 1)
    assert max(found) - min(found) <= 1


@st.composite
def trees_for_devices(draw: st.DrawFn) -> tuple[dict[QueueName, Participant], int]:
    """Up to eight queues that use and request one resource, and its capacity."""
    parties: dict[QueueName, Participant] = {}
    amount = st.integers(0, 40)
    maybe = st.just({}) | st.builds(lambda most: {"gpu": most}, amount)
    for index in range(draw(st.integers(1, 8))):
        parties[QueueName(f"q{index}")] = party(
            *draw(st.lists(st.builds(lambda most: {"gpu": most}, st.integers(1, 40)), max_size=2)),
            used=draw(maybe),
            parent=draw(st.sampled_from(["", *parties])),
            weight=draw(st.integers(1, 5)),
            guarantee=draw(maybe),
            limit=draw(maybe),
        )
    return parties, draw(st.integers(0, 120))


class Tree:
    """The inputs of a division among queues, computed again from the documented rules."""

    def __init__(self, parties: Mapping[QueueName, Participant], capacity: int) -> None:
        self.parties, self.capacity = parties, capacity

    def below(self, parent: QueueName | None) -> list[QueueName]:
        return [name for name, each in self.parties.items() if each.parent == parent]

    def used(self, name: QueueName) -> int:
        return sum(amounts["gpu"] for amounts in self.parties[name].used.values())

    def used_below(self, name: QueueName) -> int:
        """With its descendants."""
        return self.used(name) + sum(self.used_below(child) for child in self.below(name))

    def own(self, name: QueueName) -> int:
        return self.used(name) + sum(amounts["gpu"] for amounts in self.parties[name].waiting.values())

    def demand(self, name: QueueName) -> int:
        """The demand within the limits of children."""
        return self.own(name) + sum(self.bundle(child) for child in self.below(name))

    def bundle(self, name: QueueName) -> int:
        """The demand within all limits."""
        demanded = self.demand(name)
        return min(demanded, self.parties[name].limit.get("gpu", demanded))

    def asked(self, name: QueueName) -> int:
        """The guarantee before it is scaled down to the capacity."""
        below = sum(self.asked(child) for child in self.below(name))
        stated = self.parties[name].guarantee.get("gpu", below)
        return min(stated, self.parties[name].limit.get("gpu", stated))

    def guarantee(self, name: QueueName) -> int:
        parent = self.parties[name].parent
        exists = self.capacity if parent is None else self.guarantee(parent)
        siblings = sorted(self.below(parent))
        total = sum(self.asked(each) for each in siblings)
        if total <= exists:
            return self.asked(name)
        exact = {each: Fraction(self.asked(each) * exists, total) for each in siblings}
        whole = {each: int(exact[each]) for each in siblings}
        while sum(whole.values()) < exists:
            nearest = max(
                siblings, key=lambda each: (exact[each] - whole[each], self.used_below(each) > whole[each])
            )
            whole[nearest], exact[nearest] = whole[nearest] + 1, Fraction(0)
        return whole[name]


@holds(50)
@given(trees_for_devices())
def test_a_tree_is_leximin_above_the_guarantees_at_every_node(
    case: tuple[dict[QueueName, Participant], int],
) -> None:
    """With one resource: amounts differ from those of the linear program by less than 1, for rounding."""
    parties, capacity = case
    tree, found = Tree(parties, capacity), divide(parties, {"gpu": capacity})
    for parent in [None, *parties]:
        names = tree.below(parent)
        due = {name: min(tree.demand(name), tree.guarantee(name)) for name in names}
        rows = {name: (parties[name].weight, tree.bundle(name) - due[name]) for name in names}
        if parent is not None and names:
            rows[QueueName("its own pods")] = (1, tree.used(parent))
        demanding = {name: row for name, row in rows.items() if row[1] > 0}
        share = capacity if parent is None else found[parent].fair_share.get("gpu", 0)
        program = [(Fraction(weight, amount), {"gpu": amount}) for weight, amount in demanding.values()]
        levels = dict(zip(demanding, leximin(program, {"gpu": share - sum(due.values())}), strict=True))
        for name in names:
            exact = due[name] + levels.get(name, 0) * parties[name].weight
            assert found[name].guarantee.get("gpu", 0) == tree.guarantee(name)
            assert abs(found[name].fair_share.get("gpu", 0) - exact) < 1 + 1e-3


def test_the_cost_of_applying_limits_is_linear() -> None:
    """Pods may request thousands of resources, and all of them may be limited."""

    def calls(count: int) -> int:
        names = [f"example.com/r{number}" for number in range(count)]
        asked = dict.fromkeys(names, 2)
        queue = party(asked, limit=dict.fromkeys(names, 1))
        return counted(lambda: divide({QueueName("a"): queue}, asked))

    assert calls(400) < 3 * calls(200)


def test_what_a_limit_does_not_name_stops_nobody_below() -> None:
    """The limit of 2 GPUs lets half of the pods start: either child may still use both GPUs."""
    found = shares(
        {"gpu": 10, "pods": 100},
        top=party(limit={"gpu": 2}),
        a=party({"gpu": 1, "pods": 3}, parent="top"),
        b=party({"gpu": 3, "pods": 1}, parent="top"),
    )
    assert (found["a"]["gpu"], found["b"]["gpu"]) == (1, 1)
