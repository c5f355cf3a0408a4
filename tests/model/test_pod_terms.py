"""Required terms of pod affinity and anti-affinity are read, and invalid ones are reported."""

from typing import Any

import pytest
from phalanx.limits import POD_TERMS_MAX
from phalanx.model.conversion.shapes import ShapeCache, read_shape
from phalanx.model.pods import AffinityTerm, PodShape, Requirement, Term

from tests.model.written import pod

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PATH = f"spec.affinity.podAntiAffinity.{REQUIRED}[0]"


def shape(*terms: dict[str, Any], **rest: Any) -> PodShape:
    return read_shape(pod(affinity={"podAntiAffinity": {REQUIRED: list(terms)}}, **rest))


def test_a_term_selects_pods_of_its_own_namespace_by_default() -> None:
    (own,) = shape({"topologyKey": "k"}).anti_affinity
    (named,) = shape({"topologyKey": "k", "namespaces": ["b", "a"]}).anti_affinity
    (selected,) = shape({"topologyKey": "k", "namespaceSelector": {}}).anti_affinity
    assert (own.namespaces, own.namespace_selector) == (("team",), None)
    assert (named.namespaces, named.namespace_selector) == (("a", "b"), None)
    assert (selected.namespaces, selected.namespace_selector) == ((), Term())
    assert shape({"topologyKey": "k"}).key != shape({"topologyKey": "k"}, namespace="other").key


def test_the_order_of_terms_and_requirements_does_not_matter() -> None:
    one = {
        "matchLabels": {"a": "1"},
        "matchExpressions": [{"key": "b", "operator": "In", "values": ["2", "3"]}],
    }
    same = {
        "matchExpressions": [
            {"key": "b", "operator": "In", "values": ["3", "2"]},
            {"key": "a", "operator": "In", "values": ["1"]},
        ]
    }
    first, second = ({"topologyKey": key, "labelSelector": one} for key in "kl")
    assert shape(first, second).key == shape(second, {**first, "labelSelector": same}).key


