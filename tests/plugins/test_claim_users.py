"""Claims with the access mode ReadWriteOncePod, and claims of generic ephemeral volumes."""

from typing import Any

import pytest
from phalanx.cycle import Engine
from phalanx.deciders.port import new_cache
from phalanx.framework.config import SchedulerConfig
from phalanx.model.api.core import PersistentVolume, PersistentVolumeClaim
from phalanx.model.api.meta import KubeObject
from phalanx.model.events import Applied, Deleted
from phalanx.model.memory import Memory
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.model.written import node, pod, written

MOUNTS = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
EPHEMERAL = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]


def bound(name: str = "c", mode: str = "ReadWriteOncePod", owner: str = "") -> tuple[KubeObject, KubeObject]:
    """A claim that is bound to a volume of the same name."""
    meta: dict[str, Any] = {"name": name, "namespace": "team", "uid": f"uid-{name}"}
    meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    if owner:
        meta["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": True}
        ]
    claim = {
        "metadata": meta,
        "spec": {"volumeName": name, "accessModes": [mode]},
        "status": {"phase": "Bound"},
    }
    volume = {"metadata": {"name": name, "uid": f"pv-{name}"}}
    return written(PersistentVolumeClaim, claim), written(PersistentVolume, volume)


class World:
    """A cache with a node, and the engine that decides about it."""

    def __init__(self, *objects: KubeObject) -> None:
        self.config = SchedulerConfig()
        self.cache = new_cache(self.config)
        self.engine = Engine(self.config)
        self.memory = Memory()
        self.cache.apply_all(map(Applied, (node("n"), *objects)))

    def decide(self) -> tuple[list[str], dict[str, str]]:
        """Names of the placed pods, and the messages of verdicts by name."""
        result = self.engine.decide(self.cache.snapshot(now=0, seed=0, memory=self.memory))
        self.memory = result.memory
        check_cache(self.cache)
        placed = [bind.name for placement in result.placements for bind in placement.binds]
        return placed, {verdict.gang: verdict.message for verdict in result.verdicts}


def test_a_claim_for_one_pod_is_free_when_the_pod_that_uses_it_is_gone() -> None:
    """The pod that uses it is one of another scheduler, on any node."""
    other = pod("old", uid="old", volumes=MOUNTS, nodeName="elsewhere", schedulerName="default-scheduler")
    world = World(*bound(), other, pod("new", uid="new", volumes=MOUNTS))
    placed, verdicts = world.decide()
    assert not placed
    assert "team/c allows one pod (ReadWriteOncePod), and pod team/old uses it" in verdicts["new"]
    world.cache.apply(Deleted("Pod", "team", "old"))
    assert world.decide()[0] == ["new"]


@pytest.mark.parametrize(("mode", "count"), [("ReadWriteOncePod", 1), ("ReadWriteOnce", 2)])
def test_of_two_pods_in_one_cycle_one_gets_the_claim(mode: str, count: int) -> None:
    pods = [pod(name, uid=name, volumes=MOUNTS) for name in "ab"]
    placed, verdicts = World(*bound(mode=mode), *pods).decide()
    assert len(placed) == count
    if count == 1:
        assert placed == ["a"]
        assert "pod team/a waits for it and is first" in verdicts["b"]


def test_pods_that_wait_for_another_scheduler_do_not_keep_the_claim() -> None:
    other = pod("a", uid="a", volumes=MOUNTS, schedulerName="default-scheduler")
    assert World(*bound(), other, pod("b", uid="b", volumes=MOUNTS)).decide()[0] == ["b"]


def test_a_pod_waits_until_the_claim_of_its_ephemeral_volume_exists() -> None:
    world = World(pod("p", uid="uid-p", volumes=EPHEMERAL))
    placed, verdicts = world.decide()
    assert not placed
    assert "team/p-v cannot be used: kube-controller-manager has not created it yet" in verdicts["uid-p"]
    world.cache.apply_all(map(Applied, bound("p-v", owner="uid-p")))
    assert world.decide()[0] == ["p"]


def test_a_claim_of_another_pod_is_no_claim_of_an_ephemeral_volume() -> None:
    placed, verdicts = World(*bound("p-v", owner="old"), pod("p", uid="uid-p", volumes=EPHEMERAL)).decide()
    assert not placed
    assert "it was not created for pod team/p" in verdicts["uid-p"]
