"""Typical pods for the fragmentation order; cached costs of nodes equal recomputed ones."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.actions.nodes import fragmentation_order as fragmentation
from phalanx.actions.nodes.fragmentation_order import FragmentationOrders, Typical, typical
from phalanx.actions.nodes.fullness import Fullness
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.framework.statement import DoesNotFit
from phalanx.model.names import NodeName
from phalanx.model.pods import Pod
from phalanx.solver.fragmentation import TypicalPods

from tests.builders import Scenario, term
from tests.solver.problems import bounded


def session_of(scenario: Scenario, shuffle: int = 0) -> Session:
    return Session(scenario.snapshot(shuffle), SchedulerConfig())


def typical_of(scenario: Scenario, shuffle: int = 0) -> Typical:
    return typical(session_of(scenario, shuffle))


def test_typical_pods_are_waiting_and_running_pods_of_all_queues() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8, cpu=16).nodes("plain").queue("other")
    scenario.gang("runs", 3, gpu=2, cpu=4, bound=2).gang("waits", 2, cpu=1, queue="other")
    scenario.gang("gone", 5, gpu=1, bound=5).remove("gone").gang("huge", 9, gpu=9)
    found = typical_of(scenario)
    assert found.pods == (
        TypicalPods(cpu=4_000, gpus=2, milli=1000, kinds=(1,), count=3),
        TypicalPods(cpu=1_000, gpus=0, milli=0, kinds=(0, 1), count=2),
    )
    assert found.takes.tolist() == [[True, True, False], [True, True, True]]
    assert (found.gpus.tolist(), found.kind.tolist(), found.kinds) == ([8, 8, 0], [1, 1, 0], 2)


def test_nodes_on_which_the_same_pods_may_run_are_of_one_kind() -> None:
    scenario = Scenario().nodes("a", 2, gpu=8).nodes("b", gpu=8).nodes("s", shared=2).nodes("t", shared=4)
    scenario.gang("any", 4, gpu=1).gang("picky", 3, gpu=1, selector={"group": "b"}).gang("part", 2, share=500)
    found = typical_of(scenario)
    kinds = dict(zip(("a-0", "a-1", "b-0", "s-0", "t-0"), found.kind.tolist(), strict=True))
    assert kinds["a-0"] == kinds["a-1"] != kinds["b-0"]
    assert kinds["s-0"] == kinds["t-0"] not in (kinds["a-0"], kinds["b-0"])
    assert [pods.kinds for pods in found.pods] == [
        tuple(sorted({kinds["a-0"], kinds["b-0"]})),
        (kinds["b-0"],),
        (kinds["s-0"],),
    ]
    assert [pods.milli for pods in found.pods] == [1000, 1000, 500]
    assert found.gpus.tolist() == [8, 8, 8, 2, 4]


def test_pod_affinity_does_not_matter_for_typical_pods() -> None:
    """The first gang of equal requirements must not decide for the others where pods to come may run."""
    plain, near = (Scenario().nodes("a", gpu=8).nodes("b", gpu=8) for _ in range(2))
    plain.gang("g", 2, gpu=1).gang("h", 1, gpu=1)
    near.gang("g", 2, gpu=1, near=[term("group", app="x")]).gang("h", 1, gpu=1)
    found = typical_of(near)
    assert [pods.count for pods in found.pods] == [2, 1]
    assert {pods.kinds for pods in found.pods} == {pods.kinds for pods in typical_of(plain).pods}
    assert found.takes.all()


def test_a_share_in_bytes_is_converted_for_the_smallest_device_that_fits_it() -> None:
    scenario = Scenario().nodes("a", shared=2, gpu_memory=80).nodes("b", shared=2, gpu_memory=40)
    scenario.nodes("c", shared=2, gpu_memory=16).gang("g", 1, gpu_memory=20)
    assert [pods.milli for pods in typical_of(scenario).pods] == [500]


def test_typical_pods_do_not_depend_on_the_input_order() -> None:
    scenario = Scenario().nodes("a", 3, gpu=8).nodes("s", shared=2)
    for number in range(12):
        scenario.gang(f"g{number}", 1, gpu=1, cpu=1 + number, selector={"group": "a"} if number % 2 else {})
    first, second = typical_of(scenario, 1), typical_of(scenario, 2)
    assert first.pods == second.pods
    assert np.array_equal(first.takes, second.takes)
    assert np.array_equal(first.kind, second.kind)


def test_the_rarest_shapes_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragmentation, "TYPICAL_SHAPES_MAX", 2)
    scenario = Scenario().nodes("a", 3, gpu=8)
    scenario.gang("few", 1, gpu=1).gang("many", 5, gpu=2).gang("some", 3, gpu=4)
    assert [(pods.gpus, pods.count) for pods in typical_of(scenario).pods] == [(2, 5), (4, 3)]


@pytest.mark.parametrize(("bound", "most"), [("TYPICAL_REQUIREMENTS_MAX", 2), ("NODE_KINDS_MAX", 2)])
def test_the_rarest_requirements_are_left_out(monkeypatch: pytest.MonkeyPatch, bound: str, most: int) -> None:
    monkeypatch.setattr(fragmentation, bound, most)
    scenario = Scenario().nodes("a", gpu=8).nodes("b", gpu=8).nodes("c", gpu=8)
    for count, group in ((5, ""), (4, "a"), (3, "b")):
        scenario.gang(f"g{count}", count, gpu=1, selector={"group": group} if group else {})
    found = typical_of(scenario)
    assert [pods.count for pods in found.pods] == [5, 4]
    assert found.kinds == 2


def test_counts_of_many_pods_are_scaled_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragmentation, "TYPICAL_WEIGHT_MAX", 10)
    scenario = Scenario().nodes("a", 3, gpu=8).gang("many", 30, gpu=1).gang("few", 1, gpu=2)
    assert [pods.count for pods in typical_of(scenario).pods] == [9, 1]


SHAPES = ({"gpu": 1, "cpu": 9}, {"gpu": 3}, {"cpu": 20}, {"share": 300, "cpu": 2}, {"share": 1000})


def _costs(fragments: FragmentationOrders, nodes: list[NodeName], pod: Pod) -> list[object]:
    order = fragments.order(pod)
    return [(order.of(node), order.device(node)) for node in nodes]


@bounded(12)
@given(
    steps=st.lists(st.tuples(st.integers(0, len(SHAPES) - 1), st.integers(0, 4), st.booleans()), max_size=8),
    asked=st.lists(st.integers(0, len(SHAPES) - 1), min_size=1, max_size=4),
)
def test_cached_costs_equal_recomputed_costs(steps: list[tuple[int, int, bool]], asked: list[int]) -> None:
    """While capacity is used and released: compared for some pods after each step, for all at the end."""
    scenario = Scenario().nodes("a", 2, gpu=4, cpu=32).nodes("s", 2, shared=2, cpu=32).nodes("z", cpu=64)
    for number, shape in enumerate(SHAPES):
        scenario.gang(f"g{number}", 12, min=1, **shape)
    session = session_of(scenario)
    gangs, nodes = list(session.gangs.values()), list(session.nodes)
    kept = FragmentationOrders(session, Fullness(session))
    for turn, (shape, node, stays) in enumerate(steps):
        with suppress(DoesNotFit), session.statement() as statement:
            statement.hold_capacity(
                gang=gangs[shape], assignments=[(nodes[node], [gangs[shape].members[turn]])]
            )
            if not stays:
                _costs(kept, nodes, gangs[shape].members[0])
                statement.roll_back()
        pod = gangs[asked[turn % len(asked)]].members[0]
        assert _costs(kept, nodes, pod) == _costs(FragmentationOrders(session, Fullness(session)), nodes, pod)
    fresh = FragmentationOrders(session, Fullness(session))
    for gang in gangs:
        assert _costs(kept, nodes, gang.members[0]) == _costs(fresh, nodes, gang.members[0])


def test_costs_are_computed_for_changed_nodes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario().nodes("a", 50, gpu=4).gang("g", 9, gpu=1)
    session = session_of(scenario)
    (gang,), nodes = session.gangs.values(), list(session.nodes)
    computed: list[int] = []
    rows = fragmentation.NodeRows
    monkeypatch.setattr(fragmentation, "NodeRows", lambda *of: computed.append(len(of[0])) or rows(*of))
    order = FragmentationOrders(session, Fullness(session)).order(gang.members[0])
    for node, pod in zip(nodes[:3], gang.members, strict=False):
        order.of(node)
        with session.statement() as statement:
            statement.hold_capacity(gang=gang, assignments=[(node, [pod])])
    order.of(nodes[0])
    assert computed == [50, 1, 1, 1]