@pytest.mark.parametrize(("field", "operator"), [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")])
def test_match_label_keys_become_requirements_on_the_label_values_of_the_pod(
    field: str, operator: str
) -> None:
    term = {"topologyKey": "k", "labelSelector": {}, field: ["run", "absent"]}
    (read,) = shape(term, labels={"run": "7"}).anti_affinity
    assert read.selector == Term((Requirement("run", operator, ("7",)),))
    shapes = ShapeCache()
    keys = {
        shapes.of(pod(affinity={"podAntiAffinity": {REQUIRED: [term]}}, labels={"run": run})).key
        for run in ("7", "7", "8")
    }
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("term", "wrong"),
    [
        ({}, f"{PATH}.topologyKey: is empty"),
        (
            {"topologyKey": "k", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}},
            f"{PATH}.labelSelector.matchExpressions[0].operator: 'Gt' is not a valid operator",
        ),
        (
            {"topologyKey": "k", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            f"{PATH}.labelSelector.matchExpressions[0].values: 0 values do not match operator In",
        ),
        (
            {"topologyKey": "k", "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "x"}]}},
            f"{PATH}.namespaceSelector.matchExpressions[0].operator: 'x' is not a valid operator",
        ),
        ({"topologyKey": "k", "matchLabelKeys": ["a"]}, f"{PATH}.matchLabelKeys: needs a labelSelector"),
    ],
)
def test_invalid_fields_are_reported(term: dict[str, Any], wrong: str) -> None:
    assert shape(term).invalid == (wrong,)


def preferring(field: str, weight: int, term: dict[str, Any], **rest: Any) -> PodShape:
    one = {"weight": weight, "podAffinityTerm": term}
    return read_shape(pod(affinity={field: {PREFERRED: [one]}}, **rest))


def test_preferred_terms_have_the_sign_of_their_kind() -> None:
    term = {"topologyKey": "k", "labelSelector": {"matchLabels": {"a": "1"}}}
    (near,) = preferring("podAffinity", 7, term).preferred_pod_terms
    (apart,) = preferring("podAntiAffinity", 7, term).preferred_pod_terms
    (required,) = shape(term).anti_affinity
    assert (near.weight, apart.weight) == (7, -7)
    assert near.term == apart.term == required
    assert preferring("podAffinity", 7, term).key != preferring("podAffinity", 8, term).key


def test_a_preferred_term_counts_as_often_as_it_is_written() -> None:
    one = {"weight": 3, "podAffinityTerm": {"topologyKey": "k"}}
    read = read_shape(pod(affinity={"podAffinity": {PREFERRED: [one, one]}}))
    assert [each.weight for each in read.preferred_pod_terms] == [3, 3]


def test_match_label_keys_of_preferred_terms_distinguish_pods() -> None:
    term = {"topologyKey": "k", "labelSelector": {}, "matchLabelKeys": ["run"]}
    affinity = {"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}}
    shapes = ShapeCache()
    found = [shapes.of(pod(affinity=affinity, labels={"run": run})) for run in "778"]
    assert found[0] is found[1]
    assert found[1].key != found[2].key
    assert found[2].preferred_pod_terms[0].term.selector == Term((Requirement("run", "In", ("8",)),))


@pytest.mark.parametrize(
    ("weight", "term", "wrong"),
    [
        (0, {"topologyKey": "k"}, "[0].weight: 0 is not between 1 and 100"),
        (101, {"topologyKey": "k"}, "[0].weight: 101 is not between 1 and 100"),
        (1, {}, "[0].podAffinityTerm.topologyKey: is empty"),
        (
            1,
            {"topologyKey": "k", "matchLabelKeys": ["a"]},
            "[0].podAffinityTerm.matchLabelKeys: needs a labelSelector",
        ),
    ],
)
def test_invalid_fields_of_preferred_terms_are_reported(
    weight: int, term: dict[str, Any], wrong: str
) -> None:
    found = preferring("podAffinity", weight, term)
    assert found.invalid == (f"spec.affinity.podAffinity.{PREFERRED}{wrong}",)


def test_equal_labels_share_one_object() -> None:
    shapes = ShapeCache()
    index = "batch.kubernetes.io/job-completion-index"
    pods = [pod(labels={"b": "2", "a": "1", index: number}) for number in "011"]
    read = [shapes.labels_of(each) for each in pods]
    assert read[0][0] is read[1][0] is read[2][0]
    assert read[0][1] is not read[1][1] is read[2][1]
    assert (read[0][0].pairs, read[0][1].pairs) == ((("a", "1"), ("b", "2")), ((index, "0"),))


def test_more_terms_than_are_supported_are_refused_with_the_field() -> None:
    term = {"topologyKey": "k"}
    weighted = {"weight": 1, "podAffinityTerm": term}
    node = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    too_many = POD_TERMS_MAX + 1
    affinity = {
        "podAffinity": {REQUIRED: [term] * too_many, PREFERRED: [weighted] * too_many},
        "podAntiAffinity": {REQUIRED: [term] * too_many, PREFERRED: [weighted] * too_many},
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [node] * too_many},
            PREFERRED: [{"weight": 1, "preference": node}] * too_many,
        },
    }
    spread = {"topologyKey": "k", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    read = read_shape(pod(affinity=affinity, topologySpreadConstraints=[spread] * too_many))
    fields = [fault.partition(":")[0].removeprefix("spec.") for fault in read.invalid]
    assert sorted(fields) == [
        f"affinity.nodeAffinity.{PREFERRED}",
        f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms",
        f"affinity.podAffinity.{PREFERRED}",
        f"affinity.podAffinity.{REQUIRED}",
        f"affinity.podAntiAffinity.{PREFERRED}",
        f"affinity.podAntiAffinity.{REQUIRED}",
        "topologySpreadConstraints",
    ]
    assert "101 terms, at most 100 are supported" in read.invalid[0]
    assert not shape(*[term] * POD_TERMS_MAX).invalid


def test_a_pod_with_more_anti_affinity_than_is_supported_keeps_away_all_pods_of_its_namespace() -> None:
    terms = [
        {
            "topologyKey": f"k{index % 2}",
            "namespaceSelector": {},
            "labelSelector": {"matchLabels": {"a": "b"}},
        }
        for index in range(POD_TERMS_MAX + 1)
    ]
    assert shape(*terms).anti_affinity == tuple(
        AffinityTerm(key, selector=Term(), namespaces=("team",)) for key in ("k0", "k1")
    )
