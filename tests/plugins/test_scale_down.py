"""Pods of gangs of several pods get annotations by which autoscalers keep their nodes."""

from collections.abc import Mapping

import pytest
from phalanx.framework.config import ConfigError, PluginConfig, SchedulerConfig
from phalanx.framework.registry import load_plugins
from phalanx.model.decisions import Placement, bind_annotations
from phalanx.model.names import ANNOTATION_CHARGED_QUEUE

from tests.builders import Scenario

KEPT = {"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def protecting(annotations: Mapping[str, str]) -> SchedulerConfig:
    plugin = PluginConfig(name="scale-down", arguments={"annotations": annotations})
    return SchedulerConfig(plugins=(plugin,))


def written(placement: Placement) -> list[Mapping[str, str]]:
    return [bind_annotations(placement, bind) for bind in placement.binds]


def two_gangs() -> Scenario:
    scenario = Scenario().nodes("n", gpu=8).queue("q")
    return scenario.gang("several", 2, gpu=1, queue="q").gang("single", 1, gpu=1, queue="q")


def test_pods_of_gangs_of_several_pods_get_the_annotations() -> None:
    decided = two_gangs().decide(protecting(KEPT))
    charged = {ANNOTATION_CHARGED_QUEUE: "q"}
    (several,), (single,) = decided.placements("several"), decided.placements("single")
    assert written(several) == [{**KEPT, **charged}] * 2
    assert written(single) == [charged]


def test_by_default_no_pod_gets_any() -> None:
    decided = two_gangs().decide()
    assert [each.annotations for each in decided.result.placements] == [{}, {}]


def test_what_phalanx_writes_itself_is_not_replaced() -> None:
    (placement,) = two_gangs().decide(protecting({ANNOTATION_CHARGED_QUEUE: "x"})).placements("several")
    assert written(placement) == [{ANNOTATION_CHARGED_QUEUE: "q"}] * 2


@pytest.mark.parametrize("key", ["", "a b", "/a", "A.b/c", "a/b/c", "-a", "a" * 64])
def test_a_key_that_the_api_server_would_refuse_is_an_error(key: str) -> None:
    with pytest.raises(ConfigError, match=r"plugins\[scale-down\]"):
        load_plugins(protecting({key: "x"}))
