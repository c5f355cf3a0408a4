"""Plays about binding: what is sent, what its outcome means, and which pods wait for which."""

import asyncio
import json
from typing import Final

from phalanx_simulator.embedded.manifests import job, node, queue
from phalanx_simulator.embedded.store import Key
from phalanx_simulator.hosts.network import Effect

from tests.bugbank.service_harness import GROUPS, Stage, gang_with_job, gang_with_pods, member, seen

_LEASE: Final = Key("leases.coordination.k8s.io", "kube-system", "phalanx")


def plain() -> str | None:
    """A gang runs, and one of its pods is recreated."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"), node("n2"))
        stage.create(*gang_with_job("train", 8))
        await stage.until(lambda: stage.running() == 8, "the gang runs")
        stage.delete("pods", stage.pods()[0]["metadata"]["name"], grace_s=0)
        await stage.until(lambda: stage.running() == 8, "the gang runs again")

    return seen(play)


def slow_binds() -> str | None:
    """Binds take seconds; during that time their pods are edited, and others request the capacity."""

    async def play(stage: Stage) -> None:
        group, second = gang_with_pods("second", 1, gpus=8)
        await stage.open(node("n1"), group)
        slow = stage.meet(Effect.SLOW, "POST", "/binding", slow_s=3.0)
        stage.create(member("first", gpus=8))
        await stage.until(lambda: bool(stage.binds("first")), "the first bind is sent")
        stage.create(second)
        stage.edit("pods", "first", _labelled)
        await asyncio.sleep(0.5)
        stage.edit("pods", "first", lambda item: _labelled(item, "again"))
        await asyncio.sleep(8)
        slow.times = 0
        stage.must(not stage.binds("second"), "the second waits")
        stage.must(stage.running("first") == 1, "the first runs")

    return seen(play)


def slow_binds_under_a_limit() -> str | None:
    """Binds take seconds; during that time the queue's limit counts them."""

    async def play(stage: Stage) -> None:
        limited = queue("small", limit={"nvidia.com/gpu": "4"})
        await stage.open(node("n1"), limited)
        stage.meet(Effect.SLOW, "POST", "/binding", slow_s=3.0)
        for number in range(4):
            stage.create(*gang_with_pods(f"train-{number}", 2, queue="small"))
            await asyncio.sleep(0.5)
        await asyncio.sleep(10)
        stage.must(stage.bound() == 4, "the queue uses exactly its limit")

    return seen(play)


def all_binds_refused() -> str | None:
    """All binds of a gang are refused: it has not started, and no status or event may say that it has."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        refused = stage.meet(Effect.REFUSED, "POST", "/binding", status=409)
        stage.create(*gang_with_pods("train", 2))
        for _ in range(100):
            status = stage.status("train")
            stage.must(not status.get("startedAt"), "the gang has not started")
            stage.must(status.get("phase") not in ("Running", "Finished"), "it is not reported as running")
            await asyncio.sleep(0.1)
        events = [one for one in stage.sent if one.method == "POST" and "/events" in one.path]
        events = [one for one in events if json.loads(one.body).get("reason") == "Scheduled"]
        stage.must(not events, "no event reports a success")
        refused.times = 0
        await stage.until(lambda: stage.running() == 2, "the gang runs in the end", within_s=45)

    return seen(play)


def slow_to_bind() -> str | None:
    """The binds of a gang are lost for a while: until they are applied no status may say that it runs."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        stage.meet(Effect.LOST, "POST", "/binding", slow_s=4.0, times=6)
        stage.create(*gang_with_pods("train", 2))
        while stage.bound() < 2:
            status = stage.status("train")
            stage.must(not status.get("startedAt"), "the gang has not started")
            stage.must(status.get("phase") not in ("Running", "Finished"), "it is not reported as running")
            await asyncio.sleep(0.1)
        await stage.until(lambda: stage.running() == 2, "the gang runs in the end", within_s=45)

    return seen(play)


