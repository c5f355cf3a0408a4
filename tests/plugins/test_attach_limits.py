"""Attach limits of nodes (CSINode): the volumes of a driver that can be attached to a node at a time."""

from typing import Any

import pytest
from phalanx.cache.events import Assumed
from phalanx.model.api.kinds import KINDS, STORAGE_KINDS
from phalanx.model.api.meta import KubeObject
from phalanx.model.events import Applied, Deleted
from phalanx.model.names import LABEL_POD_GROUP
from phalanx.model.supplies.volumes.attach_limits import ATTACH_LIMITS

from tests.model.written import named, node, pod, pod_group, written
from tests.plugins.test_claim_users import World
from tests.service.plain_check import PlainCheck

DRIVER = "disk.example.com"
CLASS = named("StorageClass", "late", provisioner=DRIVER, volumeBindingMode="WaitForFirstConsumer")


def csi_node(name: str = "n", limit: int | None = 2, driver: str = DRIVER) -> KubeObject:
    allocatable = None if limit is None else {"count": limit}
    return named("CSINode", name, spec={"drivers": [{"name": driver, "allocatable": allocatable}]})


def late(name: str) -> KubeObject:
    """A claim for which a volume is provisioned."""
    return named("PersistentVolumeClaim", name, namespace="team", spec={"storageClassName": "late"})


def volume(name: str, claim: str = "") -> KubeObject:
    reference = {"namespace": "team", "name": claim, "uid": f"uid-{claim}"}
    spec = {"csi": {"driver": DRIVER, "volumeHandle": f"disk-{name}"}, "claimRef": reference}
    return named("PersistentVolume", name, spec=spec)


def bound(name: str, by: str = "") -> tuple[KubeObject, KubeObject]:
    """A claim with a volume of the same name."""
    meta = {"name": name, "namespace": "team", "uid": f"uid-{name}"}
    meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}  # type: ignore[assignment]
    claim = {"metadata": meta, "spec": {"volumeName": by or name}, "status": {"phase": "Bound"}}
    return written(KINDS["PersistentVolumeClaim"].struct, claim), volume(by or name, name)


def attachment(name: str, volume: str, node: str = "n", driver: str = DRIVER) -> KubeObject:
    spec = {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume}}
    return named("VolumeAttachment", name, spec=spec)


def user(name: str, *claims: str, **spec: Any) -> KubeObject:
    mounts = [
        {"name": f"v{index}", "persistentVolumeClaim": {"claimName": claim}}
        for index, claim in enumerate(claims)
    ]
    return pod(name, uid=name, volumes=mounts, **spec)


def running(name: str, *claims: str) -> KubeObject:
    """A pod of another scheduler."""
    return user(name, *claims, nodeName="n", schedulerName="default-scheduler")


def test_pods_with_volumes_up_to_the_limit_are_placed() -> None:
    claims = [late(name) for name in "abc"]
    placed, verdicts = World(CLASS, csi_node(), *claims, *[user(name, name) for name in "abc"]).decide()
    assert placed == ["a", "b"]
    assert f"the limit of 2 volumes of {DRIVER} is reached on 1 node" in verdicts["c"]


@pytest.mark.parametrize(
    ("objects", "is_placed"),
    [
        ([], True),
        ([running("x", "x")], True),
        ([running("x", "x", "y")], False),
        # a volume that several pods use counts once
        ([running("x", "x"), running("y", "x")], True),
        # so does one that a VolumeAttachment names
        ([running("x", "x"), attachment("x", "x")], True),
        ([running("x", "x"), attachment("y", "y")], False),
        ([attachment("x", "x"), attachment("y", "y")], False),
        ([attachment("x", "x"), attachment("x2", "x")], True),
        ([attachment("x", "x"), attachment("y", "y", node="other")], True),
        ([attachment("x", "x"), attachment("y", "y", driver="other.example.com")], True),
        ([attachment("x", "x"), attachment("y", "gone")], True),
        # claims that do not exist do not count
        ([running("x", "x", "gone")], True),
    ],
)
def test_volumes_on_a_node_count_once(objects: list[KubeObject], *, is_placed: bool) -> None:
    world = World(CLASS, csi_node(), *bound("x"), *bound("y"), late("a"), *objects, user("a", "a"))
    assert world.decide()[0] == (["a"] if is_placed else [])


def test_the_order_of_objects_does_not_matter() -> None:
    objects = [attachment("y", "y"), running("x", "x"), user("a", "a"), late("a"), *bound("y"), *bound("x")]
    world = World(*objects, CLASS, csi_node())
    assert not world.decide()[0]


@pytest.mark.parametrize(
    "change",
    [
        Applied(csi_node(limit=3)),
        Applied(csi_node(limit=None)),
        Deleted("CSINode", "", "n"),
        Deleted("VolumeAttachment", "", "y"),
        Deleted("Pod", "team", "x"),
        Deleted("PersistentVolume", "", "y"),
    ],
)
def test_a_pod_is_tried_again_when_a_volume_can_be_attached(change: Applied | Deleted) -> None:
    objects = (*bound("x"), *bound("y"), running("x", "x"), attachment("y", "y"), late("a"), user("a", "a"))
    world = World(CLASS, csi_node(), *objects)
    assert not world.decide()[0]
    assert world.cache.apply(change).capacity_grew
    assert world.decide()[0] == ["a"]


