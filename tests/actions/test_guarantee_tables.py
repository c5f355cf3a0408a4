"""Each row of the tables of docs/guarantees.md, decided. A row that is added or changed needs a test here."""

from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.api.pod_groups import Disruption
from phalanx.model.names import QueueName
from phalanx.model.queues import Flavor
from phalanx.model.reasons import Reason
from phalanx.model.resources import CPU, GPU

from tests.actions.guarantees_cases import begin
from tests.builders import Scenario

PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"

Amounts = tuple[int, int]
"""GPUs and cores."""


def rows(heading: str) -> list[str]:
    """The rows of the table under this first cell of its heading."""
    lines = PAGE.read_text().splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith(f"| {heading} |")) + 2
    return list(takewhile(lambda line: line.startswith("|"), lines[first:]))


def guarantee(amounts: Amounts) -> dict[str, int]:
    """A guarantee of a Queue that names what is not 0."""
    gpus, cores = amounts
    return {name: amount for name, amount in ((GPU, gpus), (CPU, cores * 1000)) if amount}


def two_queues(has: Amounts, a: dict[str, Any], b: dict[str, Any]) -> Scenario:
    """One node; queues a and b."""
    scenario = Scenario().queue("a", **a).queue("b", **b)
    return scenario.nodes("n", 1, gpu=has[0], cpu=has[1])


def run(scenario: Scenario, name: str, each: Amounts, queue: str = "a", **fields: Any) -> None:
    """Add a gang of one pod that runs on the first node; each starts a minute after the one before."""
    scenario.gang(name, 1, gpu=each[0], cpu=each[1], memory=0, queue=queue, on=["n-0"], **fields)
    begin(scenario)
    scenario.now += 60_000


def ask(scenario: Scenario, each: Amounts, queue: str = "b", **fields: Any) -> list[str]:
    """Add a gang that waits, and return the gangs that are evicted for it."""
    scenario.gang("asks", 1, gpu=each[0], cpu=each[1], memory=0, queue=queue, **fields)
    return sorted({each.gang.removeprefix("gang-") for each in scenario.decide().result.evictions})


class Row(Struct, frozen=True):
    """What a row says, in GPUs and cores: capacity, queue a and its gangs, queue b and what it asks for."""

    text: str
    has: Amounts
    of_a: Amounts
    runs: tuple[Amounts, ...]
    of_b: Amounts
    asks: Amounts
    gone: tuple[str, ...]


TWO = "two gangs of 1 GPU and 1 core"
LARGE = "a gang of 1 GPU and 15 cores, cores are short"
BY_GUARANTEE = (
    Row(
        "1 GPU|a gang of 2 GPUs|1 GPU|1 GPU, of a node of 2",
        (2, 8),
        (1, 0),
        ((2, 0),),
        (1, 0),
        (1, 0),
        ("a0",),
    ),
    Row("1 GPU|two gangs of 1 GPU|1 GPU|1 GPU", (2, 8), (1, 0), ((1, 0), (1, 0)), (1, 0), (1, 0), ("a1",)),
    Row(
        "4 GPUs|gangs of 3, 3 and 1 GPUs|4 GPUs|3 GPUs, of 8",
        (8, 8),
        (4, 0),
        ((3, 0), (3, 0), (1, 0)),
        (4, 0),
        (3, 0),
        ("a1",),
    ),
    Row(
        f"1 GPU, 4 cores|{TWO}|1 GPU, 4 cores|1 GPU, 1 core, of 2 GPUs and 16 cores",
        (2, 16),
        (1, 4),
        ((1, 1), (1, 1)),
        (1, 4),
        (1, 1),
        ("a1",),
    ),
    Row(
        "1 GPU, 4 cores|a gang of 1 GPU and 8 cores, GPUs are short, cores are not|nothing|1 GPU",
        (1, 16),
        (1, 4),
        ((1, 8),),
        (0, 0),
        (1, 0),
        (),
    ),
    Row(
        f"1 GPU, 4 cores|{LARGE}|1 GPU, 4 cores|1 GPU, 4 cores, of 16 cores",
        (2, 16),
        (1, 4),
        ((1, 15),),
        (1, 4),
        (1, 4),
        ("a0",),
    ),
    Row(f"1 GPU|{LARGE}|1 GPU|1 GPU, 4 cores", (2, 16), (1, 0), ((1, 15),), (1, 0), (1, 4), ()),
    Row(
        "nothing|a gang of 15 cores|1 GPU|1 GPU, 4 cores, of 16 cores",
        (1, 16),
        (0, 0),
        ((0, 15),),
        (1, 0),
        (1, 4),
        ("a0",),
    ),
)


