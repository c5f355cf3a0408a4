"""The complete scheduler on the embedded API server: what it writes, and how it handles failed writes."""

import asyncio
from typing import Any

from phalanx.limits import BIND_ATTEMPTS_MAX, REPORT_PERIOD_S
from phalanx_simulator.embedded import manifests

from tests.kube.faults import answer, applied_but_lost
from tests.service.running import LEASES, POD_GROUPS, PODS, World, running

NODES = "/api/v1/nodes"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
QUEUES = "/apis/scheduling.phalanx.dev/v1alpha1/queues"
FORBIDDEN = answer(403, b'{"kind":"Status","code":403,"reason":"Forbidden","message":"denied by a webhook"}')


def gang(
    world: World, name: str, *, size: int, min_member: int | None = None, recovery: Any = None, **fields: Any
) -> None:
    group = manifests.pod_group(name, min_member=min_member or size)
    group["spec"].update({"recovery": recovery} if recovery else {})
    world.create(POD_GROUPS, group)
    for number in range(size):
        made = manifests.pod(f"{name}-{number}", group=name)
        made["metadata"].update(fields)
        world.create(PODS, made)


def add_node(world: World, name: str, gpus: int) -> None:
    """Admission taints every new node; the node lifecycle controller would remove the taint."""
    world.create(NODES, manifests.node(name, gpus=gpus))
    world.untaint(name)


def status(world: World, name: str) -> dict[str, Any]:
    found: dict[str, Any] = world.get(f"{POD_GROUPS}/{name}").get("status", {})
    return found


def condition(world: World, pod: str) -> dict[str, Any]:
    conditions = world.get(f"{PODS}/{pod}").get("status", {}).get("conditions", [])
    found = [each for each in conditions if each["type"] == "PodScheduled"]
    return found[0] if found else {}


async def test_a_gang_is_bound_and_its_placement_reported() -> None:
    async with running() as world:
        add_node(world, "n1", 4)
        gang(world, "train", size=3)
        await world.until(lambda: status(world, "train").get("phase") == "Running")
        assert world.nodes_of_pods() == {"train-0": "n1", "train-1": "n1", "train-2": "n1"}
        assert status(world, "train")["certificate"]["proven"] is True
        assert status(world, "train")["counts"]["total"] == 3
        await world.until(lambda: len(world.get(EVENTS)["items"]) == 3)
        assert {event["reason"] for event in world.get(EVENTS)["items"]} == {"Scheduled"}


async def test_a_status_write_that_conflicts_is_repeated() -> None:
    async with running() as world:

        async def after_another_write(send: Any) -> Any:
            world.overwrite_status(f"{POD_GROUPS}/train", queuePosition=7)
            await asyncio.sleep(3 * REPORT_PERIOD_S)  # the other write is seen before ours is refused
            return await send()

        add_node(world, "n1", 4)
        gang(world, "train", size=3)
        await world.until(lambda: status(world, "train").get("counts", {}).get("bound") == 3)
        world.transport.fault("PATCH", "/podgroups/train/status", after_another_write)
        world.overwrite_status(f"{PODS}/train-0", phase="Running")
        await world.until(lambda: status(world, "train").get("queuePosition") == 7)
        await world.until(lambda: status(world, "train")["counts"]["running"] == 1)


async def test_the_reason_of_a_gang_that_does_not_fit_is_in_status_condition_and_event() -> None:
    async with running() as world:
        add_node(world, "n1", 4)
        gang(world, "train", size=5)
        await world.until(lambda: bool(condition(world, "train-4")) and bool(status(world, "train")))
        assert condition(world, "train-0")["reason"] == "AboveClusterCapacity"
        assert condition(world, "train-0")["message"].startswith(status(world, "train")["reason"])
        assert status(world, "train")["phase"] == "Pending"
        await world.until(lambda: bool(world.get(EVENTS)["items"]))
        [event] = world.get(EVENTS)["items"]
        assert (event["reason"], event["regarding"]["kind"]) == ("FailedScheduling", "PodGroup")
        assert event["regarding"]["name"] == "train"
        assert event["note"] == condition(world, "train-0")["message"]
        assert world.nodes_of_pods() == {}


async def test_a_gang_without_pods_has_a_status() -> None:
    async with running() as world:
        add_node(world, "n1", 4)
        gang(world, "train", size=2)
        await world.until(lambda: status(world, "train").get("counts", {}).get("bound") == 2)
        for name in ("train-0", "train-1"):
            world.delete(f"{PODS}/{name}")
        await world.until(lambda: status(world, "train")["counts"]["total"] == 0)
        assert status(world, "train")["phase"] == "Pending"


async def test_a_waiting_gang_starts_when_capacity_is_added() -> None:
    async with running() as world:
        add_node(world, "n1", 2)
        gang(world, "train", size=3)
        await world.until(lambda: bool(condition(world, "train-0")))
        add_node(world, "n2", 1)
        await world.until(lambda: len(world.nodes_of_pods()) == 3)


