"""S22 reports violations of a history, and nothing for a similar valid one."""

from collections.abc import Mapping
from typing import Final

import pytest
from msgspec.structs import replace
from phalanx.model.api.pod_groups import Disruption
from phalanx.model.decisions import (
    Bind,
    Certificate,
    CycleResult,
    Evict,
    EvictionReason,
    Placement,
    QueueReport,
)
from phalanx.model.memory import Memory, Move, Nomination
from phalanx.model.names import NO_QUEUE, GangId, NodeName, QueueName
from phalanx.model.pods import PodPhase
from phalanx.model.resources import GPU
from phalanx_simulator.invariants.preemptions import PreemptionsAreValid

from tests.builders import Scenario
from tests.sim_invariants.stage import Stage, violations

NONE_KNOWN: Final[Mapping[GangId, Nomination]] = {}


def cluster(**victim: object) -> Scenario:
    """A node that a gang of two fills; another gang needs half of it."""
    scenario = Scenario().nodes("n", gpu=8).gang("low", 2, gpu=4, on=["n-0"] * 2, **victim)
    return scenario.gang("high", 1, gpu=4, priority=1)


def verdicts(
    scenario: Scenario,
    *pods: int,
    gpus: int = 4,
    reason: str = "Preempted",
    again: int = 0,
    known: Mapping[GangId, Nomination] = NONE_KNOWN,
    placed: tuple[Placement, ...] = (),
    is_of_others: bool = False,
) -> list[str]:
    """Violations when these members of gang low are evicted for gang high, which is nominated for `gpus`
    GPUs.

    `again`: GPUs on the node that are held for gang low. `placed`: what the cycle places.
    `is_of_others`: whether gang low is a pod of another scheduler.
    """
    scenario.memory = Memory(nominations=known)
    snapshot = scenario.snapshot()
    low = snapshot.gangs[GangId("gang-low")]
    if is_of_others:
        rest = {name: gang for name, gang in snapshot.gangs.items() if gang is not low}
        snapshot = replace(snapshot, gangs=rest, evictable_pods={low.id: replace(low, queue=NO_QUEUE)})
    evictions = tuple(
        Evict(
            low.members[i].uid,
            "team",
            f"low-{i}",
            low.id,
            1,
            EvictionReason(reason),
            "",
            beneficiary="team/high",
        )
        for i in pods
    )
    victims = tuple(each.pod for each in evictions)
    made = Nomination(
        usage={NodeName("n-0"): {GPU: gpus}}, victims=victims, decided=snapshot.now, until=1, attempts=1
    )
    usage = {NodeName("n-0"): {GPU: again}}
    moves = {low.id: Move(low.queue, "team", usage, victims, until=1)} if again else {}
    memory = Memory(nominations={**known, GangId("gang-high"): made}, moves=moves)
    queues = {str(name): QueueReport({}, 0, 0) for name in snapshot.queues}
    result = CycleResult(cycle=1, placements=placed, evictions=evictions, memory=memory, queues=queues)

    async def history(stage: Stage) -> None:
        stage.checks.on_cycle("host", snapshot, result)

    return violations(history, PreemptionsAreValid)


def test_a_whole_gang_of_lower_priority_may_be_evicted() -> None:
    assert verdicts(cluster(), 0, 1, gpus=8) == []


def test_a_nomination_above_the_freed_capacity_violates() -> None:
    assert verdicts(cluster(), 0, 1, gpus=9) == ["S22"]


def test_victims_and_usage_of_earlier_nominations_count() -> None:
    """One of two gangs on the node is a victim for a third gang and is not terminating yet."""
    scenario = Scenario().nodes("n", gpu=8).gang("low", 1, gpu=2, on=["n-0"])
    scenario.gang("other", 1, gpu=6, on=["n-0"]).gang("high", 1, gpu=4, priority=1).gang("third", 1, gpu=4)
    victims = tuple(pod.uid for pod in scenario.members("other"))
    for gpus, expected in ((4, []), (6, ["S22"])):
        third = Nomination(usage={NodeName("n-0"): {GPU: gpus}}, victims=victims, until=1, attempts=1)
        assert verdicts(scenario, 0, known={GangId("gang-third"): third}) == expected


