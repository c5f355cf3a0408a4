"""A change of claims or devices tries again the refused gangs that it could help, and no others."""

from typing import Any

import msgspec
import pytest
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Assumed, Changes, Deleted, Event, Relisted
from phalanx.cycle import Engine
from phalanx.framework.config import SchedulerConfig
from phalanx.model.api import core
from phalanx.model.api.kinds import DEVICE_KINDS
from phalanx.model.memory import Memory
from phalanx.model.supplies.devices.api import DeviceClass, ResourceClaim, ResourceSlice

from tests.cache.world import new_cache
from tests.fake_objects import fake_node, fake_pod

DRIVER = "gpu.example.com"


def written(kind: type, name: str, **fields: Any) -> Applied:
    meta = {"name": name, "namespace": "default", "uid": name, **fields.pop("meta", {})}
    return Applied(msgspec.convert({"metadata": meta, **fields}, kind))


def pod(name: str, claim: str = "", cpu: str = "1") -> Applied:
    found = fake_pod(name, requests={"cpu": cpu})
    found["metadata"]["uid"] = name
    if claim:
        found["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
    return Applied(msgspec.convert(found, core.Pod))


def claim(name: str, device: str = "", count: int = 1, **meta: Any) -> Applied:
    result = {"request": "r", "driver": DRIVER, "pool": "n", "device": device}
    status = {"allocation": {"devices": {"results": [result]}}} if device else {}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}
    return written(ResourceClaim, name, spec={"devices": {"requests": [request]}}, status=status, meta=meta)


def devices(*names: str) -> Applied:
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "n", "pool": pool, "devices": [{"name": each} for each in names]}
    return written(ResourceSlice, "n", spec=spec)


class Cluster:
    """Refused: pods without devices, one that lacks a device now, and one that asks for too many."""

    def __init__(self) -> None:
        self.cache: Cache = new_cache()
        self.engine, self.memory = Engine(SchedulerConfig()), Memory()
        self.tried = 0
        self.apply(*(Relisted(kind, ()) for kind in DEVICE_KINDS))
        self.apply(Applied(msgspec.convert(fake_node("n"), core.Node)), written(DeviceClass, "gpu", spec={}))
        self.apply(devices("x"), claim("other", "x"), claim("c"), claim("many", count=2))
        self.apply(pod("of-c", "c"), pod("of-many", "many"), pod("big", cpu="64"), pod("full", cpu="30.5"))
        assert self.cycle() == {"full"}
        self.apply(pod("needs-cpu", cpu="2"))
        assert self.cycle() == set()
        assert self.cycle() == set()
        assert not self.tried

    def apply(self, *events: Event) -> Changes:
        return self.cache.apply_all(events)

    def cycle(self) -> set[str]:
        """The pods that are placed in a cycle."""
        result = self.engine.decide(self.cache.snapshot(now=10_000, seed=0, memory=self.memory))
        self.memory, self.tried = result.memory, result.stats.gangs_tried
        binds = [bind for each in result.placements for bind in each.binds]
        self.apply(*(Assumed(bind) for bind in binds))
        return {bind.name for bind in binds}


@pytest.mark.parametrize("event", [claim("new"), claim("other", "x", labels={"a": "b"})])
def test_a_claim_that_frees_nothing_and_that_no_waiting_pod_names_helps_nobody(event: Event) -> None:
    cluster = Cluster()
    assert not cluster.apply(event).may_unblock
    cluster.cycle()
    assert not cluster.tried


@pytest.mark.parametrize("event", [claim("other"), Deleted("ResourceClaim", "default", "other")])
def test_a_device_that_is_free_again_helps_pods_with_claims(event: Event) -> None:
    """Pods that do not fit the empty cluster, and pods without claims, are not tried again."""
    cluster = Cluster()
    changes = cluster.apply(event)
    assert (changes.may_unblock, changes.supplies_freed, changes.capacity_grew) == (True, ("devices",), False)
    assert cluster.cycle() == {"of-c"}
    assert cluster.tried == 1


def test_new_devices_help_pods_that_did_not_fit_the_empty_cluster() -> None:
    cluster = Cluster()
    assert cluster.apply(devices("x", "y", "z")).may_unblock
    assert cluster.cycle() in ({"of-c"}, {"of-many"})
    assert cluster.tried == 2


def test_a_claim_that_is_created_again_with_less_helps_the_pod_that_names_it() -> None:
    """The cycle between the two events may not have run."""
    cluster = Cluster()
    cluster.apply(devices("x", "y"))
    assert cluster.cycle() == {"of-c"}
    changes = cluster.apply(Deleted("ResourceClaim", "default", "many"), claim("many", uid="new"))
    assert (changes.may_unblock, changes.gangs) == (True, ("of-many",))
    cluster.cycle()
    assert cluster.tried == 1


def test_nobody_is_woken_if_no_pod_with_claims_waits() -> None:
    cluster = Cluster()
    cluster.apply(*(Deleted("Pod", "default", name) for name in ("of-c", "of-many")))
    assert not cluster.apply(claim("other")).may_unblock
    assert not cluster.apply(devices("x", "y")).may_unblock
    cluster.cycle()
    assert not cluster.tried
