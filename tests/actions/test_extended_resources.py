"""Gangs whose pods request an extended resource get devices of its class where nodes do not offer it."""

from typing import Any

import msgspec
import pytest
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Assumed, Changes, Deleted, Forgotten, Relisted
from phalanx.cycle import Engine
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.api.kinds import DEVICE_KINDS, KINDS
from phalanx.model.decisions import Bind, CycleResult
from phalanx.model.names import NodeName, PodUid
from phalanx.model.reasons import Reason
from phalanx.model.supplies.devices.cluster import ClusterDevices
from phalanx.model.supplies.devices.session.session_devices import claimed_devices
from phalanx.service.write_checks import CachePlacementCheck
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.cache.world import new_cache, take_snapshot

GPU, NIC = "example.com/gpu", "example.com/nic"
API = "resource.k8s.io/v1"


def written(kind: str, name: str, **parts: Any) -> Applied:
    meta = {"name": name, "namespace": "team", "uid": f"uid-{name}", **parts.pop("metadata", {})}
    return Applied(msgspec.convert({"metadata": meta, **parts}, KINDS[kind].struct))


def node(name: str, **offered: int) -> Applied:
    more = {{"gpu": GPU, "nic": NIC}[key]: count for key, count in offered.items()}
    return written("Node", name, status={"allocatable": {"cpu": 16, "memory": "64Gi", "pods": 110, **more}})


def slice_on(name: str, *devices: str, driver: str = "gpu") -> Applied:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": name, "pool": pool, "devices": [{"name": each} for each in devices]}
    return written("ResourceSlice", f"{name}-{driver}", spec=spec)


def device_class(name: str, resource: str = "") -> Applied:
    selectors = [{"cel": {"expression": f'device.driver == "{name}"'}}]
    more = {"extendedResourceName": resource} if resource else {}
    return written("DeviceClass", name, spec={"selectors": selectors, **more})


def gang(name: str, size: int, **amounts: int) -> list[Applied]:
    asked = {{"gpu": GPU, "nic": NIC}.get(key, key): count for key, count in amounts.items()}
    container = {"name": "main", "resources": {"requests": {"cpu": 1, **asked}}}
    spec = {"schedulerName": "phalanx", "containers": [container]}
    labels = {"scheduling.phalanx.dev/pod-group": name}
    pods = [
        written("Pod", f"{name}-{index}", metadata={"labels": labels}, spec=spec) for index in range(size)
    ]
    return [written("PodGroup", name, spec={"minMember": size}), *pods]


class Play:
    """A cache that gets what a cycle decides, as the scheduler does."""

    def __init__(self, *events: Applied) -> None:
        self.cache = new_cache()
        for kind in ("Node", *DEVICE_KINDS):
            self.cache.apply(Relisted(kind, ()))
        self.apply(*events)
        self.engine = Engine(SchedulerConfig())

    def apply(self, *events: Any) -> Changes:
        changes = self.cache.apply_all(events)
        check_cache(self.cache)
        return changes

    def decide(self) -> CycleResult:
        return self.engine.decide(take_snapshot(self.cache))

    def place(self) -> list[Bind]:
        found = self.decide()
        binds = [bind for each in found.placements for bind in each.binds]
        for placement in found.placements:
            queue = placement.queue
            self.apply(*[Assumed(each, queue) for each in placement.binds])
            assert CachePlacementCheck(self.cache, SchedulerConfig()).gang(placement) is None
        return binds


def devices(binds: list[Bind]) -> list[tuple[str, str]]:
    """Node and device of each device of the binds."""
    return sorted(
        (bind.node, each.device[2])
        for bind in binds
        for grant in bind.grants
        if grant.allocation is not None
        for each in grant.allocation.devices
    )


TWO_NODES = (
    *(node("a"), node("b"), device_class("gpu", GPU)),
    *(slice_on("a", "a0", "a1"), slice_on("b", "b0", "b1")),
)


