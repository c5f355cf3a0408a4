"""S6 and S13 report violations of a history, and nothing for a similar valid one."""

from typing import Any

import pytest
from phalanx.model.decisions import CycleResult
from phalanx.model.names import LABEL_POD_GROUP
from phalanx_simulator.embedded.apiserver.kinds import NATIVE_POD_GROUPS
from phalanx_simulator.embedded.controllers.resource_claims import serve
from phalanx_simulator.embedded.manifests import gang, node, pod, pod_group, queue
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.invariants.claim_facts import DEVICE_CLAIMS, DEVICE_CLASSES
from phalanx_simulator.invariants.statuses import QueueUsageIsCorrect, StatusIsCorrect

from tests.sim_invariants.stage import Stage, violations

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
GROUPS, QUEUES = "podgroups.scheduling.phalanx.dev", "queues.scheduling.phalanx.dev"


async def use(stage: Stage, count: int, *, queue_name: str = "q") -> None:
    """Bind `count` pods with one GPU each, of one gang of the queue."""
    stage.create(node("n1"), pod_group("g", min_member=1, queue=queue_name))
    stage.create(*gang("g", {"w": count}))
    host = await stage.leader()
    await stage.pass_time(4)
    for number in range(count):
        await host.bind(f"g-w-{number}", "n1")


@pytest.mark.parametrize(("count", "expected"), [(4, []), (5, ["S6"])])
def test_a_queue_above_its_limit_violates(count: int, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        stage.create(queue("q", limit={"nvidia.com/gpu": "4"}))
        await use(stage, count)

    assert violations(history, QueueUsageIsCorrect) == expected


def test_a_parent_queue_above_its_limit_violates() -> None:
    async def history(stage: Stage) -> None:
        stage.create(queue("top", limit={"nvidia.com/gpu": "4"}), queue("q", parent="top"))
        await use(stage, 5)

    assert violations(history, QueueUsageIsCorrect) == ["S6"]


@pytest.mark.parametrize(("shared", "limit", "expected"), [(False, 4, []), (False, 3, ["S6"]), (True, 2, [])])
def test_devices_of_claims_count_for_the_limit_of_a_queue(
    shared: bool, limit: int, expected: list[str]
) -> None:
    """Two pods with two devices each, or for both of them. The oldest pod for which it is reserved counts."""

    async def history(stage: Stage) -> None:
        serve(stage.server)
        stage.create(queue("q", limit={"sim.example/nic": str(limit)}), node("n1"))
        meta, spec = {"name": "nic"}, {"extendedResourceName": "sim.example/nic"}
        made = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": meta, "spec": spec}
        stage.client.create(DEVICE_CLASSES, "", made)
        stage.create(pod_group("g", min_member=1, queue="q"))
        names = ["c", "c"] if shared else ["c", "d"]
        for number, name in enumerate(names):
            member = gang("g", {"w": 2})[number]
            member["spec"]["resourceClaims"] = [{"name": "nic", "resourceClaimName": name}]
            stage.create(member)
        for name in dict.fromkeys(names):
            allocated_claim(stage, name)
        host = await stage.leader()
        await stage.pass_time(4)
        for number in range(2):
            await host.bind(f"g-w-{number}", "n1")

    assert violations(history, QueueUsageIsCorrect) == expected


def allocated_claim(stage: Stage, name: str) -> None:
    """A claim with two devices, and one for administrators that does not count."""
    requests = [{"name": "r", "exactly": {"deviceClassName": "nic", "count": 3}}]
    made = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}}
    stage.client.create(DEVICE_CLAIMS, "default", {**made, "spec": {"devices": {"requests": requests}}})
    results = [
        {"request": "r", "driver": "d", "pool": "p", "device": f"{name}{number}", "adminAccess": number == 2}
        for number in range(3)
    ]
    stage.client.update_status(
        Key(DEVICE_CLAIMS, "default", name), allocation={"devices": {"results": results}}
    )


