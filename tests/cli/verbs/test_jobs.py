"""`phalanx jobs`: all gangs that the user may see."""

from tests.cli.verbs.conftest import World, gpu_pod, pod_group, waiting_status


async def test_gangs_with_state_queue_place_and_where(tenants: World) -> None:
    rows = await tenants.json("jobs", "-A")
    shown = [(row["namespace"], row["name"], row["kind"], row["state"], row["queue"]) for row in rows]
    assert shown == [
        ("vision", "large", "PodGroup", "Waiting", "vision"),
        ("speech", "note", "Pod", "Running", "default"),
        ("vision", "busy", "PodGroup", "Running", "vision"),
    ]
    large, _, busy = rows
    assert (large["position"], large["reason"], large["pods"]) == (1, "InsufficientCapacity", 2)
    assert large["requests"]["nvidia.com/gpu"] == 16
    assert busy["nodes"] == [{"node": "a1", "pods": 1}, {"node": "a2", "pods": 1}]
    assert busy["domain"] == "rack a"


async def test_the_table_and_its_filters(tenants: World) -> None:
    done = await tenants.run("jobs", "-n", "vision")
    assert (done.code, done.err) == (0, "")
    header, large, busy = [line.split() for line in done.out.splitlines()]
    assert header == ["NAME", "STATE", "QUEUE", "PLACE", "SINCE", "PODS", "WHERE", "REASON"]
    assert large[:4] == ["large", "Waiting", "vision", "1"]
    assert busy == ["busy", "Running", "vision", "-", "10m", "2/2", "rack", "a:", "a[1-2]", "-"]
    note = (await tenants.run("jobs", "-n", "speech")).out.splitlines()[1].split()
    assert note[:6] == ["pod/note", "Running", "default", "-", "10m", "1/1"]
    only = await tenants.json("jobs", "-n", "vision", "--state", "Running")
    assert [row["name"] for row in only] == ["busy"]
    assert await tenants.json("jobs", "-A", "--queue", "vision", "--state", "Failed") == []
    there = await tenants.json("jobs", "-A", "--node", "a1")
    assert [row["name"] for row in there] == ["busy"]
    assert await tenants.json("jobs", "-n", "speech", "--node", "a1") == []
    wide = (await tenants.run("jobs", "-n", "vision", "-o", "wide")).out
    assert "nvidia.com/gpu=16" in wide
    assert "16 nvidia.com/gpu needed, 4 free" in wide


async def test_a_suspended_job_that_waits_without_pods(world: World) -> None:
    """Not one that its user has suspended."""
    template = gpu_pod("x", space="default")["spec"] | {"restartPolicy": "Never"}
    annotation = {"scheduling.phalanx.dev/suspended-by-eviction": "1"}
    for name, annotations in (("evicted", annotation), ("own", {})):
        meta = {"name": name, "namespace": "default", "annotations": annotations}
        spec = {"parallelism": 2, "suspend": True, "template": {"spec": template}}
        world.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
    (row,) = await world.json("jobs")
    assert (row["kind"], row["name"]) == ("Job", "evicted")
    assert (row["state"], row["reason"]) == ("Waiting", "Preempted")
    assert (row["queue"], row["pods"], row["minMember"]) == ("default", 0, 2)


async def test_a_job_without_a_pod_group_is_a_gang_with_the_reason_of_its_pods(world: World) -> None:
    template = gpu_pod("x", space="default")["spec"] | {"restartPolicy": "Never"}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sweep", "namespace": "default"},
        "spec": {"parallelism": 2, "template": {"spec": template}},
    }
    uid = world.send("POST", "/apis/batch/v1/namespaces/default/jobs", job)["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "sweep", "uid": uid, "controller": True}
    message = "QueueNotFound: there is no queue x"
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    for name in ("sweep-0", "sweep-1"):
        pod = gpu_pod(name, space="default", ownerReferences=[owner])
        world.create({**pod, "status": {"conditions": [condition]}})
    (row,) = await world.json("jobs")
    assert (row["kind"], row["name"], row["pods"]) == ("Job", "sweep", 2)
    assert (row["reason"], row["message"]) == ("QueueNotFound", "there is no queue x")
    world.server.forbidden = ("/apis/batch/v1/jobs",)
    done = await world.run("jobs")
    assert (done.code, done.err) == (0, ""), "the Jobs of the own namespace are enough"


async def test_a_pod_group_without_pods_is_shown(world: World) -> None:
    world.create(pod_group("empty", space="default", queue="q"))
    (row,) = await world.json("jobs")
    assert (row["name"], row["state"], row["queue"], row["reason"]) == ("empty", "Waiting", "q", "NoPods")


async def test_queues_that_may_not_be_listed_are_named_without_a_note(tenants: World) -> None:
    tenants.server.forbidden = (
        "/apis/scheduling.phalanx.dev/v1alpha1/queues",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
    )
    labels = {"scheduling.phalanx.dev/queue": "vision"}
    tenants.create(gpu_pod("single", space="vision", node="b1", labels=labels))
    done = await tenants.run("jobs", "-n", "vision")
    assert (done.code, done.err) == (0, "")
    queues = {row.split()[0]: row.split()[2] for row in done.out.splitlines()[1:]}
    assert queues == {"large": "vision", "busy": "vision", "pod/single": "vision"}


async def test_no_gangs(world: World) -> None:
    done = await world.run("jobs")
    assert (done.code, done.out) == (0, "No gangs.\n")


async def test_yaml_and_names_that_control_a_terminal(world: World) -> None:
    status = waiting_status("NoDomainFits", "\x1b[2Jgone\nline", position=3, step="")
    world.create(pod_group("odd", space="default", status=status))
    world.create(gpu_pod("odd-0", space="default", group="odd"))
    done = await world.run("jobs", "-o", "wide")
    assert "\x1b" not in done.out
    assert r"\x1b[2Jgone\nline" in done.out
    assert len(done.out.splitlines()) == 2
    text = (await world.run("jobs", "-o", "yaml")).out
    assert "reason: NoDomainFits" in text
