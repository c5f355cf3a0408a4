"""Fragmentation scores of single pods: the array code against plain Python, and its parts."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from phalanx.actions.nodes.fragmentation_order import (
    FRAGMENT_CORES_MAX,
    FRAGMENT_DEVICES_MAX,
    TYPICAL_SHAPES_MAX,
    TYPICAL_WEIGHT_MAX,
)
from phalanx.solver.fragmentation import (
    CORES_PERCENT,
    CPU_WEIGHT,
    DEVIATIONS,
    FRAGMENT_COST_MAX,
    SCARCITY_WEIGHT,
    WORTH_PERCENT,
    Forecast,
    Fragmentation,
    NodeRows,
    PodRows,
    TrialPlacement,
    TypicalPods,
    leftover,
    prices,
    worth_of,
)

from tests.solver.problems import bounded

KINDS = 2
MOST = 4


class Node(Struct, frozen=True):
    """`devices` is the free share of each; `loose` ones are whole and interchangeable."""

    kind: int
    cpu: int
    devices: tuple[int, ...]
    loose: bool


def nodes() -> st.SearchStrategy[Node]:
    lefts = st.lists(st.sampled_from((0, 190, 500, 700, 1000)), max_size=MOST).map(tuple)
    whole = st.integers(0, MOST).map(lambda count: (1000,) * count)
    kind, cpu = st.integers(0, KINDS - 1), st.sampled_from((0, 3_000, 4_000, 12_000, 50_000))
    return st.builds(Node, kind, cpu, lefts, st.just(False)) | st.builds(
        Node, kind, cpu, whole, st.just(True)
    )


def pods() -> st.SearchStrategy[TypicalPods]:
    sizes = st.sampled_from(((0, 0), (1, 190), (1, 300), (1, 700), (1, 1000), (2, 1000), (4, 1000)))
    return st.builds(
        lambda cpu, size, kinds, count: TypicalPods(cpu, *size, kinds, count),
        st.sampled_from((0, 2_000, 4_000, 12_000)),
        sizes,
        st.sampled_from(((0,), (1,), (0, 1))),
        st.integers(1, 9),
    )


def rows(these: list[Node]) -> NodeRows:
    devices = np.zeros((len(these), MOST), dtype=np.int64)
    for number, node in enumerate(these):
        if not node.loose:
            devices[number, : len(node.devices)] = node.devices
    return NodeRows(
        kind=np.array([node.kind for node in these], dtype=np.int64),
        cpu=np.array([node.cpu for node in these], dtype=np.int64),
        devices=devices,
        loose=np.array([len(node.devices) * node.loose for node in these], dtype=np.int64),
    )


def pod_rows(these: list[TypicalPods]) -> PodRows:
    return PodRows(*(np.array([getattr(pod, what) for pod in these]) for what in ("cpu", "gpus", "milli")))


def slow_fragments(kind: int, cpu: int, devices: list[int], typical: list[TypicalPods]) -> int:
    """The published definition, one typical pod at a time."""
    total = 0
    for pod in typical:
        able = kind in pod.kinds and pod.gpus > 0 and cpu >= pod.cpu
        able &= sum(left >= pod.milli for left in devices) >= pod.gpus
        total += pod.count * sum(left for left in devices if not able or left < pod.milli)
    return total


def slow_after(node: Node, pod: TypicalPods, device: int) -> list[int] | None:
    """The devices after the pod is placed; None when it does not fit."""
    after = list(node.devices)
    if pod.gpus == 1 and pod.milli < 1000:
        if node.loose or device >= len(after) or after[device] < pod.milli:
            return None
        after[device] -= pod.milli
        return after
    whole = [index for index, left in enumerate(after) if left == 1000][: pod.gpus]
    for index in whole:
        after[index] = 0
    return after if len(whole) == pod.gpus else None


def slow_worth(kind: int, cpu: int, devices: list[int], typical: list[TypicalPods], supply: list[int],
               every: int) -> int:  # fmt: skip
    """The worth of all pods with several devices that the node could take."""
    return sum(
        worth_of(pod, typical, devices_of_pod, every)
        for pod, devices_of_pod in zip(typical, supply, strict=True)
        if pod.gpus > 1 and kind in pod.kinds and cpu >= pod.cpu and devices.count(1000) >= pod.gpus
    )


def slow_cost(node: Node, pod: TypicalPods, device: int, typical: list[TypicalPods], supply: list[int],
              every: int, price: int, rest: list[int]) -> int | None:  # fmt: skip
    """The cost as the module's docstring defines it."""
    after, cpu = slow_after(node, pod, device), node.cpu - pod.cpu
    if after is None or cpu < 0:
        return None
    count = sum(each.count for each in typical)
    cores = sum(each.count * each.cpu for each in typical if each.gpus)
    demand = sum(each.count * each.gpus * each.milli for each in typical)
    before = list(node.devices)

    def starved(devices: list[int], free: int) -> int:
        fed = free * demand * 100 // (cores * CORES_PERCENT) if cores else sum(devices)
        return max(0, sum(devices) - fed)

    growth = slow_fragments(node.kind, cpu, after, typical) - slow_fragments(
        node.kind, node.cpu, before, typical
    )
    hungry = starved(after, cpu) - starved(before, node.cpu)
    wasted = sum(rest[left] for left in after) - sum(rest[left] for left in before)
    lost = slow_worth(node.kind, node.cpu, before, typical, supply, every) - slow_worth(
        node.kind, cpu, after, typical, supply, every
    )
    scarce = SCARCITY_WEIGHT * price * pod.gpus * pod.milli
    return 1000 * growth + count * (1000 * CPU_WEIGHT * hungry + wasted + scarce + lost)


