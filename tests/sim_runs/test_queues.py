"""No check is violated in a few seeds of the workload with queues under all faults. More: `bench.soak`."""

from typing import Final

import pytest
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.scenarios import Request, scenario_of
from phalanx_simulator.runs.simulation import simulate

SEEDS: Final = (1, 5, 11)
HOURS: Final = 0.15


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("seed", SEEDS)
def test_no_check_is_violated(seed: int) -> None:
    request = Request(seed=seed, nodes=12, hours=HOURS, faults="all", load=1.0, workload="queues")
    assert simulate(scenario_of(request, checks=ALL_CHECKS)).violations == ()
