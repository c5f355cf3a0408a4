"""Which placements are refused because the cluster has changed since the decision."""

from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Assumed, Deleted
from phalanx.cycle import decide
from phalanx.framework.config import SchedulerConfig
from phalanx.model.api.core import PersistentVolume
from phalanx.model.api.node_topologies import NodeResourceTopology
from phalanx.model.decisions import Bind, Certificate, Placement
from phalanx.model.memory import Memory
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.pods import Device
from phalanx.model.snapshot import Level, Topology
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.assumed import assumed
from tests.model.written import claim, label, node, pod, pod_group, written
from tests.node_topologies import node_topology
from tests.service.plain_check import PlainCheck

CAPACITY = {"allocatable": {"cpu": "8", "pods": "10"}}
Change = dict[str, Any]


def with_condition(kind: str, status: str) -> Change:
    return {"status": {**CAPACITY, "conditions": [{"type": kind, "status": status}]}}


def bind_error(changed: Change | None) -> str | None:
    """Plan a gang on the only node, change the node, check the bind."""
    config = SchedulerConfig()
    cache = Cache(scheduler_name=config.scheduler_name)
    member = pod("a", uid="a", requests={"cpu": 1}, labels={label("pod-group"): "g"})
    rack = {"rack": "r"}
    objects = (node("n", labels=rack, status=CAPACITY), member)
    cache.apply_all(map(Applied, (*objects, pod_group("g", topology={"required": "rack"}))))
    check = PlainCheck(cache, config)
    snapshot = cache.snapshot(now=0, seed=0, memory=Memory())
    snapshot = replace(snapshot, topologies={"": Topology("", (Level("rack", "rack"),))})
    (placement,) = decide(snapshot, config).placements
    cache.apply(Assumed(placement.binds[0]))
    assert check.gang(placement) is None
    if changed is None:
        cache.apply(Deleted("Node", "", "n"))
    else:
        cache.apply(Applied(node("n", **{"labels": rack, "status": CAPACITY, **changed})))
    return check.bind(placement, placement.binds[0])


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (None, "node n is gone"),
        (with_condition("Ready", "False"), "node n: condition Ready is False"),
        (with_condition("Ready", "Unknown"), "node n: condition Ready is Unknown"),
        (with_condition("GpuXidError", "True"), "node n: condition GpuXidError is True"),
        ({"labels": {"rack": "another"}}, "node n has left the domain of the placement"),
        ({"labels": {"zone": "z", "rack": "r"}}, None),
        ({"labels": {}}, "node n has left the domain of the placement"),
        (with_condition("NodeNotInNWTopologyCM", "True"), "node n: its topology is unknown"),
        ({"spec": {"unschedulable": True}}, "node n: cordoned"),
        (
            {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}},
            "node n: taint k:NoExecute not tolerated",
        ),
        (
            {"status": {"allocatable": {"cpu": "0", "pods": "10"}}},
            "node n has insufficient cpu since the decision",
        ),
        (with_condition("Ready", "True"), None),
        ({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}}, None),
    ],
)
def test_the_node_is_checked_again(changed: Change | None, expected: str | None) -> None:
    assert bind_error(changed) == expected


def test_a_spread_constraint_is_checked_again() -> None:
    config = SchedulerConfig()
    cache = Cache(scheduler_name=config.scheduler_name)
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    here, there = node("n", labels={"zone": "a"}, status=CAPACITY), node("m", labels={"zone": "b"})
    new = pod("new", uid="new", labels={"app": "x"}, topologySpreadConstraints=[constraint])
    cache.apply_all(map(Applied, (here, there, new)))
    (placement,) = decide(cache.snapshot(now=0, seed=0, memory=Memory()), config).placements
    (bind,) = placement.binds
    assert bind.node == "n"
    cache.apply(Assumed(bind))
    check = PlainCheck(cache, config)
    assert check.gang(placement) is None
    cache.apply(Applied(pod("y", uid="y", labels={"app": "y"}, nodeName="n")))
    assert check.gang(placement) is None
    cache.apply(Applied(pod("other", uid="other", labels={"app": "x"}, nodeName="n")))
    expected = "node n: topology spread by zone: maxSkew 1 would be 2 since the decision"
    assert check.gang(placement) == expected
    cache.apply(Applied(pod("third", uid="third", labels={"app": "x"}, nodeName="m")))
    assert check.gang(placement) is None
    check_cache(cache)