def cells(row: str) -> str:
    """The cells of a row but the outcome, without spaces around them."""
    return "|".join(cell.strip() for cell in row.strip("|").split("|")[:-1])


def test_the_table_of_guarantees_is_tested() -> None:
    assert [cells(row) for row in rows("side A has")] == [row.text for row in BY_GUARANTEE]


@pytest.mark.parametrize("row", BY_GUARANTEE, ids=lambda row: row.text)
def test_evictions_by_a_guarantee(row: Row) -> None:
    scenario = two_queues(row.has, {"guarantee": guarantee(row.of_a)}, {"guarantee": guarantee(row.of_b)})
    for index, each in enumerate(row.runs):
        run(scenario, f"a{index}", each)
    assert tuple(ask(scenario, row.asks)) == row.gone


BY_SHARE: dict[str, tuple[tuple[int, int], list[int], int, int]] = {
    "2 and 2|four gangs of 1|1": ((1, 1), [1, 1, 1, 1], 1, 1),
    "2 and 2|a gang of 4|2": ((1, 1), [4], 2, 1),
    "2 and 2|four gangs of 1|3": ((1, 1), [1, 1, 1, 1], 3, 0),
    "1.01 and 2.99|four gangs of 1|3": ((101, 299), [1, 1, 1, 1], 3, 3),
    "2 and 2|gangs of 2 and 2|3": ((1, 1), [2, 2], 3, 0),
}


def test_the_table_of_fair_shares_is_tested() -> None:
    found = rows("fair shares of A and B, of 4 GPUs")
    assert [cells(row) for row in found] == list(BY_SHARE)


@pytest.mark.parametrize("row", BY_SHARE)
def test_evictions_by_a_fair_share(row: str) -> None:
    """Other gangs of b wait too, so that its demand is above its share."""
    weights, runs, asks, gone = BY_SHARE[row]
    scenario = two_queues((4, 8), {"weight": weights[0]}, {"weight": weights[1]})
    for index, gpus in enumerate(runs):
        run(scenario, f"a{index}", (gpus, 0))
    for index in range(2):
        scenario.gang(f"b{index}", 1, gpu=3, cpu=0, memory=0, queue="b", preemption_policy="Never")
    assert len(ask(scenario, (asks, 0), priority=1)) == gone


def test_the_queue_that_lost_a_gang_by_its_fair_share_does_not_evict_in_turn() -> None:
    """Shares of 1.01 and 2.99, gangs of 1 GPU: 1 and 3 GPUs do not change any more."""
    scenario = two_queues((4, 8), {"weight": 101}, {"weight": 299})
    for index in range(4):
        run(scenario, f"a{index}", (1, 0))
        scenario.gang(f"b{index}", 1, gpu=1, cpu=0, memory=0, queue="b")
    gone = []
    for _ in range(12):
        decided = scenario.decide()
        gone += [each.gang for each in decided.result.evictions]
        scenario.take(decided)
        scenario.now += 60_000
    assert len(gone) == 3
    assert len(set(gone)) == 3


class Within(Struct, frozen=True):
    """A row about queue a: its gangs and those that wait, in GPUs; the gangs that start and those evicted."""

    text: str
    runs: tuple[int, ...]
    waits: tuple[tuple[int, int], ...]
    """Pods of one GPU, and the priority."""
    others: int
    """GPUs that queue b asks for."""
    on_first: str
    """Queues whose gangs may run on the first node only."""
    starts: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()


