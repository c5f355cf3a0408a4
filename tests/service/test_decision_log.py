"""What the log says of decisions: a line for each start and eviction, nothing for a cycle without them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from phalanx.model.decisions import Bind, Certificate, CycleResult, Evict, EvictionReason, Placement
from phalanx.model.names import GangId, NodeName, PodUid, QueueName
from phalanx.observe.ports import GangStart
from phalanx.service import decision_log
from phalanx.service.decision_log import DecisionLog
from structlog.testing import capture_logs

from tests.service.all_levels import all_levels_of

Lines = Callable[[CycleResult], list[Mapping[str, Any]]]


@pytest.fixture(autouse=True)
def all_levels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with all_levels_of(decision_log, monkeypatch):
        yield


@pytest.fixture(name="lines")
def _lines() -> Lines:
    """The lines at info or above for a result."""
    log = DecisionLog({GangId("g"): "team/train"}.get)

    def lines(result: CycleResult) -> list[Mapping[str, Any]]:
        with capture_logs() as found:
            log.cycle_finished(result)
        return [each for each in found if each["log_level"] != "debug"]

    return lines


def evict(pod: str, gang: str = "g") -> Evict:
    return Evict(
        PodUid(pod),
        "team",
        pod,
        GangId(gang),
        1,
        EvictionReason.PREEMPTED,
        "needed by other/urgent",
        "other/urgent",
    )


def test_an_empty_cycle_has_no_line(lines: Lines) -> None:
    assert lines(CycleResult(cycle=1)) == []


def test_evictions_of_a_gang_are_one_line_and_only_once(lines: Lines) -> None:
    [line] = lines(CycleResult(cycle=1, evictions=(evict("a"), evict("b"))))
    assert (line["event"], line["gang"], line["pods"]) == ("evicting", "team/train", 2)
    assert (line["reason"], line["for_gang"]) == ("Preempted", "other/urgent")
    assert lines(CycleResult(cycle=2, evictions=(evict("a"), evict("b")))) == []
    [line] = lines(CycleResult(cycle=3, evictions=(evict("a"), evict("x", gang="gone"))))
    assert (line["gang"], line["pods"]) == ("team/x", 1)


def test_a_start_is_one_line() -> None:
    binds = tuple(Bind(PodUid(f"{n}"), "team", f"p-{n}", NodeName(f"n{n}")) for n in range(3))
    certificate = Certificate(terms=(), objective=(), bound=(), proven=True, by="dp", fingerprint="f")
    placement = Placement(
        GangId("g"),
        "team/train",
        1,
        "start",
        binds,
        certificate,
        level="rack",
        domain="r1",
        queue=QueueName("q"),
    )
    with capture_logs() as found:
        DecisionLog(lambda _: None).gang_started(GangStart(placement, "q", 1000, 5000, 7500))
    [line] = found
    assert (line["event"], line["gang"], line["queue"], line["pods"]) == (
        "gang started",
        "team/train",
        "q",
        3,
    )
    assert (line["where"], line["nodes"], line["waited_s"]) == ("rack r1", 3, 6)
