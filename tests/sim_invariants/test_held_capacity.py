"""S25 can fail, and does not when it only looks like it."""

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
    """A node of eight GPUs, two of them those of a victim that is still to end, and two gangs that wait."""
    scenario = Scenario().nodes("n", gpu=8).gang("low", 1, gpu=2, on=["n-0"])
    scenario.gang("high", 1, gpu=6, queue="q").queue("q").queue("r")
    return scenario.gang("other", 1, gpu=2, **{"queue": "r", **other})


def verdicts(scenario: Scenario, before: Memory, after: Memory, *, gang: str = "other") -> list[str]:
    """When the pod of a gang is placed in a cycle before and after which this is kept."""
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


def test_who_leaves_enough_may_come() -> None:
    scenario = cluster()
    kept = nominated(6, scenario=scenario)
    assert verdicts(scenario, kept, kept) == []


def test_who_takes_of_it_may_not() -> None:
    scenario = cluster()
    kept = nominated(7, scenario=scenario)
    assert verdicts(scenario, kept, kept) == ["S25"]


def test_what_a_victim_holds_becomes_room() -> None:
    scenario = cluster()
    kept = nominated(6, victims=(), scenario=scenario)
    assert verdicts(scenario, kept, kept) == ["S25"]


def test_what_is_given_up_is_kept_no_more() -> None:
    scenario = cluster()
    assert verdicts(scenario, nominated(7, scenario=scenario), Memory()) == []


def test_what_is_made_in_this_cycle_is_looked_at_elsewhere() -> None:
    scenario = cluster()
    assert verdicts(scenario, Memory(), nominated(7, scenario=scenario)) == []


def test_who_is_more_important_in_the_queue_may_take_it() -> None:
    scenario = cluster(queue="q", priority=1)
    kept = nominated(7, scenario=scenario)
    assert verdicts(scenario, kept, kept) == []


def test_who_is_more_important_in_another_queue_may_not() -> None:
    scenario = cluster(priority=1)
    kept = nominated(7, scenario=scenario)
    assert verdicts(scenario, kept, kept) == ["S25"]


def moving(gpus: int, *, scenario: Scenario) -> Memory:
    pods = tuple(pod.uid for pod in scenario.members("low"))
    move = Move(
        scenario.snapshot().gangs[GangId("gang-low")].queue, "team", {NODE: {GPU: gpus}}, pods, until=1
    )
    return Memory(moves={GangId("gang-low"): move})


def test_the_room_of_one_that_is_moved_is_kept() -> None:
    scenario = cluster()
    assert verdicts(scenario, moving(6, scenario=scenario), moving(6, scenario=scenario)) == []
    assert verdicts(scenario, moving(7, scenario=scenario), moving(7, scenario=scenario)) == ["S25"]


def test_what_its_new_members_have_is_not_kept_besides() -> None:
    scenario = cluster().gang("moved", 2, gpu=1, on=["n-0", ""])
    went, pods = scenario.members("low"), scenario.snapshot().gangs[GangId("gang-moved")]
    move = Move(pods.queue, "team", {NODE: {GPU: 5}}, tuple(pod.uid for pod in went), until=1)
    kept = Memory(moves={pods.id: move})
    assert verdicts(scenario, kept, kept) == []