WITHIN = (
    Within(
        "| 2 and 2 | A: a gang of 2 of priority 0; 2 GPUs are free | A: 4 of priority 9; B: 2, but only "
        "on the node of the first gang | nothing: with 4 GPUs A would be above its share, and B would "
        "evict the gang of 4 |",
        runs=(2,),
        waits=((4, 9),),
        others=2,
        on_first="b",
    ),
    Within(
        "| 2 and 2 | A: four gangs of 1 of priority 0 | A: 4 of priority 9; B: 2 | the gang of 4 evicts "
        "the four gangs, if B has not evicted two before |",
        runs=(1, 1, 1, 1),
        waits=((4, 9),),
        others=0,
        on_first="",
        evicted=("r0", "r1", "r2", "r3"),
    ),
    Within(
        "| 2 and 2 | A: a gang of 2 of priority 0; 2 GPUs are free | A: 4 of priority 9, and 2 of "
        "priority 0; B: 2, but only on the node of the first gang | the second gang of 2 starts. It is "
        "not given up together with an eviction: without it, this is the first row |",
        runs=(2,),
        waits=((4, 9), (2, 0)),
        others=2,
        on_first="b",
        starts=("w1",),
    ),
    Within(
        "| 2 and 2 | A: a gang of 1 of priority 0 on a node of 2 | on that node only: A: 2 of priority "
        "9, and 1 of priority 0; B: 2 | the gang of 1 that runs is evicted, and the start of the other "
        "one is given up: without it, the gang takes 1 beyond its share |",
        runs=(1,),
        waits=((2, 9), (1, 0)),
        others=2,
        on_first="ab",
        evicted=("r0",),
    ),
    Within(
        "| 4 and 0 | A: a gang of 2 of priority 0; 2 GPUs are free | A: 4 of priority 9 | evicted: no "
        "other queue lacks anything |",
        runs=(2,),
        waits=((4, 9),),
        others=0,
        on_first="",
        evicted=("r0",),
    ),
)


def test_the_table_of_priorities_within_a_queue_is_tested() -> None:
    assert rows("fair shares of A and B, of 4 GPUs | runs") == [row.text for row in WITHIN]


@pytest.mark.parametrize("row", WITHIN, ids=[row.text for row in WITHIN])
def test_evictions_by_priority(row: Within) -> None:
    scenario = Scenario().nodes("n0", gpu=2).nodes("n1", gpu=2).queue("a").queue("b")
    first = {"group": "n0"}
    for index, gpus in enumerate(row.runs):
        on = [f"n{index // 2}-0"] * gpus
        scenario.gang(f"r{index}", gpus, gpu=1, cpu=0, memory=0, queue="a", on=on)
    begin(scenario)
    for index, (pods, priority) in enumerate(row.waits):
        selector = first if "a" in row.on_first else {}
        scenario.gang(
            f"w{index}", pods, gpu=1, cpu=0, memory=0, queue="a", priority=priority, selector=selector
        )
    if row.others:
        selector = first if "b" in row.on_first else {}
        scenario.gang("other", 1, gpu=row.others, cpu=0, memory=0, queue="b", selector=selector)
    decided = scenario.decide()
    evicted = {each.gang.removeprefix("gang-") for each in decided.result.evictions}
    assert (decided.placed(), sorted(evicted)) == ([*row.starts], [*row.evicted])


SURPLUS = (
    "| the minimum of a gang | gangs of lower priority | as above | as above |",
    "| a surplus member | surplus members of gangs of lower priority | as above | nothing |",
)


def test_the_table_of_surplus_members_is_tested() -> None:
    assert rows("waits") == list(SURPLUS)


def elastic(scenario: Scenario, queue: str, priority: int, *, runs: int) -> None:
    """A gang of at least one of four pods of 1 GPU, some of which run."""
    scenario.gang("asks", 4, min=1, gpu=1, cpu=0, memory=0, queue=queue, priority=priority, on=["n-0"] * runs)
    begin(scenario)


def evicted_pods(scenario: Scenario) -> list[str]:
    """Names of the pods that are evicted, sorted."""
    return sorted(scenario.decide().evicted())


@pytest.mark.parametrize(("runs", "gone"), [(0, ["low-1"]), (1, ["low-1"])])
def test_surplus_of_a_lower_priority_in_the_own_queue(runs: int, gone: list[str]) -> None:
    """One surplus member is enough in both cases, and it goes first."""
    scenario = two_queues((2 + runs, 8), {}, {})
    scenario.gang("low", 2, min=1, gpu=1, cpu=0, memory=0, queue="a", on=["n-0"] * 2)
    begin(scenario)
    elastic(scenario, "a", 5, runs=runs)
    assert evicted_pods(scenario)[:1] == gone


