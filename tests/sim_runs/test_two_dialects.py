"""Two dialects and two schedulers on one cluster under faults: no check is violated, also none of double use.

Every second workload has a PodGroup of Volcano, the others one of Phalanx. Another scheduler places pods of
its own on the same nodes.
"""

import pytest
from msgspec.structs import replace
from phalanx_simulator.embedded.apiserver.kinds import VOLCANO_POD_GROUPS
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.scenarios import Request, scenario_of
from phalanx_simulator.runs.simulation import simulate

pytestmark = pytest.mark.usefixtures("quiet")

OF_THE_OTHER_SCHEDULER = {"fault filler-thief", "fault interleaved-gangs"}


def test_no_check_is_violated() -> None:
    request = Request(seed=38, nodes=8, hours=0.25, faults="all", load=0.7, workload="volcano")
    volcano = scenario_of(request, checks=ALL_CHECKS)
    ours = scenario_of(replace(request, workload="plain"), checks=ALL_CHECKS)
    pairs = zip(volcano.submissions, ours.submissions, strict=True)
    mixed = tuple(pair[number % 2] for number, pair in enumerate(pairs))
    groups = [each["apiVersion"] for one in mixed for each in one.manifests if each["kind"] == "PodGroup"]
    assert len(set(groups)) == 2
    rivals = scenario_of(replace(request, faults="rivals"), checks=ALL_CHECKS).faults
    faults = tuple(sorted([*volcano.faults, *rivals], key=lambda fault: fault.at_s))
    summary = simulate(replace(volcano, submissions=mixed, faults=faults, rival=True))
    assert summary.violations == ()
    written = {
        f"rbac patch podgroups.{VOLCANO_POD_GROUPS.group}",
        "rbac patch podgroups/status.scheduling.phalanx.dev",
    }
    assert {*OF_THE_OTHER_SCHEDULER, *written, "fault leader-kill", "node-lost"} <= set(summary.coverage)
