"""Past usage of queues: a decaying average that counts in the order of queues and survives a restart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied
from phalanx.framework.config import FairnessConfig, SchedulerConfig
from phalanx.framework.session import Session
from phalanx.limits import PAST_USAGE_REPORT_PERIOD_MS
from phalanx.model.conversion.queues import read_queue
from phalanx.model.memory import Memory
from phalanx.model.names import QueueName
from phalanx.model.queues import PastUsage
from phalanx.model.resources import CPU, GPU
from phalanx.service.queue_status import status_of

from tests.builders import Decided, Scenario
from tests.model.written import named

HOUR = 3_600_000
REMEMBERS = SchedulerConfig(fairness=FairnessConfig(usage_half_life_minutes=60))


def after(scenario: Scenario, result: Decided, ms: int) -> Scenario:
    """Apply the result and move the time."""
    scenario.take(result).now += ms
    return scenario


def average(scenario: Scenario, queue: str = "a", config: SchedulerConfig = REMEMBERS) -> dict[str, int]:
    past = Session(scenario.snapshot(), config).past_usage
    return dict(past[QueueName(queue)].amounts) if past else {}


def used(gpu: int) -> Scenario:
    scenario = Scenario().nodes("n", 2, gpu=8).queue("a").queue("b")
    return scenario.gang("run", gpu, gpu=1, cpu=0, memory=0, bound=gpu, queue="a") if gpu else scenario


def test_the_average_moves_towards_the_current_use() -> None:
    scenario = used(4)
    seen = []
    for _ in range(4):
        seen.append(average(scenario).get(GPU, 0))
        after(scenario, scenario.decide(REMEMBERS), HOUR)
    assert seen == [0, 2000, 3000, 3500]
    scenario.remove("run")
    seen = []
    for _ in range(3):
        seen.append(average(scenario).get(GPU, 0))
        after(scenario, scenario.decide(REMEMBERS), HOUR)
    assert seen == [3750, 1875, 937]


def test_nothing_is_remembered_without_a_half_life() -> None:
    scenario = used(4)
    after(scenario, scenario.decide(), HOUR)
    assert average(scenario, config=SchedulerConfig()) == {}
    assert (scenario.memory.past_usage, scenario.memory.reported_usage) == ({}, {})


def test_a_queue_with_high_past_usage_is_served_after_one_without() -> None:
    scenario = used(8)
    after(scenario, scenario.decide(REMEMBERS), HOUR)
    scenario.remove("run").gang("x", 1, gpu=1, queue="a").gang("y", 1, gpu=1, queue="b")
    assert scenario.decide(REMEMBERS).placed() == ["y", "x"]
    assert scenario.decide().placed() == ["x", "y"]


def test_past_usage_within_the_guarantee_does_not_count() -> None:
    scenario = used(8).queue("a", guarantee={GPU: 8})
    after(scenario, scenario.decide(REMEMBERS), HOUR)
    scenario.gang("more", 1, gpu=1, cpu=0, memory=0, queue="a").gang(
        "y", 1, gpu=1, cpu=0, memory=0, queue="b"
    )
    scenario.gang("old", 1, gpu=1, cpu=0, memory=0, bound=1, queue="b")
    assert scenario.decide(REMEMBERS).placed() == ["more", "y"]


@given(st.integers(0, 40), st.integers(0, 16), st.integers(0, 10 * HOUR), st.integers(0, 10 * HOUR))
def test_the_average_is_between_the_past_and_the_current_use(
    was: int, now: int, first: int, second: int
) -> None:
    scenario = used(now)
    scenario.memory = Memory(past_usage={QueueName("a"): PastUsage({GPU: was * 1000}, scenario.now)})
    found = []
    for later in (first, first + second):
        scenario.now = 1_000_000 + later
        found.append(average(scenario).get(GPU, 0))
    low, high = sorted((was * 1000, now * 1000))
    assert all(low <= each <= high for each in found)
    assert abs(found[1] - now * 1000) <= abs(found[0] - now * 1000)


def test_the_average_is_restored_from_the_queue_status() -> None:
    scenario = used(3)
    after(scenario, scenario.decide(REMEMBERS), HOUR)
    report = scenario.decide(REMEMBERS).result.queues["a"]
    status = status_of(report, now_ms=scenario.now)
    assert status.average_use[GPU] == "1500m"
    written = named(
        "Queue",
        "a",
        spec={},
        status={"averageUse": dict(status.average_use), "averageUseAt": status.average_use_at},
    )
    read = read_queue(written)
    assert read.past is not None
    assert abs(read.past.at - scenario.now) < 1000
    expected = average(scenario)
    scenario.memory = Memory()
    scenario.queue("a", past=read.past)
    assert average(scenario)[GPU] == pytest.approx(expected[GPU], abs=2)


def test_the_status_is_updated_at_the_report_period() -> None:
    scenario = used(4)
    reported = []
    for _ in range(3):
        result = scenario.decide(REMEMBERS)
        reported.append(result.result.queues["a"].past)
        after(scenario, result, PAST_USAGE_REPORT_PERIOD_MS // 2)
    assert reported[0] is not None
    assert reported[0] == reported[1] != reported[2]


@pytest.mark.parametrize(
    "status",
    [{}, {"averageUse": {"cpu": "1"}}, {"averageUse": {"cpu": "1"}, "averageUseAt": "yesterday"}],
)
def test_an_incomplete_status_is_ignored(status: dict[str, object]) -> None:
    assert read_queue(named("Queue", "a", spec={}, status=status)).past is None


def test_invalid_amounts_are_ignored() -> None:
    status = {"averageUse": {"cpu": "1.5", "memory": "much"}, "averageUseAt": "1970-01-01T00:00:02Z"}
    queue = read_queue(named("Queue", "a", spec={}, status=status))
    assert queue.past == PastUsage({CPU: 1500}, 2000)
    assert not queue.problems


def test_a_status_update_causes_no_retry() -> None:
    cache = Cache(scheduler_name="phalanx")
    cache.apply(Applied(named("Queue", "a", spec={})))
    before = cache.snapshot(now=0, seed=0, memory=Memory()).capacity_version
    status = {"averageUse": {"cpu": "1"}, "averageUseAt": "1970-01-01T00:00:02Z"}
    cache.apply(Applied(named("Queue", "a", spec={}, status=status)))
    snapshot = cache.snapshot(now=0, seed=0, memory=Memory())
    assert snapshot.capacity_version == before
    assert snapshot.queues[QueueName("a")].past == PastUsage({CPU: 1000}, 2000)
    cache.apply(Applied(named("Queue", "a", spec={"weight": 2}, status=status)))
    assert cache.snapshot(now=0, seed=0, memory=Memory()).capacity_version > before
