"""Pods with different claims on a node: what is within the one bound fits, and what is beyond the other does
not."""

from collections.abc import Sequence
from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from phalanx.model.devices.mixed_slots import (
    Combination,
    Mix,
    MixCounter,
    Weights,
    best_of,
    untried,
    weights_for,
)

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
    counter, where, order = (
        MixCounter(claims, classes=CLASSES, matcher=MATCHER),
        place(slice_of(*found)),
        range(len(claims)),
    )
    return counter.count(where, alone, order, counter.key(where, alone, order))


def weighted(pods: Combination, weights: Weights) -> int:
    return sum(map(int.__mul__, weights, pods))


def is_excluded(mix: Mix, pods: Combination) -> bool:
    return any(all(map(int.__le__, smaller, pods)) for smaller in mix.excluded)


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
        st.tuples(st.sampled_from(("x", "y", "xy", "yz", "xyz")), st.integers(1, 2)), min_size=2, max_size=5
    ),
)
def test_the_bounds_allow_only_what_fits_and_all_that_fits(devices: str, wanted: list[Wanted]) -> None:
    alone = tuple(max(n for n in range(7) if fits(devices, [each] * n)) for each in wanted)
    mix = mix_of(devices, wanted, alone)
    weights = weights_for([mix], [tuple(count for _, count in wanted)])
    best = best_of(mix, weights) if mix.excluded else None
    for each in product(*(range(count + 1) for count in alone)):
        pods = [one for one, count in zip(wanted, each, strict=True) for _ in range(count)]
        assert is_excluded(mix, each) is not fits(devices, pods)
        if best is not None and weighted(each, weights[best]) <= mix.bound(weights[best]):
            assert not is_excluded(mix, each)
    for some in weights:
        most = max(
            weighted(each, some)
            for each in product(*(range(count + 1) for count in alone))
            if not is_excluded(mix, each)
        )
        assert mix.most(some) == most


def test_a_kind_that_shares_no_devices_counts_nothing() -> None:
    mix = mix_of("xxxxyy", [("x", 1), ("x", 2), ("y", 1)], (4, 2, 2))
    weights = weights_for([mix], [(1, 2, 1)])
    best = best_of(mix, weights)
    assert best is not None
    assert weights[best] == (1, 2, 0)
    assert mix.bound(weights[best]) == 4


def test_of_many_kinds_those_that_share_no_devices_count_nothing() -> None:
    mix = mix_of("xxxxyy", [("x", 1), ("x", 2), ("y", 1), ("x", 1)], (4, 2, 2, 4))
    weights = weights_for([mix], [(1, 2, 1, 1)])
    best = best_of(mix, weights)
    assert best is not None
    assert weights[best] == (1, 2, 0, 1)


def test_what_was_not_tried_is_neither_safe_nor_known_not_to_fit() -> None:
    """Two devices for each pod, so that they are not counted: there are too many combinations to try."""
    wanted = [("xy", 2)] * 8
    alone = (4,) * 8
    mix = mix_of("xxxxyyyy", wanted, alone)
    assert is_excluded(mix, (1,) * 8)
    assert not is_excluded(mix, (1, 1, 0, 0, 0, 0, 0, 0))
    assert is_excluded(mix, (4, 1, 0, 0, 0, 0, 0, 0))
    ones = (1,) * 8
    assert mix.most(ones) is None
    assert all(
        fits("xxxxyyyy", [("xy", 2)] * sum(each))
        for each in product(range(3), repeat=8)
        if sum(each) <= mix.bound(ones)
    )


def test_of_a_node_of_which_nothing_was_tried_one_pod_is_safe() -> None:
    mix = untried((3, 2, 0))
    assert mix.bound((1, 1, 1)) == 1
    assert best_of(mix, [(1, 1, 1)]) is None
    assert mix.most((1, 1, 1)) is None


def test_large_numbers_of_pods_are_counted() -> None:
    mix = mix_of("x" * 200, [("x", 1), ("x", 1)], (200, 200))
    assert mix.bound((1, 1)) == 200
    assert mix.most((1, 1)) == 200
