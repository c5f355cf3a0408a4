"""Strategies of node affinity, of pod affinity and anti-affinity, and of topology spread constraints."""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from hypothesis import strategies as st

Document = dict[str, Any]

LABEL_KEYS: Final = ("app", "ver", "pod-template-hash")
_VALUES: Final = ("a", "b", "r1", "r2", "8", "n0", "n1", "")
_NUMBERS: Final = ("1", "5", "8", "007", "9223372036854775807")
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHTS: Final = (1, 2, 5, 50, 100)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


@st.composite
def node_affinity(draw: st.DrawFn, keys: Sequence[str], nodes: Sequence[str]) -> Document:
    """Required terms with all operators, on labels and on the name of the node. A term may be empty."""
    return {_REQUIRED: {"nodeSelectorTerms": draw(st.lists(_node_term(keys, nodes), min_size=1, max_size=3))}}


@st.composite
def preferred_node_affinity(draw: st.DrawFn, keys: Sequence[str], nodes: Sequence[str]) -> Document:
    """The same as preferred terms."""
    preferred = st.fixed_dictionaries(
        {"weight": st.sampled_from(_WEIGHTS), "preference": _node_term(keys, nodes)}
    )
    return {_PREFERRED: draw(st.lists(preferred, max_size=3))}


def _node_term(keys: Sequence[str], nodes: Sequence[str]) -> st.SearchStrategy[Document]:
    key = st.sampled_from(keys)
    several = st.lists(st.sampled_from(_VALUES), min_size=1, max_size=3)
    expression = (
        _requirement(key, ("In", "NotIn"), several)
        | _requirement(key, ("Exists", "DoesNotExist"), None)
        | _requirement(key, ("Gt", "Lt"), st.sampled_from(_NUMBERS).map(lambda number: [number]))
    )
    name = st.sampled_from((*nodes, "n9")).map(lambda node: [node])
    field = _requirement(st.just("metadata.name"), ("In", "NotIn"), name)
    return st.fixed_dictionaries(
        {},
        optional={
            "matchExpressions": st.lists(expression, max_size=2),
            "matchFields": st.lists(field, max_size=2),
        },
    )


@st.composite
def pod_affinity(draw: st.DrawFn, keys: Sequence[str], namespaces: Sequence[str]) -> Document:
    """Required terms: label selectors, namespaces by name and by label, and keys of the pod's own labels."""
    return {_REQUIRED: draw(st.lists(_pod_term(keys, namespaces), max_size=2))}


@st.composite
def preferred_pod_affinity(draw: st.DrawFn, keys: Sequence[str], namespaces: Sequence[str]) -> Document:
    """The same as preferred terms."""
    preferred = st.fixed_dictionaries(
        {"weight": st.sampled_from(_WEIGHTS), "podAffinityTerm": _pod_term(keys, namespaces)}
    )
    return {_PREFERRED: draw(st.lists(preferred, max_size=3))}


@st.composite
def spread_constraints(draw: st.DrawFn, keys: Sequence[str]) -> list[Document]:
    """Required and preferred constraints, with selectors, keys of the own labels, and policies of nodes."""
    return [
        draw(_spread_constraint(key))
        for key in draw(st.lists(st.sampled_from(keys), min_size=1, max_size=2, unique=True))
    ]


@st.composite
def _spread_constraint(draw: st.DrawFn, key: str) -> Document:
    """The API server refuses a key that both the selector and `matchLabelKeys` name."""
    first, *others = draw(st.permutations(LABEL_KEYS))
    policy = st.sampled_from(("Honor", "Ignore"))
    constraint: Document = {
        "topologyKey": key,
        "maxSkew": draw(st.integers(1, 2)),
        "whenUnsatisfiable": draw(st.sampled_from(("DoNotSchedule", "ScheduleAnyway"))),
    }
    least = {"minDomains": st.integers(1, 3)} if constraint["whenUnsatisfiable"] == "DoNotSchedule" else {}
    constraint |= draw(
        st.fixed_dictionaries(
            {},
            optional={**least, "nodeAffinityPolicy": policy, "nodeTaintsPolicy": policy},
        )
    )
    if draw(st.integers(0, 5)):
        constraint["labelSelector"] = draw(_label_selector(tuple(others), ("x", "y")))
        if draw(st.booleans()):
            constraint["matchLabelKeys"] = [first]
    return constraint


@st.composite
def _pod_term(draw: st.DrawFn, keys: Sequence[str], namespaces: Sequence[str]) -> Document:
    """The API server refuses a key that both the selector and `matchLabelKeys` name."""
    term: Document = {"topologyKey": draw(st.sampled_from(keys))}
    term |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "namespaces": st.lists(st.sampled_from(namespaces), max_size=2, unique=True),
                "namespaceSelector": _label_selector(("team", "kubernetes.io/metadata.name"), ("x", "left")),
            },
        )
    )
    first, second, third = draw(st.permutations(LABEL_KEYS))
    own_keys = {"matchLabelKeys": st.just([first]), "mismatchLabelKeys": st.just([second])}
    own: Document = draw(st.fixed_dictionaries({}, optional=own_keys)) if draw(st.booleans()) else {}
    if own or draw(st.integers(0, 5)):
        selected = (third,) if own else LABEL_KEYS
        term |= {"labelSelector": draw(_label_selector(selected, ("x", "y"))), **own}
    return term


def _requirement(
    key: st.SearchStrategy[str],
    operators: Sequence[str],
    values: st.SearchStrategy[list[str]] | None,
) -> st.SearchStrategy[Document]:
    fields: dict[str, st.SearchStrategy[Any]] = {"key": key, "operator": st.sampled_from(operators)}
    return st.fixed_dictionaries(fields if values is None else {**fields, "values": values})


@cache
def _label_selector(keys: tuple[str, ...], values: tuple[str, ...]) -> st.SearchStrategy[Document]:
    key, value = st.sampled_from(keys), st.sampled_from(values)
    expression = _requirement(key, ("In", "NotIn"), st.lists(value, min_size=1, max_size=2)) | _requirement(
        key, ("Exists", "DoesNotExist"), None
    )
    return st.fixed_dictionaries(
        {},
        optional={
            "matchLabels": st.dictionaries(key, value, max_size=1),
            "matchExpressions": st.lists(expression, max_size=1),
        },
    )
