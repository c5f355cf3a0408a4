"""After any history of pods with extended resources, the cache follows from its objects."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from phalanx.cache.events import Applied, Deleted, Event, Forgotten
from phalanx.model.api.kinds import KINDS
from phalanx.model.names import PodUid
from phalanx.model.supplies.devices.claims import AllocatedDevice, Allocation, ClaimGrant, extended_claim_uid
from phalanx.model.supplies.devices.cluster import ClusterDevices
from phalanx.model.supplies.devices.extended_resources import ExtendedRequests, extended_resource_claim
from phalanx.model.supplies.devices.pools import NodeChoice
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.assumed import assumed as assumed_bind
from tests.cache.world import new_cache, take_snapshot
from tests.examples import holds

GPU = "example.com/gpu"
DEVICES = ("d0", "d1")
one_of = st.sampled_from
PODS, CLAIMS, CLASSES = one_of(["p", "q"]), one_of(["c", "d"]), one_of(["x", "y"])


def written(kind: str, name: str, **parts: Any) -> Event:
    meta = {"name": name, "namespace": "team", "uid": f"uid-{name}", **parts.pop("metadata", {})}
    return Applied(msgspec.convert({"metadata": meta, **parts}, KINDS[kind].struct))


def pod(name: str, node: str, phase: str, named: str, count: int) -> Event:
    container = {"name": "main", "resources": {"requests": {GPU: count}}}
    spec = {"schedulerName": "phalanx", "containers": [container], **({"nodeName": node} if node else {})}
    status: dict[str, Any] = {"phase": phase}
    if named:
        status["extendedResourceClaimStatus"] = {"resourceClaimName": named}
    return written("Pod", name, spec=spec, status=status)


def claim(name: str, owner: str, device: str) -> Event:
    meta = {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{"kind": "Pod", "name": owner, "uid": f"uid-{owner}", "controller": True}],
    }
    result = {"request": "r", "driver": "gpu", "pool": "n", "device": device}
    status = {"allocation": {"devices": {"results": [result]}}} if device else {}
    return written("ResourceClaim", name, metadata=meta, status=status)


def assumed(name: str, device: str) -> Event:
    allocation = Allocation((AllocatedDevice("r", ("gpu", "n", device)),), NodeChoice(node="n"))
    extended_claim = extended_resource_claim(ExtendedRequests(()), (), {})
    uid = PodUid(f"uid-{name}")
    grant = ClaimGrant("team", f"{name}-made", extended_claim_uid(uid), allocation, extended_claim)
    return assumed_bind(uid, "n", grants=(grant,))


events = st.one_of(
    st.builds(
        pod,
        PODS,
        one_of(["", "", "n"]),
        one_of(["", "Running", "Failed"]),
        one_of(["", "c"]),
        one_of([0, 1, 1]),
    ),
    st.builds(claim, CLAIMS, PODS, one_of(["", *DEVICES])),
    st.builds(assumed, PODS, one_of(DEVICES)),
    st.builds(lambda name: Forgotten(PodUid(f"uid-{name}")), PODS),
    st.builds(lambda name: Deleted("Pod", "team", name), PODS),
    st.builds(lambda name: Deleted("ResourceClaim", "team", name), CLAIMS),
    st.builds(
        lambda name, spec: written("DeviceClass", name, spec=spec),
        CLASSES,
        one_of([{}, {"extendedResourceName": GPU}]),
    ),
    st.builds(lambda name: Deleted("DeviceClass", "", name), CLASSES),
)


@holds(60)
@given(st.lists(events, max_size=20))
def test_histories(history: list[Event]) -> None:
    cache = new_cache()
    for event in history:
        cache.apply(event)
        check_cache(cache)
    devices = take_snapshot(cache).part(ClusterDevices)
    for each in cache.leftover_claims():
        found = cache.pod(each.pod)
        assert found is not None
        assert found.is_waiting
    for each in devices.claims:
        held = cache.pod(PodUid(each.owner)) if each.uid == extended_claim_uid(each.owner) else None
        assert held is None or held.assumed
