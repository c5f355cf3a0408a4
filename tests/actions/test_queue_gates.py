"""Which gang of a queue is next by the ordering of the queue, and what its state allows to start."""

import pytest
from phalanx.actions import verdicts
from phalanx.model.queues import Ordering, QueueState
from phalanx.model.reasons import Category, Reason
from phalanx.model.resources import GPU

from tests.builders import Scenario

STRICT = Ordering.STRICT_FIFO
FAIR = Ordering.FAIR_USERS
BEHIND = Reason.BLOCKED_BY_QUEUE_HEAD


def strict(slots: int) -> Scenario:
    return Scenario().nodes("n", 1, gpu=slots, cpu=1000).queue("q", ordering=STRICT)


def test_no_gang_passes_the_head_of_a_strict_fifo() -> None:
    scenario = strict(4).gang("run", 2, gpu=1, bound=2).gang("big", 4, gpu=1, queue="q")
    scenario.gang("small", 1, gpu=1, queue="q", priority=9).gang("other", 1, gpu=1)
    result = scenario.decide()
    assert result.placed() == ["other"]
    assert result.reasons() == {"big": Reason.INSUFFICIENT_CAPACITY, "small": BEHIND}
    verdict = result.verdict("small")
    assert "gang team/big is at the head of strict FIFO queue q" in verdict.message
    assert verdict.next_step.startswith("Wait until team/big starts")


def test_a_strict_fifo_is_ordered_by_age_and_not_by_priority() -> None:
    scenario = strict(1).gang("old", 1, gpu=1, queue="q").gang("urgent", 1, gpu=1, queue="q", priority=9)
    assert scenario.decide().placed() == ["old"]


def test_repairs_and_other_queues_pass_the_head_of_a_strict_fifo() -> None:
    scenario = (
        strict(4).gang("big", 9, gpu=1, queue="q").gang("run", 3, gpu=1, bound=3, queue="q").lose("run")
    )
    scenario.change("run", started=True).gang("other", 1, gpu=1)
    assert scenario.decide().placed() == ["run", "other"]


def test_surplus_does_not_pass_the_head_of_a_strict_fifo() -> None:
    scenario = strict(4).gang("elastic", 3, min=1, gpu=1, queue="q", created=0)
    scenario.gang("big", 4, gpu=1, queue="q", created=1)
    result = scenario.decide()
    assert [each.cause for each in result.placements("elastic")] == ["start"]
    assert result.reasons() == {"elastic": BEHIND, "big": Reason.INSUFFICIENT_CAPACITY}


def test_a_gang_that_lacks_members_is_not_the_head() -> None:
    scenario = strict(4).gang("lacks", 1, min=2, gpu=1, queue="q").gang("next", 1, gpu=1, queue="q")
    assert scenario.decide().placed() == ["next"]


def test_gangs_pass_an_impossible_head_as_soon_as_it_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = strict(4).gang("never", 9, gpu=1, queue="q").gang("next", 4, gpu=1, queue="q")
    monkeypatch.setattr(verdicts, "CYCLE_EXPLANATIONS_MAX", 0)
    first = scenario.decide()
    monkeypatch.undo()
    assert first.reasons()["never"] is Reason.NOT_TRIED_YET
    second = scenario.take(first).decide()
    assert second.reasons()["never"].category is Category.IMPOSSIBLE
    assert second.result.wake_at == scenario.now
    assert scenario.take(second).decide().placed() == ["next"]


def test_an_impossible_head_blocks_only_until_it_is_proven_impossible() -> None:
    scenario = strict(4).gang("never", 9, gpu=1, queue="q").gang("next", 4, gpu=1, queue="q")
    scenario.gang("last", 1, gpu=1, queue="q")
    first = scenario.decide()
    assert first.placed() == []
    assert first.reasons()["never"].category is Category.IMPOSSIBLE
    assert first.reasons()["next"] is BEHIND
    assert first.result.wake_at == scenario.now
    second = scenario.take(first).decide()
    assert second.placed() == ["next"]
    assert second.reasons() == {"never": Reason.ABOVE_CLUSTER_CAPACITY, "last": Reason.INSUFFICIENT_CAPACITY}
    assert second.result.wake_at is None


def test_gangs_behind_a_head_that_starts_jointly_are_tried_in_the_same_cycle() -> None:
    """One node of rack a and one of b are fuller: `plain` uses them and is moved to c for `first`."""
    scenario = Scenario("spine", "rack")
    for rack in ("a", "b"):
        scenario.nodes(f"{rack}-full", 1, gpu=8, cpu=32, within=f"s/{rack}")
        scenario.nodes(rack, 3, gpu=8, within=f"s/{rack}")
    scenario.nodes("c", 2, gpu=8, within="s/c").queue("p", priority=1).queue("q", ordering=STRICT)
    scenario.gang("plain", 2, gpu=8, queue="p").gang("first", 4, gpu=8, queue="q", required="rack")
    scenario.gang("second", 4, gpu=8, queue="q", required="rack").gang("third", 4, gpu=8, queue="q")
    scenario.gang("fourth", 1, queue="q")
    result = scenario.decide()
    assert sorted(result.placed()) == ["first", "plain", "second"]
    assert result.reasons() == {"third": Reason.INSUFFICIENT_CAPACITY, "fourth": BEHIND}


