"""`phalanx topo`: domains with free devices, fragmentation, and who is where."""

from tests.cli.verbs.conftest import World, gpu_node


async def test_free_devices_and_fragmentation_of_each_domain(tenants: World) -> None:
    view = await tenants.json("topo", "-A")
    assert (view["topology"], view["levels"], view["resource"]) == ("default", ["rack"], "nvidia.com/gpu")
    cluster, a, b = view["domains"]
    # a: two nodes of eight with four in use each; b: one node with one in use.
    assert [(each["name"], each["nodes"], each["total"], each["free"]) for each in (cluster, a, b)] == [
        ("", 3, 24, 15),
        ("a", 2, 16, 8),
        ("b", 1, 8, 7),
    ]
    assert (a["largestFree"], a["freeWholeNodes"], a["fragmentation"]) == (4, 0, 100)
    assert a["gangs"] == [{"namespace": "vision", "name": "busy", "pods": 2}]
    assert [each["name"] for each in cluster["gangs"]] == ["busy", "note"]


async def test_whole_free_nodes_are_not_scattered_and_a_cordoned_node_is_not_free(tenants: World) -> None:
    cordoned = gpu_node("b3", rack="b")
    cordoned["spec"] = {"unschedulable": True}
    tenants.create(gpu_node("b2", rack="b"), cordoned)
    view = await tenants.json("topo")
    b = next(each for each in view["domains"] if each["name"] == "b")
    assert (b["total"], b["unusable"], b["free"], b["freeWholeNodes"]) == (24, 8, 15, 1)
    assert b["fragmentation"] == 100 * 7 // 15


async def test_single_nodes_and_gangs_of_the_own_namespace_only(tenants: World) -> None:
    done = await tenants.run("topo", "--nodes", "-n", "vision")
    lines = done.out.splitlines()
    assert lines[0] == "Topology default: rack"
    assert [line.split()[:2] for line in lines[2:8]] == [
        ["cluster", "3"],
        ["rack", "a"],
        ["node", "a1"],
        ["node", "a2"],
        ["rack", "b"],
        ["node", "b1"],
    ]
    assert "note" not in "".join(lines[:-1])


async def test_nodes_without_the_label_and_a_topology_that_does_not_exist(tenants: World) -> None:
    node = gpu_node("c1", rack="x")
    del node["metadata"]["labels"]["rack"]
    tenants.create(node)
    names = [each["name"] for each in (await tenants.json("topo"))["domains"]]
    assert names == ["", "(no label)", "a", "b"]
    done = await tenants.run("topo", "other")
    assert (done.code, done.err) == (4, "topo: there is no topology other\n")


async def test_without_the_pods_of_others_nothing_is_said_about_free_devices(tenants: World) -> None:
    tenants.server.forbidden = ("/api/v1/pods",)
    view = await tenants.json("topo", "-n", "vision")
    assert [each["free"] for each in view["domains"]] == [None, None, None]
    done = await tenants.run("topo", "-n", "vision")
    assert "?" in done.out
