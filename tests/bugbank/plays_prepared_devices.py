"""Plays with devices that their driver prepares after their allocation; S27 and S28 check each of them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from phalanx_simulator.embedded.controllers.device_preparer import (
    BINDING,
    PREPARING_FAILS,
    PREPARING_SECONDS,
    PREPARING_STOPPED,
    DevicePreparer,
)
from phalanx_simulator.embedded.controllers.resource_claims import CLAIMS
from phalanx_simulator.embedded.manifests import node
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.faults.edits import with_metadata

from tests.bugbank.named_devices import DRIVER, OWN, SHARED, Driver, gang
from tests.bugbank.plays_extended_resource_claims import begin
from tests.bugbank.service_harness import Stage, gang_with_pods, seen

PREPARING_S = 6.0
_EVENTS = "events.events.k8s.io"


def played(play: Callable[[Stage, Driver], Coroutine[Any, Any, None]]) -> str | None:
    """The first finding of a play on two nodes with four devices each."""

    async def run(stage: Stage) -> None:
        driver = Driver(stage)
        preparer = DevicePreparer(stage.world.client, driver=DRIVER, delay_s=PREPARING_S)
        stage.world.controllers.callback(preparer.close)
        for name in ("n1", "n2"):
            driver.publish(name, 4, **BINDING)
        await stage.open(node("n1", gpus=1), node("n2", gpus=1))
        await play(stage, driver)
        await driver.end()

    return seen(run)


def annotate(stage: Stage, name: str, value: str | None, *nodes: str) -> None:
    for each in nodes:
        stage.edit("nodes", each, lambda it: with_metadata(it, "annotations", **{name: value}))


async def allocated(stage: Stage, driver: Driver, count: int) -> None:
    await stage.until(lambda: len(driver.allocated()) == count, f"{count} devices are allocated", within_s=30)


async def bound(stage: Stage, count: int, *, within_s: float = 30) -> None:
    await stage.until(lambda: stage.bound("train") == count, "the gang is bound", within_s=within_s)


def messages(stage: Stage) -> list[str]:
    """The notes of events about the pods of the gang."""
    client = stage.world.client
    found: list[Object] = [each for key in client.keys(_EVENTS) if (each := client.get(key)) is not None]
    return [f"{each['reason']}: {each['note']}" for each in found]


def a_gang_waits_for_the_devices_of_all() -> str | None:
    """Some are ready much earlier. Another gang starts meanwhile, and everybody can see what is awaited."""

    async def play(stage: Stage, driver: Driver) -> None:
        annotate(stage, PREPARING_SECONDS, "60", "n2")
        stage.create(*gang("train", 6, OWN))
        await allocated(stage, driver, 6)
        await asyncio.sleep(PREPARING_S)
        stage.create(*gang_with_pods("other", 2))
        await stage.until(lambda: stage.bound("other") == 2, "another gang starts", within_s=10)
        await stage.all_the_while(lambda: stage.bound("train") == 0, "no pod is bound", for_s=30)
        status, notes = stage.status("train"), messages(stage)
        stage.must(status["reason"] == "ResourceClaimNotReady", "the status says why")
        stage.must("binding condition linked is not true yet" in status["message"], status["message"])
        wanted = "BindingConditionsPending: waiting for binding conditions for device on node n2: "
        found = [note for note in notes if note.startswith(f"{wanted}ResourceClaim default/train-")]
        stage.must(len(found) == 2, f"each pod has an event about its claim: {notes}")
        await bound(stage, 6)
        stage.must(stage.bound("other") == 2, "nothing else has changed")
        await asyncio.sleep(5)
        stage.must(not stage.status("train").get("reason"), "nothing is awaited any more")

    return played(play)


def shared_and_extended_resource_claims_wait_too() -> str | None:
    """A claim that all members share, and those that are made for extended resources."""

    async def play(stage: Stage, driver: Driver) -> None:
        stage.create(*gang("shared", 3, SHARED))
        begin(stage, "train", 4)
        await allocated(stage, driver, 5)
        await stage.all_the_while(lambda: stage.bound() == 0, "no pod is bound", for_s=PREPARING_S - 2)
        await stage.until(lambda: stage.bound() == 7, "all are bound", within_s=10)

    return played(play)


def a_device_that_cannot_be_prepared() -> str | None:
    """The gang is tried again, later each time, and says why it waits; it starts when the driver can."""

    async def play(stage: Stage, driver: Driver) -> None:
        annotate(stage, PREPARING_FAILS, "true", "n1", "n2")
        stage.create(*gang("train", 4, OWN))
        await asyncio.sleep(120)
        stage.must(stage.bound("train") == 0, "no pod is bound")
        writes = Counter(one.path for one in stage.sent if one.path.endswith("/status"))
        most = max(count for path, count in writes.items() if "/resourceclaims/" in path)
        stage.must(6 < most < 40, f"it is tried again, not all the time: {most} writes of a claim")
        texts = " ".join(messages(stage))
        stage.must("broken says that it failed (Tried: the fabric does not answer)" in texts, texts)
        pending = [one for one in messages(stage) if one.startswith("BindingConditionsPending")]
        stage.must(len(pending) >= 4, "it waited for devices")
        annotate(stage, PREPARING_FAILS, None, "n1", "n2")
        await bound(stage, 4, within_s=60)

    return played(play)


def devices_that_are_never_ready() -> str | None:
    """After ten minutes the devices of all are given back; then the gang is tried again."""

    async def play(stage: Stage, driver: Driver) -> None:
        annotate(stage, PREPARING_STOPPED, "true", "n1", "n2")
        stage.create(*gang("train", 4, OWN))
        await allocated(stage, driver, 4)
        first = {each["status"]["allocation"]["allocationTimestamp"] for each in _allocated(driver)}
        await stage.all_the_while(lambda: len(driver.allocated()) == 4, "all wait", for_s=590)
        await stage.until(lambda: len(driver.allocated()) == 0, "all are given back", within_s=30)
        await allocated(stage, driver, 4)
        again = {each["status"]["allocation"]["allocationTimestamp"] for each in _allocated(driver)}
        stage.must(not first & again, "they are allocated again")
        stage.must("is not true yet after 600 seconds" in " ".join(messages(stage)), "an event says why")
        annotate(stage, PREPARING_STOPPED, None, "n1", "n2")
        await bound(stage, 4)

    return played(play)


def _allocated(driver: Driver) -> list[Object]:
    return [each for each in driver.claims() if (each.get("status") or {}).get("allocation")]


def the_leader_dies_meanwhile() -> str | None:
    """The next one gives the devices back, and starts again."""

    async def play(stage: Stage, driver: Driver) -> None:
        annotate(stage, PREPARING_SECONDS, "300", "n1", "n2")
        stage.create(*gang("train", 4, OWN))
        await allocated(stage, driver, 4)
        stage.kill_leader()
        await stage.until(lambda: len(driver.allocated()) == 0, "all are given back", within_s=60)
        annotate(stage, PREPARING_SECONDS, None, "n1", "n2")
        await bound(stage, 4, within_s=60)

    return played(play)


def a_pod_is_deleted_meanwhile() -> str | None:
    """Its gang is incomplete then, so it gives all devices back."""

    async def play(stage: Stage, driver: Driver) -> None:
        annotate(stage, PREPARING_STOPPED, "true", "n1", "n2")
        made = gang("train", 4, OWN)
        stage.create(*made)
        await allocated(stage, driver, 4)
        stage.delete("pods", "train-0", grace_s=0)
        await stage.until(lambda: len(driver.allocated()) == 0, "all are given back", within_s=10)
        annotate(stage, PREPARING_STOPPED, None, "n1", "n2")
        stage.create(made[1])
        await bound(stage, 4)

    return played(play)


def a_device_is_tainted_meanwhile() -> str | None:
    """Its gang goes to other devices, as soon as this is known."""

    async def play(stage: Stage, driver: Driver) -> None:
        annotate(stage, PREPARING_STOPPED, "true", "n1")
        stage.create(*gang("train", 4, OWN))
        await allocated(stage, driver, 4)
        stage.must({pool for pool, _ in driver.allocated()} == {"n1"}, "the first node was chosen")
        taint = {"key": "broken", "effect": "NoSchedule"}
        driver.publish("n1", 4, generation=2, taints=[taint], **BINDING)
        await bound(stage, 4)
        stage.must({pool for pool, _ in driver.allocated()} == {"n2"}, "all have other devices")

    return played(play)


def another_scheduler_has_left_devices_that_are_never_ready() -> str | None:
    """They are given back ten minutes after their allocation, as kube-scheduler does, if nobody uses them."""

    async def play(stage: Stage, driver: Driver) -> None:
        annotate(stage, PREPARING_STOPPED, "true", "n1", "n2")
        client, key = stage.world.client, Key(CLAIMS, "default", "shared")
        result = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-3", **BINDING}
        allocation = {"devices": {"results": [result]}, "allocationTimestamp": client.now()}
        client.update_status(key, allocation=allocation, reservedFor=[])
        stage.create(*gang("train", 2, SHARED))
        await asyncio.sleep(10)
        stage.must("attached is not true yet" in stage.status("train")["message"], "the status says why")
        await stage.all_the_while(lambda: ("n1", "gpu-3") in driver.allocated(), "they wait", for_s=580)
        await stage.until(lambda: ("n1", "gpu-0") in driver.allocated(), "others are allocated", within_s=30)
        annotate(stage, PREPARING_STOPPED, None, "n1", "n2")
        await bound(stage, 2)

    return played(play)


def some_members_have_devices_and_others_wait_for_some() -> str | None:
    """The status is about those that have none. All pods with a node have their events."""

    async def play(stage: Stage, driver: Driver) -> None:
        made = gang("train", 10, OWN)
        made[0]["spec"]["minMember"] = 6
        stage.create(*made)
        await allocated(stage, driver, 8)
        await asyncio.sleep(3)
        stage.must(stage.status("train")["reason"] == "InsufficientCapacity", "two have no devices")
        await bound(stage, 8)
        pending = [one for one in messages(stage) if one.startswith("BindingConditionsPending")]
        stage.must(len(pending) == 8, f"each of the others has an event: {pending}")
        await asyncio.sleep(3)
        stage.must(stage.status("train")["reason"] == "InsufficientCapacity", "two still have none")

    return played(play)


def a_gang_of_higher_priority_needs_the_devices() -> str | None:
    """It gets them at once. Nothing is evicted: the pods of the other gang wait again, and start later."""

    async def play(stage: Stage, driver: Driver) -> None:
        annotate(stage, PREPARING_STOPPED, "true", "n1", "n2")
        stage.create(*gang("train", 8, OWN))
        await allocated(stage, driver, 8)
        await asyncio.sleep(PREPARING_S)
        uids = _uids(stage, "train")
        stage.create(*urgent(gang("urgent", 8, OWN)))
        await stage.until(
            lambda: {each["metadata"]["name"].split("-")[0] for each in _allocated(driver)} == {"urgent"},
            "the devices are allocated to the other gang",
            within_s=30,
        )
        stage.must(_uids(stage, "train") == uids, "no pod of it was deleted")
        marked = [one for one in stage.pods("train") if "DisruptionTarget" in str(one.get("status"))]
        stage.must(not marked, "no pod of it is marked")
        annotate(stage, PREPARING_STOPPED, None, "n1", "n2")
        await stage.until(lambda: stage.bound("urgent") == 8, "the other gang is bound", within_s=30)
        for one in stage.pods("urgent"):
            stage.delete("pods", one["metadata"]["name"], grace_s=0)
        await bound(stage, 8, within_s=60)

    return played(play)


def urgent(made: Sequence[Object]) -> list[Object]:
    """The gang with a higher priority, and its class."""
    meta = {"name": "urgent"}
    level = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": 1000}
    group, *pods = made
    return [level, group, *({**pod, "spec": {**pod["spec"], "priorityClassName": "urgent"}} for pod in pods)]


def _uids(stage: Stage, prefix: str) -> set[str]:
    return {
        one["metadata"]["uid"] for one in stage.pods(prefix) if not one["metadata"].get("deletionTimestamp")
    }


OTHER_PLAYS = (
    a_gang_of_higher_priority_needs_the_devices,
    some_members_have_devices_and_others_wait_for_some,
    shared_and_extended_resource_claims_wait_too,
    devices_that_are_never_ready,
    the_leader_dies_meanwhile,
    a_pod_is_deleted_meanwhile,
    a_device_is_tainted_meanwhile,
    another_scheduler_has_left_devices_that_are_never_ready,
)
"""Those that `test_bank.py` does not play each time; each returns what is wrong, or None."""
