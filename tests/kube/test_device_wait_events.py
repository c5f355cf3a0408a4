"""Which events of the API lead to a new look at a gang that waits for its devices."""

from typing import Any

import msgspec
import pytest
import structlog
from phalanx.kube.binding import BinderCallbacks
from phalanx.kube.devices.device_waits import DeviceWait, DeviceWaits
from phalanx.model.api import core
from phalanx.model.decisions import Bind
from phalanx.model.events import ApiEvent, Applied, Deleted, Relisted
from phalanx.model.names import NodeName, PodUid
from phalanx.model.supplies.devices.api import DeviceTaintRule, ResourceClaim, ResourceSlice
from phalanx.model.supplies.devices.claims import AllocatedDevice, Allocation, AwaitedClaim, ClaimGrant
from phalanx.model.supplies.devices.pools import Binding, NodeChoice

from tests.kube.test_binder import Plans, placement
from tests.manual_clock import ManualClock

DEVICE = AllocatedDevice("r", ("gpu.example.com", "pool", "d0"), binding=Binding(("attached",)))
FOUND = Allocation((DEVICE,), NodeChoice(node="n1"))


def applied(kind: Any, name: str, *, meta: dict[str, Any] | None = None, **fields: Any) -> Applied:
    written = {"metadata": {"namespace": "ns", "name": name, **(meta or {})}, **fields}
    return Applied(msgspec.convert(written, kind))


def claim(name: str, *, is_kept: bool = True, **meta: Any) -> Applied:
    return applied(ResourceClaim, name, meta=meta, status={"allocation": {}} if is_kept else {})


class Waits:
    """A gang of three pods on node "n1", each with one claim, of which the last is ready."""

    def __init__(self) -> None:
        self.awaited = {"c0": True, "c1": True}
        self.resumed = 0
        self.said: list[str] = []
        grants = [ClaimGrant("ns", f"c{number}", "u", FOUND) for number in range(3)]
        self.binds = tuple(
            Bind(PodUid(f"p{number}"), "ns", f"p{number}", NodeName("n1"), grants=(grant,))
            for number, grant in enumerate(grants)
        )
        callbacks = BinderCallbacks(
            check=Plans(),
            on_outcome=lambda _placement, _outcome: None,
            awaited_claims=self._of,
            on_awaited=lambda _, why: self.said.append(why),
        )
        self.waits = DeviceWaits(ManualClock(), callbacks)
        self.wait = DeviceWait(placement(*self.binds), self._resume, structlog.get_logger("test"))

    def _resume(self) -> None:
        self.resumed += 1

    def _of(self, bind: Bind) -> tuple[AwaitedClaim, ...]:
        found = [each.name for each in bind.grants if each.name in self.awaited]
        return tuple(AwaitedClaim("ns", name, "why", self.awaited[name]) for name in found)

    def hold(self) -> bool:
        return self.waits.hold(self.wait, self.binds)


@pytest.mark.parametrize(
    "event",
    [
        claim("c2", is_kept=False),
        claim("c2", deletionTimestamp="2026-11-26T00:00:00Z"),
        Deleted("ResourceClaim", "ns", "c2"),
        Relisted("ResourceClaim", ()),
        Deleted("Pod", "ns", "p1"),
        applied(core.Pod, "p1", meta={"deletionTimestamp": "2026-11-26T00:00:00Z"}),
        applied(core.Pod, "p1", spec={"nodeName": "n2"}),
        Deleted("Node", "", "n1"),
        applied(ResourceSlice, "s", spec={"driver": "gpu.example.com", "pool": {"name": "pool"}}),
        Deleted("ResourceSlice", "", "s"),
        applied(DeviceTaintRule, "rule"),
    ],
)
async def test_an_event_that_may_end_the_placement_leads_to_one_look(event: ApiEvent) -> None:
    world = Waits()
    assert world.hold()
    world.waits.notice(event)
    world.waits.notice(event)
    assert world.resumed == 1
    assert world.hold(), "it waits again if nothing has changed"
    world.waits.notice(event)
    assert world.resumed == 2


@pytest.mark.parametrize(
    "event",
    [
        claim("c0"),
        claim("c2"),
        claim("other", is_kept=False),
        Deleted("Pod", "ns", "other"),
        Deleted("Pod", "other", "p1"),
        applied(core.Pod, "p1"),
        Deleted("Node", "", "n2"),
        applied(core.Node, "n1"),
        applied(ResourceSlice, "s", spec={"driver": "gpu.example.com", "pool": {"name": "other"}}),
        Relisted("PodGroup", ()),
        Deleted("DeviceTaintRule", "", "rule"),
    ],
)
async def test_no_other_event_does(event: ApiEvent) -> None:
    world = Waits()
    assert world.hold()
    world.waits.notice(event)
    assert not world.resumed


async def test_claims_become_ready_one_by_one() -> None:
    world = Waits()
    assert world.hold()
    del world.awaited["c0"]
    world.waits.notice(claim("c0"))
    world.waits.notice(claim("c0"))
    assert not world.resumed
    assert world.said == ["ResourceClaim ns/c0: why", "ResourceClaim ns/c1: why"]
    world.awaited["c1"] = False
    world.waits.notice(claim("c1"))
    assert world.resumed == 1, "it has failed, or is not seen"
    assert world.hold()
    del world.awaited["c1"]
    world.waits.notice(claim("c1"))
    assert world.resumed == 2
    assert not world.hold()
    assert world.said[-1] == ""


async def test_a_gang_that_has_ended_is_not_looked_at() -> None:
    world = Waits()
    assert world.hold()
    world.waits.end(world.wait)
    world.waits.end(world.wait)
    world.waits.notice(Deleted("Node", "", "n1"))
    world.waits.resume_all()
    assert not world.resumed