def test_leaving_fewer_members_than_the_minimum_violates() -> None:
    assert verdicts(cluster(), 0) == ["S22"]


def test_surplus_members_may_be_evicted_alone() -> None:
    assert verdicts(cluster(min=1), 1) == []


def test_a_victim_of_equal_priority_violates() -> None:
    assert verdicts(cluster(priority=1), 0, 1) == ["S22", "S22"]


@pytest.mark.parametrize(("priority", "expected"), [(-1, []), (0, ["S22"])])
def test_a_pod_of_another_scheduler_is_a_victim_below_priority_zero(
    priority: int, expected: list[str]
) -> None:
    scenario = Scenario().nodes("n", gpu=8).gang("low", 1, gpu=8, on=["n-0"], priority=priority)
    scenario.gang("high", 1, gpu=8, priority=1)
    assert verdicts(scenario, 0, gpus=8, is_of_others=True) == expected


def test_a_moved_victim_may_have_equal_but_not_higher_priority() -> None:
    assert verdicts(cluster(priority=1), 0, 1, reason="Consolidated", again=4) == []
    assert verdicts(cluster(priority=2), 0, 1, reason="Consolidated", again=4) == ["S22", "S22"]


def test_a_moved_victim_without_enough_held_capacity_violates() -> None:
    assert verdicts(cluster(), 0, 1, reason="Consolidated") == ["S22", "S22"]
    assert verdicts(cluster(), 0, 1, reason="Consolidated", again=5) == ["S22", "S22"]


@pytest.mark.parametrize(("guarantee", "expected"), [(0, []), (7, []), (8, ["S22"])])
def test_no_gang_is_evicted_that_a_guarantee_of_another_queue_covers(
    guarantee: int, expected: list[str]
) -> None:
    """A guarantee covers whole gangs."""
    scenario = cluster(queue="other").queue("other", guarantee={GPU: guarantee})
    assert verdicts(scenario, 0, 1) == expected


@pytest.mark.parametrize(("beside", "expected"), [(8, []), (7, ["S22"])])
def test_another_gang_may_make_up_the_amount_that_a_guarantee_covered(
    beside: int, expected: list[str]
) -> None:
    """The guarantee covers the older gang, which a fair share may take if the amount stays."""
    scenario = cluster(queue="other").queue("other", guarantee={GPU: 8}).nodes("m", gpu=8)
    scenario.gang("beside", 1, gpu=beside, queue="other", on=["m-0"])
    assert verdicts(scenario, 0, 1) == expected


@pytest.mark.parametrize(
    ("cause", "running", "expected"),
    [
        ("replace", 1, []),
        ("replace", 0, []),
        ("start", 1, []),
        ("surplus", 1, ["S22"]),
        (None, 1, ["S22"]),
    ],
)
def test_a_guarantee_covers_lost_members_that_the_cycle_replaces(
    cause: str | None, running: int, expected: list[str]
) -> None:
    """It covers gang low only without these: gang older goes first. Starts of the cycle do not count."""
    scenario = cluster(queue="other").queue("other", guarantee={GPU: 12}).nodes("m", gpu=8)
    scenario.gang("older", 2, gpu=4, queue="other", on=["m-0"] * running, priority=1)
    placed = (placement(scenario, "older", "m-0", running, cause),) if cause else ()
    assert verdicts(scenario, 0, 1, placed=placed) == expected


@pytest.mark.parametrize(("gpus", "expected"), [(8, []), (7, ["S22"])])
def test_what_the_cycle_starts_makes_up_the_amount_that_a_guarantee_covered(
    gpus: int, expected: list[str]
) -> None:
    scenario = cluster(queue="other").queue("other", guarantee={GPU: 8}).nodes("m", gpu=8)
    scenario.gang("new", 1, gpu=gpus, queue="other")
    assert verdicts(scenario, 0, 1, placed=(placement(scenario, "new", "m-0", 0, "start"),)) == expected


