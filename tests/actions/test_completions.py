"""Completions: the gangs that a verdict names let the waiting gang start when they end."""

from itertools import combinations
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.actions.explanations.completions import CompletionSearch
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.framework.config import ActionName, SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.gangs import GangKind, SubgroupSpec
from phalanx.model.names import GangId
from phalanx.model.reasons import Category, Evidence, Objection, Reason, Verdict
from phalanx.model.resources import GPU, subtract
from phalanx.solver.answer import SolveLimits
from phalanx.solver.answer_cache import AnswerCache

from tests.builders import Scenario, demands_of, term
from tests.examples import holds

WITHOUT_PREEMPTION = SchedulerConfig(actions=(ActionName.RELEASE, ActionName.RECOVER))


def racks(**nodes: int) -> Scenario:
    """The given number of nodes of 8 devices in each rack."""
    scenario = Scenario("rack")
    for rack, count in nodes.items():
        scenario.nodes(rack, count, gpu=8, within=rack)
    return scenario


def named(verdict: Verdict) -> list[str]:
    """The gangs whose end the evidence names, without their namespace."""
    return [each.subject.split("/")[1] for each in verdict.evidence if each.finding.endswith("when it ends")]


def next_step(scenario: Scenario, gang: str = "g") -> str:
    return scenario.decide().verdict(gang).next_step


def test_the_smallest_sufficient_gang_is_named() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8).gang("large", 1, gpu=8, on=["n-0"])
    scenario.gang("small", 1, gpu=5, on=["n-1"]).gang("other", 1, gpu=1, on=["n-1"]).gang("g", 1, gpu=7)
    assert next_step(scenario) == "Wait until gang team/small ends or 5 more nvidia.com/gpu are free on n-1"


def test_only_a_gang_in_the_required_domain_is_named() -> None:
    scenario = racks(a=2, b=1).gang("far", 1, gpu=2, on=["b-0"]).gang("near", 2, gpu=6, on=["a-0", "a-1"])
    scenario.gang("g", 2, gpu=8, required="rack")
    assert next_step(scenario).startswith(
        "Wait until gang team/near ends or 6 more nvidia.com/gpu are free in rack a on each of a-0, a-1"
    )


def test_a_pair_is_named_where_no_single_gang_is_enough() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8)
    for name, devices in (("one", 3), ("other", 2), ("third", 2)):
        scenario.gang(name, 1, gpu=devices, on=["n-0"])
    scenario.gang("g", 1, gpu=5)
    assert next_step(scenario).startswith("Wait until gang team/other and gang team/third end or")
    assert named(scenario.decide().verdict("g")) == ["other", "third"]


def test_the_next_step_names_the_first_of_many_and_the_evidence_all() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8)
    for index in range(8):
        scenario.gang(f"s{index}", 1, gpu=1, on=["n-0"])
    verdict = scenario.gang("g", 1, gpu=5).decide().verdict("g")
    assert verdict.next_step.startswith(
        "Wait until at most 5 end (gang team/s0, gang team/s1, gang team/s2, 2 more) or 5 more"
    )
    assert len(named(verdict)) == 5


def test_a_gang_that_starts_in_this_cycle_counts() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8).gang("first", 2, gpu=4).gang("g", 2, gpu=4)
    assert scenario.decide().placed() == ["first"]
    assert next_step(scenario).startswith("Wait until gang team/first ends")


def test_a_gang_that_uses_the_limit_of_the_queue_is_named() -> None:
    scenario = Scenario().nodes("n", 4, gpu=8).queue("q", limit={GPU: 8}).queue("free")
    scenario.gang("elsewhere", 1, gpu=4, on=["n-0"], queue="free")
    scenario.gang("mine", 1, gpu=6, on=["n-1"], queue="q").gang("g", 1, gpu=4, queue="q")
    assert next_step(scenario) == (
        "Wait until gang team/mine ends or 2 nvidia.com/gpu of the limit of queue q are released; "
        "to start now, raise the limit of queue q by 2 nvidia.com/gpu"
    )


