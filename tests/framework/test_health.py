"""The breaker: when it opens, what it blocks, and that it closes again."""

import pytest
from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig, ToleranceConfig
from phalanx.framework.hooks import Hooks
from phalanx.framework.nodes.health import assess, reported_transitions
from phalanx.framework.overriders import Overriders
from phalanx.framework.plugin import Plugin
from phalanx.framework.session import Session
from phalanx.model.api.pod_groups import Recovery, RecoveryMode
from phalanx.model.memory import Memory, NodeRecord
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node
from phalanx.model.reasons import Reason
from phalanx_plugins.node_health import NVSENTINEL_STATE, NodeHealth, NodeHealthArguments

from tests.builders import Decided, Scenario

WINDOW_MS = ToleranceConfig().breaker_window_ms
BAD = {"GpuXidError": "True"}


def cluster(good: int, bad: int = 0, *, conditions: dict[str, str] | None = None) -> Scenario:
    """Nodes g-… and b-…, all healthy in the first cycle; then the nodes b-… became unhealthy."""
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


def test_it_opens_above_the_configured_percentage_and_number_of_nodes() -> None:
    assert not is_open(cluster(5, 5))
    assert is_open(cluster(5, 6))
    assert not is_open(cluster(3, 6))
    assert is_open(cluster(3, 6), SchedulerConfig(tolerance=ToleranceConfig(breaker_nodes_min=9)))
    assert not is_open(cluster(5, 6), SchedulerConfig(tolerance=ToleranceConfig(breaker_percent=60)))


def test_nodes_that_were_unhealthy_before_or_when_they_joined_do_not_count() -> None:
    scenario = Scenario().nodes("g", 5).nodes("b", 6, conditions=BAD)
    step(scenario)
    scenario.nodes("new", 20, conditions=BAD)
    assert not is_open(scenario)


def test_no_pod_is_evicted_while_it_is_open() -> None:
    scenario = cluster(5, 6, conditions={"Ready": "Unknown"})
    recovery = Recovery(on_node_loss=RecoveryMode.REPLACE, grace_period="0s")
    scenario.gang("lost", 1, gpu=8, on=("b-0",), recovery=recovery)
    scenario.gang("torn", 1, min=2, gpu=8, on=("g-0",), started=False)
    first = step(scenario)
    scenario.now += WINDOW_MS - 1
    last = step(scenario)
    assert (first.evicted(), last.evicted()) == ([], [])
    assert last.result.wake_at == scenario.now + 1
    scenario.now += 1
    closed = step(scenario)
    assert (closed.result.stats.breaker, closed.evicted()) == ("", ["torn-0", "lost-0"])


def test_only_nodes_that_stayed_healthy_are_used() -> None:
    scenario = cluster(5, 8)
    step(scenario)
    scenario.now += 1000
    scenario.nodes("b", 1, gpu=8)
    scenario.gang("fits", 5, gpu=8).gang("waits", 1, gpu=8)
    decided = step(scenario)
    assert decided.where("fits") == {"g": 5}
    verdict = decided.verdict("waits")
    assert verdict.reason is Reason.BREAKER_OPEN
    assert "7 of 13 nodes failed within 300 s" in verdict.message
    scenario.take(decided)
    scenario.now += 300_000
    assert step(scenario).nodes("waits") == ["b-0"]


def test_it_closes_when_the_nodes_are_healthy_again() -> None:
    scenario = cluster(5, 6)
    assert step(scenario).result.stats.breaker
    scenario.nodes("b", 1)
    assert not is_open(scenario)


def test_mass_faults_do_not_count_as_node_failures() -> None:
    scenario = cluster(5, 6)
    assert dict(step(scenario).result.memory.scores) == {}
    assert step(cluster(5, 1)).result.memory.scores[NodeName("b-0")].score == 1000


def taken_over(*ages_s: int, conditions: dict[str, str] = BAD, ahead_s: int = 0, label: str = "") -> Scenario:
    """A new leader finds 5 healthy nodes and 6 unhealthy ones, whose conditions changed at these ages.

    `ahead_s`: by how much the clock of the cluster is ahead of ours, as the creation time of a pod shows.
    """
    scenario = Scenario().nodes("g", 5, gpu=8)
    at = scenario.now // 1000 + ahead_s
    turned = {kind: at - age for kind, age in zip(conditions, ages_s, strict=False)}
    labels = {NVSENTINEL_STATE: label} if label else {}
    scenario.nodes("b", 6, gpu=8, conditions=conditions, turned=turned, labels=labels)
    scenario.gang("young", 1, gpu=8, on=("g-0",))
    return scenario.change(
        "young", members=tuple(replace(pod, created=at) for pod in scenario.members("young"))
    )


