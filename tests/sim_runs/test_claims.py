"""Runs whose jobs claim volumes and devices, under every kind of fault: no check is violated."""

from typing import Final

import pytest
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.scenarios import Request, scenario_of
from phalanx_simulator.runs.simulation import simulate

REACHED: Final = {
    2: {"devices-reserved", "special-claim-used", "volume-provisioned"},
    6: {"devices-reserved", "special-claim-given-back", "special-claim-used"},
}
"""By seed, coverage points that show what its jobs had."""


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("seed", REACHED)
def test_claims_under_faults(seed: int) -> None:
    request = Request(seed=seed, nodes=8, hours=0.1, faults="storm", load=0.8, workload="claims")
    summary = simulate(scenario_of(request, checks=ALL_CHECKS))
    assert summary.violations == ()
    assert summary.coverage.keys() >= REACHED[seed]
    assert summary.faults["F14"] > 0


def test_some_seeds_of_plain_runs_have_claims() -> None:
    def has_claims(seed: int, **more: object) -> bool:
        fields = {"nodes": 8, "hours": 0.1, "faults": "all", "load": 0.7, **more}
        return scenario_of(Request(seed=seed, **fields), checks=()).has_claims  # type: ignore[arg-type]

    assert [seed for seed in range(17) if has_claims(seed)] == [5, 10, 12, 14, 15]
    assert has_claims(1, workload="claims")
    assert not any(has_claims(5, workload=name) for name in ("queues", "native", "volcano", "yunikorn"))
    assert not has_claims(5, faults="life")