@bounded(60)
@given(
    cluster=st.lists(nodes(), min_size=1, max_size=3),
    typical=st.lists(pods(), min_size=1, max_size=5),
    placed=st.lists(pods(), min_size=1, max_size=4),
    takes=st.lists(st.booleans(), min_size=15, max_size=15),
)
def test_costs_equal_a_plain_implementation_of_the_description(
    cluster: list[Node], typical: list[TypicalPods], placed: list[TypicalPods], takes: list[bool]
) -> None:
    fits = np.array(takes[: len(typical) * len(cluster)]).reshape(len(typical), len(cluster))
    gpus = np.array([MOST - number for number in range(len(cluster))])
    gpus = np.maximum(gpus, [len(node.devices) for node in cluster])
    supply, every = fits.sum(axis=1).tolist(), int(gpus.sum())
    forecast, rest = Forecast(typical, fits, gpus, kinds=KINDS), leftover(typical).tolist()
    for number, pod in enumerate(placed):
        of_pod = forecast.costs(TrialPlacement(rows(cluster), pod_rows([pod])), forecast.prices)
        for at, node in enumerate(cluster):
            price = forecast.prices[at : at + 1]
            of_node = forecast.costs(TrialPlacement(rows([node]), pod_rows(placed)), price)
            for device in range(MOST):
                slow = slow_cost(node, pod, device, typical, supply, every, int(price[0]), rest)
                if slow is not None:
                    assert np.broadcast_to(of_pod, (len(cluster), MOST))[at, device] == slow
                    assert np.broadcast_to(of_node, (len(placed), MOST))[number, device] == slow


@bounded(100)
@given(cluster=st.lists(nodes(), min_size=1, max_size=3), typical=st.lists(pods(), min_size=1, max_size=6))
def test_the_fragmentation_measure_equals_the_published_definition(
    cluster: list[Node], typical: list[TypicalPods]
) -> None:
    measure = Fragmentation(typical, kinds=KINDS, devices=MOST)
    assert measure.of_nodes(rows(cluster)).tolist() == [
        slow_fragments(node.kind, node.cpu, list(node.devices), typical) for node in cluster
    ]