def test_the_minimum_of_a_gang_evicts_the_minimum_of_a_lower_priority() -> None:
    scenario = two_queues((1, 8), {}, {})
    run(scenario, "low", (1, 0))
    elastic(scenario, "a", 5, runs=0)
    assert evicted_pods(scenario) == ["low-0"]


def test_no_minimum_is_evicted_for_a_surplus_member_of_the_same_queue() -> None:
    scenario = two_queues((2, 8), {}, {})
    run(scenario, "low", (1, 0))
    elastic(scenario, "a", 5, runs=1)
    assert evicted_pods(scenario) == []


@pytest.mark.parametrize("runs", [0, 1])
def test_the_minimum_and_surplus_evict_other_queues_by_coverage(runs: int) -> None:
    scenario = two_queues((2, 8), {}, {"guarantee": {GPU: 2}})
    for index in range(2 - runs):
        run(scenario, f"a{index}", (1, 0))
    elastic(scenario, "b", 0, runs=runs)
    assert len(evicted_pods(scenario)) == 1


@pytest.mark.parametrize(("runs", "gone"), [(0, 1), (1, 0)])
def test_only_the_minimum_evicts_other_queues_by_fair_share(runs: int, gone: int) -> None:
    """b uses less than its share of 2 or 3 GPUs in both cases."""
    scenario = two_queues((4 + runs, 8), {}, {})
    for index in range(4):
        run(scenario, f"a{index}", (1, 0))
    scenario.gang("b0", 2, gpu=1, cpu=0, memory=0, queue="b", preemption_policy="Never")
    elastic(scenario, "b", 5, runs=runs)
    assert len(evicted_pods(scenario)) == gone


# --- guarantees that do not fit, and preemptible: false ---------------------------------------------------

KEEPS = Disruption(preemptible=False)


@pytest.mark.parametrize(
    ("gpus", "guarantees", "scaled"),
    [
        (1, (1, 1), (1, 0)),
        (2, (2, 2), (1, 1)),
        (4, (2, 2, 2), (2, 1, 1)),
        (4, (3, 3, 6), (1, 1, 2)),
        (7, (8, 1, 1), (5, 1, 1)),
    ],
)
def test_guarantees_are_scaled_to_whole_units(
    gpus: int, guarantees: tuple[int, ...], scaled: tuple[int, ...]
) -> None:
    scenario = Scenario().nodes("n", 1, gpu=gpus)
    for name, amount in zip("abc", guarantees, strict=False):
        scenario.queue(name, guarantee={GPU: amount})
    reports = scenario.decide().result.queues
    assert (
        tuple(reports[QueueName(name)].guarantee.get(GPU, 0) for name in "abc"[: len(guarantees)]) == scaled
    )


@pytest.mark.parametrize(("gpus", "size"), [(1, 1), (2, 2), (2, 1)])
def test_some_gang_that_is_not_preemptible_starts_on_an_empty_cluster(gpus: int, size: int) -> None:
    scenario = two_queues((gpus, 8), {"guarantee": {GPU: gpus}}, {"guarantee": {GPU: gpus}})
    for name in "ab":
        scenario.gang(name, 1, gpu=size, cpu=0, memory=0, queue=name, disruption=KEEPS)
    assert len(scenario.decide().placed()) == gpus // size


def test_such_a_gang_starts_below_a_parent_whose_guarantee_is_scaled() -> None:
    """The guarantees of p and q are scaled to 3 and 1 of 4 GPUs; nobody uses what q may have beyond that."""
    scenario = Scenario().nodes("n", 1, gpu=4).queue("p").queue("q", guarantee={GPU: 3})
    scenario.queue("b", parent="p", guarantee={GPU: 5}).queue("c", parent="q", guarantee={GPU: 2})
    scenario.gang("c0", 1, gpu=2, cpu=0, memory=0, queue="c", disruption=KEEPS)
    assert scenario.decide().placed() == ["c0"]


def test_queues_in_a_circle_bound_such_gangs_too() -> None:
    scenario = Scenario().nodes("n", 1, gpu=4).queue("x", parent="y").queue("y", parent="x")
    scenario.queue("c", parent="x", guarantee={GPU: 5}).queue("d", parent="y", guarantee={GPU: 1})
    scenario.gang("c0", 1, gpu=1, cpu=0, memory=0, queue="c", disruption=KEEPS)
    assert scenario.decide().placed() == ["c0"]


