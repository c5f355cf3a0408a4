"""What a placed pod waits for: binding conditions of the devices that were decided for it."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied
from phalanx.model.decisions import Bind
from phalanx.model.names import NodeName, PodUid
from phalanx.model.supplies.devices.api import ResourceClaim
from phalanx.model.supplies.devices.claims import AllocatedDevice, Allocation
from phalanx.model.supplies.devices.pools import Binding, NodeChoice
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.assumed import assumed
from tests.cache.test_device_tables import DEVICE, GRANT, ON_N1, RESULT, claim, pod, slice_event
from tests.cache.world import new_cache

CONDITIONS = {"bindingConditions": ["attached", "linked"], "bindingFailureConditions": ["broken"]}
PREPARED = AllocatedDevice("r", DEVICE, binding=Binding(("attached", "linked"), ("broken",)))
DECIDED = replace(GRANT, allocation=Allocation((PREPARED,), NodeChoice(node="n1")))
BIND = Bind(PodUid("p"), "team", "p", NodeName("n1"), grants=(DECIDED,))


def written(*true: str, **of_device: Any) -> Applied:
    """The claim as it is written for the pod, with these conditions of its device."""
    found = msgspec.to_builtins(claim(allocated=True, users=("p",)).object)
    found["status"]["allocation"]["devices"]["results"] = [RESULT | CONDITIONS]
    conditions = [
        {"type": each, "status": "True", "reason": "Why", "message": "as it is"} for each in true
    ] + [{"type": "linked", "status": "False"}] * ("linked" not in true)
    status = {**dict(list(RESULT.items())[1:]), "conditions": conditions, **of_device}
    found["status"]["devices"] = [status]
    return Applied(msgspec.convert(found, ResourceClaim))


def placed() -> Cache:
    cache = new_cache(pod())
    cache.apply_all([slice_event("gpu-0"), claim(), assumed("p", "n1", grants=(DECIDED,))])
    return cache


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (written(), "device gpu-0: its binding condition attached is not true yet"),
        (written("attached"), "device gpu-0: its binding condition linked is not true yet"),
        (
            written("attached", "linked", device="gpu-1"),
            "device gpu-0: its binding condition attached is not true yet",
        ),
        (written("attached", "linked"), ""),
    ],
)
def test_a_placed_pod_waits_until_all_conditions_of_its_devices_are_true(event: Applied, why: str) -> None:
    """Nothing objects to its placement meanwhile."""
    cache = placed()
    cache.apply(event)
    found = cache.pod(PodUid("p"))
    assert found is not None
    assert cache.supply_conflict(found, ON_N1) == ""
    assert [str(each) for each in cache.awaited_claims(BIND)] == (
        [f"ResourceClaim team/c: {why}"] if why else []
    )
    assert all(each.can_only_wait for each in cache.awaited_claims(BIND))
    check_cache(cache)


def test_an_allocation_that_is_not_seen_yet_may_have_conditions_that_are_not_true() -> None:
    cache = placed()
    (found,) = cache.awaited_claims(BIND)
    assert found.why == "its allocation is not known to be written yet"
    assert not found.can_only_wait
    cache.apply(assumed("p", "n1", grants=(GRANT,)))
    assert cache.awaited_claims(BIND) == (), "its devices have no conditions"


def test_a_condition_of_failure_objects_to_the_placement_and_says_why() -> None:
    cache = placed()
    cache.apply(written("attached", "linked", "broken"))
    found = cache.pod(PodUid("p"))
    assert found is not None
    text = "device gpu-0: its binding condition broken says that it failed (Why: as it is)"
    assert cache.supply_conflict(found, ON_N1) == f"ResourceClaim team/c: {text}"
    (awaited,) = cache.awaited_claims(BIND)
    assert not awaited.can_only_wait
