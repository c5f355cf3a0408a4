"""Which waiting pods are told again, and when."""

import msgspec
from phalanx.limits import POD_MESSAGE_REPEAT_S
from phalanx.model.names import PodUid
from phalanx.model.reasons import Reason, Verdict
from phalanx.service.pod_messages import PodMessages

from tests.manual_clock import ManualClock
from tests.service.members import BOUND, GANG, WAITING, gang

ROOM = Verdict(gang=GANG, group="team/train", reason=Reason.INSUFFICIENT_CAPACITY, message="")
LIMIT = msgspec.structs.replace(ROOM, reason=Reason.QUEUE_LIMIT)


class Desk:
    """A PodMessages, its clock, and when it wants to be asked again."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.asked: list[float] = []
        self.pods = PodMessages(self.clock, lambda seconds, _gang: self.asked.append(seconds))

    def told(self, message: str, *states: dict[str, object], verdict: Verdict = ROOM) -> list[str]:
        return [pod.name for pod in self.pods.pods_to_update(gang(*states), verdict, message)]


def test_all_that_wait_are_told_once() -> None:
    desk = Desk()
    assert desk.told("1 is free", WAITING, BOUND, WAITING) == ["pod-0", "pod-2"]
    assert desk.told("1 is free", WAITING, BOUND, WAITING) == []
    desk.clock.seconds = 2 * POD_MESSAGE_REPEAT_S
    assert desk.told("1 is free", WAITING, BOUND, WAITING) == []


def test_new_figures_wait() -> None:
    desk = Desk()
    desk.told("1 is free", WAITING)
    desk.clock.seconds = 10
    assert desk.told("2 are free", WAITING) == []
    assert desk.asked == [POD_MESSAGE_REPEAT_S - 10]
    desk.clock.seconds = POD_MESSAGE_REPEAT_S
    assert desk.told("2 are free", WAITING) == ["pod-0"]


def test_it_asks_once_for_all_figures_in_between() -> None:
    desk = Desk()
    desk.told("1 is free", WAITING)
    for second in range(1, 30):
        desk.clock.seconds = second
        desk.told(f"{second} are free", WAITING)
    assert desk.asked == [POD_MESSAGE_REPEAT_S - 1]


def test_figures_that_come_back_are_no_news() -> None:
    desk = Desk()
    desk.told("1 is free", WAITING)
    desk.told("2 are free", WAITING)
    desk.clock.seconds = POD_MESSAGE_REPEAT_S
    assert desk.told("1 is free", WAITING) == []


def test_a_new_reason_is_told_at_once() -> None:
    desk = Desk()
    desk.told("1 is free", WAITING)
    assert desk.told("too much", WAITING, verdict=LIMIT) == ["pod-0"]


def test_a_new_pod_is_told_at_once() -> None:
    desk = Desk()
    desk.told("1 is free", WAITING)
    assert desk.told("2 are free", WAITING, WAITING) == ["pod-1"]


def test_what_is_forgotten_is_told_anew() -> None:
    desk = Desk()
    desk.told("1 is free", WAITING)
    assert desk.pods.gangs == {GANG}
    desk.pods.forget(GANG)
    assert desk.pods.gangs == frozenset()
    assert desk.told("1 is free", WAITING) == ["pod-0"]


def test_who_was_told_in_vain_is_told_again_after_a_while() -> None:
    desk = Desk()
    desk.told("1 is free", WAITING, WAITING)
    [lost, _] = gang(WAITING, WAITING).members
    desk.clock.seconds = 10
    desk.pods.write_lost(lost.uid)
    desk.pods.write_lost(PodUid("a queue"))
    assert desk.asked == [POD_MESSAGE_REPEAT_S]
    assert desk.told("1 is free", WAITING, WAITING) == []
    desk.clock.seconds = 10 + POD_MESSAGE_REPEAT_S
    assert desk.told("1 is free", WAITING, WAITING) == [lost.name]
    assert desk.told("1 is free", WAITING, WAITING) == []


def test_who_is_asked_early_asks_again() -> None:
    desk = Desk()
    desk.told("1 is free", WAITING)
    desk.told("2 are free", WAITING)
    desk.clock.seconds = POD_MESSAGE_REPEAT_S - 5
    desk.pods.report_due(GANG)
    assert desk.told("2 are free", WAITING) == []
    assert desk.asked == [POD_MESSAGE_REPEAT_S, 5]
