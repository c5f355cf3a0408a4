"""Evictions and moves together, for a gang inside a guarantee that evictions alone do not serve."""

from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from phalanx.framework.config import ConsolidationConfig, SchedulerConfig
from phalanx.model.reasons import Reason
from phalanx.model.resources import GPU

from tests.actions.test_consolidate import recreated, rested
from tests.builders import Decided, Scenario
from tests.examples import holds

OFF = SchedulerConfig(consolidation=ConsolidationConfig(for_guarantees=False))


def fragmented(guarantee: int = 4, *, minutes: int = 120) -> Scenario:
    """Queue a runs 2 on one node, 2 and 1 on another; one pod of queue b needs a node of 4 GPUs."""
    scenario = Scenario().nodes("n", 2, gpu=4)
    scenario.queue("a", guarantee={GPU: 4}).queue("b", guarantee={GPU: guarantee})
    scenario.gang("x", 1, gpu=2, queue="a", on=["n-0"]).gang("y", 1, gpu=2, queue="a", on=["n-1"])
    scenario.gang("z", 1, gpu=1, queue="a", on=["n-1"])
    return rested(scenario.gang("claim", 1, gpu=4, queue="b"), minutes=minutes)


def reasons(decided: Decided) -> dict[str, str]:
    return {each.name: each.reason for each in decided.result.evictions}


def test_a_gang_is_evicted_and_another_is_moved() -> None:
    decided = fragmented().decide()
    found = reasons(decided)
    assert found.pop("z-0") == "Preempted"
    assert list(found.values()) == ["Consolidated"]
    assert found.keys() < {"x-0", "y-0"}
    verdict = decided.verdict("claim")
    assert verdict.reason is Reason.EVICTION_IN_PROGRESS
    assert verdict.message == "1 pod of 1 gang to be moved and 1 pod to be evicted must terminate first"
    assert [each.name for each in decided.result.nominations] == ["claim-0"]


def test_the_moved_gang_and_the_claim_start_and_the_evicted_gang_waits() -> None:
    scenario = fragmented()
    decided = scenario.decide()
    (moved,) = [name.removesuffix("-0") for name, why in reasons(decided).items() if why == "Consolidated"]
    middle = scenario.terminate(decided).decide()
    assert not middle.evicted()
    assert not middle.placed()
    last = recreated(scenario).decide()
    assert sorted(last.placed()) == sorted(["claim", moved])
    assert not last.evicted()
    assert not last.result.memory.moves
    assert not scenario.take(last).decide().evicted()


@pytest.mark.parametrize("late", ["a", "b"])
def test_others_do_not_use_what_is_freed(late: str) -> None:
    """Also while some pods have ended and others have not."""
    scenario = fragmented()
    decided = scenario.decide()
    scenario.terminate(decided).gang("late", 1, gpu=1, queue=late)
    assert not scenario.decide().placed()
    (victim,) = [name.removesuffix("-0") for name, why in reasons(decided).items() if why == "Preempted"]
    scenario.remove(victim)
    assert not scenario.decide().placed()


def test_nothing_moves_for_a_claim_beyond_the_guarantee_or_with_the_switch_off() -> None:
    assert not fragmented(guarantee=3).decide().evicted()
    assert not fragmented().decide(OFF).evicted()
    assert not fragmented(minutes=30).decide().evicted()


def test_a_borrowed_gang_is_evicted_although_its_queue_then_has_less_than_its_guarantee() -> None:
    """The guarantee covers x and y; z does not fit in what is left of it. Another borrower is preferred."""
    scenario = Scenario().nodes("n", 2, gpu=4)
    scenario.queue("a", guarantee={GPU: 4}).queue("b", guarantee={GPU: 4})
    scenario.gang("x", 1, gpu=1, queue="a", on=["n-0"]).gang("y", 1, gpu=2, queue="a", on=["n-1"])
    scenario.gang("z", 1, gpu=2, queue="a", on=["n-0"])
    rested(scenario.gang("claim", 1, gpu=4, queue="b"))
    found = reasons(scenario.decide())
    assert found.pop("z-0") == "Preempted"
    assert list(found.values()) == ["Consolidated"]
    scenario.nodes("m", gpu=2).queue("c").gang("other", 1, gpu=2, queue="c", on=["m-0"])
    assert reasons(rested(scenario).decide()) == {"other-0": "Preempted", "y-0": "Consolidated"}