def test_the_volume_of_an_assumed_pod_counts_and_keeps_counting_when_it_is_bound() -> None:
    world = World(CLASS, csi_node(limit=1), late("a"), user("a", "a"), late("b"), user("b", "b"))
    snapshot = world.cache.snapshot(now=0, seed=0, memory=world.memory)
    result = world.engine.decide(snapshot)
    binds = [bind for placement in result.placements for bind in placement.binds]
    world.memory = result.memory
    assert [bind.name for bind in binds] == ["a"]
    world.cache.apply_all([Assumed(bind) for bind in binds])
    assert not world.decide()[0]
    world.cache.apply_all(map(Applied, bound("a")))
    assert not world.decide()[0]
    state = world.cache.node_state(binds[0].node)
    assert state is not None
    world.cache.apply(Applied(attachment("a", "a")))
    assert world.cache.node_state(binds[0].node) == state
    assert not world.decide()[0]


def test_a_pod_with_more_volumes_than_the_limit_of_a_node_is_for_other_nodes() -> None:
    claims = [late(name) for name in "abc"]
    world = World(CLASS, csi_node(), *claims, user("p", *"abc"))
    placed, verdicts = world.decide()
    assert not placed
    assert f"driver {DRIVER} attaches 2 volumes at most, a pod has 3" in verdicts["p"]
    world.cache.apply_all(map(Applied, (node("m"), csi_node("m", limit=3))))
    assert world.decide()[0] == ["p"]


@pytest.mark.parametrize(
    ("installed", "prevents", "is_placed"),
    [
        (None, True, False),
        (csi_node(driver="other.example.com"), True, False),
        (csi_node(limit=None), True, True),
        (None, False, True),
        (None, None, True),
    ],
)
def test_a_driver_may_have_to_be_installed(
    installed: KubeObject | None, *, prevents: bool | None, is_placed: bool
) -> None:
    driver = named("CSIDriver", DRIVER, spec={"preventPodSchedulingIfMissing": prevents})
    world = World(CLASS, late("a"), user("a", "a"), driver, *[each for each in (installed,) if each])
    placed, verdicts = world.decide()
    assert placed == (["a"] if is_placed else [])
    if not is_placed:
        assert f"driver {DRIVER} is not installed" in verdicts["a"]
        world.cache.apply(Applied(csi_node()))
        assert world.decide()[0] == ["a"]


def test_a_gang_is_spread_over_nodes_that_can_attach_its_volumes() -> None:
    nodes = [node(name) for name in "mo"]
    limits = [csi_node("n", limit=2), csi_node("m", limit=1), csi_node("o", limit=0)]
    members = [user(name, name, labels={LABEL_POD_GROUP: "g"}) for name in "abc"]
    claims = [late(name) for name in "abc"]
    world = World(CLASS, *nodes, *limits[1:], *claims, *members, pod_group(minMember=3), csi_node(limit=1))
    assert not world.decide()[0]
    world.cache.apply(Applied(limits[0]))
    result = world.engine.decide(world.cache.snapshot(now=0, seed=0, memory=world.memory))
    used = sorted(bind.node for placement in result.placements for bind in placement.binds)
    assert used == ["m", "n", "n"]


def test_limits_of_other_drivers_and_volumes_of_other_kinds_do_not_matter() -> None:
    nfs = named("PersistentVolume", "x", spec={"claimRef": {"namespace": "team", "name": "x"}})
    claim, _ = bound("x")
    world = World(CLASS, csi_node(limit=0), claim, nfs, user("x", "x"))
    assert world.decide()[0] == ["x"]
    state = world.cache.node_state(next(iter(world.cache.nodes())))  # type: ignore[arg-type]
    assert state is not None
    assert ATTACH_LIMITS.resource(DRIVER) in state.used


def test_drivers_are_watched_once_a_claim_has_a_volume_of_one() -> None:
    claim, disk = bound("x")
    world = World(claim)
    assert world.cache.workload_kinds() == ()
    assert world.cache.apply(Applied(disk)).workload_kinds == STORAGE_KINDS


def test_an_assumed_pod_must_not_be_bound_when_the_limit_was_lowered() -> None:
    world = World(CLASS, csi_node(limit=1), late("a"), user("a", "a"))
    snapshot = world.cache.snapshot(now=0, seed=0, memory=world.memory)
    result = world.engine.decide(snapshot)
    checks = PlainCheck(world.cache, world.config)
    (placement,) = result.placements
    world.cache.apply_all([Assumed(bind) for bind in placement.binds])
    assert checks.gang(placement) is None
    world.cache.apply(Applied(csi_node(limit=0)))
    objection = checks.gang(placement)
    assert objection is not None
    assert DRIVER in objection
    world.cache.apply(Applied(csi_node(limit=1)))
    world.cache.apply(Applied(running("x", "x")))
    world.cache.apply_all(map(Applied, bound("x")))
    assert checks.gang(placement) == f"node n has more volumes of {DRIVER} than its limit since the decision"
