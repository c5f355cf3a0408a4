"""What users see of a running gang and of an infeasible one: conditions, events, status, pages."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec import Struct
from phalanx_controlplane.controlplane import ControlPlane

from tests.e2e.conftest import StandingCluster
from tests.e2e.emptying import empty
from tests.e2e.scheduler_process import PROGRAM, Scheduler, scheduler
from tests.e2e.workloads import Manifest, create, create_cluster, fetched, listed, members, pod_group, queue

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.xdist_group("e2e"),
    pytest.mark.asyncio(loop_scope="module"),
]

PODS = "/api/v1/namespaces/users/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/users/events"
GROUPS = "/apis/scheduling.phalanx.dev/v1alpha1/namespaces/users/podgroups"
QUEUE = "/apis/scheduling.phalanx.dev/v1alpha1/queues/team"


class Running(Struct, frozen=True):
    """Two nodes of 4 CPUs and a queue; gang `fits` requests 3 pods of 2 CPUs, gang `large` 9 pods."""

    plane: ControlPlane
    process: Scheduler

    async def until(self, path: str, so: Callable[[Manifest], bool]) -> Manifest:
        """The object or list as soon as the condition holds."""
        found: Manifest = {}
        try:
            async with asyncio.timeout(30):
                while not so(found := await fetched(self.plane, path)):
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"it stays at {str(found)[:2000]}") from None
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(standing_cluster: StandingCluster) -> AsyncIterator[Running]:
    plane = standing_cluster.plane
    await create_cluster(plane, count=2, cpu=4, space="users")
    await create(plane, queue("team", weight=2))
    for name, size in (("fits", 3), ("large", 9)):
        await create(plane, pod_group(name, space="users", size=size, queue="team"))
        await create(plane, *members(name, space="users", size=size, requests={"cpu": "2"}))
    async with scheduler(plane, standing_cluster.kubeconfig) as process:
        yield Running(plane, process)
    await empty(plane, kept=standing_cluster.definitions)


def condition(found: Manifest, kind: str) -> Manifest:
    """The condition of this type, or an empty one."""
    conditions = found.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def of_gang(pods: Manifest, gang: str) -> list[Manifest]:
    return [pod for pod in pods["items"] if pod["metadata"]["name"].startswith(gang)]


async def test_the_condition_of_a_waiting_pod_asks_for_nodes_and_has_the_reason(running: Running) -> None:
    def have_conditions(pods: Manifest) -> bool:
        found = [condition(pod, "PodScheduled") for pod in of_gang(pods, "large")]
        return all(each.get("reason") == "Unschedulable" for each in found)

    for pod in of_gang(await running.until(PODS, have_conditions), "large"):
        found = condition(pod, "PodScheduled")
        assert found["status"] == "False"
        assert "AboveClusterCapacity" in found["message"]
        assert found["lastTransitionTime"]


async def test_every_bound_pod_has_an_event_that_names_its_node(running: Running) -> None:
    pods = of_gang(await running.until(PODS, all_run), "fits")
    events = await running.until(EVENTS, lambda found: len(with_reason(found, "Scheduled")) == len(pods))
    nodes = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods}
    for event in with_reason(events, "Scheduled"):
        pod = event["regarding"]
        assert (event["type"], event["action"]) == ("Normal", "Binding")
        assert event["note"] == f"Successfully assigned users/{pod['name']} to {nodes[pod['uid']]}"
        assert event["reportingController"] == "phalanx"


async def test_a_waiting_gang_has_a_warning(running: Running) -> None:
    """Its pods have theirs when the reason has stayed for a while."""
    events = await running.until(EVENTS, lambda found: bool(with_reason(found, "FailedScheduling")))
    warnings = with_reason(events, "FailedScheduling")
    assert ("PodGroup", "large") in {
        (each["regarding"]["kind"], each["regarding"]["name"]) for each in warnings
    }
    assert {(event["type"], event["action"]) for event in warnings} == {("Warning", "Scheduling")}


async def test_the_status_of_a_running_gang_shows_its_placement(running: Running) -> None:
    def complete(found: Manifest) -> bool:
        return bool(found.get("status", {}).get("counts", {}).get("running") == 3)

    status = (await running.until(f"{GROUPS}/fits", complete))["status"]
    assert status["phase"] == "Running"
    assert condition({"status": status}, "Scheduled")["status"] == "True"
    assert isinstance(status["certificate"]["proven"], bool)
    assert len(status["certificate"]["objective"]) == len(status["certificate"]["terms"])
    assert status["placementEpoch"]["decision"].startswith("cycle-")
    assert status["startedAt"]
    assert "reason" not in status


async def test_the_status_of_a_waiting_gang_has_reason_and_next_step(running: Running) -> None:
    found = await running.until(f"{GROUPS}/large", lambda found: "reason" in found.get("status", {}))
    status = found["status"]
    assert (status["phase"], status["reason"]) == ("Pending", "AboveClusterCapacity")
    assert status["message"]
    assert status["nextStep"]
    assert status["counts"]["pending"] == 9
    assert condition(found, "Scheduled")["reason"] == "AboveClusterCapacity"


async def test_the_status_of_a_queue_has_usage_and_waiting_gangs(running: Running) -> None:
    def holds(found: Manifest) -> bool:
        return "cpu" in found.get("status", {}).get("allocated", {})

    status = (await running.until(QUEUE, holds))["status"]
    assert status["allocated"]["cpu"] in ("6", "6000m")
    assert (status["pendingGangs"], status["pendingPods"]) == (1, 9)
    assert condition({"status": status}, "Ready")["status"] == "True"


async def test_the_pages_are_served(running: Running) -> None:
    assert await running.process.answer("/healthz") == (200, "ok\n")
    assert await running.process.answer("/readyz") == (200, "ok\n")
    status, metrics = await running.process.answer("/metrics")
    assert status == 200
    assert "\nphalanx_" in metrics


async def test_the_last_cycle_can_be_saved_and_decided_again(running: Running, tmp_path: Path) -> None:
    saved = str(tmp_path / "cycle.json.gz")
    assert await program("snapshot", "--output", saved, "--url", running.process.debug) == 0
    assert await program("replay", saved) == 0


async def program(*arguments: str) -> int:
    process = await asyncio.create_subprocess_exec(str(PROGRAM), *arguments)
    return await process.wait()


async def test_no_event_was_written_twice(running: Running) -> None:
    events = await listed(running.plane, EVENTS)
    written = [(event["regarding"]["uid"], event["reason"], event["note"]) for event in events]
    assert len(written) == len(set(written))


def all_run(pods: Manifest) -> bool:
    return all(pod["status"]["phase"] == "Running" for pod in of_gang(pods, "fits"))


def with_reason(events: Manifest, reason: str) -> list[Manifest]:
    return [event for event in events["items"] if event["reason"] == reason]
