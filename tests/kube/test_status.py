"""Status is written when it changes, keeps conditions of others, and is not written to recreated objects."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from phalanx.kube.background_writer import BackgroundWriter, WriteQueue
from phalanx.kube.client import Patch
from phalanx.kube.errors import NotFound
from phalanx.kube.status import StatusWriter
from phalanx.model.api.kinds import KINDS
from phalanx.model.api.meta import Condition
from phalanx.model.api.native_pod_groups import NativePodGroup
from phalanx.model.api.pod_groups import Counts, PlacementStatus, PodGroup, PodGroupStatus
from phalanx.model.api.queues import Queue, QueueStatus
from phalanx.model.dialects.dialect import StatusWrite
from phalanx.model.dialects.native import NATIVE
from phalanx.model.names import PodUid, ShapeKey
from phalanx.model.pods import Pod, PodShape, Scheduled

from tests.kube.faults import FaultyTransport, answer, held_until
from tests.kube.reports import Reports
from tests.kube.test_binder import SwitchFence
from tests.kube.world import TIMEOUT, World
from tests.write_context import write_context

LONG_AGO = "2020-01-01T00:00:00Z"
NOW = "2026-01-01T00:00:00Z"


class StatusWriting:
    """A running status writer."""

    def __init__(self, world: World, transport: FaultyTransport) -> None:
        idle = asyncio.Event()
        idle.set()
        self.world = world
        self.reports = Reports()
        self.fence = SwitchFence()
        context = write_context(transport, reports=self.reports, fence=self.fence)
        queue = WriteQueue("status", 2, 100, "STATUS_WAITING_MAX", per_second=1000, burst=100)
        self.writer = BackgroundWriter(context, queue, none_due=idle)
        self.status = StatusWriter(context, writer=self.writer)

    async def pod(self, name: str) -> Pod:
        uid = PodUid(await self.world.pod(name))
        shape = PodShape(key=ShapeKey("s"), requests={})
        return Pod(
            uid=uid,
            namespace=self.world.namespace,
            name=name,
            shape=shape,
            scheduler_name="phalanx",
            created=0,
        )

    async def written(self) -> None:
        async with asyncio.timeout(30):
            await self.writer.idle.wait()

    async def conditions_of(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.world.get_pod(name))["status"].get("conditions", [])
        return found

    async def group(self, name: str) -> PodGroup:
        return await self.world.client.get(
            self.world.path("PodGroup", name), msgspec.json.Decoder(PodGroup).decode
        )


@asynccontextmanager
async def status_writing(world: World, transport: FaultyTransport) -> AsyncIterator[StatusWriting]:
    writing = StatusWriting(world, transport)
    task = asyncio.create_task(writing.writer.run())
    try:
        yield writing
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_the_condition_of_a_waiting_pod_has_the_reason(
    world: World, transport: FaultyTransport
) -> None:
    async with status_writing(world, transport) as writing:
        writing.status.pod_waits(await writing.pod("a"), reason="Unschedulable", message="0/3 nodes fit")
        await writing.written()
        (condition,) = await writing.conditions_of("a")
    assert condition["type"] == "PodScheduled"
    assert condition["status"] == "False"
    assert condition["reason"] == "Unschedulable"
    assert condition["message"] == "0/3 nodes fit"
    assert condition["lastTransitionTime"]


async def test_conditions_of_other_writers_are_kept(world: World, transport: FaultyTransport) -> None:
    async with status_writing(world, transport) as writing:
        pod = await writing.pod("a")
        theirs = {"status": {"conditions": [{"type": "example.com/checked", "status": "True"}]}}
        path = world.path("Pod", "a", "status")
        await world.client.patch(path, msgspec.json.encode(theirs), how=Patch.STRATEGIC, timeout=TIMEOUT)
        writing.status.pod_waits(pod, reason="Unschedulable", message="m")
        await writing.written()
        types = {condition["type"] for condition in await writing.conditions_of("a")}
        assert types == {"example.com/checked", "PodScheduled"}


async def test_an_unchanged_condition_is_not_written(world: World, transport: FaultyTransport) -> None:
    async with status_writing(world, transport) as writing:
        pod = await writing.pod("a")
        seen = msgspec.structs.replace(pod, scheduled=Scheduled("False", "Unschedulable", "m"))
        writing.status.pod_waits(seen, reason="Unschedulable", message="m")
        for _ in range(5):
            writing.status.pod_waits(pod, reason="Unschedulable", message="m")
        await writing.written()
        for _ in range(5):
            writing.status.pod_waits(pod, reason="Unschedulable", message="m")
        await writing.written()
        assert transport.count("PATCH", "/status") == 1


async def test_only_the_newest_condition_is_written_and_keeps_its_transition_time(
    world: World, transport: FaultyTransport
) -> None:
    release = asyncio.Event()
    async with status_writing(world, transport) as writing:
        pod = await writing.pod("a")
        transport.fault("PATCH", "/pods/a/status", held_until(release))
        writing.status.pod_waits(pod, reason="Unschedulable", message="one")
        while not transport.count("PATCH", "/status"):
            await asyncio.sleep(0)
        seen = msgspec.structs.replace(pod, scheduled=Scheduled("False", "Unschedulable", "one"))
        for message in ("two", "three", "four"):
            writing.status.pod_waits(seen, reason="Unschedulable", message=message)
        release.set()
        await writing.written()
        (condition,) = await writing.conditions_of("a")
        assert condition["message"] == "four"
        assert condition["lastTransitionTime"]
        assert transport.count("PATCH", "/status") == 2


async def test_a_recreated_pod_of_the_same_name_is_not_written(
    world: World, transport: FaultyTransport
) -> None:
    async with status_writing(world, transport) as writing:
        pod = await writing.pod("a")
        await world.delete_pod("a")
        await world.pod("a")
        writing.status.pod_waits(pod, reason="Unschedulable", message="m")
        await writing.written()
        assert await writing.conditions_of("a") == []
        assert writing.reports.counts["status refused"] == 1


async def test_nothing_is_written_about_a_pod_that_is_being_bound(
    world: World, transport: FaultyTransport
) -> None:
    release = asyncio.Event()
    async with status_writing(world, transport) as writing:
        one, two, three = [await writing.pod(name) for name in ("a", "b", "c")]
        transport.fault("PATCH", "/status", held_until(release), held_until(release))
        writing.status.pod_waits(one, reason="Unschedulable", message="m")
        writing.status.pod_waits(two, reason="Unschedulable", message="m")
        while transport.count("PATCH", "/status") < 2:
            await asyncio.sleep(0)
        writing.status.pod_waits(three, reason="Unschedulable", message="m")
        assert not writing.status.try_acquire(one.uid), "its write is under way"
        assert writing.status.try_acquire(three.uid)
        release.set()
        await writing.written()
        assert writing.status.try_acquire(one.uid)
        assert await writing.conditions_of("c") == []


async def test_a_failed_write_can_be_requested_again(world: World, transport: FaultyTransport) -> None:
    async with status_writing(world, transport) as writing:
        pod = await writing.pod("a")
        transport.fault("PATCH", "/status", answer(403))
        writing.status.pod_waits(pod, reason="Unschedulable", message="m")
        await writing.reports.until("status refused")
        await writing.written()
        writing.status.pod_waits(pod, reason="Unschedulable", message="m")
        await writing.written()
        assert len(await writing.conditions_of("a")) == 1


async def test_nothing_is_written_without_leadership(world: World, transport: FaultyTransport) -> None:
    async with status_writing(world, transport) as writing:
        writing.fence.leads = False
        writing.status.pod_waits(await writing.pod("a"), reason="Unschedulable", message="m")
        await writing.reports.until("status fenced")
        assert transport.sent == []


def pending(message: str, *, time: str = NOW) -> PodGroupStatus:
    condition = Condition(
        type="Scheduled", status="False", reason="QueueLimit", message=message, last_transition_time=time
    )
    return PodGroupStatus(
        phase="Pending",
        counts=Counts(total=2, pending=2),
        conditions=(condition,),
        reason="QueueLimit",
        message=message,
        next_step="wait",
    )


async def test_the_status_of_a_podgroup_is_written(world: World, transport: FaultyTransport) -> None:
    await world.install_crds()
    await world.pod_group("g")
    async with status_writing(world, transport) as writing:
        wanted = pending("over the limit")
        writing.status.pod_group(await writing.group("g"), wanted)
        await writing.written()
        seen = await writing.group("g")
        assert seen.status == wanted
        writing.status.pod_group(seen, wanted)
        await writing.written()
        assert transport.count("PATCH", "/status") == 1


QUEUES = "/apis/scheduling.phalanx.dev/v1alpha1/queues"


async def native_group(world: World, name: str) -> NativePodGroup:
    """A PodGroup of scheduling.k8s.io, which is created if it does not exist."""
    kind = KINDS["NativePodGroup"]
    path = kind.path(namespace=world.namespace, name=name)
    decode = msgspec.json.Decoder(NativePodGroup).decode
    with contextlib.suppress(NotFound):
        return await world.client.get(path, decode)
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    body = {"apiVersion": kind.api_version, "kind": kind.api_name, "metadata": {"name": name}, "spec": spec}
    await world.create(kind.path(namespace=world.namespace), body)
    return await world.client.get(path, decode)


def scheduled(status: str, message: str, *, time: str = NOW) -> StatusWrite:
    condition = Condition("PodGroupInitiallyScheduled", status, "r", message, time)
    return StatusWrite({"conditions": [msgspec.to_builtins(condition)]}, is_final=status == "True")


async def test_the_condition_of_a_native_pod_group_keeps_those_of_others(
    world: World, transport: FaultyTransport
) -> None:
    async with status_writing(world, transport) as writing:
        await native_group(world, "g")
        theirs = msgspec.json.encode(
            {"status": {"conditions": [Condition("DisruptionTarget", "True", "r", "m", LONG_AGO)]}}
        )
        path = KINDS["NativePodGroup"].path(namespace=world.namespace, name="g", subresource="status")
        await world.client.patch(path, theirs, how=Patch.STRATEGIC, timeout=TIMEOUT)
        group = await native_group(world, "g")
        writing.status.pod_group_of(NATIVE, group.metadata, scheduled("False", "first"))
        await writing.written()
        writing.status.pod_group_of(
            NATIVE, (await native_group(world, "g")).metadata, scheduled("False", "second")
        )
        await writing.written()
        found = {each.type: each for each in (await native_group(world, "g")).status.conditions}
        assert found.keys() == {"DisruptionTarget", "PodGroupInitiallyScheduled"}
        assert found["PodGroupInitiallyScheduled"].message == "second"


async def test_the_condition_of_a_native_pod_group_is_written_once(
    world: World, transport: FaultyTransport
) -> None:
    async with status_writing(world, transport) as writing:
        group = await native_group(world, "g")
        for time in (LONG_AGO, NOW):
            writing.status.pod_group_of(NATIVE, group.metadata, scheduled("True", "m", time=time))
        await writing.written()
        writing.status.pod_group_of(
            NATIVE, (await native_group(world, "g")).metadata, scheduled("True", "m", time=NOW)
        )
        writing.status.pod_group_of(NATIVE, group.metadata, None)
        await writing.written()
        assert transport.count("PATCH", "/status") == 1


async def test_a_late_write_does_not_take_back_that_a_native_pod_group_was_scheduled(
    world: World, transport: FaultyTransport
) -> None:
    async with status_writing(world, transport) as writing:
        before = await native_group(world, "g")
        writing.status.pod_group_of(NATIVE, before.metadata, scheduled("True", "m"))
        await writing.written()
        writing.status.pod_group_of(NATIVE, before.metadata, scheduled("False", "late"))
        await writing.written()
        (found,) = (await native_group(world, "g")).status.conditions
        assert found.status == "True"


async def test_a_recreated_native_pod_group_is_not_written(world: World, transport: FaultyTransport) -> None:
    async with status_writing(world, transport) as writing:
        group = await native_group(world, "g")
        earlier = msgspec.structs.replace(group, metadata=msgspec.structs.replace(group.metadata, uid="old"))
        writing.status.pod_group_of(NATIVE, earlier.metadata, scheduled("True", "m"))
        await writing.written()
        assert (await native_group(world, "g")).status.conditions == ()


async def a_queue(world: World) -> str:
    """The name of a new queue; queues have no namespace."""
    name = f"q-{world.namespace}"
    kind = {"apiVersion": "scheduling.phalanx.dev/v1alpha1", "kind": "Queue"}
    await world.create(QUEUES, {**kind, "metadata": {"name": name}, "spec": {}})
    return name


async def queue_of(world: World, name: str) -> Queue:
    return await world.client.get(f"{QUEUES}/{name}", msgspec.json.Decoder(Queue).decode)


async def test_fields_that_left_the_status_are_removed(world: World, transport: FaultyTransport) -> None:
    await world.install_crds()
    await world.pod_group("g")
    async with status_writing(world, transport) as writing:
        writing.status.pod_group(await writing.group("g"), pending("over the limit"))
        await writing.written()
        running = PodGroupStatus(phase="Running", placement=PlacementStatus(level="rack", domain="r1"))
        writing.status.pod_group(await writing.group("g"), running)
        await writing.written()
        seen = (await writing.group("g")).status
        assert (seen.reason, seen.message, seen.counts) == (None, None, None)
        assert seen.placement == running.placement


async def test_the_epoch_of_the_binder_and_conditions_of_others_are_kept(
    world: World, transport: FaultyTransport
) -> None:
    await world.install_crds()
    await world.pod_group("g")
    theirs = {
        "type": "Checked",
        "status": "True",
        "reason": "Ok",
        "message": "",
        "lastTransitionTime": LONG_AGO,
    }
    body = {"status": {"placementEpoch": {"leader": 3, "decision": "cycle-9"}, "conditions": [theirs]}}
    path = world.path("PodGroup", "g", "status")
    await world.client.patch(path, msgspec.json.encode(body), how=Patch.MERGE, timeout=TIMEOUT)
    async with status_writing(world, transport) as writing:
        writing.status.pod_group(await writing.group("g"), pending("m"))
        await writing.written()
        seen = (await writing.group("g")).status
        assert seen.placement_epoch is not None
        assert seen.placement_epoch.leader == 3
        assert {condition.type for condition in seen.conditions} == {"Scheduled", "Checked"}


async def test_a_condition_keeps_the_time_of_its_last_transition(
    world: World, transport: FaultyTransport
) -> None:
    await world.install_crds()
    await world.pod_group("g")
    async with status_writing(world, transport) as writing:
        writing.status.pod_group(await writing.group("g"), pending("one", time=LONG_AGO))
        await writing.written()
        writing.status.pod_group(await writing.group("g"), pending("two", time=NOW))
        await writing.written()
        (condition,) = (await writing.group("g")).status.conditions
        assert condition.message == "two"
        assert condition.last_transition_time == LONG_AGO


async def test_two_writes_based_on_the_same_observed_version(
    world: World, transport: FaultyTransport
) -> None:
    """The watch is slower than the writer: the second write is based on the first."""
    await world.install_crds()
    await world.pod_group("g")
    async with status_writing(world, transport) as writing:
        seen = await writing.group("g")
        writing.status.pod_group(seen, pending("one"))
        await writing.written()
        writing.status.pod_group(seen, pending("two"))
        await writing.written()
        assert (await writing.group("g")).status.message == "two"
        assert writing.reports.counts["status written"] == 2


@pytest.mark.parametrize("pending", [0, 1])
async def test_a_queue_that_is_empty_again_before_its_usage_was_observed(
    world: World, transport: FaultyTransport, pending: int
) -> None:
    """A field that our unobserved write has set is removed, although the watch does not show it yet."""
    await world.install_crds()
    name = await a_queue(world)
    async with status_writing(world, transport) as writing:
        seen = await queue_of(world, name)
        writing.status.queue(seen, QueueStatus(allocated={"cpu": "8"}, pending_gangs=0, pending_pods=0))
        await writing.written()
        before = await queue_of(world, name)
        writing.status.queue(before, QueueStatus(pending_gangs=0, pending_pods=0))
        await writing.written()
        seen = await queue_of(world, name)
        writing.status.queue(seen, QueueStatus(allocated={"cpu": "8"}, pending_gangs=0, pending_pods=0))
        await writing.written()
        writing.status.queue(seen, QueueStatus(pending_gangs=pending, pending_pods=0))
        await writing.written()
        assert (await queue_of(world, name)).status.allocated == {}


async def test_a_write_based_on_an_old_version_is_refused_and_requested_again(
    world: World, transport: FaultyTransport
) -> None:
    await world.install_crds()
    await world.pod_group("g")
    async with status_writing(world, transport) as writing:
        old = await writing.group("g")
        await world.label("PodGroup", "g", colour="red")
        writing.status.pod_group(old, pending("m"))
        await writing.reports.until("status refused")
        await writing.written()
        writing.status.pod_group(await writing.group("g"), pending("m"))
        await writing.written()
        assert (await writing.group("g")).status.message == "m"


async def test_the_status_of_a_queue_is_written(world: World, transport: FaultyTransport) -> None:
    await world.install_crds()
    name = await a_queue(world)

    async def seen() -> Queue:
        return await queue_of(world, name)

    async with status_writing(world, transport) as writing:
        wanted = QueueStatus(allocated={"cpu": "8", "nvidia.com/gpu": 4}, pending_gangs=1, pending_pods=8)
        writing.status.queue(await seen(), wanted)
        await writing.written()
        assert (await seen()).status == wanted
        less = QueueStatus(allocated={"cpu": "2"}, pending_gangs=0, pending_pods=0)
        writing.status.queue(await seen(), less)
        await writing.written()
        assert (await seen()).status == less
