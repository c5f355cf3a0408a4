"""The CRDs: every value is bounded and described, and short names do not collide with other projects."""

import pytest
from phalanx.model.api.kinds import KINDS

from tests.crds.files import Document, definitions, schema, subschemas, version

SPECS = [("PodGroup", "spec"), ("Queue", "spec"), ("Topology", "spec")]
PARTS = [*SPECS, ("PodGroup", "status"), ("Queue", "status")]

TAKEN_SHORT_NAMES = {"pg", "podgroup-v1beta1", "q", "hn", "vj", "vcjob", "cq", "lq", "rf", "wl", "topo", "eq"}
"""Short names of Volcano, scheduler-plugins, Kueue, KAI and Koordinator."""


def is_bounded(found: Document) -> bool:
    kind = found.get("type")
    if kind == "string":
        return "maxLength" in found or "enum" in found
    if kind == "array":
        return "maxItems" in found and "x-kubernetes-list-type" in found
    if kind == "object":
        return "properties" in found or "maxProperties" in found
    if kind == "integer":
        return "format" in found
    return kind == "boolean" or found.get("x-kubernetes-int-or-string") is True


@pytest.mark.parametrize(("kind", "part"), PARTS)
def test_every_value_has_a_bound(kind: str, part: str) -> None:
    assert [path for path, found in subschemas(schema(kind, part), part) if not is_bounded(found)] == []


@pytest.mark.parametrize(("kind", "part"), SPECS)
def test_numbers_of_a_spec_have_both_bounds(kind: str, part: str) -> None:
    found = [
        (path, each) for path, each in subschemas(schema(kind, part), part) if each.get("type") == "integer"
    ]
    assert [path for path, each in found if not {"minimum", "maximum"} <= each.keys()] == []


@pytest.mark.parametrize(("kind", "part"), PARTS)
def test_every_property_is_described(kind: str, part: str) -> None:
    silent = [
        f"{path}.{name}"
        for path, found in subschemas(schema(kind, part), part)
        for name, child in found.get("properties", {}).items()
        if len(child.get("description", "")) < 8
    ]
    assert silent == []


@pytest.mark.parametrize("kind", ["PodGroup", "Queue", "Topology"])
def test_every_validation_rule_has_a_message(kind: str) -> None:
    whole = version(kind)["schema"]["openAPIV3Schema"]
    rules = [rule for _, each in subschemas(whole, kind) for rule in each.get("x-kubernetes-validations", [])]
    assert rules
    assert all(rule["message"] and "\n" not in rule["rule"] for rule in rules)


def test_short_names_do_not_collide_with_other_projects() -> None:
    ours = [name for each in definitions().values() for name in each["spec"]["names"]["shortNames"]]
    assert len(ours) == len(set(ours)) == 3
    assert not TAKEN_SHORT_NAMES & set(ours)


@pytest.mark.parametrize("kind", ["PodGroup", "Queue", "Topology"])
def test_the_registry_of_kinds_matches_the_crds(kind: str) -> None:
    spec = definitions()[kind]["spec"]
    registered = KINDS[kind]
    assert registered.api_version == f"{spec['group']}/{version(kind)['name']}"
    assert registered.plural == spec["names"]["plural"]
    assert registered.namespaced == (spec["scope"] == "Namespaced")


@pytest.mark.parametrize("kind", ["PodGroup", "Queue"])
def test_the_status_is_a_subresource(kind: str) -> None:
    assert version(kind)["subresources"] == {"status": {}}
