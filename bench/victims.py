"""Measures the choice of victims for a large gang: cost, proof, and CPU time.

    python -m bench.victims [--seeds N] [--case LINE ...] [--output FILE]

Nodes of 8 GPUs with individual memory and load of daemons are full of gangs of 1 to 64 pods of one GPU: 1,000
nodes hold 8,000 pods of about 700 gangs. "packed": each gang is on consecutive nodes. "mixed": a quarter of
the gangs are on random GPUs. "scattered": all are. "larger": pods have 1, 2, 4 or 8 GPUs. The
objectives are those of the scheduler: the least loss, which is for each pod the minutes since its start or
last checkpoint, times its size; then the least size, and the fewest gangs. In "flat" lines it is the fewest
pods. Gangs are evicted as a whole. The beneficiary needs `pods` pods, by default of 8 GPUs, anywhere or in
one spine.

"found" is the loss found by the solver with the effort of a cycle; "cheapest" and "ratio" are the costs of
the rules of `bench/greedy_victims.py`, as multiples of that. "cycle s" is the time of a whole cycle over such
a cluster (`bench/victims_cycle.py`), for one seed, and "pods" its evicted pods; not in "flat" lines. Times
are CPU time of one thread.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, to_builtins
from phalanx.solver.preemption.capacity import pods_that_fit
from phalanx.solver.preemption.engine import choose_victims
from phalanx.solver.preemption.problem import (
    EvictionUnit,
    PodDemand,
    PreemptionProblem,
    TargetNode,
    Vector,
    VictimSet,
)

from bench.greedy_victims import best_of, best_ratio_first, cheapest_first
from bench.record import record
from bench.victims_cycle import Cycle, Running, Wanted, cycle

RESULTS = Path(__file__).parent / "results" / "victims.json"

Answer = TypeVar("Answer")

GI = 1 << 30
GPUS = 8
PER_GPU = (11_000, 240 * GI, 1)
"""Requests of a pod per GPU: thousandths of cores, bytes, GPUs."""

SIZES, WEIGHTS = (1, 2, 4, 8, 16, 32, 64), (16, 14, 18, 22, 16, 10, 4)
"""Sizes of gangs in pods, and their weights: 11.2 on average."""

NODES_PER_SPINE = 250
WEEK_MINUTES = 7 * 24 * 60


class Case(Struct, frozen=True):
    """One line of the table. `scattered`: share of gangs on random GPUs; `load`: share of used GPUs."""

    name: str
    nodes: int
    pods: int
    gpus: int = GPUS
    scattered: float = 0.0
    load: float = 1.0
    spine: bool = False
    flat: bool = False
    larger: bool = False


MIXED = 0.25

CASES = (
    Case("packed", 1_000, 16),
    Case("packed", 1_000, 64),
    Case("packed, flat", 1_000, 64, flat=True),
    Case("mixed", 1_000, 16, scattered=MIXED),
    Case("mixed", 1_000, 64, scattered=MIXED),
    Case("mixed, flat", 1_000, 64, scattered=MIXED, flat=True),
    Case("mixed, in a spine", 1_000, 64, scattered=MIXED, spine=True),
    Case("mixed, pods of 4 GPUs", 1_000, 128, gpus=4, scattered=MIXED),
    Case("mixed, larger", 1_000, 64, scattered=MIXED, larger=True),
    Case("scattered, 30 % full", 1_000, 128, scattered=1.0, load=0.3),
    Case("scattered", 1_000, 4, scattered=1.0),
    Case("scattered", 1_000, 16, scattered=1.0),
    Case("scattered", 1_000, 64, scattered=1.0),
    Case("packed", 10_000, 64),
    Case("mixed", 10_000, 64, scattered=MIXED),
    Case("scattered", 10_000, 64, scattered=1.0),
)


class Figures(Struct, frozen=True):
    """One seed of one case."""

    gangs: int
    running: int
    cost: int
    bound: int
    lost: int
    victims: int
    proven: bool
    seconds: float
    cheapest_first: int
    best_ratio: int
    ratio_seconds: float
    errors: tuple[str, ...]

    @property
    def gap(self) -> float:
        """The gap between bound and cost in percent of the cost."""
        return 100 * (self.cost - self.bound) / self.cost

    @property
    def is_worse(self) -> bool:
        """Whether a greedy rule found cheaper victims."""
        return self.cost > min(self.cheapest_first, self.best_ratio)


class Gang(Struct, frozen=True):
    """A running gang: pods, GPUs of each, run time, and the objectives of its eviction in their order."""

    pods: int
    gpus: int
    minutes: int
    losses: tuple[int, ...]


def problem(case: Case, seed: int) -> PreemptionProblem:
    """The case on the cluster of the seed."""
    rng = random.Random(seed)
    gangs = _gangs(case, rng)
    nodes_of_gangs = _placed(case, gangs, rng)
    held = [0] * case.nodes
    for gang, nodes in zip(gangs, nodes_of_gangs, strict=True):
        for node in nodes:
            held[node] += gang.gpus
    request = _amounts(case.gpus)
    targets = tuple(_place(case, node, held[node], request, rng) for node in range(case.nodes))
    scales = [1]
    for amounts in [*zip(*(gang.losses for gang in gangs), strict=True)][:0:-1]:
        scales.append(scales[-1] * (1 + sum(amounts)))
    units = tuple(
        _unit(gang, nodes, scales) for gang, nodes in zip(gangs, nodes_of_gangs, strict=True) if nodes
    )
    return PreemptionProblem(
        (PodDemand(request, case.pods),), targets, units, scales=tuple(scales), seed=seed
    )


def whole_cycle(case: Case, seed: int) -> Cycle:
    """A whole cycle over the cluster of the case and seed."""
    rng = random.Random(seed)
    gangs = _gangs(case, rng)
    placed = zip(gangs, _placed(case, gangs, rng), strict=True)
    running = [Running(gang.gpus, nodes, gang.minutes) for gang, nodes in placed if nodes]
    return cycle(case.nodes, NODES_PER_SPINE, running, Wanted(case.pods, case.gpus, case.spine), seed)


def _gangs(case: Case, rng: random.Random) -> list[Gang]:
    """Gangs that fill the cluster to its load; the last ones are smaller to match it exactly."""
    left = round(case.nodes * GPUS * case.load)
    gangs = []
    while left > 0:
        gpus = min(left, rng.choice((1, 2, 4, 8)) if case.larger else 1)
        pods = min(rng.choices(SIZES, WEIGHTS)[0], left // gpus)
        minutes = min(WEEK_MINUTES, max(1, round(rng.lognormvariate(5.5, 1.5))))
        if rng.random() < 0.3:
            minutes = min(minutes, rng.randint(1, 60))
        size = 8 * gpus + -(-PER_GPU[0] * gpus // 1000)
        losses = (pods,) if case.flat else (pods * minutes * size, pods * size, 1)
        gangs.append(Gang(pods, gpus, minutes, losses))
        left -= pods * gpus
    return gangs


def _placed(case: Case, gangs: Sequence[Gang], rng: random.Random) -> list[list[int]]:
    """The node of each pod while there is free capacity; scattered gangs are placed first."""
    free = [GPUS] * case.nodes
    in_a_row = [node for node in range(case.nodes) for _ in range(GPUS)]
    anywhere = rng.sample(in_a_row, len(in_a_row))
    is_anywhere = [rng.random() < case.scattered for _ in gangs]
    found: list[list[int]] = [[] for _ in gangs]
    for kind, slots in ((True, iter(anywhere)), (False, iter(in_a_row))):
        for index, gang in enumerate(gangs):
            if is_anywhere[index] is kind:
                found[index] = list(_taken(slots, free, gang))
    return found


def _taken(slots: Iterator[int], free: list[int], gang: Gang) -> Iterator[int]:
    """The next nodes on which a pod of the gang fits."""
    left = gang.pods
    while left and (node := next(slots, None)) is not None:
        if free[node] >= gang.gpus:
            free[node] -= gang.gpus
            left -= 1
            yield node


def _amounts(gpus: int) -> Vector:
    return tuple(each * gpus for each in PER_GPU)


def _place(case: Case, node: int, held: int, request: Vector, rng: random.Random) -> TargetNode:
    own = (96_000 - rng.randint(0, 4_000), 2048 * GI - rng.randint(0, 16 * GI), GPUS)
    free = tuple(have - used for have, used in zip(own, _amounts(held), strict=True))
    domain = node // NODES_PER_SPINE if case.spine else 0
    return TargetNode(free, (pods_that_fit(own, request, case.pods),), domain)


def _unit(gang: Gang, nodes: Sequence[int], scales: Sequence[int]) -> EvictionUnit:
    counts = {node: nodes.count(node) for node in sorted(set(nodes))}
    cost = sum(amount * scale for amount, scale in zip(gang.losses, reversed(scales), strict=True))
    return EvictionUnit(cost, tuple((node, _amounts(gang.gpus * count)) for node, count in counts.items()))


def measured(case: Case, seed: int) -> Figures:
    """One choice of the solver, and those of the greedy rules."""
    case_problem = problem(case, seed)
    choice, seconds = _timed(lambda: choose_victims(case_problem).choice)
    cheap, _ = _timed(lambda: best_of(cheapest_first, case_problem))
    ratio, ratio_seconds = _timed(lambda: best_of(best_ratio_first, case_problem))
    assert choice is not None
    assert cheap is not None
    assert ratio is not None
    return Figures(
        gangs=len(case_problem.units),
        running=sum(amounts[2] // PER_GPU[2] for unit in case_problem.units for _, amounts in unit.frees),
        cost=choice.cost,
        bound=choice.bound,
        lost=choice.cost // case_problem.scales[-1],
        victims=len(choice.units),
        proven=choice.proven,
        seconds=seconds,
        cheapest_first=cheap,
        best_ratio=ratio,
        ratio_seconds=ratio_seconds,
        errors=tuple(_defects(case_problem, choice)),
    )


def _timed(work: Callable[[], Answer]) -> tuple[Answer, float]:
    begin = time.process_time()
    answer = work()
    return answer, time.process_time() - begin


def _defects(case_problem: PreemptionProblem, choice: VictimSet) -> Iterator[str]:
    """Verify the certificate of the choice, and that the pods fit in one domain."""
    if choice.cost != sum(case_problem.units[unit].cost for unit in choice.units):
        yield "its cost is not that of its victims"
    if choice.bound > choice.cost:
        yield "its bound is above its cost"
    free = [list(node.free) for node in case_problem.nodes]
    for unit in choice.units:
        for number, amounts in case_problem.units[unit].frees:
            free[number] = [have + more for have, more in zip(free[number], amounts, strict=True)]
    (demand,) = case_problem.demands
    pods: dict[int, int] = {}
    for node, have in zip(case_problem.nodes, free, strict=True):
        count = min(amount // need for amount, need in zip(have, demand.request, strict=True))
        pods[node.domain] = pods.get(node.domain, 0) + max(0, count)
    if max(pods.values()) < demand.count:
        yield "the pods do not fit"


HEADING = (
    f"{'cluster':<22} {'nodes':>6} {'gangs':>6} {'need':>5} {'seeds':>5} {'proven':>7} {'gap % max':>9} "
    f"{'s':>6} {'max s':>6} {'found':>9} {'cheapest':>8} {'ratio':>6} {'ratio s':>7} {'worse':>5} "
    f"{'cycle s':>7} {'pods':>5}"
)


def line(case: Case, runs: Sequence[Figures], whole: Cycle | None) -> str:
    """The figures of the case over all seeds; costs of the rules are mean multiples of the found cost."""
    cheap, ratio = (
        statistics.mean(getattr(run, name) / run.cost for run in runs)
        for name in ("cheapest_first", "best_ratio")
    )
    cells = [
        f"{case.name:<22} {case.nodes:>6} {statistics.mean(run.gangs for run in runs):>6.0f}",
        f"{case.pods:>5} {len(runs):>5} {sum(run.proven for run in runs):>3}/{len(runs):<3}",
        f"{max(run.gap for run in runs):>9.2f}",
        f"{statistics.median(run.seconds for run in runs):>6.2f} {max(run.seconds for run in runs):>6.2f}",
        f"{statistics.mean(run.lost for run in runs):>9.0f} {cheap:>8.2f} {ratio:>6.2f}",
        f"{statistics.median(run.ratio_seconds for run in runs):>7.2f}",
        f"{sum(run.is_worse for run in runs):>5}",
        f"{whole.seconds:>7.2f} {whole.evicted:>5}" if whole is not None else "",
        *sorted({each for run in runs for each in run.errors}),
    ]
    return " ".join(cells)


def main() -> None:
    """Print one line per case, and write all figures as JSON."""
    names = ", ".join(
        f"{index}: {case.name}, {case.pods} of {case.nodes}" for index, case in enumerate(CASES)
    )
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog=f"lines: {names}")
    parser.add_argument("--seeds", type=int, default=10, help="clusters of each line")
    parser.add_argument("--case", type=int, nargs="*", default=list(range(len(CASES))), help="lines to run")
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    measured(CASES[0], 0)
    print(HEADING)
    results = []
    for case in (CASES[index] for index in arguments.case):
        runs = [measured(case, seed) for seed in range(arguments.seeds)]
        whole = None if case.flat else whole_cycle(case, seed=0)
        print(line(case, runs, whole), flush=True)
        results.append(
            {
                "case": to_builtins(case),
                "runs": [to_builtins(run) for run in runs],
                "cycle": to_builtins(whole),
            }
        )
    record(arguments.output, results)


if __name__ == "__main__":
    main()