def one_pod_keeps_failing() -> str | None:
    """The API fails for one pod, or asks it to wait: the other pods are bound nevertheless."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"), node("n2"))
        ill = stage.meet(Effect.REFUSED, "POST", "/pods/ill/binding", status=500)
        stage.create(member("ill"))
        late = stage.meet(Effect.REFUSED, "POST", "/pods/late/binding", status=429, retry_after_s=20)
        stage.create(member("late"))
        await stage.until(lambda: bool(stage.binds("late")), "the bind is tried")
        for number in range(5):
            stage.create(member(f"well-{number}"))
            await stage.until(lambda: stage.bound("well") > number, f"well-{number} is bound", within_s=2)  # noqa: B023
        await asyncio.sleep(15)
        stage.must(len(stage.binds("late")) == 1, "nothing is sent before Retry-After")
        stage.must(len(stage.binds("ill")) < 30, "retries have a backoff")
        ill.times = late.times = 0
        await stage.until(lambda: stage.running() == 7, "all run", within_s=45)

    return seen(play)


def node_cordoned_before_binds() -> str | None:
    """Between the decision and the first bind a node is cordoned: no member of the gang may be bound."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"), node("n2"))
        stage.meet(Effect.SLOW, "PATCH", "/podgroups/train/status", slow_s=2.0, times=2)
        stage.create(*gang_with_pods("train", 2, gpus=8))
        await asyncio.sleep(1)
        stage.cordon("n2")
        await asyncio.sleep(6)
        stage.must(not stage.binds(), "no bind was sent")
        stage.cordon("n2", cordoned=False)
        await stage.until(lambda: stage.running() == 2, "both run when both nodes are usable")

    return seen(play)


def foreign_pod_before_binds() -> str | None:
    """Between the decision and the first bind another scheduler takes the capacity."""

    async def play(stage: Stage) -> None:
        foreign = member("foreign", gpus=8, scheduler="default-scheduler")
        await stage.open(node("n1"), foreign)
        stage.meet(Effect.SLOW, "PATCH", "/podgroups/train/status", slow_s=2.0, times=2)
        stage.create(*gang_with_pods("train", 2, gpus=4))
        await asyncio.sleep(1)
        stage.bind_foreign("foreign", "n1")
        await asyncio.sleep(6)
        stage.must(stage.bound("train") == 0, "no pod is bound without capacity")
        stage.delete("pods", "foreign", grace_s=0)
        await stage.until(lambda: stage.running("train") == 2, "both run once there is capacity")

    return seen(play, rival=True)


def deleted_before_its_bind() -> str | None:
    """Between the decision and its bind a pod is deleted, and kept by a finalizer."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        stage.meet(Effect.SLOW, "PATCH", "/podgroups/train/status", slow_s=2.0, times=2)
        group, *pods = gang_with_pods("train", 2)
        pods[1]["metadata"]["finalizers"] = ["example.com/keeps-it"]
        stage.create(group, *pods)
        await asyncio.sleep(1)
        stage.delete("pods", "train-1")
        await asyncio.sleep(4)
        stage.must(not stage.binds(), "no bind was sent")

    return seen(play)


def record_is_stored_first() -> str | None:
    """The members of a Job are recorded before their first bind, also while the write takes long."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        stage.meet(Effect.SLOW, "PATCH", "configmaps", slow_s=2.0)
        stage.create(job("train", members=2))
        await stage.until(lambda: stage.running() == 2, "the Job runs")

    return seen(play)


