"""Bugs that users of other schedulers reported, replayed step by step; each is named after its issue."""

import asyncio

from phalanx_simulator.embedded.kubelets.kubelet import RUN_SECONDS
from phalanx_simulator.embedded.manifests import node
from phalanx_simulator.hosts.network import Effect

from tests.bugbank.named_devices import DEVICE_PLAYS
from tests.bugbank.service_harness import GROUPS, Stage, gang_with_job, gang_with_pods, member, seen


def volcano_5805() -> str | None:
    """A gang below minAvailable is never completed: its node is recreated, and fillers take the capacity."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"), node("n2"))
        group, *pods = gang_with_pods("train", 4, gpus=4)
        stage.create(group, *pods)
        await stage.until(lambda: stage.running("train") == 4, "the gang runs")
        await asyncio.sleep(1)
        lost = stage.nodes_of("train")[0]
        stage.delete("nodes", lost)
        for number in range(6):
            stage.create(member(f"filler-{number}", gpus=4))
        gone = [one for one in pods if stage.get("pods", one["metadata"]["name"])["spec"]["nodeName"] == lost]
        for one in gone:
            stage.delete("pods", one["metadata"]["name"], grace_s=0)
        await asyncio.sleep(5)
        stage.create(node(lost))
        await asyncio.sleep(5)
        stage.must(stage.bound("filler") == 0, "no filler takes the gang's capacity")
        stage.create(*gone)
        await stage.until(lambda: stage.running("train") == 4, "the gang is complete again")

    return seen(play)


def volcano_6010() -> str | None:
    """A gang is bound partially because an old minMember is used after its PodGroup was edited."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        group, *pods = gang_with_pods("train", 12, min_member=12)
        stage.create(group)
        await asyncio.sleep(1)
        stage.create(*pods)
        await asyncio.sleep(2)
        stage.must(stage.bound() == 0, "twelve do not fit")
        stage.edit(GROUPS, "train", lambda item: _with_minimum(item, 8))
        await stage.until(lambda: stage.bound() == 8, "eight are bound")
        stage.delete(GROUPS, "train")
        for number in range(12):
            stage.delete("pods", f"train-{number}", grace_s=0)
        await asyncio.sleep(2)
        stage.create(*gang_with_pods("train", 12, min_member=4))
        stage.edit(GROUPS, "train", lambda item: _with_minimum(item, 12))
        await asyncio.sleep(5)
        stage.must(stage.bound() == 0, "no member is bound while only eight of twelve fit")
        stage.create(node("n2"))
        await stage.until(lambda: stage.running() == 12, "all members run once all fit")

    return seen(play)


def kubernetes_106361() -> str | None:
    """Binds take longer than every timeout: the pod must stay assumed, or another pod gets its capacity."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        network = stage.network
        lost = stage.meet(Effect.APPLIED_BUT_LOST, "POST", "/binding")
        blind = stage.meet(Effect.REFUSED, "GET", "/pods/first", status=500)
        stage.on_bind = lambda: network.delay_watches(90.0, "/pods")
        stage.create(member("first", gpus=8), member("second", gpus=8))
        await stage.until(lambda: stage.bound("first") == 1, "the first is bound")
        await asyncio.sleep(60)
        stage.must(not stage.binds("second"), "the second does not get the first one's capacity")
        lost.times = blind.times = 0
        stage.on_bind = lambda: None
        network.delay_watches(0.0, "/pods")
        network.cut_watches("/pods")
        await asyncio.sleep(10)
        stage.must(not stage.binds("second"), "the second still waits")
        stage.delete("pods", "first", grace_s=0)
        await stage.until(lambda: stage.running("second") == 1, "the second runs after the first")

    return seen(play)


def kai_1968() -> str | None:
    """A gang whose members succeed one after the other is evicted as stale."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        recovery = {"onMemberFailure": "Restart", "onNodeLoss": "Restart", "gracePeriod": "5s"}
        pods = [
            {**one, "metadata": {**one["metadata"], "annotations": {RUN_SECONDS: str(10 + 20 * number)}}}
            for number, one in enumerate(gang_with_pods("train", 4)[1:])
        ]
        stage.create(gang_with_pods("train", 4, recovery=recovery)[0], *pods)
        await stage.until(lambda: stage.running() == 4, "the gang runs")
        await asyncio.sleep(35)
        stage.must(stage.in_phase("Succeeded") == 2, "two have succeeded")
        stage.kill_leader()
        await stage.until(lambda: stage.in_phase("Succeeded") == 4, "all succeed", within_s=60)
        stage.must(not stage.evicted, "no pod was evicted")
        await stage.until(
            lambda: stage.status("train").get("phase") == "Finished", "the gang is finished", within_s=30
        )

    return seen(play)


def kai_2075() -> str | None:
    """A bind that a webhook always rejects is tried in each cycle, and starves other gangs."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        rejected = stage.meet(Effect.REFUSED, "POST", "/pods/rejected/binding", status=403)
        stage.create(member("rejected", gpus=8))
        await stage.until(lambda: bool(stage.binds("rejected")), "the bind is tried")
        for number in range(3):
            stage.create(member(f"other-{number}", gpus=2))
        await stage.until(lambda: stage.running("other") == 3, "the others run", within_s=10)
        for number in range(3):
            stage.delete("pods", f"other-{number}", grace_s=0)
        before = len(stage.binds("rejected"))
        await asyncio.sleep(120)
        stage.must(len(stage.binds("rejected")) - before <= 24, "the bind is retried with backoff")
        stage.must("403" in str(stage.get("pods", "rejected")["status"]), "the pod's status has the reason")
        rejected.times = 0
        await stage.until(lambda: stage.running("rejected") == 1, "it runs in the end", within_s=45)

    return seen(play)


def scheduler_plugins_117() -> str | None:
    """Interleaved gangs each hold partial capacity: 2 nodes of 8 GPUs, 60 jobs of 1 to 8."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"), node("n2"))
        for number in range(60):
            stage.create(*gang_with_job(f"job-{number:02d}", number % 8 + 1, run_s=5.0))
        done = sum(number % 8 + 1 for number in range(60))
        await stage.until(lambda: stage.in_phase("Succeeded") == done, "all jobs end", within_s=600)

    return seen(play)


def scheduler_plugins_930() -> str | None:
    """A pod of a gang that does not fit is bound, or one is bound before the others."""

    async def play(stage: Stage) -> None:
        await stage.open(node("n1"))
        stage.create(gang_with_pods("train", 4, gpus=4)[0], member("train-0", group="train", gpus=4))
        await asyncio.sleep(3)
        stage.must(stage.bound() == 0, "one of four is not enough")
        stage.create(*gang_with_pods("train", 4, gpus=4)[2:])
        await asyncio.sleep(3)
        stage.must(stage.bound() == 0, "two of four fit, so none is bound")
        stage.must(stage.status("train").get("reason", "") != "", "the gang's status has a reason")
        stage.create(node("n2"))
        await stage.until(lambda: stage.running() == 4, "all members run once all fit")

    return seen(play)


def _with_minimum(item: dict[str, object], minimum: int) -> dict[str, object]:
    spec = item["spec"]
    assert isinstance(spec, dict)
    return {**item, "spec": {**spec, "minMember": minimum}}


PLAYS = (
    volcano_5805,
    volcano_6010,
    kubernetes_106361,
    kai_1968,
    kai_2075,
    scheduler_plugins_117,
    scheduler_plugins_930,
    *DEVICE_PLAYS,
)
"""All of them; each returns what is wrong, or None."""
