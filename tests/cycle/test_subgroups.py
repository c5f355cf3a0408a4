"""Gangs with subgroups in whole cycles: each subgroup keeps its constraint, and none starts partly."""

from collections import Counter
from itertools import combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied
from phalanx.cycle import decide
from phalanx.framework.config import SchedulerConfig
from phalanx.model.api.pod_groups import PodGroup
from phalanx.model.memory import Memory
from phalanx.model.snapshot import Level, Topology

from tests.examples import holds
from tests.model.written import label, node, pod, pod_group

RACKS = {"": Topology("", (Level("rack", "rack"),))}


class Part(Struct, frozen=True):
    """A subgroup of `count` members that must share a rack, or be placed in whole segments per rack."""

    name: str
    count: int
    segment: int


@st.composite
def parts(draw: st.DrawFn) -> list[Part]:
    """Two subgroups."""
    found = []
    for name in ("left", "right"):
        segment = draw(st.sampled_from((0, 0, 2)))
        found.append(Part(name, draw(st.integers(1, 3)) * max(segment, 1), segment))
    return found


@holds(70)
@given(st.lists(st.integers(0, 6), min_size=2, max_size=8), parts())
def test_subgroups_keep_their_constraints_and_start_together(cores: list[int], gang: list[Part]) -> None:
    """Two nodes per rack; `cores`: the free cores of each node; one core per member."""
    where = placed(cores, gang)
    racks = [sum(cores[start : start + 2]) for start in range(0, len(cores), 2)]
    assert len(where) == (sum(part.count for part in gang) if fits(gang, racks) else 0)
    for part in gang if where else ():
        used = Counter(int(where[f"{part.name}-{index}"][1:]) // 2 for index in range(part.count))
        if part.segment:
            assert all(count % part.segment == 0 for count in used.values())
        else:
            assert len(used) == 1


def placed(cores: list[int], gang: list[Part]) -> dict[str, str]:
    """The node of each pod that one cycle binds."""
    cache = Cache(scheduler_name="phalanx")
    for index, free in enumerate(cores):
        status = {"allocatable": {"cpu": str(free), "pods": "20"}}
        cache.apply(Applied(node(f"n{index}", labels={"rack": f"r{index // 2}"}, status=status)))
    total = sum(part.count for part in gang)
    cache.apply(Applied(pod_group("g", minMember=total, subGroups=[spec(part) for part in gang])))
    for part in gang:
        labels = {label("pod-group"): "g", label("subgroup"): part.name}
        for name in (f"{part.name}-{index}" for index in range(part.count)):
            cache.apply(Applied(pod(name, uid=name, requests={"cpu": 1}, labels=labels)))
    snapshot = replace(cache.snapshot(now=0, seed=0, memory=Memory()), topologies=RACKS)
    placements = decide(snapshot, SchedulerConfig()).placements
    return {bind.name: bind.node for placement in placements for bind in placement.binds}


def spec(part: Part) -> dict[str, Any]:
    """The subgroup as its PodGroup declares it."""
    found = {"name": part.name, "minMember": part.count, "topology": {"required": "rack"}}
    return {**found, "segmentSize": part.segment} if part.segment else found


def fits(gang: list[Part], racks: list[int]) -> bool:
    """Whether some division of the subgroups over racks keeps all constraints: all divisions are tried."""
    if not gang:
        return True
    part, rest = gang[0], gang[1:]
    if part.segment:
        return any(fits(rest, left) for left in cuts(racks, part.count, part.segment))
    return any(
        fits(rest, [*racks[:index], free - part.count, *racks[index + 1 :]])
        for index, free in enumerate(racks)
        if free >= part.count
    )


def cuts(racks: list[int], count: int, segment: int) -> list[list[int]]:
    """The free capacity of the racks after each way to place whole segments in them."""
    if not racks:
        return [] if count else [[]]
    return [
        [racks[0] - taken, *left]
        for taken in range(0, min(count, racks[0]) + 1, segment)
        for left in cuts(racks[1:], count - taken, segment)
    ]


@holds(110)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=5),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(1, 4),
    st.integers(0, 2),
    st.booleans(),
)
def test_some_subgroups_start_and_the_others_are_placed_whole(
    cores: list[int], sizes: list[int], least: int, more: int, in_a_rack: bool
) -> None:
    """Racks of one node; each subgroup requires one rack, or cores anywhere, one core per member."""
    least = min(least, len(sizes))
    minimum = sum(sorted(sizes)[:least]) + more
    topology = {"topology": {"required": "rack"}} if in_a_rack else {}
    specs = [{"name": f"s{i}", "minMember": size, **topology} for i, size in enumerate(sizes)]
    group = pod_group("g", minMember=minimum, minSubGroups=least, subGroups=specs)
    whole = cycles(cores, sizes, group)
    assert all(count in (0, size) for count, size in zip(whole, sizes, strict=True))
    started = [size for count, size in zip(whole, sizes, strict=True) if count]
    assert not started or (len(started) >= least and sum(started) >= minimum)
    could = [
        chosen
        for count in range(least, len(sizes) + 1)
        for chosen in combinations(sizes, count)
        if sum(chosen) >= minimum and packs(list(chosen), cores, in_a_rack=in_a_rack)
    ]
    assert could or not started
    assert started or not could or more
    if started and not in_a_rack:
        left = sum(cores) - sum(started)
        assert all(size > left for count, size in zip(whole, sizes, strict=True) if not count)


def packs(sizes: list[int], cores: list[int], *, in_a_rack: bool) -> bool:
    """Whether all of them fit at once: every assignment is tried."""
    if not in_a_rack:
        return sum(sizes) <= sum(cores)
    if not sizes:
        return True
    return any(
        packs(sizes[1:], [*cores[:rack], free - sizes[0], *cores[rack + 1 :]], in_a_rack=True)
        for rack, free in enumerate(cores)
        if free >= sizes[0]
    )


def cycles(cores: list[int], sizes: list[int], group: PodGroup) -> list[int]:
    """How many pods of each subgroup have nodes once a cycle places nothing more."""
    cache = Cache(scheduler_name="phalanx")
    for index, free in enumerate(cores):
        status = {"allocatable": {"cpu": str(free), "pods": "20"}}
        cache.apply(Applied(node(f"n{index}", labels={"rack": f"r{index}"}, status=status)))
    cache.apply(Applied(group))
    parts_of = {f"s{i}-{index}": f"s{i}" for i, size in enumerate(sizes) for index in range(size)}
    pods = {
        name: {"uid": name, "labels": {label("pod-group"): "g", label("subgroup"): part}}
        for name, part in parts_of.items()
    }
    for name, fields in pods.items():
        cache.apply(Applied(pod(name, requests={"cpu": 1}, **fields)))
    placed: Counter[str] = Counter()
    while True:
        snapshot = replace(cache.snapshot(now=0, seed=0, memory=Memory()), topologies=RACKS)
        placements = decide(snapshot, SchedulerConfig()).placements
        if not placements:
            return [placed[f"s{i}"] for i in range(len(sizes))]
        for bind in (bind for placement in placements for bind in placement.binds):
            fields = pods.pop(bind.name)
            placed[parts_of[bind.name]] += 1
            bound = {"nodeName": bind.node, "status": {"phase": "Running"}}
            cache.apply(Applied(pod(bind.name, requests={"cpu": 1}, **fields, **bound)))
