"""Conversion of node selectors, affinity terms, tolerations and label selectors of pods and volumes.

Of a field with more than POD_TERMS_MAX terms only the first ones are read, and it is an error: a waiting pod
is refused. A pod that has a node cannot be refused: `read_anti_affinity` says which pods it keeps away.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

from phalanx.limits import POD_TERMS_MAX
from phalanx.model.api import core
from phalanx.model.api.meta import LabelSelector, ObjectMeta
from phalanx.model.pods import (
    AffinityTerm,
    AffinityTerms,
    Requirement,
    Term,
    Toleration,
    WeightedPodTerm,
    WeightedTerm,
)

_ANY: Final = 1 << 31
_VALUE_COUNTS: Final = {
    "In": (1, _ANY),
    "NotIn": (1, _ANY),
    "Exists": (0, 0),
    "DoesNotExist": (0, 0),
    "Gt": (1, 1),
    "Lt": (1, 1),
}
"""Minimum and maximum number of values per operator."""

_FIELD: Final = "metadata.name"
_INT64_END: Final = 1 << 63
_INTEGER: Final = re.compile(r"[+-]?(?=[0-9])0*([0-9]{0,19})", re.ASCII)
_EFFECTS: Final = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_WEIGHTS: Final = range(1, 101)

T = TypeVar("T")


def bounded(terms: tuple[T, ...], path: str, wrong: list[str]) -> tuple[T, ...]:
    """The terms that are read; an error is appended to `wrong` if there are more."""
    if len(terms) > POD_TERMS_MAX:
        wrong.append(f"{path}: {len(terms)} terms, at most {POD_TERMS_MAX} are supported")
    return terms[:POD_TERMS_MAX]


def read_selector(selector: core.NodeSelector, path: str, wrong: list[str]) -> tuple[Term, ...]:
    """The alternatives of a required selector. Without alternatives it matches no node, as an empty term."""
    terms = (
        read_term(term, f"{path}.nodeSelectorTerms[{index}]", wrong)
        for index, term in enumerate(
            bounded(selector.node_selector_terms, f"{path}.nodeSelectorTerms", wrong)
        )
    )
    return tuple(terms) or (Term(),)


def read_preferred(
    terms: tuple[core.PreferredSchedulingTerm, ...], path: str, wrong: list[str]
) -> tuple[WeightedTerm, ...]:
    terms = bounded(terms, path, wrong)
    _check_weights(terms, path, wrong)
    return tuple(
        WeightedTerm(
            weight=term.weight, term=read_term(term.preference, f"{path}[{index}].preference", wrong)
        )
        for index, term in enumerate(terms)
    )


def _check_weights(
    terms: Sequence[core.PreferredSchedulingTerm | core.WeightedPodAffinityTerm], path: str, wrong: list[str]
) -> None:
    for index, term in enumerate(terms):
        if term.weight not in _WEIGHTS:
            wrong.append(f"{path}[{index}].weight: {term.weight} is not between 1 and 100")


def read_term(term: core.NodeSelectorTerm, path: str, wrong: list[str]) -> Term:
    """Convert one term. Errors are appended to `wrong` as "path: error"."""
    for field, requirements in (
        ("matchExpressions", term.match_expressions),
        ("matchFields", term.match_fields),
    ):
        for index, requirement in enumerate(requirements):
            fault = _fault(requirement, on_field=field == "matchFields")
            if fault:
                wrong.append(f"{path}.{field}[{index}].{fault}")
    on_labels = (_requirement(requirement, on_field=False) for requirement in term.match_expressions)
    on_fields = (_requirement(requirement, on_field=True) for requirement in term.match_fields)
    return Term(requirements=(*on_labels, *on_fields))


def _requirement(requirement: core.NodeSelectorRequirement, *, on_field: bool) -> Requirement:
    return Requirement(
        key=requirement.key, operator=requirement.operator, values=requirement.values, on_field=on_field
    )


def _fault(requirement: core.NodeSelectorRequirement, *, on_field: bool) -> str:
    """The error that the API server would report for this requirement; empty for none."""
    operator, values = requirement.operator, requirement.values
    fewest, most = _VALUE_COUNTS.get(operator, (_ANY, 0))
    if fewest == _ANY or (on_field and operator not in ("In", "NotIn")):
        return f"operator: {operator!r} is not a valid operator"
    if on_field and requirement.key != _FIELD:
        return f"key: {requirement.key!r} is not a field that can be selected, expected {_FIELD}"
    if not fewest <= len(values) <= (1 if on_field else most):
        return f"values: {len(values)} values do not match operator {operator}"
    if operator in ("Gt", "Lt") and not _is_integer(values[0]):
        return f"values[0]: {values[0]!r} is not an integer"
    return ""


def _is_integer(text: str) -> bool:
    """Whether Go parses it as a 64-bit integer."""
    form = _INTEGER.fullmatch(text)
    return form is not None and int(form[1] or "0") < _INT64_END


def read_tolerations(
    tolerations: tuple[core.Toleration, ...], wrong: list[str], unsupported: list[str]
) -> tuple[Toleration, ...]:
    """All tolerations, each once, in canonical order: their order has no meaning."""
    for index, toleration in enumerate(tolerations):
        path = f"spec.tolerations[{index}]"
        if toleration.operator in ("Lt", "Gt"):
            unsupported.append(f"{path}.operator")
        elif toleration.operator not in ("", "Equal", "Exists"):
            wrong.append(f"{path}.operator: {toleration.operator!r} is not a valid operator")
        elif not toleration.key and toleration.operator != "Exists":
            wrong.append(f"{path}.operator: must be Exists where there is no key")
        if toleration.effect not in _EFFECTS:
            wrong.append(f"{path}.effect: {toleration.effect!r} is not a valid effect")
    each = {(t.key, t.operator or "Equal", t.value, t.effect) for t in tolerations}
    return tuple(Toleration(*toleration) for toleration in sorted(each))


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_VALUES: Final = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}
"""Whether each operator has values."""


def read_pod_terms(
    affinity: core.PodAffinity | None, field: str, meta: ObjectMeta, wrong: list[str]
) -> AffinityTerms:
    """The terms in canonical order. Errors are appended to `wrong`.

    A term that is written twice occurs twice: as a preference of a pod that runs, it has twice the weight.
    `matchLabelKeys` become requirements on the pod's own labels, as in the API server.
    """
    terms = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else ()
    path = f"spec.affinity.{field}.{_REQUIRED}"
    read = [
        _read(term, f"{path}[{index}]", meta, wrong) for index, term in enumerate(bounded(terms, path, wrong))
    ]
    return tuple(sorted(read, key=repr))


def read_anti_affinity(
    affinity: core.PodAffinity | None, meta: ObjectMeta, wrong: list[str]
) -> AffinityTerms:
    """The terms of required anti-affinity in canonical order. Errors are appended to `wrong`.

    Beyond POD_TERMS_MAX terms, a pod that has a node keeps away all pods of its own namespace, and none of
    others: by the first topology keys of its terms, in the order of their names.
    """
    terms = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else ()
    read = read_pod_terms(affinity, "podAntiAffinity", meta, wrong)
    if len(terms) <= POD_TERMS_MAX:
        return read
    keys = sorted({term.topology_key for term in terms})[:POD_TERMS_MAX]
    return tuple(AffinityTerm(key, selector=Term(), namespaces=(meta.namespace,)) for key in keys)


def read_preferred_pod_terms(
    affinity: core.Affinity, meta: ObjectMeta, wrong: list[str]
) -> tuple[WeightedPodTerm, ...]:
    """The preferred terms in canonical order, those of anti-affinity with negative weights."""
    read = []
    for part, field, sign in (
        (affinity.pod_affinity, "podAffinity", 1),
        (affinity.pod_anti_affinity, "podAntiAffinity", -1),
    ):
        terms = part.preferred_during_scheduling_ignored_during_execution if part is not None else ()
        path = f"spec.affinity.{field}.{_PREFERRED}"
        terms = bounded(terms, path, wrong)
        _check_weights(terms, path, wrong)
        read += [
            WeightedPodTerm(
                sign * each.weight,
                _read(each.pod_affinity_term, f"{path}[{index}].podAffinityTerm", meta, wrong),
            )
            for index, each in enumerate(terms)
        ]
    return tuple(sorted(read, key=repr))


def per_pod_labels(affinity: core.Affinity, labels: Mapping[str, str]) -> tuple[object, ...]:
    """The values of the pod's own labels on which its terms depend."""
    parts = (affinity.pod_affinity, affinity.pod_anti_affinity)
    return tuple(
        (key, labels.get(key))
        for part in parts
        if part is not None
        for term in (
            *part.required_during_scheduling_ignored_during_execution,
            *(each.pod_affinity_term for each in part.preferred_during_scheduling_ignored_during_execution),
        )
        for key in (*term.match_label_keys, *term.mismatch_label_keys)
    )


