"""The campaign's statistics are those of its sources. Tolerances are six standard deviations or more."""

from collections import Counter
from statistics import median

import pytest
from phalanx.clock import seeded_random
from phalanx_simulator.campaigns.generator import (
    CAUSE,
    CORRELATED_CAUSE,
    FALSE_POSITIVE_CAUSE,
    FLAP_CAUSE,
    JOB_CAUSE,
    campaign,
    node_failure_rate_factors,
)
from phalanx_simulator.campaigns.published_rates import (
    CAUSES,
    CORRELATED,
    FALSE_POSITIVE,
    JOB_FAULTS_PER_GPU_DAY,
    NODE_FAULTS_PER_NODE_DAY,
    Repair,
    repair_s,
)
from phalanx_simulator.embedded.manifests import tree_of_nodes
from phalanx_simulator.faults.fault import Fault
from phalanx_simulator.faults.kinds import INJECTORS

from tests.hash_seeds import printed

YEAR_H = 8760
LEVELS = {
    "topology.kubernetes.io/zone": 2,
    "network.topology.nvidia.com/block": 8,
    "kubernetes.io/hostname": 16,
}
NODES = tree_of_nodes(LEVELS)
SEEDS = range(8)


@pytest.fixture(scope="module")
def years() -> list[tuple[Fault, ...]]:
    return [campaign(random=seeded_random(seed), nodes=NODES, hours=YEAR_H, scale=1) for seed in SEEDS]


def of_nodes(faults: tuple[Fault, ...]) -> list[Fault]:
    """Faults that a node's own process brought."""
    return [fault for fault in faults if fault.settings[CAUSE] not in (JOB_CAUSE, FLAP_CAUSE)]


def close(found: float, expected: float) -> bool:
    return abs(found - expected) < 6 * expected**0.5


@pytest.mark.parametrize(("scale", "hours"), [(1, YEAR_H), (10, YEAR_H), (100, YEAR_H / 10)])
def test_node_faults_come_at_their_rate_at_every_scale(scale: float, hours: float) -> None:
    found = of_nodes(campaign(random=seeded_random(9), nodes=NODES, hours=hours, scale=scale))
    assert close(len(found), NODE_FAULTS_PER_NODE_DAY * scale * len(NODES) * hours / 24)


def test_a_year_of_256_nodes_has_about_607_faults(years: list[tuple[Fault, ...]]) -> None:
    assert close(sum(len(of_nodes(year)) for year in years), 607 * len(SEEDS))


def test_a_job_on_1024_gpus_lasts_7_9_hours(years: list[tuple[Fault, ...]]) -> None:
    """A quarter of these nodes, so a quarter of all faults but those that take no job with them."""
    job_faults = sum(fault.settings[CAUSE] == JOB_CAUSE for year in years for fault in year)
    assert close(job_faults, JOB_FAULTS_PER_GPU_DAY * 2048 * 365 * len(SEEDS))
    per_day = JOB_FAULTS_PER_GPU_DAY * 1024 + NODE_FAULTS_PER_NODE_DAY * 128
    assert 24 / per_day == pytest.approx(7.9)


def test_the_worst_twentieth_has_about_half_of_the_faults(years: list[tuple[Fault, ...]]) -> None:
    shares = []
    for year in years:
        counts = Counter(fault.targets[0] for fault in of_nodes(year) if len(fault.targets) == 1)
        worst = sorted(counts.values(), reverse=True)[: round(len(NODES) / 20)]
        shares.append(sum(worst) / sum(counts.values()))
    assert 0.42 < sum(shares) / len(shares) < 0.58


@pytest.mark.parametrize(("count", "worst"), [(60, 3), (1000, 50)])
def test_the_worst_nodes_have_the_same_share_of_faults_in_every_cluster(count: int, worst: int) -> None:
    factors = node_failure_rate_factors(count, seeded_random(3))
    assert sum(factors) == pytest.approx(count)
    assert sum(sorted(factors, reverse=True)[:worst]) == pytest.approx(count / 2, rel=1e-3)
    assert factors != node_failure_rate_factors(count, seeded_random(4))


def test_one_node_is_as_good_as_the_average() -> None:
    assert node_failure_rate_factors(1, seeded_random(1)) == [1.0]
    assert campaign(random=seeded_random(1), nodes=[], hours=YEAR_H, scale=100) == ()


def test_causes_are_mixed_as_in_llamas_table(years: list[tuple[Fault, ...]]) -> None:
    assert sum(cause.count for cause in CAUSES) == 419
    named = {cause.name: cause.count for cause in CAUSES}
    counts = Counter(str(fault.settings[CAUSE]) for year in years for fault in of_nodes(year))
    total = sum(counts[name] for name in named)
    for name, count in named.items():
        assert close(counts[name], total * count / 419), name


