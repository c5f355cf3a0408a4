"""PodDisruptionBudgets in preemption: which pods they protect, and how the verdict reports it."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.model.api.pod_groups import Disruption, DisruptionMode
from phalanx.model.pods import PodPhase
from phalanx.model.reasons import Reason
from phalanx_plugins.disruption_budgets import BUDGET_RECOUNT_MS

from tests.builders import Decided, Scenario
from tests.examples import holds

SINGLE = Disruption(mode=DisruptionMode.SINGLE)


def enforcing(how: str) -> SchedulerConfig:
    return SchedulerConfig(plugins=(PluginConfig(name="disruption-budgets", arguments={"enforcement": how}),))


HARD = enforcing("hard")
BEST_EFFORT = SchedulerConfig()


def _protected(allowed: int, **fields: object) -> Scenario:
    """A node full of a service of eight pods, of which the budget allows this number of evictions."""
    scenario = Scenario().nodes("a", 1, gpu=8).budget("web", allowed, app="web")
    scenario.gang("web", 8, gpu=1, on=["a-0"] * 8, labels={"app": "web"}, disruption=SINGLE, **fields)
    return scenario


def evidence(decided: Decided, gang: str) -> str:
    return str([f"{each.subject}: {each.finding}" for each in decided.verdict(gang).evidence])


@pytest.mark.parametrize(("allowed", "asked", "gone"), [(2, 2, 2), (3, 2, 2), (1, 2, 0), (0, 1, 0)])
def test_no_more_pods_are_evicted_than_the_budget_allows(allowed: int, asked: int, gone: int) -> None:
    decided = _protected(allowed).gang("high", asked, gpu=1, priority=10).decide(HARD)
    assert len(decided.evicted()) == gone
    if not gone:
        most = "1 eviction" if allowed == 1 else f"{allowed} evictions"
        said = f"PodDisruptionBudget team/web: allows {most} now, {asked} needed"
        assert said in evidence(decided, "high")
        assert decided.verdict("high").reason is Reason.INSUFFICIENT_CAPACITY


def test_a_gang_is_evicted_whole_only_if_the_budget_allows_all_its_pods() -> None:
    scenario = Scenario().nodes("a", 1, gpu=8).budget("train", 3, job="train")
    scenario.gang("train", 4, gpu=2, on=["a-0"] * 4, labels={"job": "train"}).gang(
        "high", 1, gpu=2, priority=9
    )
    assert scenario.decide(HARD).evicted() == []
    assert len(scenario.budget("train", 4, job="train").decide(HARD).evicted()) == 4


def test_a_gang_that_costs_more_is_evicted_where_a_budget_protects_the_cheaper_one() -> None:
    scenario = Scenario().nodes("a", 2, gpu=8).budget("cheap", 0, job="cheap")
    scenario.gang("cheap", 1, gpu=8, on=["a-0"], labels={"job": "cheap"})
    scenario.gang("costly", 8, gpu=1, on=["a-1"] * 8, priority=5, labels={"job": "costly"})
    assert len(scenario.gang("high", 1, gpu=8, priority=10).decide(HARD).evicted()) == 8


def test_two_preemptors_share_one_budget() -> None:
    scenario = _protected(3)
    scenario.gang("one", 2, gpu=1, priority=10).gang("two", 2, gpu=1, priority=9)
    decided = scenario.decide(HARD)
    assert len(decided.evicted()) == 2
    assert "team/web: allows 1 eviction now, 2 needed" in evidence(decided, "two")


def test_unconfirmed_evictions_of_earlier_cycles_count() -> None:
    scenario = _protected(2).gang("one", 2, gpu=1, priority=10)
    scenario.memory = scenario.decide(HARD).result.memory
    assert scenario.gang("two", 1, gpu=1, priority=10).decide(HARD).evicted() == []


def test_a_pod_that_was_just_deleted_uses_the_budget_until_it_is_recounted() -> None:
    scenario = _protected(1)
    scenario.now = 60_000_000_000
    first, *others = scenario.members("web")
    terminating = replace(first, deleting=True, ended=scenario.now // 1000)
    scenario.change("web", members=(terminating, *others)).gang("high", 2, gpu=1, priority=10)
    decided = scenario.decide(HARD)
    assert decided.evicted() == []
    assert decided.result.wake_at == scenario.now + BUDGET_RECOUNT_MS
    scenario.take(decided)
    scenario.now += BUDGET_RECOUNT_MS
    assert len(scenario.decide(HARD).evicted()) == 1


def test_pending_pods_use_no_budget() -> None:
    scenario = _protected(0)
    starting = tuple(replace(pod, phase=PodPhase.PENDING) for pod in scenario.members("web"))
    scenario.change("web", members=starting)
    assert len(scenario.gang("high", 2, gpu=1, priority=10).decide(HARD).evicted()) == 2


def test_an_invalid_budget_protects_its_whole_namespace_and_is_reported() -> None:
    scenario = _protected(2)
    scenario._budgets = [replace(each, fault="spec.selector: nonsense") for each in scenario._budgets]
    decided = scenario.gang("other", 1, on=["a-0"]).gang("high", 3, gpu=1, priority=10).decide(HARD)
    assert decided.evicted() == []
    assert "PodDisruptionBudget team/web, as its spec.selector: nonsense" in evidence(decided, "high")


def test_the_budget_of_another_namespace_is_ignored() -> None:
    scenario = _protected(0)
    scenario._budgets = [replace(each, namespace="other") for each in scenario._budgets]
    assert len(scenario.gang("high", 2, gpu=1, priority=10).decide(HARD).evicted()) == 2


def test_best_effort_violates_a_budget_where_no_other_victims_help() -> None:
    decided = _protected(1).gang("high", 3, gpu=1, priority=10).decide(BEST_EFFORT)
    assert len(decided.evicted()) == 3
    assert "2 evictions beyond PodDisruptionBudgets" in evidence(decided, "high")


def test_best_effort_evicts_a_higher_priority_before_it_violates_a_budget() -> None:
    scenario = Scenario().nodes("a", 2, gpu=8).budget("low", 0, job="low")
    scenario.gang("low", 1, gpu=8, on=["a-0"], labels={"job": "low"})
    scenario.gang("mid", 1, gpu=8, on=["a-1"], labels={"job": "mid"}, priority=5)
    assert scenario.gang("high", 1, gpu=8, priority=10).decide(BEST_EFFORT).evicted() == ["mid-0"]


def test_best_effort_violates_budgets_by_as_few_pods_as_possible() -> None:
    scenario = Scenario().nodes("a", 2, gpu=8).budget("low", 0, job="low").budget("mid", 0, job="mid")
    scenario.gang("low", 2, gpu=4, on=["a-0"] * 2, labels={"job": "low"})
    scenario.gang("mid", 1, gpu=8, on=["a-1"], labels={"job": "mid"}, priority=5)
    assert scenario.gang("high", 1, gpu=8, priority=10).decide(BEST_EFFORT).evicted() == ["mid-0"]


def test_budgets_are_ignored_where_the_plugin_is_disabled() -> None:
    off = SchedulerConfig(plugins=(PluginConfig(name="disruption-budgets", enabled=False),))
    assert len(_protected(0).gang("high", 2, gpu=1, priority=10).decide(off).evicted()) == 2


APPS = ("x", "y")


@st.composite
def crowded(draw: st.DrawFn) -> Scenario:
    """One node full of gangs of up to three pods, two budgets that may overlap, and a preemptor."""
    scenario = Scenario().nodes("a", 1, gpu=8)
    left = 8
    for index in range(5):
        count = draw(st.integers(1, 3))
        if count > left:
            break
        left -= count
        app, tier = draw(st.sampled_from(APPS)), draw(st.sampled_from(APPS))
        mode = draw(st.sampled_from(DisruptionMode))
        scenario.gang(
            f"g{index}",
            count,
            gpu=1,
            on=["a-0"] * count,
            labels={"app": app, "tier": tier},
            disruption=Disruption(mode=mode),
        )
    if left:
        scenario.gang("rest", 1, gpu=left, on=["a-0"], priority=99)
    scenario.budget("app-x", draw(st.integers(0, 3)), app="x").budget(
        "tier-x", draw(st.integers(0, 3)), tier="x"
    )
    return scenario.gang("high", 1, gpu=draw(st.integers(1, 6)), priority=10)


def _sets(scenario: Scenario) -> list[list[str]]:
    """All sets of pods that the disruption modes of the gangs allow to evict together."""
    units: list[list[str]] = []
    for name, gang in scenario._gangs.items():
        names = [pod.name for pod in gang.members]
        if name not in ("rest", "high"):
            units += (
                [[each] for each in names]
                if gang.disruption.eviction_mode is DisruptionMode.SINGLE
                else [names]
            )
    chosen = [each for count in range(len(units) + 1) for each in combinations(units, count)]
    return [[name for unit in some for name in unit] for some in chosen]


def _breaches(scenario: Scenario, names: list[str]) -> int:
    labels = {pod.name: dict(pod.all_labels) for gang in scenario._gangs.values() for pod in gang.members}
    return sum(
        max(0, sum(each.protects(labels[name]) for name in names) - each.allowed)
        for each in scenario._budgets
    )


@given(crowded())
@holds(15)
def test_hard_finds_victims_if_any_exist_and_best_effort_violates_least(scenario: Scenario) -> None:
    """Try every set of victims: the pod fits on the node when enough pods of one GPU are evicted."""
    asked = scenario.members("high")[0].shape.requests["nvidia.com/gpu"]
    breaches = [_breaches(scenario, names) for names in _sets(scenario) if len(names) >= asked]
    hard, best = scenario.decide(HARD).evicted(), scenario.decide(BEST_EFFORT).evicted()
    assert bool(hard) == (0 in breaches)
    assert _breaches(scenario, hard) == 0
    assert bool(best) == bool(breaches)
    if best:
        assert _breaches(scenario, best) == min(breaches)


@given(crowded(), st.integers(1, 4), st.integers(0, 3))
@holds(30)
def test_several_preemptors_keep_within_the_budgets_together(
    scenario: Scenario, asked: int, more: int
) -> None:
    scenario.gang("next", 2, gpu=asked, priority=9)
    for index in range(more):
        scenario.gang(f"small-{index}", 1, gpu=1, priority=8)
    assert _breaches(scenario, scenario.decide(HARD).evicted()) == 0


@given(st.lists(st.integers(0, 3), min_size=2, max_size=6), st.integers(0, 6), st.data())
@holds(15)
def test_the_budget_is_kept_over_several_cycles(
    priorities: list[int], least: int, data: st.DataObject
) -> None:
    """The budget is recounted in each cycle from the running pods; evicted pods are recreated at once."""
    scenario = Scenario().nodes("a", 2, gpu=4)
    for index in range(8):
        node = f"a-{index // 4}"
        labels = {"app": "web"} if data.draw(st.booleans()) else {}
        scenario.gang(f"web-{index}", 1, gpu=1, on=[node], labels=labels)
    for index, priority in enumerate(priorities):
        size = data.draw(st.integers(1, 3))
        scenario.gang(f"job-{index}", data.draw(st.integers(1, 2)), gpu=size, priority=priority)
    start = _running(scenario)
    for _ in range(8):
        scenario.budget("web", max(0, _running(scenario) - least), app="web")
        scenario.take(scenario.decide(HARD))
        scenario.capacity_version += 1
        scenario.now += 60_000
        assert _running(scenario) >= min(start, least)


def _running(scenario: Scenario) -> int:
    """The number of pods of the service that have a node."""
    pods = [pod for gang in scenario._gangs.values() for pod in gang.members if pod.node is not None]
    return sum(dict(pod.all_labels).get("app") == "web" for pod in pods)