def test_a_plan_is_only_reported_in_a_dry_run() -> None:
    dry = SchedulerConfig(consolidation=ConsolidationConfig(dry_run=True))
    decided = fragmented().decide(dry)
    assert not decided.evicted()
    assert len(decided.result.plans) == 1


class Case(Struct, frozen=True):
    """Gangs of one pod by node and GPUs: those that a guarantee covers, and those that have borrowed."""

    nodes: int
    covered: tuple[tuple[int, int], ...]
    borrowed: tuple[tuple[int, int], ...]
    pods: int
    gpus: int

    def scenario(self) -> Scenario:
        """For the product."""
        scenario = Scenario().nodes("n", self.nodes, gpu=4)
        scenario.queue("kept", guarantee={GPU: sum(gpus for _, gpus in self.covered)})
        scenario.queue("lent").queue("mine", guarantee={GPU: self.pods * self.gpus})
        for queue, gangs in (("kept", self.covered), ("lent", self.borrowed)):
            for number, (node, gpus) in enumerate(gangs):
                scenario.gang(f"{queue}{number}", 1, gpu=gpus, queue=queue, on=[f"n-{node}"])
        return rested(scenario.gang("claim", self.pods, gpu=self.gpus, queue="mine"))

    def fits(self, staying: Sequence[tuple[int, int]], moving: Sequence[int]) -> bool:
        """Whether the claim fits beside those that stay and those that move anywhere."""
        free = [4] * self.nodes
        for node, gpus in staying:
            free[node] -= gpus
        return _fit([*moving, *[self.gpus] * self.pods], free)

    def sets(self) -> Iterator[tuple[int, ...]]:
        """The sets of borrowers whose eviction makes moves of others sufficient, if any are needed."""
        for count in range(len(self.borrowed) + 1):
            for gone in combinations(range(len(self.borrowed)), count):
                left = [each for number, each in enumerate(self.borrowed) if number not in gone]
                if self.fits([], [gpus for _, gpus in (*self.covered, *left)]):
                    yield gone

    def loss(self, gone: Sequence[int]) -> tuple[int, int, int]:
        """Device-minutes, devices and gangs; all have run for the same time."""
        devices = sum(self.borrowed[number][1] for number in gone)
        return devices, devices, len(gone)

    @property
    def is_enough_evicted(self) -> bool:
        """Whether evictions alone are enough."""
        return self.fits(self.covered, [])


def _fit(pods: Sequence[int], free: list[int]) -> bool:
    if not pods:
        return True
    for node, left in enumerate(free):
        if left >= pods[0] and _fit(pods[1:], [*free[:node], left - pods[0], *free[node + 1 :]]):
            return True
    return False


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """At most three borrowers, so that all sets are tried."""
    nodes = draw(st.integers(2, 3))
    free = [4] * nodes
    found: list[list[tuple[int, int]]] = [[], []]
    for index, most in ((0, 3), (1, 3)):
        for _ in range(draw(st.integers(1, most))):
            node, gpus = draw(st.integers(0, nodes - 1)), draw(st.sampled_from((1, 2, 3)))
            if free[node] >= gpus:
                free[node] -= gpus
                found[index].append((node, gpus))
    return Case(nodes, tuple(found[0]), tuple(found[1]), draw(st.integers(1, 2)), draw(st.integers(2, 4)))


def disagreement(case: Case) -> str:
    """What the product decides otherwise; empty for nothing."""
    decided = case.scenario().decide()
    found = reasons(decided)
    if case.fits((*case.covered, *case.borrowed), []):
        return "" if not found and decided.placed() == ["claim"] else "evicts for a gang that fits"
    promised = sum(gpus for _, gpus in case.covered) + case.pods * case.gpus
    if case.is_enough_evicted or promised > 4 * case.nodes:
        return "" if "Consolidated" not in found.values() else "moves where evictions are enough"
    sets = list(case.sets())
    if not sets:
        return "" if not found else "evicts although nothing helps"
    names = {name for name, why in found.items() if why == "Preempted"}
    gone = [number for number in range(len(case.borrowed)) if f"lent{number}-0" in names]
    if "Consolidated" not in found.values():
        return f"nothing moves: {found}, {sets} are possible"
    if len(gone) != len(names) or tuple(gone) not in sets:
        return f"the choice is not possible: {found}"
    best = min(map(case.loss, sets))
    return "" if case.loss(gone) == best else f"{found}: {case.loss(gone)}, {best} is possible"


@given(cases())
@holds(40)
def test_the_best_evictions_are_chosen_beside_moves(case: Case) -> None:
    assert disagreement(case) == ""