def test_a_few_faults_are_correlated_or_false(years: list[tuple[Fault, ...]]) -> None:
    counts = Counter(str(fault.settings[CAUSE]) for year in years for fault in of_nodes(year))
    total = sum(counts.values())
    assert close(counts[CORRELATED_CAUSE], total * CORRELATED)
    assert close(counts[FALSE_POSITIVE_CAUSE], total * FALSE_POSITIVE)


def test_a_correlated_fault_takes_a_whole_block_within_a_minute(years: list[tuple[Fault, ...]]) -> None:
    found = [fault for year in years for fault in year if fault.settings[CAUSE] == CORRELATED_CAUSE]
    assert found
    assert {len(fault.targets) for fault in found} == {16}
    assert {fault.number("within_s") for fault in found} == {60}
    assert all(len({name.rpartition("-")[0] for name in fault.targets}) == 1 for fault in found)


def test_a_power_feed_takes_a_block_and_a_switch_a_rack() -> None:
    keys = ("network.topology.nvidia.com/block", "cloud.provider.com/topology-rack", "kubernetes.io/hostname")
    nodes = tree_of_nodes(dict(zip(keys, (4, 4, 4), strict=True)))
    faults = campaign(random=seeded_random(1), nodes=nodes, hours=YEAR_H, scale=10)
    found = [fault for fault in faults if fault.settings[CAUSE] == CORRELATED_CAUSE]
    assert {(fault.kind, len(fault.targets)) for fault in found} == {("switch-out", 4), ("power-out", 16)}


def test_one_repair_in_ten_is_followed_by_flapping(years: list[tuple[Fault, ...]]) -> None:
    flaps = [fault for year in years for fault in year if fault.settings[CAUSE] == FLAP_CAUSE]
    skipped = (CORRELATED_CAUSE, FALSE_POSITIVE_CAUSE)
    repairs = [
        fault
        for year in years
        for fault in of_nodes(year)
        if fault.seconds > 0 and fault.settings[CAUSE] not in skipped
    ]
    assert close(len(flaps), len(repairs) / 10)
    ends = {(fault.targets, fault.at_s + fault.number("detect_s") + fault.seconds) for fault in repairs}
    assert all((flap.targets, flap.at_s) in ends for flap in flaps)
    assert all(1 <= flap.number("period_s") <= 300 for flap in flaps)


def test_faults_are_detected_in_time_and_hangs_late(years: list[tuple[Fault, ...]]) -> None:
    named = {cause.name for cause in CAUSES} | {JOB_CAUSE}
    found = [fault for year in years for fault in year if fault.settings[CAUSE] in named]
    hangs = [fault for fault in found if fault.text("reason") == "NCCLTimeout"]
    others = [fault for fault in found if fault.text("reason") != "NCCLTimeout"]
    assert {fault.number("detect_s") for fault in hangs} == {600}
    assert {fault.number("detect_s") for fault in others} == set(range(2, 61))
    of_jobs = [fault for fault in found if fault.settings[CAUSE] == JOB_CAUSE]
    late = [fault for fault in of_jobs if fault.number("detect_s") == 600]
    assert close(len(late), len(of_jobs) * 9.9 / 46.0)


def test_repairs_take_their_time() -> None:
    random = seeded_random(5)
    times = {repair: [repair_s(repair, random) for _ in range(5000)] for repair in Repair}
    assert set(times[Repair.NONE]) == {0.0}
    assert median(times[Repair.RESET]) == pytest.approx(90, rel=0.05)
    assert median(times[Repair.REBOOT]) == pytest.approx(42 * 60, rel=0.06)
    assert 86_400 <= min(times[Repair.REPLACEMENT]) < max(times[Repair.REPLACEMENT]) <= 5 * 86_400


def test_a_node_that_is_out_does_not_fail_again() -> None:
    out_until: dict[str, float] = {}
    for fault in of_nodes(campaign(random=seeded_random(6), nodes=NODES, hours=500, scale=100)):
        if len(fault.targets) == 1:
            assert fault.at_s >= out_until.get(fault.targets[0], 0.0)
        end = fault.at_s + fault.number("detect_s") + fault.seconds
        out_until.update(dict.fromkeys(fault.targets, end))


def test_all_can_be_injected_and_are_in_order(years: list[tuple[Fault, ...]]) -> None:
    for year in years:
        assert {fault.kind for fault in year} <= {*INJECTORS}
        times = [fault.at_s for fault in year]
        assert times == sorted(times)


def test_the_same_seed_gives_the_same_campaign_in_any_process() -> None:
    script = (
        "import hashlib; from tests.sim_campaign.test_generator import *\n"
        "def mark(seed): return hashlib.sha256(repr(campaign(random=seeded_random(seed), nodes=NODES,"
        " hours=100, scale=10)).encode()).hexdigest()\n"
        "print(mark(1), mark(2))"
    )
    outputs = [printed("-c", script, hash_seed=seed) for seed in ("1", "2")]
    assert outputs[0] == outputs[1]
    first, second = outputs[0].split()
    assert first != second
