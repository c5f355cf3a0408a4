"""Faults of infrastructure: who is evicted, who is not, where the lost come back, what is learned."""

import asyncio
from typing import Any

from phalanx_simulator.embedded.manifests import job, node, pod, pod_group
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.faults.edits import put_condition
from phalanx_simulator.runs.world import World

from tests.bugbank.worlds import FULL, GPU, Still, assignments, at_rest, node_of, opened, watched
from tests.model import written

REPLACE = {"onNodeLoss": "Replace", "gracePeriod": "5s"}


def most_nodes_seem_faulty_at_once() -> str | None:
    """A detector errs about most nodes: nobody is evicted, and new pods go where nothing was ever said."""

    async def act(world: World) -> str | None:
        await opened(world, *(node(f"n{n}") for n in range(12)))
        await _run_gang(world, 4, recovery=REPLACE)
        await asyncio.sleep(30.0)
        await _false_alarm(world, "Ready", bad="False", well="True")
        await asyncio.sleep(20.0)
        return None

    return watched(act)


def the_breaker_closes_by_itself() -> str | None:
    """Nothing else happens: who waits runs when the alarm is old."""

    async def act(world: World) -> str | None:
        await opened(world, *(node(f"n{n}") for n in range(12)))
        await asyncio.sleep(30.0)
        await _false_alarm(world, "GpuXidError", bad="True", well="False")
        await asyncio.sleep(400.0)
        waiting = [n for n in range(5) if not node_of(world, f"late-{n}")]
        return f"{len(waiting)} pods wait, and the breaker should be closed" if waiting else None

    return watched(act)


async def _false_alarm(world: World, kind: str, *, bad: str, well: str) -> None:
    """Nine of twelve nodes, of which two are well again soon; then as many pods come as nodes are well."""
    for number in range(9):
        _say(world, number, kind, bad)
    await asyncio.sleep(10.0)
    for number in (7, 8):
        _say(world, number, kind, well)
    await asyncio.sleep(5.0)
    world.create(pod(f"late-{n}", requests=FULL) for n in range(5))


def a_node_that_failed_a_gang_is_avoided() -> str | None:
    """A member fails, for no reason that counts against its node; the next try fits on another one."""

    async def act(world: World) -> str | None:
        await opened(world, *(node(f"n{n}") for n in range(5)))
        await _run_gang(world, 2)
        failed = _fail(world)
        await asyncio.sleep(8.0)
        return f"the gang went back to {failed}, which failed it" if failed in _nodes_of(world) else None

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


def a_lost_node_is_left() -> str | None:
    """A node falls silent under a gang that wants its lost members replaced."""

    async def act(world: World) -> str | None:
        await opened(world, *(node(f"n{n}") for n in range(6)))
        await _run_gang(world, 2, recovery=REPLACE)
        await asyncio.sleep(20.0)
        world.controllers.kubelets.lose(_nodes_of(world)[0])
        await at_rest(world, 200.0)
        return None

    return watched(act)


def work_goes_where_less_has_failed() -> str | None:
    """Pods of some gangs failed on the node that would be taken first."""
    still = Still(written.node("n0"), written.node("n1"))
    still.cycle()
    for number in range(3):
        failed = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
        still.put(written.pod(f"failed-{number}", requests={GPU: 1}, nodeName="n0", status=failed))
        still.cycle()
    still.put(written.pod("p", requests={GPU: 1}))
    placed = assignments(still.cycle())
    return None if placed == {"p": "n1"} else f"placed are {placed} although n0 has failed three pods"


def what_has_failed_long_ago_is_forgiven() -> str | None:
    """A month later the node is as good as any: its score is gone."""
    still = Still(written.node("n0"), written.node("n1"))
    still.cycle()
    failed = written.pod("failed", nodeName="n0", status={"phase": "Failed", "reason": "OutOfcpu"})
    still.put(failed)
    still.cycle()
    still.gone(failed)
    still.now += 30 * 24 * 3600 * 1000
    still.cycle()
    scores = still.memory.scores
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
    """The node that refuses the first member, as if it had no capacity."""
    first = _live(world)[0]
    key = Key("pods", "default", first["metadata"]["name"])
    world.client.update_status(key, phase="Failed", reason="OutOfcpu", message="no capacity")
    node_name: str = first["spec"]["nodeName"]
    return node_name
