"""Single pods of queues with the objective LeastFragmentation, in whole cycles."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.limits import AMOUNT_MAX
from phalanx.model.names import NodeName
from phalanx.model.nodes import Taint
from phalanx.model.queues import Flavor, Objective
from phalanx.model.resources import CPU, GPU
from phalanx.model.supplies.gpu_shares.devices import GPU_SHARE, device_name

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
    """The use of foreign pods on a node with shared GPUs, by the free thousandths of each device."""
    devices = {device_name(index): 1000 - amount for index, amount in enumerate(left)}
    return {**devices, GPU_SHARE: sum(devices.values())}


@pytest.mark.parametrize(("objective", "where"), [(Objective.PACK, "small"), (LEAST, "large")])
def test_cores_are_left_for_a_later_gpu_pod(objective: Objective, where: str) -> None:
    """Pack puts a pod without devices beside the last GPU of a node, which then has too few cores."""
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


def test_a_share_is_placed_where_the_rest_of_the_device_stays_usable() -> None:
    """The tightest device would have 0.3 left, which pods of 0.5 cannot use."""
    scenario = team().nodes("a", shared=2, used=left_of_devices(700, 500)).nodes("full", 8, shared=1)
    scenario.gang("halves", 16, share=500, queue="team", on=[f"full-{index // 2}" for index in range(16)])
    decided = scenario.gang("small", 1, share=200, queue="team").decide()
    assert decided.devices("small") == {"small-0": 0}
    assert decided.result.placements[0].binds[0].device is not None
    assert decided.result.placements[0].binds[0].device.taken == 200
    packed = team(objective=None).nodes("a", shared=2, used=left_of_devices(700, 500))
    assert packed.gang("small", 1, share=200, queue="team").decide().devices("small") == {"small-0": 1}


def test_nodes_that_some_pods_need_are_left_for_them() -> None:
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


def test_pods_without_devices_avoid_device_nodes() -> None:
    scenario = team().nodes("gpu", gpu=8, used={GPU: 8}).nodes("plain", 2).nodes("half", used={CPU: 32_000})
    scenario.gang("typical", 4, gpu=2, queue="team")
    assert scenario.gang("work", 1, cpu=2, queue="team").decide().where("work") == {"half": 1}


def test_node_costs_count_before_fragmentation() -> None:
    soft = [Taint("soft", "PreferNoSchedule")]
    scenario = team().nodes("small", gpu=1, cpu=16).nodes("large", gpu=2, cpu=64, taints=soft)
    scenario.gang("gpus", 1, gpu=1, cpu=8, queue="team", on=["large-0"])
    assert scenario.gang("cores", 1, cpu=12, queue="team").decide().where("cores") == {"small": 1}


def test_a_pod_uses_the_next_best_node_when_a_flavor_limit_is_reached() -> None:
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


@pytest.mark.parametrize("topology", [{"required": "zone"}, {"preferred": "zone"}])
def test_the_best_node_is_chosen_across_domains(topology: dict[str, str]) -> None:
    """A gang of several pods would get the tightest domain that fits it."""
    scenario = team("zone").nodes("small", gpu=1, cpu=16, within="a")
    scenario.nodes("large", gpu=2, cpu=64, within="b")
    scenario.gang("gpus", 1, gpu=1, cpu=8, queue="team", on=["large-0"])
    assert scenario.gang("cores", 1, cpu=12, queue="team", **topology).decide().where("cores") == {"large": 1}


def test_a_late_member_stays_in_the_required_domain() -> None:
    """The other member defines the domain, though another domain would fragment less."""
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


def placed_by_benchmark(order: list[Shape]) -> list[tuple[str, int | None] | None]:
    """The node, and the device of a share, for each pod; None for pods that do not fit."""
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
            # A pod of a whole device gets the first free one; all have the same cost.
            first = cluster.devices[node].tolist().index(1000) if pod.milli == 1000 else device
            found.append((MACHINES[node].name, first))
        else:
            found.append((MACHINES[node].name, None))
        cluster.place(node, pod, device)
    return found


def placed_by_scheduler(order: list[Shape]) -> list[tuple[str, int | None] | None]:
    """The same by the scheduler, with one cycle for each pod."""
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


@bounded(10)
@given(order=st.lists(SHAPES, min_size=1, max_size=10))
def test_the_scheduler_places_pods_as_the_openb_benchmark(order: list[Shape]) -> None:
    """This shows that the benchmark measures what the scheduler does."""
    assert placed_by_scheduler(order) == placed_by_benchmark(order)
