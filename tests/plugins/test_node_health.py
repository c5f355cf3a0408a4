"""Which node conditions exclude a node, and in which polarity."""

import pytest
from phalanx.framework.config import ConfigError, PluginConfig, SchedulerConfig
from phalanx.model.pods import Toleration
from phalanx_plugins.node_health import HEALTHY_WHEN_FALSE, HEALTHY_WHEN_TRUE, NVSENTINEL_STATE

from tests.builders import Scenario


def is_used(conditions: dict[str, str], labels: dict[str, str] | None = None, **configured: str) -> bool:
    arguments = {"conditions": configured} if configured else {}
    config = SchedulerConfig(plugins=(PluginConfig(name="node-health", arguments=arguments),))
    scenario = Scenario().nodes("n", conditions=conditions, labels=labels).gang("g", 1)
    return scenario.decide(config).where("g") == {"n": 1}


@pytest.mark.parametrize("kind", HEALTHY_WHEN_FALSE)
def test_most_conditions_are_a_fault_when_true(kind: str) -> None:
    assert not is_used({kind: "True"})
    assert is_used({kind: "False"})
    assert is_used({kind: "Unknown"})


@pytest.mark.parametrize("kind", HEALTHY_WHEN_TRUE)
def test_some_are_a_fault_when_false(kind: str) -> None:
    assert not is_used({kind: "False"})
    assert is_used({kind: "True"})
    assert is_used({kind: "Unknown"}) is (kind != "Ready")


def test_the_lists_contain_the_known_condition_types() -> None:
    types = {*HEALTHY_WHEN_FALSE, *HEALTHY_WHEN_TRUE, "NodeNotInNWTopologyCM"}
    assert len(types) == len(HEALTHY_WHEN_FALSE) + len(HEALTHY_WHEN_TRUE) + 1
    assert types >= {"AggregatedNodeHealth", "RoCESpoofCheckProblem", "XfsShutdown", "SysLogsSXIDError"}


def test_unknown_types_and_missing_conditions_never_block() -> None:
    assert is_used({})
    assert is_used({"Strange": "True", "Stranger": "False", "Ready": "True"})


def test_the_configuration_overrides_the_lists() -> None:
    assert not is_used({"SiteHealthy": "False"}, SiteHealthy="True")
    assert is_used({"GpuXidError": "True"}, GpuXidError="Ignored")
    assert is_used({"GpuXidError": "True"}, GpuXidError="True")
    assert not is_used({"Ready": "Unknown"}, Ready="True")
    with pytest.raises(ConfigError, match=r"node-health.*Good"):
        is_used({}, Ready="Good")


@pytest.mark.parametrize(
    ("state", "used"),
    [
        ("quarantined", False),
        ("draining", False),
        ("drain-succeeded", False),
        ("drain-failed", False),
        ("remediating", False),
        ("remediation-failed", False),
        ("remediation-succeeded", True),
        ("anything-else", True),
    ],
)
def test_nvsentinels_state_is_respected(state: str, *, used: bool) -> None:
    assert is_used({}, {NVSENTINEL_STATE: state}) is used


def test_a_pod_that_tolerates_everything_avoids_a_faulty_node_too() -> None:
    scenario = Scenario().nodes("n", conditions={"Ready": "False"})
    scenario.gang("g", 1, tolerations=(Toleration(operator="Exists"),))
    verdict = scenario.decide().verdict("g")
    assert verdict.message.endswith("while nodes are unavailable: 1 condition Ready is False")


def test_a_node_with_unknown_topology_is_excluded_only_for_required_levels() -> None:
    scenario = Scenario("rack").nodes("n", within="r", conditions={"NodeNotInNWTopologyCM": "True"})
    scenario.gang("picky", 1, required="rack").gang("any", 1).gang("preferring", 1, preferred="rack")
    decided = scenario.decide()
    assert (decided.where("any"), decided.where("preferring")) == ({"n": 1}, {"n": 1})
    assert decided.placements("picky") == []


def test_members_on_a_node_with_unknown_topology_still_define_the_domain() -> None:
    scenario = Scenario("rack").nodes("old", gpu=1, within="r", conditions={"NodeNotInNWTopologyCM": "True"})
    scenario.nodes("near", gpu=1, within="r").nodes("far", gpu=1, within="s")
    scenario.gang("g", 2, gpu=1, required="rack", on=("old-0",), started=True)
    assert scenario.decide().nodes("g") == ["near-0"]
