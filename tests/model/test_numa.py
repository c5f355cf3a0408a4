"""NUMA zones: counts are valid for every choice of the kubelet, and exact for pods of one size."""

from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from phalanx.limits import NUMA_DISPLACED_MAX
from phalanx.model.nodes import Amounts, Numa, ZoneLayout
from phalanx.model.resources import CPU, GPU, Resources
from phalanx.model.supplies.numa.zones import (
    ZoneCapacity,
    as_running_resource,
    capacity_when_empty,
    displaced,
    is_numa_resource,
    largest_zone_request,
    numa_request,
    zone_requests,
)

from tests.builders import aligned, numa
from tests.examples import holds

Zones = tuple[tuple[int, ...], ...]
"""Free cpu and devices of each zone."""

Pod = tuple[tuple[int, ...], ...]
"""Cpu and devices of each of its containers."""


# --- the kubelet by exhaustive search -----------------------------------------------------------------------


def outcomes(zones: Zones, containers: Sequence[tuple[int, ...]]) -> Iterator[Zones | None]:
    """Yield the zones after the kubelet admitted a pod, for each choice of zones; None for a rejection."""
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
    """The pod as one request, as a kubelet with pod scope aligns it."""
    return (tuple(sum(column) for column in zip(*pod, strict=True)),)


def amounts(zone: tuple[int, ...]) -> Resources:
    return dict(zip((CPU, GPU), zone, strict=True))


sizes = st.tuples(st.integers(0, 4), st.integers(0, 3)).filter(any)
zone_lists = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4)), min_size=1, max_size=3).map(tuple)
pod_kinds = st.lists(sizes, min_size=1, max_size=2).map(tuple)


@holds(150)
@given(zone_lists, pod_kinds, st.booleans())
def test_counted_pods_of_one_kind_are_never_rejected(zones: Zones, pod: Pod, by_container: bool) -> None:
    count = capacity_when_empty(layout(*map(amounts, zones), by_container=by_container), named(pod))
    assert count is not None
    seen = pod if by_container else whole(pod)
    assert not may_reject(zones, (seen,) * min(count, 5), {})
    if len(seen) == 1 and count < 5:
        assert may_reject(zones, (seen,) * (count + 1), {}), "one size is counted exactly"


@holds(50, suppress_health_check=[HealthCheck.filter_too_much])
@given(
    zone_lists,
    st.lists(st.tuples(pod_kinds, st.integers(0, 2)), max_size=3),
    st.lists(pod_kinds, max_size=2),
    st.lists(pod_kinds, min_size=1, max_size=3),
    st.booleans(),
    st.data(),
)
def test_placed_pods_are_never_rejected_for_any_choice_of_the_kubelet(
    zones: Zones,
    running: list[tuple[Pod, int]],
    incoming: list[Pod],
    added: list[Pod],
    by_container: bool,
    data: st.DataObject,
) -> None:
    """Running pods use any zones, some are published; pending and added pods are never rejected."""
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
    pending = [pod if by_container else whole(pod) for pod in incoming]
    assume(not may_reject(left, tuple(pending), {}))
    for pod in incoming:
        free[named(pod)] = free.get(named(pod), 0) - 1
    capacity = ZoneCapacity(
        numa(*map(amounts, zones), free=[*map(amounts, published)], by_container=by_container), free
    )
    counts: dict[str, int] = {}
    for pod in added:
        counts[named(pod)] = counts.get(named(pod), 0) + 1
    if capacity.fits(counts):
        new = [pod if by_container else whole(pod) for pod in added]
        assert not may_reject(left, (*pending, *new), {})


# --- by hand ------------------------------------------------------------------------------------------------

HALF: Mapping[str, int] = {CPU: 32000, GPU: 4}
FOUR = aligned({CPU: 16000, GPU: 4})
ONE = aligned({CPU: 4000, GPU: 1})


def layout(*zones: Resources, by_container: bool = False) -> ZoneLayout:
    return numa(*zones, by_container=by_container).layout


EVEN = layout(HALF, HALF)


def test_a_numa_resource_name_encodes_the_request_of_one_zone() -> None:
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
def test_capacity_is_the_sum_over_zones(size: Resources, count: int) -> None:
    assert capacity_when_empty(layout(HALF, HALF), aligned(size)) == count


def test_a_resource_that_no_zone_lists_is_not_aligned() -> None:
    assert capacity_when_empty(layout({CPU: 1000}), aligned({GPU: 8})) is None
    assert capacity_when_empty(layout({CPU: 1000}, {GPU: 1}), aligned({CPU: 1000, GPU: 1})) == 0


def test_a_small_sidecar_costs_no_capacity_when_zones_have_free_cpu() -> None:
    pod = aligned({CPU: 16000, GPU: 4}, {CPU: 1000})
    assert capacity_when_empty(layout(HALF, HALF, by_container=True), pod) == 2
    tight = {CPU: 16000, GPU: 4}
    assert capacity_when_empty(layout(tight, tight, by_container=True), pod) == 1


def running(**counts: int) -> dict[str, int]:
    return {as_running_resource({"one": ONE, "four": FOUR}[name]): -count for name, count in counts.items()}


