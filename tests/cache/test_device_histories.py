"""After any history of events about devices, the cache answers as all of its objects say.

The answers are compared with a walk over all claims and slices of the snapshot.
"""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from phalanx.cache.events import Applied, Assumed, Deleted, Event, Forgotten, Relisted
from phalanx.model.names import NodeName, PodUid
from phalanx.model.nodes import Node
from phalanx.model.pods import Pod
from phalanx.model.supplies.devices.api import DeviceTaintRule, ResourceSlice
from phalanx.model.supplies.devices.claims import AllocatedDevice, Allocation, Claim, ClaimGrant
from phalanx.model.supplies.devices.cluster import ClusterDevices
from phalanx.model.supplies.devices.pools import DeviceId, NodeChoice, Slice
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.assumed import assumed
from tests.cache.test_device_tables import claim, pod
from tests.cache.world import encoded, new_cache, take_snapshot
from tests.examples import holds

DRIVER, POOL = "gpu.example.com", "n1"
DEVICES = ("gpu-0", "gpu-1")
ON_N1 = Node(name=NodeName("n1"), uid="n1", labels={}, allocatable={})
MADE = [{"name": "gpu", "resourceClaimName": "c"}]

one_of = st.sampled_from
NAMES = one_of(["c", "d"])
PODS = one_of(["p", "q"])


def of_driver(kind: type, name: str, **spec: Any) -> Applied:
    return Applied(msgspec.convert({"metadata": {"name": name}, "spec": spec}, kind))


def slice_of_n1(name: str, generation: int, devices: list[str], tainted: bool) -> Applied:
    pool = {"name": POOL, "generation": generation, "resourceSliceCount": 1}
    taints = [{"key": "broken", "effect": "NoSchedule"}] if tainted else []
    written = [{"name": each, "taints": taints} for each in devices]
    return of_driver(ResourceSlice, name, driver=DRIVER, nodeName="n1", pool=pool, devices=written)


def taint_rule(device: str, effect: str) -> Applied:
    selector, taint = {"driver": DRIVER, "device": device}, {"key": "old", "effect": effect}
    return of_driver(DeviceTaintRule, "rule", deviceSelector=selector, taint=taint)


def grant(name: str, uid: str, device: str | None) -> ClaimGrant:
    if device is None:
        return ClaimGrant("team", name, uid)
    found = AllocatedDevice("r", (DRIVER, POOL, device))
    return ClaimGrant("team", name, uid, Allocation((found,), NodeChoice(node="n1")))


claims = st.builds(
    lambda name, uid, allocated, device, users: claim(
        f"{name}-{uid}", name=name, allocated=allocated, device=device, users=tuple(users)
    ),
    NAMES,
    one_of(["1", "1", "2"]),
    st.booleans(),
    one_of(DEVICES),
    st.lists(PODS, unique=True),
)
decisions = st.builds(
    lambda uid, grants: assumed(uid, "n1", grants=tuple(grants)),
    PODS,
    st.lists(
        st.builds(
            lambda name, device: grant(name, f"{name}-1", device), NAMES, one_of([*DEVICES, *DEVICES, None])
        ),
        unique_by=lambda each: each.name,
    ),
)
events = st.one_of(
    claims,
    claims,
    claims,
    decisions,
    decisions,
    st.builds(
        lambda name, made, node: Applied(pod(name, resourceClaimStatuses=made, phase=node)),
        PODS,
        one_of([[], MADE, MADE, [{"name": "gpu", "resourceClaimName": "d"}]]),
        one_of(["Pending", "Pending", "Failed"]),
    ),
    st.builds(lambda uid: Forgotten(PodUid(uid)), PODS),
    st.builds(
        slice_of_n1,
        one_of(["a", "b"]),
        st.integers(1, 2),
        st.lists(one_of(DEVICES), unique=True),
        st.booleans(),
    ),
    st.builds(taint_rule, one_of(DEVICES), one_of(["NoSchedule", "None"])),
    st.builds(
        lambda kind, name: Deleted(kind, "team", name),
        one_of(["ResourceClaim", "Pod"]),
        one_of(["c", "d", "p", "q"]),
    ),
    one_of([Deleted("ResourceSlice", "", "a"), Deleted("DeviceTaintRule", "", "rule")]),
    st.builds(lambda written: Relisted("ResourceClaim", (written.object,)), claims),
)