def test_a_port_that_another_scheduler_gave_away_is_checked_again() -> None:
    config = SchedulerConfig()
    cache = Cache(scheduler_name=config.scheduler_name)
    main = [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 8080}]}]
    new = pod("new", uid="new", containers=main)
    cache.apply_all(map(Applied, (node("n", status=CAPACITY), node("m", status=CAPACITY), new)))
    (placement,) = decide(cache.snapshot(now=0, seed=0, memory=Memory()), config).placements
    cache.apply(Assumed(placement.binds[0]))
    check = PlainCheck(cache, config)
    assert check.gang(placement) is None
    where = placement.binds[0].node
    elsewhere = "m" if where == "n" else "n"
    cache.apply(Applied(pod("first", uid="first", containers=main, nodeName=elsewhere)))
    assert check.gang(placement) is None
    cache.apply(Applied(pod("second", uid="second", containers=main, nodeName=where)))
    assert check.gang(placement) == f"node {where}: port 8080 is in use since the decision"


def test_a_node_with_overcommitted_gpus_accepts_pods_without_gpus() -> None:
    """Volcano #2999: a node with fewer GPUs than its pods used was not used at all any more."""
    config = SchedulerConfig()
    cache = Cache(scheduler_name=config.scheduler_name)
    old = pod("old", uid="old", nodeName="n", requests={"example.com/gpu": 2})
    new = pod("new", uid="new", requests={"cpu": 1})
    offered = {"allocatable": {"cpu": "8", "pods": "10", "example.com/gpu": "1"}}
    cache.apply_all(map(Applied, (node("n", status=offered), old, new)))
    (placement,) = decide(cache.snapshot(now=0, seed=0, memory=Memory()), config).placements
    cache.apply(Assumed(placement.binds[0]))
    assert PlainCheck(cache, config).gang(placement) is None


SHARING = {label("gpu-sharing"): "true", "nvidia.com/gpu.count": "2"}


def shares(*asked: str, index: str | None = None) -> dict[str, Any]:
    share = {label("gpu-share"): text for text in asked}
    return {"annotations": {**share, **({label("gpu-index"): index} if index is not None else {})}}


def gpu_memory(asked: str) -> dict[str, Any]:
    return {"annotations": {label("gpu-memory"): asked}}


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        (shares("500", index="0"), None),
        (shares("500", index="1"), "GPU 1 of node n has insufficient capacity since the decision"),
        (shares("400"), None),
        (shares("401"), "GPU 1 of node n has insufficient capacity since the decision"),
    ],
)
def test_a_device_that_another_pod_took_in_the_meantime(meta: dict[str, Any], expected: str | None) -> None:
    config = SchedulerConfig()
    cache = Cache(scheduler_name=config.scheduler_name)
    old = pod("old", uid="old", nodeName="n", meta=shares("400", index="1"))
    new = pod("new", uid="new", meta=shares("200"))
    cache.apply_all(map(Applied, (node("n", labels=SHARING, status=CAPACITY), old, new)))
    (placement,) = decide(cache.snapshot(now=0, seed=0, memory=Memory()), config).placements
    (bind,) = placement.binds
    assert bind.device == Device(index=1, taken=200)
    cache.apply(Assumed(bind))
    assert PlainCheck(cache, config).gang(placement) is None
    cache.apply(Applied(pod("other", uid="other", nodeName="n", meta=meta)))
    check_cache(cache)
    assert PlainCheck(cache, config).gang(placement) == expected


