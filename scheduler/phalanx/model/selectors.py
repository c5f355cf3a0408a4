"""Evaluation of Kubernetes selectors on labels."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from phalanx.model.nodes import Node
from phalanx.model.pods import AffinityTerm, AffinityTerms, Requirement, Term

_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_INT64_MAX: Final = (1 << 63) - 1


def node_matches_any(node: Node, terms: Iterable[Term]) -> bool:
    """Whether one of the alternative terms matches this node."""
    return any(node_matches(node, term) for term in terms)


def node_matches(node: Node, term: Term) -> bool:
    """Whether all requirements hold. An empty term matches no node. The only field is `metadata.name`."""
    fields = {"metadata.name": node.name}
    return bool(term.requirements) and all(
        holds(requirement, fields if requirement.on_field else node.labels)
        for requirement in term.requirements
    )


def labels_match(labels: Mapping[str, str], term: Term) -> bool:
    """Whether all requirements of a label selector hold. An empty selector matches everything."""
    return all(holds(requirement, labels) for requirement in term.requirements)


def affinity_term_matches(
    term: AffinityTerm, namespace: str, labels: Mapping[str, str], namespaces: Mapping[str, Mapping[str, str]]
) -> bool:
    """Whether a term of pod affinity selects pods of this namespace with these labels."""
    selector = term.namespace_selector
    in_namespace = namespace in term.namespaces or (
        selector is not None and labels_match(namespaces.get(namespace, {}), selector)
    )
    return in_namespace and term.selector is not None and labels_match(labels, term.selector)


def required_label_pairs(terms: AffinityTerms) -> list[tuple[str, str] | None]:
    """Labels of which every selected pod has one. None stands for a term that requires no particular
    label."""
    for term in terms:
        for each in term.selector.requirements if term.selector is not None else ():
            if each.operator == "In":
                return [(each.key, value) for value in each.values]
    return [None]


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Evaluate one requirement. An operator that Kubernetes does not have never holds."""
    operator = _OPERATORS.get(requirement.operator)
    return operator is not None and operator(labels.get(requirement.key), requirement.values)


def _greater(value: str | None, values: tuple[str, ...]) -> bool:
    left, right = _number(value), _number(values[0]) if len(values) == 1 else None
    return left is not None and right is not None and left > right


def _less(value: str | None, values: tuple[str, ...]) -> bool:
    left, right = _number(value), _number(values[0]) if len(values) == 1 else None
    return left is not None and right is not None and left < right


def _number(text: str | None) -> int | None:
    """A 64-bit integer as Kubernetes parses it, None for anything else."""
    if text is None or not _WHOLE_NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if -_INT64_MAX - 1 <= number <= _INT64_MAX else None


_OPERATORS: Final[Mapping[str, Callable[[str | None, tuple[str, ...]], bool]]] = {
    "In": lambda value, values: value is not None and value in values,
    "NotIn": lambda value, values: value is None or value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": _greater,
    "Lt": _less,
}
