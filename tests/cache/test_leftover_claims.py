"""Which claims are given back for pods that wait: the owner of a claim is what a tenant has written."""

from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.cache.devices.leftover_claims import leftover_claims
from phalanx.model.names import PodUid
from phalanx.model.pods import Pod, PodClaim
from phalanx.model.supplies.devices.claims import AllocatedDevice, Allocation, Claim, ClaimSpec
from phalanx.model.supplies.devices.pools import NodeChoice

from tests.builders import Scenario

ALLOCATION = Allocation((AllocatedDevice("r", ("driver", "pool", "device")),), NodeChoice(node="n"))


def waiting() -> Pod:
    (pod,) = Scenario().gang("g", 1).members("g")
    return replace(pod, device_claims=(PodClaim("gpu", "made", is_own=True), PodClaim("link", "shared")))


def held(name: str, *, namespace: str = "team", owner: str = "g-0", users: tuple[str, ...] = ()) -> list[str]:
    """The names of the claims that are given back, if this one is allocated."""
    pod = waiting()
    claim = Claim(namespace, name, "uid", ClaimSpec(), ALLOCATION, reserved_for=users, owner=owner)
    found = leftover_claims([claim], {pod.uid: pod}.get)
    assert all(each.pod == PodUid("g-0") for each in found)
    return [grant.name for each in found for grant in each.grants]


@pytest.mark.parametrize("users", [(), ("g-0",), ("g-0", "other")])
def test_claims_that_are_held_for_a_pod_without_a_node_are_given_back(users: tuple[str, ...]) -> None:
    assert held("made", users=users) == ["made"]


def test_a_shared_claim_is_given_back_if_it_is_reserved_for_the_pod() -> None:
    assert held("shared", owner="", users=("g-0",)) == ["shared"]
    assert not held("shared", owner="")


def test_a_claim_whose_owner_is_invented_is_left_alone() -> None:
    assert not held("other")
    assert not held("shared")
    assert not held("made", namespace="of-another-tenant")


def test_a_claim_that_another_pod_uses_is_left_alone() -> None:
    assert not held("made", users=("other",))


def test_devices_that_failed_are_given_back_once_for_a_pod_that_waits_for_them() -> None:
    pod = waiting()
    claim = Claim("team", "shared", "uid", ClaimSpec(), ALLOCATION, has_failed=True)

    def given(claim: Claim, *uids: str) -> list[tuple[str, str]]:
        found = leftover_claims([claim], {pod.uid: pod}.get, lambda _: [PodUid(uid) for uid in uids])
        return [(each.pod, grant.name) for each in found for grant in each.grants]

    assert given(claim, "of-another-scheduler", "g-0") == [("g-0", "shared")]
    assert not given(claim, "of-another-scheduler")
    assert not given(replace(claim, has_failed=False), "g-0")
    assert not given(replace(claim, reserved_for=("other",)), "g-0")


@pytest.mark.parametrize(
    ("changes", "given"),
    [
        ({}, True),
        ({"ready_by": 1001}, False),
        ({"ready_by": 0}, False),
        ({"unbound": ""}, False),
        ({"reserved_for": ("other",)}, False),
    ],
)
def test_devices_that_were_not_ready_in_time_are_given_back(changes: dict[str, Any], given: bool) -> None:
    pod = waiting()
    claim = Claim("team", "shared", "uid", ClaimSpec(), ALLOCATION, unbound="not attached", ready_by=1000)
    found = leftover_claims(
        [replace(claim, **changes)], {pod.uid: pod}.get, lambda _: [PodUid("g-0")], now=1000
    )
    assert bool(found) is given
