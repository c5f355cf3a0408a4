"""NUMA zones: what is counted holds for every choice that a kubelet could make; of one size it is exact."""

from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from phalanx.limits import NUMA_DISPLACED_MAX
from phalanx.model.nodes import Amounts, Numa, ZoneLayout
from phalanx.model.numa import (
    ZoneCapacity,
    as_running_resource,
    capacity_when_empty,
    displaced,
    is_numa_resource,
    largest_zone_request,
    numa_request,
    zone_requests,
)
from phalanx.model.resources import CPU, GPU, Resources

from tests.builders import aligned, numa

Zones = tuple[tuple[int, ...], ...]
"""Free cpu and devices of each zone."""

Pod = tuple[tuple[int, ...], ...]
"""Cpu and devices of each of its containers."""


# --- the kubelet, by trying everything ----------------------------------------------------------------------


def outcomes(zones: Zones, containers: Sequence[tuple[int, ...]]) -> Iterator[Zones | None]:
    """Each state of the zones after a kubelet took a pod, whatever zones it chose; None: it rejected it."""
    if not containers:
        yield zones
        return
    size, *rest = containers
    fits = [index for index, zone in enumerate(zones) if all(a >= b for a, b in zip(zone, size, strict=True))]
    if not fits:
        yield None
    for index in fits:
        left = tuple(a - b for a, b in zip(zones[index], size, strict=True))
        yield from outcomes((*zones[:index], left, *zones[index + 1 :]), rest)


def may_reject(zones: Zones, pods: tuple[Pod, ...], known: dict[tuple[Zones, tuple[Pod, ...]], bool]) -> bool:
    """Whether some order of these pods and some choice of zones ends with a rejection."""
    zones, pods = tuple(sorted(zones)), tuple(sorted(pods))
    if (zones, pods) not in known:
        known[zones, pods] = any(
            after is None or may_reject(after, (*pods[:index], *pods[index + 1 :]), known)
            for index, pod in enumerate(pods)
            for after in outcomes(zones, pod)
        )
    return known[zones, pods]


def named(pod: Pod) -> str:
    return aligned(*({name: n for name, n in zip((CPU, GPU), size, strict=True) if n} for size in pod))


def whole(pod: Pod) -> Pod:
    """As the kubelet sees it that aligns pods, not containers."""
    return (tuple(sum(column) for column in zip(*pod, strict=True)),)


def amounts(zone: tuple[int, ...]) -> Resources:
    return dict(zip((CPU, GPU), zone, strict=True))


sizes = st.tuples(st.integers(0, 4), st.integers(0, 3)).filter(any)
zone_lists = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4)), min_size=1, max_size=3).map(tuple)
pod_kinds = st.lists(sizes, min_size=1, max_size=2).map(tuple)


@settings(max_examples=150, deadline=None)
@given(zone_lists, pod_kinds, st.booleans())
def test_as_many_of_a_kind_as_are_counted_are_never_rejected(
    zones: Zones, pod: Pod, by_container: bool
) -> None:
    count = capacity_when_empty(layout(*map(amounts, zones), by_container=by_container), named(pod))
    assert count is not None
    seen = pod if by_container else whole(pod)
    assert not may_reject(zones, (seen,) * min(count, 5), {})
    if len(seen) == 1 and count < 5:
        assert may_reject(zones, (seen,) * (count + 1), {}), "one size is counted exactly"


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(
    zone_lists,
    st.lists(st.tuples(pod_kinds, st.integers(0, 2)), max_size=3),
    st.lists(pod_kinds, max_size=2),
    st.lists(pod_kinds, min_size=1, max_size=3),
    st.booleans(),
    st.data(),
)
def test_what_is_taken_finds_zones_whatever_the_kubelet_did_and_does(
    zones: Zones,
    running: list[tuple[Pod, int]],
    coming: list[Pod],
    added: list[Pod],
    by_container: bool,
    data: st.DataObject,
) -> None:
    """Running pods lie anywhere, some are published; what comes and what is added is never rejected."""
    left: Zones = zones
    published: Zones = zones
    free: dict[str, int] = {}
    for pod, seen in running:
        choices = [
            after for after in outcomes(left, pod if by_container else whole(pod)) if after is not None
        ]
        assume(choices)
        before, left = left, data.draw(st.sampled_from(choices))
        if seen:
            published = tuple(
                tuple(p - (b - a) for p, b, a in zip(*each, strict=True))
                for each in zip(published, before, left, strict=True)
            )
        free[as_running_resource(named(pod))] = free.get(as_running_resource(named(pod)), 0) - 1
    pending = [pod if by_container else whole(pod) for pod in coming]
    assume(not may_reject(left, tuple(pending), {}))
    for pod in coming:
        free[named(pod)] = free.get(named(pod), 0) - 1
    room = ZoneCapacity(
        numa(*map(amounts, zones), free=[*map(amounts, published)], by_container=by_container), free
    )
    counts: dict[str, int] = {}
    for pod in added:
        counts[named(pod)] = counts.get(named(pod), 0) + 1
    if room.fits(counts):
        new = [pod if by_container else whole(pod) for pod in added]
        assert not may_reject(left, (*pending, *new), {})


