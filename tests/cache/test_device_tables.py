"""Allocations that the scheduler decided count until the API shows them, or until they are given up."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from phalanx.cache.cache import Cache
from phalanx.cache.devices.tables import DeviceTables
from phalanx.cache.events import Applied, ChangeLog, Deleted, Forgotten, Relisted
from phalanx.model.api import core
from phalanx.model.api.kinds import DEVICE_KINDS
from phalanx.model.conversion.pods import read_pod
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.named_parts import plain
from phalanx.model.names import NodeName, PodUid
from phalanx.model.nodes import Node
from phalanx.model.supplies.devices.api import DeviceTaintRule, ResourceClaim, ResourceSlice
from phalanx.model.supplies.devices.claims import AllocatedDevice, Allocation, Claim, ClaimGrant
from phalanx.model.supplies.devices.cluster import ClusterDevices
from phalanx.model.supplies.devices.pools import NodeChoice
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.assumed import assumed
from tests.cache.world import new_cache, take_snapshot
from tests.fake_objects import fake_pod

DEVICE = ("gpu.example.com", "n1", "gpu-0")
GRANT = ClaimGrant("team", "c", "uid-c", Allocation((AllocatedDevice("r", DEVICE),), NodeChoice(node="n1")))
ASSUMED = assumed("p", "n1", grants=(GRANT,))
ON_N1 = Node(name=NodeName("n1"), uid="n1", labels={}, allocatable={})
RESULT = dict(zip(("request", "driver", "pool", "device"), ("r", *DEVICE), strict=True))


def pod(name: str = "p", **status: Any) -> core.Pod:
    written = fake_pod(name, namespace="team")
    written["metadata"] |= {"uid": name, "name": name}
    written["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    written["status"] = status
    return msgspec.convert(written, core.Pod)


def claim(
    uid: str = "uid-c",
    *,
    name: str = "c",
    allocated: bool = False,
    device: str = "gpu-0",
    users: tuple[str, ...] = (),
    version: str = "",
) -> Applied:
    result = RESULT | {"device": device}
    status: dict[str, Any] = {"allocation": {"devices": {"results": [result]}}} if allocated else {}
    status["reservedFor"] = [{"resource": "pods", "name": user, "uid": user} for user in users]
    meta = {"namespace": "team", "name": name, "uid": uid, "resourceVersion": version}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    written = {"metadata": meta, "spec": {"devices": {"requests": [request]}}, "status": status}
    return Applied(msgspec.convert(written, ResourceClaim))


def claims(cache: Cache) -> list[Claim]:
    return list(take_snapshot(cache).part(ClusterDevices).claims)


def with_assumed() -> Cache:
    cache = new_cache(pod())
    cache.apply_all([claim(), ASSUMED])
    (found,) = claims(cache)
    assert found.allocation == GRANT.allocation
    assert found.reserved_for == ("p",)
    return cache


def test_an_assumed_allocation_ends_when_the_api_shows_it_and_takes_it_back() -> None:
    cache = with_assumed()
    cache.apply(claim(allocated=True))
    assert claims(cache)[0].allocation is not None
    assert cache.apply(claim()).supplies_freed
    assert claims(cache)[0].allocation is None
    check_cache(cache)


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
    cache = with_assumed()
    assert cache.apply(event).supplies_freed
    check_cache(cache)
    assert [each.allocation for each in claims(cache)] in ([None], [])


def test_nothing_is_assumed_for_a_pod_that_is_gone() -> None:
    cache = new_cache()
    cache.apply_all([claim(), ASSUMED])
    assert claims(cache)[0].allocation is None


def test_an_allocation_in_the_api_frees_nothing() -> None:
    cache = new_cache()
    cache.apply(claim())
    assert not cache.apply(claim(allocated=True)).supplies_freed
    assert cache.apply(claim()).supplies_freed


def test_kinds_are_needed_from_the_first_pod_on_that_is_not_refused() -> None:
    accepted = read_pod(pod(), shapes=ShapeCache(), classes={})
    refused = replace(accepted, shape=replace(accepted.shape, unsupported=("spec.workloadRef",)))
    tables = DeviceTables(scheduler_name="phalanx", pod=lambda _: None, changed=lambda *_: None)
    log = ChangeLog()
    tables.pod_changed(None, refused, log)
    assert tables.needed == ()
    assert not tables.view().are_claimed
    tables.pod_changed(refused, accepted, log)
    assert tables.needed == DEVICE_KINDS
    assert tables.view().are_claimed
    assert not tables.view().are_listed
    tables.pod_changed(accepted, None, log)
    assert tables.needed == DEVICE_KINDS
    assert not tables.view().are_claimed


def test_devices_are_listed_when_all_kinds_are() -> None:
    cache = new_cache()
    for kind in DEVICE_KINDS:
        assert not take_snapshot(cache).part(ClusterDevices).are_listed
        cache.apply(Relisted(kind, ()))
    assert take_snapshot(cache).part(ClusterDevices).are_listed


def test_claims_of_pods_without_a_node_are_left_over() -> None:
    cache = new_cache(pod())
    assert cache.leftover_claims() == ()
    cache.apply_all([claim(), claim(allocated=True, users=("p", "gone"))])
    (held,) = cache.leftover_claims()
    assert (held.pod, held.namespace, held.name) == ("p", "team", "p")
    assert [(each.name, each.uid) for each in held.grants] == [("c", "uid-c")]
    assert held.grants[0].allocation is not None
    # an assumed pod has a node
    cache.apply(assumed("p", "n1"))
    assert cache.leftover_claims() == ()


def test_pods_that_share_a_claim_have_one_assumed_allocation() -> None:
    cache = new_cache(pod("p"), pod("q"))
    cache.apply_all([claim(), ASSUMED, assumed("q", "n1", grants=(GRANT,))])
    assert claims(cache)[0].reserved_for == ("p", "q")
    check_cache(cache)
    cache.apply(Forgotten(PodUid("p")))
    assert claims(cache)[0].allocation == GRANT.allocation
    assert claims(cache)[0].reserved_for == ("q",)
    check_cache(cache)
    assert cache.apply(Forgotten(PodUid("q"))).supplies_freed
    assert claims(cache)[0].allocation is None
    check_cache(cache)


def slice_event(*names: str, generation: int = 1, name: str = "n1", **fields: Any) -> Applied:
    """The slice of node n1."""
    spec = {
        "driver": DEVICE[0],
        "nodeName": "n1",
        "pool": {"name": DEVICE[1], "generation": generation, "resourceSliceCount": 1},
        "devices": [{"name": each, **fields} for each in names],
    }
    return Applied(msgspec.convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice))


def rule_event(**taint: str) -> Applied:
    """A taint of all devices of the driver."""
    spec = {"deviceSelector": {"driver": DEVICE[0]}, "taint": {"key": "old", **taint}}
    return Applied(msgspec.convert({"metadata": {"name": "rule"}, "spec": spec}, DeviceTaintRule))


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (Deleted("ResourceClaim", "team", "c"), "ResourceClaim team/c is gone"),
        (claim("other"), "ResourceClaim team/c is gone"),
        (Deleted("ResourceSlice", "", "n1"), "device gpu-0 of pool n1 of driver gpu.example.com is gone"),
        (slice_event("gpu-1", generation=2), "device gpu-0 of pool n1 of driver gpu.example.com is gone"),
        (
            slice_event("gpu-0", taints=[{"key": "broken", "effect": "NoSchedule"}]),
            "device gpu-0 of pool n1 of driver gpu.example.com has a taint since the decision",
        ),
        (
            slice_event(name="another", generation=2),
            "device gpu-0 of pool n1 of driver gpu.example.com is gone",
        ),
        (
            rule_event(effect="NoExecute"),
            "device gpu-0 of pool n1 of driver gpu.example.com has a taint since the decision",
        ),
        (rule_event(effect="None"), ""),
        (
            claim("uid-other", name="other", allocated=True),
            "device gpu-0 of pool n1 of driver gpu.example.com is in use by another claim since the decision",
        ),
        (claim(allocated=True, device="gpu-7"), "ResourceClaim team/c was allocated otherwise since"),
        (claim(allocated=True), ""),
        (slice_event("gpu-0", "gpu-1", generation=2), ""),
    ],
)
def test_decided_devices_are_checked_before_the_bind(event: Any, problem: str) -> None:
    cache = new_cache(pod())
    cache.apply_all([slice_event("gpu-0"), claim(), ASSUMED])
    found = cache.pod(PodUid("p"))
    assert found is not None
    assert cache.supply_conflict(found, ON_N1) == ""
    cache.apply(event)
    if problem:
        assert plain(cache.supply_conflict(found, ON_N1)).startswith(problem)
    else:
        assert cache.supply_conflict(found, ON_N1) == ""


SHARED = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "10"}}}


def share(amount: int, share_id: str = "own") -> AllocatedDevice:
    return AllocatedDevice("r", DEVICE, share_id=share_id, consumed=(("memory", str(amount * 10**9)),))


def share_of_another(
    amount: int, *, name: str = "other", share_id: str = "", users: tuple[str, ...] = ()
) -> Applied:
    """A claim to which another scheduler has allocated a share."""
    result = RESULT | {"shareID": share_id or name, "consumedCapacity": {"memory": str(amount)}}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": user, "uid": user} for user in users],
    }
    written = {
        "metadata": {"namespace": "team", "name": name, "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        "status": status,
    }
    return Applied(msgspec.convert(written, ResourceClaim))


_NAME = "device gpu-0 of pool n1 of driver gpu.example.com"


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([share_of_another(6)], ""),
        (
            [share_of_another(7)],
            f"{_NAME} has less capacity left since the decision than ResourceClaim team/c needs",
        ),
        ([share_of_another(3), share_of_another(4, name="third")], f"{_NAME} has less capacity left"),
        ([share_of_another(3), share_of_another(3, name="third")], ""),
        (
            [share_of_another(4, share_id="one"), share_of_another(4, name="third", share_id="one")],
            f"{_NAME} has less capacity left",
        ),
        ([claim("uid-other", name="other", allocated=True)], f"{_NAME} is in use by another claim"),
        (
            [slice_event("gpu-0", generation=2, capacity={"memory": {"value": "10"}})],
            f"{_NAME} does not allow several allocations any more",
        ),
        (
            [
                share_of_another(6),
                slice_event("gpu-0", generation=2, **SHARED | {"capacity": {"memory": {"value": "9"}}}),
            ],
            f"{_NAME} has less capacity left",
        ),
        ([slice_event("gpu-7", generation=2)], f"{_NAME} is gone"),
    ],
)
def test_decided_shares_are_checked_before_the_bind(events: list[Any], problem: str) -> None:
    cache = new_cache(pod())
    grant = replace(GRANT, allocation=Allocation((share(4),), NodeChoice(node="n1")))
    cache.apply_all([slice_event("gpu-0", **SHARED), claim(), assumed("p", "n1", grants=(grant,))])
    found = cache.pod(PodUid("p"))
    assert found is not None
    assert cache.supply_conflict(found, ON_N1) == ""
    for event in events:
        cache.apply(event)
    check_cache(cache)
    said = plain(cache.supply_conflict(found, ON_N1))
    assert said.startswith(problem) if problem else said == ""


def test_a_share_that_is_given_back_frees_capacity() -> None:
    cache = new_cache()
    cache.apply(share_of_another(3, users=("a", "b")))
    assert not cache.apply(share_of_another(3, users=("a", "b"))).supplies_freed
    assert cache.apply(share_of_another(3, users=("a",))).supplies_freed
    assert cache.apply(Deleted("ResourceClaim", "team", "other")).supplies_freed
    check_cache(cache)


def test_an_earlier_allocation_is_checked_before_the_bind_on_its_nodes() -> None:
    cache = new_cache(pod())
    grant = replace(GRANT, allocation=None)
    cache.apply_all([on_nodes("n1", "n2"), assumed("p", "n1", grants=(grant,))])
    found = cache.pod(PodUid("p"))
    assert found is not None
    assert cache.supply_conflict(found, ON_N1) == ""
    cache.apply(on_nodes("n2"))
    problem = "ResourceClaim team/c was allocated for other nodes since the decision"
    assert plain(cache.supply_conflict(found, ON_N1)) == problem
    assert cache.supply_conflict(found, Node(name=NodeName("n2"), uid="n2", labels={}, allocatable={})) == ""
    cache.apply(claim())
    assert "is not allocated any more" in cache.supply_conflict(found, ON_N1)


def on_nodes(*names: str, **of_device: Any) -> Applied:
    """The claim, allocated for these nodes by another scheduler."""
    event = claim(allocated=True)
    named = {"key": "metadata.name", "operator": "In", "values": list(names)}
    written = msgspec.to_builtins(event.object)
    written["status"]["allocation"]["devices"]["results"] = [RESULT | of_device]
    written["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [named]}]}
    return Applied(msgspec.convert(written, ResourceClaim))


def test_a_late_name_of_a_claim_lets_its_pod_be_tried() -> None:
    cache = new_cache(pod())
    statuses = [{"name": "gpu", "resourceClaimName": "c"}]
    changes = cache.apply(Applied(pod(resourceClaimStatuses=statuses)))
    assert changes.may_unblock
    found = cache.pod(PodUid("p"))
    assert found is not None
    assert [each.claim for each in found.device_claims] == ["c"]


def test_a_write_of_an_allocation_counts_before_the_watch_shows_it() -> None:
    """kubernetes/kubernetes#133602: the end of a pod was seen before the allocation that it leaves."""
    cache = with_assumed()
    assert cache.has_resource_claim("uid-c")
    cache.apply(claim(allocated=True, version="7"))
    cache.apply(claim(version="5"))
    cache.apply(Deleted("Pod", "team", "p"))
    assert claims(cache)[0].allocation is not None
    # a list is authoritative
    cache.apply(Relisted("ResourceClaim", (claim(version="3").object,)))
    assert claims(cache)[0].allocation is None
    cache.apply(Deleted("ResourceClaim", "team", "c"))
    assert not cache.has_resource_claim("uid-c")
    check_cache(cache)


