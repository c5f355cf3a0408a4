"""Plays about leader election: which replica may write, until when, and which leads next."""

import asyncio

from phalanx_simulator.embedded.manifests import node
from phalanx_simulator.embedded.store import Object
from phalanx_simulator.hosts.network import Effect

from tests.bugbank.service_harness import Stage, gang_with_pods, member, seen

LEASES = "/leases"


async def _write_all_the_time(stage: Stage, seconds: float) -> None:
    """A pod is created each second and the previous one deleted, to keep the leader writing."""
    end = stage.now + seconds
    while stage.now < end:
        stage.create(member(f"busy-{stage.now * 1000:.0f}"))
        await asyncio.sleep(1)
        for one in stage.pods("busy")[:-4]:
            stage.delete("pods", one["metadata"]["name"], grace_s=0)


def renewals_are_lost() -> str | None:
    """The leader's renewals fail, its other requests succeed: it stops in time, another replica leads."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        first = stage.leader
        stage.meet(Effect.LOST, "", LEASES, slow_s=60.0, times=1000)
        await _write_all_the_time(stage, 40)
        stage.must(stage.leader is not first, "the other leads")
        stage.create(member("last"))
        await stage.until(lambda: stage.running("last") == 1, "and works")

    return seen(play, replicas=2, loses_lease=True)


def renewals_are_slow() -> str | None:
    """The response to a renewal is late, later ones are lost: the deadline counts from the request."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        stage.meet(Effect.SLOW, "PATCH", LEASES, slow_s=2.9, times=1)
        stage.meet(Effect.LOST, "", LEASES, slow_s=60.0, times=1000)
        await _write_all_the_time(stage, 40)

    return seen(play, replicas=2, loses_lease=True)


def one_renewal_fails() -> str | None:
    """A busy server refuses a few renewals (429, 500): leadership continues."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        first = stage.leader
        for status in (429, 500, 409):
            stage.meet(Effect.REFUSED, "PATCH", LEASES, status=status, times=2, retry_after_s=1)
            stage.meet(Effect.APPLIED_BUT_LOST, "PATCH", LEASES, times=1)
            await _write_all_the_time(stage, 10)
        stage.must(stage.leader is first, "the leader still leads")

    return seen(play, replicas=2)


def leader_freezes() -> str | None:
    """The leader's process is paused for longer than its Lease lasts, while it is writing."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"), node("n2"))
        stage.create(*gang_with_pods("train", 16))
        await stage.until(lambda: bool(stage.binds()), "the binding starts")
        process = stage.process_of(stage.leader)
        process.host.freeze()
        stage.create(*gang_with_pods("more", 2))
        await asyncio.sleep(25)
        process.host.thaw()
        await stage.until(lambda: stage.running("train") == 16, "the gang runs", within_s=20)
        await asyncio.sleep(15)

    seeds = (1, 200)
    return next(filter(None, (seen(play, replicas=2, loses_lease=True, seed=seed) for seed in seeds)), None)


def clock_of_the_follower_jumps() -> str | None:
    """The wall clock of the follower jumps by an hour: the Lease has not expired."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        first = stage.leader
        await asyncio.sleep(5)
        stage.meet(Effect.LOST, "PATCH", LEASES, slow_s=3.0, times=2)
        await asyncio.sleep(3.5)
        stage.follower.clock.jump(3_600_000)
        await _write_all_the_time(stage, 15)
        stage.must(stage.leader is first, "the leader still leads")

    return seen(play, replicas=2)


def clock_of_the_leader_jumps_back() -> str | None:
    """The wall clock of the leader is set back by an hour, and then its renewals fail."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        stage.leader.clock.jump(-3_600_000)
        await asyncio.sleep(5)
        stage.meet(Effect.LOST, "", LEASES, slow_s=60.0, times=1000)
        await _write_all_the_time(stage, 40)

    return seen(play, replicas=2, loses_lease=True)


def lease_is_taken_by_hand() -> str | None:
    """Another client writes another holder into the Lease: the leader stops within its deadline."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        stage.edit("leases.coordination.k8s.io", "phalanx", _held_by_another, at="kube-system")
        process = stage.process_of(stage.leader)
        await stage.until(lambda: not process.scheduler.is_leading, "the leader has stopped", within_s=5)

    return seen(play, loses_lease=True)


def _held_by_another(item: Object) -> Object:
    return {**item, "spec": {**item["spec"], "holderIdentity": "another"}}


def leader_stops() -> str | None:
    """A leader that is stopped releases the Lease: the other replica leads at once."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        await asyncio.sleep(5)
        first = stage.leader
        stage.world.go(first.stop())
        await stage.until(lambda: _leads_beside(stage, first.name), "the other leads", within_s=8)
        stage.create(member("last"))
        await stage.until(lambda: stage.running() == 1, "and works", within_s=5)

    return seen(play, replicas=2)


def both_replicas_start_at_once() -> str | None:
    """Two replicas start at the same time: one leads."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        for _ in range(3):
            await _write_all_the_time(stage, 5)
            leading = [one for one in stage.world.replicas if stage.process_of(one).scheduler.is_leading]
            stage.must(len(leading) == 1, "one leads")

    return next(filter(None, (seen(play, replicas=2, seed=seed) for seed in range(4))), None)


def bind_is_applied_late() -> str | None:
    """A bind of the previous leader is applied after the next one has started: its capacity is used."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        stage.process_of(stage.follower).network.delay_watches(60.0, "/pods")
        stage.meet(Effect.SLOW, "POST", "/binding", slow_s=4.0)
        stage.create(member("first", gpus=8))
        await stage.until(lambda: bool(stage.binds("first")), "the bind is sent")
        stage.kill_leader()
        await asyncio.sleep(5)
        stage.create(member("second", gpus=8))
        await asyncio.sleep(40)
        stage.must(stage.bound() == 1, "one pod has the node")

    return seen(play, replicas=2)


def _leads_beside(stage: Stage, name: str) -> bool:
    found = stage.world.leader()
    return found is not None and found.name != name


PLAYS = (
    renewals_are_lost,
    renewals_are_slow,
    one_renewal_fails,
    leader_freezes,
    clock_of_the_follower_jumps,
    clock_of_the_leader_jumps_back,
    lease_is_taken_by_hand,
    leader_stops,
    both_replicas_start_at_once,
    bind_is_applied_late,
)