# --- by hand ------------------------------------------------------------------------------------------------

HALF: Mapping[str, int] = {CPU: 32000, GPU: 4}
FOUR = aligned({CPU: 16000, GPU: 4})
ONE = aligned({CPU: 4000, GPU: 1})


def layout(*zones: Resources, by_container: bool = False) -> ZoneLayout:
    return numa(*zones, by_container=by_container).layout


EVEN = layout(HALF, HALF)


def test_names_say_what_must_lie_in_one_zone() -> None:
    name = aligned({CPU: 1000, GPU: 2}, {CPU: 1000})
    assert is_numa_resource(name)
    assert is_numa_resource(as_running_resource(name))
    assert "/" not in name
    assert numa_request(name) == numa_request(as_running_resource(name))
    assert numa_request(name).pod == ((CPU, 2000), (GPU, 2))
    assert not is_numa_resource(GPU)


@pytest.mark.parametrize(
    ("size", "count"), [({GPU: 4}, 2), ({GPU: 3}, 2), ({GPU: 2}, 4), ({GPU: 5}, 0), ({CPU: 20000, GPU: 1}, 2)]
)
def test_places_are_those_of_each_zone_added_up(size: Resources, count: int) -> None:
    assert capacity_when_empty(layout(HALF, HALF), aligned(size)) == count


def test_what_no_zone_lists_needs_none() -> None:
    assert capacity_when_empty(layout({CPU: 1000}), aligned({GPU: 8})) is None
    assert capacity_when_empty(layout({CPU: 1000}, {GPU: 1}), aligned({CPU: 1000, GPU: 1})) == 0


def test_a_container_beside_the_main_one_costs_little_where_zones_have_room_to_spare() -> None:
    pod = aligned({CPU: 16000, GPU: 4}, {CPU: 1000})
    assert capacity_when_empty(layout(HALF, HALF, by_container=True), pod) == 2
    tight = {CPU: 16000, GPU: 4}
    assert capacity_when_empty(layout(tight, tight, by_container=True), pod) == 1


def running(**counts: int) -> dict[str, int]:
    return {as_running_resource({"one": ONE, "four": FOUR}[name]): -count for name, count in counts.items()}


def test_running_pods_of_unknown_zones_cost_what_they_could() -> None:
    room = ZoneCapacity(numa(HALF, HALF), running(one=2))
    assert room.max_additional(FOUR, (FOUR,)) == 0
    assert room.max_additional(ONE, (ONE,)) == 6


def test_published_zones_tell_where_running_pods_are() -> None:
    half = numa(HALF, HALF, free=[{CPU: 24000, GPU: 2}, HALF])
    assert ZoneCapacity(half, running(one=2)).max_additional(FOUR, (FOUR,)) == 1


def test_what_runs_beyond_what_is_published_may_be_anywhere() -> None:
    half = numa(HALF, HALF, free=[{CPU: 24000, GPU: 2}, HALF])
    assert ZoneCapacity(half, running(one=3)).max_additional(FOUR, (FOUR,)) == 0