def test_it_is_open_for_a_new_leader() -> None:
    scenario = taken_over(100)
    decided = step(scenario)
    assert decided.result.stats.breaker == "6 of 11 nodes failed within 300 s"
    assert decided.result.wake_at == scenario.now // 1000 * 1000 - 100_000 + WINDOW_MS
    assert dict(decided.result.memory.scores) == {}


@pytest.mark.parametrize(
    ("ages_s", "conditions"),
    [
        ((299,), {"GpuXidError": "True"}),
        ((10, 20), {"GpuXidError": "True", "Ready": "Unknown"}),
        ((10, 10**6), {"GpuXidError": "True", "Ready": "True"}),
        ((10, 10**6), {"GpuXidError": "True", "SiteOwn": "True"}),
        ((-200,), {"Ready": "Unknown"}),
    ],
    ids=["oldest", "two faults", "another is healthy", "an unknown condition", "its clock is ahead"],
)
def test_recent_transitions_count_for_a_new_leader(
    ages_s: tuple[int, ...], conditions: dict[str, str]
) -> None:
    assert is_open(taken_over(*ages_s, conditions=conditions))


@pytest.mark.parametrize(
    ("ages_s", "conditions", "label"),
    [
        ((301,), {"GpuXidError": "True"}, ""),
        ((10, 10**6), {"GpuXidError": "True", "Ready": "Unknown"}, ""),
        ((10,), {"GpuXidError": "True", "Ready": "Unknown"}, ""),
        ((10,), {"GpuXidError": "False"}, "quarantined"),
        ((10,), {"NodeNotInNWTopologyCM": "True"}, ""),
        ((-400,), {"Ready": "Unknown"}, ""),
    ],
    ids=["old", "old fault", "joined unhealthy", "a label has no time", "no fault", "its clock is wrong"],
)
def test_other_faults_do_not_count_for_a_new_leader(
    ages_s: tuple[int, ...], conditions: dict[str, str], label: str
) -> None:
    assert not is_open(taken_over(*ages_s, conditions=conditions, label=label))


def test_a_new_leader_with_a_late_clock_uses_the_time_of_the_cluster() -> None:
    assert is_open(taken_over(100, ahead_s=3600))
    assert not is_open(taken_over(301, ahead_s=3600))


def test_a_new_leader_uses_only_nodes_that_stayed_healthy() -> None:
    scenario = taken_over(100)
    scenario.nodes("g", 2, gpu=8, conditions={"Ready": "True"}, turned={"Ready": scenario.now // 1000 - 50})
    assert step(scenario.gang("new", 3, gpu=8)).where("new") == {"g": 3}
    assert "g-1" not in step(scenario.gang("more", 1, gpu=8)).nodes("more")


def test_a_later_cycle_uses_its_own_observations() -> None:
    scenario = Scenario().nodes("g", 5)
    step(scenario)
    turned = {"GpuXidError": scenario.now // 1000 - 10}
    assert not is_open(scenario.nodes("new", 6, conditions=BAD, turned=turned))


class SiteHealth(Plugin):
    """A plugin of a site that does not know since when nodes are faulty."""

    name = "site"

    def node_fault(self, node: Node) -> str | None:
        return "the site says so" if node.conditions else None


def test_a_fault_with_unknown_start_is_no_recent_transition() -> None:
    snapshot = taken_over(100).snapshot()
    config = ToleranceConfig()
    health = NodeHealth(NodeHealthArguments())

    def reported(*plugins: Plugin) -> dict[NodeName, int]:
        view = Session(snapshot, SchedulerConfig())
        hooks = Hooks(plugins, view, lambda name: view, Overriders(map(type, plugins)))
        return reported_transitions(snapshot, hooks.node_status_since(snapshot.nodes), config)

    assert len(reported(health)) == 6
    assert reported(health, SiteHealth()) == {}


@pytest.mark.parametrize("known", [("a", "b"), ("b", "a"), ("a", "b", "gone"), ("a",)])
def test_records_are_those_of_the_nodes_in_their_order(known: tuple[str, ...]) -> None:
    records = {NodeName(name): NodeRecord(good=True, since=5) for name in known}
    nodes = dict.fromkeys([NodeName("a"), NodeName("b")])
    found = assess(nodes, {}, memory=Memory(cycle=1, nodes=records), now=9, config=ToleranceConfig())
    assert list(found.records) == ["a", "b"]
