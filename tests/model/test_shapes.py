"""Pod shapes: equal pods share one; unsupported and invalid fields are reported."""

import gc
from typing import Any

import pytest
from phalanx.model.conversion.shapes import ShapeCache, read_shape
from phalanx.model.pods import Requirement, Term, Toleration, WeightedTerm

from tests.model.written import pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def test_pods_of_one_template_share_one_shape() -> None:
    shapes = ShapeCache()
    first = shapes.of(pod("a", requests={"cpu": "1"}))
    assert shapes.of(pod("b", requests={"cpu": "1"})) is first
    assert len(shapes) == 1


def test_equivalent_manifests_share_one_shape() -> None:
    shapes = ShapeCache()
    one = pod(
        requests={"cpu": "1", "memory": "1Gi"},
        nodeSelector={"a": "1", "b": "2"},
        tolerations=[{"key": "x", "operator": "Exists"}, {"key": "y"}],
        volumes=[{"name": "v-1", "configMap": {"name": "c"}}],
    )
    other = pod(
        requests={"memory": 2**30, "cpu": "1000m"},
        nodeSelector={"b": "2", "a": "1"},
        tolerations=[{"key": "y", "operator": "Equal"}, {"key": "x", "operator": "Exists"}],
        volumes=[{"name": "v-2", "emptyDir": {}}],
    )
    assert shapes.of(one) is shapes.of(other)


DIFFERENT: list[dict[str, Any]] = [
    {},
    {"requests": {"cpu": "1"}},
    {"requests": {"cpu": "2"}},
    {"nodeSelector": {"a": "1"}},
    {"tolerations": [{"key": "a"}]},
    {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}},
    {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {}}]}}},
    {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 2, "preference": {}}]}}},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {}}]},
    {"overhead": {"cpu": "1m"}},
]


def test_each_scheduling_field_changes_the_shape() -> None:
    shapes = ShapeCache()
    kept = [shapes.of(pod(**spec)) for spec in DIFFERENT]
    assert len({shape.key for shape in kept}) == len(DIFFERENT)
    assert len(shapes) == len(DIFFERENT)


def test_neither_the_namespace_nor_the_names_of_claims_matter() -> None:
    """Pods of a StatefulSet, whose claims have a name for each pod, share one shape."""
    mounts = [[{"name": "v", "persistentVolumeClaim": {"claimName": name}}] for name in "ab"]
    one, other = (pod(namespace=volumes[0]["name"] + "x", volumes=volumes) for volumes in mounts)
    assert read_shape(one) == read_shape(other) == read_shape(pod(namespace="b"))


def test_an_unused_shape_is_removed_from_the_cache() -> None:
    shapes = ShapeCache()
    kept = shapes.of(pod())
    shapes.of(pod(requests={"cpu": "1"}))
    gc.collect()
    assert len(shapes) == 1
    assert shapes.of(pod()) is kept


def test_affinity_and_tolerations_are_read() -> None:
    expression = {"key": "gpu", "operator": "In", "values": ["h100", "b200"]}
    field = {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}
    shape = read_shape(
        pod(
            nodeSelector={"zone": "a", "disk": "ssd"},
            affinity={
                "nodeAffinity": {
                    REQUIRED: {
                        "nodeSelectorTerms": [{"matchExpressions": [expression], "matchFields": [field]}, {}]
                    },
                    PREFERRED: [{"weight": 7, "preference": {"matchExpressions": [expression]}}],
                }
            },
            tolerations=[{"key": "b", "value": "1", "effect": "NoSchedule"}, {"operator": "Exists"}],
        )
    )
    gpu = Requirement(key="gpu", operator="In", values=("h100", "b200"))
    other_node = Requirement(key="metadata.name", operator="NotIn", values=("n1",), on_field=True)
    assert shape.node_selector == (("disk", "ssd"), ("zone", "a"))
    assert shape.required_affinity == (Term((gpu, other_node)), Term())
    assert shape.preferred_affinity == (WeightedTerm(weight=7, term=Term((gpu,))),)
    assert shape.tolerations == (Toleration("", "Exists"), Toleration("b", "Equal", "1", "NoSchedule"))
    assert not shape.unsupported
    assert not shape.invalid


def test_a_required_selector_without_terms_matches_no_node() -> None:
    shape = read_shape(pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}))
    assert shape.required_affinity == (Term(),)