def users(slots: int) -> Scenario:
    return Scenario().nodes("n", 1, gpu=slots, cpu=1000).queue("q", ordering=FAIR, user_label="user")


def of(user: str) -> dict[str, object]:
    return {"gpu": 1, "queue": "q", "labels": {"user": user}}


def test_users_take_turns() -> None:
    scenario = users(4)
    for index in range(4):
        scenario.gang(f"a{index}", 1, **of("a"))
    for index in range(4):
        scenario.gang(f"b{index}", 1, **of("b"))
    assert scenario.decide().placed() == ["a0", "b0", "a1", "b1"]


def test_only_what_users_hold_in_this_queue_counts() -> None:
    scenario = users(8).gang("old", 2, bound=2, **of("a"))
    scenario.gang("elsewhere", 2, bound=2, gpu=1, labels={"user": "b"})
    for index in range(3):
        scenario.gang(f"a{index}", 1, **of("a")).gang(f"b{index}", 1, **of("b"))
    assert scenario.decide().placed() == ["b0", "b1", "a0", "b2"]


def test_the_gangs_of_one_user_are_ordered_by_priority_then_age() -> None:
    scenario = users(3).gang("low", 1, **of("a")).gang("high", 1, priority=5, **of("a"))
    scenario.gang("other", 1, **of("b"))
    assert scenario.decide().placed() == ["high", "other", "low"]


def test_gangs_without_the_label_belong_to_one_user() -> None:
    scenario = users(3).gang("x", 1, gpu=1, queue="q").gang("y", 1, gpu=1, queue="q").gang("z", 1, **of("c"))
    assert scenario.decide().placed() == ["x", "z", "y"]


def test_the_repair_of_a_user_goes_first_and_surplus_last() -> None:
    scenario = users(5).gang("run", 2, bound=2, **of("a")).lose("run").change("run", started=True)
    scenario.gang("elastic", 2, min=1, **of("c")).gang("b", 1, **of("b"))
    assert scenario.decide().placed() == ["run", "elastic", "b", "elastic"]


def held(state: QueueState = QueueState.HELD) -> Scenario:
    return Scenario().nodes("n", 1, gpu=8).queue("top", state=state).queue("q", parent="top")


def test_nothing_is_started_below_a_queue_that_is_held() -> None:
    result = held().gang("g", 1, gpu=1, queue="q").gang("free", 1, gpu=1).decide()
    assert result.placed() == ["free"]
    assert result.verdict("g").reason is Reason.QUEUE_HELD
    assert result.verdict("g").message == "queue top is held: it starts no work for now"


def test_a_closed_queue_is_reported_as_closed_even_below_a_held_one() -> None:
    scenario = held().queue("q", parent="top", state=QueueState.CLOSED)
    assert (
        scenario.gang("g", 1, queue="q").decide().verdict("g").message
        == "queue q is closed: it starts no work"
    )


def test_running_gangs_of_a_held_queue_continue_and_are_repaired() -> None:
    scenario = held().gang("run", 4, gpu=1, bound=3, queue="q", started=True)
    result = scenario.decide()
    assert (result.placed(), result.evicted()) == (["run"], [])


def test_a_partly_bound_gang_of_a_held_queue_is_completed() -> None:
    assert held().gang("half", 4, gpu=1, bound=2, queue="q").decide().placed() == ["half"]


def test_a_gang_of_a_held_queue_that_lost_all_its_members_starts_again() -> None:
    scenario = held().gang("again", 4, gpu=1, queue="q", starts_over=True)
    assert scenario.decide().placed() == ["again"]


def test_a_gang_of_a_held_queue_gets_no_surplus() -> None:
    scenario = held().gang("elastic", 4, min=2, gpu=1, bound=2, queue="q")
    result = scenario.decide()
    assert result.placed() == []
    assert result.verdict("elastic").reason is Reason.QUEUE_HELD
    assert "replaces lost members" in result.verdict("elastic").message


def test_waiting_gangs_of_a_held_queue_are_no_demand() -> None:
    scenario = held().queue("b").gang("run", 1, gpu=1, bound=1, queue="q")
    scenario.gang("g", 8, gpu=1, queue="q").gang("y", 8, gpu=1, queue="b")
    queues = scenario.decide().result.queues
    assert (queues["q"].fair_share[GPU], queues["b"].fair_share[GPU]) == (1, 7)
