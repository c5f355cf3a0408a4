"""The operations that drills repeat: a few nodes, one gang, one task of the scheduler."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from msgspec import Struct
from phalanx.framework.config import SchedulerConfig
from phalanx.model.names import LABEL_POD_GROUP
from phalanx.model.resources import CPU, GPU

from phalanx_simulator.embedded.manifests import job, pod_group, tree_of_nodes
from phalanx_simulator.embedded.store import Change, Key, Object
from phalanx_simulator.runs.world import World

RACK: Final = "cloud.provider.com/topology-rack"
NAME: Final = "drill"
GANG: Final = 16
SETTLE_S: Final = 4.0
_POLL_S: Final = 0.25
_REMOVED_S: Final = 1.0
"""Seconds until the simulated controller has deleted a failed pod."""
_KEEPS_RUNNING_S: Final = 20.0
_DELETED_MEMBERS: Final = 4
_ALL_LANDED_S: Final = 3.0


async def _no_check(_world: World) -> str | None:
    return None


class Operation(Struct, frozen=True):
    """One operation of the scheduler that a drill repeats.

    `within_s`: simulated seconds after which the operation with one fault must be done. `afterwards` is
    awaited then, and returns what is wrong with the result, if anything.
    """

    name: str
    prepare: Callable[[World], Coroutine[Any, Any, None]]
    begin: Callable[[World], Callable[[], bool]]
    within_s: float
    afterwards: Callable[[World], Coroutine[Any, Any, str | None]] = _no_check
    config: SchedulerConfig = SchedulerConfig(suspend_evicted_workloads=False)
    """Pods are deleted one by one, so that each of these requests can fail."""


def cluster() -> list[Object]:
    """Two racks of three nodes with eight GPUs each.

    The gang fits into one rack, on two nodes.
    """
    return tree_of_nodes({RACK: 2, "kubernetes.io/hostname": 3})


def gang(name: str = NAME, *, members: int = GANG, **spec: Any) -> list[Object]:
    """A PodGroup and a Job of one-GPU pods that must share a rack."""
    group = pod_group(name, min_member=members, topology={"required": "rack"}, **spec)
    named = {"priorityClassName": spec["priorityClassName"]} if "priorityClassName" in spec else {}
    whole = job(name, members=members, group=name, requests={CPU: "4", GPU: "1"}, **named)
    whole["spec"]["backoffLimit"] = 1000
    return [group, whole]


async def settled(world: World) -> None:
    """Create the cluster and wait for a leader."""
    world.create(cluster())
    world.start()
    await asyncio.sleep(SETTLE_S)


async def running(world: World, **spec: Any) -> None:
    """Wait until the gang runs."""
    await settled(world)
    world.create(gang(**spec))
    async with asyncio.timeout(60):
        while not _all_run(world):
            await asyncio.sleep(0.5)
    await asyncio.sleep(SETTLE_S)


async def _running_with_node_loss_restart(world: World) -> None:
    await running(world, recovery={"onNodeLoss": "Restart", "gracePeriod": "5s"})


async def _running_with_member_failure_restart(world: World) -> None:
    await running(world, recovery={"onMemberFailure": "Restart"})


async def _running_with_node_loss_replace(world: World) -> None:
    await running(world, recovery={"onNodeLoss": "Replace", "gracePeriod": "5s"})


def _create_gang(world: World) -> Callable[[], bool]:
    world.create(gang())
    return lambda: _all_run(world)


def _create_job(world: World) -> Callable[[], bool]:
    """A Job without a PodGroup, whose record is not in a status."""
    whole = job(NAME, members=GANG, requests={CPU: "4", GPU: "1"})
    whole["spec"]["backoffLimit"] = 1000
    world.create([whole])
    return lambda: _job_runs(world)


async def _running_job(world: World) -> None:
    await settled(world)
    is_done = _create_job(world)
    async with asyncio.timeout(60):
        while not is_done():
            await asyncio.sleep(0.5)
    await asyncio.sleep(SETTLE_S)


def _delete_a_member_of_the_job(world: World) -> Callable[[], bool]:
    _delete(world, _members(world)[0])
    return lambda: _job_runs(world)


async def _keeps_running(world: World) -> str | None:
    """No running member is evicted again."""
    before = _bound(world)
    await asyncio.sleep(_KEEPS_RUNNING_S)
    gone = len(before - _bound(world))
    return f"{gone} members were deleted after the gang had restarted" if gone else None


def _lose_a_node(world: World) -> Callable[[], bool]:
    """Lose the node of the last members, which are evicted after the others."""
    lost = _nodes_in_use(world)[-1]
    world.controllers.kubelets.lose(lost)
    return lambda: lost not in _nodes_in_use(world) and _all_run(world)


def _lose_a_node_for_all(world: World) -> Callable[[], bool]:
    before, is_off_node = _bound(world), _lose_a_node(world)
    return lambda: is_off_node() and not before & _bound(world)


def _delete_a_member(world: World) -> Callable[[], bool]:
    _delete(world, _members(world)[0])
    return lambda: _all_run(world)


def _fail_a_member(world: World) -> Callable[[], bool]:
    before = _bound(world)
    world.controllers.kubelets.fail(_key(_members(world)[0]))
    return lambda: _all_run(world) and not before & _bound(world)


def _fail_and_remove_a_member(world: World) -> Callable[[], bool]:
    """Fail a member, then remove it.

    A leader that starts after that cannot know of the failure; then the other members keep running.
    """
    before, failed = _bound(world), _members(world)[0]
    world.controllers.kubelets.fail(_key(failed))
    world.loop.call_later(_REMOVED_S, lambda: _delete(world, failed))
    return lambda: _all_run(world) and len(before & _bound(world)) in (0, GANG - 1)


def _create_gang_that_gets_stuck(world: World) -> Callable[[], bool]:
    """Delete the first bound members and cordon all nodes until the others are released.

    If the leader fails so early that none is left, or that the others are bound in time, the gang just
    starts.
    """
    landed: list[str] = []
    stuck: set[str] = set()

    def on_change(change: Change) -> None:
        pod, before = change.entry.data, change.previous
        if not pod["spec"].get("nodeName") or before is None or before.data["spec"].get("nodeName"):
            return
        if not landed:
            world.go(block())
        landed.append(pod["metadata"]["uid"])
        if len(landed) <= _DELETED_MEMBERS:
            world.loop.call_soon(_delete, world, pod)

    async def block() -> None:
        _cordon(world, cordoned=True)
        await asyncio.sleep(_ALL_LANDED_S)
        unsubscribe()
        stuck.update(_bound(world))
        while len(stuck) < GANG and stuck & _bound(world):
            await asyncio.sleep(_POLL_S)
        _cordon(world, cordoned=False)

    unsubscribe = world.client.subscribe("pods", on_change)
    world.create(gang())
    return lambda: _all_run(world) and (len(stuck) == GANG or not stuck & _bound(world))


def _cordon(world: World, *, cordoned: bool) -> None:
    for key in world.client.keys("nodes"):
        world.client.update(key, lambda it: {**it, "spec": {**it["spec"], "unschedulable": cordoned}})


def _delete(world: World, pod: Object) -> None:
    world.client.delete(_key(pod), uid=pod["metadata"]["uid"], grace_s=0)


def _key(pod: Object) -> Key:
    return Key("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])


def _all_run(world: World) -> bool:
    return run_of(world, NAME) == GANG


def _job_runs(world: World) -> bool:
    return sum(1 for pod in _members(world) if pod["status"].get("phase") == "Running") == GANG


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


def _members(world: World) -> list[Object]:
    """The pods that have a node."""
    return [pod for pod in _pods(world) if pod["spec"].get("nodeName")]


def _bound(world: World) -> set[str]:
    """UIDs of the bound pods that have not failed."""
    return {pod["metadata"]["uid"] for pod in _members(world) if pod["status"].get("phase") != "Failed"}


def _nodes_in_use(world: World) -> list[str]:
    return sorted({pod["spec"]["nodeName"] for pod in _members(world)})


OPERATIONS: Final = (
    Operation("bind", settled, _create_gang, within_s=120.0),
    Operation("member-lost", running, _delete_a_member, within_s=120.0),
    Operation("node-lost-replace", _running_with_node_loss_replace, _lose_a_node, within_s=900.0),
    Operation(
        "node-lost-restart", _running_with_node_loss_restart, _lose_a_node_for_all, 900.0, _keeps_running
    ),
    Operation(
        "member-failed-restart", _running_with_member_failure_restart, _fail_a_member, 300.0, _keeps_running
    ),
    Operation(
        "failed-member-removed",
        _running_with_member_failure_restart,
        _fail_and_remove_a_member,
        300.0,
        _keeps_running,
    ),
    Operation("partial-release", settled, _create_gang_that_gets_stuck, within_s=300.0),
    Operation("job-bound", settled, _create_job, within_s=120.0),
    Operation("job-member-lost", _running_job, _delete_a_member_of_the_job, within_s=120.0),
)
"""A gang is bound; it loses a member; it loses a node, and its pods are replaced or the gang is restarted; a
member fails and the gang is restarted, with the failed pod kept or removed; a gang stays partly bound. A Job
without a PodGroup is bound, and loses a member."""
