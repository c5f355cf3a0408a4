"""The breaker: when it opens, what it holds back, and that it closes by itself."""

from phalanx.framework.config import SchedulerConfig, ToleranceConfig
from phalanx.model.gangs import Recovery, RecoveryMode
from phalanx.model.names import NodeName
from phalanx.model.reasons import Reason
from tests.builders import Decided, Scenario

WINDOW_MS = ToleranceConfig().breaker_window_ms
BAD = {"GpuXidError": "True"}


def cluster(good: int, bad: int = 0, *, conditions: dict[str, str] | None = None) -> Scenario:
    """Nodes g-… and b-…, all good when the first cycle looked; then those called b turned bad."""
    scenario = Scenario().nodes("g", good, gpu=8).nodes("b", bad, gpu=8)
    step(scenario)
    scenario.now += 1000
    return scenario.nodes("b", bad, gpu=8, conditions=conditions or BAD)


def step(scenario: Scenario, config: SchedulerConfig | None = None) -> Decided:
    decided = scenario.decide(config)
    scenario.memory = decided.result.memory
    return decided


def is_open(scenario: Scenario, config: SchedulerConfig | None = None) -> bool:
    return bool(scenario.decide(config).result.stats.breaker)


def test_it_opens_above_its_share_of_enough_nodes() -> None:
    assert not is_open(cluster(5, 5))
    assert is_open(cluster(5, 6))
    assert not is_open(cluster(3, 6))
    assert is_open(cluster(3, 6), SchedulerConfig(tolerance=ToleranceConfig(breaker_nodes_min=9)))
    assert not is_open(cluster(5, 6), SchedulerConfig(tolerance=ToleranceConfig(breaker_percent=60)))


def test_nodes_that_were_bad_before_or_join_bad_do_not_count() -> None:
    scenario = Scenario().nodes("g", 5).nodes("b", 6, conditions=BAD)
    step(scenario)
    scenario.nodes("new", 20, conditions=BAD)
    assert not is_open(scenario)


def test_nothing_is_evicted_while_it_is_open() -> None:
    scenario = cluster(5, 6, conditions={"Ready": "Unknown"})
    wish = Recovery(on_node_loss=RecoveryMode.REPLACE, grace_ms=0)
    scenario.gang("lost", 1, gpu=8, on=("b-0",), recovery=wish)
    scenario.gang("torn", 1, min=2, gpu=8, on=("g-0",), started=False)
    first = step(scenario)
    scenario.now += WINDOW_MS - 1
    last = step(scenario)
    assert (first.evicted(), last.evicted()) == ([], [])
    assert last.result.wake_at == scenario.now + 1
    scenario.now += 1
    closed = step(scenario)
    assert (closed.result.stats.breaker, closed.evicted()) == ("", ["torn-0", "lost-0"])


def test_only_nodes_that_were_good_all_the_while_are_used() -> None:
    scenario = cluster(5, 8)
    step(scenario)
    scenario.now += 1000
    scenario.nodes("b", 1, gpu=8)
    scenario.gang("fits", 5, gpu=8).gang("waits", 1, gpu=8)
    decided = step(scenario)
    assert decided.where("fits") == {"g": 5}
    verdict = decided.verdict("waits")
    assert verdict.reason is Reason.BREAKER_OPEN
    assert "7 of 13 nodes turned bad within 300 s" in verdict.message
    scenario.take(decided)
    scenario.now += 300_000
    assert step(scenario).nodes("waits") == ["b-0"]


def test_it_closes_when_the_nodes_are_good_again() -> None:
    scenario = cluster(5, 6)
    assert step(scenario).result.stats.breaker
    scenario.nodes("b", 1)
    assert not is_open(scenario)


def test_mass_flips_are_not_held_against_nodes() -> None:
    scenario = cluster(5, 6)
    assert dict(step(scenario).result.memory.scores) == {}
    assert step(cluster(5, 1)).result.memory.scores[NodeName("b-0")].score == 1000
