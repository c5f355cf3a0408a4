"""A gang avoids nodes on which it failed, and nodes that fail often cost more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig, ToleranceConfig
from phalanx.framework.decay import decayed
from phalanx.framework.retry import RetryConfig
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.pod_failures import FailedContainer, PodFailure
from phalanx.model.pods import PodPhase

from tests.builders import Scenario
from tests.examples import holds

NODE_AVOIDANCE_MS = RetryConfig().avoid_node_ms(0)
HOUR_MS = 3_600_000
PREFLIGHT = FailedContainer("preflight", 1, is_init=True)
HOURLY = SchedulerConfig(tolerance=ToleranceConfig(failure_half_life_minutes=60))


def failed_once(failure: PodFailure = PodFailure.CONTAINER, nodes: int = 2, **fields: object) -> Scenario:
    """A gang of one pod failed on n-0, the fullest node, which is the first choice; its pod is recreated."""
    scenario = Scenario().nodes("n", 1, gpu=4, used={"nvidia.com/gpu": 2}).nodes("spare", nodes - 1, gpu=4)
    scenario.gang("g", 1, gpu=1, on=("n-0",), **fields)
    scenario.memory = scenario.decide(HOURLY).result.memory
    return fail_again(scenario, failure)


def fail_again(scenario: Scenario, failure: PodFailure, ended: int = 0) -> Scenario:
    (last,) = [pod for pod in scenario.members("g") if pod.phase is PodPhase.RUNNING]
    rest = [pod for pod in scenario.members("g") if pod is not last]
    dead = replace(last, phase=PodPhase.FAILED, failure=failure, ended=ended)
    fresh = replace(last, uid=PodUid(f"{last.uid}+"), node=None, phase=PodPhase.PENDING)
    return scenario.change("g", members=(*rest, dead, fresh))


@pytest.mark.parametrize("failure", PodFailure)
def test_the_node_on_which_a_gang_failed_is_avoided(failure: PodFailure) -> None:
    scenario = failed_once(failure).gang("other", 1, gpu=1)
    decided = scenario.decide()
    place = "n-0" if failure is PodFailure.DISRUPTED else "spare-0"
    assert (decided.nodes("g"), decided.nodes("other")) == ([place], ["n-0"])


def test_an_avoided_node_is_used_when_no_other_fits() -> None:
    assert failed_once(nodes=1).decide().nodes("g") == ["n-0"]


def test_only_pods_that_fit_nowhere_else_use_an_avoided_node() -> None:
    scenario = failed_once(min=2)
    fresh = scenario.members("g")[-1]
    more = [replace(fresh, uid=PodUid(f"more-{index}")) for index in range(5)]
    decided = scenario.change("g", members=(*scenario.members("g"), *more)).decide()
    assert decided.where("g") == {"n": 2, "spare": 4}


def test_the_avoidance_expires_and_doubles_with_each_failure() -> None:
    scenario = failed_once()
    scenario.memory = scenario.decide().result.memory
    assert (
        scenario.memory.avoided[GangId("gang-g")][NodeName("n-0")].until == scenario.now + NODE_AVOIDANCE_MS
    )
    scenario.now += NODE_AVOIDANCE_MS - 1
    assert scenario.decide().nodes("g") == ["spare-0"]
    members = scenario.members("g")
    back = replace(members[-1], node=NodeName("n-0"), phase=PodPhase.RUNNING)
    fail_again(scenario.change("g", members=(*members[:-1], back)), PodFailure.CONTAINER)
    twice = scenario.decide().result.memory.avoided[GangId("gang-g")][NodeName("n-0")]
    assert (twice.until, twice.failures) == (scenario.now + 2 * NODE_AVOIDANCE_MS, 2)
    scenario.change("g", members=members)
    scenario.now += 1
    assert scenario.decide().nodes("g") == ["n-0"]


def test_a_restarted_scheduler_uses_the_time_of_the_failure() -> None:
    scenario = Scenario().nodes("n", 1, gpu=4, used={"nvidia.com/gpu": 2}).nodes("spare", 1, gpu=4)
    fail_again(scenario.gang("g", 1, gpu=1, on=("n-0",)), PodFailure.REJECTED, ended=scenario.now // 1000)
    first = scenario.decide()
    assert (first.nodes("g"), dict(first.result.memory.scores)) == (["spare-0"], {})
    scenario.now += NODE_AVOIDANCE_MS
    assert scenario.decide().nodes("g") == ["n-0"]


@pytest.mark.parametrize("bad", [{"Ready": "False"}, {"GpuNvlinkWatch": "True"}])
def test_a_lost_or_faulty_node_is_avoided_after_it_is_back(bad: dict[str, str]) -> None:
    scenario = Scenario().nodes("n", 1, gpu=4, used={"nvidia.com/gpu": 2}, conditions=bad)
    scenario.nodes("spare", 1, gpu=4).gang("g", 1, gpu=1, on=("n-0",))
    scenario.memory = scenario.decide().result.memory
    (old,) = scenario.members("g")
    scenario.nodes("n", 1, gpu=4, used={"nvidia.com/gpu": 2})
    scenario.change("g", members=(replace(old, uid=PodUid("new"), node=None, phase=PodPhase.PENDING),))
    assert scenario.decide().nodes("g") == ["spare-0"]


# --- scores -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", PodFailure)
def test_only_failures_caused_by_the_node_count(failure: PodFailure) -> None:
    scores = failed_once(failure).decide(HOURLY).result.stats.failure_scores
    is_of_node = failure in (PodFailure.NODE_LOST, PodFailure.NOT_PREPARED)
    assert scores == ({"n-0": 1000} if is_of_node else {})


def test_a_failed_pod_counts_once_and_its_score_decays() -> None:
    scenario = failed_once(PodFailure.NODE_LOST)
    for elapsed, expected in ((0, 1000), (HOUR_MS, 500), (HOUR_MS // 2, 375), (10 * HOUR_MS, None)):
        scenario.now += elapsed
        result = scenario.decide(HOURLY).result
        assert result.stats.failure_scores.get(NodeName("n-0")) == expected
        scenario.memory = result.memory


@pytest.mark.parametrize(("names", "counts"), [((), False), (("preflight",), True), (("setup",), False)])
def test_an_init_container_counts_only_if_the_configuration_names_it(
    names: tuple[str, ...], *, counts: bool
) -> None:
    scenario = failed_once(PodFailure.INIT_CONTAINER)
    members = [
        replace(pod, failed=PREFLIGHT) if pod.phase is PodPhase.FAILED else pod
        for pod in scenario.members("g")
    ]
    tolerance = ToleranceConfig(preflight_containers=names)
    decided = scenario.change("g", members=tuple(members)).decide(SchedulerConfig(tolerance=tolerance))
    assert dict(decided.result.stats.failure_scores) == ({"n-0": 1000} if counts else {})
    assert decided.nodes("g") == ["spare-0"]


@pytest.mark.parametrize(
    ("own", "parent", "counts"),
    [
        (None, None, False),
        (("preflight",), None, True),
        (None, ("preflight",), True),
        ((), ("preflight",), False),
        (("setup",), ("preflight",), False),
    ],
)
def test_an_init_container_counts_if_its_queue_names_it(
    own: tuple[str, ...] | None, parent: tuple[str, ...] | None, *, counts: bool
) -> None:
    scenario = failed_once(PodFailure.INIT_CONTAINER)
    scenario.queue("top", preflight_containers=parent).queue("team", parent="top", preflight_containers=own)
    members = [
        replace(pod, failed=PREFLIGHT) if pod.phase is PodPhase.FAILED else pod
        for pod in scenario.members("g")
    ]
    decided = scenario.change("g", members=tuple(members), queue="team").decide(HOURLY)
    assert dict(decided.result.stats.failure_scores) == ({"n-0": 1000} if counts else {})


@holds(25)
@given(
    failures=st.lists(
        st.tuples(
            st.integers(0, 3 * HOUR_MS // 2), st.sampled_from(["a", "b", "c"]), st.sampled_from(PodFailure)
        ),
        max_size=10,
    )
)
def test_what_the_node_did_counts_once_for_each_workload_and_half_life(
    failures: list[tuple[int, str, PodFailure]],
) -> None:
    """Each failure comes so long after the one before."""
    scenario = Scenario().nodes("n", 1, gpu=8)
    for name in ("a", "b", "c"):
        scenario.gang(name, 1, gpu=1, on=("n-0",))
    scenario.memory = scenario.decide(HOURLY).result.memory
    score, counted_at, last, at = 0.0, 0, dict[str, int](), 0
    for number, (after, name, failure) in enumerate(failures):
        scenario.now += after
        at += after
        did = failure in (PodFailure.NODE_LOST, PodFailure.NOT_PREPARED)
        if did and (name not in last or at - last[name] >= HOUR_MS):
            score = halved(score, at - counted_at) + 1000
            last[name] = counted_at = at
        first = scenario.members(name)[0]
        dead = replace(first, uid=PodUid(f"dead-{number}"), phase=PodPhase.FAILED, failure=failure)
        scenario.change(name, members=(*scenario.members(name), dead))
        result = scenario.decide(HOURLY).result
        scenario.memory = result.memory
        found = result.stats.failure_scores.get(NodeName("n-0"), 0)
        left = halved(score, at - counted_at)
        assert abs(found - left) <= 10 or left < 110, "the decay is in integers, and ends at a tenth"


def halved(score: float, after: int) -> float:
    """It is halved each hour, and falls evenly in between."""
    return score * 0.5 ** (after // HOUR_MS) * (1 - after % HOUR_MS / HOUR_MS / 2)


def test_a_node_that_becomes_unhealthy_counts() -> None:
    scenario = Scenario().nodes("n", 2)
    scenario.memory = scenario.decide().result.memory
    scenario.nodes("n", 1, conditions={"Ready": "False"})
    assert scenario.decide().result.stats.failure_scores == {"n-0": 1000}


def test_other_gangs_prefer_nodes_that_failed_less() -> None:
    scenario = failed_once(PodFailure.NODE_LOST).gang("other", 1, gpu=1)
    scenario.memory = scenario.decide(HOURLY).result.memory
    scenario.now += 1
    assert scenario.decide(HOURLY).nodes("other") == ["spare-0"]
    scenario.now += 2 * HOUR_MS
    assert scenario.decide(HOURLY).nodes("other") == ["n-0"]


def test_decay_is_monotonic_and_halves_each_half_life() -> None:
    left = [decayed(1000, elapsed, 100) for elapsed in range(0, 2000, 10)]
    assert left == sorted(left, reverse=True)
    assert (left[0], left[10], left[20], left[15], left[-1]) == (1000, 500, 250, 375, 0)
