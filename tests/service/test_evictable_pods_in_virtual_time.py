"""A sweep of kube-scheduler holds all GPUs: its pod gives way to a gang, as the API server sees it."""

import asyncio

from phalanx.model.reasons import Reason
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.store import Change, Key, Object
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.world import World, WorldSettings, in_world

SWEEP = Key("jobs.batch", "ops", "sweep")
SETTINGS = WorldSettings(seed=1, replicas=1, checks=ALL_CHECKS)


def sweep(priority_class: str) -> Object:
    """A Job whose pod kube-scheduler has placed; one failure ends it."""
    made = manifests.job("sweep", members=1, namespace="ops", run_s=3600, requests={"nvidia.com/gpu": "4"})
    made["spec"]["backoffLimit"] = 0
    made["spec"]["template"]["spec"] |= {
        "schedulerName": "default-scheduler",
        "nodeName": "n1",
        "priorityClassName": priority_class,
    }
    return made


def conditions_of(pod: Object) -> list[tuple[str, str]]:
    found = pod.get("status", {}).get("conditions", [])
    return [(each["reason"], each["message"]) for each in found if each["type"] == "DisruptionTarget"]


def play_sweep(priority_class: str) -> tuple[World, list[tuple[str, str]], list[tuple[str, str]]]:
    """The world after two minutes, the conditions of the swept pod, and the events about it."""
    marked: list[tuple[str, str]] = []
    events: list[tuple[str, str]] = []

    def note(change: Change) -> None:
        pod = change.entry.data
        if pod["metadata"]["namespace"] == "ops" and not pod["metadata"].get("deletionTimestamp"):
            marked.extend(each for each in conditions_of(pod) if each not in marked)

    async def play(world: World) -> None:
        world.create(
            [
                manifests.namespace("ops"),
                manifests.node("n1", gpus=4),
                manifests.priority_class("below", -1),
                manifests.priority_class("at", 0),
                sweep(priority_class),
            ]
        )
        world.server.store.subscribe("pods", note)
        world.start()
        await asyncio.sleep(30)
        world.create([manifests.pod_group("train", min_member=2)])
        requests = {"nvidia.com/gpu": "2"}
        world.create([manifests.pod(f"t-{each}", group="train", requests=requests) for each in range(2)])
        await asyncio.sleep(120)
        for key in world.client.keys("events.events.k8s.io"):
            event = world.client.get(key) or {}
            if event["regarding"]["namespace"] == "ops":
                events.append((event["regarding"]["kind"], event["note"]))

    return in_world(SETTINGS, play), marked, events


def nodes_of_gang(world: World) -> list[str]:
    pods = [world.client.get(Key("pods", "default", f"t-{each}")) or {} for each in range(2)]
    return [pod["spec"].get("nodeName", "") for pod in pods]


def test_a_pod_below_zero_is_marked_deleted_and_told_why() -> None:
    world, marked, events = play_sweep("below")
    assert world.violations.kept == []
    assert nodes_of_gang(world) == ["n1", "n1"]
    cause = (
        "evicted so that another tenant's workload of queue default can start: its priority 0 is above -1 of "
    )
    ((reason, message),) = marked
    assert (reason, message.rpartition("ops/")[0]) == ("Preempted", cause)
    assert [kind for kind, note in events if note == message] == ["Pod"]
    job = world.client.get(SWEEP) or {}
    assert not job["spec"].get("suspend"), "who schedules its pods decides when it runs"


def test_a_pod_of_priority_zero_keeps_its_node() -> None:
    world, marked, events = play_sweep("at")
    assert world.violations.kept == []
    assert (nodes_of_gang(world), marked, events) == (["", ""], [], [])
    group = world.client.get(Key("podgroups.scheduling.phalanx.dev", "default", "train")) or {}
    assert group["status"]["reason"] == Reason.INSUFFICIENT_CAPACITY
