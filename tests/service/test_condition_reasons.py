"""When the pods of a waiting gang ask cluster autoscalers for nodes."""

from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.model.api.pod_groups import PodGroupSpec
from phalanx.model.pods import Scheduled
from phalanx.model.reasons import UNSCHEDULABLE, Reason, Verdict
from phalanx.service.condition_reasons import UNSCHEDULABLE_AFTER_S, ConditionReasons

from tests.manual_clock import ManualClock
from tests.service.members import BOUND, GANG, WAITING, gang

ASKS = {**WAITING, "scheduled": Scheduled("False", UNSCHEDULABLE, "earlier")}


class Told:
    """ConditionReasons, its clock, and the times for which it plans another report."""

    def __init__(self, *, is_compatible: bool = False) -> None:
        self.clock = ManualClock()
        self.planned: list[float] = []
        self.reasons = ConditionReasons(
            self.clock,
            lambda _gang, at: self.planned.append(at),
            is_compatible=is_compatible,
        )

    def at(self, second: float, reason: Reason, *states: dict[str, object], **spec: Any) -> str:
        self.clock.seconds = second
        waits = replace(gang(*states), spec=PodGroupSpec(**spec))
        return self.reasons.of(waits, Verdict(GANG, "team/train", reason, ""))


def test_new_nodes_are_asked_for_when_the_lack_of_capacity_has_stood() -> None:
    told = Told()
    assert told.at(0, Reason.INSUFFICIENT_CAPACITY, WAITING) == "InsufficientCapacity"
    assert told.at(UNSCHEDULABLE_AFTER_S - 1, Reason.NODES_UNAVAILABLE, WAITING) == "NodesUnavailable"
    assert set(told.planned) == {UNSCHEDULABLE_AFTER_S}
    assert told.at(UNSCHEDULABLE_AFTER_S, Reason.INSUFFICIENT_CAPACITY, WAITING) == UNSCHEDULABLE


@pytest.mark.parametrize("between", [Reason.EVICTION_IN_PROGRESS, Reason.QUEUE_HELD, Reason.QUEUE_LIMIT])
def test_what_no_node_changes_ends_it_at_once(between: Reason) -> None:
    told = Told()
    told.at(0, Reason.INSUFFICIENT_CAPACITY, WAITING)
    assert told.at(20, between, WAITING) == between.value
    assert told.at(21, Reason.INSUFFICIENT_CAPACITY, WAITING) == "InsufficientCapacity"
    assert told.at(21 + UNSCHEDULABLE_AFTER_S, Reason.INSUFFICIENT_CAPACITY, WAITING) == UNSCHEDULABLE


def test_a_cycle_that_did_not_look_at_the_gang_changes_nothing() -> None:
    told = Told()
    assert told.at(0, Reason.NOT_TRIED_YET, WAITING) == "NotTriedYet"
    told.at(1, Reason.INSUFFICIENT_CAPACITY, WAITING)
    assert told.at(20, Reason.NOT_TRIED_YET, WAITING) == UNSCHEDULABLE


def test_pods_that_ask_under_an_earlier_leader_go_on() -> None:
    assert Told().at(0, Reason.INSUFFICIENT_CAPACITY, ASKS, WAITING) == UNSCHEDULABLE


def test_surplus_members_do_not_ask() -> None:
    told, states = Told(), [BOUND] * gang(WAITING).min_member
    told.at(0, Reason.INSUFFICIENT_CAPACITY, *states, WAITING)
    assert told.at(60, Reason.INSUFFICIENT_CAPACITY, *states, WAITING) == "InsufficientCapacity"
    told.at(60, Reason.INSUFFICIENT_CAPACITY, WAITING, WAITING)
    assert told.at(120, Reason.INSUFFICIENT_CAPACITY, WAITING, WAITING) == UNSCHEDULABLE


def test_surplus_members_ask_where_their_pod_group_says_so() -> None:
    told, states = Told(), [BOUND] * gang(WAITING).min_member
    told.at(0, Reason.INSUFFICIENT_CAPACITY, *states, WAITING, surplus_adds_nodes=True)
    later = told.at(60, Reason.INSUFFICIENT_CAPACITY, *states, WAITING, surplus_adds_nodes=True)
    assert later == UNSCHEDULABLE


def test_compatible_conditions_are_always_unschedulable() -> None:
    assert Told(is_compatible=True).at(0, Reason.QUEUE_HELD, WAITING) == UNSCHEDULABLE


def test_nothing_is_kept_of_a_gang_that_is_gone() -> None:
    told = Told()
    told.at(0, Reason.INSUFFICIENT_CAPACITY, WAITING)
    told.reasons.forget(GANG)
    assert told.reasons.gangs == frozenset()