def test_a_gang_gets_devices_of_the_class_in_one_decision() -> None:
    play = Play(*TWO_NODES, *gang("g", 2, gpu=2))
    binds = play.place()
    assert devices(binds) == [("a", "a0"), ("a", "a1"), ("b", "b0"), ("b", "b1")]
    (grant,) = binds[0].grants
    assert grant.extended_claim is not None
    assert [(each.name, each.device_class, each.count) for each in grant.extended_claim.requests] == [
        ("container-0-request-1", "gpu", 2)
    ]
    play.apply(*gang("h", 1, gpu=1))
    assert not play.place()
    for bind in binds:
        play.apply(Forgotten(bind.pod), Deleted("Pod", "team", bind.name))
    assert len(devices(play.place())) == 1


def test_a_gang_for_which_devices_are_too_few_waits_as_a_whole() -> None:
    play = Play(*TWO_NODES, *gang("g", 3, gpu=2))
    assert not play.place()
    play.apply(node("c"), slice_on("c", "c0", "c1"))
    assert len(devices(play.place())) == 6


def test_nodes_that_offer_the_resource_need_no_devices() -> None:
    play = Play(node("a", gpu=2), *TWO_NODES[1:], slice_on("b", "b0"), *gang("g", 3, gpu=1))
    binds = play.place()
    assert devices(binds) == [("b", "b0")]
    assert sorted(bind.node for bind in binds) == ["a", "a", "b"]


def test_two_resources_of_a_pod_come_from_devices_or_the_node_each() -> None:
    parts = (device_class("gpu", GPU), device_class("nic", NIC), slice_on("a", "n0", driver="nic"))
    play = Play(node("a", gpu=2), *parts, *gang("g", 1, gpu=2, nic=1))
    (bind,) = play.place()
    assert devices([bind]) == [("a", "n0")]
    assert not Play(node("a", gpu=1), *parts, *gang("g", 1, gpu=2, nic=1)).place()


def test_every_class_has_a_name_as_an_extended_resource() -> None:
    name = "deviceclass.resource.kubernetes.io/gpu"
    play = Play(node("a"), device_class("gpu"), slice_on("a", "a0"), *gang("g", 1, **{name: 1}))
    assert devices(play.place()) == [("a", "a0")]


def test_members_with_different_requests_share_a_node() -> None:
    one, two = gang("g", 1, gpu=1), gang("g", 2, gpu=2)
    group = written("PodGroup", "g", spec={"minMember": 2})
    play = Play(node("a"), device_class("gpu", GPU), slice_on("a", "a0", "a1", "a2"), group, one[1], two[2])
    assert len(devices(play.place())) == 3


@pytest.mark.parametrize("devices_of_a", ["xy", "xyz"])
def test_members_with_different_requests_share_a_node_that_offers_one_resource(devices_of_a: str) -> None:
    """The node offers network cards itself, and GPUs by devices."""
    one, two = gang("g", 1, gpu=1, nic=1), gang("g", 2, gpu=2, nic=1)
    group = written("PodGroup", "g", spec={"minMember": 2})
    classes = device_class("gpu", GPU), device_class("nic", NIC)
    objects = *classes, node("a", nic=2), slice_on("a", *devices_of_a)
    play = Play(*objects, group, one[1], two[2])
    assert len(devices(play.place())) == (3 if len(devices_of_a) == 3 else 0)


@pytest.mark.parametrize(("size", "gpu", "fits"), [(3, 1, True), (4, 1, False), (1, 3, True), (2, 2, False)])
def test_devices_that_several_nodes_can_use_satisfy_resources(size: int, gpu: int, fits: bool) -> None:
    """Node a has a device of its own, and two are for all nodes."""
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu", "allNodes": True, "pool": pool, "devices": [{"name": "n0"}, {"name": "n1"}]}
    network = written("ResourceSlice", "net", spec=spec)
    parts = device_class("gpu", GPU), node("a"), node("b"), slice_on("a", "a0"), network
    found = devices(Play(*parts, *gang("g", size, gpu=gpu)).place())
    assert len(found) == len(set(found)) == (size * gpu if fits else 0)


@pytest.mark.parametrize("first", ["class", "gang"])
def test_a_class_may_come_later(first: str) -> None:
    parts = [(device_class("gpu", GPU),), gang("g", 1, gpu=1)]
    early, late = parts if first == "class" else reversed(parts)
    play = Play(node("a"), slice_on("a", "a0"), *early)
    assert not play.place()
    play.apply(*late)
    assert len(play.place()) == 1