def test_such_gangs_of_siblings_share_what_their_parent_may_use() -> None:
    scenario = Scenario().nodes("n", 1, gpu=4).queue("p", guarantee={GPU: 4}).queue("q", guarantee={GPU: 3})
    for name in "cd":
        scenario.queue(name, parent="q", guarantee={GPU: 2})
        scenario.gang(name, 1, gpu=2, cpu=0, memory=0, queue=name, disruption=KEEPS)
    assert len(scenario.decide().placed()) == 1


def test_a_written_guarantee_of_nothing_holds_back_what_is_not_preemptible() -> None:
    scenario = two_queues((2, 8), {"guarantee": {GPU: 0}}, {})
    decided = scenario.gang("a", 1, gpu=1, cpu=0, memory=0, queue="a", disruption=KEEPS).decide()
    assert decided.placed() == []
    assert decided.reasons()["a"] in (Reason.QUEUE_LIMIT, Reason.ABOVE_QUEUE_LIMIT)


def test_a_gang_that_is_not_preemptible_takes_the_guarantee_first() -> None:
    """The older gang of a would be covered otherwise, and a would hold twice its guarantee for ever."""
    scenario = two_queues((8, 8), {"guarantee": {GPU: 4}}, {"guarantee": {GPU: 4}})
    run(scenario, "old", (4, 0))
    run(scenario, "keeps", (4, 0), disruption=KEEPS)
    assert ask(scenario, (4, 0)) == ["old"]


NAMED: dict[str, tuple[dict[str, int], int, int, str]] = {
    "names nothing|4|names nothing|4|1": ({"a": 4}, 4, 1, "b"),
    "names nothing|1|3|4|1": ({"a": 1, "b": 3}, 4, 1, "a"),
    "names nothing|3|1|3|4, preemptible when it started": ({"a": 3, "b": 1}, 3, 4, "b"),
    "4|names nothing|names nothing|4|1": ({"p": 4}, 4, 1, "a"),
    "4|4|names nothing|4|1": ({"p": 4, "a": 4}, 4, 1, "a"),
}
"""Guarantees, what a and b run, and whose gang is evicted."""


def test_the_table_of_named_guarantees_is_tested() -> None:
    assert [cells(row) for row in rows("p")] == list(NAMED)


@pytest.mark.parametrize("row", NAMED)
@pytest.mark.parametrize("priority", [0, 9])
def test_preemptible_false_takes_no_guarantee_of_siblings(row: str, priority: int) -> None:
    guarantees, of_a, of_b, gone = NAMED[row]
    scenario = Scenario().nodes("n", 1, gpu=8).queue("q", guarantee={GPU: 4})
    for name, parent in (("p", None), ("a", "p"), ("b", "p")):
        named = {GPU: guarantees[name]} if name in guarantees else {}
        scenario.queue(name, parent=parent, guarantee=named)
    run(scenario, "a", (of_a, 0), "a")
    run(scenario, "b", (of_b, 0), "b", disruption=KEEPS, priority=priority)
    assert ask(scenario, (4, 0), "q") == [gone]


CAPACITY, LIMIT = Reason.INSUFFICIENT_CAPACITY, Reason.QUEUE_LIMIT
AS_WRITTEN: dict[str, tuple[dict[str, int], dict[str, int], Reason | None]] = {
    "names nothing|names nothing|b: 1": ({}, {"b": 1}, None),
    "names nothing|names nothing|b: 1, c: 3": ({}, {"b": 1, "c": 3}, None),
    "1|names nothing|b: 1, c: 3": ({"b": 1}, {"b": 1, "c": 3}, None),
    "names nothing|names nothing|c: 5": ({}, {"c": 5}, CAPACITY),
    "names nothing|4|b: 1": ({"p": 4}, {"b": 1}, LIMIT),
    "names nothing|names nothing|a: 1": ({}, {"a": 1}, LIMIT),
}
"""Guarantees of b and p, what runs, and why the gang waits; None: it starts."""


def test_the_table_of_written_guarantees_is_tested() -> None:
    assert [cells(row) for row in rows("b")] == list(AS_WRITTEN)


