"""S25 reports violations of a history, and nothing for a similar valid one."""

from phalanx.model.decisions import Bind, Certificate, CycleResult, Placement
from phalanx.model.memory import Memory, Move, Nomination
from phalanx.model.names import GangId, NodeName
from phalanx.model.resources import GPU
from phalanx_simulator.invariants.held_capacity import HeldCapacityIsRespected

from tests.builders import Scenario
from tests.sim_invariants.stage import Stage, violations

NODE = NodeName("n-0")
HIGH, OTHER = GangId("gang-high"), GangId("gang-other")


def cluster(**other: object) -> Scenario:
    """A node of eight GPUs with a victim of two GPUs that still runs, and two waiting gangs."""
    scenario = Scenario().nodes("n", gpu=8).gang("low", 1, gpu=2, on=["n-0"])
    scenario.gang("high", 1, gpu=6, queue="q").queue("q").queue("r")
    return scenario.gang("other", 1, gpu=2, **{"queue": "r", **other})


def verdicts(scenario: Scenario, before: Memory, after: Memory, *, gang: str = "other") -> list[str]:
    """Violations when a cycle with these memories before and after it places the pod of a gang."""
    scenario.memory = before
    snapshot = scenario.snapshot()
    member = snapshot.gangs[GangId(f"gang-{gang}")].members[0]
    bind = Bind(member.uid, "team", member.name, NODE)
    certificate = Certificate((), (), (), True, "test")
    placement = Placement(GangId(f"gang-{gang}"), f"team/{gang}", 1, "start", (bind,), certificate)
    result = CycleResult(cycle=1, placements=(placement,), memory=after)

    async def history(stage: Stage) -> None:
        stage.checks.on_cycle("host", snapshot, result)

    return violations(history, HeldCapacityIsRespected)


def nominated(gpus: int, *, victims: tuple[str, ...] = ("low-0",), scenario: Scenario) -> Memory:
    uids = tuple(pod.uid for pod in scenario.members("low")) if victims else ()
    made = Nomination(usage={NODE: {GPU: gpus}}, victims=uids, until=1, attempts=1)
    return Memory(nominations={HIGH: made})


def test_a_placement_that_leaves_the_held_capacity_does_not_violate() -> None:
    scenario = cluster()
    kept = nominated(6, scenario=scenario)
    assert verdicts(scenario, kept, kept) == []


def test_a_placement_that_uses_held_capacity_violates() -> None:
    scenario = cluster()
    kept = nominated(7, scenario=scenario)
    assert verdicts(scenario, kept, kept) == ["S25"]


def test_capacity_of_pods_that_are_not_victims_does_not_count() -> None:
    scenario = cluster()
    kept = nominated(6, victims=(), scenario=scenario)
    assert verdicts(scenario, kept, kept) == ["S25"]


def test_an_expired_nomination_holds_no_capacity() -> None:
    scenario = cluster()
    assert verdicts(scenario, nominated(7, scenario=scenario), Memory()) == []


def test_a_nomination_of_the_same_cycle_is_not_checked() -> None:
    scenario = cluster()
    assert verdicts(scenario, Memory(), nominated(7, scenario=scenario)) == []


def test_a_gang_of_higher_priority_in_the_queue_may_use_held_capacity() -> None:
    scenario = cluster(queue="q", priority=1)
    kept = nominated(7, scenario=scenario)
    assert verdicts(scenario, kept, kept) == []


def test_a_gang_of_higher_priority_in_another_queue_may_not_use_held_capacity() -> None:
    scenario = cluster(priority=1)
    kept = nominated(7, scenario=scenario)
    assert verdicts(scenario, kept, kept) == ["S25"]


def moving(gpus: int, *, scenario: Scenario) -> Memory:
    pods = tuple(pod.uid for pod in scenario.members("low"))
    move = Move(
        scenario.snapshot().gangs[GangId("gang-low")].queue, "team", {NODE: {GPU: gpus}}, pods, until=1
    )
    return Memory(moves={GangId("gang-low"): move})


def test_capacity_is_held_for_a_moved_gang() -> None:
    scenario = cluster()
    assert verdicts(scenario, moving(6, scenario=scenario), moving(6, scenario=scenario)) == []
    assert verdicts(scenario, moving(7, scenario=scenario), moving(7, scenario=scenario)) == ["S25"]


def test_the_usage_of_recreated_members_reduces_the_hold_of_a_moved_gang() -> None:
    scenario = cluster().gang("moved", 2, gpu=1, on=["n-0", ""])
    went, pods = scenario.members("low"), scenario.snapshot().gangs[GangId("gang-moved")]
    move = Move(pods.queue, "team", {NODE: {GPU: 5}}, tuple(pod.uid for pod in went), until=1)
    kept = Memory(moves={pods.id: move})
    assert verdicts(scenario, kept, kept) == []


def test_a_gang_of_another_queue_may_use_it_within_its_guarantee() -> None:
    for guarantee, found in ((2, []), (1, ["S25"])):
        scenario = cluster().queue("r", guarantee={GPU: guarantee})
        kept = nominated(7, scenario=scenario)
        assert verdicts(scenario, kept, kept) == found
