"""Several claims have shares of one device, as long as its capacity is enough."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.model.resources import billionths
from phalanx.model.supplies.devices import api
from phalanx.model.supplies.devices.capacity import CannotConsume, as_quantity, consumption
from phalanx.model.supplies.devices.claims import devices_in_use
from phalanx.model.supplies.devices.cluster import ClusterDevices, DeviceState, with_share_ids
from phalanx.model.supplies.devices.joint_slots import FreeDevices, free_for_any, plain_kinds
from phalanx.model.supplies.devices.pools import Slice
from phalanx.model.supplies.devices.read import read_consumable
from phalanx.model.supplies.devices.slots import SlotCounter, Slots
from phalanx.model.supplies.devices.uses import DeviceUse

from tests.examples import holds
from tests.model.devices import (
    CLASSES,
    DRIVER,
    MATCHER,
    allocated,
    answered,
    claim_of,
    device,
    node,
    place,
    request,
    slice_of,
    spec_of,
)
from tests.model.shares import amounts, asks, shared, use

RANGE = {"min": "2", "max": "8", "step": "3"}


# --- what one share consumes --------------------------------------------------------------------------------


def consumed(policy: dict[str, Any] | None, asked: str | None, *, value: str = "10") -> str | None:
    """What a share consumes of one capacity; None if none can serve the request."""
    written = shared("d", policy, memory=value)
    errors: list[str] = []
    capacity = read_consumable(msgspec.convert(written, api.SliceDevice), DRIVER, "", errors)
    assert not errors
    found = consumption(capacity, (("memory", str(billionths(asked))),) if asked is not None else ())
    return None if found is None else as_quantity(found[0][1])


@pytest.mark.parametrize(
    ("policy", "asked", "wanted"),
    [
        (None, None, "10"),
        (None, "3", "3"),
        (None, "0", "0"),
        (None, "11", None),
        ({"default": "4"}, None, "4"),
        ({"default": "4"}, "3", "3"),
        ({"default": "2", "validValues": ["2", "5"]}, None, "2"),
        ({"default": "2", "validValues": ["2", "5"]}, "2100m", "5"),
        ({"default": "2", "validValues": ["2", "5"]}, "6", None),
        ({"default": "2", "validRange": {"min": "2"}}, "1", "2"),
        ({"default": "2", "validRange": {"min": "2"}}, "2500m", "2500m"),
        ({"default": "2", "validRange": RANGE}, None, "2"),
        ({"default": "2", "validRange": RANGE}, "2", "2"),
        ({"default": "2", "validRange": RANGE}, "2001m", "5"),
        ({"default": "2", "validRange": RANGE}, "6", "8"),
        ({"default": "2", "validRange": RANGE}, "8001m", None),
        ({"default": "1", "validRange": {"min": "500m", "step": "250m"}}, "400m", "500m"),
        ({"default": "1", "validRange": {"min": "500m", "step": "250m"}}, "600m", "1"),
        ({"default": "1", "validRange": {"min": "500m", "step": "250m"}}, "1100m", "2"),
        ({"default": "1", "validRange": {"min": "500m", "max": "1500m", "step": "250m"}}, "1100m", None),
        ({"default": "500m", "validRange": {"min": "500m", "step": "250m"}}, None, "500m"),
        ({"default": "3", "validRange": RANGE}, None, "3"),
        ({"default": "0"}, None, "0"),
    ],
)
def test_requests_are_rounded_up_to_what_the_policy_allows(
    policy: dict[str, Any] | None, asked: str | None, wanted: str | None
) -> None:
    assert consumed(policy, asked) == wanted


@pytest.mark.parametrize("asked", ["10E", "9223372036854775807"])
def test_requests_that_steps_cannot_count_are_an_error(asked: str) -> None:
    with pytest.raises(CannotConsume, match="capacity memory: "):
        consumed({"default": "2", "validRange": RANGE}, asked)
    where = place(slice_of(shared("d0", {"default": "2", "validRange": RANGE}, memory=10), device("d1")))
    found = answered(where, spec_of(request(**asks(memory=asked))))
    assert found.is_error
    assert found.reason.startswith(
        f"spec.devices.requests[0].exactly.capacity: device d0 of driver {DRIVER}: capacity memory: "
    )


@pytest.mark.parametrize("text", ["0", "3", "1Ki", "40Gi", "1500Mi", "1023", "500m", "1u", "7n", "80000M"])
def test_amounts_are_written_as_quantities(text: str) -> None:
    assert billionths(as_quantity(str(billionths(text)))) == billionths(text)


# --- allocation ---------------------------------------------------------------------------------------------


def test_claims_share_a_device_while_its_capacity_is_enough() -> None:
    where = place(slice_of(shared("d0", memory=10), shared("d1", memory=10)))
    four = spec_of(request(**asks(memory=4)))
    assert allocated(where, four, four, four) == (("d0",), ("d0",), ("d1",))
    assert answered(where, *[four] * 5).reason == "not enough free devices match"
    found = answered(where, four)
    assert found.claims is not None
    assert found.claims[0][0].consumed == amounts(memory=4)
    assert found.claims[0][0].share_id


def test_without_amounts_a_claim_has_all_of_the_capacity_or_the_default() -> None:
    assert allocated(
        place(slice_of(shared("d0", memory=10), shared("d1", memory=10))), *[spec_of(request())] * 2
    )
    assert answered(place(slice_of(shared("d0", memory=10))), *[spec_of(request())] * 2).claims is None
    default = place(slice_of(shared("d0", {"default": "5"}, memory=10)))
    assert allocated(default, *[spec_of(request())] * 2) == (("d0",), ("d0",))
    assert answered(default, *[spec_of(request())] * 3).claims is None


def test_a_device_without_capacity_has_any_number_of_shares() -> None:
    where = place(slice_of(shared("d0")))
    assert allocated(where, *[spec_of(request())] * 20) == (("d0",),) * 20
    assert answered(where, spec_of(request(**asks(memory=1)))).claims is None


def test_shares_and_whole_devices_in_use_are_considered() -> None:
    four = spec_of(request(**asks(memory=4)))
    devices = slice_of(shared("d0", memory=10), shared("d1", memory=10))
    used = frozenset({use("d0", "a", memory=4), use("d0", "b", memory=4)})
    assert allocated(place(devices, in_use=used), four, four) == (("d1",), ("d1",))
    whole = frozenset({(DRIVER, "n", "d0"), use("d1", "a", memory=3, gone=9)})
    assert allocated(place(devices, in_use=whole), four) == (("d1",),)
    assert answered(place(devices, in_use=whole), four, four).claims is None


def test_whole_devices_serve_requests_for_amounts_once() -> None:
    small = {**device("d0"), "capacity": {"memory": {"value": "3"}}}
    large = {**device("d1"), "capacity": {"memory": {"value": "8"}}}
    named = {**device("d2"), "capacity": {"example.com/memory": {"value": "8"}}}
    where = place(slice_of(small, large, named))
    four = spec_of(request(**asks(memory=4)))
    assert allocated(where, four) == (("d1",),)
    assert answered(where, four, four).claims is None
    found = answered(where, four)
    assert found.claims is not None
    assert (found.claims[0][0].share_id, found.claims[0][0].consumed) == ("", ())


def test_names_of_capacity_are_those_that_the_slice_writes() -> None:
    where = place(slice_of({**device("d0"), "capacity": {f"{DRIVER}/memory": {"value": "8"}}}))
    assert answered(where, spec_of(request(**asks(memory=4)))).claims is None
    qualified = {"capacity": {"requests": {f"{DRIVER}/memory": "4"}}}
    assert allocated(where, spec_of(request(**qualified))) == (("d0",),)


def test_one_request_takes_different_devices_and_two_may_share_one() -> None:
    where = place(slice_of(shared("d0", memory=10)))
    assert answered(where, spec_of(request(count=2, **asks(memory=1)))).claims is None
    one = asks(memory=1)
    assert allocated(where, spec_of(request("a", **one), request("b", **one))) == (("d0", "d0"),)
    distinct = [{"distinctAttribute": f"{DRIVER}/name"}]
    named = shared("d0", memory=10) | {"attributes": {"name": {"string": "x"}}}
    both = spec_of(request("a", **one), request("b", **one), constraints=distinct)
    assert answered(place(slice_of(named)), both).claims is None


def test_the_search_goes_back_over_shares() -> None:
    """The first request takes 4 of the device that the second one needs whole."""
    where = place(slice_of(shared("d0", memory=10), shared("d1", memory=5)))
    wanted = spec_of(request("a", **asks(memory=4)), request("b", **asks(memory=10)))
    assert allocated(where, wanted) == (("d1", "d0"),)


def test_admin_access_consumes_in_its_own_claims_only() -> None:
    where = place(slice_of(shared("d0", memory=10)))
    admin = spec_of(request(adminAccess=True, **asks(memory=6)))
    assert allocated(where, admin) == (("d0",),)
    assert answered(where, admin, admin).claims is None
    status = {
        "allocation": {
            "devices": {
                "results": [
                    {"request": "r", "driver": DRIVER, "pool": "n", "device": "d0"}
                    | {"adminAccess": True, "shareID": "s", "consumedCapacity": {"memory": "6"}}
                ]
            }
        }
    }
    assert not list(devices_in_use([claim_of(request(), status=status)]))


def test_all_devices_are_those_that_have_enough_when_empty() -> None:
    every = spec_of(request(allocationMode="All", **asks(memory=4)))
    where = slice_of(shared("d0", memory=10), shared("d1", memory=3), shared("d2", memory=4))
    assert allocated(place(where), every) == (("d0", "d2"),)
    assert answered(place(where, in_use=frozenset({use("d2", "a", memory=1)})), every).claims is None


def test_counters_are_used_by_the_first_share_of_a_device() -> None:
    counter = [{"counterSet": "gpu", "counters": {"memory": {"value": "6"}}}]
    parts = [shared(f"d{index}", memory=10) | {"consumesCounters": counter} for index in range(2)]
    pool = {"resourceSliceCount": 2}
    sets = [{"name": "gpu", "counters": {"memory": {"value": "10"}}}]
    slices = (slice_of(*parts, pool=pool), slice_of(name="counters", pool=pool, sharedCounters=sets))
    three = spec_of(request(**asks(memory=3)))
    assert allocated(place(*slices), three, three, three) == (("d0",),) * 3
    assert answered(place(*slices), *[three] * 4).claims is None
    used = frozenset({use("d1", "a", memory=1)})
    assert allocated(place(*slices, in_use=used), three) == (("d1",),)


# --- identity -----------------------------------------------------------------------------------------------


def test_ids_of_shares_follow_from_the_claim_and_its_results() -> None:
    where = place(slice_of(shared("d0", memory=10)))
    claim = claim_of(request("a", **asks(memory=1)), request("b", **asks(memory=1)))
    other = msgspec.structs.replace(claim, uid="uid-other")
    answer = answered(where, claim.spec, other.spec)
    found = [each.share_id for some in with_share_ids(answer, (claim, other)).claims or () for each in some]
    again = [each.share_id for some in with_share_ids(answer, (claim, other)).claims or () for each in some]
    assert found == again
    assert len(set(found)) == 4
    assert all(UUID(each).version == 8 and str(UUID(each)) == each for each in found)


def test_what_claims_have_is_known_by_device() -> None:
    written = [
        {"request": "r", "driver": DRIVER, "pool": "n", "device": "d0"}
        | {"shareID": f"s{index}", "consumedCapacity": {"memory": "4"}}
        for index in range(2)
    ]
    claim = claim_of(request(), status={"allocation": {"devices": {"results": written}}})
    published = slice_of(shared("d0", memory=10), device("d1"))
    state = DeviceState(ClusterDevices(slices=(published,), claims=(claim,), classes=CLASSES), MATCHER)
    assert state.is_in_use((DRIVER, "n", "d0"))
    assert set(state.uses_of((DRIVER, "n", "d0"))) == {use("d0", "s0", memory=4), use("d0", "s1", memory=4)}
    assert state.can_use([use("d0", "s2", memory=2)])
    assert not state.can_use([use("d0", "s2", memory=3)])
    assert not state.can_use([(DRIVER, "n", "d0")])
    assert state.can_use([(DRIVER, "n", "d1")])
    assert state.on(node()).in_use == {use("d0", "s0", memory=4), use("d0", "s1", memory=4)}


def test_shares_with_one_id_are_different_shares_of_two_claims() -> None:
    """As another scheduler may write them."""
    result = {"request": "r", "driver": DRIVER, "pool": "n", "device": "d0"}
    written = [result | {"shareID": "s", "consumedCapacity": {"memory": "4"}}]
    claim = claim_of(request(), status={"allocation": {"devices": {"results": written}}})
    other = msgspec.structs.replace(claim, name="other", uid="uid-other")
    published = slice_of(shared("d0", memory=10))
    state = DeviceState(ClusterDevices(slices=(published,), claims=(claim, other), classes=CLASSES), MATCHER)
    assert len(state.uses_of((DRIVER, "n", "d0"))) == 2
    wanted = claim_of(request(**asks(memory=3)))
    assert state.allocate([wanted], state.on(node())).claims is None


def test_an_extended_resource_counts_the_shares_of_its_devices() -> None:
    published = slice_of(shared("d0", {"default": "3"}, memory=10), device("d1"))
    extended = {"example.com/gpu": "gpu"}
    devices = ClusterDevices(slices=(published,), classes=CLASSES, extended=extended)
    assert DeviceState(devices, MATCHER).offered(node()) == {"example.com/gpu": 4}


# --- members on a node --------------------------------------------------------------------------------------


def counted(
    *specs: Any, published: Slice, in_use: frozenset[DeviceUse] = frozenset(), limit: int = 300
) -> Slots:
    counter = SlotCounter(specs, classes=CLASSES, matcher=MATCHER)
    return counter.count(place(published, in_use=in_use), limit)


def test_members_of_a_gang_share_the_devices_of_a_node() -> None:
    eight = slice_of(*[shared(f"d{index}", memory=80) for index in range(8)])
    ten = spec_of(request(**asks(memory=10)))
    found = counted(ten, published=eight)
    assert (found.count, found.is_exact) == (64, True)
    used = frozenset({use("d0", "a", memory=75), use("d1", "b", memory=20)})
    found = counted(ten, published=eight, in_use=used)
    assert (found.count, found.is_exact) == (54, True)
    assert counted(ten, published=slice_of(shared("d0", memory=80)), limit=5).count == 5


def test_requests_of_one_claim_are_counted_by_the_capacity_together() -> None:
    """42 members need 630 of 640. A search for one more would not end."""
    eight = slice_of(*[shared(f"d{index}", memory=80) for index in range(8)])
    both = spec_of(request("a", **asks(memory=10)), request("b", **asks(memory=5)))
    found = counted(both, published=eight)
    assert (found.count, found.is_exact) == (42, True)


def test_a_device_that_cannot_be_compared_ends_the_count() -> None:
    """Members have shares of the first device; then the second one is tried, which has no value."""
    fast = request("r", f'device.attributes["{DRIVER}"].fast', **asks(memory=4))
    first, third = [
        shared(name, memory=10) | {"attributes": {"fast": {"bool": True}}} for name in ("d0", "d2")
    ]
    found = counted(spec_of(fast), published=slice_of(first, shared("d1", memory=10), third))
    assert found.count == 2
    assert not found.is_error
    steps = {"default": "1", "validRange": {"min": "1", "step": "9223372036854775807"}}
    second = shared("d1", steps, memory=10)
    found = counted(spec_of(request(**asks(memory=4))), published=slice_of(shared("d0", memory=10), second))
    assert found.count == 2


def test_kinds_of_nodes_differ_in_what_is_free() -> None:
    counter = SlotCounter([spec_of(request(**asks(memory=4)))], classes=CLASSES, matcher=MATCHER)
    published = slice_of(shared("d0", memory=10))
    counts = [
        counter.count(place(published, in_use=frozenset(used)), 9).count
        for used in (
            (),
            (use("d0", "a", memory=1),),
            (use("d0", "a", memory=5),),
            (use("d0", "a", memory=7),),
        )
    ]
    assert counts == [2, 2, 1, 0]


def free(
    *wanted: dict[str, Any], published: Slice, in_use: frozenset[DeviceUse] = frozenset()
) -> FreeDevices:
    kinds = plain_kinds([spec_of(each) for each in wanted])
    assert kinds is not None
    return free_for_any(place(published, in_use=in_use), kinds, classes=CLASSES, matcher=MATCHER)


def joint(*wanted: dict[str, Any], **where: Any) -> tuple[int, ...] | None:
    return free(*wanted, **where).least


def test_shares_of_several_kinds_are_at_most_as_many_as_of_the_smallest() -> None:
    """The sets are: of the first kind, of the second one, and of both."""
    four, two = request(**asks(memory=4)), request(**asks(memory=2))
    eleven = slice_of(shared("d0", memory=11))
    assert free(four, two, published=eleven).most == (2, 5, 5)
    assert not free(four, two, published=eleven).is_exact
    same = slice_of(shared("d0", {"default": "1", "validRange": {"min": "4", "step": "4"}}, memory=11))
    assert free(four, two, published=same).is_exact
    assert free(
        four, two, published=slice_of(device("d0") | {"capacity": {"memory": {"value": "5"}}})
    ).is_exact


def test_shares_of_several_kinds_are_as_many_as_of_the_largest() -> None:
    four, two = request(**asks(memory=4)), request(**asks(memory=2))
    eleven = slice_of(shared("d0", memory=11))
    assert joint(four, two, published=eleven) == (2, 2, 2)
    both = slice_of(shared("d0", memory=11), shared("d1", memory=4))
    assert joint(four, two, published=both) == (3, 3, 3)
    used = frozenset({use("d0", "a", memory=4)})
    assert joint(four, two, published=eleven, in_use=used) == (1, 1, 1)
    nearly = frozenset({use("d0", "a", memory=8)})
    assert joint(four, two, published=eleven, in_use=nearly) == (0, 1, 1)
    assert joint(four, request(count=2, **asks(memory=2)), published=both) is None
    wide = request(**asks(memory=4)), request(**asks(memory=1, links=5))
    assert joint(*wide, published=slice_of(shared("d0", memory=9, links=5))) == (1, 1, 1)
    assert joint(*wide, published=slice_of(shared("d0", memory=4, links=5), shared("d1", memory=9))) is None


def test_whole_devices_are_counted_by_what_they_have() -> None:
    four, two = request(**asks(memory=4)), request(**asks(memory=2))
    small = {**device("d0"), "capacity": {"memory": {"value": "3"}}}
    large = {**device("d1"), "capacity": {"memory": {"value": "8"}}}
    assert joint(four, two, published=slice_of(large, large | {"name": "d2"})) == (2, 2, 2)
    assert joint(four, two, published=slice_of(small, large)) is None


_Free = tuple[tuple[int, ...], ...]


def most_members(free: _Free, members: Sequence[tuple[int, tuple[int, int]]]) -> int:
    """The largest number of members, by trying everything. Each makes these requests: a count, and what it
    asks for of each device."""

    def enough(left: tuple[int, ...], wanted: tuple[int, int]) -> bool:
        return all(have >= more for have, more in zip(left, wanted, strict=True))

    def without(state: _Free, chosen: tuple[int, ...], wanted: tuple[int, int]) -> _Free:
        return tuple(
            tuple(have - more for have, more in zip(left, wanted, strict=True)) if at in chosen else left
            for at, left in enumerate(state)
        )

    reached, number = {free}, -1
    while reached:
        number += 1
        for count, wanted in members:
            reached = {
                without(state, chosen, wanted)
                for state in reached
                for chosen in combinations(range(len(state)), count)
                if all(enough(state[at], wanted) for at in chosen)
            }
    return number


_DEVICES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=3)
_MEMBERS = st.lists(
    st.tuples(st.sampled_from((1, 1, 2)), st.tuples(st.integers(1, 4), st.integers(0, 3))),
    min_size=1,
    max_size=2,
)
_USED = st.tuples(st.integers(0, 3), st.integers(0, 3))


@holds(12)
@given(devices=_DEVICES, members=_MEMBERS, used=_USED, is_one=st.booleans())
def test_the_count_of_shares_is_the_largest(
    devices: list[tuple[int, int]],
    members: list[tuple[int, tuple[int, int]]],
    used: tuple[int, int],
    is_one: bool,
) -> None:
    """The first device is in use in part. `is_one`: all requests are of one claim."""
    published = slice_of(*[shared(f"d{index}", a=a, b=b) for index, (a, b) in enumerate(devices)])
    requests = [
        request(f"r{at}", count=count, **asks(a=a, b=b)) for at, (count, (a, b)) in enumerate(members)
    ]
    specs = [spec_of(*requests)] if is_one else [spec_of(each) for each in requests]
    free = ((devices[0][0] - used[0], devices[0][1] - used[1]), *devices[1:])
    found = counted(*specs, published=published, in_use=frozenset({use("d0", "x", a=used[0], b=used[1])}))
    assert found.is_exact
    assert found.count == most_members(free, members)
