"""No check is violated in runs with PodGroups of Volcano, and the checks look at their phases."""

import pytest
from phalanx_simulator.embedded.apiserver.kinds import VOLCANO_POD_GROUPS
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.scenarios import Request, scenario_of
from phalanx_simulator.runs.simulation import simulate

pytestmark = pytest.mark.usefixtures("quiet")


def test_no_check_is_violated() -> None:
    request = Request(seed=2, nodes=8, hours=0.25, faults="all", load=0.7, workload="volcano")
    summary = simulate(scenario_of(request, checks=ALL_CHECKS))
    assert summary.violations == ()
    assert f"rbac patch podgroups.{VOLCANO_POD_GROUPS.group}" in summary.coverage
