"""Plays about usage: the capacity that pods of any scheduler use, and that is freed when they end."""

import asyncio
from typing import Any

from phalanx_simulator.embedded.manifests import gang, job, node, pod, pod_group
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.faults.edits import delete, node_key
from phalanx_simulator.hosts.network import Effect, Rule
from phalanx_simulator.invariants.cache_tables import check_cache
from phalanx_simulator.runs.world import World

from tests.bugbank.worlds import FULL, GPU, CycleRunner, assignments, at_rest, opened, watched
from tests.model import written

FOREIGN = "default-scheduler"


def foreign_pods_are_counted() -> str | None:
    """Other schedulers bind pods of every kind; ours fill the rest, and the caches count as kubelets do."""

    async def act(world: World) -> str | None:
        await opened(world, *(node(f"n{n}", cpu="16", pods="6") for n in range(6)))
        world.create(_foreign())
        await asyncio.sleep(6.0)
        delete(world.client, Key("pods", "default", "stays-long"))
        world.create(pod(f"one-{n}", requests={GPU: "1", "cpu": "2"}) for n in range(40))
        await at_rest(world)
        return None

    return watched(act)


def _foreign() -> list[Object]:
    many = {"cpu": "10"}
    init = [{"name": "init", "image": "i", "resources": {"requests": {"cpu": "12"}}}]
    sidecar = [{**init[0], "restartPolicy": "Always"}]
    return [
        _theirs("plain", "n0", {GPU: "7"}),
        _theirs("preflight", "n1", {"cpu": "1"}, initContainers=init),
        _theirs("with-sidecar", "n2", {"cpu": "1"}, initContainers=sidecar),
        *(_theirs(f"tiny-{n}", "n3", {}) for n in range(4)),
        _theirs("ends-soon", "n4", many, run_s=2.0),
        _theirs("stays-long", "n5", {GPU: "7"}, terminationGracePeriodSeconds=600),
    ]


def _theirs(name: str, on: str, requests: dict[str, str], **rest: Any) -> Object:
    return pod(name, scheduler=FOREIGN, requests=requests or {"cpu": "0"}, nodeName=on, **rest)


def pods_of_other_schedulers_are_not_bound() -> str | None:
    """Pods of another scheduler wait, with and without a group. A pod of ours triggers a cycle."""

    async def act(world: World) -> str | None:
        await opened(world, node("n0"))
        world.create([pod_group("theirs", min_member=2)])
        world.create(gang("theirs", {"w": 2}, scheduler=FOREIGN))
        world.create([pod("alone", scheduler=FOREIGN), pod("ours")])
        await at_rest(world, 20.0)
        return None

    return watched(act)


def a_pod_is_deleted_during_its_bind() -> str | None:
    """Its capacity is free again, in every ledger."""
    runner = CycleRunner(written.node("n"), written.pod("p", requests={GPU: 8}))
    runner.assume(runner.cycle())
    runner.gone(written.pod("p", requests={GPU: 8}))
    check_cache(runner.cache)
    runner.put(written.pod("q", requests={GPU: 8}))
    return None if assignments(runner.cycle()) else "the capacity of a deleted pod is not free"


def a_terminating_pod_uses_its_capacity() -> str | None:
    """Its containers may keep running for minutes."""
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 600}
    old = written.pod("old", meta=going, requests={GPU: 8}, nodeName="n")
    runner = CycleRunner(written.node("n"), old)
    runner.put(written.pod("new", requests={GPU: 1}))
    return "a pod is placed where another one still runs" if assignments(runner.cycle()) else None


def a_node_of_a_running_gang_is_deleted() -> str | None:
    """A gang in one rack has a waiting surplus member; a node of its members is deleted, and one is added."""

    async def act(world: World) -> str | None:
        rack = {"cloud.provider.com/topology-rack": "r0"}
        await opened(world, *(node(f"n{n}", labels=rack) for n in range(2)))
        group = pod_group("g", min_member=2, topology={"required": "rack"})
        world.create([group, job("g", members=3, group="g", requests=FULL)])
        await asyncio.sleep(6.0)
        delete(world.client, node_key("n0"))
        world.create([node("other")])
        await at_rest(world)
        return None

    return watched(act)


def another_scheduler_binds_first() -> str | None:
    """After each decision another scheduler binds a pod to the chosen node before our bind is sent."""

    async def act(world: World) -> str | None:
        taken: dict[str, None] = {}

        def take(_host: str, result: Any) -> None:
            for placement in result.placements:
                for bind in placement.binds:
                    if bind.node not in taken:
                        taken[bind.node] = None
                        world.create([_theirs(f"thief-{len(taken)}", bind.node, FULL)])

        world.listen(take)
        await opened(world, *(node(f"n{n}") for n in range(6)))
        _slow_plans(world)
        world.create([pod_group("g", min_member=2)])
        world.create(gang("g", {"w": 2}, requests=FULL))
        await at_rest(world)
        return None

    return watched(act, single_writer=False)


def _slow_plans(world: World) -> None:
    """A second passes between a decision and its first bind: the placement is written first."""
    for replica in world.replicas:
        if replica.process is not None:
            rule = Rule(effect=Effect.SLOW, methods=("PATCH",), path_part="/podgroups", slow_s=1.0)
            replica.process.network.rules.append(rule)


def a_node_is_deleted_after_the_decision() -> str | None:
    """The node on which a pod was placed is deleted before the bind is sent."""

    async def act(world: World) -> str | None:
        def remove(_host: str, result: Any) -> None:
            for node_name in assignments(result).values():
                delete(world.client, node_key(node_name))

        await opened(world, node("n0"), node("n1"))
        _slow_plans(world)
        world.listen(remove)
        world.create([pod_group("g", min_member=2)])
        world.create(gang("g", {"w": 2}, requests=FULL))
        await at_rest(world, 20.0)
        return None

    return watched(act)


def a_foreign_pod_is_resized() -> str | None:
    """It uses what its kubelet has allocated, although its requests are lower."""
    small = {"cpu": 1}
    before = written.pod("theirs", requests=small, schedulerName=FOREIGN, nodeName="n")
    given = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": 8}}}]}
    runner = CycleRunner(written.node("n"), before)
    runner.cycle()
    runner.put(written.pod("theirs", requests=small, schedulerName=FOREIGN, nodeName="n", status=given))
    runner.put(written.pod("p", requests=small))
    return "a pod is placed where a resize has taken all" if assignments(runner.cycle()) else None


def a_pod_changes_its_gang() -> str | None:
    """Its label changes to another group of its namespace: it is a member of that group only."""
    key = written.label("pod-group")
    runner = CycleRunner(
        written.node("n"),
        written.pod_group("a"),
        written.pod_group("b"),
        *(written.pod(name, labels={key: name[0]}, requests={GPU: 1}) for name in ("a0", "a1", "b0")),
    )
    runner.put(written.pod("a1", labels={key: "b"}, requests={GPU: 1}))
    check_cache(runner.cache)
    names = sorted(assignments(runner.cycle()))
    return None if names == ["a0", "a1", "b0"] else f"placed are {names}"