def placement_is_written_first() -> str | None:
    """Before the first bind the PodGroup's status has the placement and the epoch of the leader."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        epochs: list[int] = []
        for number in range(2):
            name = f"train-{number}"
            stage.meet(Effect.SLOW, "POST", "/binding", slow_s=1.0, times=2)
            stage.create(*gang_with_pods(name, 2))
            await stage.until(
                lambda: len(stage.binds()) >= 2 * len(epochs) + 2, "binds are sent", within_s=40
            )
            whose = stage.status(name).get("placementEpoch") or {}
            stage.must("leader" in whose, "the PodGroup has the leader")
            held = stage.world.client.get(_LEASE) or {}
            stage.must(whose["leader"] == held["spec"]["leaseTransitions"], "and the epoch of this leader")
            epochs.append(whose["leader"])
            await stage.until(lambda: stage.running(name) == 2, "the gang runs")  # noqa: B023
            stage.kill_leader()
            await asyncio.sleep(1)
            await stage.until(lambda: stage.world.leader() is not None, "another leads", within_s=45)
        stage.must(epochs[0] < epochs[1], "a later leader has a higher epoch")

    return seen(play, loses_lease=True)


def half_refused() -> str | None:
    """Half of a gang is bound, and the binds of the others are refused: it is released, or completed."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"), node("n2"))
        stage.create(gang_with_job("train", 4)[1])
        await stage.until(lambda: len(stage.pods()) == 4, "the pods exist")
        refused = [
            stage.meet(Effect.REFUSED, "POST", f"/pods/{one['metadata']['name']}/binding", status=403)
            for one in stage.pods()[2:]
        ]
        stage.create(gang_with_job("train", 4)[0])
        await stage.until(lambda: stage.bound() == 2, "half is bound")
        first = {one["metadata"]["uid"] for one in stage.pods() if one["spec"].get("nodeName")}
        await stage.until(
            lambda: not first & {one["metadata"]["uid"] for one in stage.pods()},
            "the bound half is released",
            within_s=40,
        )
        for rule in refused:
            rule.times = 0
        await stage.until(lambda: stage.running() == 4, "the gang runs in the end", within_s=60)

    return seen(play)


def refused_while_finishing() -> str | None:
    """A gang with a refused member never started; one of its bound members has succeeded: it is finishing."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        stage.create(*gang_with_job("train", 3)[1:])
        await stage.until(lambda: len(stage.pods()) == 3, "the pods exist")
        names = [one["metadata"]["name"] for one in stage.pods()]
        stage.meet(Effect.REFUSED, "POST", f"/pods/{names[2]}/binding", status=403)
        stage.create(gang_with_job("train", 3)[0])
        await stage.until(lambda: stage.running() == 2, "two run")
        decided: list[str] = []
        stage.world.listen(lambda _host, result: decided.extend(one.name for one in result.evictions))
        key = stage.world.client.keys("pods")[0]
        stage.world.controllers.kubelets.fail(key, exit_code=0)
        await asyncio.sleep(40)
        stage.must(not stage.evicted, "running members are not evicted")
        stage.must(not decided, "no decision evicts running members")

    return seen(play)


def status_conflict() -> str | None:
    """Writes of a PodGroup's status conflict: the gang is bound and its state is reported."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        stage.meet(Effect.REFUSED, "PATCH", "/podgroups/train/status", status=409, times=3)
        stage.create(*gang_with_pods("train", 2))
        await stage.until(lambda: stage.running() == 2, "the gang runs")
        await asyncio.sleep(20)
        stage.meet(Effect.REFUSED, "PATCH", "/podgroups/train/status", status=409, times=1)
        stage.delete("pods", "train-0", grace_s=0)
        await stage.until(lambda: _total(stage) == 1, "the status counts one member")

    return seen(play)


def _total(stage: Stage) -> int:
    counts = stage.status("train").get("counts") or {}
    return int(counts.get("total", 0))


def recreated_group() -> str | None:
    """A gang is deleted and recreated with the same name and more members during its binds."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        stage.create(*gang_with_pods("train", 4))
        await stage.until(lambda: stage.running() == 4, "the first runs")
        stage.delete(GROUPS, "train")
        for number in range(4):
            stage.delete("pods", f"train-{number}", grace_s=0)
        stage.create(*gang_with_pods("train", 4, gpus=4))
        await asyncio.sleep(5)
        stage.must(stage.bound() == 0, "no member of the second is bound while only half of it fits")

    return seen(play)


def _labelled(item: dict[str, dict[str, object]], value: str = "yes") -> dict[str, dict[str, object]]:
    labels = item["metadata"].get("labels") or {}
    assert isinstance(labels, dict)
    return {**item, "metadata": {**item["metadata"], "labels": {**labels, "edited": value}}}


PLAYS = (
    plain,
    slow_binds,
    slow_binds_under_a_limit,
    all_binds_refused,
    one_pod_keeps_failing,
    node_cordoned_before_binds,
    foreign_pod_before_binds,
    deleted_before_its_bind,
    placement_is_written_first,
    half_refused,
    refused_while_finishing,
    status_conflict,
    recreated_group,
)
