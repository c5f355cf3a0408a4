"""Volumes and space for whole gangs: brute force decides for small clusters whether a refusal is right."""

from collections.abc import Iterator, Sequence
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.model.api.meta import KubeObject
from phalanx.model.events import Applied

from tests.assumed import assumed
from tests.examples import holds
from tests.model.written import named, node
from tests.plugins.test_static_volumes import World, affinity, claim, gang, user, volume
from tests.plugins.test_storage_capacity import DRIVER, capacity, driver

# --- CSIStorageCapacity -------------------------------------------------------------------------------------

CLASS = named(
    "StorageClass",
    "local",
    provisioner=DRIVER,
    volumeBindingMode="WaitForFirstConsumer",
    allowedTopologies=[],
)
ON_A, ON_B = ({"matchLabels": {"host": host}} for host in "ab")
EVERYWHERE = {"matchExpressions": [{"key": "host", "operator": "Exists"}]}


def spaces(*pools: tuple[object, str]) -> list[KubeObject]:
    """What the driver has left for these nodes."""
    found = [capacity(f"s{i}", nodeTopology=nodes, capacity=size) for i, (nodes, size) in enumerate(pools)]
    return [CLASS, driver(), *found]


@pytest.mark.parametrize(
    ("pools", "fits"),
    [
        ([(ON_A, "30Gi")], True),
        ([(ON_A, "29Gi")], False),
        ([(ON_A, "20Gi"), (ON_B, "10Gi")], True),
        ([(ON_A, "19Gi"), (ON_B, "19Gi")], False),
        ([(EVERYWHERE, "30Gi")], True),
        ([(EVERYWHERE, "29Gi")], False),
        # a node with two pools has both
        ([(EVERYWHERE, "20Gi"), (ON_A, "10Gi")], True),
    ],
)
def test_the_members_of_a_gang_share_the_space(pools: list[tuple[object, str]], *, fits: bool) -> None:
    claims = [claim(f"c{index}") for index in range(3)]
    members = gang("g", [("c0",), ("c1",), ("c2",)])
    assert len(World(*spaces(*pools), *claims, *members, nodes="ab").chosen()) == (3 if fits else 0)


def test_space_is_not_promised_twice() -> None:
    """Neither in one cycle nor while the volume of an assumed pod is being provisioned."""
    made = World(*spaces((ON_A, "15Gi")), claim("x"), claim("y"), user("x", "x"), user("y", "y"), nodes="a")
    assert list(made.chosen()) == ["x"]
    made.cache.apply(assumed("x", "a"))
    assert not made.chosen()
    made.cache.apply(Applied(spaces((ON_A, "20Gi"))[-1]))
    assert list(made.chosen()) == ["y"]


def test_a_driver_that_says_only_the_largest_volume_has_space_for_any_number() -> None:
    largest = capacity("s", nodeTopology=ON_A, maximumVolumeSize="10Gi")
    claims = [claim(f"c{index}") for index in range(3)]
    members = gang("g", [("c0",), ("c1",), ("c2",)])
    made = World(CLASS, driver(), largest, *claims, *members, nodes="ab")
    assert len(made.chosen()) == 3


# --- brute force --------------------------------------------------------------------------------------------

NODES = ("a", "b", "c")
ZONES = {"a": "x", "b": "x", "c": "y"}
PLACES = (*NODES, "x", "y")
"""A volume is for a node, or for a zone."""

_volumes = st.lists(st.tuples(st.sampled_from(PLACES), st.integers(1, 3)), max_size=4)
_members = st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=2), min_size=1, max_size=3)


def _can_mount(place: str, node: str) -> bool:
    return place in (node, ZONES[node])


def _assignments(
    members: Sequence[Sequence[int]], volumes: Sequence[tuple[str, int]]
) -> Iterator[tuple[str, ...]]:
    """All choices of nodes for which some choice of volumes satisfies every claim."""
    claims = [(member, size) for member, sizes in enumerate(members) for size in sizes]
    for nodes in product(NODES, repeat=len(members)):
        for chosen in permutations(volumes, len(claims)):
            pairs = zip(claims, chosen, strict=True)
            if all(
                _can_mount(place, nodes[member]) and has >= size for (member, size), (place, has) in pairs
            ):
                yield nodes
                break


@pytest.mark.slow
@holds(20)
@given(volumes=_volumes, members=_members)
def test_a_gang_starts_exactly_if_some_assignment_exists(
    volumes: list[tuple[str, int]], members: list[list[int]]
) -> None:
    objects: list[KubeObject] = []
    for index, (place, size) in enumerate(volumes):
        key = "zone" if place in ZONES.values() else "host"
        objects.append(volume(f"v{index}", None, f"{size}Gi", nodeAffinity=affinity(key, place)))
    names = [[f"c{member}-{index}" for index in range(len(sizes))] for member, sizes in enumerate(members)]
    for keys, sizes in zip(names, members, strict=True):
        objects += [claim(key, f"{size}Gi") for key, size in zip(keys, sizes, strict=True)]
    objects += gang("g", [tuple(keys) for keys in names])
    made = World(*objects, nodes=())
    made.cache.apply_all(Applied(each) for each in _nodes())
    possible = set(_assignments(members, volumes))
    found = made.chosen()
    mixes = {place in NODES for place, _ in volumes} == {True, False}
    assert bool(found) <= bool(possible)
    if not mixes:
        assert bool(found) == bool(possible)
    if found:
        assert tuple(found[f"g-{index}"][0] for index in range(len(members))) in possible
        taken: set[str] = set()
        for number, (keys, sizes) in enumerate(zip(names, members, strict=True)):
            on, chosen = found[f"g-{number}"]
            for key, wanted in zip(keys, sizes, strict=True):
                place, size = volumes[int(chosen[key].removeprefix("v"))]
                assert _can_mount(place, on)
                assert size >= wanted
                taken.add(chosen[key])
        assert len(taken) == sum(map(len, members))


def _nodes() -> list[KubeObject]:
    return [node(name, labels={"host": name, "zone": zone}) for name, zone in ZONES.items()]
