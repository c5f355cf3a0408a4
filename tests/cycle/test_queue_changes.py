"""Queues that are changed, reduced, deleted or misconfigured while gangs run and wait in them."""

from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.cycle import decide
from phalanx.framework.config import SchedulerConfig
from phalanx.model.api.pod_groups import Disruption, DisruptionMode
from phalanx.model.conversion.queues import queue_tree
from phalanx.model.names import QueueName
from phalanx.model.pods import Requirement, Term
from phalanx.model.queues import Flavor, Queue, QueueState
from phalanx.model.reasons import Reason
from phalanx.model.resources import GPU
from phalanx.model.snapshot import Snapshot

from tests.builders import Decided, Scenario

LIMIT, ABOVE = Reason.QUEUE_LIMIT, Reason.ABOVE_QUEUE_LIMIT
UNKNOWN, INVALID = Reason.QUEUE_NOT_FOUND, Reason.QUEUE_INVALID
NOT_LEAF, HELD, CLOSED = Reason.QUEUE_NOT_LEAF, Reason.QUEUE_HELD, Reason.QUEUE_CLOSED

Fields = dict[str, Any]
Queues = dict[str, Fields | None]
"""By name, the fields of each; None for one that is deleted."""

SOUND: Queues = {"top": {}, "a": {"parent": "top"}, "b": {}}
ALL = {"run", "wait", "other"}


def tree(changes: Queues) -> dict[QueueName, Queue]:
    """The queue tree as the cache builds it from the objects."""
    queues = []
    for name, fields in {**SOUND, **changes}.items():
        if fields is not None:
            converted = {**fields, "parent": QueueName(fields["parent"])} if "parent" in fields else fields
            queues.append(Queue(name=QueueName(name), **converted))
    return dict(queue_tree(queues))


def under(scenario: Scenario, changes: Queues) -> Snapshot:
    return replace(scenario.snapshot(), queues=tree(changes))


def decided(scenario: Scenario, changes: Queues) -> Decided:
    return Decided(decide(under(scenario, changes), SchedulerConfig()))


def at_work() -> Scenario:
    """Queue a has a gang that lost one of four members, and a waiting gang; queue b has a waiting gang."""
    scenario = Scenario().nodes("n", 2, gpu=8, cpu=1000)
    scenario.gang("run", 4, gpu=1, bound=4, queue="a").lose("run")
    return scenario.gang("wait", 2, gpu=1, queue="a").gang("other", 2, gpu=1, queue="b")


CUT = {GPU: 2}
FLAVOR = Flavor("all", (("group", "n"),), limit=CUT)

OUTCOMES: dict[str, tuple[Queues, set[str], dict[str, Reason]]] = {
    "nothing": ({}, ALL, {}),
    "limit below use": ({"a": {"parent": "top", "limit": CUT}}, {"other"}, {"run": ABOVE, "wait": LIMIT}),
    "limit of the parent below use": ({"top": {"limit": CUT}}, {"other"}, {"run": ABOVE, "wait": LIMIT}),
    "limit of a flavor below use": (
        {"a": {"parent": "top", "flavors": (FLAVOR,)}},
        {"other"},
        {"run": ABOVE, "wait": LIMIT},
    ),
    "limit that leaves the lost member": ({"a": {"limit": {GPU: 4}}}, {"run", "other"}, {"wait": LIMIT}),
    "guarantee below use": ({"a": {"parent": "top", "guarantee": CUT}}, ALL, {}),
    "guarantee above the limit": ({"a": {"guarantee": {GPU: 9}, "limit": {GPU: 6}}}, ALL, {}),
    "guarantee above its parent's": ({"top": {"guarantee": CUT}, "a": {"guarantee": {GPU: 9}}}, ALL, {}),
    "deleted": ({"a": None}, {"other"}, {"run": UNKNOWN, "wait": UNKNOWN}),
    "parent deleted": ({"top": None}, {"other"}, {"run": INVALID, "wait": INVALID}),
    "its own parent": ({"a": {"parent": "a"}}, {"other"}, {"run": INVALID, "wait": INVALID}),
    "a cycle of two": ({"top": {"parent": "a"}}, {"other"}, {"run": INVALID, "wait": INVALID}),
    "below a cycle": (
        {"top": {"parent": "up"}, "up": {"parent": "top"}},
        {"other"},
        {"run": INVALID, "wait": INVALID},
    ),
    "a child": ({"c": {"parent": "a"}}, {"other"}, {"run": NOT_LEAF, "wait": NOT_LEAF}),
    "held": ({"a": {"state": QueueState.HELD}}, {"run", "other"}, {"wait": HELD}),
    "closed": ({"a": {"state": QueueState.CLOSED}}, {"run", "other"}, {"wait": CLOSED}),
    "held above": ({"top": {"state": QueueState.HELD}}, {"run", "other"}, {"wait": HELD}),
    "closed above a held one": (
        {"top": {"state": QueueState.CLOSED}, "a": {"parent": "top", "state": QueueState.HELD}},
        {"run", "other"},
        {"wait": CLOSED},
    ),
    "closed to the namespace": (
        {"a": {"namespace_selector": Term((Requirement("team", "Exists"),))}},
        {"other"},
        {"run": Reason.NAMESPACE_NOT_ALLOWED, "wait": Reason.NAMESPACE_NOT_ALLOWED},
    ),
}