def test_running_pods_in_unknown_zones_count_as_the_worst_case() -> None:
    capacity = ZoneCapacity(numa(HALF, HALF), running(one=2))
    assert capacity.max_additional(FOUR, (FOUR,)) == 0
    assert capacity.max_additional(ONE, (ONE,)) == 6


def test_published_zones_locate_running_pods() -> None:
    half = numa(HALF, HALF, free=[{CPU: 24000, GPU: 2}, HALF])
    assert ZoneCapacity(half, running(one=2)).max_additional(FOUR, (FOUR,)) == 1


def test_running_pods_that_are_not_published_may_use_any_zone() -> None:
    half = numa(HALF, HALF, free=[{CPU: 24000, GPU: 2}, HALF])
    assert ZoneCapacity(half, running(one=3)).max_additional(FOUR, (FOUR,)) == 0


def test_published_usage_of_ended_pods_is_ignored() -> None:
    empty: Resources = {CPU: 0, GPU: 0}
    half = numa(HALF, HALF, free=[empty, empty])
    assert ZoneCapacity(half, running(four=1)).max_additional(FOUR, (FOUR,)) == 1


def test_capacity_of_a_zone_is_kept_for_pods_that_have_none_yet() -> None:
    """Small pods that start first could use both zones, so that the large pod fits into none."""
    capacity = ZoneCapacity(numa(HALF, HALF), {FOUR: -1})
    assert capacity.max_additional(ONE, (ONE,)) == 1
    assert capacity.fits({ONE: 1})
    assert not capacity.fits({ONE: 2})
    assert capacity.keeps_zone(FOUR)
    assert not ZoneCapacity(numa(HALF, HALF), {FOUR: -3}).keeps_zone(FOUR)


def test_kinds_added_together_share_the_capacity_beside_pending_pods() -> None:
    two = aligned({CPU: 8000, GPU: 2})
    capacity = ZoneCapacity(numa(HALF, HALF), {FOUR: -1})
    assert capacity.max_additional(ONE, (ONE,)) == capacity.max_additional(two, (two,)) == 1
    assert capacity.max_additional(ONE, (ONE, two)) == capacity.max_additional(two, (ONE, two)) == 0


def test_each_container_of_a_pod_may_use_a_separate_zone() -> None:
    pair = aligned({GPU: 1}, {GPU: 1})
    assert displaced(layout(HALF, HALF, by_container=True), FOUR, pair) == 2
    by_container = ZoneCapacity(numa(HALF, HALF, by_container=True), {as_running_resource(pair): -1})
    assert by_container.max_additional(FOUR, (FOUR,)) == 0
    assert ZoneCapacity(numa(HALF, HALF), {as_running_resource(pair): -1}).max_additional(FOUR, (FOUR,)) == 1


def test_several_kinds_share_the_capacity_that_they_could_displace() -> None:
    capacity = ZoneCapacity(numa(HALF, HALF), {})
    assert capacity.max_additional(FOUR, (FOUR, ONE)) == capacity.max_displaced(FOUR) == 2
    assert capacity.max_displaced(aligned({GPU: 5})) is None, "none fits, so nothing can be displaced"
    assert displaced(EVEN, FOUR, ONE) == 1
    assert displaced(EVEN, ONE, FOUR) == 4
    assert capacity.fits({FOUR: 1, ONE: 1})
    assert not capacity.fits({FOUR: 1, ONE: 2})


def restricted(**bound: int) -> ZoneLayout:
    half: Amounts = tuple(sorted(HALF.items()))
    limits = tuple(sorted({CPU: bound["cpu"], GPU: 4}.items()))
    return ZoneLayout(zones=(half, half), bound=limits, by_container=False)


def test_pods_larger_than_a_zone_may_span_zones_under_the_restricted_policy() -> None:
    zones, wide = restricted(cpu=32000), aligned({CPU: 48000, GPU: 2})
    assert zone_requests(zones, wide) == ((((GPU, 2),), 1),)
    assert displaced(zones, ONE, wide) == NUMA_DISPLACED_MAX
    assert largest_zone_request(zones, wide) == {GPU: 2}
    assert capacity_when_empty(zones, wide) == 4, "the cores of the node are counted elsewhere"
    assert capacity_when_empty(layout(HALF, HALF), wide) == 0


def test_a_pod_that_spans_zones_may_displace_all_capacity() -> None:
    zones = restricted(cpu=32000)
    capacity = ZoneCapacity(Numa(zones, zones.zones, ()), {aligned({CPU: 48000}): -1})
    assert capacity.max_additional(ONE, (ONE,)) == 0


def test_the_restricted_policy_compares_with_the_capacity_of_a_zone_and_not_with_allocatable() -> None:
    """A pod between both amounts must be aligned to one zone, and fits into none."""
    assert capacity_when_empty(restricted(cpu=34000), aligned({CPU: 33000})) == 0


def test_very_large_zone_capacity_is_capped() -> None:
    assert (
        capacity_when_empty(layout({CPU: 2**62}, {CPU: 2**62}), aligned({CPU: 1})) == NUMA_DISPLACED_MAX - 1
    )
