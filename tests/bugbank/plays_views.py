"""Plays about the cache: late, lost and repeated events, restarts, and what should trigger a cycle."""

import asyncio

from phalanx_simulator.embedded.manifests import node, pod, pod_group, queue
from phalanx_simulator.embedded.store import Object
from phalanx_simulator.hosts.network import WATCH, Effect, Network, Rule
from phalanx_simulator.hosts.replica import Process

from tests.bugbank.service_harness import GROUPS, Stage, gang_with_job, gang_with_pods, member, seen

QUEUES = "queues.scheduling.phalanx.dev"


def pods_and_nodes_start_and_end() -> str | None:
    """Pods and nodes are created, end and are deleted; at the end the cache is checked."""

    async def play(stage: Stage) -> None:
        foreign = pod("foreign", scheduler="default-scheduler", requests={"cpu": "2"})
        await stage.open(node("n1"), node("n2"), foreign)
        stage.bind_foreign("foreign", "n1")
        stage.create(
            *gang_with_job("short", 4, run_s=5.0), *gang_with_job("long", 4), *gang_with_pods("held", 20)
        )
        await stage.until(lambda: stage.in_phase("Succeeded") == 4, "the short gang ends")
        stage.delete("jobs.batch", "long")
        stage.delete("pods", "foreign", grace_s=0)
        stage.delete(GROUPS, "held")
        for number in range(20):
            stage.delete("pods", f"held-{number}", grace_s=0)
        stage.delete("nodes", "n2")
        await asyncio.sleep(60)
        stage.create(*gang_with_job("last", 8))
        await stage.until(lambda: stage.running("last") == 8, "the pods that fit one node are placed")
        stage.must(stage.nodes_of("last") == ["n1"], "on the node that exists")
        stage.world.at_rest()

    return seen(play, rival=True)


def resource_version_has_expired() -> str | None:
    """The resourceVersion from which a watch should resume has expired (410): a new list is needed."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"), node("n2"))
        stage.create(member("old", gpus=8), member("young", gpus=8))
        await stage.until(lambda: stage.running() == 2, "both run")
        stage.network.silence_watches()
        stage.delete("pods", "old", grace_s=0)
        stage.delete("nodes", "n2")
        stage.create(node("n3"))
        await asyncio.sleep(1)
        stage.world.server.store.compact()
        stage.network.cut_watches()
        stage.create(member("next-1", gpus=8), member("next-2", gpus=8))
        await stage.until(lambda: stage.running("next") >= 1, "the pods are placed", within_s=30)
        await asyncio.sleep(60)
        stage.world.at_rest()

    return seen(play)


def lists_have_pages() -> str | None:
    """The server gives lists in pages, and the pods that fill the node are on the second page."""

    async def play(stage: Stage) -> None:
        many = [pod(f"a-{number:03d}", scheduler="default-scheduler") for number in range(520)]
        last = member("z-last", gpus=8, scheduler="default-scheduler")
        stage.create(node("n1"), *many, last)
        stage.bind_foreign("z-last", "n1")
        stage.world.replicas[0].prepare(_without_watch_lists)
        await stage.open()
        stage.create(member("waits", gpus=8))
        await asyncio.sleep(15)
        stage.must(not stage.binds(), "no bind is sent without capacity")

    return seen(play, rival=True)


def watches_become_silent() -> str | None:
    """Connections stay open and deliver no more events."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        stage.network.silence_watches()
        stage.create(member("unseen"))
        await stage.until(lambda: stage.running() == 1, "the pod is observed in the end", within_s=150)

    return seen(play)


def pod_list_is_late() -> str | None:
    """A scheduler starts again; the list of pods arrives seconds after that of nodes."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"), node("n2"))
        stage.create(*gang_with_pods("train", 2, gpus=8))
        await stage.until(lambda: stage.running() == 2, "both nodes are full")
        stage.create(member("waits", gpus=8))
        stage.leader.prepare(lambda process: _delay(process.network, "/pods"))
        stage.kill_leader()
        await asyncio.sleep(60)
        stage.must(not stage.binds("waits"), "no bind is sent without capacity")

    return seen(play)


def node_list_is_late() -> str | None:
    """A scheduler starts again; the list of nodes arrives seconds after that of pods."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"), node("n2"))
        stage.create(*gang_with_pods("train", 2, gpus=8))
        await stage.until(lambda: stage.running() == 2, "both nodes are full")
        stage.create(member("waits", gpus=8))
        stage.leader.prepare(lambda process: _delay(process.network, "/nodes"))
        stage.kill_leader()
        await asyncio.sleep(60)
        stage.must(not stage.binds("waits"), "no bind is sent without capacity")
        stage.world.at_rest()

    return seen(play)


