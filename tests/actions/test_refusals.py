"""Refusals: a refused gang is solved again only when something relevant has changed."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.model.api.pod_groups import Runtime, TopologyRequest
from phalanx.model.pods import Scheduled
from phalanx.model.reasons import Reason
from phalanx.model.resources import GPU

from tests.builders import Scenario, term


def full() -> Scenario:
    return (
        Scenario("rack")
        .nodes("n", 2, gpu=8, within="r")
        .queue("q", limit={GPU: 100})
        .gang("g", 17, gpu=1, queue="q")
    )


def test_an_unchanged_cluster_is_not_solved_again() -> None:
    scenario = full()
    first = scenario.decide()
    second = scenario.take(first).decide()
    assert first.result.stats.solves
    assert second.result.stats.solves == {}
    assert second.result.stats.gangs_tried == 0
    assert second.result.verdicts == first.result.verdicts
    assert second.result.memory == replace(first.result.memory, cycle=2, candidate_queues={})


def test_a_placement_of_another_gang_causes_no_retry() -> None:
    scenario = full()
    scenario.take(scenario.decide()).gang("other", 4, gpu=1)
    second = scenario.decide()
    assert second.placed() == ["other"]
    assert sum(second.result.stats.solves.values()) == 1


def test_pods_that_are_placed_in_the_same_cycle_help_a_refused_gang_with_affinity() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8)
    scenario.gang("near", 1, gpu=1, near=[term(app="server")])
    refused = scenario.decide()
    assert refused.reasons() == {"near": Reason.POD_AFFINITY}
    scenario.take(refused).gang("server", 1, priority=1, gpu=1, labels={"app": "server"})
    assert scenario.decide().placed() == ["server", "near"]


CHANGES: dict[str, Callable[[Scenario], object]] = {
    "minimum": lambda scenario: scenario.change("g", min_member=3),
    "members": lambda scenario: scenario.role("g", 1, gpu=1),
    "topology": lambda scenario: scenario.change("g", topology=TopologyRequest(preferred="rack")),
    "queue": lambda scenario: scenario.queue("q", limit={GPU: 200}),
    "parent": lambda scenario: scenario.queue("p").queue("q", limit={GPU: 100}, parent="p"),
    "other queue": lambda scenario: scenario.change("g", queue="default"),
    "PodGroup": lambda scenario: scenario.change("g", runtime=Runtime(estimate="1h")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_relevant_change_causes_a_retry(change: str) -> None:
    scenario = full()
    scenario.take(scenario.decide())
    CHANGES[change](scenario)
    assert scenario.decide().result.stats.gangs_tried > 0


def test_more_free_capacity_helps_only_gangs_that_fit_the_empty_cluster() -> None:
    scenario = full().gang("run", 8, gpu=1, bound=8).gang("w", 16, gpu=1, queue="q")
    first = scenario.take(scenario.decide())
    scenario.capacity_version += 1
    assert scenario.decide().result.stats.gangs_tried == 1
    assert first.nodes("m", 1, gpu=2, within="r").decide().result.stats.gangs_tried == 2


def test_a_gang_that_is_tried_again_in_a_cycle_counts_once() -> None:
    scenario = Scenario().nodes("a", 2, gpu=1).gang("g", 2, gpu=1, bound=1, on=["a-0"]).role("g", 3, gpu=1)
    assert scenario.decide().result.stats.gangs_tried == 1


def test_a_status_write_causes_no_retry() -> None:
    scenario = full()
    scenario.take(scenario.decide()).change("g", resource_version="2")
    told = Scheduled("False", "Unschedulable", "waits")
    scenario.change("g", members=tuple(replace(pod, scheduled=told) for pod in scenario.members("g")))
    assert scenario.decide().result.stats.gangs_tried == 0


def test_a_changed_configuration_causes_a_retry() -> None:
    scenario = full()
    scenario.take(scenario.decide())
    config = SchedulerConfig(plugins=(PluginConfig(name="queue-limits", enabled=False),))
    assert scenario.decide(config).result.stats.gangs_tried == 1
