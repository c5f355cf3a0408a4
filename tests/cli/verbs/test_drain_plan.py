"""`phalanx drain-plan`: an order in which nodes can be emptied with few restarts."""

from typing import Any

from tests.cli.verbs.conftest import World, gpu_node, gpu_pod, pod_group


def gang(
    world: World, name: str, *nodes: str, gpus: int = 8, minimum: int | None = None, **meta: Any
) -> None:
    least = len(nodes) if minimum is None else minimum
    world.create(pod_group(name, space="default", minMember=least, status={"phase": "Running"}))
    for place, node in enumerate(nodes):
        world.create(gpu_pod(f"{name}-{place}", space="default", group=name, node=node, gpus=gpus))


def steps(plan: Any) -> list[tuple[str, list[str]]]:
    return [(step["node"], step["stops"]) for step in plan["steps"]]


async def test_each_gang_stops_once_if_there_is_capacity_for_it(world: World) -> None:
    """n3 is empty. Its capacity takes the gang of n1 and n2 when it is back; n4 is not in the plan."""
    world.create(*(gpu_node(name, rack="a") for name in ("n1", "n2", "n3", "n4")))
    gang(world, "pair", "n1", "n2")
    plan = await world.json("drain-plan", "n1", "n2", "n3")
    assert steps(plan) == [("n3", []), ("n1", ["default/pair"]), ("n2", [])]
    assert (plan["stops"], plan["stopsAtLeast"]) == (1, 1)
    assert [step["noCapacity"] for step in plan["steps"]] == [[], [], []]


async def test_without_capacity_elsewhere_the_plan_says_so(world: World) -> None:
    world.create(*(gpu_node(name, rack="a") for name in ("n1", "n2", "n3")))
    gang(world, "pair", "n1", "n2")
    plan = await world.json("drain-plan", "n1", "n2", "n3", "--removed")
    assert steps(plan)[0] == ("n3", [])
    assert plan["steps"][1]["noCapacity"] == ["default/pair"]
    assert plan["returns"] is False
    done = await world.run("drain-plan", "n1", "n2", "n3", "--removed")
    assert "no capacity elsewhere: default/pair" in done.out


async def test_the_cheapest_node_is_first_and_its_capacity_takes_the_next_gang(world: World) -> None:
    """Draining n2 stops one gang, draining n1 two. The gang of n2 fits on n3 only while that is free."""
    world.create(*(gpu_node(name, rack="a") for name in ("n1", "n2", "n3")))
    gang(world, "one", "n1", gpus=4)
    gang(world, "two", "n1", gpus=4)
    gang(world, "whole", "n2")
    plan = await world.json("drain-plan", "n1", "n2")
    assert steps(plan) == [("n2", ["default/whole"]), ("n1", ["default/one", "default/two"])]
    assert [step["noCapacity"] for step in plan["steps"]] == [[], []]
    assert plan["stops"] == plan["stopsAtLeast"] == 3


async def test_a_gang_that_fits_nowhere_yet_is_stopped_later(world: World) -> None:
    """Draining n1 stops one gang only, but that needs a whole node. n2 is drained first, and takes it."""
    world.create(*(gpu_node(name, rack="a") for name in ("n1", "n2", "n3")))
    gang(world, "whole", "n1")
    gang(world, "small", "n2", gpus=2)
    gang(world, "other", "n2", gpus=2)
    gang(world, "stays", "n3", gpus=4)
    plan = await world.json("drain-plan", "n1", "n2")
    assert steps(plan) == [("n2", ["default/other", "default/small"]), ("n1", ["default/whole"])]
    assert [step["noCapacity"] for step in plan["steps"]] == [[], []]


async def test_an_elastic_gang_loses_pods_and_does_not_stop(world: World) -> None:
    world.create(gpu_node("n1", rack="a"), gpu_node("n2", rack="a"))
    gang(world, "elastic", "n1", "n2", minimum=1)
    plan = await world.json("drain-plan", "n1")
    assert (plan["stops"], plan["stopsAtLeast"]) == (0, 0)
    assert plan["steps"][0]["losesPods"] == ["default/elastic"]


async def test_what_needs_attention(world: World) -> None:
    world.create(gpu_node("n1", rack="a"), gpu_node("n2", rack="a"))
    gang(world, "kept", "n1")
    labels = {"scheduling.phalanx.dev/pod-group": "kept"}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {
            "minAvailable": 1,
            "selector": {"matchLabels": labels},
        },
    }
    world.send("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    done = await world.run("drain-plan", "n1")
    assert "protected by a PodDisruptionBudget: default/kept-0; not created again: default/kept-0" in done.out


async def test_nodes_by_label_and_wrong_names(world: World) -> None:
    world.create(gpu_node("n1", rack="a"), gpu_node("n2", rack="b"))
    assert steps(await world.json("drain-plan", "-l", "rack=b")) == [("n2", [])]
    assert len((await world.json("drain-plan"))["steps"]) == 2
    assert (await world.run("drain-plan", "-l", "rack=z")).err == "drain-plan: no node is chosen\n"
    assert (await world.run("drain-plan", "z9")).code == 4
