"""Selectors, affinity, taints and tolerations as the API server validates them.

Source: k8s.io/kubernetes, pkg/apis/core/validation, and k8s.io/apimachinery, pkg/apis/meta/v1/validation.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from phalanx.cli.manifests.findings import Finding, shown
from phalanx.cli.manifests.formats import (
    DNS_LABEL,
    DNS_SUBDOMAIN,
    LABEL_KEY,
    LABEL_VALUE,
    is_dns_label,
    is_dns_subdomain,
    is_label_value,
    is_qualified_name,
    wrong,
    wrong_labels,
)

Object = Mapping[str, Any]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_NODE_NAME: Final = "metadata.name"
"""The only field of nodes by which terms may select."""


def of_label_selector(selector: Object, path: str) -> Iterator[Finding]:
    """The findings about a selector of pods, namespaces or anything else with labels."""
    yield from wrong_labels(selector.get("matchLabels", {}), f"{path}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions", ())):
        yield from _of_requirement(requirement, f"{path}.matchExpressions[{index}]")


def of_affinity(affinity: Object, pod_labels: Object, path: str) -> Iterator[Finding]:
    """The findings about all affinities of a pod."""
    nodes = affinity.get("nodeAffinity", {})
    if _REQUIRED in nodes:
        yield from of_node_selector(nodes[_REQUIRED], f"{path}.nodeAffinity.{_REQUIRED}")
    for index, preferred in enumerate(nodes.get(_PREFERRED, ())):
        at = f"{path}.nodeAffinity.{_PREFERRED}[{index}].preference"
        yield from _of_node_term(preferred.get("preference", {}), at, any_values=True)
    for kind in ("podAffinity", "podAntiAffinity"):
        for index, term in enumerate(affinity.get(kind, {}).get(_REQUIRED, ())):
            yield from _of_pod_term(term, pod_labels, f"{path}.{kind}.{_REQUIRED}[{index}]")
        for index, preferred in enumerate(affinity.get(kind, {}).get(_PREFERRED, ())):
            at = f"{path}.{kind}.{_PREFERRED}[{index}].podAffinityTerm"
            yield from _of_pod_term(preferred.get("podAffinityTerm", {}), pod_labels, at)


def of_node_selector(selector: Object, path: str) -> Iterator[Finding]:
    """The findings about terms that select nodes."""
    terms = selector.get("nodeSelectorTerms", ())
    if not terms:
        yield Finding(f"{path}.nodeSelectorTerms", "at least one term", "none")
    for index, term in enumerate(terms):
        yield from _of_node_term(term, f"{path}.nodeSelectorTerms[{index}]", any_values=False)


def of_taints(taints: Sequence[Object], path: str) -> Iterator[Finding]:
    """The findings about the taints of a node."""
    seen = set()
    for index, taint in enumerate(taints):
        at = f"{path}[{index}]"
        yield from wrong(taint["key"], f"{at}.key", is_qualified_name, LABEL_KEY)
        yield from wrong(taint.get("value"), f"{at}.value", is_label_value, LABEL_VALUE)
        pair = (taint["key"], taint["effect"])
        if pair in seen:
            yield Finding(at, "each pair of key and effect once", f"{taint['key']}:{taint['effect']} again")
        seen.add(pair)


def of_tolerations(tolerations: Iterable[Object], path: str) -> Iterator[Finding]:
    """The findings about the tolerations of a pod."""
    for index, toleration in enumerate(tolerations):
        at = f"{path}[{index}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value = toleration.get("value", "")
        yield from wrong(key or None, f"{at}.key", is_qualified_name, LABEL_KEY)
        if not key and operator != "Exists":
            yield Finding(f"{at}.operator", "Exists, because there is no key", shown(operator or None))
        if operator == "Exists" and value:
            yield Finding(f"{at}.value", "nothing beside operator Exists", shown(value))
        elif operator in ("", "Equal"):
            yield from wrong(value, f"{at}.value", is_label_value, LABEL_VALUE)
        elif operator in ("Lt", "Gt") and not _is_int64(value):
            yield Finding(f"{at}.value", "a whole number of 64 bits", shown(value))
        if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
            expected = "NoExecute, because there are tolerationSeconds"
            yield Finding(f"{at}.effect", expected, shown(toleration.get("effect")))


def _is_int64(text: str) -> bool:
    digits = text.removeprefix("-")
    is_decimal = digits.isascii() and digits.isdigit() and (digits == "0" or not digits.startswith("0"))
    return is_decimal and text != "-0" and len(digits) < 20 and -(1 << 63) <= int(text) < 1 << 63


def _of_requirement(requirement: Object, path: str, *, any_values: bool = False) -> Iterator[Finding]:
    """The rules that hold for labels of nodes too; schemas check operators and the number of values."""
    yield from wrong(requirement["key"], f"{path}.key", is_qualified_name, LABEL_KEY)
    for index, value in enumerate(() if any_values else requirement.get("values", ())):
        yield from wrong(value, f"{path}.values[{index}]", is_label_value, LABEL_VALUE)


def _of_node_term(term: Object, path: str, *, any_values: bool) -> Iterator[Finding]:
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        yield from _of_requirement(requirement, f"{path}.matchExpressions[{index}]", any_values=any_values)
    for index, requirement in enumerate(term.get("matchFields", ())):
        yield from _of_field(requirement, f"{path}.matchFields[{index}]")


def _of_field(requirement: Object, path: str) -> Iterator[Finding]:
    values = requirement.get("values", ())
    if requirement["key"] != _NODE_NAME:
        yield Finding(f"{path}.key", _NODE_NAME, shown(requirement["key"]))
    elif requirement["operator"] not in ("In", "NotIn"):
        yield Finding(f"{path}.operator", "In or NotIn", shown(requirement["operator"]))
    elif len(values) != 1:
        yield Finding(f"{path}.values", "one name of a node", f"{len(values)}")
    else:
        yield from wrong(values[0], f"{path}.values[0]", is_dns_subdomain, DNS_SUBDOMAIN)


def _of_pod_term(term: Object, pod_labels: Object, path: str) -> Iterator[Finding]:
    for name in ("labelSelector", "namespaceSelector"):
        yield from of_label_selector(term.get(name, {}), f"{path}.{name}")
    for index, namespace in enumerate(term.get("namespaces", ())):
        yield from wrong(namespace, f"{path}.namespaces[{index}]", is_dns_label, DNS_LABEL)
    yield from wrong(term.get("topologyKey", ""), f"{path}.topologyKey", is_qualified_name, LABEL_KEY)
    yield from _of_label_keys(term, pod_labels, path)


def _of_label_keys(term: Object, pod_labels: Object, path: str) -> Iterator[Finding]:
    """`matchLabelKeys` and `mismatchLabelKeys` add to the label selector, which must exist."""
    lists = {name: term.get(name, ()) for name in ("matchLabelKeys", "mismatchLabelKeys")}
    for name, keys in lists.items():
        if keys and "labelSelector" not in term:
            yield Finding(f"{path}.{name}", "a labelSelector beside it", "none")
        for index, key in enumerate(keys):
            yield from wrong(key, f"{path}.{name}[{index}]", is_qualified_name, LABEL_KEY)
    selector = term.get("labelSelector", {})
    selected = {*selector.get("matchLabels", {})}
    selected.update(each["key"] for each in selector.get("matchExpressions", ()))
    for index, key in enumerate(lists["matchLabelKeys"]):
        at = f"{path}.matchLabelKeys[{index}]"
        if key in lists["mismatchLabelKeys"]:
            yield Finding(at, "a key that is not in mismatchLabelKeys", shown(key))
        elif key in selected and key in pod_labels:
            yield Finding(at, "a key that is not in labelSelector", shown(key))
        elif key in lists["matchLabelKeys"][:index] and key in pod_labels:
            yield Finding(at, "each key once", f"{shown(key)} again")
