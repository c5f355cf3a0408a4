"""What is left when shares are rounded to whole devices: nobody's name decides, and nothing stays unused."""

from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from phalanx.framework.queues.division import Participant, bundle_of, divide
from phalanx.model.names import QueueName

from tests.examples import holds


class Tenant(Struct, frozen=True):
    """A queue as its administrator sees it."""

    weight: int
    guarantee: int
    uses: int
    waits_for: int
    since: int
    """When its oldest waiting gang was created."""
    created: int
    uid: str
    priority: int = 0


def divided(tenants: Mapping[str, Tenant], devices: int) -> tuple[dict[str, int], dict[str, int]]:
    """The scaled guarantee and the fair share of each queue."""
    found = divide(
        {
            QueueName(name): Participant(
                weight=each.weight,
                guarantee={"gpu": each.guarantee},
                used=bundle_of({"gpu": each.uses}),
                waiting=bundle_of({"gpu": each.waits_for}),
                waits_since=each.since,
                created=each.created,
                uid=each.uid,
                priority=each.priority,
            )
            for name, each in tenants.items()
        },
        {"gpu": devices},
    )
    return (
        {name: share.guarantee.get("gpu", 0) for name, share in found.items()},
        {name: share.fair_share.get("gpu", 0) for name, share in found.items()},
    )


def rounded(
    exact: Mapping[str, Fraction], tenants: Mapping[str, Tenant], *, is_right: bool
) -> dict[str, int]:
    """Down; then unit by unit to the largest remainder; among equals to who uses it, then by age. What is no
    right goes to the highest priority before it goes by age."""
    found = {name: int(amount) for name, amount in exact.items()}
    left = int(sum(exact.values()) - sum(found.values()))
    waiting = set(exact)
    while left:
        largest = max(exact[name] - int(exact[name]) for name in waiting)
        equal = [name for name in waiting if exact[name] - int(exact[name]) == largest]
        users = [name for name in equal if tenants[name].uses > int(exact[name])]
        highest = max(tenants[name].priority for name in users or equal)
        first = min(
            (name for name in users or equal if is_right or tenants[name].priority == highest),
            key=lambda name: (tenants[name].since, tenants[name].created, tenants[name].uid),
        )
        found[first] += 1
        waiting.remove(first)
        left -= 1
    return found


def expected(tenants: Mapping[str, Tenant], devices: int) -> tuple[dict[str, int], dict[str, int]]:
    """Guarantees first, then what is left by weight, without rounding until the end."""
    promised = sum(each.guarantee for each in tenants.values())
    factor = Fraction(1) if promised <= devices else Fraction(devices, promised)
    kept = rounded({name: each.guarantee * factor for name, each in tenants.items()}, tenants, is_right=True)
    wants = {name: each.uses + each.waits_for for name, each in tenants.items()}
    got = {name: Fraction(min(wants[name], kept[name])) for name in tenants}
    left = devices - sum(got.values())
    hungry = [name for name in tenants if got[name] < wants[name]]
    while left > 0 and hungry:
        weights = sum(tenants[name].weight for name in hungry)
        step = min(left / weights, *((wants[each] - got[each]) / tenants[each].weight for each in hungry))
        for name in hungry:
            got[name] += step * tenants[name].weight
        left -= step * weights
        hungry = [name for name in hungry if got[name] < wants[name]]
    return kept, rounded(got, tenants, is_right=False)


tenants = st.lists(
    st.builds(
        Tenant,
        weight=st.integers(1, 4),
        guarantee=st.integers(0, 6),
        uses=st.integers(0, 5),
        waits_for=st.integers(0, 6),
        since=st.integers(0, 2),
        created=st.integers(0, 2),
        uid=st.uuids().map(str),
        priority=st.integers(0, 1),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda each: each.uid,
)


@holds(200)
@given(tenants, st.integers(0, 20), st.permutations(range(6)))
def test_remainders_go_to_the_largest_then_to_who_uses_them_then_by_age(
    found: list[Tenant], devices: int, order: list[int]
) -> None:
    named = {f"q{order[index]}": each for index, each in enumerate(found)}
    assert divided(named, devices) == expected(named, devices)


@holds(200)
@given(tenants, st.integers(0, 20))
def test_no_device_that_is_wanted_belongs_to_nobody(found: list[Tenant], devices: int) -> None:
    named = {f"q{index}": each for index, each in enumerate(found)}
    _, shares = divided(named, devices)
    wanted = sum(each.uses + each.waits_for for each in found)
    assert sum(shares.values()) == min(wanted, devices)


def tenant(created: int = 0, uid: str = "", since: int = 0, **fields: int) -> Tenant:
    return Tenant(
        **{"weight": 1, "guarantee": 0, "uses": 0, "waits_for": 2, **fields},
        since=since,
        created=created,
        uid=uid,
    )


@pytest.mark.parametrize(
    ("a", "b", "shares"),
    [
        (tenant(created=2), tenant(created=1), (1, 2)),
        (tenant(uid="2"), tenant(uid="1"), (1, 2)),
        (tenant(created=1, since=1), tenant(created=2, since=2, priority=1), (1, 2)),
        (tenant(uses=2, waits_for=0), tenant(priority=1), (2, 1)),
        (tenant(created=1, since=2), tenant(created=2, since=1), (1, 2)),
        (tenant(created=2, uses=2, waits_for=0), tenant(created=1), (2, 1)),
        (tenant(created=1), tenant(created=2, uses=2, waits_for=0), (1, 2)),
    ],
)
def test_two_equal_queues_share_three_devices(a: Tenant, b: Tenant, shares: tuple[int, int]) -> None:
    assert tuple(divided({"a": a, "b": b}, 3)[1].values()) == shares


def test_of_equal_guarantees_the_unit_that_is_left_stays_where_it_is_used() -> None:
    tenants = {"a": tenant(guarantee=2, created=1), "b": tenant(guarantee=2, created=2, uses=2)}
    assert divided(tenants, 3)[0] == {"a": 1, "b": 2}