def test_a_limit_that_is_exceeded_must_be_raised_by_the_excess_too() -> None:
    scenario = Scenario().nodes("n", 4, gpu=8).queue("q", limit={GPU: 2})
    scenario.gang("mine", 1, gpu=5, on=["n-0"], queue="q").gang("g", 1, gpu=1, queue="q")
    verdict = scenario.gang("none", 1, queue="q").decide().verdict("g")
    assert scenario.decide().placed() == ["none"]
    assert "0 nvidia.com/gpu left" in verdict.message
    assert verdict.evidence[0].finding == "1 nvidia.com/gpu needed, exceeded by 3 nvidia.com/gpu"
    assert verdict.next_step == (
        "Wait until gang team/mine ends or 4 nvidia.com/gpu of the limit of queue q are released; "
        "to start now, raise the limit of queue q by 4 nvidia.com/gpu"
    )
    assert scenario.queue("q", limit={GPU: 5}).decide().placed() == ["none"]
    assert scenario.queue("q", limit={GPU: 6}).decide().placed() == ["g", "none"]


def test_two_gangs_that_use_the_limit_of_the_queue_are_named() -> None:
    scenario = Scenario().nodes("n", 4, gpu=8).queue("q", limit={GPU: 8})
    for name in ("one", "two", "three"):
        scenario.gang(name, 1, gpu=2, on=["n-0"], queue="q")
    scenario.gang("g", 1, gpu=6, queue="q")
    assert next_step(scenario).startswith("Wait until gang team/one and gang team/three end or 4")


def test_more_than_two_gangs_that_use_the_limit_of_the_queue_are_named() -> None:
    scenario = Scenario().nodes("n", 4, gpu=8).queue("q", limit={GPU: 8})
    for index in range(4):
        scenario.gang(f"s{index}", 1, gpu=2, on=["n-0"], queue="q")
    scenario.gang("g", 1, gpu=6, queue="q")
    assert next_step(scenario).startswith("Wait until at most 3 end (gang team/s0")


def test_a_pod_without_a_group_is_called_a_pod() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8).gang("p", 1, kind=GangKind.POD, gpu=8, on=["n-0"])
    assert next_step(scenario.gang("g", 1, gpu=8)).startswith("Wait until pod team/p ends")


def test_pods_of_another_scheduler_are_named_by_their_owner() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8).gang("ours", 1, gpu=8, on=["n-1"])
    verdict = scenario.foreign("Job team/x", "n-0", gpu=4).gang("g", 1, gpu=8).decide().verdict("g")
    assert verdict.next_step == "Wait until Job team/x ends or 4 more nvidia.com/gpu are free on n-0"
    assert Evidence("Job team/x", "frees 4 nvidia.com/gpu when it ends") in verdict.evidence


def test_a_pod_of_another_scheduler_repels_nobody_when_it_has_ended() -> None:
    scenario = Scenario().nodes("n", 2, gpu=4).gang("ours", 1, gpu=4, on=["n-1"])
    scenario.foreign("pod team/x-0", "n-0", gpu=2).foreign("pod team/y-0", "n-0", gpu=2)
    scenario.foreign_pod("y", "n-0", controller=None, labels={"app": "y"})
    scenario.gang("g", 1, gpu=2, apart=[term(app="y")])
    assert next_step(scenario).startswith("Wait until pod team/y-0 ends")


def test_a_pod_of_another_scheduler_attracts_nobody_when_it_has_ended() -> None:
    scenario = Scenario().nodes("n", 1, gpu=4)
    scenario.foreign("pod team/x-0", "n-0", gpu=2).foreign("pod team/y-0", "n-0", gpu=2)
    scenario.foreign_pod("x", "n-0", controller=None, labels={"app": "x"})
    scenario.gang("g", 1, gpu=2, near=[term(app="x")])
    assert next_step(scenario).startswith("Wait until pod team/y-0 ends")


