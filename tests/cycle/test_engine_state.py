"""An engine with state of earlier cycles decides, byte for byte, what a new engine decides."""

import random
from itertools import count

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from phalanx.cycle import Engine, decide
from phalanx.framework.config import ActionName, SchedulerConfig
from phalanx.model.queues import Objective
from phalanx.model.resources import CPU, GPU

from tests.builders import Decided, Scenario
from tests.solver.problems import bounded

CONFIG = SchedulerConfig()
EVENTS = ("gang", "gang", "gang", "gone", "cordon", "fault", "foreign", "queue", "leader")


def cluster(objective: Objective | None) -> Scenario:
    scenario = Scenario("zone", "rack").queue("root")
    for index in range(6):
        scenario.nodes(f"n{index}", gpu=8, within=f"z{index % 2}/r{index // 2}")
    scenario.queue("a", parent="root", objective=objective)
    return scenario.queue("b", parent="root", guarantee={GPU: 8})


def apply_event(scenario: Scenario, what: str, dice: random.Random, number: int) -> None:
    node = f"n{dice.randrange(6)}"
    if what == "gang":
        topology = {dice.choice(["required", "preferred"]): dice.choice(["zone", "rack"])}
        fields = {
            "gpu": dice.choice([1, 2, 8]),
            "queue": dice.choice("ab"),
            "priority": dice.choice([0, 100]),
        }
        fields |= topology if dice.random() < 0.5 else {}
        scenario.gang(f"g{number}", dice.choice([1, 2, 5]), **fields)
    elif what == "gone" and scenario.gang_names:
        scenario.remove(dice.choice(scenario.gang_names))
    elif what == "cordon":
        scenario.nodes(node, gpu=8, within="z0/r0", cordoned=dice.random() < 0.7)
    elif what == "fault":
        scenario.nodes(
            node, gpu=8, within="z1/r1", conditions={"GpuXidError": dice.choice(["True", "False"])}
        )
    elif what == "foreign":
        scenario.nodes(node, gpu=8, within="z0/r2", used={GPU: dice.choice([0, 3]), CPU: 1000})
    elif what == "queue":
        scenario.queue("b", parent="root", guarantee={GPU: dice.choice([0, 8, 16])})
    elif what == "leader":
        scenario.memory = type(scenario.memory)()


@bounded(25)
@given(
    objective=st.sampled_from([None, Objective.SPREAD, Objective.LARGEST_HOLE]),
    cycles=st.lists(st.lists(st.sampled_from(EVENTS), max_size=3), min_size=2, max_size=6),
    dice=st.randoms(use_true_random=False),
)
def test_a_decision_does_not_depend_on_earlier_cycles(
    objective: Objective | None, cycles: list[list[str]], dice: random.Random
) -> None:
    scenario, engine, number = cluster(objective), Engine(CONFIG), 0
    for events in cycles:
        for what in events:
            number += 1
            apply_event(scenario, what, dice, number)
        scenario.now += 1000
        snapshot = scenario.snapshot()
        found = engine.decide(snapshot)
        assert msgspec.json.encode(found) == msgspec.json.encode(decide(snapshot, CONFIG))
        scenario.take(Decided(found))


def test_unused_sums_are_dropped() -> None:
    engine = Engine(CONFIG)
    engine.decide(cluster(None).snapshot())
    before = len(engine.session_cache.sums)
    engine.decide(Scenario().nodes("n", gpu=8).queue("a").snapshot())
    assert 0 < len(engine.session_cache.sums) < before


def test_two_engines_share_no_state() -> None:
    first, second = Engine(CONFIG), Engine(CONFIG)
    first.decide(cluster(None).gang("g", 2, gpu=1).snapshot())
    assert len(second.session_cache.sums) == 0
    assert len(second.class_tables) == 0 < min(len(first.class_tables), len(first.session_cache.sums))


def test_each_step_has_the_time_of_all_its_parts() -> None:
    times = count()
    engine = Engine(SchedulerConfig(actions=tuple(ActionName)), seconds=lambda: float(next(times)))
    engine.decide(Scenario().nodes("n", 1, gpu=1).snapshot())
    assert sum(engine.step_seconds.values()) == next(times) - 1, "the clock moves by 1 with each question"
