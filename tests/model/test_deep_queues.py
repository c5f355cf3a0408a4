"""A tree of queues has a bounded number of levels; what is deeper starts nothing, and stops nobody."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.model.conversion.queue_rules import QueueRules
from phalanx.model.conversion.queues import queue_tree
from phalanx.model.queues import Queue
from phalanx.model.reasons import Reason

from tests.examples import holds

LEVELS = 32


def chain(length: int) -> list[Queue]:
    return [Queue(name=f"q{place}", parent=f"q{place - 1}" if place else None) for place in range(length)]


@pytest.mark.parametrize("length", [1, 31, 32, 33, 64, 65, 3000])
def test_a_chain_of_queues_starts_work_down_to_the_last_level(length: int) -> None:
    queues = [*chain(length), Queue(name="other")]
    tree = queue_tree(queues)
    rules = QueueRules(tree, {})
    objection = rules.objection(f"q{length - 1}", "team", {})
    assert (objection is None) == (length <= LEVELS)
    assert objection is None or objection.reason is Reason.QUEUE_INVALID
    assert rules.objection("other", "team", {}) is None


@holds(100)
@given(st.lists(st.integers(0, 80), min_size=1, max_size=90))
def test_only_what_is_too_deep_is_refused(parents: list[int]) -> None:
    """The oracle walks up from each queue."""
    names = {place: place - 1 - parent % (place + 1) for place, parent in enumerate(parents)}
    queues = [
        Queue(name=f"q{place}", parent=f"q{parent}" if parent >= 0 else None)
        for place, parent in names.items()
    ]
    rules = QueueRules(queue_tree(queues), {})
    has_children = set(names.values())
    for place in names:
        level, above = 1, names[place]
        while above >= 0:
            level, above = level + 1, names[above]
        if place not in has_children:
            assert (rules.objection(f"q{place}", "team", {}) is None) == (level <= LEVELS)