def test_members_of_other_schedulers_do_not_count_for_the_queue() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8).queue("q", limit={GPU: 8})
    scenario.gang("mixed", 2, gpu=4, on=["n-0", "n-0"], queue="q")
    ours, theirs = scenario.members("mixed")
    scenario.change("mixed", members=(ours, replace(theirs, scheduler_name="other")))
    scenario.gang("mine", 1, gpu=2, on=["n-1"], queue="q").gang("g", 1, gpu=7, queue="q")
    snapshot = scenario.snapshot()
    assert snapshot.queue_usage["q"]["n-0"][GPU] == 8, "the builder books all members"
    assert named(scenario.decide().verdict("g")) == []


def test_use_above_the_allocatable_amount_must_be_released_too() -> None:
    scenario = Scenario().nodes("n", 1, gpu=2).gang("old", 1, gpu=1, on=["n-0"])
    scenario.foreign("Job team/x", "n-0", gpu=4).gang("g", 1, gpu=1)
    assert next_step(scenario) == "Wait until Job team/x ends or 4 more nvidia.com/gpu are free on n-0"


def test_no_gang_is_named_where_all_must_end() -> None:
    scenario = Scenario().nodes("n", 20, gpu=8)
    for index in range(20):
        scenario.gang(f"s{index}", 1, gpu=8, on=[f"n-{index}"])
    verdict = scenario.gang("g", 20, gpu=8).decide().verdict("g")
    assert named(verdict) == []
    assert verdict.next_step == "Wait until nodes fit 20 more pods (at least 160 more nvidia.com/gpu)"


def test_the_waiting_gang_itself_is_not_named() -> None:
    scenario = Scenario().nodes("n", 1, gpu=8).gang("big", 1, gpu=2, on=["n-0"])
    verdict = scenario.gang("g", 4, min=3, gpu=2, bound=3).decide().verdict("g")
    assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
    assert named(verdict) == ["big"]


@pytest.mark.parametrize("name", ["one", "two"])
def test_surplus_of_equal_gangs_does_not_wait_for_each_other(name: str) -> None:
    """Their equal demands share an explanation, which must therefore name neither of them."""
    scenario = Scenario().nodes("n", 1, gpu=8)
    for each in ("one", "two"):
        scenario.gang(each, 3, min=2, gpu=2, on=["n-0", "n-0"])
    assert named(scenario.decide().verdict(name)) == []


def test_the_waiting_gang_itself_is_not_named_if_it_starts_in_this_cycle() -> None:
    """Its second subgroup is placed whole, like a start, but the gang holds capacity by then."""
    scenario = Scenario().nodes("n", 1, gpu=3).gang("big", 1, gpu=2, on=["n-0"]).gang("g", 2, min=1, gpu=1)
    first, second = scenario.members("g")
    scenario.change(
        "g",
        members=(replace(first, subgroup="a"), replace(second, subgroup="b")),
        subgroups=(SubgroupSpec("a", 1), SubgroupSpec("b", 1)),
        min_subgroups=1,
    )
    decided = scenario.decide()
    assert decided.nodes("g") == ["n-0"]
    assert named(decided.verdict("g")) == ["big"]


def test_the_search_does_not_change_the_session() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8).queue("q", limit={GPU: 8})
    scenario.gang("old", 2, gpu=3, on=["n-0", "n-1"], queue="q").gang("g", 2, gpu=3, queue="q")
    session = Session(scenario.snapshot(), SchedulerConfig())
    free, amounts = {node: session.free(node) for node in session.nodes}, dict(session.ledger.amounts)
    demands = demands_of(session.gangs[GangId("gang-g")])
    assert not isinstance(demands, Objection)
    search = CompletionSearch(session, ProblemBuilder(session), AnswerCache(), limits=SolveLimits())
    (found,) = search.find(demands[0], protected=frozenset(), missing=None)
    assert found.name == "gang team/old"
    assert {node: session.free(node) for node in session.nodes} == free
    assert session.ledger.amounts == amounts


