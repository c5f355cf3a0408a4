"""Drivers whose executors are created later, and gangs that fill the cluster. Full sizes: `bench/`."""

import pytest
from msgspec.structs import replace

from bench import knavigator, spark_drivers


@pytest.mark.parametrize("killed_every_s", [None, 30.0])
def test_each_driver_starts_with_capacity_for_two_executors_and_all_finish(
    killed_every_s: float | None,
) -> None:
    """A scheduler that is killed and restarted holds the capacity too."""
    plan = replace(spark_drivers.PLAN, begins_s=40.0)
    played = spark_drivers.play(
        drivers=6, nodes=1, reserves=True, patience_s=900.0, plan=plan, killed_every_s=killed_every_s
    )
    assert (played.finished, played.violations) == (6, 0)
    assert played.least_spare >= 0
    assert played.drivers_at_once == 2


def test_without_a_reservation_drivers_use_all_cores_and_none_finishes() -> None:
    played = spark_drivers.play(drivers=10, nodes=1, reserves=False, patience_s=300.0)
    assert (played.finished, played.drivers_at_once, played.executors_at_once) == (0, 8, 0)
    assert played.least_spare < 0


def test_gangs_fill_all_nodes_in_three_rounds() -> None:
    played = knavigator.play([8, 4, 4, 2, 3, 3], nodes=8, ordering="StrictFIFO")
    assert (played.finished, played.violations, played.busy) == (24, 0, (8, 8, 8))
    assert 0 <= played.makespan_s - played.lower_bound_s < 1.5 * len(played.busy)
