"""`phalanx queues`: the tree with guarantee, use, share, borrowed and waiting."""

import pytest

from tests.cli.verbs.conftest import World, queue


async def test_the_tree_with_its_amounts(tenants: World) -> None:
    view = await tenants.json("queues")
    assert view["resource"] == "nvidia.com/gpu"
    rows = {row["name"]: row for row in view["queues"]}
    assert [(name, row["depth"]) for name, row in rows.items()] == [("all", 0), ("vision", 1)]
    vision = rows["vision"]
    assert vision["used"] == {"nvidia.com/gpu": 8}
    assert (vision["guarantee"], vision["fairShare"]) == ({"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 12})
    assert (vision["weight"], vision["pendingGangs"], vision["pendingPods"]) == (3, 1, 2)


async def test_bars_distinguish_use_within_the_guarantee_and_beyond_it(tenants: World) -> None:
    done = await tenants.run("queues", "all")
    assert done.code == 0
    (row,) = [line for line in done.out.splitlines() if line.startswith("  vision")]
    # Of twelve GPUs, the largest amount of a queue, 4 are a third of the 20 cells: 7; and 8 are 13.
    assert "█" * 7 + "▓" * 6 + "·" * 7 in row
    assert row.split()[-5:] == ["4", "12", "4", "1", "Open"]
    assert "default" not in done.out


async def test_another_resource_and_all_columns(tenants: World) -> None:
    done = await tenants.run("queues", "-r", "cpu", "-o", "wide")
    assert "CPU USED" in done.out
    assert "nvidia.com/gpu=8" in done.out


async def test_past_use_is_shown_if_it_counts(world: World) -> None:
    world.create(queue("a", status={"averageUse": {"nvidia.com/gpu": "5"}}))
    world.create(queue("b", limit={"nvidia.com/gpu": "9"}))
    view = await world.json("queues")
    assert [row["averageUse"] for row in view["queues"]] == [{"nvidia.com/gpu": 5}, {}]
    header, *rows = (await world.run("queues", "-o", "wide")).out.splitlines()
    place = header.index("AVERAGE USE")
    assert [row[place:].split()[0] for row in rows[:2]] == ["5", "-"]


async def test_a_queue_that_does_not_exist(tenants: World) -> None:
    done = await tenants.run("queues", "missing")
    assert (done.code, done.out, done.err) == (4, "", "queues: there is no queue missing\n")


@pytest.mark.parametrize("parents", [{"a": "b", "b": "a"}, {"a": "a", "b": "a"}, {"a": "none", "b": "none"}])
async def test_queues_with_wrong_parents_are_shown_once(world: World, parents: dict[str, str]) -> None:
    for name, parent in parents.items():
        if name != parent:
            world.create(queue(name, parent=parent))
        else:
            world.create(queue(name))
    names = [row["name"] for row in (await world.json("queues"))["queues"]]
    assert sorted(names) == ["a", "b"]


async def test_a_user_who_may_not_list_queues(tenants: World) -> None:
    tenants.server.forbidden = ("/apis/scheduling.phalanx.dev/v1alpha1/queues",)
    done = await tenants.run("queues")
    assert (done.code, done.out) == (1, "")
    assert done.err == "queues: queues.scheduling.phalanx.dev are left out: you may not list them\n"
