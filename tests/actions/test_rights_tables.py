"""Rows of the tables of docs/guarantees.md about what queues keep, decided."""

import pytest
from phalanx.model.resources import CPU, GPU

from tests.actions.test_guarantee_tables import Amounts, ask, cells, guarantee, rows, run, two_queues
from tests.builders import Scenario

KEPT: dict[str, tuple[tuple[int, int], list[int], int, list[str]]] = {
    "1 and 1|4 and 4|a gang of 8|4": ((1, 1), [8], 4, ["a0"]),
    "1 and 1|4 and 4|gangs of 4 and 1, and 3 are free|4": ((1, 1), [4, 1], 4, ["a1"]),
    "4 and 1|6 and 2|four gangs of 2|2": ((4, 1), [2, 2, 2, 2], 2, ["a3"]),
}


def test_the_table_of_what_a_queue_keeps_is_tested() -> None:
    assert [cells(row) for row in rows("guarantees of A and B | fair shares, of 8 GPUs")] == list(KEPT)


@pytest.mark.parametrize("row", KEPT)
def test_what_a_queue_keeps_against_a_share(row: str) -> None:
    most, runs, asks, gone = KEPT[row]
    scenario = two_queues((8, 8), {"guarantee": {GPU: most[0]}}, {"guarantee": {GPU: most[1]}})
    for index, gpus in enumerate(runs):
        run(scenario, f"a{index}", (gpus, 0))
    assert ask(scenario, (asks, 0)) == gone


def test_gangs_of_lower_priority_do_not_make_up_for_covered_ones() -> None:
    """The gang of 1 is on the node that b needs; all that its guarantee covered has priority 1."""
    for priority, gone in ((0, ["a0"]), (1, [])):
        scenario = two_queues((2, 8), {"guarantee": {GPU: 1}}, {"guarantee": {GPU: 1}}).nodes("m", 1, gpu=6)
        run(scenario, "a0", (1, 0), priority=priority)
        scenario.gang("a1", 1, gpu=6, cpu=0, memory=0, queue="a", on=["m-0"])
        assert ask(scenario, (2, 0), selector={"group": "n"}) == gone


BESIDE: dict[str, tuple[Amounts, dict[str, int], list[Amounts], list[str]]] = {
    "1 GPU and 4 cores|a gang with 4 cores": ((1, 4), {}, [(1, 4)], []),
    "2 GPUs and 4 cores|a gang with 4 cores": ((2, 4), {}, [(1, 4)], ["a0"]),
    "2 GPUs and 4 cores|two gangs with 2 cores": ((2, 4), {}, [(1, 2), (1, 2)], ["a1"]),
    "1 GPU and 4 cores, and A names a guarantee of 0 cores|a gang with 4 cores": (
        (1, 4),
        {CPU: 0},
        [(1, 4)],
        ["a0"],
    ),
}


def test_the_table_of_what_is_beside_devices_is_tested() -> None:
    assert [cells(row) for row in rows("the node has")] == list(BESIDE)


@pytest.mark.parametrize("row", BESIDE)
def test_what_is_beside_guaranteed_devices(row: str) -> None:
    has, more, runs, gone = BESIDE[row]
    scenario = two_queues(has, {"guarantee": {**guarantee((1, 0)), **more}}, {"guarantee": guarantee((0, 2))})
    for index, each in enumerate(runs):
        run(scenario, f"a{index}", each)
    assert ask(scenario, (0, 1)) == gone
    unmet = {name: report.unmet_guarantees for name, report in scenario.decide().result.queues.items()}
    assert {name for name in unmet if unmet[name]} == (set() if gone else {"a", "b"})
    assert all("cpu" in each.message for found in unmet.values() for each in found)


def test_a_share_of_cores_does_not_take_a_guaranteed_device() -> None:
    """Cores are short, GPUs are not. The gang of cores goes, and not the cheaper one with the GPU."""
    scenario = two_queues((1, 8), {"guarantee": {GPU: 1}}, {})
    run(scenario, "a0", (0, 6))
    run(scenario, "a1", (1, 2))
    assert ask(scenario, (0, 2)) == ["a0"]


Asked = list[tuple[str, int]]
NOT_FITTING: dict[str, tuple[tuple[int, int], int, Asked, Asked, list[str], list[str]]] = {
    "2 and 2|3 GPUs|B: 2|A: 2": ((2, 2), 3, [("b", 2)], [("a", 2)], [], []),
    "8 and 8|15 GPUs, after one is lost|B: 8|A: 8": ((8, 8), 15, [("b", 8)], [("a", 8)], [], []),
    "2 and 2|3 GPUs|C, without a guarantee: 3 gangs of 1|A: 2": (
        (2, 2),
        3,
        [("c", 1)] * 3,
        [("a", 2)],
        ["r1", "r2"],
        [],
    ),
    "2 and 2|3 GPUs|nothing|B: 2, then A: 2": ((2, 2), 3, [], [("b", 2), ("a", 2)], [], ["w0"]),
    "2 and 4|4 GPUs|nothing|A: 2, then B: 2": ((2, 4), 4, [], [("a", 2), ("b", 2)], [], ["w1", "w0"]),
}


def test_the_table_of_guarantees_that_do_not_fit_is_tested() -> None:
    assert [cells(row) for row in rows("guarantees of A and B | there are")] == list(NOT_FITTING)


@pytest.mark.parametrize("row", NOT_FITTING)
def test_guarantees_that_do_not_fit(row: str) -> None:
    most, devices, runs, waits, gone, starts = NOT_FITTING[row]
    scenario: Scenario = two_queues(
        (devices, 0), {"guarantee": {GPU: most[0]}}, {"guarantee": {GPU: most[1]}}
    )
    scenario.queue("c")
    for index, (queue, gpus) in enumerate(runs):
        run(scenario, f"r{index}", (gpus, 0), queue)
    for index, (queue, gpus) in enumerate(waits):
        scenario.gang(f"w{index}", 1, gpu=gpus, cpu=0, memory=0, queue=queue, created=scenario.now + index)
    decided = scenario.decide()
    assert sorted(each.gang.removeprefix("gang-") for each in decided.result.evictions) == gone
    assert decided.placed() == starts
