"""Topology spread constraints that the configuration sets for pods without any."""

from collections import Counter
from typing import Any

import pytest
from phalanx.cache.events import Applied
from phalanx.cycle import decide
from phalanx.deciders.port import new_cache
from phalanx.framework.config import ConfigError, PluginConfig, SchedulerConfig
from phalanx.framework.registry import default_spread
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.pods import PodShape
from phalanx.model.spread_defaults import DefaultConstraint
from phalanx.service.config_reload import fixed_changes

from tests.cache.world import take_snapshot
from tests.model.written import node, pod

HARD = {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}
SOFT = {**HARD, "whenUnsatisfiable": "ScheduleAnyway"}


def config(*constraints: dict[str, Any]) -> SchedulerConfig:
    arguments = {"defaultConstraints": list(constraints)}
    return SchedulerConfig(plugins=(PluginConfig("topology-spread", arguments=arguments),))


def owned(kind: str, labels: dict[str, str], *, api: str = "apps/v1", is_controller: bool = True) -> Any:
    owner = {"apiVersion": api, "kind": kind, "name": "web", "uid": "o", "controller": is_controller}
    return {"labels": labels, "meta": {"ownerReferences": [owner]}}


OF_DEPLOYMENT = owned("ReplicaSet", {"app": "x", "pod-template-hash": "h"})


def shape(constraints: SchedulerConfig, **fields: Any) -> PodShape:
    return ShapeCache(default_spread=default_spread(constraints)).of(pod(**fields))


def selected(found: PodShape) -> list[tuple[str, tuple[str, ...]]]:
    selectors = [each.term.selector for each in (*found.spread, *found.preferred_spread)]
    return [(one.key, one.values) for each in selectors if each is not None for one in each.requirements]


@pytest.mark.parametrize("constraint", [HARD, SOFT])
def test_a_default_constraint_is_like_one_that_selects_the_pods_of_the_template(
    constraint: dict[str, Any],
) -> None:
    written = {**constraint, "labelSelector": {"matchLabels": {"pod-template-hash": "h"}}}
    as_written = shape(config(), topologySpreadConstraints=[written], **OF_DEPLOYMENT)
    assert shape(config(constraint), **OF_DEPLOYMENT) == as_written
    assert selected(as_written) == [("pod-template-hash", ("h",))]
    assert not selected(shape(config(), **OF_DEPLOYMENT))


def test_all_fields_apply() -> None:
    more = {"minDomains": 3, "maxSkew": 2, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}
    (found,) = shape(config({**HARD, **more}), **OF_DEPLOYMENT).spread
    assert (found.max_skew, found.min_domains) == (2, 3)
    assert (found.honors_affinity, found.honors_taints) == (False, True)


REVISION = {"controller-revision-hash": "web-1"}


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        (owned("StatefulSet", REVISION), [("controller-revision-hash", ("web-1",))]),
        (owned("DaemonSet", REVISION), []),
        (owned("ReplicaSet", {"app": "x"}), []),
        (owned("ReplicaSet", {"pod-template-hash": "h"}, is_controller=False), []),
        (owned("StatefulSet", REVISION, api="example.com/v1"), []),
        ({"labels": {"pod-template-hash": "h"}}, []),
    ],
)
def test_the_controller_decides_which_pods_are_counted(fields: dict[str, Any], found: list[Any]) -> None:
    assert selected(shape(config(HARD), **fields)) == found


def test_constraints_of_a_pod_replace_the_defaults() -> None:
    own = {**SOFT, "topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "x"}}}
    found = shape(config(HARD), topologySpreadConstraints=[own], **OF_DEPLOYMENT)
    assert not found.spread
    assert selected(found) == [("app", ("x",))]


@pytest.mark.parametrize("constraint", [HARD, SOFT])
def test_pods_of_a_deployment_are_spread(constraint: dict[str, Any]) -> None:
    scheduler = config(constraint)
    cache = new_cache(scheduler)
    nodes = [node(zone, labels={"zone": zone}) for zone in "abc"]
    pods = [pod(f"web-{index}", requests={"cpu": "1"}, **OF_DEPLOYMENT) for index in range(6)]
    cache.apply_all(map(Applied, (*nodes, *pods)))
    result = decide(take_snapshot(cache), scheduler)
    used = Counter(bind.node for placement in result.placements for bind in placement.binds)
    assert sorted(used.values()) == [2, 2, 2]


@pytest.mark.parametrize(
    ("constraints", "error"),
    [
        ([{**SOFT, "minDomains": 2}], "minDomains needs whenUnsatisfiable: DoNotSchedule"),
        ([HARD, {**HARD, "maxSkew": 2}], "defaultConstraints has zone with DoNotSchedule twice"),
        ([{**HARD, "labelSelector": {}}], "labelSelector"),
        ([{**HARD, "maxSkew": 0}], "maxSkew"),
        ([{**HARD, "topologyKey": ""}], "topologyKey"),
    ],
)
def test_errors_name_the_field(constraints: list[dict[str, Any]], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        default_spread(config(*constraints))


def test_other_defaults_need_a_restart() -> None:
    assert default_spread(config(HARD)) == (DefaultConstraint("zone", "DoNotSchedule", 1),)
    assert fixed_changes(config(HARD), config(SOFT)) == ("defaultConstraints of plugin topology-spread",)
    assert fixed_changes(config(HARD), config(HARD)) == ()
