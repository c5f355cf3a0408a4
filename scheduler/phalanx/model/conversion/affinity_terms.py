"""Required pod affinity and anti-affinity, as pods write them."""

from collections.abc import Iterator, Mapping
from typing import Final

from phalanx.model.api import core
from phalanx.model.api.meta import LabelSelector, ObjectMeta
from phalanx.model.pods import AffinityTerm, AffinityTerms, Requirement, Term

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_VALUES: Final = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}
"""Per operator, whether it takes values."""


def read_pod_terms(
    affinity: core.PodAffinity | None, field: str, meta: ObjectMeta, wrong: list[str]
) -> AffinityTerms:
    """Each term once, in a fixed order; what makes no sense is appended to `wrong`.

    `matchLabelKeys` become requirements on the pod's own labels, as the API server makes them.
    """
    terms = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else ()
    read = {
        _read(term, f"spec.affinity.{field}.{_REQUIRED}[{index}]", meta, wrong)
        for index, term in enumerate(terms)
    }
    return tuple(sorted(read, key=repr))


def per_pod_labels(affinity: core.Affinity | None, labels: Mapping[str, str]) -> tuple[object, ...]:
    """What of a pod's own labels its terms depend on."""
    parts = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ()
    return tuple(
        (key, labels.get(key))
        for part in parts
        if part is not None
        for term in part.required_during_scheduling_ignored_during_execution
        for key in (*term.match_label_keys, *term.mismatch_label_keys)
    )


def keys_of(terms: AffinityTerms) -> tuple[str, ...]:
    """The keys of the labels that these terms look at."""
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
    """The requirements, each once, in a fixed order; what makes no sense is appended to `wrong`."""
    if selector is None:
        return None
    for index, requirement in enumerate(selector.match_expressions):
        at = f"{path}.matchExpressions[{index}]"
        takes_values = _VALUES.get(requirement.operator)
        if takes_values is None:
            wrong.append(f"{at}.operator: {requirement.operator!r} is not an operator here")
        elif takes_values != bool(requirement.values):
            wrong.append(
                f"{at}.values: {len(requirement.values)} values do not go with {requirement.operator}"
            )
    equal = (Requirement(key, "In", (value,)) for key, value in selector.match_labels.items())
    others = (
        Requirement(each.key, each.operator, tuple(sorted(set(each.values))))
        for each in selector.match_expressions
    )
    return Term(tuple(sorted(dict.fromkeys((*equal, *others)), key=repr)))