def test_a_device_remainder_counts_for_the_share_of_demand_that_cannot_use_it() -> None:
    table = leftover([TypicalPods(0, 1, 500, (0,), 98), TypicalPods(0, 0, 0, (0,), 2)])
    assert table[400] == 400_000
    assert table[500] == 2 * 500_000 // 100
    assert table[1000] == (2 * 1_000_000 + 98 * 10_000) // 100


@bounded(100)
@given(
    typical=st.lists(pods(), min_size=1, max_size=5),
    takes=st.lists(st.booleans(), min_size=15, max_size=15),
    gpus=st.lists(st.integers(0, 8), min_size=3, max_size=3),
)
def test_node_prices_equal_the_demand_per_eligible_device(
    typical: list[TypicalPods], takes: list[bool], gpus: list[int]
) -> None:
    fits = np.array(takes[: 3 * len(typical)]).reshape(len(typical), 3)
    fits &= np.array(gpus) > 0
    found, total = prices(typical, fits, np.array(gpus)), sum(pod.demand for pod in typical)
    for node in range(3):
        exact = sum(
            Fraction(pod.demand * sum(gpus) * 1000, total * int(fits[row] @ gpus))
            for row, pod in enumerate(typical)
            if fits[row, node] and total
        )
        assert abs(found[node] - exact) < Fraction(51, 100)


def test_free_capacity_is_valued_by_the_expected_demand() -> None:
    seen = [TypicalPods(8_000, 1, 1000, (0,), 78), TypicalPods(0, 2, 1000, (0,), 1),
            TypicalPods(0, 4, 1000, (0,), 1)]  # fmt: skip
    # 22 devices and a demand of 84: 0.26 of a pod to come, and 1.00 (twice the root) in reserve.
    assert (WORTH_PERCENT, DEVIATIONS) == (25, 2)
    assert worth_of(seen[1], seen, 10, 22) == 2_000_000 // 4 * 126 // (100 * 10)
    assert worth_of(seen[2], seen, 1, 22) == 4_000_000 // 4
    assert worth_of(seen[2], seen, 0, 22) == 0


def test_a_cluster_without_typical_pods_costs_nothing() -> None:
    forecast = Forecast([], np.zeros((0, 1), dtype=np.bool_), np.array([4]), kinds=1)
    node = Node(0, 8_000, (1000, 500), loose=False)
    pod = TypicalPods(2_000, 1, 500, (0,), 1)
    assert not forecast.costs(TrialPlacement(rows([node]), pod_rows([pod])), forecast.prices).any()


def test_costs_at_all_bounds_stay_within_64_bits() -> None:
    """The same sums with Python integers, where no product can overflow."""
    most, cores = FRAGMENT_DEVICES_MAX, FRAGMENT_CORES_MAX
    weight = TYPICAL_WEIGHT_MAX // TYPICAL_SHAPES_MAX
    typical = [TypicalPods(cores, most, 1000, (0,), weight) for _ in range(TYPICAL_SHAPES_MAX)]
    takes = np.zeros((len(typical), 2), dtype=np.bool_)
    takes[:, 0] = True
    gpus = np.array([1, 1 << 40])
    forecast = Forecast(typical, takes, np.minimum(gpus, most), kinds=1)
    assert prices(typical, takes, gpus).tolist() == [FRAGMENT_COST_MAX, 0]
    node = NodeRows(np.array([0]), np.array([cores]), np.zeros((1, 1), dtype=np.int64), np.array([most]))
    pod = PodRows(np.array([cores]), np.array([most]), np.array([1000]))
    price = np.array([FRAGMENT_COST_MAX])
    found = forecast.costs(TrialPlacement(node, pod), price)
    count = TYPICAL_WEIGHT_MAX
    starved = -max(0, most * 1000 - most * 1000 * 100 // CORES_PERCENT)
    scarce = SCARCITY_WEIGHT * FRAGMENT_COST_MAX * most * 1000
    lost = sum(worth_of(each, typical, 1, most + 1) for each in typical)
    wasted = -1_000_000 * most
    assert abs(int(found[0, 0]) - count * (1000 * CPU_WEIGHT * starved + scarce + lost + wasted)) < 1 << 40