TERM = {"topologyKey": "kubernetes.io/hostname"}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
HARD_SPREAD = {**SPREAD, "whenUnsatisfiable": "DoNotSchedule"}
UNSUPPORTED: list[tuple[dict[str, Any], list[str]]] = [
    ({"affinity": {"podAffinity": {REQUIRED: [TERM]}}}, []),
    ({"affinity": {"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": TERM}]}}}, []),
    ({"affinity": {"podAntiAffinity": {REQUIRED: [TERM]}}}, []),
    ({"affinity": {"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": TERM}]}}}, []),
    ({"affinity": {"podAntiAffinity": {}, "podAffinity": {REQUIRED: []}}}, []),
    (
        {"topologySpreadConstraints": [HARD_SPREAD, SPREAD]},
        [],
    ),
    ({"topologySpreadConstraints": [HARD_SPREAD]}, []),
    ({"topologySpreadConstraints": []}, []),
    ({"containers": [{"ports": [{"containerPort": 80}]}, {"ports": [{}, {"hostPort": 80}]}]}, []),
    ({"hostNetwork": True}, []),
    ({"schedulingGroup": {"podGroupName": "g"}}, []),
    ({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}, []),
    ({"schedulingGroup": {"ofALaterRelease": "g"}}, ["spec.schedulingGroup"]),
    ({"workloadRef": {"name": "w", "podGroup": "g"}}, ["spec.workloadRef"]),
    ({"volumes": [{"name": "b", "ephemeral": {"volumeClaimTemplate": {}}}]}, []),
    ({"tolerations": [{"key": "a", "operator": "Gt", "value": "5"}]}, ["spec.tolerations[0].operator"]),
]


@pytest.mark.parametrize(("spec", "paths"), UNSUPPORTED)
def test_unsupported_fields_are_reported(spec: dict[str, Any], paths: list[str]) -> None:
    assert list(read_shape(pod(**spec)).unsupported) == paths


def required(**term: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}, term]}}}}


def expression(operator: str, *values: str, key: str = "k") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


SECOND = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[1]"
INVALID: list[tuple[dict[str, Any], str]] = [
    (required(matchExpressions=[expression("in", "a")]), f"{SECOND}.matchExpressions[0].operator"),
    (required(matchExpressions=[expression("In")]), f"{SECOND}.matchExpressions[0].values"),
    (required(matchExpressions=[expression("NotIn")]), f"{SECOND}.matchExpressions[0].values"),
    (required(matchExpressions=[expression("Exists", "a")]), f"{SECOND}.matchExpressions[0].values"),
    (required(matchExpressions=[expression("Gt", "1", "2")]), f"{SECOND}.matchExpressions[0].values"),
    (required(matchExpressions=[expression("Lt", "1.5")]), f"{SECOND}.matchExpressions[0].values[0]"),
    (required(matchExpressions=[expression("Gt", "１")]), f"{SECOND}.matchExpressions[0].values[0]"),
    (required(matchExpressions=[expression("Gt", "9" * 5000)]), f"{SECOND}.matchExpressions[0].values[0]"),
    (required(matchFields=[expression("Exists", key="metadata.name")]), f"{SECOND}.matchFields[0].operator"),
    (required(matchFields=[expression("In", "a", key="spec.x")]), f"{SECOND}.matchFields[0].key"),
    (
        required(matchFields=[expression("In", "a", "b", key="metadata.name")]),
        f"{SECOND}.matchFields[0].values",
    ),
    (
        {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 101, "preference": {}}]}}},
        f"spec.affinity.nodeAffinity.{PREFERRED}[0].weight",
    ),
    ({"tolerations": [{"key": "a", "operator": "Some"}]}, "spec.tolerations[0].operator"),
    ({"tolerations": [{"value": "a"}]}, "spec.tolerations[0].operator"),
    ({"tolerations": [{"key": "a", "effect": "Never"}]}, "spec.tolerations[0].effect"),
    ({"requests": {"cpu": "a lot"}}, "spec.containers[0].resources.requests[cpu]"),
    (
        {"volumes": [{"name": "v", "persistentVolumeClaim": {}}]},
        "spec.volumes[0].persistentVolumeClaim.claimName",
    ),
]


@pytest.mark.parametrize(("spec", "path"), INVALID)
def test_invalid_fields_are_reported(spec: dict[str, Any], path: str) -> None:
    (fault,) = read_shape(pod(**spec)).invalid
    assert fault.startswith(f"{path}: ")


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
@pytest.mark.parametrize("value", ["0", "-5", "+5", "9223372036854775807"])
def test_gt_and_lt_accept_integers(operator: str, value: str) -> None:
    assert not read_shape(pod(**required(matchExpressions=[expression(operator, value)]))).invalid


@pytest.mark.parametrize("value", ["", "-", "9223372036854775808", "1e3", " 1", "0x1", "1_0"])
def test_gt_refuses_other_values(value: str) -> None:
    assert read_shape(pod(**required(matchExpressions=[expression("Gt", value)]))).invalid
