"""Reading queues, and the tree that they form even when they contradict each other."""

from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.model.conversion.queues import queue_tree, read_queue
from phalanx.model.pods import Requirement, Term
from phalanx.model.queues import Backfill, Flavor, Ordering, Queue, QueueState
from phalanx.model.reasons import Reason

from tests.model.written import named


def queue(name: str = "q", **spec: Any) -> Queue:
    return read_queue(named("Queue", name, spec=spec))


def test_everything_is_read() -> None:
    found = queue(
        parent="root",
        weight=3,
        priority=-1,
        ordering="FairUsers",
        userLabel="example.com/user",
        state="Held",
        backfill="Easy",
        limit={"nvidia.com/gpu": 8, "cpu": "100500u"},
        guarantee={"nvidia.com/gpu": 4},
        flavors=[
            {
                "name": "h100",
                "nodeSelector": {"b": "2", "a": "1"},
                "limit": {"memory": "1.5"},
                "guarantee": {"cpu": "1"},
            }
        ],
        namespaceSelector={
            "matchLabels": {"team": "a"},
            "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}],
        },
    )
    assert (found.name, found.parent, found.weight, found.priority) == ("q", "root", 3, -1)
    assert found.limit == {"cpu": 100, "nvidia.com/gpu": 8}
    assert found.flavors == (Flavor("h100", (("a", "1"), ("b", "2")), {"memory": 1}, {"cpu": 1000}),)
    assert found.guarantee == {"nvidia.com/gpu": 4}
    assert found.namespace_selector == Term(
        (Requirement("team", "In", ("a",)), Requirement("old", "DoesNotExist"))
    )
    assert (found.ordering, found.user_label) == (Ordering.FAIR_USERS, "example.com/user")
    assert found.state is QueueState.HELD
    assert found.backfill is Backfill.EASY
    assert not found.problems


def test_defaults() -> None:
    assert replace(queue(), uid="") == Queue(name="q")
    assert queue(namespaceSelector={}).namespace_selector is None


@pytest.mark.parametrize(
    ("spec", "reason", "says"),
    [
        ({"guarantee": {"cpu": "lots"}}, Reason.INVALID_OBJECT, "spec.guarantee[cpu]"),
        ({"cells": [{"level": "rack", "count": 0}]}, Reason.INVALID_OBJECT, "spec.cells[rack].count"),
        ({"state": "Ajar"}, Reason.INVALID_OBJECT, "spec.state: 'Ajar' is none of Open, Held, Closed"),
        ({"ordering": "LIFO"}, Reason.INVALID_OBJECT, "spec.ordering: 'LIFO' is none of"),
        ({"ordering": "FairUsers"}, Reason.INVALID_OBJECT, "spec.userLabel"),
        ({"reclaim": {"minRuntime": "soon"}}, Reason.INVALID_OBJECT, "spec.reclaim.minRuntime"),
        (
            {"flavors": [{"name": "a", "nodeSelector": {"a": "1"}, "guarantee": {"cpu": "few"}}]},
            Reason.INVALID_OBJECT,
            "spec.flavors[a].guarantee[cpu]",
        ),
        ({"weight": 0}, Reason.INVALID_OBJECT, "spec.weight"),
        (
            {"admission": "ByLot"},
            Reason.INVALID_OBJECT,
            "spec.admission: 'ByLot' is none of InOrder, ",
        ),
        (
            {"admission": "MostValue", "ordering": "StrictFIFO"},
            Reason.INVALID_OBJECT,
            "spec.admission: MostValue needs ordering PriorityFIFO",
        ),
        ({"objective": "Sideways"}, Reason.INVALID_OBJECT, "spec.objective"),
        (
            {"backfill": "Aggressive"},
            Reason.INVALID_OBJECT,
            "spec.backfill: 'Aggressive' is none of None, Easy, ",
        ),
        ({"limit": {"cpu": "lots"}}, Reason.INVALID_OBJECT, "spec.limit[cpu]"),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}},
            Reason.INVALID_OBJECT,
            "spec.namespaceSelector.matchExpressions[0].operator",
        ),
    ],
)
def test_invalid_queues_are_reported(spec: dict[str, Any], reason: Reason, says: str) -> None:
    (problem,) = queue(**spec).problems
    assert problem.reason is reason
    assert says in problem.message


def tree(**parents: str | None) -> dict[str, tuple[str | None, bool]]:
    """Per queue, its parent in the tree and whether it has problems."""
    found = queue_tree(
        [queue(name, **({"parent": parent} if parent else {})) for name, parent in parents.items()]
    )
    assert list(found) == sorted(found)
    return {name: (each.parent, bool(each.problems)) for name, each in found.items()}


DEFAULT = {"default": (None, False)}


def test_the_default_queue_always_exists() -> None:
    assert tree() == DEFAULT
    assert tree(default="a", a=None) == {"a": (None, False), "default": ("a", False)}


def test_a_tree() -> None:
    assert tree(b="a", a=None) == {"a": (None, False), "b": ("a", False), **DEFAULT}


def test_an_unknown_parent_stops_that_queue_only() -> None:
    assert tree(a="gone", b="a") == {"a": (None, True), "b": ("a", False), **DEFAULT}


def test_a_cycle_stops_its_queues_only() -> None:
    assert tree(a="b", b="c", c="a", d="a", e="e", f="d") == {
        "a": (None, True),
        "b": (None, True),
        "c": (None, True),
        "d": ("a", False),
        "e": (None, True),
        "f": ("d", False),
        **DEFAULT,
    }


def test_a_queue_cut_off_from_its_parent_keeps_its_own_problems() -> None:
    (a, _) = queue_tree([queue("a", parent="gone", cells=[{"level": "rack", "count": 0}])]).values()
    assert [problem.reason for problem in a.problems] == [Reason.INVALID_OBJECT, Reason.QUEUE_INVALID]