ASKS_FOR_MORE = "pod team/new requests more of a GPU since the decision"


@pytest.mark.parametrize(
    ("before", "after", "memory", "expected"),
    [
        (shares("200"), shares("200"), "81920", None),
        (shares("200"), shares("100"), "81920", None),
        (shares("200"), shares("201"), "81920", ASKS_FOR_MORE),
        ({}, shares("200"), "81920", ASKS_FOR_MORE),
        (gpu_memory("20Gi"), gpu_memory("20Gi"), "81920", None),
        (gpu_memory("20Gi"), gpu_memory("21Gi"), "81920", ASKS_FOR_MORE),
        (gpu_memory("20Gi"), gpu_memory("20Gi"), "40960", ASKS_FOR_MORE),
    ],
)
def test_a_pod_that_requests_more_of_a_device_in_the_meantime(
    before: dict[str, Any], after: dict[str, Any], memory: str, expected: str | None
) -> None:
    """Annotations change at any time, and a device can turn out to have less memory than was published."""
    config = SchedulerConfig()
    cache = Cache(scheduler_name=config.scheduler_name)
    labels = {**SHARING, "nvidia.com/gpu.memory": "81920"}
    cache.apply_all(
        map(Applied, (node("n", labels=labels, status=CAPACITY), pod("new", uid="new", meta=before)))
    )
    (placement,) = decide(cache.snapshot(now=0, seed=0, memory=Memory()), config).placements
    cache.apply(Applied(pod("new", uid="new", meta=after)))
    cache.apply(Applied(node("n", labels={**labels, "nvidia.com/gpu.memory": memory}, status=CAPACITY)))
    (bind,) = placement.binds
    cache.apply(Assumed(bind))
    assert PlainCheck(cache, config).gang(placement) == expected


def test_a_device_that_the_node_no_longer_has() -> None:
    config = SchedulerConfig()
    cache = Cache(scheduler_name=config.scheduler_name)
    old = pod("old", uid="old", nodeName="n", meta=shares("400", index="1"))
    new = pod("new", uid="new", meta=shares("200"))
    cache.apply_all(map(Applied, (node("n", labels=SHARING, status=CAPACITY), old, new)))
    (placement,) = decide(cache.snapshot(now=0, seed=0, memory=Memory()), config).placements
    (bind,) = placement.binds
    cache.apply(Assumed(bind))
    cache.apply(Applied(node("n", labels={**SHARING, "nvidia.com/gpu.count": "1"}, status=CAPACITY)))
    expected = PlainCheck(cache, config).gang(placement)
    assert expected == "GPU 1 of node n has insufficient capacity since the decision"


def test_a_running_member_that_left_the_domain_invalidates_the_plan() -> None:
    """The new members were placed with the running one; the plan is invalid once its node has moved."""
    config = SchedulerConfig()
    cache = Cache(scheduler_name=config.scheduler_name)
    labels = {label("pod-group"): "g"}
    old = pod("old", uid="old", nodeName="n1", requests={"cpu": 1}, labels=labels)
    new = pod("new", uid="new", requests={"cpu": 8}, labels=labels)
    nodes = [node(name, labels={"rack": "r"}, status=CAPACITY) for name in ("n1", "n2")]
    group = pod_group("g", topology={"required": "rack"}, minMember=2)
    cache.apply_all(map(Applied, (*nodes, old, new, group)))
    snapshot = cache.snapshot(now=0, seed=0, memory=Memory())
    snapshot = replace(snapshot, topologies={"": Topology("", (Level("rack", "rack"),))})
    (placement,) = decide(snapshot, config).placements
    assert [bind.node for bind in placement.binds] == ["n2"]
    cache.apply(Assumed(placement.binds[0]))
    assert PlainCheck(cache, config).gang(placement) is None
    cache.apply(Applied(node("n1", labels={"rack": "another"}, status=CAPACITY)))
    expected = PlainCheck(cache, config).gang(placement)
    assert expected == "running pod team/old is outside the domain of the placement"


