"""On random small clusters: no gang gets devices that a lost member needs, and its replacement gets some.

The oracle packs lost members into what is free of each node. It reads only the objects of the API.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.actions.test_device_limits import CLASSES, claiming, exactly
from tests.actions.test_extended_resources import node, slice_on
from tests.actions.test_held_devices import Story, replacement, running
from tests.examples import holds

NODES = "abc"


def can_pack(sizes: Sequence[int], free: dict[str, int]) -> bool:
    """Whether so many devices of one node each can be had together."""
    if not sizes:
        return True
    first, *rest = sorted(sizes, reverse=True)
    choices = [name for name, count in free.items() if count >= first]
    return any(can_pack(rest, {**free, name: free[name] - first}) for name in choices)


class Cluster:
    """Devices by node, and who has them, as the API shows it."""

    def __init__(self, counts: Sequence[int]) -> None:
        self.devices = {
            name: [f"{name}{n}" for n in range(count)] for name, count in zip(NODES, counts, strict=False)
        }
        self.used: dict[str, list[str]] = {}
        """By pod, its devices."""

    def free(self) -> dict[str, int]:
        taken = self.in_use()
        return {name: len(set(some) - taken) for name, some in self.devices.items()}

    def in_use(self) -> set[str]:
        return {device for some in self.used.values() for device in some}

    def give(self, pod: str, count: int) -> bool:
        """The pod runs on the first node with so many free devices."""
        taken = self.in_use()
        for some in self.devices.values():
            left = [each for each in some if each not in taken]
            if len(left) >= count:
                self.used[pod] = left[:count]
                return True
        return False

    def slices(self) -> Iterator[Any]:
        for name, some in self.devices.items():
            yield slice_on(name, *some)


def started(cluster: Cluster, sizes: Sequence[int]) -> list[int]:
    """The sizes of the members of gang g that fit."""
    return [size for size in sizes if cluster.give(f"g-{len(cluster.used)}", size)]


def bind_all(cluster: Cluster, story: Story) -> list[str]:
    """One cycle; the API then shows what it placed."""
    found = []
    for bind in story.place():
        given = [each for grant in bind.grants if grant.allocation for each in grant.allocation.devices]
        cluster.used[bind.name] = [each.device[2] for each in given]
        found.append(bind.name)
    return found


@holds(25)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.integers(1, 2), min_size=2, max_size=4),
    st.sets(st.integers(0, 3), min_size=1),
    st.lists(st.tuples(st.integers(1, 2), st.integers(1, 3)), max_size=4),
    st.integers(0, 2),
    st.booleans(),
)
def test_lost_members_keep_devices(
    counts: list[int],
    wanted: list[int],
    losing: set[int],
    others: list[tuple[int, int]],
    broken: int,
    is_restarted: bool,
) -> None:
    """Members of gang g with different claims are lost, devices break, and other gangs come.

    With claims of three sizes not all of them may be held although all would fit: 3, 2 and 1 on 2, 4 and 0.
    """
    cluster = Cluster(counts)
    sizes = started(cluster, wanted)
    lost = [index for index in range(len(sizes)) if index in losing]
    if not lost or len(lost) == len(sizes):
        return
    where = [" ".join(cluster.used[f"g-{index}"]) for index in range(len(sizes))]
    story = Story(*CLASSES, *map(node, cluster.devices), *cluster.slices(), *running("g", *where))
    story.decide()
    for index in lost:
        story.loses(f"g-{index}")
        del cluster.used[f"g-{index}"]
    for some in [some for some in cluster.devices.values() if len(some) > 1][:broken]:
        gone = next((each for each in reversed(some) if each not in cluster.in_use()), None)
        if gone is not None:
            some.remove(gone)
    story.apply(*cluster.slices())
    if is_restarted and len({*sizes}) == 1:
        story.memory = type(story.memory)()
    needs = [sizes[index] for index in lost]
    is_possible = can_pack(needs, cluster.free())
    for number, (size, count) in enumerate(others):
        story.apply(*claiming(f"h{number}", size, exactly(count), queue="default"))
        bind_all(cluster, story)
        assert not is_possible or can_pack(needs, cluster.free())
    for index in lost:
        story.apply(*replacement("g", index + 10, exactly(sizes[index])))
    placed = bind_all(cluster, story)
    back = {f"g-{index + 10}" for index in lost}
    assert not is_possible or back <= {*placed}
    taken = [device for some in cluster.used.values() for device in some]
    assert len(taken) == len({*taken})
