"""Allocations that the scheduler decided count until the API shows them, or until they are given up."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from phalanx.cache.cache import Cache
from phalanx.cache.devices import DeviceTables
from phalanx.cache.events import Applied, Assumed, ChangeLog, Deleted, Forgotten, Relisted
from phalanx.model.api import core
from phalanx.model.api.devices import ResourceClaim
from phalanx.model.api.kinds import DEVICE_KINDS
from phalanx.model.conversion.pods import read_pod
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.devices.claims import AllocatedDevice, Allocation, Claim, ClaimGrant
from phalanx.model.devices.pools import NodeChoice
from phalanx.model.names import NodeName, PodUid

from tests.cache.world import new_cache, take_snapshot
from tests.fake_objects import fake_pod

DEVICE = ("gpu.example.com", "n1", "gpu-0")
GRANT = ClaimGrant("team", "c", "uid-c", Allocation((AllocatedDevice("r", DEVICE),), NodeChoice(node="n1")))
ASSUMED = Assumed(PodUid("p"), NodeName("n1"), grants=(GRANT,))
RESULT = dict(zip(("request", "driver", "pool", "device"), ("r", *DEVICE), strict=True))


def pod(**status: Any) -> core.Pod:
    written = fake_pod("p", namespace="team")
    written["metadata"] |= {"uid": "p", "name": "p"}
    written["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    written["status"] = status
    return msgspec.convert(written, core.Pod)


def claim(uid: str = "uid-c", *, allocated: bool = False) -> Applied:
    status = {"allocation": {"devices": {"results": [RESULT]}}} if allocated else {}
    meta = {"namespace": "team", "name": "c", "uid": uid}
    return Applied(msgspec.convert({"metadata": meta, "status": status}, ResourceClaim))


def claims(cache: Cache) -> list[Claim]:
    return list(take_snapshot(cache).devices.claims)


def assumed() -> Cache:
    cache = new_cache(pod())
    cache.apply_all([claim(), ASSUMED])
    (found,) = claims(cache)
    assert found.allocation == GRANT.allocation
    assert found.reserved_for == ("p",)
    return cache


def test_an_assumed_allocation_ends_when_the_api_shows_it_and_takes_it_back() -> None:
    cache = assumed()
    cache.apply(claim(allocated=True))
    assert claims(cache)[0].allocation is not None
    assert cache.apply(claim()).cluster_changed
    assert claims(cache)[0].allocation is None
    cache.check_invariants()


@pytest.mark.parametrize(
    "event",
    [
        Forgotten(PodUid("p")),
        Deleted("Pod", "team", "p"),
        Applied(pod(phase="Failed")),
        claim("another"),
        Deleted("ResourceClaim", "team", "c"),
    ],
)
def test_an_assumed_allocation_is_given_up(event: Any) -> None:
    cache = assumed()
    assert cache.apply(event).capacity_grew
    cache.check_invariants()
    assert [each.allocation for each in claims(cache)] in ([None], [])


def test_nothing_is_assumed_for_a_pod_that_is_gone() -> None:
    cache = new_cache()
    cache.apply_all([claim(), ASSUMED])
    assert claims(cache)[0].allocation is None


def test_an_allocation_in_the_api_frees_nothing() -> None:
    cache = new_cache()
    assert cache.apply(claim()).cluster_changed
    assert not cache.apply(claim(allocated=True)).cluster_changed


def test_kinds_are_needed_from_the_first_pod_on_that_is_not_refused() -> None:
    accepted = read_pod(pod(), shapes=ShapeCache(), classes={})
    refused = replace(accepted, shape=replace(accepted.shape, unsupported=("spec.workloadRef",)))
    tables, log = DeviceTables(), ChangeLog()
    tables.pod_changed(refused, log)
    assert tables.needed == ()
    assert not tables.view().are_claimed
    tables.pod_changed(accepted, log)
    assert tables.needed == DEVICE_KINDS
    assert tables.view().are_claimed
    assert not tables.view().are_listed


def test_devices_are_listed_when_all_kinds_are() -> None:
    cache = new_cache()
    for kind in DEVICE_KINDS:
        assert not take_snapshot(cache).devices.are_listed
        cache.apply(Relisted(kind, ()))
    assert take_snapshot(cache).devices.are_listed
