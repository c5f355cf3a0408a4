"""`phalanx why`: one screen about a gang."""

from typing import Any

import pytest

from tests.cli.verbs.conftest import GROUP, MESSAGE, World, ago, gpu_pod, pod_group
from tests.fake_objects import Manifest


def event(name: str, pod: str, uid: str, *, reason: str, note: str, seconds: int, count: int = 1) -> dict:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "vision"},
        "eventTime": ago(seconds).replace("Z", ".000000Z"),
        "reportingController": "phalanx",
        "reportingInstance": "one",
        "action": "Scheduling",
        "reason": reason,
        "type": "Warning",
        "note": note,
        "regarding": {"kind": "Pod", "namespace": "vision", "name": pod, "uid": uid},
        **({"series": {"count": count, "lastObservedTime": ago(seconds)}} if count > 1 else {}),
    }


@pytest.mark.parametrize("target", ["large", "podgroup/large", "pg/large", "pod/large-1", "pods/large-0"])
async def test_a_gang_that_waits(tenants: World, target: str) -> None:
    view = await tenants.json("why", target, "-n", "vision")
    assert view["gang"]["name"] == "large"
    assert (view["category"], view["gang"]["message"]) == ("Waiting", MESSAGE)
    assert view["evidence"] == ["nodes: 3 insufficient nvidia.com/gpu", "rack a: fits 1 of 2 pods"]
    assert view["help"] == ["Wait until vision/busy ends", "To start now, lower minMember to 1"]
    assert (view["gang"]["position"], view["waitingInQueue"]) == (1, 1)
    assert view["expectedStart"]["method"] == "runtime.max of running gangs"


async def test_the_screen_and_its_exit_code(tenants: World) -> None:
    done = await tenants.run("why", "large", "-n", "vision")
    assert (done.code, done.err) == (5, "")
    assert done.out.startswith("PodGroup vision/large  Waiting  for ")
    for text in (
        "vision · place 1 · priority 0",
        "2 pods, 0 running, 2 waiting · starts with 2 · requests nvidia.com/gpu=16",
        f"InsufficientCapacity  {MESSAGE}",
        "would help  Wait until vision/busy ends",
        "m), by runtime.max of running gangs",
    ):
        assert text in done.out


async def test_a_gang_that_runs(tenants: World) -> None:
    done = await tenants.run("why", "busy", "-n", "vision")
    assert done.code == 0
    assert done.out.startswith("PodGroup vision/busy  Running  for 10m\n")
    assert "where       rack a: a[1-2]" in done.out


@pytest.mark.parametrize("is_written", [True, False])
async def test_a_gang_that_lost_a_member_is_degraded(tenants: World, *, is_written: bool) -> None:
    """By the status of its PodGroup; by its pods if it has none."""
    lacks = "1 of 2 members is left; 1 pod is to be created by Job broken"
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": "broken", "uid": "u", "controller": True}
    labels = {} if is_written else {"scheduling.phalanx.dev/min-member": "2"}
    left = gpu_pod("broken-0", space="vision", node="b1", ownerReferences=[controller])
    left["metadata"]["labels"] |= {GROUP: "broken"} if is_written else labels
    tenants.create(left)
    if is_written:
        degraded = {"phase": "Degraded", "startedAt": ago(600), "reason": "MembersMissing", "message": lacks}
        conditions = [
            {"type": name, "status": status, "reason": "r", "message": lacks, "lastTransitionTime": ago(300)}
            for name, status in (("Scheduled", "False"), ("Degraded", "True"))
        ]
        tenants.create(pod_group("broken", space="vision", status={**degraded, "conditions": conditions}))
    done = await tenants.run("why", "pod/broken-0", "-n", "vision")
    first, *rest = done.out.splitlines()
    assert "  Degraded" in first
    assert f"reason      MembersMissing  {lacks}" in rest
    assert done.out.count(lacks) == 1
    assert done.code == 5


async def test_the_history_has_equal_events_of_all_pods_once_and_the_newest_first(tenants: World) -> None:
    uids = {}
    for name in ("large-0", "large-1"):
        path = f"/api/v1/namespaces/vision/pods/{name}"
        uids[name] = tenants.send("GET", path, {})["metadata"]["uid"]
    reason = "FailedScheduling"
    events = [
        event("e1", "large-0", uids["large-0"], reason=reason, note="first", seconds=300, count=4),
        event("e2", "large-1", uids["large-1"], reason=reason, note="first", seconds=200),
        event("e3", "large-0", uids["large-0"], reason=reason, note="second", seconds=100),
        event("e4", "large-0", "another", reason=reason, note="of an earlier pod", seconds=50),
    ]
    tenants.create(*events)
    other = event("e5", "large-0", uids["large-0"], reason="Failed", note="another's", seconds=1)
    tenants.create(other | {"reportingController": "default-scheduler"})
    view = await tenants.json("why", "large", "-n", "vision")
    assert [(each["text"], each["count"]) for each in view["history"]] == [("second", 1), ("first", 5)]
    text = (await tenants.run("why", "large", "-n", "vision")).out
    assert "FailedScheduling  ×5: first" in text


async def test_a_job_names_the_gang_of_its_pods(tenants: World) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "large-job", "uid": "u1", "controller": True}
    tenants.create(gpu_pod("large-2", space="vision", group="large", ownerReferences=[owner]))
    for target in ("job/large-job", "jobs/large-job", "jobs.batch/large-job"):
        assert (await tenants.json("why", target, "-n", "vision"))["gang"]["name"] == "large"