def keys_of(terms: AffinityTerms) -> tuple[str, ...]:
    """Keys of the labels that these terms select by."""
    selectors = (term.selector for term in terms if term.selector is not None)
    return tuple(dict.fromkeys(each.key for selector in selectors for each in selector.requirements))


def _read(term: core.PodAffinityTerm, path: str, meta: ObjectMeta, wrong: list[str]) -> AffinityTerm:
    if not term.topology_key:
        wrong.append(f"{path}.topologyKey: is empty")
    selector = read_label_selector(term.label_selector, f"{path}.labelSelector", wrong)
    if selector is not None:
        own = (*selector.requirements, *_own(term, meta.labels))
        selector = Term(tuple(sorted(dict.fromkeys(own), key=repr)))
    elif term.match_label_keys or term.mismatch_label_keys:
        wrong.append(f"{path}.matchLabelKeys: needs a labelSelector")
    named = term.namespaces or (() if term.namespace_selector is not None else (meta.namespace,))
    return AffinityTerm(
        topology_key=term.topology_key,
        selector=selector,
        namespaces=tuple(sorted(set(named))),
        namespace_selector=read_label_selector(term.namespace_selector, f"{path}.namespaceSelector", wrong),
    )


def _own(term: core.PodAffinityTerm, labels: Mapping[str, str]) -> Iterator[Requirement]:
    for operator, keys in (("In", term.match_label_keys), ("NotIn", term.mismatch_label_keys)):
        for key in keys:
            if key in labels:
                yield Requirement(key=key, operator=operator, values=(labels[key],))


def read_label_selector(selector: LabelSelector | None, path: str, wrong: list[str]) -> Term | None:
    """The requirements, each once, in canonical order. Errors are appended to `wrong`."""
    if selector is None:
        return None
    for index, requirement in enumerate(selector.match_expressions):
        at = f"{path}.matchExpressions[{index}]"
        takes_values = _VALUES.get(requirement.operator)
        if takes_values is None:
            wrong.append(f"{at}.operator: {requirement.operator!r} is not a valid operator")
        elif takes_values != bool(requirement.values):
            wrong.append(
                f"{at}.values: {len(requirement.values)} values do not match operator {requirement.operator}"
            )
    equal = (Requirement(key, "In", (value,)) for key, value in selector.match_labels.items())
    others = (
        Requirement(each.key, each.operator, tuple(sorted(set(each.values))))
        for each in selector.match_expressions
    )
    return Term(tuple(sorted(dict.fromkeys((*equal, *others)), key=repr)))
