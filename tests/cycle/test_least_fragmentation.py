"""Single pods of queues with the objective LeastFragmentation, through whole cycles."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.limits import AMOUNT_MAX
from phalanx.model.gpu_shares import GPU_SHARE, device_name
from phalanx.model.names import NodeName
from phalanx.model.nodes import Taint
from phalanx.model.queues import Flavor, Objective
from phalanx.model.resources import CPU, GPU

from bench.openb.cluster import Cluster, ShapeTable
from bench.openb.policies import LookAhead
from bench.openb.replay import Board
from bench.openb.shapes import Machine, Shape
from tests.builders import GI, Scenario
from tests.solver.problems import bounded

LEAST = Objective.LEAST_FRAGMENTATION


def team(*levels: str, objective: Objective | None = LEAST, **fields: Any) -> Scenario:
    return Scenario(*levels).queue("team", objective=objective, **fields)


def left_of_devices(*left: int) -> dict[str, int]:
    """What foreign pods hold of a node that shares its GPUs."""
    devices = {device_name(index): 1000 - amount for index, amount in enumerate(left)}
    return {**devices, GPU_SHARE: sum(devices.values())}


@pytest.mark.parametrize(("objective", "where"), [(Objective.PACK, "small"), (LEAST, "large")])
def test_cores_are_left_for_a_gpu_pod_that_comes_later(objective: Objective, where: str) -> None:
    """Pack puts work without devices beside the last GPU of a node; then nothing can feed it."""
    scenario = team(objective=objective).nodes("small", gpu=1, cpu=16).nodes("large", gpu=2, cpu=64)
    scenario.gang("runs", 1, gpu=1, cpu=8, queue="team", on=["large-0"])
    decided = scenario.gang("cores", 1, cpu=12, queue="team").decide()
    assert decided.where("cores") == {where: 1}
    scenario.take(decided)
    for name in ("a", "b"):
        scenario.gang(name, 1, gpu=1, cpu=8, queue="team")
    later = scenario.decide()
    assert len(later.binds) == (1 if objective is Objective.PACK else 2)
    assert len(later.reasons()) == (1 if objective is Objective.PACK else 0)


def test_a_share_goes_to_the_device_whose_rest_others_can_use() -> None:
    """The tightest device would have 0.3 left, which is of no use to pods of 0.5."""
    scenario = team().nodes("a", shared=2, used=left_of_devices(700, 500)).nodes("full", 8, shared=1)
    scenario.gang("halves", 16, share=500, queue="team", on=[f"full-{index // 2}" for index in range(16)])
    decided = scenario.gang("small", 1, share=200, queue="team").decide()
    assert decided.devices("small") == {"small-0": 0}
    assert decided.result.placements[0].binds[0].device is not None
    assert decided.result.placements[0].binds[0].device.taken == 200
    packed = team(objective=None).nodes("a", shared=2, used=left_of_devices(700, 500))
    assert packed.gang("small", 1, share=200, queue="team").decide().devices("small") == {"small-0": 1}


def test_nodes_that_some_pods_need_are_left_to_them() -> None:
    """The node with the rare GPUs is the fuller one, and Pack would take it."""
    for objective, where in ((Objective.PACK, "rare"), (LEAST, "plain")):
        scenario = team(objective=objective).nodes("plain", 4, gpu=8).nodes("rare", gpu=8, used={GPU: 4})
        scenario.gang("picky", 20, gpu=1, selector={"group": "rare"}, queue="team")
        assert scenario.gang("any", 1, gpu=1, queue="team").decide().where("any") == {where: 1}


def test_pods_of_a_gang_are_packed() -> None:
    for objective in (Objective.PACK, LEAST):
        scenario = team(objective=objective).nodes("small", gpu=1, cpu=16).nodes("large", gpu=2, cpu=64)
        scenario.gang("gpus", 1, gpu=1, cpu=8, queue="team", on=["large-0"])
        assert scenario.gang("cores", 2, cpu=8, queue="team").decide().where("cores") == {"small": 2}
    assert scenario.gang("core", 1, cpu=8, queue="team").decide().where("core") == {"large": 1}


def test_work_without_devices_stays_off_device_nodes() -> None:
    scenario = team().nodes("gpu", gpu=8, used={GPU: 8}).nodes("plain", 2).nodes("half", used={CPU: 32_000})
    scenario.gang("typical", 4, gpu=2, queue="team")
    assert scenario.gang("work", 1, cpu=2, queue="team").decide().where("work") == {"half": 1}


def test_what_nodes_cost_counts_before_fragmentation() -> None:
    soft = [Taint("soft", "PreferNoSchedule")]
    scenario = team().nodes("small", gpu=1, cpu=16).nodes("large", gpu=2, cpu=64, taints=soft)
    scenario.gang("gpus", 1, gpu=1, cpu=8, queue="team", on=["large-0"])
    assert scenario.gang("cores", 1, cpu=12, queue="team").decide().where("cores") == {"small": 1}


def test_a_limit_of_a_flavor_sends_the_pod_to_the_next_best_node() -> None:
    """The node of the flavor would be the best one, but its limit is reached."""
    flavors = [Flavor("l", (("group", "large"),), {CPU: 10_000})]
    for limits, where in (([], "large"), (flavors, "small")):
        scenario = team(flavors=limits).nodes("small", gpu=1, cpu=16).nodes("large", gpu=2, cpu=64)
        scenario.gang("gpus", 1, gpu=1, cpu=8, queue="team", on=["large-0"])
        decided = scenario.gang("cores", 1, cpu=12, queue="team").decide()
        assert decided.where("cores") == {where: 1}
        assert decided.result.stats.errors == ()


@pytest.mark.parametrize("first", ["large", "small"])
def test_nodes_of_all_flavors_are_compared(first: str) -> None:
    flavors = [
        Flavor(group, (("group", group),), {CPU: 60_000})
        for group in sorted(("large", "small"), key=first.__ne__)
    ]
    scenario = team(flavors=flavors).nodes("small", gpu=1, cpu=16).nodes("large", gpu=2, cpu=64)
    scenario.gang("gpus", 1, gpu=1, cpu=8, queue="team", on=["large-0"])
    assert scenario.gang("cores", 1, cpu=12, queue="team").decide().where("cores") == {"large": 1}


@pytest.mark.parametrize("wish", [{"required": "zone"}, {"preferred": "zone"}])
def test_domains_are_compared_where_any_will_do(wish: dict[str, str]) -> None:
    """A gang of several would get the tightest domain that takes it."""
    scenario = team("zone").nodes("small", gpu=1, cpu=16, within="a")
    scenario.nodes("large", gpu=2, cpu=64, within="b")
    scenario.gang("gpus", 1, gpu=1, cpu=8, queue="team", on=["large-0"])
    assert scenario.gang("cores", 1, cpu=12, queue="team", **wish).decide().where("cores") == {"large": 1}


def test_a_domain_that_is_required_is_kept() -> None:
    """The rest of a gang goes where its other member is, though elsewhere less would be lost."""
    scenario = (
        team("zone").nodes("small", gpu=1, cpu=16, within="a").nodes("large", gpu=2, cpu=64, within="b")
    )
    scenario.gang("cores", 2, cpu=4, queue="team", required="zone", on=["small-0"], started=True)
    decided = scenario.gang("gpus", 1, gpu=1, cpu=8, queue="team", on=["large-0"]).decide()
    assert decided.where("cores") == {"small": 1}
    assert decided.result.stats.errors == ()


def test_absurd_amounts_are_no_error() -> None:
    scenario = team().nodes("n", 2, gpu=AMOUNT_MAX >> 8, cpu=AMOUNT_MAX >> 12).nodes("m", gpu=8, shared=0)
    scenario.gang("huge", 1, gpu=1 << 40, cpu=1 << 30, queue="team")
    decided = (
        scenario.gang("tiny", 1, gpu=1, queue="team").gang("nowhere", 1, share=10, queue="team").decide()
    )
    assert decided.where("tiny") == {"m": 1} or decided.where("tiny") == {"n": 1}
    assert decided.result.stats.errors == ()


SHARED, WHOLE_NODES = "shared", "whole"
MACHINES = (
    Machine("n0-0", 64_000, 512 * GI, 4, WHOLE_NODES),
    Machine("n1-0", 32_000, 256 * GI, 2, SHARED),
    Machine("n2-0", 16_000, 64 * GI, 2, WHOLE_NODES),
    Machine("n3-0", 16_000, 128 * GI, 3, SHARED),
    Machine("n4-0", 8_000, 32 * GI, 1, SHARED),
)
SHAPES = st.one_of(
    st.builds(
        lambda cpu, milli: Shape(cpu * 1000, 4 * GI, 1, milli, (SHARED,)),
        st.integers(1, 8),
        st.sampled_from((160, 300, 470, 810, 1000)),
    ),
    st.builds(
        lambda cpu, gpus: Shape(cpu * 1000, 8 * GI, gpus, 1000, (WHOLE_NODES,)),
        st.integers(1, 12),
        st.sampled_from((1, 2, 4)),
    ),
    st.builds(lambda cpu: Shape(cpu * 1000, 16 * GI, 0, 0), st.integers(1, 12)),
)


def by_the_bench(order: list[Shape]) -> list[tuple[str, int | None] | None]:
    """Node, and device of a share, for each pod; None for those that found no room."""
    cluster, policy = Cluster(MACHINES), LookAhead(MACHINES, always=True)
    table = ShapeTable(sorted(set(order)), [machine.model for machine in MACHINES])
    board, found = Board(cluster, table, policy), []
    for pod in order:
        policy.saw(pod)
        board.renew()
        place = board.choose(table.shapes.index(pod))
        if place is None:
            found.append(None)
            continue
        node, device = place
        if pod.models == (SHARED,):
            # A pod of a whole device gets the first such; which one makes no difference to its cost.
            first = cluster.devices[node].tolist().index(1000) if pod.milli == 1000 else device
            found.append((MACHINES[node].name, first))
        else:
            found.append((MACHINES[node].name, None))
        cluster.place(node, pod, device)
    return found


def by_the_product(order: list[Shape]) -> list[tuple[str, int | None] | None]:
    """The same, with one cycle for each pod that arrives."""
    scenario, found = team(), []
    for machine in MACHINES:
        gpus = {"shared" if machine.model == SHARED else "gpu": machine.gpus}
        group, cpu = machine.name.removesuffix("-0"), machine.cpu // 1000
        scenario.nodes(group, cpu=cpu, memory=machine.memory // GI, **gpus)
    for number, pod in enumerate(order):
        asked = {"share": pod.milli} if pod.models == (SHARED,) else {"gpu": pod.gpus}
        scenario.gang(f"p{number:02}", 1, cpu=pod.cpu // 1000, memory=pod.memory // GI, queue="team", **asked)
        decided = scenario.decide()
        assert decided.result.stats.errors == ()
        nodes, devices = decided.nodes(f"p{number:02}"), decided.devices(f"p{number:02}")
        assert len(decided.binds) == len(nodes)
        found.append((NodeName(nodes[0]), next(iter(devices.values()), None)) if nodes else None)
        scenario.take(decided)
    return found


@bounded(15)
@given(order=st.lists(SHAPES, min_size=1, max_size=10))
def test_pods_go_where_the_benchmark_on_openb_puts_them(order: list[Shape]) -> None:
    """So what it measures is what the scheduler does."""
    assert by_the_product(order) == by_the_bench(order)
