"""Gangs of many kinds of members with claims, compared with trial of all allocations.

What is placed has devices, what does not fit is not placed, a certificate is true, and nothing that fits is
called impossible.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace
from phalanx.model.reasons import Category

from tests.actions.test_device_claims import World
from tests.builders import Decided
from tests.examples import holds
from tests.model.devices import DRIVER, claim_of, device, request
from tests.model.shares import asks, shared


class Gpu(Struct, frozen=True):
    """A device: its kind, its root, its memory, and whether it is allocated in shares."""

    kind: str
    root: int
    memory: int
    in_shares: bool = False


class Member(Struct, frozen=True):
    """What a claim asks for: devices of these kinds, of one root or not, with so much memory or any."""

    count: int
    kinds: str = "Bs"
    has_one_root: bool = False
    memory: int | None = None


Nodes = Sequence[Sequence[Gpu]]
_State = tuple[tuple[int, ...], ...]
"""By node and device, the memory that is free; -1 if the device is used up."""

USED_UP = -1


def after(gpus: Sequence[Gpu], left: tuple[int, ...], wanted: Member) -> Iterator[tuple[int, ...]]:
    """What is left on a node when a member has got devices, for each way."""
    uses: dict[int, int | None] = {}
    for at, gpu in enumerate(gpus):
        if gpu.kind not in wanted.kinds or left[at] == USED_UP:
            continue
        needed = gpu.memory if wanted.memory is None and gpu.in_shares else wanted.memory or 0
        if needed <= (left[at] if gpu.in_shares else gpu.memory):
            uses[at] = needed if gpu.in_shares else None
    for some in combinations(uses, wanted.count):
        if wanted.has_one_root and len({gpus[at].root for at in some}) > 1:
            continue
        yield tuple(
            each if at not in some else USED_UP if (needed := uses[at]) is None else each - needed
            for at, each in enumerate(left)
        )


def fits(nodes: Nodes, wanted: Sequence[Member]) -> bool:
    failed: set[tuple[int, _State]] = set()

    def serves(rest: int, state: _State) -> bool:
        """Whether the last `rest` members have devices too."""
        if not rest:
            return True
        if (rest, state) in failed:
            return False
        for number, gpus in enumerate(nodes):
            for left in after(gpus, state[number], wanted[-rest]):
                if serves(rest - 1, (*state[:number], left, *state[number + 1 :])):
                    return True
        failed.add((rest, state))
        return False

    return serves(len(wanted), tuple(tuple(gpu.memory for gpu in gpus) for gpus in nodes))


def world_of(nodes: Nodes, racks: Sequence[int], wanted: Sequence[Member]) -> World:
    world = World("rack")
    for number, gpus in enumerate(nodes):
        world.nodes(f"a{number}", 1, within=f"r{racks[number]}")
        world.device_slice(f"a{number}-0", *(published(f"d{at}", gpu) for at, gpu in enumerate(gpus)))
    world.gang("g", len(wanted), preferred="rack")
    world.claiming("g")
    for number, member in enumerate(wanted):
        name = f"g-{number}-gpu"
        world.device_claims[name] = replace(world.device_claims[name], spec=claim_of(**asking(member)).spec)
    return world


def published(name: str, gpu: Gpu) -> dict[str, Any]:
    found = device(name, kind=gpu.kind, root=gpu.root)
    return {**found, **(shared(name, memory=gpu.memory) if gpu.in_shares else {}), **found} | {
        "capacity": {"memory": {"value": str(gpu.memory)}}
    }


def asking(member: Member) -> dict[str, Any]:
    kinds = " || ".join(f'device.attributes["{DRIVER}"].kind == "{kind}"' for kind in member.kinds)
    more = asks(memory=member.memory) if member.memory is not None else {}
    same = [{"matchAttribute": f"{DRIVER}/root"}] if member.has_one_root else []
    return {"requests": (request("r", kinds, count=member.count, **more),), "constraints": same}


def check_grants(nodes: Nodes, wanted: Sequence[Member], decided: Decided) -> None:
    """All members have what they ask for, and no device gives more than it has."""
    left = [[gpu.memory for gpu in gpus] for gpus in nodes]
    binds = [bind for each in decided.placements("g") for bind in each.binds]
    assert len(binds) == len(wanted)
    for bind in binds:
        member, number = wanted[int(bind.name.removeprefix("g-"))], int(bind.node[1:].removesuffix("-0"))
        places = [
            int(each.device[2][1:])
            for grant in bind.grants
            for each in (grant.allocation.devices if grant.allocation else ())
        ]
        assert len(set(places)) == member.count
        gpus = [nodes[number][at] for at in places]
        assert all(gpu.kind in member.kinds for gpu in gpus)
        assert not member.has_one_root or len({gpu.root for gpu in gpus}) == 1
        for at, gpu in zip(places, gpus, strict=True):
            assert left[number][at] != USED_UP
            used = gpu.memory if member.memory is None else member.memory
            left[number][at] -= used
            assert left[number][at] >= 0
            if not gpu.in_shares:
                left[number][at] = USED_UP


def check(nodes: Nodes, racks: Sequence[int], wanted: Sequence[Member], *, is_exact: bool = False) -> None:
    decided = world_of(nodes, racks, wanted).decide()
    assert decided.result.stats.errors == ()
    if not decided.placements("g"):
        if fits(nodes, wanted):
            assert not is_exact
            assert decided.verdict("g").reason.category is not Category.IMPOSSIBLE
        return
    check_grants(nodes, wanted, decided)
    one = [[gpus for gpus, rack in zip(nodes, racks, strict=True) if rack == each] for each in set(racks)]
    best = 1 if any(fits(some, wanted) for some in one) else 2
    (placement,) = decided.placements("g")
    certificate = placement.certificate
    assert certificate.terms[0] == "domains:rack"
    assert certificate.bound[0] <= best <= certificate.objective[0]
    assert not certificate.proven or certificate.objective[0] == best


MEMBERS = (
    Member(1),
    Member(2),
    Member(1, "B"),
    Member(1, memory=2),
    Member(1, memory=3),
    Member(2, has_one_root=True),
    Member(2, has_one_root=True, memory=2),
)
GPUS = st.builds(Gpu, st.sampled_from("Bs"), st.integers(0, 1), st.integers(2, 6), st.booleans())


@holds(8)
@given(
    nodes=st.lists(st.lists(GPUS, min_size=2, max_size=4), min_size=1, max_size=3),
    racks=st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 1)),
    wanted=st.lists(st.sampled_from(MEMBERS), min_size=2, max_size=6),
)
def test_members_of_many_kinds(
    nodes: list[list[Gpu]], racks: tuple[int, int, int], wanted: list[Member]
) -> None:
    check(nodes, racks[: len(nodes)], wanted)


@holds(8)
@given(
    nodes=st.lists(st.lists(GPUS, min_size=1, max_size=3), min_size=1, max_size=2),
    racks=st.tuples(st.integers(0, 1), st.integers(0, 1)),
    sizes=st.lists(st.integers(1, 5), min_size=2, max_size=3, unique=True),
    wanted=st.lists(st.integers(0, 2), min_size=2, max_size=5),
)
def test_shares_of_several_sizes(
    nodes: list[list[Gpu]], racks: tuple[int, int], sizes: list[int], wanted: list[int]
) -> None:
    members = [Member(1, memory=sizes[each % len(sizes)]) for each in wanted]
    check(nodes, racks[: len(nodes)], members)


@holds(8)
@given(
    gpus=st.lists(GPUS, min_size=1, max_size=3),
    sizes=st.lists(st.integers(1, 5), min_size=2, max_size=3, unique=True),
    wanted=st.lists(st.integers(0, 2), min_size=2, max_size=6),
)
def test_shares_of_several_sizes_on_one_node(gpus: list[Gpu], sizes: list[int], wanted: list[int]) -> None:
    members = [Member(1, memory=sizes[each % len(sizes)]) for each in wanted]
    check([gpus], [0], members, is_exact=True)


ZONES = [Gpu("B", root, 8) for root in (0, 0, 0, 0, 1, 1, 1, 1)]


def test_a_driver_an_evaluator_and_workers_of_two_sizes_fill_nodes() -> None:
    """Workers have devices of one root; the nodes have four of each of two roots."""
    large, small = Member(4, has_one_root=True), Member(2, has_one_root=True)
    wanted = [Member(1), Member(1, "B"), Member(2), *[large] * 5, *[small] * 12]
    assert sum(each.count for each in wanted) == 6 * 8
    check_grants([ZONES] * 6, wanted, world_of([ZONES] * 6, [0] * 6, wanted).decide())