@pytest.mark.parametrize("row", AS_WRITTEN)
@pytest.mark.parametrize("has_flavor", [False, True], ids=["all nodes", "flavor"])
def test_guarantees_hold_back_as_they_are_written(row: str, has_flavor: bool) -> None:
    guarantees, runs, reason = AS_WRITTEN[row]
    scenario = Scenario().nodes("n", 1, gpu=8)
    for name, parent in (("p", None), ("a", "p"), ("b", "p"), ("c", None)):
        amounts = {"a": 4, "c": 6, **guarantees}
        named = {GPU: amounts[name]} if name in amounts else {}
        flavors = [Flavor("n", (("group", "n"),), guarantee=named)] if has_flavor else []
        scenario.queue(name, parent=parent, guarantee={} if has_flavor else named, flavors=flavors)
    for name, amount in runs.items():
        run(scenario, f"{name}0", (amount, 0), name, disruption=KEEPS)
    scenario.gang("asks", 1, gpu=4, cpu=0, memory=0, queue="a", disruption=KEEPS)
    decided = scenario.decide()
    assert decided.placed() == ([] if reason else ["asks"])
    assert decided.reasons() == ({"asks": reason} if reason else {})


Waits = tuple[Amounts, ...]
SHORT: dict[str, tuple[dict[str, int], Amounts, Waits, Amounts, bool]] = {
    "none|4 GPUs and 8 cores|4 GPUs and 8 cores|8 cores": ({}, (4, 8), ((4, 8),), (0, 8), True),
    "4 GPUs|4 GPUs and 8 cores|4 GPUs and 8 cores|8 cores": ({GPU: 4}, (4, 8), ((4, 8),), (0, 8), False),
    "4 GPUs|4 GPUs and 16 cores|nothing|4 cores": ({GPU: 4}, (4, 16), (), (0, 4), True),
    "4 GPUs|4 GPUs and 16 cores|twice 4 GPUs and 1 core|4 cores": (
        {GPU: 4},
        (4, 16),
        ((4, 1), (4, 1)),
        (0, 4),
        True,
    ),
    "4 GPUs|16 cores|4 GPUs and 4 cores|1 core": ({GPU: 4}, (0, 16), ((4, 4),), (0, 1), True),
    "8 cores, on its parent|4 GPUs and 8 cores|4 GPUs and 8 cores|8 cores": (
        {CPU: 8000},
        (4, 8),
        ((4, 8),),
        (0, 8),
        False,
    ),
}


def test_the_table_of_short_resources_is_tested() -> None:
    assert [cells(row) for row in rows("limit of A")] == list(SHORT)


@pytest.mark.parametrize(("cores", "common"), [(16, {}), (64, {CPU: 16_000})], ids=["cluster", "limit"])
@pytest.mark.parametrize("row", SHORT)
def test_short_resources(row: str, cores: int, common: dict[str, int]) -> None:
    limit, holds, waits, asks, is_short = SHORT[row]
    of_parent, of_a = (limit, {}) if "parent" in row else ({}, limit)
    scenario = Scenario().nodes("n", 1, gpu=8, cpu=cores).queue("common", limit=common)
    scenario.queue("p", parent="common", limit=of_parent).queue("a", parent="p", limit=of_a)
    scenario.queue("b", parent="common")
    run(scenario, "a", holds)
    for index, (gpus, cores) in enumerate(waits):
        scenario.gang(f"a{index}", 1, gpu=gpus, cpu=cores, memory=0, queue="a")
    scenario.gang("b", 1, gpu=asks[0], cpu=asks[1], memory=0, queue="b")
    session = Session(scenario.snapshot(), SchedulerConfig())
    assert session.fair_shares.is_scarce(CPU, QueueName("common")) == is_short


def test_gangs_that_wait_do_not_hide_what_their_queue_holds() -> None:
    """The guarantee covers GPUs of a, but not more than 2 cores for each, and b has a right to 4."""
    scenario = two_queues((8, 16), {"guarantee": {GPU: 4}, "limit": {GPU: 4}}, {"guarantee": {CPU: 4000}})
    run(scenario, "a", (4, 16))
    for index in range(2):
        scenario.gang(f"waits{index}", 1, gpu=4, cpu=1, memory=0, queue="a")
    assert ask(scenario, (0, 4)) == ["a"]