@pytest.mark.parametrize(("ago_s", "expected"), [(1, []), (4, ["S6"])])
def test_a_limit_that_was_lowered_during_the_cycle_does_not_violate(
    ago_s: float, expected: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        stage.create(queue("q", limit={"nvidia.com/gpu": "4"}), node("n1"))
        stage.create(pod_group("g", min_member=1, queue="q"), *gang("g", {"w": 3}))
        stage.change("q", QUEUES, limit={"nvidia.com/gpu": "2"})
        host = await stage.leader()
        await stage.pass_time(ago_s)
        for number in range(3):
            await host.bind(f"g-w-{number}", "n1")

    assert violations(history, QueueUsageIsCorrect) == expected


@pytest.mark.parametrize(
    ("wait_s", "has_claims", "expected"), [(10, False, []), (130, False, ["S6"] * 2), (130, True, [])]
)
def test_a_limit_that_was_lowered_before_slow_writes_does_not_violate(
    wait_s: float, has_claims: bool, expected: list[str]
) -> None:
    """A bind may wait longer for claims than for writes."""

    async def history(stage: Stage) -> None:
        stage.create(queue("q", limit={"nvidia.com/gpu": "4"}), node("n1"))
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
        pods = gang("g", {"w": 3})
        for member in pods:
            member["spec"]["volumes"] = [volume] if has_claims else []
        stage.create(pod_group("g", min_member=1, queue="q"), *pods)
        host = await stage.leader()
        host.decide(g_w_0="n1", g_w_1="n1")
        stage.change("q", QUEUES, limit={"nvidia.com/gpu": "0"})
        await host.receive()
        await stage.pass_time(wait_s)
        for number in range(2):
            await host.bind(f"g-w-{number}", "n1")

    assert violations(history, QueueUsageIsCorrect) == expected


@pytest.mark.parametrize(("ago_s", "expected"), [(1, []), (4, ["S6"])])
def test_a_queue_whose_parent_changed_during_the_cycle_does_not_violate(
    ago_s: float, expected: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        stage.create(queue("top", limit={"nvidia.com/gpu": "2"}), queue("q"), node("n1"))
        stage.create(pod_group("g", min_member=1, queue="q"), *gang("g", {"w": 3}))
        stage.change("q", QUEUES, parent="top")
        host = await stage.leader()
        await stage.pass_time(ago_s)
        for number in range(3):
            await host.bind(f"g-w-{number}", "n1")

    assert violations(history, QueueUsageIsCorrect) == expected


def test_a_lowered_limit_that_was_not_received_does_not_violate() -> None:
    async def history(stage: Stage) -> None:
        stage.create(queue("q", limit={"nvidia.com/gpu": "4"}), node("n1"))
        stage.create(pod_group("g", min_member=1, queue="q"), *gang("g", {"w": 4}))
        host = await stage.leader()
        stage.change("q", QUEUES, limit={"nvidia.com/gpu": "2"})
        for number in range(4):
            await host.bind(f"g-w-{number}", "n1")

    assert violations(history, QueueUsageIsCorrect) == []


@pytest.mark.parametrize(("reported", "expected"), [("3", []), ("2", ["S6"])])
@pytest.mark.parametrize("name", ["q", "top"])
def test_a_queue_status_with_wrong_usage_violates(name: str, reported: str, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        stage.create(queue("top"), queue("q", parent="top"))
        await use(stage, 3)
        stage.status(name, QUEUES, allocated={"nvidia.com/gpu": reported, "pods": "3"})
        await stage.pass_time(30)
        stage.checks.at_rest()

    assert violations(history, QueueUsageIsCorrect) == expected


@pytest.mark.parametrize(("ago_s", "expected"), [(0, []), (4, ["S6"])])
def test_a_pod_that_moved_to_the_gang_during_the_cycle_does_not_violate(
    ago_s: float, expected: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        stage.create(queue("q", limit={"nvidia.com/gpu": "2"}), node("n1"))
        stage.create(pod_group("other", min_member=1), *gang("other", {"w": 1}))
        stage.create(pod_group("g", min_member=1, queue="q"), *gang("g", {"w": 2}))
        host = await stage.leader()
        await host.bind("other-w-0", "n1")
        await host.receive()
        await stage.pass_time(10)
        stage.client.update(stage.key("other-w-0"), lambda it: labelled(it, {LABEL_POD_GROUP: "g"}))
        if ago_s:
            await host.receive()
        await stage.pass_time(ago_s)
        for number in range(2):
            await host.bind(f"g-w-{number}", "n1")

    assert violations(history, QueueUsageIsCorrect) == expected


def labelled(found: Object, labels: dict[str, str]) -> Object:
    metadata = found["metadata"]
    return {**found, "metadata": {**metadata, "labels": {**metadata["labels"], **labels}}}


RIGHT = {"total": 3, "pending": 0, "bound": 2, "running": 1, "succeeded": 0, "failed": 0}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, []), ({"bound": 3}, ["S13"]), ({"running": 0}, ["S13"]), ({"total": 4}, ["S13"])],
)
def test_wrong_counts_violate(changes: dict[str, int], expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        await use(stage, 3)
        stage.status("g-w-0", phase="Running")
        stage.status("g", GROUPS, counts={**RIGHT, **changes})
        await stage.pass_time(30)
        stage.checks.at_rest()

    assert violations(history, StatusIsCorrect) == expected


async def go_on(stage: Stage, seconds: float) -> None:
    """Advance time, with a cycle every five seconds."""
    for _ in range(round(seconds / 5)):
        stage.hosts[0].decided(CycleResult(cycle=0))
        await stage.pass_time(5)


@pytest.mark.parametrize(("seconds", "expected"), [(5, []), (15, ["S13"])], ids=["in-time", "late"])
def test_counts_that_are_reported_late_violate(seconds: float, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        await use(stage, 3)
        stage.status("g-w-0", phase="Running")
        stage.status("g", GROUPS, counts=RIGHT)
        await go_on(stage, 40)
        assert stage.found.count == 0
        stage.status("g-w-1", phase="Running")
        await go_on(stage, seconds)
        stage.status("g", GROUPS, counts={**RIGHT, "running": 2, "bound": 1})
        await go_on(stage, 40)

    assert violations(history, StatusIsCorrect) == expected


def test_wrong_counts_of_a_leader_with_late_watches_do_not_violate() -> None:
    async def history(stage: Stage) -> None:
        await use(stage, 3)
        stage.hosts[0].network.delay_watches(60)
        await go_on(stage, 60)
        stage.hosts[0].network.delay_watches(0)
        await stage.pass_time(5)
        stage.status("g", GROUPS, counts={**RIGHT, "running": 0, "bound": 3})
        await go_on(stage, 40)

    assert violations(history, StatusIsCorrect) == []


def test_many_changes_may_be_reported_later() -> None:
    async def history(stage: Stage) -> None:
        await use(stage, 3)
        await go_on(stage, 8)
        for number in range(3000):
            stage.status("g-w-0", message=f"{number}")
        await go_on(stage, 30)
        stage.status("g", GROUPS, counts={**RIGHT, "running": 0, "bound": 3})
        await go_on(stage, 40)

    assert violations(history, StatusIsCorrect) == []


def test_counts_before_a_recent_change_do_not_violate() -> None:
    async def history(stage: Stage) -> None:
        await use(stage, 3)
        await stage.pass_time(30)
        stage.status("g-w-0", phase="Running")
        await stage.pass_time(2)
        stage.checks.at_rest()

    assert violations(history, StatusIsCorrect) == []


@pytest.mark.parametrize(("bound", "expected"), [(1, ["S13"]), (2, [])])
def test_a_start_reported_before_min_member_is_bound_violates(bound: int, expected: list[str]) -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod_group("g", min_member=2), *gang("g", {"w": 2}))
        host = await stage.leader()
        for number in range(bound):
            await host.bind(f"g-w-{number}", "n1")
        fields: dict[str, Any] = {"startedAt": "2026-01-01T00:00:00Z"}
        stage.status("g", GROUPS, **fields)

    assert violations(history, StatusIsCorrect) == expected


@pytest.mark.parametrize(("later_s", "expected"), [(1, []), (20, ["S13"])])
def test_a_start_reported_by_a_recently_raised_min_member_does_not_violate(
    later_s: float, expected: list[str]
) -> None:
    """It was raised before the last bind, and a leader cannot have received that after a second."""

    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod_group("g", min_member=2), *gang("g", {"w": 2}))
        host = await stage.leader()
        await stage.pass_time(30)
        await host.bind("g-w-0", "n1")
        stage.change("g", GROUPS, minMember=3)
        await host.bind("g-w-1", "n1")
        await stage.pass_time(later_s)
        fields: dict[str, Any] = {"startedAt": "2026-01-01T00:00:00Z"}
        stage.status("g", GROUPS, **fields)

    assert violations(history, StatusIsCorrect) == expected


@pytest.mark.parametrize(
    ("reason", "to", "expected"),
    [("Scheduled", "n1", []), ("Scheduled", "n2", ["S13"]), ("FailedScheduling", "n2", [])],
)
@pytest.mark.parametrize("is_gone", [False, True], ids=["there", "gone"])
def test_an_event_with_a_wrong_node_violates(
    reason: str, to: str, is_gone: bool, expected: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        await use(stage, 1)
        body = {
            "metadata": {"name": "g-w-0.1", "namespace": "default"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "phalanx",
            "reportingInstance": "p0",
            "regarding": {"kind": "Pod", "namespace": "default", "name": "g-w-0", "uid": stage.uid("g-w-0")},
            "type": "Normal",
            "reason": reason,
            "action": "Binding",
            "note": f"Successfully assigned default/g-w-0 to {to}",
        }
        if is_gone:
            stage.delete("g-w-0")
        assert await stage.hosts[0].request("POST", EVENTS, body) == 201

    assert violations(history, StatusIsCorrect) == expected


NATIVE_GROUP = {
    "apiVersion": NATIVE_POD_GROUPS.api_version,
    "kind": NATIVE_POD_GROUPS.kind,
    "metadata": {"name": "g", "namespace": "default"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
}


def report_natively(stage: Stage, status: str) -> None:
    """Set the condition of the native PodGroup."""
    condition = {"type": "PodGroupInitiallyScheduled", "status": status, "reason": "r", "message": ""}
    stage.client.update_status(stage.key("g", NATIVE_POD_GROUPS.resource), condition=condition)


@pytest.mark.parametrize(
    ("bound", "reports", "expected"),
    [
        (2, ["False", "True"], []),
        (1, ["False"], []),
        (1, ["True"], ["S13"]),
        (2, ["True", "False"], ["S13"]),
    ],
)
def test_a_native_pod_group_is_scheduled_once_and_not_before_its_minimum_is_bound(
    bound: int, reports: list[str], expected: list[str]
) -> None:
    async def history(stage: Stage) -> None:
        stage.server.types.add(NATIVE_POD_GROUPS)
        stage.client.create(NATIVE_POD_GROUPS.resource, "default", NATIVE_GROUP)
        named = {"podGroupName": "g"}
        stage.create(node("n1"), *(pod(f"g-{number}", schedulingGroup=named) for number in range(2)))
        host = await stage.leader()
        for number in range(bound):
            await host.bind(f"g-{number}", "n1")
        for status in reports:
            report_natively(stage, status)

    assert violations(history, StatusIsCorrect) == expected
