"""What the scheduler writes about tenants: names of others in no object, the charged queue on every pod."""

import json
from typing import Any

from phalanx_simulator.embedded import manifests

from tests.service.running import PODS, World, running
from tests.service.test_scheduler import POD_GROUPS, QUEUES, add_node, gang, status

SECRETS = "/api/v1/namespaces/secret-ns/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
CHARGED = "scheduling.phalanx.dev/charged-queue"


def two_tenants(world: World) -> None:
    """Two namespaces with a queue each; the other tenant runs a pod of six GPUs."""
    world.create(QUEUES, manifests.queue("mine"))
    world.create(QUEUES, manifests.queue("theirs", guarantee={"nvidia.com/gpu": "8"}))
    world.create("/api/v1/namespaces", manifests.namespace("secret-ns"))
    add_node(world, "n1", 8)
    other = manifests.pod("their-pod", namespace="secret-ns", requests={"nvidia.com/gpu": "6"})
    other["metadata"]["labels"] = {"scheduling.phalanx.dev/queue": "theirs"}
    world.create(SECRETS, other)


def objects(world: World) -> str:
    """All that the tenant of namespace default can read."""
    return json.dumps([world.get(path) for path in (PODS, POD_GROUPS, EVENTS)])


def annotations(world: World, pod: str) -> Any:
    return world.get(f"{PODS}/{pod}")["metadata"].get("annotations", {})


async def test_a_waiting_tenant_does_not_learn_for_whom_it_waits() -> None:
    async with running() as world:
        two_tenants(world)
        await world.until(lambda: "nodeName" in world.get(f"{SECRETS}/their-pod")["spec"])
        world.create(POD_GROUPS, manifests.pod_group("wide", min_member=1, queue="mine"))
        world.create(PODS, manifests.pod("wide", group="wide", requests={"nvidia.com/gpu": "4"}))
        await world.until(lambda: "another tenant's" in (status(world, "wide").get("nextStep") or ""))
        await world.until(lambda: "FailedScheduling" in objects(world))
        await world.until(lambda: "another tenant's" in json.dumps(world.get(f"{PODS}/wide")["status"]))
        assert "their-pod" not in objects(world)
        assert "secret-ns" not in objects(world)


async def test_a_victim_does_not_learn_for_whom_it_was_evicted() -> None:
    async with running() as world:
        world.create(QUEUES, manifests.queue("mine"))
        world.create(QUEUES, manifests.queue("theirs", guarantee={"nvidia.com/gpu": "8"}))
        world.create("/api/v1/namespaces", manifests.namespace("secret-ns"))
        add_node(world, "n1", 8)
        gang(world, "train", size=8)
        await world.until(lambda: status(world, "train").get("phase") == "Running")
        other = manifests.pod("their-pod", namespace="secret-ns", requests={"nvidia.com/gpu": "8"})
        other["metadata"]["labels"] = {"scheduling.phalanx.dev/queue": "theirs"}
        world.create(SECRETS, other)
        await world.until(lambda: "Preempted" in json.dumps(world.get(EVENTS)))
        assert "another tenant's workload of queue theirs" in json.dumps(world.get(EVENTS))
        assert "secret-ns" not in objects(world)


async def test_a_bound_pod_carries_the_queue_that_is_charged() -> None:
    async with running() as world:
        two_tenants(world)
        world.create(POD_GROUPS, manifests.pod_group("g", min_member=1, queue="mine"))
        world.create(PODS, manifests.pod("p", group="g"), manifests.pod("alone"))
        await world.until(lambda: {"p", "alone"} <= world.nodes_of_pods().keys())
        assert annotations(world, "p")[CHARGED] == "mine"
        assert annotations(world, "alone")[CHARGED] == "default"
        await world.until(lambda: status(world, "g").get("queue") == "mine")


async def test_the_status_says_what_does_not_count() -> None:
    """A running gang names another queue and a higher priority."""
    async with running() as world:
        two_tenants(world)
        world.create("/apis/scheduling.k8s.io/v1/priorityclasses", manifests.priority_class("high", 100))
        spec = {"queue": "mine", "priorityClassName": "high", "disruption": {"minRuntime": "99h"}}
        world.create(POD_GROUPS, manifests.pod_group("g", min_member=1, **spec))
        world.create(PODS, manifests.pod("p", group="g"))
        await world.until(lambda: len(status(world, "g").get("conditions", [])) == 2)
        assert status(world, "g")["priority"] == 0
        changed = world.get(f"{POD_GROUPS}/g")
        changed["spec"]["queue"] = "theirs"
        world.put(f"{POD_GROUPS}/g", changed)

        def said() -> str:
            conditions = {each["type"]: each for each in status(world, "g")["conditions"]}
            message: str = conditions["FieldsIgnored"]["message"]
            return message

        await world.until(lambda: said().startswith("queue theirs counts when"))
        assert status(world, "g")["queue"] == "mine"
        assert [each.partition(", ")[0] for each in said().split("; ")] == [
            "queue theirs counts when the gang starts again",
            "PodGroup g: priorityClassName high (100) counts as 0",
            "PodGroup g: disruption.minRuntime 99h counts as 10m",
        ]
