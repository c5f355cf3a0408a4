"""Which waiting pods get a new message, and when."""

import msgspec
from phalanx.model.names import PodUid
from phalanx.model.reasons import UNSCHEDULABLE, WAIT_FOR_ADVICE, Reason, Verdict
from phalanx.service.pod_messages import POD_MESSAGE_REPEAT_S, PodMessages

from tests.manual_clock import ManualClock
from tests.service.members import BOUND, GANG, WAITING, gang

CAPACITY = Verdict(gang=GANG, group="team/train", reason=Reason.INSUFFICIENT_CAPACITY, message="")
LIMIT = msgspec.structs.replace(CAPACITY, reason=Reason.QUEUE_LIMIT)


class Messages:
    """A PodMessages, its clock, and the times for which it plans another report."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.planned: list[float] = []
        self.pods = PodMessages(self.clock, lambda _gang, at: self.planned.append(at))

    def updated(
        self,
        message: str,
        *states: dict[str, object],
        verdict: Verdict = CAPACITY,
        condition: str = UNSCHEDULABLE,
    ) -> list[str]:
        return [pod.name for pod in self.pods.pods_to_update(gang(*states), verdict, message, condition, {})]


def test_each_waiting_pod_is_updated_once() -> None:
    messages = Messages()
    assert messages.updated("1 is free", WAITING, BOUND, WAITING) == ["pod-0", "pod-2"]
    assert messages.updated("1 is free", WAITING, BOUND, WAITING) == []
    messages.clock.seconds = 2 * POD_MESSAGE_REPEAT_S
    assert messages.updated("1 is free", WAITING, BOUND, WAITING) == []


def test_new_figures_are_delayed() -> None:
    messages = Messages()
    messages.updated("1 is free", WAITING)
    messages.clock.seconds = 10
    assert messages.updated("2 are free", WAITING) == []
    assert messages.planned == [POD_MESSAGE_REPEAT_S]
    messages.clock.seconds = POD_MESSAGE_REPEAT_S
    assert messages.updated("2 are free", WAITING) == ["pod-0"]


def test_another_reason_of_the_condition_is_not_delayed() -> None:
    messages = Messages()
    assert messages.updated("1 is free", WAITING, condition="InsufficientCapacity") == ["pod-0"]
    assert messages.updated("1 is free", WAITING) == ["pod-0"]
    assert messages.updated("1 is free", WAITING) == []


def test_the_first_advice_is_not_delayed() -> None:
    messages = Messages()
    pending = msgspec.structs.replace(CAPACITY, next_step=WAIT_FOR_ADVICE)
    assert messages.updated("1 is free", WAITING, verdict=pending) == ["pod-0"]
    assert messages.updated("2 are free", WAITING, verdict=pending) == []
    assert messages.updated("2 are free. Wait until a ends", WAITING) == ["pod-0"]
    assert messages.updated("2 are free. Wait until b ends", WAITING) == []


def test_the_next_report_is_the_same_for_all_figures_in_between() -> None:
    messages = Messages()
    messages.updated("1 is free", WAITING)
    for second in range(1, 30):
        messages.clock.seconds = second
        messages.updated(f"{second} are free", WAITING)
    assert set(messages.planned) == {POD_MESSAGE_REPEAT_S}


def test_figures_that_return_to_the_written_ones_are_not_written() -> None:
    messages = Messages()
    messages.updated("1 is free", WAITING)
    messages.updated("2 are free", WAITING)
    messages.clock.seconds = POD_MESSAGE_REPEAT_S
    assert messages.updated("1 is free", WAITING) == []


def test_a_new_reason_is_written_at_once() -> None:
    messages = Messages()
    messages.updated("1 is free", WAITING)
    assert messages.updated("too much", WAITING, verdict=LIMIT) == ["pod-0"]


def test_a_new_pod_is_updated_at_once() -> None:
    messages = Messages()
    messages.updated("1 is free", WAITING)
    assert messages.updated("2 are free", WAITING, WAITING) == ["pod-1"]


def test_a_forgotten_gang_is_updated_again() -> None:
    messages = Messages()
    messages.updated("1 is free", WAITING)
    assert messages.pods.gangs == {GANG}
    messages.pods.forget(GANG)
    assert messages.pods.gangs == frozenset()
    assert messages.updated("1 is free", WAITING) == ["pod-0"]


def test_a_lost_update_is_repeated_after_a_while() -> None:
    messages = Messages()
    messages.updated("1 is free", WAITING, WAITING)
    [lost, _] = gang(WAITING, WAITING).members
    messages.clock.seconds = 10
    messages.pods.write_lost(lost.uid)
    messages.pods.write_lost(PodUid("a queue"))
    assert messages.planned == [10 + POD_MESSAGE_REPEAT_S]
    assert messages.updated("1 is free", WAITING, WAITING) == []
    messages.clock.seconds = 10 + POD_MESSAGE_REPEAT_S
    assert messages.updated("1 is free", WAITING, WAITING) == [lost.name]
    assert messages.updated("1 is free", WAITING, WAITING) == []