def pod_group_list_is_late() -> str | None:
    """A scheduler starts again; the list of PodGroups arrives seconds after that of pods."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        stage.create(*gang_with_pods("train", 4))
        await stage.until(lambda: stage.running() == 4, "the gang runs")
        stage.leader.prepare(lambda process: _delay(process.network, "/podgroups"))
        stage.kill_leader()
        await asyncio.sleep(1)
        stage.create(*gang_with_pods("large", 12))
        await asyncio.sleep(60)
        stage.must(stage.bound("large") == 0, "no member of a gang that does not fit is bound")
        stage.must(stage.running("train") == 4 and not stage.evicted, "the other gang keeps running")

    return seen(play)


def cache_of_the_follower_lags() -> str | None:
    """The follower's events are late; the leader binds a pod and is killed."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        stage.process_of(stage.follower).network.delay_watches(120.0, "/pods")
        stage.create(member("first", gpus=8))
        await stage.until(lambda: stage.running() == 1, "the first runs")
        stage.create(member("second", gpus=8))
        await asyncio.sleep(0.5)
        network = stage.process_of(stage.follower).network
        stage.world.loop.call_later(10.0, network.delay_watches, 0.0, "/pods")
        stage.kill_leader()
        await asyncio.sleep(45)
        stage.must(not stage.binds("second"), "the second finds no capacity")

    return seen(play, replicas=2)


def restart_below_minimum() -> str | None:
    """A gang starts and loses a member before its status says so; then the scheduler is killed.

    The other member must keep running.
    """

    async def play(stage: Stage) -> None:
        refused: list[Rule] = []

        def refuse_statuses() -> None:
            if not refused:
                rule = stage.meet(Effect.REFUSED, "PATCH", "/podgroups/train/status", status=409)
                refused.append(rule)

        await stage.open(node("n1"), node("n2"))
        stage.on_bind = refuse_statuses
        stage.create(
            *gang_with_job("train", 2, gpus=8, recovery={"onNodeLoss": "Replace", "gracePeriod": "1s"})
        )
        await stage.until(lambda: stage.running() == 2, "the gang runs")
        await asyncio.sleep(1)
        stage.cordon("n2")
        gone = next(one for one in stage.pods() if one["spec"]["nodeName"] == "n2")
        stage.delete("pods", gone["metadata"]["name"], grace_s=0)
        await asyncio.sleep(0.5)
        refused[0].times = 0
        await stage.until(lambda: "startedAt" in stage.status("train"), "its status says that it has started")
        stage.kill_leader()
        await asyncio.sleep(60)
        stage.must(not stage.evicted, "no pod is evicted")
        stage.must(stage.running() == 1, "the other member keeps running")
        stage.cordon("n2", cordoned=False)
        await stage.until(lambda: stage.running() == 2, "the gang is complete again")

    return seen(play)


def failed_member_is_replaced() -> str | None:
    """A member fails and is replaced: the new pod counts, and is placed before other gangs."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"), node("n2"))
        stage.create(*gang_with_job("train", 2, gpus=8))
        await stage.until(lambda: stage.running() == 2, "the gang runs")
        stage.create(member("other", gpus=8))
        await asyncio.sleep(2)
        stage.world.controllers.kubelets.fail(stage.world.client.keys("pods")[1], exit_code=1)
        await asyncio.sleep(1)
        await stage.until(lambda: stage.running("train") == 2, "the gang is complete again")
        stage.must(stage.bound("other") == 0, "before the other gets a node")

    return seen(play)


def member_fails_at_start() -> str | None:
    """One of the two existing members has failed: the gang is not complete."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        first = member("train-0", group="train")
        stage.create(gang_with_pods("train", 2)[0], {**first, "spec": {**first["spec"], "nodeName": "n1"}})
        await stage.until(lambda: stage.running() == 1, "another scheduler bound one member")
        stage.world.controllers.kubelets.fail(stage.world.client.keys("pods")[0], exit_code=1)
        await stage.until(lambda: stage.in_phase("Failed") == 1, "it has failed")
        stage.create(member("train-1", group="train"))
        await asyncio.sleep(5)
        stage.must(stage.bound("train-1") == 0, "the second alone is not enough")

    return seen(play, rival=True)


def all_members_are_lost() -> str | None:
    """A gang has lost all its members, and half of it would fit: it starts completely or not at all."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"), node("n2"))
        stage.create(*gang_with_job("train", 4, gpus=4))
        await stage.until(lambda: stage.running() == 4, "the gang runs")
        await asyncio.sleep(1)
        stage.cordon("n2")
        await asyncio.sleep(1)
        for one in stage.pods():
            stage.delete("pods", one["metadata"]["name"], grace_s=0)
        await asyncio.sleep(5)
        stage.must(stage.bound() == 0, "half of it is not started")
        stage.cordon("n2", cordoned=False)
        await stage.until(lambda: stage.running() == 4, "the gang runs again")

    return seen(play)


def role_is_missing() -> str | None:
    """There are enough members, but none of the leader role."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        roles = [
            {"name": "leader", "count": 1, "minMember": 1},
            {"name": "worker", "count": 4, "minMember": 2},
        ]
        stage.create(pod_group("train", min_member=3, roles=roles))
        for number in range(4):
            stage.create(member(f"worker-{number}", group="train", role="worker"))
        await asyncio.sleep(4)
        stage.must(stage.bound() == 0, "workers without a leader wait")
        stage.create(member("leader", group="train", role="leader"))
        await stage.until(lambda: stage.running() == 5, "all run")

    return seen(play)