def test_classes_are_watched_when_no_node_offers_a_resource() -> None:
    def cache(*events: Applied) -> Cache:
        found = new_cache()
        found.apply_all([Relisted("Node", ()), *events])
        return found

    assert cache(node("a"), *gang("g", 1, gpu=1)).workload_kinds() == ("DeviceClass",)
    assert cache(node("a", gpu=1), node("b"), *gang("g", 1, gpu=1)).workload_kinds() == ()
    found = cache(node("a"), *gang("g", 1, gpu=1), device_class("gpu", GPU))
    assert set(found.workload_kinds()) == set(DEVICE_KINDS)
    assert not take_snapshot(found).part(ClusterDevices).are_listed


def claim(*, name: str = "made", device: str = "", owner: str = "g-0") -> Applied:
    meta: dict[str, Any] = {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{"kind": "Pod", "name": owner, "uid": f"uid-{owner}", "controller": True}],
    }
    request = {"name": "container-0-request-1", "exactly": {"deviceClassName": "gpu", "count": 1}}
    result = {"request": request["name"], "driver": "gpu", "pool": "a", "device": device}
    status = {"allocation": {"devices": {"results": [result]}}} if device else {}
    return written(
        "ResourceClaim", name, metadata=meta, spec={"devices": {"requests": [request]}}, status=status
    )


def test_the_claim_of_the_api_takes_the_place_of_the_decided_one() -> None:
    play = Play(node("a"), device_class("gpu", GPU), slice_on("a", "a0", "a1"), *gang("g", 1, gpu=1))
    (bind,) = play.place()
    play.apply(claim())
    assert len(take_snapshot(play.cache).part(ClusterDevices).claims) == 2
    pod, state = play.cache.pod(bind.pod), play.cache.node_state(bind.node)
    assert pod is not None
    assert state is not None
    assert not play.cache.supply_conflict(pod, state.node)
    assert not play.apply(claim(device="a0")).supplies_freed
    assert [each.name for each in take_snapshot(play.cache).part(ClusterDevices).claims] == ["made"]
    assert not play.cache.supply_conflict(pod, state.node)
    play.apply(claim(name="other", device="a0", owner="stranger"))
    assert "in use by another claim" in play.cache.supply_conflict(pod, state.node)


def test_a_claim_of_an_earlier_attempt_is_given_back_before_the_next() -> None:
    play = Play(node("a"), device_class("gpu", GPU), slice_on("a", "a0", "a1"), *gang("g", 1, gpu=1), claim())
    assert not play.place()
    (held,) = play.cache.leftover_claims()
    assert held.pod == PodUid("uid-g-0")
    assert [(each.name, each.is_for_extended) for each in held.grants] == [("made", True)]
    play.apply(Deleted("ResourceClaim", "team", "made"))
    assert len(play.place()) == 1


def test_pods_with_different_requests_on_a_node_get_what_each_requests() -> None:
    one, two = gang("g", 1, gpu=1), gang("g", 2, gpu=2)
    group = written("PodGroup", "g", spec={"minMember": 2})
    play = Play(node("a"), device_class("gpu", GPU), slice_on("a", "a0", "a1", "a2"), group, one[1], two[2])
    session = Session(take_snapshot(play.cache), SchedulerConfig())
    (found,) = session.gangs.values()
    granting = claimed_devices(session).allocate([(NodeName("a"), found.members)])
    assert granting is not None
    counts = {
        uid: [len(each.allocation.devices) for each in grants if each.allocation is not None]
        for uid, grants in granting.granted.items()
    }
    assert counts == {"uid-g-0": [1], "uid-g-1": [2]}


def test_the_limit_of_a_queue_counts_devices_and_what_nodes_offer_alike() -> None:
    queue = written("Queue", "q", metadata={"namespace": ""}, spec={"limit": {GPU: 2}})
    gangs = [gang(name, 1, gpu=1) for name in ("g", "h", "i")]
    for some in gangs:
        some[0] = written("PodGroup", some[0].object.metadata.name, spec={"minMember": 1, "queue": "q"})
    play = Play(queue, node("a", gpu=1), *TWO_NODES[1:], *[event for some in gangs for event in some])
    assert sorted(bind.node for bind in play.place()) == ["a", "b"]
    assert play.decide().verdicts[0].reason is Reason.QUEUE_LIMIT