@pytest.mark.parametrize(
    ("rack", "expected"), [("r", None), ("other", "has left the domain of the placement")]
)
def test_the_domain_of_a_subgroup_is_checked_again(rack: str, expected: str | None) -> None:
    config = SchedulerConfig()
    cache = Cache(scheduler_name=config.scheduler_name)
    labels = {label("pod-group"): "g", label("subgroup"): "left"}
    member = pod("a", uid="a", requests={"cpu": 1}, labels=labels)
    left = {"name": "left", "minMember": 1, "topology": {"required": "rack"}}
    group = pod_group("g", minMember=1, subGroups=[left])
    cache.apply_all(map(Applied, (node("n", labels={"rack": "r"}, status=CAPACITY), member, group)))
    snapshot = cache.snapshot(now=0, seed=0, memory=Memory())
    snapshot = replace(snapshot, topologies={"": Topology("", (Level("rack", "rack"),))})
    (placement,) = decide(snapshot, config).placements
    assert (placement.domain_labels, placement.node_labels) == ({}, {"n": {"rack": "r"}})
    cache.apply(Assumed(placement.binds[0]))
    cache.apply(Applied(node("n", labels={"rack": rack}, status=CAPACITY)))
    found = PlainCheck(cache, config).gang(placement)
    assert (found is None) if expected is None else (expected in (found or ""))


def test_a_pod_that_violates_anti_affinity_was_bound_in_the_meantime() -> None:
    """It is of another scheduler; the members of the gang are apart as planned."""
    config = SchedulerConfig()
    cache = Cache(scheduler_name=config.scheduler_name)
    term = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "x"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    labels = {label("pod-group"): "g", "app": "x"}
    members = [pod(name, uid=name, labels=labels, affinity=affinity) for name in "ab"]
    nodes = [node(name, labels={"rack": name}, status=CAPACITY) for name in "nm"]
    cache.apply_all(map(Applied, (*nodes, *members, pod_group("g", minMember=2))))
    (placement,) = decide(cache.snapshot(now=0, seed=0, memory=Memory()), config).placements
    cache.apply_all(Assumed(bind) for bind in placement.binds)
    check = PlainCheck(cache, config)
    assert check.gang(placement) is None
    cache.apply(Applied(pod("f", uid="f", nodeName="n", schedulerName="other", labels={"app": "x"})))
    (at_n,) = [bind for bind in placement.binds if bind.node == "n"]
    assert check.gang(placement) == f"node n: anti-affinity of pod team/{at_n.name} by rack is violated"


# --- NUMA zones ---------------------------------------------------------------------------------------------

ZONE = {"example.com/gpu": "4"}
ZONED = {"allocatable": {"cpu": "64", "pods": "10", "example.com/gpu": "8"}}
NO_ZONE = "node n may have no NUMA zone for pod team/a since the decision"


def zoned_cache(*others: Any) -> Cache:
    cache = Cache(scheduler_name="phalanx")
    zones = written(NodeResourceTopology, node_topology("n", ZONE, ZONE))
    cache.apply_all(map(Applied, (node("n", status=ZONED), zones, *others)))
    return cache


def requesting_pod(name: str, gpus: int, **fields: Any) -> Any:
    return pod(name, uid=name, requests={"example.com/gpu": gpus}, **fields)


@pytest.mark.parametrize(
    ("sizes", "expected"), [([4], None), ([1], None), ([2, 1], NO_ZONE), ([1, 1], NO_ZONE), ([], None)]
)
@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_zones_that_other_pods_may_have_taken_in_the_meantime(
    sizes: list[int], expected: str | None, phase: str
) -> None:
    """Two small pods may be in two zones."""
    cache, config = zoned_cache(requesting_pod("a", 4)), SchedulerConfig()
    (placement,) = decide(cache.snapshot(now=0, seed=0, memory=Memory()), config).placements
    cache.apply(Assumed(placement.binds[0]))
    check = PlainCheck(cache, config)
    assert check.gang(placement) is None
    for index, size in enumerate(sizes):
        cache.apply(Applied(requesting_pod(f"x{index}", size, nodeName="n", status={"phase": phase})))
    assert check.gang(placement) == expected


