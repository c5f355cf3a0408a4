"""The next step of a verdict: which changes it offers, and its text."""

from msgspec.structs import replace
from phalanx.actions.demands.demand import Demand
from phalanx.actions.demands.gang_demands import demands_of
from phalanx.actions.explanations import next_steps
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.names import GangId, NodeName
from phalanx.model.nodes import Taint, TaintEffect
from phalanx.model.queues import Flavor
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import GPU
from phalanx.solver import problem as solver
from phalanx.solver.infeasibility.explain import Explanation
from phalanx.solver.infeasibility.relaxations import NEW_NODE, NodeCapacity, Relaxation, RelaxationKind

from tests.builders import Scenario

NOTHING = solver.PlacementProblem(resources=(), levels=(), roles=(), classes=())


def session_of(scenario: Scenario) -> Session:
    return Session(scenario.snapshot(), SchedulerConfig())


def demand(scenario: Scenario) -> Demand:
    found = demands_of(session_of(scenario).gangs[GangId("gang-g")])
    assert not isinstance(found, Objection)
    return found[0]


def facts(*relaxations: Relaxation) -> Explanation:
    return Explanation(
        most=(),
        most_proven=True,
        conflict=(),
        irreducible=True,
        relaxations=relaxations,
    )


def capacity(*nodes: str) -> Relaxation:
    capacities = tuple(NodeCapacity(node=node, amounts={GPU: 1}) for node in nodes)  # type: ignore[arg-type]
    return Relaxation(RelaxationKind.ADD_CAPACITY, amounts={GPU: len(nodes)}, capacity=capacities)


def waiting(*relaxations: Relaxation) -> str:
    scenario = Scenario().gang("g", 4)
    for name in "abcd":
        scenario.nodes(name, 1)
    return next_steps.while_waiting(demand(scenario), NOTHING, facts(*relaxations), session_of(scenario))


def test_capacity_is_shown_with_its_nodes_while_they_are_few() -> None:
    assert waiting(capacity("a-0", "b-0")) == "Wait until 2 more nvidia.com/gpu are free on a-0, b-0"
    many = capacity("a-0", "b-0", "c-0", "d-0")
    assert waiting(many) == "Wait until 4 more nvidia.com/gpu are free on 4 nodes"
    assert waiting(replace(many, pods=2, level="rack", domain=("z", "r"))) == (
        "Wait until nodes in rack z/r fit 2 more pods (at least 4 more nvidia.com/gpu)"
    )


def test_the_first_of_several_changes_of_a_kind_is_shown() -> None:
    assert waiting(capacity("a-0"), capacity("b-0")) == "Wait until 1 more nvidia.com/gpu are free on a-0"


def test_every_missing_amount_is_shown() -> None:
    change = Relaxation(
        RelaxationKind.ADD_CAPACITY,
        amounts={GPU: 1, "cpu": 1500, "memory": 1 << 30},
        capacity=(NodeCapacity(node=NodeName("a-0"), amounts={}),),
    )
    assert (
        waiting(change) == "Wait until 1500m more cpu, 1Gi more memory, 1 more nvidia.com/gpu are free on a-0"
    )


def test_a_new_node_is_not_waited_for() -> None:
    assert waiting(capacity(NEW_NODE)) == "Wait until running work ends"


def test_there_is_a_next_step_without_relaxations() -> None:
    assert waiting() == "Wait until running work ends"
    scenario = Scenario().gang("g", 4)
    text = next_steps.when_impossible(demand(scenario), NOTHING, facts(), session_of(scenario))
    assert text == "Make the gang smaller, or add nodes"


def test_a_smaller_minimum_is_offered_to_whole_gangs_of_one_shape_only() -> None:
    lower = Relaxation(RelaxationKind.LOWER_MINIMUM, minimums=(3,))

    def next_step(scenario: Scenario) -> str:
        return next_steps.when_impossible(demand(scenario), NOTHING, facts(lower), session_of(scenario))

    assert next_step(Scenario().gang("g", 4)) == "Lower minMember to 3"
    assert "minMember" not in next_step(Scenario().gang("g", 2, min=4).role("g", 2, cpu=2))
    assert "minMember" not in next_step(Scenario().nodes("n").gang("g", 4, bound=1))


def test_pods_without_selectors_are_not_advised_to_change_them() -> None:
    """Unavailable nodes are only mentioned where a selector or toleration can be changed."""
    scenario = Scenario().nodes("full", cpu=4).gang("old", 1, cpu=4, on=("full-0",))
    scenario.nodes("lost", cpu=4, conditions={"Ready": "False"}).gang("g", 1, cpu=4)
    assert "bring back 1 unavailable node" in scenario.decide().verdict("g").next_step
    scenario.nodes("held", cpu=4, cordoned=True)
    assert "bring back 2 unavailable nodes" in scenario.decide().verdict("g").next_step
    scenario.nodes("gpu", cpu=4, taints=(Taint(key="gpu", value="", effect=TaintEffect.NO_SCHEDULE),))
    said = "allow other nodes (nodeSelector, affinity, tolerations; 2 more are unavailable)"
    assert said in scenario.decide().verdict("g").next_step


def test_a_conflict_names_the_limit_before_the_level() -> None:
    """Rack r1 is large enough but limited to 4 devices, rack r2 is too small."""
    small = Flavor("r1", (("group", "r1"),), {GPU: 4})
    scenario = Scenario("rack").nodes("r1", 1, gpu=8, within="r1").nodes("r2", 1, gpu=2, within="r2")
    scenario.queue("q", flavors=[small]).gang("g", 6, gpu=1, required="rack", queue="q")
    verdict = scenario.decide().verdict("g")
    assert verdict.reason is Reason.ABOVE_QUEUE_LIMIT
    assert [each.subject for each in verdict.evidence if each.subject.startswith("conflict")] == [
        "conflict of limit of queue q for flavor r1 + required level rack + capacity"
    ]
