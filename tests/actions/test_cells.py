"""Cells: whole domains that are guaranteed to queues and stay free for them."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from phalanx.framework.config import SchedulerConfig
from phalanx.model.names import QueueName
from phalanx.model.queues import Cell
from phalanx.model.reasons import Reason

from tests.actions.test_consolidate import config, rested
from tests.builders import Scenario
from tests.examples import holds

RACK = (Cell("rack", 1),)


def racks(count: int, *, nodes: int = 2) -> Scenario:
    """Racks a, b, c… of nodes with 8 GPUs; each node is also a domain of the level `host`."""
    scenario = Scenario("rack", "host")
    for rack in "abcdef"[:count]:
        for index in range(nodes):
            scenario.nodes(f"{rack}{index}", 1, gpu=8, within=f"{rack}/{rack}{index}")
    return scenario.queue("default")


def used(scenario: Scenario, gang: str, config: SchedulerConfig | None = None) -> set[str]:
    """The racks in which one cycle places a gang."""
    return {node[0] for node in scenario.decide(config).nodes(gang)}


def test_other_queues_do_not_use_a_free_cell() -> None:
    scenario = racks(2).queue("research", cells=RACK)
    scenario.gang("one", 2, gpu=8).gang("two", 1, gpu=1)
    decided = scenario.decide()
    assert decided.placed() == ["one"]
    verdict = decided.verdict("two")
    assert verdict.reason is Reason.CELLS_RESERVED
    assert "cells reserved for queue research: rack a" in verdict.message
    assert "is reserved for queue research" in str(verdict.evidence)


def test_a_queue_uses_its_cells_and_other_free_capacity() -> None:
    scenario = racks(2).queue("research", cells=RACK)
    scenario.gang("own", 4, gpu=8, queue="research")
    assert scenario.decide().placed() == ["own"]


def test_child_queues_use_the_cells_of_their_parent() -> None:
    scenario = racks(1).queue("research", cells=RACK).queue("team", parent="research")
    assert scenario.gang("own", 2, gpu=8, queue="team").decide().placed() == ["own"]


def test_the_free_part_of_a_used_cell_is_reserved_too() -> None:
    scenario = racks(2).queue("research", cells=RACK)
    scenario.gang("own", 1, gpu=1, on=["b0-0"], queue="research").gang("one", 2, gpu=8).gang("two", 1, gpu=1)
    decided = scenario.decide()
    assert {node[0] for node in decided.nodes("one")} == {"a"}
    assert decided.reasons() == {"two": Reason.CELLS_RESERVED}


def test_running_pods_are_not_evicted_and_unmet_cells_are_reported() -> None:
    scenario = racks(2).queue("research", cells=(Cell("rack", 2), Cell("tor", 1)))
    scenario.gang("other", 1, gpu=1, on=["a0-0"]).gang("more", 1, gpu=1).gang("no", 4, gpu=8)
    decided = scenario.decide()
    assert not decided.evicted()
    assert {node[0] for node in decided.nodes("more")} == {"a"}
    unmet_guarantees = [problem.message for problem in decided.result.queues["research"].unmet_guarantees]
    assert unmet_guarantees == [
        "spec.cells[tor]: the default topology has no level tor",
        "spec.cells[rack]: 1 of 2 is reserved; others use or reserve the rest",
    ]


def test_small_cells_are_reserved_in_racks_that_are_in_use() -> None:
    """One queue needs a rack, another one a host: the host must not be reserved in the free rack."""
    scenario = racks(2).queue("a", cells=(Cell("host", 1),)).queue("z", cells=RACK)
    scenario.gang("other", 1, gpu=8, on=["a0-0"]).gang("late", 1, gpu=1)
    decided = scenario.decide()
    assert decided.reasons() == {"late": Reason.CELLS_RESERVED}
    assert not any(report.unmet_guarantees for report in decided.result.queues.values())
    scenario.gang("small", 1, gpu=8, queue="a").gang("large", 2, gpu=8, queue="z", required="rack")
    assert sorted(scenario.decide().placed()) == ["large", "small"]


def test_no_gang_is_evicted_to_place_a_gang_of_another_queue_in_a_cell() -> None:
    scenario = racks(1).queue("research", cells=RACK)
    scenario.gang("own", 2, gpu=8, on=["a0-0", "a1-0"], queue="research")
    assert not scenario.gang("high", 1, gpu=8, priority=9).decide().evicted()


def test_consolidation_moves_no_gang_into_a_cell() -> None:
    scenario = racks(2, nodes=1).queue("research", cells=RACK).gang("half", 1, gpu=4, on=["a0-0"])
    rested(scenario.gang("large", 1, gpu=8))
    assert not scenario.decide(config()).evicted()
    assert scenario.queue("research").decide(config()).placed() == ["large"]


def test_refused_gangs_are_tried_again_when_cells_change() -> None:
    scenario = racks(1).queue("research", cells=RACK).gang("one", 1, gpu=1)
    scenario.memory = scenario.decide().result.memory
    assert scenario.decide().reasons() == {"one": Reason.CELLS_RESERVED}
    assert scenario.queue("research").decide().placed() == ["one"]


# --- against brute force ------------------------------------------------------------------------------------


def _reservable(scenario: Scenario, cells: dict[str, dict[str, int]]) -> int:
    """The most disjoint cells that can be reserved now, in domains without pods of other queues."""
    used_by: dict[str, set[str]] = {}
    for name, gang in scenario._gangs.items():
        for pod in scenario.members(name):
            if pod.node is not None:
                used_by.setdefault(pod.node.removesuffix("-0"), set()).add(gang.queue)
    hosts = [node.removesuffix("-0") for node in scenario._nodes]
    domains = {"host": [{host} for host in hosts], "rack": [{h for h in hosts if h[0] == r} for r in "abc"]}
    requested = [(queue, level, n) for queue, levels in cells.items() for level, n in levels.items()]

    def most(index: int, taken: frozenset[str]) -> int:
        if index == len(requested):
            return 0
        queue, level, count = requested[index]
        fit = [
            domain
            for domain in domains[level]
            if domain and all(used_by.get(host, {queue}) == {queue} for host in domain)
        ]
        best = 0
        for number in range(count + 1):
            for some in combinations(fit, number):
                nodes = [host for domain in some for host in domain]
                if len(nodes) == len({*nodes}) and taken.isdisjoint(nodes):
                    best = max(best, number + most(index + 1, taken.union(nodes)))
        return best

    return most(0, frozenset())


@st.composite
def busy(draw: st.DrawFn) -> tuple[Scenario, dict[str, dict[str, int]]]:
    """Up to three racks of two hosts, two queues with cells, gangs that run and gangs that wait."""
    count = draw(st.integers(1, 3))
    scenario = racks(count)
    cells = {
        queue: draw(st.dictionaries(st.sampled_from(["rack", "host"]), st.integers(1, 2))) for queue in "xy"
    }
    for queue, levels in cells.items():
        scenario.queue(queue, cells=tuple(Cell(level, number) for level, number in levels.items()))
    queues = st.sampled_from(["x", "y", "default"])
    hosts = [f"{rack}{index}-0" for rack in "abc"[:count] for index in range(2)]
    for index, host in enumerate(draw(st.lists(st.sampled_from(hosts), max_size=3, unique=True))):
        scenario.gang(f"run-{index}", 1, gpu=4, on=[host], queue=draw(queues))
    for index in range(draw(st.integers(1, 4))):
        size, gpu = draw(st.integers(1, 3)), draw(st.sampled_from([2, 4, 8]))
        required = draw(st.sampled_from([None, "rack"]))
        scenario.gang(f"wait-{index}", size, gpu=gpu, queue=draw(queues), required=required)
    return scenario, cells


@given(busy())
@holds(40)
def test_a_cycle_does_not_reduce_the_number_of_reservable_cells(
    case: tuple[Scenario, dict[str, dict[str, int]]],
) -> None:
    scenario, cells = case
    before = _reservable(scenario, cells)
    decided = scenario.decide(SchedulerConfig())
    reported = sum(len(levels) and sum(levels.values()) for levels in cells.values())
    lacking = sum(
        int(problem.message.split()[3]) - int(problem.message.split()[1])
        for queue in cells
        for problem in decided.result.queues[QueueName(queue)].unmet_guarantees
    )
    assert reported - lacking == before
    assert _reservable(scenario.take(decided), cells) >= before
