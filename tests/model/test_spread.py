"""Conversion of topology spread constraints."""

from typing import Any

import pytest
from phalanx.model.conversion.shapes import ShapeCache, read_shape
from phalanx.model.pods import PodShape, Requirement

from tests.model.written import pod

HARD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
SELECTED = {**HARD, "labelSelector": {"matchLabels": {"app": "x"}}}


def shape(*constraints: dict[str, Any], **fields: Any) -> PodShape:
    return read_shape(pod(topologySpreadConstraints=list(constraints), **fields))


def test_all_fields_are_read() -> None:
    own = {"minDomains": 2, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "maxSkew": 3}
    (found,) = shape({**SELECTED, **own}).spread
    assert (found.max_skew, found.min_domains) == (3, 2)
    assert (found.honors_affinity, found.honors_taints) == (False, True)
    assert found.term.topology_key == "zone"
    assert found.term.selector is not None
    assert found.term.selector.requirements == (Requirement("app", "In", ("x",)),)
    assert not shape(SELECTED).invalid


def test_constraints_with_schedule_anyway_are_preferred() -> None:
    both = shape(SELECTED, {**SELECTED, "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 2})
    assert [each.max_skew for each in (*both.spread, *both.preferred_spread)] == [1, 2]
    assert not both.unsupported
    assert not both.invalid


def test_defaults_are_those_of_kubernetes() -> None:
    (found,) = shape(SELECTED).spread
    assert (found.min_domains, found.honors_affinity, found.honors_taints) == (1, True, False)


@pytest.mark.parametrize("selector", [{}, {"labelSelector": {}}])
def test_without_requirements_no_pods_are_counted(selector: dict[str, Any]) -> None:
    (found,) = shape({**HARD, **selector}).spread
    assert found.term.selector is None


def test_match_label_keys_select_by_the_labels_of_the_pod() -> None:
    keys = {**SELECTED, "matchLabelKeys": ["hash", "absent"]}
    (found,) = shape(keys, labels={"hash": "h"}).spread
    assert found.term.selector is not None
    assert Requirement("hash", "In", ("h",)) in found.term.selector.requirements
    cache = ShapeCache()
    one, two = (pod(topologySpreadConstraints=[keys], labels={"hash": each}) for each in "ab")
    assert cache.of(one) is not cache.of(two)


def test_pods_of_other_namespaces_have_other_shapes() -> None:
    cache = ShapeCache()
    one, two = (pod(topologySpreadConstraints=[SELECTED], namespace=each) for each in ("a", "b"))
    assert cache.of(one).key != cache.of(two).key


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"maxSkew": 0}, "maxSkew: 0 is less than 1"),
        ({"minDomains": 0}, "minDomains: 0 is less than 1"),
        ({"topologyKey": ""}, "topologyKey: is empty"),
        ({"whenUnsatisfiable": "Never"}, "whenUnsatisfiable: 'Never' is not DoNotSchedule or ScheduleAnyway"),
        ({"nodeTaintsPolicy": "Maybe"}, "nodeTaintsPolicy: 'Maybe' is not Honor or Ignore"),
        (
            {"minDomains": 2, "whenUnsatisfiable": "ScheduleAnyway"},
            "minDomains: needs whenUnsatisfiable: DoNotSchedule",
        ),
        ({"matchLabelKeys": ["k"], "labelSelector": None}, "matchLabelKeys: needs a labelSelector"),
    ],
)
def test_errors_name_the_field(changed: dict[str, Any], error: str) -> None:
    assert shape({**SELECTED, **changed}).invalid == (f"spec.topologySpreadConstraints[0].{error}",)
