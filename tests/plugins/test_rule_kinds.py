"""A plugin brings a kind of rule: placements keep it, verdicts use its words, errors stop its gang only."""

from collections.abc import Iterator
from typing import Any

import pytest
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.model.reasons import Reason
from phalanx.rules.primitives import Primitive
from phalanx.rules.problem import PlacedPods, PlacementProblem, Rule

from tests.builders import Decided, Scenario
from tests.plugins.foreign.most_per_rack import RACK, MostPerRack, RackLimit
from tests.plugins.installed import installed

CONFIG = SchedulerConfig(plugins=(PluginConfig("most-per-rack"),))


def racks() -> Scenario:
    return Scenario().nodes("n", 2, gpu=8, labels={RACK: "r1"}).nodes("m", 2, gpu=8, labels={RACK: "r2"})


def decide(scenario: Scenario, plugin: type[RackLimit] = RackLimit) -> Decided:
    with installed(most_per_rack=plugin):
        return scenario.decide(CONFIG)


def test_a_placement_keeps_the_rule_and_is_proven() -> None:
    result = decide(racks().gang("g", 4, gpu=1))
    assert result.where("g") == {"m": 2, "n": 2}
    (placement,) = result.result.placements
    assert placement.certificate is not None
    assert placement.certificate.proven


def test_running_members_count() -> None:
    assert decide(racks().gang("g", 4, gpu=1, on=["n-0", "n-1"])).where("g") == {"m": 2}
    assert not decide(racks().gang("g", 5, gpu=1, on=["n-0", "n-1"])).result.placements


def test_a_verdict_uses_the_words_of_the_rule() -> None:
    found = decide(racks().gang("g", 5, gpu=1)).verdict("g")
    assert found.reason is Reason.ABOVE_PLUGIN_LIMIT
    assert found.message == "4 of 5 pods fit the empty cluster; at most 2 pods of a gang run in each rack"


class Incomplete(Rule, frozen=True, tag="incomplete"):
    """Neither lowered nor checked."""


class Raising(MostPerRack, frozen=True, tag="raising"):
    def lower(self, problem: PlacementProblem) -> Iterator[Primitive]:
        raise ValueError("no such rack")


class Objecting(MostPerRack, frozen=True, tag="objecting"):
    def violations(self, placed: PlacedPods) -> Iterator[str]:
        yield "never"


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        (Incomplete("r"), "is of a wrong type"),
        (Raising("r", ()), "rules: ValueError('no such rack')"),
        (Objecting("r", ()), ": never"),
    ],
)
def test_an_error_of_a_rule_stops_its_gang_only(rule: Rule, error: str) -> None:
    class Broken(RackLimit):
        def rules(self, gang: Any, view: Any) -> tuple[Rule, ...]:
            return (rule,) if gang.name == "bad" else ()

    result = decide(racks().gang("bad", 4, gpu=1).gang("good", 4, gpu=1), Broken)
    assert result.placed() == ["good"]
    assert any(error in each for each in result.result.stats.errors)


def test_a_rule_that_is_not_complete_is_an_error_of_its_plugin() -> None:
    class Broken(RackLimit):
        def rules(self, gang: Any, view: Any) -> tuple[Rule, ...]:
            return (Incomplete("r"),)

    found = decide(racks().gang("g", 1, gpu=1), Broken).verdict("g")
    assert found.reason is Reason.PLUGIN_ERROR
    assert (
        found.next_step == "Report the error to the author of the plugin, or disable it in the configuration"
    )
