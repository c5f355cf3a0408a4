"""Queues divide each device that several nodes can use once."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.cache.events import Applied
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.names import QueueName
from phalanx.model.reasons import Reason

from tests.actions.test_device_guarantees import evicted, report
from tests.actions.test_device_limits import CLASSES, Parts, claim, claiming, exactly, in_queue, member
from tests.actions.test_extended_resources import GPU, Play, device_class, gang, node, slice_on, written
from tests.cache.world import take_snapshot
from tests.examples import holds

ZONE = "zone"


def zoned(name: str, zone: str, *, cordoned: bool = False, **offered: int) -> Applied:
    found: Any = node(name, **offered).object
    spec = {"unschedulable": cordoned}
    status = {"allocatable": dict(found.status.allocatable)}
    return written("Node", name, metadata={"labels": {ZONE: zone}}, spec=spec, status=status)


def pool(name: str, devices: Sequence[str], place: str = "") -> Applied:
    """Devices of all nodes, of those of a zone, or of one."""
    of = {"nodeSelector": selector(place)} if place in ("east", "west", "north") else {"nodeName": place}
    spec: Parts = {
        "driver": "gpu",
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": each} for each in devices],
        **(of if place else {"allNodes": True}),
    }
    return written("ResourceSlice", name, spec=spec)


def selector(zone: str) -> Parts:
    expression = {"key": ZONE, "operator": "In", "values": [zone]}
    return {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


def queue(name: str = "q", guarantee: int = 0, **more: Any) -> Applied:
    spec: Parts = {"guarantee": {GPU: guarantee}, **more}
    return written("Queue", name, metadata={"namespace": ""}, spec=spec)


def running(
    name: str, devices: Sequence[str], queue: str, *, node: str = "a", of: str = "net", special: bool = False
) -> list[Applied]:
    """A gang with one pod for each device, which has it by a claim, or by a request of the resource."""
    found = [written("PodGroup", name, spec={"minMember": len(devices), "queue": queue})]
    labels = {"scheduling.phalanx.dev/pod-group": name}
    for index, device in enumerate(devices):
        pod = f"{name}-{index}"
        results = [{"request": "r", "driver": "gpu", "pool": of, "device": device}]
        reserved = [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"}]
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
        if special:
            found += [with_device(pod, labels, node), extended_resource_claim(pod, status)]
        else:
            entry = {"name": "gpu", "resourceClaimName": f"{pod}-gpu"}
            found.append(member(pod, entry, labels=labels, phase="Running", nodeName=node))
            found.append(claim(f"{pod}-gpu", exactly(), status=status))
    return found


def with_device(name: str, labels: Parts, on: str) -> Applied:
    container = {"name": "main", "resources": {"requests": {"cpu": 1, GPU: 1}}}
    asked = [{"containerName": "main", "resourceName": GPU, "requestName": "r"}]
    status: Parts = {
        "phase": "Running",
        "extendedResourceClaimStatus": {"requestMappings": asked, "resourceClaimName": f"{name}-x"},
    }
    spec = {"schedulerName": "phalanx", "containers": [container], "nodeName": on}
    return written("Pod", name, metadata={"labels": labels}, spec=spec, status=status)


def extended_resource_claim(pod: str, status: Parts) -> Applied:
    owner = {"kind": "Pod", "name": pod, "uid": f"uid-{pod}", "controller": True}
    meta = {
        "ownerReferences": [owner],
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
    }
    spec = {"devices": {"requests": [exactly()]}}
    return written("ResourceClaim", f"{pod}-x", metadata=meta, spec=spec, status=status)


def session_of(*events: Applied) -> Session:
    return Session(take_snapshot(Play(*events).cache), SchedulerConfig())


def capacity(*events: Applied) -> int:
    return session_of(*events).fair_shares.capacity.get(GPU, 0)


def asking(kind: str, name: str, size: int, of: str = "q") -> list[Applied]:
    """A gang that asks for a device each, by claims or by the resource."""
    return (
        claiming(name, size, exactly(), queue=of)
        if kind == "claims"
        else in_queue(gang(name, size, gpu=1), of)
    )


NODES = zoned("a", "east"), zoned("b", "east"), zoned("c", "west")
KINDS = pytest.mark.parametrize("kind", ["claims", "requests"])


@KINDS
@pytest.mark.parametrize(
    ("slices", "devices"),
    [
        ([pool("net", "wxyz")], 4),
        ([pool("net", "wxyz", "east")], 4),
        ([pool("net", "wxyz", "west")], 4),
        ([pool("net", "wxyz", "north")], 0),
        ([pool("net", "wx"), pool("east", "y", "east"), slice_on("a", "z", "s"), slice_on("c", "z")], 6),
    ],
)
def test_a_device_counts_once_however_many_nodes_can_use_it(
    kind: str, slices: list[Applied], devices: int
) -> None:
    play = Play(queue(guarantee=devices + 1), *CLASSES, *NODES, *slices, *asking(kind, "g", 1))
    found = play.decide().queues["q"]
    assert found.guarantee.get(GPU, 0) == devices
    play.apply(queue(guarantee=devices))
    assert play.decide().queues["q"].guarantee.get(GPU, 0) == devices


@KINDS
def test_a_guarantee_beyond_the_devices_is_reported(kind: str) -> None:
    events = (*CLASSES, *NODES, pool("net", "wxyz"), *asking(kind, "g", 1))
    for guarantee, problems in [(4, []), (5, ["4 of 5"])]:
        session = session_of(queue(guarantee=guarantee), *events)
        found = [each for asked in session.queues for each in session.fair_shares.problems(asked)]
        assert [each.message.split(": ")[1][:6] for each in found] == problems


@KINDS
def test_queues_share_the_devices_by_their_weights(kind: str) -> None:
    waiting = [event for of in "qr" for n in range(8) for event in asking(kind, f"{of}{n}", 1, of)]
    queues = queue("q", weight=3), queue("r")
    found = Play(*queues, *CLASSES, *NODES, pool("net", "stuvwxyz"), *waiting).decide()
    assert [report(found, name)[1] for name in "qr"] == [6, 2]
    starts = [str(each.queue) for each in found.placements]
    assert (starts.count("q"), starts.count("r")) == (6, 2)


@KINDS
@pytest.mark.parametrize("size", [1, 2, 4])
def test_an_owner_takes_back_its_guarantee(kind: str, size: int) -> None:
    """Only what both queues are guaranteed together in the cluster; the nodes show three times as much."""
    special = kind == "requests"
    theirs = [
        each for n, device in enumerate("wxyz") for each in running(f"r{n}", [device], "r", special=special)
    ]
    world = (*CLASSES, *NODES, pool("net", "wxyz"), *theirs, *asking(kind, "g", size))
    for guarantee, victims in [(size, size), (0, 0)]:
        found = Play(queue("q", guarantee), queue("r", weight=100), *world).decide()
        assert report(found, "r")[2] == 4
        assert len(evicted(found)) == victims
    found = Play(queue("q", 12), queue("r", 12), *world).decide()
    assert [report(found, name)[0] for name in "qr"] == [2, 2]
    assert not evicted(found)  # r runs inside its written guarantee


@KINDS
def test_a_gang_beyond_the_devices_is_above_the_capacity_of_the_cluster(kind: str) -> None:
    play = Play(queue(), *CLASSES, *NODES, pool("net", "xyz"), *asking(kind, "g", 4))
    assert [each.reason for each in play.decide().verdicts] == [Reason.ABOVE_CLUSTER_CAPACITY]
    play.apply(*asking(kind, "h", 3))
    assert [each.group for each in play.decide().placements] == ["team/h"]


@pytest.mark.parametrize("special", [False, True])
def test_a_device_counts_once_when_its_pod_runs_on_a_node_out_of_service(special: bool) -> None:
    away = zoned("a", "east", cordoned=True)
    pods = running("g", "wx", "q", special=special)
    world = (queue(), *CLASSES, away, *NODES[1:], pool("net", "wxyz"))
    assert capacity(*world, *pods) == capacity(*world, *asking("claims", "g", 1)) == 4
    alone = (queue(), *CLASSES, away, pool("net", "wxyz"))
    assert capacity(*alone, *pods) == 2, "no node in service can use the others"


@KINDS
def test_a_flavor_has_the_devices_that_only_its_nodes_can_use(kind: str) -> None:
    flavors = [
        {"name": zone, "nodeSelector": {ZONE: zone}, "guarantee": {GPU: 9}} for zone in ("east", "west")
    ]
    slices = pool("net", "wxyz"), pool("east", "st", "east"), slice_on("c", "z")
    session = session_of(queue(flavors=flavors), *CLASSES, *NODES, *slices, *asking(kind, "g", 1))
    shares = [session.fair_shares.of(QueueName("q"), ((ZONE, zone),)) for zone in ("east", "west")]
    assert [each.guarantee.get(GPU, 0) for each in shares] == [2, 1]
    assert all(each.fair_share.get("cpu") for each in shares), "pods may run there with other devices"


def test_cores_are_counted_beside_devices_on_all_nodes_that_can_use_them() -> None:
    """They do not become scarce because devices of several nodes are on none."""
    session = session_of(queue(), *CLASSES, *NODES, pool("net", "wxyz"), *asking("claims", "g", 1))
    assert not session.fair_shares.is_scarce_beside(GPU, "cpu")


def test_a_resource_has_the_devices_of_all_its_classes() -> None:
    """Whether or not pods request it themselves, for which only one class is used."""
    world = (queue(guarantee=9), device_class("gpu", GPU), device_class("fast", GPU), *NODES)
    slices = slice_on("a", "x", "y"), slice_on("a", "f0", driver="fast")
    for kind in ("claims", "requests"):
        assert capacity(*world, *slices, *asking(kind, "g", 1)) == 3


# --- any slices ---------------------------------------------------------------------------------------------

names = st.sampled_from(["", "east", "west", "a", "b", "c", "d"])
"""Where devices can be used: on all nodes, those of a zone, or one node."""
places = st.lists(st.tuples(names, st.integers(1, 3)), max_size=4)
kinds_of_nodes = st.tuples(st.sampled_from(["east", "west"]), st.booleans(), st.sampled_from([0, 0, 2]))


def reached(place: str, nodes: Mapping[str, tuple[str, bool, int]]) -> set[str]:
    return {name for name, (zone, _, _) in nodes.items() if place in ("", zone, name)}


def expected(
    slices: Sequence[tuple[str, int]],
    nodes: Mapping[str, tuple[str, bool, int]],
    held: Mapping[tuple[int, int], str],
) -> int:
    """What nodes in service list, the devices that others of them can use, and what pods use elsewhere."""
    in_service = {name for name, (_, cordoned, _) in nodes.items() if not cordoned}
    total = sum(nodes[name][2] for name in in_service)
    for number, (place, count) in enumerate(slices):
        counts = any(not nodes[name][2] for name in reached(place, nodes) & in_service)
        for index in range(count):
            user = held.get((number, index))
            total += counts or (user is not None and user not in in_service)
    return total


@holds(25)
@given(st.lists(kinds_of_nodes, min_size=1, max_size=4), places, st.booleans(), st.data())
def test_the_capacity_is_that_of_the_slices(
    rows: list[tuple[str, bool, int]], slices: list[tuple[str, int]], special: bool, data: st.DataObject
) -> None:
    nodes = dict(zip("abcd", rows, strict=False))
    events: list[Applied] = [queue(), *CLASSES]
    for name, (zone, off, own) in nodes.items():
        events.append(zoned(name, zone, cordoned=off, **({"gpu": own} if own else {})))
    held: dict[tuple[int, int], str] = {}
    for number, (place, count) in enumerate(slices):
        of, devices = f"p{number}", [f"d{index}" for index in range(count)]
        events.append(pool(of, devices, place))
        users = sorted(name for name in reached(place, nodes) if not (special and nodes[name][2]))
        for index, device in enumerate(devices if users else ()):
            user = data.draw(st.sampled_from(["", *users]))
            if user:
                held[number, index] = user
                events += running(f"u{number}{index}", [device], "q", node=user, of=of, special=special)
    events += asking("requests" if special else "claims", "g", 1)
    assert capacity(*events) == expected(slices, nodes, held)
