"""No check is violated in runs with applications of YuniKorn, alone and beside PodGroups of Phalanx."""

import pytest
from msgspec.structs import replace
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.scenarios import Request, scenario_of
from phalanx_simulator.runs.simulation import simulate

pytestmark = pytest.mark.usefixtures("quiet")


def test_no_check_is_violated_beside_pod_groups_of_phalanx() -> None:
    request = Request(seed=4, nodes=8, hours=0.25, faults="all", load=0.7, workload="yunikorn")
    yunikorn = scenario_of(request, checks=ALL_CHECKS)
    ours = scenario_of(replace(request, workload="plain"), checks=ALL_CHECKS)
    pairs = zip(yunikorn.submissions, ours.submissions, strict=True)
    mixed = tuple(pair[number % 3 == 0] for number, pair in enumerate(pairs))
    kinds = [each["kind"] for one in mixed for each in one.manifests]
    assert kinds.count("Job") > 2 * kinds.count("PodGroup") > 0
    summary = simulate(replace(yunikorn, submissions=mixed))
    assert summary.violations == ()
