"""S21 reports violations of a history, and nothing for a similar valid one."""

import pytest
from msgspec.structs import replace
from phalanx.model.decisions import Bind, Certificate, CycleResult, Placement
from phalanx.model.gangs import SubgroupSpec
from phalanx.model.names import NodeName
from phalanx_simulator.invariants.gangs import SubgroupsInOneDomain

from tests.builders import Scenario
from tests.sim_invariants.stage import Stage, violations

CERTIFICATE = Certificate((), (), (), proven=True, by="test")


def verdicts(part: SubgroupSpec, *targets: str, running: tuple[str, ...] = ()) -> list[str]:
    """Violations when the last members of a subgroup are placed on these nodes.

    Nodes a and b are in racks, c is in none.
    """
    scenario = (
        Scenario("rack").nodes("a", gpu=8, within="r1").nodes("b", gpu=8, within="r2").nodes("c", gpu=8)
    )
    count = len(running) + len(targets)
    scenario.gang("g", count, gpu=1, subgroups=(part,), on=[f"{node}-0" for node in running])
    members = tuple(replace(pod, subgroup="part") for pod in scenario.members("g"))
    scenario.change("g", members=members)
    waiting = scenario.members("g")[len(running) :]
    binds = tuple(
        Bind(pod.uid, pod.namespace, pod.name, NodeName(f"{node}-0"))
        for pod, node in zip(waiting, targets, strict=True)
    )
    gang = next(iter(scenario.snapshot().gangs))
    placement = Placement(gang, "team/g", 1, "start", binds, CERTIFICATE)

    async def history(stage: Stage) -> None:
        stage.checks.on_cycle("host", scenario.snapshot(), CycleResult(cycle=1, placements=(placement,)))

    return violations(history, SubgroupsInOneDomain)


ONE_RACK = SubgroupSpec("part", 1, required="rack")
PAIRS = SubgroupSpec("part", 1, required="rack", segment=2)


@pytest.mark.parametrize(
    ("part", "running", "targets", "expected"),
    [
        (ONE_RACK, "", "aa", 0),
        (ONE_RACK, "", "ab", 1),
        (ONE_RACK, "a", "b", 1),
        (ONE_RACK, "ab", "", 0),
        (ONE_RACK, "", "c", 1),
        (PAIRS, "", "aabb", 0),
        (PAIRS, "", "ab", 2),
        (PAIRS, "a", "a", 0),
        (PAIRS, "a", "bb", 0),
        (PAIRS, "a", "b", 1),
        (SubgroupSpec("part", 1), "", "ab", 0),
    ],
)
def test_subgroups_outside_one_domain_or_whole_segments_violate(
    part: SubgroupSpec, running: str, targets: str, expected: int
) -> None:
    assert verdicts(part, *targets, running=tuple(running)) == ["S21"] * expected