def test_zones_that_became_smaller_in_the_meantime() -> None:
    cache, config = zoned_cache(requesting_pod("a", 4)), SchedulerConfig()
    (placement,) = decide(cache.snapshot(now=0, seed=0, memory=Memory()), config).placements
    cache.apply(Assumed(placement.binds[0]))
    small = {"example.com/gpu": "2"}
    cache.apply(Applied(written(NodeResourceTopology, node_topology("n", *[small] * 4))))
    expected = PlainCheck(cache, config).gang(placement)
    assert expected == "node n: have no NUMA zone with 4 example.com/gpu together"


def test_a_member_that_is_already_running_is_not_counted_twice() -> None:
    """The published zones lag behind, but the plan counted the member."""
    three = {"allocatable": {"cpu": "64", "pods": "10", "example.com/gpu": "12"}}
    left = [{"example.com/gpu": "2"}, ZONE, ZONE]
    zones = written(NodeResourceTopology, node_topology("n", ZONE, ZONE, ZONE, available=left))
    runs = {"nodeName": "n", "status": {"phase": "Running"}}
    cache, config = (
        zoned_cache(requesting_pod("x", 1, **runs), requesting_pod("y", 1, **runs)),
        SchedulerConfig(),
    )
    labels = {label("pod-group"): "g"}
    members = [requesting_pod(name, 4, labels=labels) for name in ("a", "b")]
    cache.apply_all(map(Applied, (node("n", status=three), zones, *members, pod_group("g", minMember=2))))
    (placement,) = decide(cache.snapshot(now=0, seed=0, memory=Memory()), config).placements
    for bind in placement.binds:
        cache.apply(Assumed(bind))
    check = PlainCheck(cache, config)
    assert check.gang(placement) is None
    cache.apply(Applied(requesting_pod("b", 4, labels=labels, **runs)))
    bind = next(each for each in placement.binds if each.name == "a")
    assert check.bind(placement, bind) is None
    cache.apply(Applied(requesting_pod("z", 1, **runs)))
    assert check.bind(placement, bind) == NO_ZONE


def volume(name: str, host: str) -> PersistentVolume:
    affinity = {"matchExpressions": [{"key": "host", "operator": "In", "values": [host]}]}
    spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": [affinity]}}}
    return written(PersistentVolume, {"metadata": {"name": name, "uid": name}, "spec": spec})


@pytest.mark.parametrize(("before", "after", "accepted"), [("on-n", "on-m", False), ("on-m", "on-n", True)])
def test_an_answer_about_a_node_does_not_outlive_the_claims(before: str, after: str, accepted: bool) -> None:
    config = SchedulerConfig()
    cache = Cache(scheduler_name=config.scheduler_name)
    mounts = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    nodes = [node(name, labels={"host": name}) for name in "mn"]
    volumes = [volume(f"on-{name}", name) for name in "mn"]
    member = pod("a", uid="a", volumes=mounts)
    cache.apply_all(map(Applied, (*nodes, *volumes, member, claim(volume=before))))
    cache.apply(assumed("a", "n"))
    check = PlainCheck(cache, config)
    bind = Bind(pod=PodUid("a"), namespace="team", name="a", node=NodeName("n"))
    certificate = Certificate(terms=(), objective=(), bound=(), proven=True, by="test")
    placement = Placement(GangId("a"), "a", cycle=1, cause="start", binds=(bind,), certificate=certificate)
    assert (check.bind(placement, bind) is None) is not accepted
    cache.apply(Applied(claim(volume=after)))
    assert (check.bind(placement, bind) is None) is accepted