@pytest.mark.parametrize("change", OUTCOMES)
def test_placements_and_reasons_after_a_change(change: str) -> None:
    """No gang is evicted, other queues are not affected, and all gangs start once the change is reverted."""
    changes, placed, reasons = OUTCOMES[change]
    scenario = at_work()
    result = decided(scenario, changes)
    assert (set(result.placed()), result.reasons(), result.evicted()) == (placed, reasons, [])
    assert result.result.queues["b"].problems == ()
    scenario.take(result).namespace("changed")
    after = decided(scenario, {})
    assert (set(after.placed()) | placed, after.reasons()) == (ALL, {})


def borrowing(count: int = 16) -> Scenario:
    """Queue a uses twelve of sixteen devices with three gangs of four; a gang of queue b requests `count`."""
    scenario = Scenario().nodes("n", 2, gpu=8, cpu=1000)
    for name in ("x", "y", "z"):
        scenario.gang(name, 4, gpu=1, bound=4, queue="a")
    return scenario.gang("big", count, gpu=1, queue="b")


MINE: Queues = {"b": {"guarantee": {GPU: 16}}}

TAKEN: dict[str, tuple[Queues, int, int]] = {
    "nothing": ({}, 16, 12),
    "a guarantee": ({"a": {"guarantee": {GPU: 12}}, "b": {"guarantee": {GPU: 4}}}, 5, 0),
    "a guarantee cut below use": ({"a": {"guarantee": {GPU: 4}}, "b": {"guarantee": {GPU: 12}}}, 12, 8),
    "a cut below a part of a gang": ({"a": {"guarantee": {GPU: 6}}, "b": {"guarantee": {GPU: 10}}}, 10, 8),
    "held": ({"a": {"state": QueueState.HELD}}, 16, 12),
    "closed": ({"a": {"state": QueueState.CLOSED}}, 16, 12),
    "parent deleted": ({"top": None}, 16, 12),
    "a cycle": ({"top": {"parent": "a"}}, 16, 12),
    "deleted": ({"a": None}, 16, 0),
}
"""The changed queues, the requested devices, and the number of evicted pods."""


@pytest.mark.parametrize("change", TAKEN)
def test_reclaim_by_another_queue_after_a_change(change: str) -> None:
    changes, asked, evicted = TAKEN[change]
    result = decided(borrowing(asked), {**MINE, **changes})
    assert len(result.evicted()) == evicted


def test_single_members_are_reclaimed_down_to_the_guarantee_and_no_further() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8, cpu=1000)
    alone = Disruption(mode=DisruptionMode.SINGLE)
    scenario.gang("x", 12, gpu=1, bound=12, queue="a", disruption=alone).gang("big", 10, gpu=1, queue="b")
    changes: Queues = {"a": {"guarantee": {GPU: 6}}, "b": {"guarantee": {GPU: 10}}}
    assert len(decided(scenario, changes).evicted()) == 6
