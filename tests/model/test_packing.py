"""Pods that ask for one device each, on whole devices and in shares: exactly those fit that trial finds."""

from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from phalanx.model.devices.limits import PACKED_ROWS_MAX
from phalanx.model.devices.packing import Packing, packing

from tests.examples import holds
from tests.model.devices import CLASSES, MATCHER, device, place, request, slice_of, spec_of
from tests.model.shares import asks, shared, use

TWO_SLICES = {"name": "n", "resourceSliceCount": 2}

Device = tuple[int, bool]
"""Its memory, and whether it is allocated in shares."""


def published(devices: list[Device]) -> list[dict[str, Any]]:
    return [
        shared(f"d{at}", memory=memory)
        if in_shares
        else {**device(f"d{at}"), "capacity": {"memory": {"value": str(memory)}}}
        for at, (memory, in_shares) in enumerate(devices)
    ]


def packed(devices: list[Device], sizes: list[int], most: tuple[int, ...], **more: Any) -> Packing:
    requests = [spec_of(request(**asks(memory=each))).requests[0][0] for each in sizes]
    where = place(slice_of(*published(devices)), **more)
    found = packing(where, requests, most, len(most) - 1, classes=CLASSES, matcher=MATCHER)
    assert found is not None
    return found


def fits(devices: list[Device], pods: list[int]) -> bool:
    """By trial: each pod gets a device, and the capacity of none is exceeded."""
    for where in product(range(len(devices)), repeat=len(pods)):
        on = [
            [pod for pod, at in zip(pods, where, strict=True) if at == index] for index in range(len(devices))
        ]
        if all(
            sum(some) <= memory and (in_shares or len(some) <= 1)
            for (memory, in_shares), some in zip(devices, on, strict=True)
        ):
            return True
    return False


def first_fit(devices: list[Device], pods: list[int]) -> bool:
    """Whether each pod in turn gets the first device that suffices."""
    left = list(devices)
    for pod in pods:
        at = next((at for at, (memory, _) in enumerate(left) if memory >= pod), None)
        if at is None:
            return False
        memory, in_shares = left[at]
        left[at] = (memory - pod if in_shares else 0, in_shares)
    return True


@holds(25)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=3),
    st.lists(st.integers(1, 6), min_size=2, max_size=3, unique=True),
    st.lists(st.integers(0, 2), min_size=3, max_size=3),
)
def test_all_pods_that_fit_can_be_served(devices: list[Device], sizes: list[int], counts: list[int]) -> None:
    pods = tuple(counts[: len(sizes)])
    found = packed(devices, sizes, (3,) * len(sizes))
    wanted = [size for size, count in zip(sizes, pods, strict=True) for _ in range(count)]
    order = found.order(pods)
    assert (order is not None) is fits(devices, wanted)
    assert (found.beside(pods) >= pods[-1]) is fits(devices, wanted)
    if order is not None:
        assert sorted(sizes[kind] for kind in order) == sorted(wanted)
        assert first_fit(devices, [sizes[kind] for kind in order])


def test_shares_in_use_are_not_free() -> None:
    used = frozenset({use("d0", "a", memory=5)})
    found = packed([(9, True), (2, True)], [2, 3], (3, 3), in_use=used)
    assert [found.beside((count, 0)) for count in range(4)] == [1, 1, 0, 0]
    assert found.order((3, 0)) is not None
    assert found.order((2, 1)) is None


def test_devices_with_counters_are_not_counted() -> None:
    one = {"counters": {"m": {"value": "1"}}}
    some = slice_of(device("d0") | {"consumesCounters": [{"counterSet": "c", **one}]}, pool=TWO_SLICES)
    sets = slice_of(name="counters", pool=TWO_SLICES, sharedCounters=[{"name": "c", **one}])
    requests = [spec_of(request()).requests[0][0]] * 2
    assert packing(place(some, sets), requests, (1, 1), 0, classes=CLASSES, matcher=MATCHER) is None


def test_devices_without_a_value_for_a_selector_are_not_counted() -> None:
    one = spec_of(request("r", 'device.attributes["gpu.example.com"].size == "big"')).requests[0][0]
    assert (
        packing(place(slice_of(device("d0"))), [one, one], (1, 1), 0, classes=CLASSES, matcher=MATCHER)
        is None
    )


def test_too_many_numbers_of_pods_are_not_counted() -> None:
    requests = [spec_of(request()).requests[0][0]] * 3
    most = (PACKED_ROWS_MAX, 1, PACKED_ROWS_MAX)
    assert packing(place(slice_of(device("d0"))), requests, most, 0, classes=CLASSES, matcher=MATCHER) is None


def test_pods_are_served_in_the_order_of_the_devices_on_which_they_fit() -> None:
    """If the large one came first, it would get a part of the device that the others share."""
    devices = [(6, True), (4, False)]
    order = packed(devices, [3, 4], (2, 1)).order((2, 1))
    assert order is not None
    assert first_fit(devices, [[3, 4][kind] for kind in order])
    assert not first_fit(devices, [4, 3, 3])