def test_what_is_published_of_pods_that_ended_takes_no_more_than_what_runs() -> None:
    empty: Resources = {CPU: 0, GPU: 0}
    half = numa(HALF, HALF, free=[empty, empty])
    assert ZoneCapacity(half, running(four=1)).max_additional(FOUR, (FOUR,)) == 1


def test_pods_without_a_zone_yet_keep_theirs() -> None:
    """Small pods that come first could take both zones, so that the large one finds none."""
    room = ZoneCapacity(numa(HALF, HALF), {FOUR: -1})
    assert room.max_additional(ONE, (ONE,)) == 1
    assert room.fits({ONE: 1})
    assert not room.fits({ONE: 2})
    assert room.keeps_zone(FOUR)
    assert not ZoneCapacity(numa(HALF, HALF), {FOUR: -3}).keeps_zone(FOUR)


def test_kinds_that_are_added_together_share_what_they_leave_to_those_that_come() -> None:
    two = aligned({CPU: 8000, GPU: 2})
    room = ZoneCapacity(numa(HALF, HALF), {FOUR: -1})
    assert room.max_additional(ONE, (ONE,)) == room.max_additional(two, (two,)) == 1
    assert room.max_additional(ONE, (ONE, two)) == room.max_additional(two, (ONE, two)) == 0


def test_each_container_of_a_pod_may_lie_in_a_zone_of_its_own() -> None:
    pair = aligned({GPU: 1}, {GPU: 1})
    assert displaced(layout(HALF, HALF, by_container=True), FOUR, pair) == 2
    by_container = ZoneCapacity(numa(HALF, HALF, by_container=True), {as_running_resource(pair): -1})
    assert by_container.max_additional(FOUR, (FOUR,)) == 0
    assert ZoneCapacity(numa(HALF, HALF), {as_running_resource(pair): -1}).max_additional(FOUR, (FOUR,)) == 1


def test_several_kinds_share_what_they_could_spoil() -> None:
    room = ZoneCapacity(numa(HALF, HALF), {})
    assert room.max_additional(FOUR, (FOUR, ONE)) == room.max_displaced(FOUR) == 2
    assert room.max_displaced(aligned({GPU: 5})) is None, "none fits: nothing to spoil"
    assert displaced(EVEN, FOUR, ONE) == 1
    assert displaced(EVEN, ONE, FOUR) == 4
    assert room.fits({FOUR: 1, ONE: 1})
    assert not room.fits({FOUR: 1, ONE: 2})


def restricted(**bound: int) -> ZoneLayout:
    half: Amounts = tuple(sorted(HALF.items()))
    limits = tuple(sorted({CPU: bound["cpu"], GPU: 4}.items()))
    return ZoneLayout(zones=(half, half), bound=limits, by_container=False)


def test_what_no_zone_could_hold_may_span_where_the_kubelet_is_only_restricted() -> None:
    zones, wide = restricted(cpu=32000), aligned({CPU: 48000, GPU: 2})
    assert zone_requests(zones, wide) == ((((GPU, 2),), 1),)
    assert displaced(zones, ONE, wide) == NUMA_DISPLACED_MAX
    assert largest_zone_request(zones, wide) == {GPU: 2}
    assert capacity_when_empty(zones, wide) == 4, "the node's own cores are counted elsewhere"
    assert capacity_when_empty(layout(HALF, HALF), wide) == 0


def test_what_spans_zones_may_spoil_every_place() -> None:
    zones = restricted(cpu=32000)
    room = ZoneCapacity(Numa(zones, zones.zones, ()), {aligned({CPU: 48000}): -1})
    assert room.max_additional(ONE, (ONE,)) == 0


def test_a_kubelet_counts_cores_that_pods_never_get_when_it_asks_whether_a_zone_could_do() -> None:
    """So a pod between both is bound to one zone, and finds none."""
    assert capacity_when_empty(restricted(cpu=34000), aligned({CPU: 33000})) == 0


def test_absurd_numbers_of_places_are_no_matter() -> None:
    assert (
        capacity_when_empty(layout({CPU: 2**62}, {CPU: 2**62}), aligned({CPU: 1})) == NUMA_DISPLACED_MAX - 1
    )