def test_an_unchanged_cluster_is_not_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario().nodes("n", 1, gpu=8).gang("old", 1, gpu=8, on=["n-0"]).gang("g", 1, gpu=8)
    first = scenario.decide()
    monkeypatch.setattr(CompletionSearch, "find", lambda *_, **__: pytest.fail("nothing has changed"))
    again = scenario.take(first).decide()
    assert again.verdict("g") == first.verdict("g")
    assert again.result.wake_at is None
    monkeypatch.undo()
    assert scenario.remove("old").decide().placed() == ["g"]


@st.composite
def busy_clusters(draw: st.DrawFn) -> tuple[Scenario, list[str]]:
    """Up to four nodes in two racks, up to four gangs on them, and one that waits; its queue has a limit."""
    scenario = Scenario("rack").queue("q", limit={GPU: draw(st.integers(4, 16))}).queue("r")
    sizes = draw(st.lists(st.integers(2, 5), min_size=1, max_size=4))
    left = {}
    for index, size in enumerate(sizes):
        scenario.nodes(f"n{index}", gpu=size, within=draw(st.sampled_from("ab")))
        left[f"n{index}-0"] = size
    gangs = []
    for index in range(draw(st.integers(1, 4))):
        on: list[str] = []
        devices = draw(st.integers(1, 2))
        for node in draw(st.lists(st.sampled_from(sorted(left)), min_size=1, max_size=3)):
            if left[node] >= devices:
                left[node] -= devices
                on.append(node)
        if on and draw(st.sampled_from((True, False, False))):
            gangs.append(f"job{index}")
            scenario.foreign(f"Job team/job{index}", *on, gpu=devices)
        elif on:
            gangs.append(f"old{index}")
            queue = draw(st.sampled_from("qr"))
            scenario.gang(gangs[-1], len(on), gpu=devices, on=on, queue=queue)
    topology: dict[str, Any] = draw(st.sampled_from(({}, {"required": "rack"})))
    scenario.gang("g", draw(st.integers(1, 3)), gpu=draw(st.integers(1, 3)), queue="q", **topology)
    if draw(st.booleans()):
        scenario.role("g", 1, gpu=draw(st.integers(0, 2)), role="other")
        scenario.change("g", min_member=len(scenario.members("g")))
    return scenario, gangs


def fits_without(scenario: Scenario, ended: tuple[str, ...]) -> bool:
    before = dict(scenario._gangs), dict(scenario._foreign), dict(scenario._foreign_work)
    for name in ended:
        if name in scenario._gangs:
            scenario.remove(name)
        else:
            for node, used in scenario._foreign_work.pop(f"Job team/{name}").items():
                scenario._foreign[node] = subtract(scenario._foreign[node], used)
    placed = scenario.decide().placed()
    scenario._gangs, scenario._foreign, scenario._foreign_work = before
    return placed == ["g"]


@holds(10, suppress_health_check=list(HealthCheck))
@given(busy_clusters())
def test_the_named_gangs_are_sufficient_and_as_few_as_possible(cluster: tuple[Scenario, list[str]]) -> None:
    """One gang is named where one is enough, two where two are enough; and their end is sufficient."""
    scenario, gangs = cluster
    result = scenario.decide(WITHOUT_PREEMPTION)
    assume("g" in result.reasons() and result.reasons()["g"].category is Category.WAITING)
    found = named(result.verdict("g"))
    singles = [name for name in gangs if fits_without(scenario, (name,))]
    pairs = [pair for pair in combinations(gangs, 2) if fits_without(scenario, pair)]
    if found:
        assert fits_without(scenario, tuple(found))
    if singles:
        assert len(found) == 1
        assert devices_of(scenario, found[0]) == min(devices_of(scenario, name) for name in singles)
    elif pairs:
        assert len(found) == 2
    elif any(fits_without(scenario, some) for some in combinations(gangs, 3)):
        assert len(found) >= 3


def devices_of(scenario: Scenario, gang: str) -> int:
    if gang not in scenario._gangs:
        return sum(used[GPU] for used in scenario._foreign_work[f"Job team/{gang}"].values())
    return sum(pod.shape.requests.get(GPU, 0) for pod in scenario.members(gang))
