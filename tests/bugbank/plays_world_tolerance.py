"""Plays about infrastructure faults: which pods are evicted, where they are replaced, what is remembered."""

import asyncio
from typing import Any

from phalanx_simulator.embedded.manifests import job, node, pod, pod_group
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.faults.edits import put_condition
from phalanx_simulator.runs.world import World

from tests.bugbank.worlds import FULL, GPU, CycleRunner, assignments, at_rest, node_of, opened, watched
from tests.model import written

REPLACE = {"onNodeLoss": "Replace", "gracePeriod": "5s"}


def most_nodes_are_reported_faulty_at_once() -> str | None:
    """A detector reports most nodes wrongly: no pod is evicted, and new pods use nodes without any report."""

    async def act(world: World) -> str | None:
        await opened(world, *(node(f"n{n}") for n in range(12)))
        await _run_gang(world, 4, recovery=REPLACE)
        await asyncio.sleep(30.0)
        await _false_alarm(world, "Ready", bad="False", well="True")
        await asyncio.sleep(20.0)
        return None

    return watched(act)


def the_breaker_closes_by_itself() -> str | None:
    """Nothing else happens: waiting pods run once the reports are old."""

    async def act(world: World) -> str | None:
        await opened(world, *(node(f"n{n}") for n in range(12)))
        await asyncio.sleep(30.0)
        await _false_alarm(world, "GpuXidError", bad="True", well="False")
        await asyncio.sleep(400.0)
        waiting = [n for n in range(5) if not node_of(world, f"late-{n}")]
        return f"{len(waiting)} pods wait, and the breaker should be closed" if waiting else None

    return watched(act)


async def _false_alarm(world: World, kind: str, *, bad: str, well: str) -> None:
    """Nine of twelve nodes, of which two recover soon; then as many pods are created as nodes are healthy."""
    for number in range(9):
        _say(world, number, kind, bad)
    await asyncio.sleep(10.0)
    for number in (7, 8):
        _say(world, number, kind, well)
    await asyncio.sleep(5.0)
    world.create(pod(f"late-{n}", requests=FULL) for n in range(5))


def a_node_that_failed_a_gang_is_avoided() -> str | None:
    """A member fails, without a fault of its node; the next attempt fits on another node."""

    async def act(world: World) -> str | None:
        await opened(world, *(node(f"n{n}") for n in range(5)))
        await _run_gang(world, 2)
        failed = _fail(world)
        await asyncio.sleep(8.0)
        return (
            f"the gang was placed on {failed} again, where it failed" if failed in _nodes_of(world) else None
        )

    return watched(act)


def the_only_node_is_not_avoided() -> str | None:
    """As before, but there is no other node."""

    async def act(world: World) -> str | None:
        await opened(world, node("n0"), node("n1"))
        await _run_gang(world, 2)
        _reject(world)
        await at_rest(world, 30.0)
        return None

    return watched(act)


def members_on_a_lost_node_are_replaced() -> str | None:
    """A node of a gang that replaces lost members stops sending heartbeats."""

    async def act(world: World) -> str | None:
        await opened(world, *(node(f"n{n}") for n in range(6)))
        await _run_gang(world, 2, recovery=REPLACE)
        await asyncio.sleep(20.0)
        world.controllers.kubelets.lose(_nodes_of(world)[0])
        await at_rest(world, 200.0)
        return None

    return watched(act)


def nodes_with_fewer_failures_are_preferred() -> str | None:
    """Pods of some gangs failed on the node that would be chosen otherwise."""
    runner = CycleRunner(written.node("n0"), written.node("n1"))
    runner.cycle()
    for number in range(3):
        failed = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
        runner.put(written.pod(f"failed-{number}", requests={GPU: 1}, nodeName="n0", status=failed))
        runner.cycle()
    runner.put(written.pod("p", requests={GPU: 1}))
    placed = assignments(runner.cycle())
    return None if placed == {"p": "n1"} else f"placed are {placed} although n0 has failed three pods"


def failure_scores_decay() -> str | None:
    """After a month the node has no failure score any more."""
    runner = CycleRunner(written.node("n0"), written.node("n1"))
    runner.cycle()
    failed = written.pod("failed", nodeName="n0", status={"phase": "Failed", "reason": "NodeLost"})
    runner.put(failed)
    runner.cycle()
    runner.gone(failed)
    runner.now += 30 * 24 * 3600 * 1000
    runner.cycle()
    scores = runner.memory.scores
    return f"there are still scores: {dict(scores)}" if scores else None


async def _run_gang(world: World, members: int, **spec: Any) -> None:
    world.create([pod_group("g", min_member=members, **spec)])
    world.create([job("g", members=members, group="g", requests=FULL)])
    await asyncio.sleep(8.0)


def _say(world: World, number: int, kind: str, status: str) -> None:
    put_condition(world.client, f"n{number}", type_=kind, status=status, reason="Play", message="")


def _live(world: World) -> list[Object]:
    found = [world.client.get(key) or {} for key in world.client.keys("pods")]
    return [each for each in found if each["status"].get("phase") == "Running"]


def _nodes_of(world: World) -> list[str]:
    return [each["spec"]["nodeName"] for each in _live(world)]


def _fail(world: World) -> str:
    """The node on which the first member's containers end with an error."""
    first = _live(world)[0]
    world.controllers.kubelets.fail(Key("pods", "default", first["metadata"]["name"]), exit_code=1)
    node_name: str = first["spec"]["nodeName"]
    return node_name


def _reject(world: World) -> str:
    """The node that rejects the first member, as if it had no capacity."""
    first = _live(world)[0]
    key = Key("pods", "default", first["metadata"]["name"])
    world.client.update_status(key, phase="Failed", reason="OutOfcpu", message="no capacity")
    node_name: str = first["spec"]["nodeName"]
    return node_name
