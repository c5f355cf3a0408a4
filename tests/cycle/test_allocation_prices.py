"""Allocation has a price if the configuration says so, which follows the placements of the cycle."""

from typing import Any

import msgspec
import pytest
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.framework.registry import prices_usage
from phalanx.model.allocation_prices import AllocationPrices

from tests.builders import Scenario


def config(**arguments: Any) -> SchedulerConfig:
    return SchedulerConfig(plugins=(PluginConfig("allocation", arguments=arguments),))


def filled(**arguments: Any) -> dict[str, int]:
    """How many of six single pods of one cycle each of three nodes gets, by their zones."""
    scenario = Scenario()
    for zone in "abc":
        scenario.nodes(zone, labels={"zone": zone}, cpu=4)
    for number in range(6):
        scenario.gang(f"g{number}", 1, cpu=1)
    decided = scenario.decide(config(**arguments))
    found: dict[str, int] = {}
    for number in range(6):
        for zone, count in decided.where(f"g{number}").items():
            found[zone] = found.get(zone, 0) + count
    return found


def test_each_placement_changes_the_price() -> None:
    cpu = [{"name": "cpu"}]
    assert sorted(filled(strategy="LeastAllocated", weight=100, resources=cpu).values()) == [2, 2, 2]
    assert sorted(filled(strategy="MostAllocated", weight=100, resources=cpu).values()) == [2, 4]
    shape = [{"utilization": 50, "score": 10}, {"utilization": 75, "score": 0}]
    by_shape = filled(strategy="RequestedToCapacityRatio", weight=100, resources=cpu, shape=shape)
    assert sorted(by_shape.values()) == [2, 2, 2]


def test_without_weights_costs_do_not_depend_on_usage() -> None:
    assert not prices_usage(SchedulerConfig())
    assert not prices_usage(config(strategy="MostAllocated"))
    assert prices_usage(config(balancedWeight=1))


@pytest.mark.parametrize(
    "arguments",
    [
        {"strategy": "RequestedToCapacityRatio"},
        {"shape": [{"utilization": 0, "score": 1}]},
        {
            "strategy": "RequestedToCapacityRatio",
            "shape": [{"utilization": 5, "score": 1}, {"utilization": 5, "score": 2}],
        },
        {"resources": []},
        {"resources": [{"name": "cpu"}, {"name": "cpu", "weight": 2}]},
        {"balancedResources": ["cpu", "cpu"]},
    ],
)
def test_arguments_that_contradict_themselves_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(arguments, AllocationPrices)
