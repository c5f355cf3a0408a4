"""Pods with different claims on a node: the bound on a weighted sum of pods allows only what fits."""

from collections.abc import Sequence
from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from phalanx.model.devices.limits import MIXED_POINTS_MAX, MIXED_TRIED_MAX
from phalanx.model.devices.mixed_slots import Combination, Mix, MixCounter, best_of, weights_for

from tests.examples import holds
from tests.model.devices import CLASSES, MATCHER, device, place, request, slice_of, spec_of

Wanted = tuple[str, int]
"""A pod that asks for so many devices of any of these kinds."""


def matching(kinds: str) -> str:
    return " || ".join(f'device.attributes["gpu.example.com"].kind == "{kind}"' for kind in kinds)


def mix_of(devices: str, wanted: Sequence[Wanted], alone: Combination) -> Mix:
    """What fits a node with devices of these kinds."""
    claims = [[spec_of(request("r", matching(kinds), count=count))] for kinds, count in wanted]
    found = (device(f"d{index}", kind=each) for index, each in enumerate(devices))
    return MixCounter(claims, classes=CLASSES, matcher=MATCHER).count(place(slice_of(*found)), alone)


def fits(devices: str, wanted: Sequence[Wanted]) -> bool:
    """By Hall's theorem: for each set of kinds, no more devices are wanted only of them than there are."""
    return all(
        sum(count for kinds, count in wanted if set(kinds) <= some) <= sum(each in some for each in devices)
        for some in (set(each) for each in ("x", "y", "z", "xy", "xz", "yz", "xyz"))
    )


@holds(20)
@given(
    st.text("xyz", max_size=6),
    st.lists(
        st.tuples(st.sampled_from(("x", "y", "xy", "yz", "xyz")), st.integers(1, 2)), min_size=2, max_size=3
    ),
)
def test_all_combinations_within_the_bound_fit(devices: str, wanted: list[Wanted]) -> None:
    alone = tuple(max(n for n in range(7) if fits(devices, [each] * n)) for each in wanted)
    mix = mix_of(devices, wanted, alone)
    weights = weights_for([mix], [count for _, count in wanted])
    best = best_of(mix, weights) if mix.excluded else None
    for each in product(*(range(count + 1) for count in alone)):
        pods = [one for one, count in zip(wanted, each, strict=True) for _ in range(count)]
        is_excluded = any(all(map(int.__le__, smaller, each)) for smaller in mix.excluded)
        assert is_excluded is not fits(devices, pods)
        if best is not None and sum(map(int.__mul__, weights[best], each)) <= mix.bound(weights[best]):
            assert not is_excluded


def test_a_kind_that_shares_no_devices_counts_nothing() -> None:
    mix = mix_of("xxxxyy", [("x", 1), ("x", 2), ("y", 1)], (4, 2, 2))
    weights = weights_for([mix], [1, 2, 1])
    best = best_of(mix, weights)
    assert best is not None
    assert weights[best] == (1, 2, 0)
    assert mix.bound(weights[best]) == 4


def test_no_more_combinations_are_tried_than_the_limit() -> None:
    """What was not tried is excluded."""
    mix = mix_of("x" * 40, [("x", 1), ("x", 1)], (40, 40))
    assert all(sum(each) <= 41 for each in mix.excluded)
    tried = sum(
        not any(all(map(int.__le__, smaller, each)) for smaller in mix.excluded)
        for each in product(range(1, 41), repeat=2)
    )
    assert tried <= MIXED_TRIED_MAX < MIXED_POINTS_MAX


def test_numbers_of_pods_that_are_not_looked_at_are_excluded() -> None:
    mix = mix_of("x" * 200, [("x", 1), ("x", 1)], (200, 200))
    assert mix.bound((1, 1)) < 200
    assert best_of(mix, weights_for([mix], [1, 1])) is not None
