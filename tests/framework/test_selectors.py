"""Node selector requirements and tolerations: each operator as Kubernetes defines it."""

import pytest
from phalanx.framework.nodes.tolerations import covers
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node, Taint
from phalanx.model.pods import Requirement, Term, Toleration
from phalanx.model.selectors import holds, labels_match, node_matches

NODE = Node(name=NodeName("n1"), uid="u", labels={"zone": "a", "gpus": "8", "odd": "1_0", "empty": ""})


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("zone", "In", ("a", "b"), True),
        ("zone", "In", ("b",), False),
        ("none", "In", ("a",), False),
        ("zone", "NotIn", ("b",), True),
        ("zone", "NotIn", ("a",), False),
        ("none", "NotIn", ("a",), True),
        ("zone", "Exists", (), True),
        ("empty", "Exists", (), True),
        ("none", "Exists", (), False),
        ("none", "DoesNotExist", (), True),
        ("zone", "DoesNotExist", (), False),
        ("gpus", "Gt", ("7",), True),
        ("gpus", "Gt", ("8",), False),
        ("gpus", "Lt", ("10",), True),
        ("gpus", "Lt", ("8",), False),
        ("none", "Gt", ("-1",), False),
        ("none", "Lt", ("1",), False),
        ("zone", "Gt", ("1",), False),
        ("odd", "Gt", ("1",), False),
        ("gpus", "Gt", ("1", "2"), False),
        ("gpus", "Gt", ("99999999999999999999",), False),
        ("gpus", "Lt", ("9223372036854775808",), False),
        ("zone", "Near", ("a",), False),
    ],
)
def test_operators(key: str, operator: str, values: tuple[str, ...], *, expected: bool) -> None:
    assert holds(Requirement(key, operator, values), NODE.labels) is expected


def test_fields_are_not_labels() -> None:
    assert node_matches(NODE, Term((Requirement("metadata.name", "In", ("n1",), on_field=True),)))
    assert not node_matches(NODE, Term((Requirement("metadata.name", "In", ("n1",)),)))
    assert not node_matches(NODE, Term((Requirement("zone", "In", ("a",), on_field=True),)))


def test_all_requirements_of_a_term_must_hold() -> None:
    right, wrong = Requirement("zone", "In", ("a",)), Requirement("zone", "In", ("b",))
    assert node_matches(NODE, Term((right, right)))
    assert not node_matches(NODE, Term((right, wrong)))


def test_an_empty_term_matches_no_node_and_an_empty_label_selector_everything() -> None:
    assert not node_matches(NODE, Term())
    assert labels_match({}, Term())


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration("gpu", "Equal", "yes", "NoSchedule"), True),
        (Toleration("gpu", "Equal", "yes"), True),
        (Toleration("gpu", "Equal", "no"), False),
        (Toleration("gpu", "Exists"), True),
        (Toleration("gpu", "Exists", "", "NoExecute"), False),
        (Toleration("cpu", "Exists"), False),
        (Toleration("", "Exists"), True),
        (Toleration("", "Exists", "", "NoSchedule"), True),
        (Toleration("", "Equal", "yes"), False),
        (Toleration("gpu", "Gt", "1"), False),
    ],
)
def test_tolerations(toleration: Toleration, *, expected: bool) -> None:
    assert covers(toleration, Taint("gpu", "NoSchedule", "yes")) is expected
