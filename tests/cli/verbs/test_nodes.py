"""`phalanx nodes`: state, faults, why avoided, and what would be lost by draining."""

from tests.cli.verbs.conftest import World, ago, gpu_node, gpu_pod, pod_group
from tests.fake_objects import namespace


async def test_who_is_on_a_node_and_what_draining_it_would_cost(tenants: World) -> None:
    view = await tenants.json("nodes")
    rows = {row["name"]: row for row in view["nodes"]}
    assert view["resource"] == "nvidia.com/gpu"
    assert (rows["a1"]["used"]["nvidia.com/gpu"], rows["a1"]["free"]["nvidia.com/gpu"]) == (4, 4)
    assert rows["a1"]["free"].keys() <= rows["a1"]["allocatable"].keys()  # no zones, no host ports
    (gang,) = rows["a1"]["gangs"]
    assert (gang["namespace"], gang["name"], gang["pods"], gang["stops"]) == ("vision", "busy", 1, True)
    # Two pods of four GPUs have run for ten minutes: 600 s of each of the eight are lost.
    assert 600 * 8 <= gang["lostDeviceSeconds"] <= 700 * 8
    assert [each["name"] for each in rows["b1"]["gangs"]] == ["note"]


async def test_a_gang_that_goes_on_loses_the_pods_of_the_node_only(world: World) -> None:
    world.create(gpu_node("n1", rack="a"), gpu_node("n2", rack="a"))
    world.create(pod_group("elastic", space="default", minMember=1, status={"phase": "Running"}))
    world.create(
        *(gpu_pod(f"elastic-{node}", space="default", group="elastic", node=node) for node in ("n1", "n2"))
    )
    view = await world.json("nodes", "n1")
    (row,) = view["nodes"]
    (gang,) = row["gangs"]
    assert gang["stops"] is False
    assert 600 * 4 <= gang["lostDeviceSeconds"] <= 700 * 4
    done = await world.run("nodes", "n1", "-o", "wide")
    assert "n1: default/elastic: 1 pod here, the others go on, loses 10m" in done.out


async def test_the_jobs_of_a_jobset_in_another_namespace_are_one_gang(world: World) -> None:
    """Only the Jobs name the JobSet, so that they are read in all namespaces as the pods are."""
    world.create(namespace("other"), gpu_node("n1", rack="a"))
    template = gpu_pod("x", space="other")["spec"] | {"restartPolicy": "Never"}
    jobset = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "train", "uid": "u-train"}
    for name in ("train-a", "train-b"):
        meta = {"name": name, "namespace": "other", "ownerReferences": [{**jobset, "controller": True}]}
        spec = {"parallelism": 1, "completions": 1, "template": {"spec": template}}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}
        uid = world.send("POST", "/apis/batch/v1/namespaces/other/jobs", job)["metadata"]["uid"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
        world.create(gpu_pod(f"{name}-0", space="other", node="n1", ownerReferences=[owner]))
    (row,) = (await world.json("nodes", "-n", "default"))["nodes"]
    assert [(gang["kind"], gang["name"], gang["pods"]) for gang in row["gangs"]] == [("JobSet", "train", 2)]


async def test_a_checkpoint_saves_the_time_before_it(world: World) -> None:
    world.create(gpu_node("n1", rack="a"), pod_group("saved", space="default", minMember=1))
    notes = {"scheduling.phalanx.dev/last-checkpoint": ago(60)}
    world.create(gpu_pod("saved-0", space="default", group="saved", node="n1", annotations=notes))
    ((gang,),) = [row["gangs"] for row in (await world.json("nodes"))["nodes"]]
    assert 60 <= gang["lostSeconds"] < 160


async def test_states_and_reasons(world: World) -> None:
    not_ready = [{"type": "Ready", "status": "Unknown"}]
    xid = [{"type": "Ready", "status": "True"}, {"type": "GpuXidError", "status": "True"}]
    world.create(gpu_node("fine", rack="a"))
    world.create(gpu_node("lost", rack="a", conditions=not_ready))
    world.create(gpu_node("xid", rack="a", conditions=xid))
    cordoned = gpu_node("cordoned", rack="a")
    cordoned["spec"] = {"unschedulable": True}
    tainted = gpu_node("tainted", rack="a")
    tainted["spec"] = {"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]}
    new = gpu_node("new", rack="a")
    new["spec"] = {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}
    world.create(cordoned, tainted, new)
    view = await world.json("nodes")
    shown = [(row["name"], row["condition"], row["faults"], row["avoided"]) for row in view["nodes"]]
    assert shown == [
        ("lost", "NotReady", ["condition Ready is Unknown"], []),
        ("xid", "Faulty", ["condition GpuXidError is True"], []),
        ("cordoned", "Cordoned", [], ["cordoned"]),
        ("fine", "Ready", [], []),
        ("new", "Ready", [], ["taint node.kubernetes.io/not-ready:NoSchedule"]),
        ("tainted", "Ready", [], ["taint team=x:NoSchedule"]),
    ]
    done = await world.run("nodes")
    assert "condition GpuXidError is True" in done.out


async def test_a_tenant_without_the_pods_of_others_sees_no_use(tenants: World) -> None:
    tenants.server.forbidden = ("/api/v1/pods", "/apis/scheduling.phalanx.dev/v1alpha1/podgroups")
    done = await tenants.run("nodes", "-n", "vision")
    assert done.code == 0
    assert "pods of other namespaces than vision are left out: you may not list them" in done.err
    rows = [row.split() for row in done.out.splitlines()[1:]]
    assert [(row[0], row[2]) for row in rows] == [("a1", "?/8"), ("a2", "?/8"), ("b1", "?/8")]
    assert "note" not in done.out


async def test_without_the_right_to_see_nodes_there_is_no_answer(tenants: World) -> None:
    tenants.server.forbidden = ("/api/v1/nodes",)
    done = await tenants.run("nodes")
    assert (done.code, done.out) == (1, "")
    assert done.err == "nodes: nodes are left out: you may not list them\n"


async def test_a_node_that_does_not_exist(tenants: World) -> None:
    assert (await tenants.run("nodes", "a1", "z9")).err == "nodes: there is no node z9\n"
