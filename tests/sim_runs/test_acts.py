"""Acts of the drills complete with a correct scheduler, and fail with a wrong one."""

import asyncio
from functools import partial

import pytest
from msgspec.structs import replace
from phalanx.actions import member_losses, release
from phalanx_simulator.drills import operations
from phalanx_simulator.drills.drill import NO_FAULT, Fault, Outcome, play
from phalanx_simulator.drills.operations import GANG, OPERATIONS, cluster, running
from phalanx_simulator.embedded.kubelets.kubelet import CLOCK_OFF_SECONDS
from phalanx_simulator.embedded.store import ChangeType, Object
from phalanx_simulator.hosts.network import Exchange
from phalanx_simulator.runs.world import World

BY_NAME = {act.name: act for act in OPERATIONS}
RESTARTS = ("node-lost-restart", "member-failed-restart", "failed-member-removed")


def outcome(name: str, fault: Fault = NO_FAULT) -> Outcome:
    return play(BY_NAME[name], seed=1, fault=fault, checks=())


def die_at_the_first_deletion(world: World) -> None:
    """Kill the leader when it has marked all members for eviction and deleted some."""
    leader = world.leader()
    assert leader is not None

    def hear(exchange: Exchange) -> None:
        if exchange.method == "DELETE" and exchange.landed_at is not None and world.leader() is leader:
            leader.kill()

    world.observe(hear)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", RESTARTS)
def test_a_gang_without_restart_recovery_is_not_restarted(name: str) -> None:
    act = replace(BY_NAME[name], prepare=partial(running, recovery={"onNodeLoss": "Replace"}))
    problem = play(act, seed=1, checks=()).problem
    assert (problem is None) is (name == "failed-member-removed")


@pytest.mark.usefixtures("quiet")
def test_the_drill_finds_a_gang_that_is_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "PARTIAL_GANG_GRACE_MS", 3_600_000)
    assert outcome("partial-release").problem == "not done after 300.0 s"


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("is_finished", [True, False])
def test_the_next_leader_finishes_an_unfinished_restart(
    monkeypatch: pytest.MonkeyPatch, is_finished: bool
) -> None:
    if not is_finished:
        monkeypatch.setattr(member_losses, "_is_marked_for_restart", lambda _pod, _gang: False)
    problem = outcome("failed-member-removed", Fault(die_at_the_first_deletion)).problem
    assert (problem is None) is is_finished


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("off_s", [-300, 300])
def test_nodes_with_wrong_clocks_cause_only_one_restart(monkeypatch: pytest.MonkeyPatch, off_s: int) -> None:
    """Neither the leader that saw the failed member nor the next leader restarts the gang again."""
    changes: list[str] = []

    def cluster_with_clocks_off() -> list[Object]:
        nodes = cluster()
        for node in nodes:
            node["metadata"]["annotations"] = {CLOCK_OFF_SECONDS: str(off_s)}
        return nodes

    async def prepare(world: World) -> None:
        monkeypatch.setattr(operations, "cluster", cluster_with_clocks_off)
        await running(world, recovery={"onMemberFailure": "Restart"})
        world.client.subscribe("pods", lambda change: changes.append(change.type))

    async def afterwards(world: World) -> str | None:
        leader = world.leader()
        assert leader is not None
        await asyncio.sleep(30)
        leader.kill()
        await asyncio.sleep(60)
        count = changes.count(ChangeType.ADDED)
        return f"{count} pods were created" if count != GANG else None

    act = replace(BY_NAME["member-failed-restart"], prepare=prepare, afterwards=afterwards)
    assert play(act, seed=1, checks=()).problem is None
