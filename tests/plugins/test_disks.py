"""Disks that volumes name without a claim: two pods of a node use one only if both only read it."""

from typing import Any

import pytest
from phalanx.model.api.meta import KubeObject
from phalanx.model.events import Applied, Deleted
from phalanx.model.names import LABEL_POD_GROUP

from tests.model.written import node, pod, pod_group
from tests.plugins.test_claim_users import World


def user(name: str, *, read_only: bool = False, disk: str = "d", **fields: Any) -> KubeObject:
    source = {"pdName": disk, "readOnly": read_only}
    return pod(name, uid=name, volumes=[{"name": "v", "gcePersistentDisk": source}], **fields)


def gang(size: int, *, read_only: bool) -> list[KubeObject]:
    labels = {LABEL_POD_GROUP: "g"}
    pods = [user(f"g-{index}", read_only=read_only, labels=labels) for index in range(size)]
    return [pod_group("g", minMember=size), *pods]


def world(*objects: KubeObject, nodes: str = "ab") -> World:
    made = World(*objects)
    made.cache.apply(Deleted("Node", "", "n"))
    made.cache.apply_all(Applied(node(name)) for name in nodes)
    return made


@pytest.mark.parametrize(("size", "read_only", "placed"), [(2, False, 2), (3, False, 0), (3, True, 3)])
def test_members_that_write_to_a_disk_get_nodes_of_their_own(
    size: int, *, read_only: bool, placed: int
) -> None:
    assert len(world(*gang(size, read_only=read_only)).decide()[0]) == placed


def test_the_disk_of_a_pod_of_another_scheduler_is_named() -> None:
    other = user("old", nodeName="a", schedulerName="default-scheduler")
    made = world(other, user("new", read_only=True), nodes="a")
    placed, verdicts = made.decide()
    assert not placed
    assert "disk GCE d is in use on 1 node" in verdicts["new"]
    made.cache.apply(Deleted("Pod", "team", "old"))
    assert made.decide()[0] == ["new"]


def test_a_pod_may_name_a_disk_twice() -> None:
    source = {"name": "v", "awsElasticBlockStore": {"volumeID": "d"}}
    made = world(pod("p", uid="p", volumes=[source, {**source, "name": "w"}]))
    assert made.decide()[0] == ["p"]


def test_pods_that_differ_in_their_disk_are_not_alike() -> None:
    made = world(user("x"), user("y", disk="other"), nodes="a")
    assert sorted(made.decide()[0]) == ["x", "y"]