async def test_a_name_that_does_not_exist_and_one_that_is_not_unique(tenants: World) -> None:
    done = await tenants.run("why", "job/none", "-n", "vision")
    assert (done.code, done.out) == (4, "")
    assert done.err.startswith("why: no gang of job/none in namespace vision")
    tenants.create(gpu_pod("note", space="vision"))
    done = await tenants.run("why", "note", "-A")
    assert done.code == 2
    assert "speech/pod/note" in done.err
    assert "vision/pod/note" in done.err


async def test_without_the_right_to_read_events(tenants: World) -> None:
    tenants.server.forbidden = ("/apis/events.k8s.io/",)
    done = await tenants.run("why", "large", "-n", "vision")
    assert done.code == 5
    assert done.err == "note: events are left out: you may not list them\n"


# --- workloads without pods ---------------------------------------------------------------------------------

FAILED = {
    "type": "Failed",
    "status": "True",
    "reason": "BackoffLimitExceeded",
    "message": "too often",
}
ANNOTATED = {"scheduling.phalanx.dev/suspended-by-eviction": "1"}


def job(*, scheduler: str = "phalanx", status: Manifest | None = None, **fields: Any) -> Manifest:
    spec = gpu_pod("x", space="vision")["spec"] | {"restartPolicy": "Never", "schedulerName": scheduler}
    annotations = fields.pop("annotations", {})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "gone", "namespace": "vision", "annotations": annotations},
        "spec": {"template": {"spec": spec}, **fields},
        "status": status or {},
    }


@pytest.mark.parametrize("target", ["job/gone", "jobs.batch/gone", "gone"])
async def test_a_job_that_an_eviction_has_failed(tenants: World, target: str) -> None:
    """Its pods are gone. The event on the Job says what happened."""
    tenants.create(job(status={"conditions": [FAILED]}))
    uid = tenants.send("GET", "/apis/batch/v1/namespaces/vision/jobs/gone", {})["metadata"]["uid"]
    note = "16 pods of it: evicted so that vision/urgent can start"
    evicted = event("e9", "gone", uid, reason="Preempted", note=note, seconds=60)
    tenants.create(evicted | {"regarding": evicted["regarding"] | {"kind": "Job"}})
    done = await tenants.run("why", target, "-n", "vision")
    assert done.code == 5
    assert done.out.startswith("Job vision/gone  Failed")
    text = " ".join(done.out.split())
    assert "BackoffLimitExceeded the Job has failed: too often" in text
    assert "Create it again: its controller makes no more pods for this one" in text
    assert f"Preempted: {note}" in text


@pytest.mark.parametrize(
    ("made", "state", "message"),
    [
        (job(suspend=True, annotations=ANNOTATED), "Waiting", "the Job was suspended to evict its pods"),
        (job(suspend=True), "Waiting", "the Job is suspended"),
        (job(), "Waiting", "the Job has no pods"),
        (job(status={"conditions": [{**FAILED, "type": "Complete"}]}), "Finished", "the Job has succeeded"),
    ],
)
async def test_a_job_that_has_no_pods(tenants: World, made: Manifest, state: str, message: str) -> None:
    tenants.create(made)
    gang = (await tenants.json("why", "job/gone", "-n", "vision"))["gang"]
    assert (gang["state"], gang["message"]) == (state, message)


async def test_a_job_that_waits_without_pods(tenants: World) -> None:
    """The events of the Job say why. They are not those of a pod."""
    tenants.create(job(suspend=True, annotations=ANNOTATED))
    uid = tenants.send("GET", "/apis/batch/v1/namespaces/vision/jobs/gone", {})["metadata"]["uid"]
    for name, note, seconds in (("e7", "NoDomainFits: old", 60), ("e8", "InsufficientCapacity: new", 50)):
        made = event(name, "gone", uid, reason="FailedScheduling", note=note, seconds=seconds)
        tenants.create(made | {"regarding": made["regarding"] | {"kind": "Job"}})
    view = await tenants.json("why", "job/gone", "-n", "vision")
    gang = view["gang"]
    assert (gang["state"], gang["reason"], gang["message"]) == ("Waiting", "InsufficientCapacity", "new")
    assert (view["category"], view["help"]) == (
        "Waiting",
        ["Wait: it is resumed when there is capacity for it"],
    )


async def test_a_job_of_another_scheduler_is_no_gang(tenants: World) -> None:
    tenants.create(job(scheduler="default-scheduler", suspend=True))
    tenants.create(
        job(scheduler="other", suspend=True) | {"metadata": {"name": "theirs", "namespace": "vision"}}
    )
    assert (await tenants.run("why", "job/theirs", "-n", "vision")).code == 4


async def test_the_history_has_the_events_of_the_controller(tenants: World) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "large-job", "uid": "u1", "controller": True}
    tenants.create(gpu_pod("large-2", space="vision", group="large", ownerReferences=[owner]))
    tenants.create(event("e8", "large-job", "u1", reason="Resumed", note="after an eviction", seconds=60))
    view = await tenants.json("why", "large", "-n", "vision")
    assert [each["what"] for each in view["history"]] == ["Resumed"]


async def test_a_misspelt_name_has_the_nearest_one(tenants: World) -> None:
    done = await tenants.run("why", "lagre", "-n", "vision")
    assert (done.code, done.err.endswith("; did you mean large?\n")) == (4, True)
    for words in (("queues", "visoin"), ("jobs", "-A", "--queue", "visoin")):
        done = await tenants.run(*words)
        assert (done.code, done.out) == (4, "")
        assert done.err == f"{words[0]}: there is no queue visoin; did you mean vision?\n"
    assert (await tenants.run("why", "zzz", "-n", "vision")).err.endswith("or you may not read them\n")
