"""Leader election: one leader at a time, takeover of an expired or released lease, no write after its end."""

import asyncio
from typing import Any

import pytest
from phalanx.clock import SystemClock, seeded_random
from phalanx.kube.client import Client
from phalanx.kube.leader_election import Identity, Leadership, LeaseTimes, LostLease

from tests.kube.faults import FaultyTransport, answer, applied_but_lost, lost, not_sent
from tests.kube.reports import Reports
from tests.kube.world import World

QUICK = LeaseTimes(duration=1.0, renew_deadline=0.8, retry_period=0.1, attempt_timeout=0.5, write_margin=0.1)
PATIENT = LeaseTimes(
    duration=30.0, renew_deadline=20.0, retry_period=0.05, attempt_timeout=5.0, write_margin=1.0
)


class ShiftedClock(SystemClock):
    """A clock whose monotonic time a test can advance."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


class Candidate:
    """One candidate whose work lasts until a test ends it."""

    def __init__(
        self, world: World, transport: FaultyTransport, identity: str, times: LeaseTimes = PATIENT
    ) -> None:
        self.reports = Reports()
        self.clock = ShiftedClock()
        self.transport = transport
        self.leadership = Leadership(
            client=Client(transport),
            identity=Identity(name=identity, lease_namespace=world.namespace),
            clock=self.clock,
            reports=self.reports,
            jitter=seeded_random(1).random,
            times=times,
        )
        self.done = asyncio.Event()
        self.crash: Exception | None = None
        self.work_cancelled = False
        self.led_while_cancelled = False
        self.waits = 0
        self.task = asyncio.create_task(self.leadership.run(self._work, on_waiting=self._waits))

    async def _work(self) -> None:
        try:
            await self.done.wait()
        except asyncio.CancelledError:
            self.work_cancelled = True
            self.led_while_cancelled = self.leadership.leading.is_set()
            raise
        if self.crash is not None:
            raise self.crash

    def _waits(self) -> None:
        self.waits += 1

    async def leads(self) -> None:
        async with asyncio.timeout(30):
            await self.leadership.leading.wait()

    async def end(self) -> None:
        self.done.set()
        await asyncio.wait((self.task,))


async def spec_of(world: World) -> dict[str, Any]:
    lease = await world.get(world.path("Lease", "phalanx"))
    spec: dict[str, Any] = lease["spec"]
    return spec


async def test_the_first_candidate_leads_and_releases_the_lease(
    world: World, transport: FaultyTransport
) -> None:
    one = Candidate(world, transport, "one")
    await one.leads()
    assert one.waits == 0
    assert one.leadership.may_write()
    spec = await spec_of(world)
    assert spec["holderIdentity"] == "one"
    assert spec["leaseDurationSeconds"] == 30
    assert spec["leaseTransitions"] == one.leadership.epoch == 0
    await one.end()
    await one.task
    assert not one.leadership.may_write()
    assert one.leadership.lost.is_set()
    assert not (await spec_of(world)).get("holderIdentity")


async def test_the_lease_is_renewed(world: World, transport: FaultyTransport) -> None:
    one = Candidate(world, transport, "one")
    await one.leads()
    first = (await spec_of(world))["renewTime"]
    await one.reports.until("renewed", 3)
    assert (await spec_of(world))["renewTime"] > first
    assert all(late >= 0 for late in one.reports.lateness)
    await one.end()


async def test_a_second_candidate_waits_until_the_first_releases_the_lease(
    world: World, transport: FaultyTransport
) -> None:
    one = Candidate(world, transport, "one")
    await one.leads()
    two = Candidate(world, transport, "two")
    await one.reports.until("renewed", 3)
    assert not two.leadership.leading.is_set()
    assert two.waits == 1
    assert not two.leadership.may_write()
    await one.end()
    await two.leads()
    assert two.leadership.epoch == one.leadership.epoch + 1
    await two.end()


async def test_a_leader_that_cannot_renew_stops_and_another_takes_over(
    world: World, transport: FaultyTransport
) -> None:
    one = Candidate(world, FaultyTransport(transport), "one", QUICK)
    await one.leads()
    two = Candidate(world, transport, "two", QUICK)
    one.transport.fault("PATCH", "/leases/", *[not_sent] * 1000)
    one.transport.fault("GET", "/leases/", *[not_sent] * 1000)
    with pytest.raises(LostLease):
        await one.task
    assert one.work_cancelled
    assert not one.led_while_cancelled, "the fence must close before the work is cancelled"
    assert one.leadership.lost.is_set()
    await two.leads()
    assert (await spec_of(world))["holderIdentity"] == "two"
    await two.end()


async def test_no_write_after_the_deadline_even_before_the_loss_is_noticed(
    world: World, transport: FaultyTransport
) -> None:
    """The process was paused: its clock shows that the lease has expired before any task has run again."""
    one = Candidate(world, transport, "one")
    await one.leads()
    assert one.leadership.may_write()
    one.clock.ahead = PATIENT.renew_deadline - PATIENT.write_margin / 2
    assert 0 < one.leadership.remaining() < PATIENT.write_margin
    assert not one.leadership.may_write()
    one.clock.ahead = PATIENT.renew_deadline + 1
    assert not one.leadership.may_write()
    with pytest.raises(LostLease):
        await one.task


async def test_a_crash_while_leading_ends_leadership(world: World, transport: FaultyTransport) -> None:
    one = Candidate(world, transport, "one")
    await one.leads()
    one.crash = RuntimeError("the cycle failed")
    one.done.set()
    with pytest.raises(RuntimeError, match="the cycle failed"):
        await one.task
    assert not one.leadership.may_write()
    assert not (await spec_of(world)).get("holderIdentity")


async def test_cancelling_releases_the_lease(world: World, transport: FaultyTransport) -> None:
    one = Candidate(world, transport, "one")
    await one.leads()
    one.task.cancel()
    await asyncio.wait((one.task,))
    assert one.work_cancelled
    assert not (await spec_of(world)).get("holderIdentity")


@pytest.mark.parametrize("fault", [applied_but_lost, lost, not_sent, answer(500), answer(429)])
async def test_leadership_survives_a_transient_error(
    world: World, transport: FaultyTransport, fault: Any
) -> None:
    one = Candidate(world, transport, "one")
    await one.leads()
    transport.fault("PATCH", "/leases/", fault, fault)
    await one.reports.until("renewed", 2)
    assert one.leadership.may_write()
    assert one.leadership.epoch == 0
    await one.end()
    await one.task


async def test_a_failed_renewal_is_retried_sooner(world: World, transport: FaultyTransport) -> None:
    """An API server that is back just before the deadline is reached in time, not one period later."""
    times = LeaseTimes(duration=30.0, renew_deadline=3.0, retry_period=1.0, failed_pause=0.01)
    one = Candidate(world, transport, "one", times=times)
    await one.leads()
    transport.fault("PATCH", "/leases", not_sent)
    transport.fault("GET", "/leases", *[answer(403)] * 20)
    await one.reports.until("renewed", 1)
    assert not one.leadership.lost.is_set()
    await one.end()
    await one.task


@pytest.mark.parametrize("fault", [applied_but_lost, lost])
async def test_an_error_while_acquiring_is_retried(
    world: World, transport: FaultyTransport, fault: Any
) -> None:
    transport.fault("POST", "/leases", fault)
    one = Candidate(world, transport, "one")
    await one.leads()
    assert (await spec_of(world))["holderIdentity"] == "one"
    assert (await spec_of(world))["leaseTransitions"] == one.leadership.epoch
    await one.end()


async def test_leadership_survives_a_label_on_the_lease(world: World, transport: FaultyTransport) -> None:
    one = Candidate(world, transport, "one")
    await one.leads()
    await world.label("Lease", "phalanx", touched="yes")
    renewed = one.reports.counts["renewed"]
    await one.reports.until("renewed", renewed + 2)
    assert one.leadership.may_write()
    await one.end()


async def test_a_lease_that_has_changed_since_the_last_renewal_is_released(
    world: World, transport: FaultyTransport
) -> None:
    """As by a renewal that was on its way when the work ended."""
    one = Candidate(world, transport, "one")
    await one.leads()
    await world.label("Lease", "phalanx", touched="yes")
    await one.end()
    assert not (await spec_of(world)).get("holderIdentity")


async def test_leadership_ends_at_once_when_another_holder_takes_the_lease(
    world: World, transport: FaultyTransport
) -> None:
    from phalanx.kube.client import Patch

    one = Candidate(world, transport, "one")
    await one.leads()
    await world.client.patch(
        world.path("Lease", "phalanx"), b'{"spec":{"holderIdentity":"thief"}}', how=Patch.MERGE, timeout=30
    )
    with pytest.raises(LostLease, match="thief"):
        await one.task
    assert (await spec_of(world))["holderIdentity"] == "thief"


async def test_a_candidate_can_lead_again(world: World, transport: FaultyTransport) -> None:
    one = Candidate(world, transport, "one")
    await one.leads()
    await one.end()
    again = Candidate(world, transport, "one")
    await again.leads()
    assert again.leadership.epoch == 1
    await again.end()
