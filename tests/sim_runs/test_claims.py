"""Which runs have jobs that claim volumes and devices; `test_seeds.py` plays some of them."""

from phalanx_simulator.runs.scenarios import Request, scenario_of

from tests.sim_runs.seeds import STORMS, request_of, selection


def test_some_seeds_of_plain_runs_have_claims() -> None:
    def has_claims(seed: int, **more: object) -> bool:
        fields = {"nodes": 8, "hours": 0.1, "faults": "all", "load": 0.7, **more}
        return scenario_of(Request(seed=seed, **fields), checks=()).has_claims  # type: ignore[arg-type]

    assert [seed for seed in range(17) if has_claims(seed)] == [5, 10, 12, 14, 15]
    assert has_claims(1, workload="claims")
    assert not any(has_claims(5, workload=name) for name in ("queues", "native", "volcano", "yunikorn"))
    assert not has_claims(5, faults="life")


def test_storms_of_the_selected_seeds_have_claims_and_their_faults() -> None:
    storms = [scenario_of(request_of(seed), checks=()) for seed in selection().seeds if seed >= STORMS]
    assert all(each.has_claims for each in storms)
    assert {"F3", "F5", "F8", "F14"} <= {fault.family for each in storms for fault in each.faults}


def test_prepared_runs_have_the_faults_of_drivers_too() -> None:
    """The same jobs and faults as with claims, and more faults."""
    claims, prepared = (
        scenario_of(Request(seed=3, nodes=8, hours=0.5, faults="all", load=0.7, workload=name), checks=())
        for name in ("claims", "prepared")
    )
    assert prepared.prepares_devices
    assert not claims.prepares_devices
    assert prepared.submissions == claims.submissions
    assert prepared.faults[: len(claims.faults)] == claims.faults
    assert {each.family for each in prepared.faults[len(claims.faults) :]} == {"F15"}