async def test_a_bind_whose_response_is_lost_happens_once() -> None:
    async with running() as world:
        world.transport.fault("POST", "train-1/binding", applied_but_lost)
        add_node(world, "n1", 4)
        gang(world, "train", size=3)
        await world.until(lambda: status(world, "train").get("phase") == "Running")
        assert world.transport.count("POST", "train-1/binding") == 1


async def test_a_gang_whose_binds_are_refused_backs_off_and_delays_no_other() -> None:
    async with running() as world:
        world.transport.fault("POST", "poisoned-0/binding", *[FORBIDDEN] * 1000)
        add_node(world, "n1", 8)
        gang(world, "poisoned", size=1)
        gang(world, "train", size=3)
        await world.until(lambda: status(world, "train").get("phase") == "Running")
        await world.until(lambda: status(world, "poisoned").get("reason") == "BackoffAfterFailure")
        assert "denied by a webhook" in status(world, "poisoned")["message"]
        assert world.transport.count("POST", "poisoned-0/binding") <= BIND_ATTEMPTS_MAX


async def test_a_gang_whose_bind_was_refused_once_is_completed() -> None:
    async with running() as world:
        world.transport.fault("POST", "train-2/binding", FORBIDDEN)
        add_node(world, "n1", 4)
        gang(world, "train", size=3)
        await world.until(lambda: status(world, "train").get("phase") == "Running")
        assert world.transport.count("POST", "train-2/binding") == 2


RECOVERY = {"onNodeLoss": "Replace", "gracePeriod": "0s"}
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job", "controller": True}


def lose(world: World, node: str) -> None:
    """Its kubelet sends no heartbeats any more."""
    conditions = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
    world.overwrite_status(f"/api/v1/nodes/{node}", conditions=conditions)


async def test_a_member_on_a_lost_node_is_replaced_and_its_gang_is_degraded_until_then() -> None:
    async with running() as world:
        add_node(world, "n1", 1)
        add_node(world, "n2", 1)
        gang(world, "train", size=2, recovery=RECOVERY, ownerReferences=[OWNER])
        await world.until(lambda: status(world, "train").get("startedAt") is not None)
        lost = next(pod for pod, node in world.nodes_of_pods().items() if node == "n2")
        lose(world, "n2")
        await world.until(lambda: world.deleting() == {lost})
        conditions = world.get(f"{PODS}/{lost}")["status"]["conditions"]
        [target] = [each for each in conditions if each["type"] == "DisruptionTarget"]
        assert target["reason"] == "MemberReplaced"
        assert f"the loss of node n2 of member {lost}" in target["message"]
        await world.until(lambda: status(world, "train")["counts"]["bound"] == 1)
        assert status(world, "train")["phase"] == "Degraded"


async def test_a_node_that_is_healthy_again_is_used() -> None:
    async with running() as world:
        add_node(world, "n1", 2)
        lose(world, "n1")
        gang(world, "train", size=2)
        await world.until(lambda: status(world, "train").get("reason") == "NodesUnavailable")
        ready = [{"type": "Ready", "status": "True"}]
        world.overwrite_status("/api/v1/nodes/n1", conditions=ready)
        await world.until(lambda: set(world.nodes_of_pods()) == {"train-0", "train-1"})


async def test_the_status_of_a_queue_has_usage_and_waiting_gangs() -> None:
    async with running() as world:
        add_node(world, "n1", 4)
        world.create(QUEUES, manifests.queue("default"))
        gang(world, "train", size=3)
        gang(world, "waits", size=2)

        def reported() -> tuple[str | None, int | None]:
            found = world.get(f"{QUEUES}/default").get("status", {})
            return found.get("allocated", {}).get("nvidia.com/gpu"), found.get("pendingGangs")

        await world.until(lambda: reported() == ("3", 1))


async def test_a_stopped_scheduler_releases_the_lease() -> None:
    async with running() as world:
        await world.until(lambda: bool(world.get(LEASES)["items"]))
        assert world.get(f"{LEASES}/phalanx")["spec"]["holderIdentity"] == "one"
    assert not world.get(f"{LEASES}/phalanx")["spec"].get("holderIdentity")


async def test_a_waiting_gang_gets_an_expected_start_that_is_not_delayed() -> None:
    async with running() as world:
        add_node(world, "n1", 4)
        world.create(QUEUES, manifests.queue("default", backfill="Easy"))
        world.create(POD_GROUPS, manifests.pod_group("first", min_member=3, runtime={"max": "2h"}))
        for number in range(3):
            world.create(PODS, manifests.pod(f"first-{number}", group="first"))
        await world.until(lambda: status(world, "first").get("phase") == "Running")
        gang(world, "big", size=4)
        await world.until(lambda: "expectedStart" in status(world, "big"))
        assert status(world, "big")["expectedStart"]["method"] == "maximum run times"
        gang(world, "late", size=1)
        await world.until(lambda: status(world, "late").get("reason") == "WouldDelayReservation")
