"""Who is informed that a gang waits, and when."""

import msgspec
from phalanx.model.names import PodUid
from phalanx.model.reasons import WAIT_FOR_ADVICE, Reason, Verdict
from phalanx.service.waiting_events import (
    ADVICE_AWAITED_S,
    MEMBERS_AWAITED_S,
    POD_EVENT_AFTER_S,
    POD_EVENTS_MAX,
    WaitingEvents,
)

from tests.manual_clock import ManualClock
from tests.service.members import BOUND, GANG, WAITING, gang

CAPACITY = Verdict(
    gang=GANG, group="team/train", reason=Reason.INSUFFICIENT_CAPACITY, message="", next_step="Wait"
)
LIMIT = msgspec.structs.replace(CAPACITY, reason=Reason.QUEUE_LIMIT)
MISSING = msgspec.structs.replace(CAPACITY, reason=Reason.MEMBERS_MISSING)
PENDING = msgspec.structs.replace(CAPACITY, next_step=WAIT_FOR_ADVICE)


class Told:
    """WaitingEvents, its clock, and the times for which it plans another report."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.planned: list[float] = []
        self.events = WaitingEvents(self.clock, lambda _gang, at: self.planned.append(at))

    def at(
        self, second: float, verdict: Verdict, *states: dict[str, object]
    ) -> tuple[bool, list[str]] | None:
        """Whether the gang is informed, and which pods; None if the verdict is not told yet."""
        self.clock.seconds = second
        if not self.events.is_settled(verdict):
            return None
        is_new = self.events.is_new(verdict)
        return is_new, [pod.name for pod in self.events.pods_to_tell(gang(*states), verdict)]


def test_a_gang_is_informed_once_for_each_reason() -> None:
    told = Told()
    assert told.at(0, CAPACITY, WAITING) == (True, [])
    assert told.at(1, msgspec.structs.replace(CAPACITY, message="other figures"), WAITING) == (False, [])
    assert told.at(2, LIMIT, WAITING) == (True, [])
    assert told.at(3, CAPACITY, WAITING) == (True, [])


def test_pods_are_informed_once_when_the_reason_has_stood() -> None:
    told = Told()
    told.at(0, CAPACITY, WAITING, BOUND, WAITING)
    assert told.planned == [POD_EVENT_AFTER_S]
    assert told.at(POD_EVENT_AFTER_S - 1, CAPACITY, WAITING, BOUND, WAITING) == (False, [])
    assert told.at(POD_EVENT_AFTER_S, CAPACITY, WAITING, BOUND, WAITING) == (False, ["pod-0", "pod-2"])
    assert told.at(POD_EVENT_AFTER_S + 9, CAPACITY, WAITING, BOUND, WAITING) == (False, [])
    told.at(POD_EVENT_AFTER_S + 10, LIMIT, WAITING)
    assert told.at(2 * POD_EVENT_AFTER_S, LIMIT, WAITING) == (False, [])


def test_so_many_pods_of_a_gang_are_informed() -> None:
    told, pods = Told(), [WAITING] * (POD_EVENTS_MAX + 10)
    told.at(0, CAPACITY, *pods)
    assert len((told.at(POD_EVENT_AFTER_S, CAPACITY, *pods) or (False, []))[1]) == POD_EVENTS_MAX
    assert told.at(POD_EVENT_AFTER_S + 1, CAPACITY, *pods) == (False, [])


def test_members_may_be_created_before_anybody_is_informed_that_they_are_missing() -> None:
    told = Told()
    assert told.at(0, MISSING, WAITING) is None
    assert told.at(1, MISSING, WAITING, WAITING) is None
    assert set(told.planned) == {MEMBERS_AWAITED_S}
    assert told.at(MEMBERS_AWAITED_S, MISSING, WAITING) == (True, [])


def test_a_verdict_is_informed_with_its_advice_if_that_comes_soon() -> None:
    told = Told()
    assert told.at(0, PENDING, WAITING) is None
    assert told.at(1, CAPACITY, WAITING) == (True, [])
    late = Told()
    assert late.at(0, PENDING, WAITING) is None
    assert late.at(ADVICE_AWAITED_S, PENDING, WAITING) == (True, [])
    assert late.at(ADVICE_AWAITED_S + 1, CAPACITY, WAITING) == (False, [])


def test_a_pod_that_was_informed_for_its_gang_is_not_told_again() -> None:
    told = Told()
    told.at(0, CAPACITY, WAITING)
    [pod] = gang(WAITING).members
    told.events.told(CAPACITY, pod)
    assert told.at(POD_EVENT_AFTER_S, CAPACITY, WAITING) == (False, [])
    assert pod.uid == PodUid("pod-0")


def test_nothing_is_kept_of_a_gang_that_is_gone() -> None:
    told = Told()
    told.at(0, CAPACITY, WAITING)
    assert told.events.gangs == {GANG}
    told.events.forget(GANG)
    assert told.events.gangs == frozenset()
    assert told.at(1, CAPACITY, WAITING) == (True, [])