def capacity_shrinks() -> str | None:
    """A node loses GPUs, below the usage; it may take pods without GPUs, and no more GPU pods."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        stage.create(*gang_with_pods("train", 4))
        await stage.until(lambda: stage.running() == 4, "the gang runs")
        stage.offer("n1", gpu="6")
        await asyncio.sleep(1)
        stage.create(*gang_with_pods("more", 3))
        await asyncio.sleep(3)
        stage.must(stage.bound("more") == 0, "three do not fit where two GPUs are left")
        stage.offer("n1", gpu="2")
        await asyncio.sleep(1)
        stage.create(member("single"))
        await asyncio.sleep(3)
        stage.must(stage.bound("single") == 0, "the free capacity is negative")
        stage.create(pod("plugin", requests={"cpu": "1"}))
        await stage.until(lambda: stage.running("plugin") == 1, "a pod without GPUs runs there", within_s=5)
        stage.offer("n1", gpu="8")
        await stage.until(lambda: stage.running("more") == 3, "the GPUs are usable again")

    return seen(play)


def _wakes(name: str, act: str) -> str | None:
    async def play(stage: Stage) -> None:
        foreign = member("foreign", gpus=8, scheduler="default-scheduler")
        await stage.open(node("n1"), foreign, queue("small", limit={"nvidia.com/gpu": "1"}))
        stage.bind_foreign("foreign", "n1")
        second = node("n2")
        second["spec"] = {"unschedulable": True}
        stage.create(second, *gang_with_pods("train", 2, queue="small" if act == "limit" else "default"))
        if act in ("limit", "minimum"):
            stage.delete("pods", "foreign", grace_s=0)
            stage.edit("pods", "train-0", lambda item: item)
        if act == "minimum":
            stage.edit(GROUPS, "train", lambda item: _with(item, minMember=12))
        await asyncio.sleep(15)
        stage.create(queue("another"))
        await asyncio.sleep(15)
        stage.must(stage.bound("train") == 0, "the gang waits")
        if act == "exit":
            stage.delete("pods", "foreign", grace_s=0)
        elif act == "uncordon":
            stage.cordon("n2", cordoned=False)
        elif act == "limit":
            stage.edit(QUEUES, "small", lambda item: _with(item, limit={"nvidia.com/gpu": "2"}))
        elif act == "minimum":
            stage.edit(GROUPS, "train", lambda item: _with(item, minMember=2))
        await stage.until(lambda: stage.running("train") == 2, name, within_s=10)

    return seen(play, rival=True)


def foreign_pod_ends() -> str | None:
    """A foreign pod frees its capacity, and nothing else happens."""
    return _wakes("its capacity is used", "exit")


def node_is_uncordoned() -> str | None:
    """A node is uncordoned, and nothing else happens."""
    return _wakes("the node is used", "uncordon")


def limit_is_raised() -> str | None:
    """The limit of a queue is raised, and nothing else happens."""
    return _wakes("the queue uses it", "limit")


def minimum_is_lowered() -> str | None:
    """The minimum of a gang is lowered, and nothing else happens."""
    return _wakes("the gang runs", "minimum")


def _without_watch_lists(process: Process) -> None:
    """And without watches, so that pages are listed again and again."""
    for part in ("/pods", "/nodes"):
        rule = Rule(effect=Effect.REFUSED, methods=(WATCH,), path_part=part, status=400)
        process.network.rules.append(rule)


def _with(item: Object, **spec: object) -> Object:
    return {**item, "spec": {**item["spec"], **spec}}


def _delay(network: Network, part: str) -> None:
    """The first events of these arrive five seconds late."""
    network.delay_watches(5.0, part)
    network.later(30.0, lambda: network.delay_watches(0.0, part))


PLAYS = (
    pods_and_nodes_start_and_end,
    resource_version_has_expired,
    lists_have_pages,
    watches_become_silent,
    pod_list_is_late,
    node_list_is_late,
    pod_group_list_is_late,
    cache_of_the_follower_lags,
    restart_below_minimum,
    failed_member_is_replaced,
    member_fails_at_start,
    all_members_are_lost,
    role_is_missing,
    capacity_shrinks,
    foreign_pod_ends,
    node_is_uncordoned,
    limit_is_raised,
    minimum_is_lowered,
)