class History:
    """A cache, and the objects and grants of its events."""

    def __init__(self) -> None:
        self.cache = new_cache()
        self.grants: dict[str, tuple[ClaimGrant, ...]] = {}

    def apply(self, event: Event) -> None:
        self.cache.apply(event)
        if isinstance(event, Assumed):
            found = self.cache.pod(event.bind.pod)
            if found is not None and found.assumed and event.bind.grants:
                self.grants[event.bind.pod] = event.bind.grants
        if isinstance(event, Forgotten):
            self.grants.pop(event.pod, None)
        for uid in list(self.grants):
            found = self.cache.pod(PodUid(uid))
            if found is None or found.is_finished:
                del self.grants[uid]

    def pods(self) -> list[Pod]:
        return [found for uid in ("p", "q") if (found := self.cache.pod(PodUid(uid))) is not None]


@holds(60)
@given(st.lists(events, max_size=25))
def test_answers_about_devices_are_those_of_a_walk_over_all_objects(history: list[Event]) -> None:
    made = History()
    for event in history:
        made.apply(event)
        check_cache(made.cache)
        shown = take_snapshot(made.cache).part(ClusterDevices)
        for each in made.pods():
            expected = slow_conflict(made.grants.get(each.uid, ()), shown)
            assert bool(made.cache.supply_conflict(each, ON_N1)) is expected
        waiting = [each for each in made.pods() if each.is_waiting]
        assert {
            (back.pod, grant.name) for back in made.cache.leftover_claims() for grant in back.grants
        } == slow_leftover(waiting, shown)


@holds(20)
@given(st.lists(events, max_size=15))
def test_all_that_is_kept_about_devices_follows_from_the_objects(history: list[Event]) -> None:
    made, objects = History(), dict[tuple[str, str], Applied]()
    for event in history:
        made.apply(event)
        match event:
            case Applied(object=item):
                objects[type(item).__name__, item.metadata.name] = event
            case Deleted(kind=kind, name=name):
                objects.pop((kind, name), None)
            case Relisted(objects=listed):
                objects = {key: each for key, each in objects.items() if key[0] != "ResourceClaim"}
                objects |= {("ResourceClaim", each.metadata.name): Applied(each) for each in listed}
    rebuilt = new_cache()
    rebuilt.apply_all(objects.values())
    if not made.grants and not any(each.assumed for each in made.pods()):
        assert encoded(take_snapshot(made.cache)) == encoded(take_snapshot(rebuilt))


def slow_conflict(grants: tuple[ClaimGrant, ...], shown: ClusterDevices) -> bool:
    """Whether one of the grants is not possible any more."""
    return any(_is_spoilt(each, shown) for each in grants)


def _is_spoilt(granted: ClaimGrant, shown: ClusterDevices) -> bool:
    found = [each for each in shown.claims if (each.name, each.uid) == (granted.name, granted.uid)]
    if not found or found[0].allocation is None:
        return True
    if granted.allocation is None:
        return not found[0].allocation.nodes.allows(ON_N1)
    ids = [each.device for each in granted.allocation.devices]
    if [each.device for each in found[0].allocation.devices] != ids:
        return True
    others = [each for each in shown.claims if each.name != granted.name]
    if any(_uses(other, device) for other in others for device in ids):
        return True
    return any(_is_missing(device, shown) for device in ids)


def _uses(other: Claim, device: DeviceId) -> bool:
    return other.allocation is not None and any(each.device == device for each in other.allocation.devices)


def _is_missing(device: DeviceId, shown: ClusterDevices) -> bool:
    """Whether the device is not published, or tainted."""
    newest = max((each.generation for each in shown.slices), default=0)
    written = [
        (each, one) for each in shown.slices if each.generation == newest for one in _named(each, device)
    ]
    rules = [each for each in shown.taint_rules if each.device == device[2]]
    effects = [each.taint.effect for each in rules]
    # of two slices with the same device the last one by name counts
    tainted = bool(written) and "NoSchedule" in [*effects, *(taint.effect for taint in written[-1][1].taints)]
    return not written or tainted


def _named(written: Slice, device: DeviceId) -> list[Any]:
    return [each for each in written.devices if each.name == device[2]]


def slow_leftover(waiting: list[Pod], shown: ClusterDevices) -> set[tuple[str, str]]:
    """Pods without a node, and the claims that are held for them. No claim of a history has an owner."""
    if not waiting:
        return set()
    return {
        (each.uid, held.name) for each in waiting for held in shown.claims if each.uid in held.reserved_for
    }