def test_nothing_is_assumed_for_a_claim_that_is_allocated_already() -> None:
    """kubernetes/kubernetes#140269: the allocation of a shared claim was seen between the decisions."""
    cache = new_cache(pod())
    cache.apply_all([claim(allocated=True), ASSUMED])
    cache.apply(claim())
    assert claims(cache)[0].allocation is None
    check_cache(cache)


def failing(*, users: tuple[str, ...] = (), is_true: str = "True") -> Applied:
    """An allocated claim of two devices, of which one is not attached yet and one never will be."""
    conditions = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
    results = [RESULT | conditions | {"device": each} for each in ("gpu-0", "gpu-1")]
    known = {"type": "broken", "status": is_true}
    states = [{**dict(list(results[1].items())[1:4]), "conditions": [known]}]
    status = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": user, "uid": user} for user in users],
        "devices": states,
    }
    meta = {"namespace": "team", "name": "c", "uid": "uid-c"}
    return Applied(msgspec.convert({"metadata": meta, "status": status}, ResourceClaim))


def test_devices_whose_binding_has_failed_are_given_back() -> None:
    """Else the pods that name the claim would wait for ever."""
    naming = pod()
    naming = msgspec.structs.replace(
        naming,
        spec=msgspec.structs.replace(
            naming.spec, resource_claims=(core.PodResourceClaim("gpu", resource_claim_name="c"),)
        ),
    )
    cache = new_cache(naming)
    cache.apply_all([failing(), *[Relisted(kind, ()) for kind in DEVICE_KINDS if kind != "ResourceClaim"]])
    check_cache(cache)
    assert [grant.name for each in cache.leftover_claims() for grant in each.grants] == ["c"]
    for other in (failing(is_true="False"), failing(users=("of-another-scheduler",)), claim()):
        cache.apply(other)
        check_cache(cache)
        assert not cache.leftover_claims()
