"""Eviction costs: the size of pods times the run time since their start or last checkpoint."""

from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.names import GangId
from phalanx.model.pods import Device, PodPhase
from phalanx_plugins.run_time_lost import RunTimeLost

from tests.builders import Scenario

NOW = 60_000_000_000
HOUR = 3600


def cost(scenario: Scenario, name: str = "g") -> int:
    session = Session(scenario.snapshot(), SchedulerConfig())
    gang = session.gangs[GangId(f"gang-{name}")]
    return RunTimeLost().eviction_cost(gang, gang.members, session)


def running(hours: int = 1, *, checkpointed: int = 0, device: Device | None = None, **asked: Any) -> Scenario:
    """A gang of one pod that has run for these hours; less than a minute counts as one."""
    scenario = Scenario().nodes("n", 1, gpu=8, shared=0 if "gpu" in asked else 2, gpu_memory=80)
    scenario.now = NOW
    scenario.gang("g", 1, on=["n-0"], **asked)
    (pod,) = scenario.members("g")
    since = NOW // 1000 - hours * HOUR if hours else 0
    return scenario.change(
        "g", members=(replace(pod, running_since=since, checkpointed=checkpointed, device=device),)
    )


@pytest.mark.parametrize(
    ("asked", "size"),
    [
        ({"gpu": 2}, 17),
        ({"gpu": 0, "cpu": 3}, 3),
        ({"share": 1000}, 9),
        ({"share": 500}, 5),
        ({"share": 1}, 2),
        ({"gpu_memory": 20}, 9),
        ({"gpu_memory": 20, "device": Device(0, 250)}, 3),
    ],
)
def test_a_device_counts_eight_and_a_core_one(asked: dict[str, Any], size: int) -> None:
    assert cost(running(0, **asked)) == size


def test_a_pod_that_does_not_run_yet_costs_nothing() -> None:
    """A bound pod that still pulls its images is evicted before one that has just started."""
    scenario = running(0, gpu=2)
    (pod,) = scenario.members("g")
    assert cost(scenario.change("g", members=(replace(pod, phase=PodPhase.PENDING),))) == 0


def test_run_time_counts_in_minutes_up_to_a_week() -> None:
    assert cost(running(1, gpu=1)) == 60 * 9
    assert cost(running(24 * 30, gpu=1)) == 7 * 24 * 60 * 9


@pytest.mark.parametrize(("ago", "minutes"), [(1800, 30), (0, 1), (-600, 1), (7 * HOUR, 60)])
def test_only_run_time_since_the_checkpoint_counts(ago: int, minutes: int) -> None:
    """A checkpoint from before the run is ignored; a checkpoint in the future counts as one of now."""
    saved = NOW // 1000 - ago
    assert cost(running(1, gpu=1, checkpointed=saved)) == minutes * 9
    assert cost(running(1, gpu=1).change("g", checkpointed=saved)) == minutes * 9


def test_the_gang_with_the_latest_checkpoint_is_evicted_first() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8)
    scenario.now = NOW
    for index in (0, 1):
        scenario.gang(f"low-{index}", 1, gpu=8, on=[f"n-{index}"])
        (pod,) = scenario.members(f"low-{index}")
        scenario.change(f"low-{index}", members=(replace(pod, running_since=NOW // 1000 - 10 * HOUR),))
    scenario.change("low-1", checkpointed=NOW // 1000 - 600)
    assert scenario.gang("high", 1, gpu=8, priority=5).decide().evicted() == ["low-1-0"]


def test_the_verdict_reports_an_ignored_hint() -> None:
    scenario = Scenario().nodes("n", 1, gpu=1).gang("g", 1, gpu=2, ignored=("PodGroup g: no time",))
    assert "PodGroup g: no time" in [each.finding for each in scenario.decide().verdict("g").evidence]
