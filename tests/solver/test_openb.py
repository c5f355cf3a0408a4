"""The protocol of the OpenB benchmark on synthetic lists. test_fragmentation.py tests the scoring."""

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.openb.__main__ import seeds_of
from bench.openb.cluster import Cluster, ShapeTable, outlook_of
from bench.openb.measure import POLICIES, figures, run_once, spread
from bench.openb.policies import BestFit, Fgd, LookAhead
from bench.openb.replay import NEVER, Board, Mark, Run, replay
from bench.openb.shapes import Machine, Shape
from bench.openb.traces import arrivals, capacity_of, machines_of, pods_of, renamed
from bench.openb.typical import measure_of, typical
from tests.examples import holds

GI = 1 << 30
SMALL = Machine("a", 16_000, 64 * GI, 2, "T4")
LARGE = Machine("b", 96_000, 384 * GI, 4, "G2")
PLAIN = Shape(8_000, 16 * GI, 1, 1000)
HALF = Shape(4_000, 8 * GI, 1, 500)
PAIR = Shape(16_000, 32 * GI, 2, 1000)
CORES = Shape(12_000, 8 * GI, 0, 0)
ONLY_G2 = Shape(2_000, 8 * GI, 1, 300, ("G2",))

shapes = st.builds(
    Shape,
    cpu=st.sampled_from((0, 2_000, 4_000, 12_000, 30_000)),
    memory=st.sampled_from((GI, 60 * GI)),
    gpus=st.just(1),
    milli=st.sampled_from((160, 300, 470, 810, 1000)),
    models=st.sampled_from(((), ("G2",), ("G2", "T4"))),
) | st.builds(
    lambda cpu, gpus: Shape(cpu, GI, gpus, 1000 if gpus else 0),
    cpu=st.sampled_from((1_000, 16_000)),
    gpus=st.sampled_from((0, 2, 4)),
)
machines = st.lists(
    st.sampled_from((SMALL, LARGE, Machine("c", 8_000, 32 * GI, 1, "T4"))), min_size=1, max_size=4
)


def filled(every: list[Machine], pods: list[Shape]) -> Cluster:
    """Place each pod on the first node and device on which it fits."""
    cluster = Cluster(every)
    for pod in pods:
        table = ShapeTable([pod], [machine.model for machine in every])
        for node in range(len(every)):
            fits, devices = table.fits(cluster, node)
            if fits[0]:
                cluster.place(node, pod, int(devices[0].argmax()))
                break
    return cluster


@given(every=machines, order=st.lists(shapes, min_size=1, max_size=25))
@holds(40)
def test_incremental_columns_equal_recomputed_columns(every: list[Machine], order: list[Shape]) -> None:
    cluster, kinds = Cluster(every), sorted(set(order))
    table, policy = ShapeTable(kinds, [machine.model for machine in every]), LookAhead(every)
    board = Board(cluster, table, policy)
    for pod in order:
        if policy.saw(pod):
            board.renew()
        if (found := board.choose(kinds.index(pod))) is not None:
            cluster.place(found[0], pod, found[1])
            board.update(found[0])
        recomputed = Board(cluster, table, policy)
        assert [board.choose(row) for row in range(len(kinds))] == [
            recomputed.choose(row) for row in range(len(kinds))
        ]


@pytest.mark.parametrize("name", POLICIES)
@given(every=machines, pods=st.lists(shapes.filter(lambda pod: pod.gpus), min_size=1, max_size=12))
@holds(15)
def test_runs_stay_within_capacity_and_are_reproducible(
    name: str, every: list[Machine], pods: list[Shape]
) -> None:
    run = run_once(every, pods, name, seed=7)
    assert run == run_once(every, pods, name, seed=7)
    allocated = [mark.allocated for mark in run.marks]
    assert allocated == sorted(allocated)
    assert all(0 <= mark.allocated <= min(100, mark.arrived) + 1e-9 for mark in run.marks)
    assert all(mark.fragmented <= 100 - mark.allocated + 1e-9 for mark in run.marks)


def test_idle_capacity_is_the_sum_of_what_is_free_on_the_devices() -> None:
    cluster = filled([LARGE, SMALL], [PAIR, HALF, PAIR, CORES, HALF])
    assert cluster.idle == cluster.devices.sum() == 1_000


def test_fgd_scores_the_growth_of_what_typical_pods_cannot_use() -> None:
    cluster = Cluster([SMALL, SMALL])
    cluster.place(1, HALF, 0)
    table, policy = ShapeTable([HALF], ["T4"]), Fgd(measure_of({PLAIN: 1}, [SMALL]))
    assert policy.costs(outlook_of(cluster, table, 0), 0)[0].tolist() == [-37, -37]
    assert policy.costs(outlook_of(cluster, table, 1), 1)[0].tolist() == [-62, -37]
    assert Board(cluster, table, policy).choose(0) == (1, 0)


def test_placing_a_pod_that_does_not_fit_is_an_error() -> None:
    cluster = Cluster([SMALL])
    cluster.place(0, PLAIN, 0)
    cluster.place(0, HALF, 1)
    with pytest.raises(ValueError, match="has no capacity"):
        cluster.place(0, HALF, 0)


def test_typical_shapes_cover_the_given_share_and_ignore_memory() -> None:
    pods = [*[HALF] * 90, *[Shape(HALF.cpu, GI, 1, 500)] * 5, *[PLAIN] * 3, *[PAIR] * 2]
    assert typical(Counter(pods)) == {Shape(4_000, 0, 1, 500): 95}
    assert sum(typical(Counter(pods), covered_percent=100).values()) == 100


