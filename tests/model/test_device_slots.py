"""How many members with equal claims fit on a node, compared with all possible allocations."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from phalanx.model.supplies.devices import slots
from phalanx.model.supplies.devices.claims import ClaimSpec
from phalanx.model.supplies.devices.pools import Inventory
from phalanx.model.supplies.devices.slots import SlotCounter, Slots

from tests.examples import holds
from tests.model.devices import CLASSES, DRIVER, MATCHER, device, node, place, request, slice_of, spec_of

NUMA = "example.com/numa"
ON_ZERO = 'device.attributes["example.com"].numa == 0'


def counted(*claims: ClaimSpec, devices: Sequence[dict[str, Any]], limit: int = 10, **more: Any) -> Slots:
    counter = SlotCounter(claims, classes=CLASSES, matcher=MATCHER)
    return counter.count(place(slice_of(*devices), **more), limit)


def gpus(*numbers: int) -> list[dict[str, Any]]:
    return [device(f"d{index}", example_com__numa=number) for index, number in enumerate(numbers)]


def test_interchangeable_devices_are_divided_among_members() -> None:
    eight = gpus(*[0] * 8)
    found = counted(spec_of(request()), devices=eight)
    assert (found.count, found.is_exact) == (8, True)
    assert counted(spec_of(request(count=3)), devices=eight).count == 2
    assert counted(spec_of(request()), spec_of(request(count=2)), devices=eight).count == 2
    assert counted(spec_of(request()), devices=eight, limit=5).count == 5
    assert counted(spec_of(request()), devices=eight, limit=0).count == 0
    used = frozenset({(DRIVER, "n", "d3"), ("other", "n", "d4")})
    assert counted(spec_of(request()), devices=eight, in_use=used).count == 7


def test_no_members_fit_without_devices_and_the_reason_is_said() -> None:
    found = counted(spec_of(request(count=2)), devices=gpus(0))
    assert found == Slots(0, is_exact=True, reason="not enough free devices match")
    error = counted(spec_of(request("r", "device.driver +")), devices=gpus(0))
    assert error.is_error
    assert "does not compile" in error.reason


def test_one_by_one_may_be_too_few_and_the_search_finds_more() -> None:
    """The first member alone would take two devices of NUMA node 0, although another one needs them."""
    wanted = (spec_of(request("any")), spec_of(request("zero", ON_ZERO)))
    found = counted(*wanted, devices=gpus(0, 0, 1, 1))
    assert (found.count, found.is_exact) == (2, True)


def test_groups_of_one_numa_node_are_counted_exactly() -> None:
    pair = spec_of(request(count=2), constraints=[{"matchAttribute": NUMA}])
    found = counted(pair, devices=gpus(0, 0, 0, 1, 1, 1, 1, 1))
    assert (found.count, found.is_exact) == (3, True)


def test_all_devices_and_alternatives() -> None:
    every = spec_of(request(allocationMode="All"))
    assert counted(every, devices=gpus(0, 1)).count == 1
    two = {"name": "two", "deviceClassName": "gpu", "count": 2}
    one = {"name": "one", "deviceClassName": "gpu"}
    choice = spec_of({"name": "r", "firstAvailable": [two, one]})
    found = counted(choice, devices=gpus(0, 0, 0, 0, 0))
    assert (found.count, found.is_exact) == (5, True)


def test_admin_access_needs_no_free_device() -> None:
    admin = spec_of(request(count=2, adminAccess=True))
    assert counted(admin, devices=gpus(0, 0), limit=7).count == 7


def test_devices_of_pools_of_several_nodes_are_marked() -> None:
    shared = slice_of(device("x"), name="net", pool={"name": "net"}, allNodes=True)
    local = slice_of(*gpus(0, 0))
    counter = SlotCounter([spec_of(request())], classes=CLASSES, matcher=MATCHER)
    found = counter.count(place(shared, local), 9)
    assert (found.count, found.uses_shared_pools) == (3, True)
    assert not counter.count(place(local), 9).uses_shared_pools


def test_a_search_that_is_too_long_gives_a_lower_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "CLAIM_SEARCH_DEVICES_MAX", 3)
    wanted = (spec_of(request("any")), spec_of(request("zero", ON_ZERO)))
    found = counted(*wanted, devices=gpus(0, 0, 1, 1))
    assert (found.count, found.is_exact) == (1, False)


def test_nodes_that_differ_in_what_is_not_read_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = SlotCounter._count

    def remember(self: SlotCounter, *arguments: Any) -> Slots:
        calls.append(arguments)
        return real(self, *arguments)

    monkeypatch.setattr(SlotCounter, "_count", remember)
    counter = SlotCounter([spec_of(request())], classes=CLASSES, matcher=MATCHER)
    for number in range(5):
        name = f"n{number}"
        devices = [device(f"d{index}", serial=f"{number}-{index}") for index in range(4)]
        written = slice_of(*devices, nodeName=name, pool={"name": name})
        written = structs.replace(written, name=name)
        where = place()
        pools = Inventory([written]).pools(node(name))
        assert counter.count(structs.replace(where, node=node(name), pools=pools), 9).count == 4
    assert len(calls) == 1


# --- against all possible allocations -----------------------------------------------------------------------


def most_members(numbers: Sequence[int], members: Sequence[tuple[int, bool, str]]) -> int:
    """The largest number of members. Each has these claims: a count, whether only NUMA node 0 will do, and
    the constraint of the claim. `numbers` are the NUMA nodes of the devices."""

    def allowed(chosen: tuple[int, ...], claim: tuple[int, bool, str]) -> bool:
        values = [numbers[each] for each in chosen]
        if claim[1] and any(values):
            return False
        if claim[2] == "match":
            return len(set(values)) == 1
        return claim[2] != "distinct" or len(set(values)) == len(values)

    def rest_after(free: frozenset[int], claims: Sequence[tuple[int, bool, str]]) -> Iterator[frozenset[int]]:
        if not claims:
            yield free
            return
        for chosen in combinations(sorted(free), claims[0][0]):
            if allowed(chosen, claims[0]):
                yield from rest_after(free - set(chosen), claims[1:])

    reached, count = {frozenset(range(len(numbers)))}, 0
    while reached := {rest for free in reached for rest in rest_after(free, members)}:
        count += 1
    return count


CLAIMS = st.tuples(st.integers(1, 3), st.booleans(), st.sampled_from(("", "match", "distinct")))


@holds(60)
@given(numbers=st.lists(st.integers(0, 2), max_size=7), claims=st.lists(CLAIMS, min_size=1, max_size=2))
def test_the_count_is_the_largest(numbers: list[int], claims: list[tuple[int, bool, str]]) -> None:
    specs = []
    for count, zero, kind in claims:
        constraints = [{f"{kind}Attribute": NUMA}] if kind else []
        selectors = (ON_ZERO,) if zero else ()
        specs.append(spec_of(request("r", *selectors, count=count), constraints=constraints))
    found = counted(*specs, devices=gpus(*numbers))
    assert found.is_exact
    assert found.count == most_members(numbers, claims)
