"""Nothing is evicted for a gang before its delay has passed."""

from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.model.reasons import Reason
from phalanx.model.resources import GPU

from tests.builders import Scenario

NOW_S = 1000
MINUTE_MS = 60_000


def waiting(
    delay: str | None = None, *, queue_ms: int = 0, parent_ms: int = 0, since: int = NOW_S
) -> Scenario:
    """A gang of higher priority that waits since then, and a gang that it may evict."""
    scenario = Scenario().nodes("n", gpu=1)
    scenario.queue("all", preemption_delay_ms=parent_ms)
    scenario.queue("q", parent="all", preemption_delay_ms=queue_ms)
    scenario.gang("low", 1, gpu=1, queue="q", on=["n-0"])
    return scenario.gang("high", 1, gpu=1, queue="q", priority=5, created=since, preemption_delay=delay)


@pytest.mark.parametrize(
    "delays",
    [
        {"delay": "2m"},
        {"queue_ms": 2 * MINUTE_MS},
        {"parent_ms": 2 * MINUTE_MS},
        {"delay": "5s", "queue_ms": 2 * MINUTE_MS, "parent_ms": MINUTE_MS},
        {"delay": "2m", "queue_ms": MINUTE_MS},
    ],
)
def test_the_longest_delay_counts_since_the_gang_is_complete(delays: dict[str, Any]) -> None:
    for waited, is_evicted in ((0, False), (119, False), (120, True)):
        decided = waiting(**delays, since=NOW_S - waited).decide()
        assert bool(decided.evicted()) is is_evicted
        if not is_evicted:
            assert decided.result.wake_at == (NOW_S - waited + 120) * 1000


def test_the_verdict_says_when_evictions_may_begin() -> None:
    verdict = waiting("2m").decide().verdict("high")
    assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
    assert ("evictions", "none for this gang before 1970-01-01T00:18:40Z") in [
        (each.subject, each.finding) for each in verdict.evidence
    ]


def test_pods_that_are_created_again_begin_a_new_delay() -> None:
    scenario = waiting("2m", since=NOW_S - 600)
    assert scenario.decide().evicted() == ["low-0"]
    again = tuple(replace(pod, created=NOW_S - 10) for pod in scenario.members("high"))
    assert not scenario.change("high", members=again).decide().evicted()


def test_a_gang_without_a_delay_is_not_delayed_by_others() -> None:
    scenario = waiting("2m").gang("other", 1, gpu=1, queue="q", priority=9)
    assert scenario.decide().evicted() == ["low-0"]


def test_a_claim_inside_a_guarantee_and_moves_wait_too() -> None:
    scenario = Scenario().nodes("n", gpu=1).queue("a").queue("b", guarantee={GPU: 1})
    scenario.gang("lent", 1, gpu=1, queue="a", on=["n-0"])
    scenario.gang("claim", 1, gpu=1, queue="b", created=NOW_S, preemption_delay="1m")
    assert not scenario.decide().evicted()
    scenario.now += MINUTE_MS
    assert scenario.decide().evicted() == ["lent-0"]