def placement(scenario: Scenario, gang: str, node: str, first: int, cause: str) -> Placement:
    """It places the members of the gang from this one on."""
    waiting = scenario.members(gang)[first:]
    binds = tuple(Bind(pod.uid, "team", pod.name, NodeName(node)) for pod in waiting)
    certificate = Certificate((), (), (), proven=True, by="")
    return Placement(GangId(f"gang-{gang}"), f"team/{gang}", 1, cause, binds, certificate)


@pytest.mark.parametrize(("guarantee", "expected"), [(0, []), (8, ["S22"])])
def test_the_parent_of_another_queue_covers_gangs_too(guarantee: int, expected: list[str]) -> None:
    scenario = (
        cluster(queue="inner").queue("outer", guarantee={GPU: guarantee}).queue("inner", parent="outer")
    )
    assert verdicts(scenario, 0, 1) == expected


@pytest.mark.parametrize(("members", "expected"), [(1, ["S22"]), (2, [])])
def test_surplus_that_is_not_preemptible_is_covered_before_other_gangs(
    members: int, expected: list[str]
) -> None:
    scenario = cluster(queue="other").queue("other", guarantee={GPU: 12}).nodes("m", gpu=8)
    on, kept = ["m-0"] * members, Disruption(preemptible=False)
    scenario.gang("kept", members, min=1, gpu=4, queue="other", on=on, disruption=kept)
    assert verdicts(scenario, 0, 1) == expected


@pytest.mark.parametrize(("members", "expected"), [(1, ["S22"]), (2, [])])
def test_surplus_of_a_child_may_take_what_a_parent_covers(members: int, expected: list[str]) -> None:
    scenario = cluster(queue="inner").queue("outer", guarantee={GPU: 9}).nodes("m", gpu=8)
    scenario.queue("inner", parent="outer").queue("near", parent="outer", guarantee={GPU: 2})
    scenario.gang("beside", members, min=1, gpu=1, queue="near", on=["m-0"] * members)
    assert verdicts(scenario, 0, 1) == expected


def test_a_common_ancestor_need_not_keep_its_guarantee() -> None:
    scenario = Scenario().nodes("n", gpu=8).gang("low", 2, gpu=4, on=["n-0"] * 2, queue="theirs")
    scenario.gang("high", 1, gpu=4, queue="mine").queue("outer", guarantee={GPU: 8})
    scenario.queue("mine", parent="outer").queue("theirs", parent="outer")
    assert verdicts(scenario, 0, 1) == []


def test_a_victim_that_is_not_preemptible_violates() -> None:
    assert verdicts(cluster(disruption=Disruption(preemptible=False)), 0, 1) == ["S22", "S22"]


@pytest.mark.parametrize(
    ("minimum", "minutes_ago", "expected"),
    [(2, 0, ["S22"]), (2, 9, ["S22"]), (2, 11, []), (1, 0, [])],
)
def test_a_finishing_victim_violates_for_ten_minutes(
    minimum: int, minutes_ago: int, expected: list[str]
) -> None:
    """A gang of which enough members run for its minimum is not finishing."""
    scenario = cluster(min=minimum)
    scenario.now = 3600_000
    ended, other = scenario.members("low")
    ran = (0, 3600 - 60 * minutes_ago)
    scenario.change("low", members=(replace(ended, phase=PodPhase.SUCCEEDED, ran=ran), other))
    assert verdicts(scenario, 1) == expected


def test_a_victim_without_a_guarantee_may_be_evicted_for_another_queue() -> None:
    scenario = cluster(queue="q", disruption=Disruption(preemptible=False)).queue("q")
    assert verdicts(scenario, 0, 1, gpus=8) == []


@pytest.mark.parametrize(("guarantee", "expected"), [(8, ["S22", "S22"]), (7, [])])
def test_a_victim_that_is_not_preemptible_violates_within_its_guarantee(
    guarantee: int, expected: list[str]
) -> None:
    scenario = cluster(queue="q", disruption=Disruption(preemptible=False))
    scenario.queue("q", guarantee={GPU: guarantee}).change("high", queue=QueueName("q"))
    assert verdicts(scenario, 0, 1, gpus=8) == expected
