"""Demands of a gang: which members make up its minimum, and which are surplus."""

import pytest
from phalanx.actions.demands.demand import Demand, Stage
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId
from phalanx.model.reasons import Objection, Reason

from tests.builders import Scenario, demands_of


def gang_of(scenario: Scenario) -> Gang:
    return Session(scenario.snapshot(), SchedulerConfig()).gangs[GangId("gang-g")]


def demands(scenario: Scenario) -> tuple[Demand, ...]:
    found = demands_of(gang_of(scenario))
    assert not isinstance(found, Objection), found
    return found


def names(demand: Demand) -> list[str]:
    return sorted(pod.name for batch in demand.batches for pod in batch.pods)


def test_a_new_gang_demands_its_whole_minimum() -> None:
    (demand,) = demands(Scenario().gang("g", 3))
    assert (demand.stage, demand.cause, demand.is_whole, demand.count) == (Stage.START, "start", True, 3)


def test_any_number_of_surplus_members_may_be_placed() -> None:
    start, surplus = demands(Scenario().gang("g", 5, min=3))
    assert names(start) == ["g-0", "g-1", "g-2"]
    assert names(surplus) == ["g-3", "g-4"]
    assert (surplus.stage, surplus.cause, surplus.is_whole) == (Stage.SURPLUS, "surplus", False)


def test_a_partly_bound_gang_that_never_started_demands_the_missing_members() -> None:
    scenario = Scenario().nodes("n", 4).gang("g", 5, min=4, on=["n-0"])
    missing, surplus = demands(scenario)
    assert (missing.stage, missing.cause, missing.is_whole) == (Stage.REPAIR, "start", True)
    assert names(missing) == ["g-1", "g-2", "g-3"]
    assert names(surplus) == ["g-4"]


def test_a_started_gang_replaces_as_many_as_it_can() -> None:
    scenario = Scenario().nodes("n", 4).gang("g", 4, bound=4).lose("g", 2).change("g", started=True)
    (repair,) = demands(scenario)
    assert (repair.stage, repair.cause, repair.is_whole) == (Stage.REPAIR, "replace", False)
    assert names(repair) == ["g-2", "g-3"]


def test_members_beyond_the_shortfall_are_surplus_in_a_started_gang() -> None:
    scenario = Scenario().nodes("n", 4).gang("g", 4, min=3, bound=4, started=True).lose("g", 2)
    repair, surplus = demands(scenario)
    assert names(repair) == ["g-2"]
    assert names(surplus) == ["g-3"]


def test_the_minimums_of_roles_are_filled_first() -> None:
    scenario = Scenario().gang("g", 4, min=4, role="worker").role("g", 2, min=2, role="ps", cpu=2)
    scenario.role("g", 0, min=1, role="worker")
    start, surplus = demands(scenario)
    assert names(start) == ["g-0", "g-1", "g-4", "g-5"]
    assert names(surplus) == ["g-2", "g-3"]


def test_a_started_gang_that_lost_a_role_repairs_that_role() -> None:
    scenario = Scenario().nodes("n", 4).gang("g", 4, min=3, role="worker", bound=4)
    scenario.role("g", 1, min=1, role="ps").change("g", started=True)
    (repair,) = demands(scenario)
    assert (repair.stage, names(repair)) == (Stage.REPAIR, ["g-4"])


def test_pods_of_one_shape_are_one_batch_across_roles() -> None:
    scenario = Scenario().gang("g", 2, min=5, role="ps").role("g", 2, role="worker")
    scenario.role("g", 1, role="chief", cpu=3)
    (start,) = demands(scenario)
    assert [(batch.name, len(batch.pods)) for batch in start.batches] == [("ps+worker", 4), ("chief", 1)]


def test_gated_members_are_never_placed() -> None:
    scenario = Scenario().gang("g", 2, min=2).role("g", 1, gated=True)
    (start,) = demands(scenario)
    assert names(start) == ["g-0", "g-1"]


@pytest.mark.parametrize(("count", "minimum"), [(3, 4), (1, 2), (0, 1)])
def test_missing_members_are_counted(count: int, minimum: int) -> None:
    found = demands_of(gang_of(Scenario().gang("g", count, min=minimum)))
    assert isinstance(found, Objection)
    assert found.reason is Reason.MEMBERS_MISSING
    assert str(minimum - count) in found.message