def test_a_fractional_pod_takes_the_device_with_the_best_fit() -> None:
    every = [Machine("a", 64_000, 64 * GI, 3, "T4")]
    order = [Shape(1_000, GI, 1, 700), Shape(1_000, GI, 1, 600), Shape(1_000, GI, 1, 300)]
    cluster = Cluster(every)
    board = Board(cluster, ShapeTable(order, ["T4"]), BestFit())
    for row, pod in enumerate(order):
        node, device = board.choose(row) or (NEVER, NEVER)
        cluster.place(node, pod, device)
        board.update(node)
    assert cluster.devices.tolist() == [[0, 400, 1000]]


def test_cpu_pods_take_nodes_with_spare_cores() -> None:
    rich, poor = Machine("z", 200_000, 640 * GI, 2, "T4"), Machine("a", 32_000, 640 * GI, 2, "T4")
    order = [Shape(16_000, GI, 1, 1000), CORES]
    run = replay([poor, rich], [*order, order[0], order[0], order[0]], LookAhead([poor, rich]),
                 measure_of({order[0]: 1}, [poor, rich]), upto=100)  # fmt: skip
    assert run.marks[-1].allocated == 100
    assert run.dropped == 0


def test_arrivals_are_the_shuffled_list_and_then_sampled_pods_up_to_130_percent() -> None:
    pods = [PLAIN] * 20 + [HALF] * 20
    order = arrivals(pods, capacity=40_000, rng=random.Random(1))
    assert Counter(order[:40]) == Counter(pods)
    assert order[:40] != pods
    assert 52_000 - 1_000 < sum(pod.demand for pod in order) <= 52_000
    assert order == arrivals(pods, capacity=40_000, rng=random.Random(1))
    assert order != arrivals(pods, capacity=40_000, rng=random.Random(2))


def test_the_list_ends_with_the_sampled_pod_that_exceeds_the_limit() -> None:
    assert arrivals([PLAIN] * 20, capacity=15_700, rng=random.Random(1)) == [PLAIN] * 20
    assert arrivals([PAIR] * 2, capacity=4_000, rng=random.Random(1)) == [PAIR] * 3


def test_a_list_above_the_limit_loses_random_pods() -> None:
    pods = [Shape(number, GI, 1, 1000) for number in range(100)]
    shuffled = list(pods)
    random.Random(1).shuffle(shuffled)
    order = arrivals(pods, capacity=10_000, rng=random.Random(1))
    assert len(order) == 13
    assert order == [pod for pod in shuffled if pod in order]
    assert order != shuffled[:13]


def test_node_names_are_shuffled() -> None:
    every = [Machine(str(number), 1, 1, 1, "T4") for number in range(20)]
    assert renamed(every, random.Random(1)) != tuple(every)
    assert sorted(renamed(every, random.Random(1)), key=lambda each: int(each.name)) == every


def test_marks_show_the_cluster_before_the_pod_that_crosses_them() -> None:
    order = [PLAIN, HALF, PLAIN, PAIR]
    run = replay([SMALL, SMALL], order, BestFit(), measure_of({PLAIN: 1}, [SMALL]), upto=130)
    allocated = {mark.arrived: mark.allocated for mark in run.marks}
    assert (allocated[25], allocated[37], allocated[38], allocated[62], allocated[63]) == (
        25,
        25,
        37.5,
        37.5,
        62.5,
    )
    assert allocated[130] == 62.5
    assert (run.dropped, run.first_dropped) == (1, 112.5)


def test_figures_are_means_over_the_runs() -> None:
    runs = [
        Run(tuple(Mark(at, part, 2 * part) for at in (1, 2)), first_dropped=None, dropped=int(part))
        for part in (1.0, 2.0)
    ]
    found = figures("FGD", runs, [2])
    assert found.allocated == {"2": spread([1.0, 2.0])}
    assert (found.fragmented["2"].mean, found.allocated_curve, found.pods_dropped.mean) == (3.0, (1.5,), 1.5)
    assert (spread([1.0, 2.0]).sd, spread([1.0]).sd, found.first_dropped.mean) == (0.707, 0.0, 130)


def test_lists_are_sorted_by_name_and_the_model_column_is_optional(tmp_path: Path) -> None:
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(
        "sn,cpu_milli,memory_mib,gpu,model\nn2,96000,1024,8,G2\nn1,16000,2048,2,T4\n"
    )
    (tmp_path / "openb_pod_list_x.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np2,1000,1,1,500,T4|G2\np1,2000,2,0,0,\n"
    )
    (tmp_path / "openb_pod_list_y.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np1,1000,1,8,1000\n"
    )
    every = machines_of(tmp_path)
    assert every == (Machine("n1", 16_000, 2 * GI, 2, "T4"), Machine("n2", 96_000, GI, 8, "G2"))
    assert capacity_of(every) == 10_000
    assert pods_of(tmp_path, "x") == (
        Shape(2_000, GI >> 9, 0, 0),
        Shape(1_000, GI >> 10, 1, 500, ("G2", "T4")),
    )
    assert pods_of(tmp_path, "y") == (Shape(1_000, GI >> 10, 8, 1000),)


def test_seeds_are_a_range_or_a_list() -> None:
    assert (seeds_of("42..44"), seeds_of("7"), seeds_of("1,3")) == ((42, 43, 44), (7,), (1, 3))
