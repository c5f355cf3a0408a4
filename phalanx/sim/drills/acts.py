"""The acts that drills repeat: a few nodes, one gang, something that the scheduler has to finish."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from msgspec import Struct

from phalanx.framework.config import SchedulerConfig
from phalanx.model.names import LABEL_POD_GROUP
from phalanx.model.resources import CPU, GPU
from phalanx.sim.store import Key, Object
from phalanx.sim.workloads import job, pod_group, tree_of_nodes
from phalanx.sim.world import World

RACK: Final = "cloud.provider.com/topology-rack"
NAME: Final = "drill"
GANG: Final = 16
SETTLE_S: Final = 4.0


async def _nothing_more(_world: World) -> str | None:
    return None


class Act(Struct, frozen=True):
    """`prepare` is awaited undisturbed. `begin` starts what is drilled; what it returns says if that is done.

    `within_s`: simulated seconds after which an act with one fault must be done. `afterwards` is awaited
    then, and says what is wrong with what is left, if anything is.
    """

    name: str
    prepare: Callable[[World], Coroutine[Any, Any, None]]
    begin: Callable[[World], Callable[[], bool]]
    within_s: float
    afterwards: Callable[[World], Coroutine[Any, Any, str | None]] = _nothing_more
    config: SchedulerConfig = SchedulerConfig()


def cluster() -> list[Object]:
    """Two racks of three nodes with eight GPUs each: the gang fits into one rack, on two of its nodes."""
    return tree_of_nodes({RACK: 2, "kubernetes.io/hostname": 3})


def gang(name: str = NAME, *, members: int = GANG, **spec: Any) -> list[Object]:
    """A PodGroup and a Job of one-GPU pods that must share a rack."""
    group = pod_group(name, min_member=members, topology={"required": "rack"}, **spec)
    whole = job(name, members=members, group=name, requests={CPU: "4", GPU: "1"})
    whole["spec"]["backoffLimit"] = 1000
    return [group, whole]


async def settled(world: World) -> None:
    """The cluster is there, and somebody leads."""
    world.create(cluster())
    world.start()
    await asyncio.sleep(SETTLE_S)


async def _running(world: World, **spec: Any) -> None:
    await settled(world)
    world.create(gang(**spec))
    async with asyncio.timeout(60):
        while not _all_run(world):
            await asyncio.sleep(0.5)
    await asyncio.sleep(SETTLE_S)


async def _running_to_be_restarted(world: World) -> None:
    await _running(world, recovery={"onNodeLoss": "Restart", "gracePeriod": "5s"})


async def _running_to_be_replaced(world: World) -> None:
    await _running(world, recovery={"onNodeLoss": "Replace", "gracePeriod": "5s"})


def _create_gang(world: World) -> Callable[[], bool]:
    world.create(gang())
    return lambda: _all_run(world)


def _lose_a_node(world: World) -> Callable[[], bool]:
    lost = _nodes_in_use(world)[0]
    world.controllers.kubelets.lose(lost)
    return lambda: lost not in _nodes_in_use(world) and _all_run(world)


def _delete_a_member(world: World) -> Callable[[], bool]:
    pod = next(pod for pod in _pods(world) if pod["spec"].get("nodeName"))
    metadata = pod["metadata"]
    world.client.delete(Key("pods", metadata["namespace"], metadata["name"]), uid=metadata["uid"], grace_s=0)
    return lambda: _all_run(world)


def _all_run(world: World) -> bool:
    return run_of(world, NAME) == GANG


def run_of(world: World, group: str) -> int:
    """How many pods of a group run."""
    return len(running_pods(world, group))


def running_pods(world: World, group: str) -> list[Object]:
    """The pods of a group that run and are not being deleted."""
    return [
        pod
        for pod in _pods(world)
        if pod["metadata"]["labels"].get(LABEL_POD_GROUP) == group and pod["status"].get("phase") == "Running"
    ]


def _pods(world: World) -> list[Object]:
    found = [world.client.get(key) for key in world.client.keys("pods")]
    return [pod for pod in found if pod is not None and "deletionTimestamp" not in pod["metadata"]]


def _nodes_in_use(world: World) -> list[str]:
    return sorted({pod["spec"]["nodeName"] for pod in _pods(world) if pod["spec"].get("nodeName")})


ACTS: Final = (
    Act("bind", settled, _create_gang, within_s=120.0),
    Act("member-lost", _running, _delete_a_member, within_s=120.0),
    Act("node-lost-replace", _running_to_be_replaced, _lose_a_node, within_s=900.0),
    Act("node-lost-restart", _running_to_be_restarted, _lose_a_node, within_s=900.0),
)
"""A gang's binding; one lost member; a lost node, its pods replaced or the gang started anew."""
