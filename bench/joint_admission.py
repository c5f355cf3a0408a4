"""Measures joint admission of many gangs: value beyond sequential admission, proofs, and CPU time.

    python -m bench.joint_admission [--seeds N] [--case LINE ...] [--subgroups]

Racks of 16 to 32 nodes, spines of 8 to 16 racks, 45 % of the nodes free, each with individual memory and load
of daemons, so that no two are equal. Gangs of whole-node pods request more than exists: a third requires one
rack, a third one spine, a third no level; all prefer few racks. The value of a gang is its nodes times a
weight of 1 to 4, and gangs of larger weight come first. Gangs that sequential admission admits must stay
admitted ("kept"), or are only the start of the search ("value": a Queue with `admission: MostValue`). "cycle"
is "kept" with the effort of a cycle, which considers at most 100 placed and 100 waiting gangs. The other
cases have the full effort. With `--subgroups` each gang that does not require one rack has two subgroups of
at most eight pods that do, and a third in segments of four per rack; then nothing is written. Times are CPU
time of one thread. The last column is the median divided by the time of a fixed CP-SAT model in the same run,
as a measure of the speed of the machine.
"""

import argparse
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, structs, to_builtins
from ortools.sat.python import cp_model
from phalanx.actions.joint_admission import CYCLE_JOINT_LIMIT
from phalanx.limits import JOINT_DETERMINISTIC_LIMIT
from phalanx.model.names import NodeName
from phalanx.rules.levels import FewestDomains, SameDomain
from phalanx.rules.problem import NodeClass, Rule
from phalanx.rules.subgroups import SubgroupDomain, SubgroupSegments
from phalanx.solver.cp_sat import one_worker
from phalanx.solver.joint.engine import admit
from phalanx.solver.joint.problem import (
    Declined,
    GangDemand,
    GangRole,
    JointLimits,
    JointProblem,
    PodClass,
    total_value,
)

from bench.joint_start import admit_in_queue_order
from bench.record import record

GI = 1 << 30
RESOURCES = ("cpu", "memory", "pods", "nvidia.com/gpu")
WORKER = PodClass("worker", (96_000, 1024 * GI, 1, 8))
RESULTS = Path(__file__).parent / "results" / "joint_admission.json"


class Case(Struct, frozen=True):
    """One line of the table. Sizes of gangs in nodes: with required rack, with required spine, without."""

    name: str
    nodes: int
    gangs: int
    seeds: int
    sizes: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
    kept: bool
    effort: float = JOINT_DETERMINISTIC_LIMIT


_SMALL = ((4, 16), (16, 96), (16, 128))
_LARGE = ((4, 16), (48, 144), (64, 384))

CASES = (
    Case("kept", 1_000, 50, 20, _SMALL, True),
    Case("cycle", 1_000, 50, 20, _SMALL, True, CYCLE_JOINT_LIMIT),
    Case("value", 1_000, 50, 20, _SMALL, False),
    Case("kept", 10_000, 50, 5, _LARGE, True),
    Case("cycle", 10_000, 50, 5, _LARGE, True, CYCLE_JOINT_LIMIT),
    Case("value", 10_000, 50, 5, _LARGE, False),
    Case("kept", 10_000, 200, 5, _SMALL, True),
    Case("cycle", 10_000, 200, 5, _SMALL, True, CYCLE_JOINT_LIMIT),
    Case("value", 10_000, 200, 5, _SMALL, False),
)


class Figures(Struct, frozen=True):
    """One seed of one case."""

    greedy: int
    joint: int
    bound: int
    proven: bool
    greedy_seconds: float
    seconds: float
    errors: tuple[str, ...]

    @property
    def gap(self) -> float:
        """The gap between bound and value in percent."""
        return 100 * (self.bound - self.joint) / max(self.bound, 1)


def problem(case: Case, seed: int, *, subgroups: bool = False) -> JointProblem:
    """The case on the cluster of the seed; no gang must be admitted."""
    rng = random.Random(seed)
    classes: list[NodeClass] = []
    rack = spine = 0
    while len(classes) < case.nodes:
        for _ in range(rng.randint(8, 16)):
            for _ in range(min(rng.randint(16, 32), case.nodes - len(classes))):
                classes.append(_node(rng, (f"spine-{spine}", f"rack-{rack}"), len(classes)))
            rack += 1
        spine += 1
    gangs = sorted(
        (_gang(case, rng, index) for index in range(case.gangs)),
        key=lambda gang: -gang.value // sum(part.count for part in gang.roles),
    )
    if subgroups:
        gangs = [_divided(gang) for gang in gangs]
    return JointProblem(RESOURCES, ("spine", "rack"), (WORKER,), tuple(gangs), tuple(classes), seed=seed)


def _divided(gang: GangDemand) -> GangDemand:
    """Two subgroups of at most eight pods, each in one rack, and the rest in segments of four."""
    size = sum(part.count for part in gang.roles)
    if any(isinstance(rule, SameDomain) and rule.level == "rack" for rule in gang.rules) or size < 8:
        return gang
    half = min(8, size // 2)
    rest = (size - 2 * half) // 4 * 4
    sizes = {"left": half, "right": half, "ring": rest, "other": size - 2 * half - rest}
    rules = (
        SubgroupDomain("left in one rack", "left", "rack"),
        SubgroupDomain("right in one rack", "right", "rack"),
        SubgroupSegments("ring in segments", "ring", "rack", 4),
    )
    parts = tuple(GangRole(0, count, (name,)) for name, count in sizes.items() if count)
    return structs.replace(gang, roles=parts, rules=(*gang.rules, *rules))


def _node(rng: random.Random, path: tuple[str, str], index: int) -> NodeClass:
    gpus = 8 if rng.random() < 0.45 else rng.choice((0, 0, 1, 2, 4, 7))
    cpu = 20_000 + 12_000 * gpus - rng.randint(0, 4_000)
    free = (cpu, 2048 * GI - rng.randint(0, 16 * GI), 110 - rng.randint(2, 9), gpus)
    return NodeClass(path, free, (True,), (0,), (NodeName(f"node-{index}"),))


def _gang(case: Case, rng: random.Random, index: int) -> GangDemand:
    where = rng.randrange(3)
    size = rng.randint(*case.sizes[where])
    rules: list[Rule] = [FewestDomains("preferred rack", "rack")]
    if where < 2:
        level = ("rack", "spine")[where]
        rules.append(SameDomain(f"required {level}", level))
    return GangDemand(f"gang-{index}", (GangRole(0, size),), tuple(rules), value=size * rng.randint(1, 4))


def measured(case: Case, seed: int, *, subgroups: bool = False) -> Figures:
    """One seed: sequential admission, then joint admission that starts from it."""
    case_problem = problem(case, seed, subgroups=subgroups)
    begin = time.process_time()
    start = admit_in_queue_order(case_problem)
    greedy_seconds = time.process_time() - begin
    if isinstance(start, Declined):
        raise SystemExit(start.reason)
    gangs = tuple(
        structs.replace(gang, must_admit=case.kept and index in start)
        for index, gang in enumerate(case_problem.gangs)
    )
    case_problem = structs.replace(case_problem, gangs=gangs)
    begin = time.process_time()
    answer = admit(case_problem, start, limits=JointLimits(deterministic=case.effort))
    seconds = time.process_time() - begin
    if isinstance(answer, Declined):
        raise SystemExit(answer.reason)
    total = sum(gang.value for gang in gangs)
    return Figures(
        greedy=total_value(case_problem, start),
        joint=total - answer.certificate.objective[0],
        bound=total - answer.certificate.bound[0],
        proven=answer.certificate.proven,
        greedy_seconds=greedy_seconds,
        seconds=seconds,
        errors=answer.errors,
    )


def reference_seconds() -> float:
    """The time of one fixed CP-SAT solve: 60 items into 12 knapsacks, to a fixed effort."""
    rng = random.Random(0)
    model = cp_model.CpModel()
    sizes = [rng.randint(10, 60) for _ in range(60)]
    inside = [[model.new_bool_var("") for _ in range(12)] for _ in sizes]
    for row in inside:
        model.add_at_most_one(row)
    for knapsack in range(12):
        here = [row[knapsack] for row in inside]
        model.add(cp_model.LinearExpr.weighted_sum(here, sizes) <= 97)
    values = [size * rng.randint(5, 9) for size in sizes for _ in range(12)]
    model.maximize(cp_model.LinearExpr.weighted_sum([one for row in inside for one in row], values))
    begin = time.process_time()
    one_worker(0, 1.0).solve(model)
    return time.process_time() - begin


def line(case: Case, runs: Sequence[Figures], reference: float) -> str:
    """The case's figures over all seeds."""
    gaps = sorted(run.gap for run in runs)
    gained = sorted(100 * (run.joint - run.greedy) / max(run.greedy, 1) for run in runs)
    seconds = statistics.median(run.seconds for run in runs)
    values = [statistics.mean(getattr(run, name) for run in runs) for name in ("greedy", "joint", "bound")]
    cells = [
        f"{case.name:<6} {case.nodes:>6} {case.gangs:>5} {len(runs):>5}",
        *(f"{value:>8.0f}" for value in values),
        f"{gained[0]:>7.1f} {gained[-1]:>7.1f}",
        f"{_quantile(gaps, 0.5):>6.2f} {_quantile(gaps, 0.95):>6.2f} {gaps[-1]:>6.2f}",
        f"{sum(run.proven for run in runs):>3}/{len(runs):<3}",
        f"{statistics.median(run.greedy_seconds for run in runs):>8.2f}",
        f"{seconds:>6.2f} {max(run.seconds for run in runs):>7.2f} {seconds / reference:>6.2f}",
    ]
    return " ".join(cells)


def _quantile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def main() -> None:
    """Print one line per case, and write all figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="the most seeds of each case")
    parser.add_argument("--case", type=int, nargs="*", default=list(range(len(CASES))), help="lines to run")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--subgroups", action="store_true", help="larger gangs have subgroups")
    arguments = parser.parse_args()
    reference_seconds()
    reference = reference_seconds()
    print(f"reference solve: {reference:.2f} s")
    print(
        f"{'order':<6} {'nodes':>6} {'gangs':>5} {'seeds':>5} {'greedy':>8} {'joint':>8} "
        f"{'bound':>8} {'gain % min..max':>15} {'gap % p50/p95/max':>20} {'proven':>7} {'greedy s':>8} "
        f"{'s':>6} {'max s':>7} {'ratio':>6}"
    )
    results = []
    for case in (CASES[index] for index in arguments.case):
        seeds = range(min(case.seeds, arguments.seeds))
        runs = [measured(case, seed, subgroups=arguments.subgroups) for seed in seeds]
        print(line(case, runs, reference), flush=True)
        results.append({"case": to_builtins(case), "runs": [to_builtins(run) for run in runs]})
    report = {"reference_seconds": reference, "cases": results}
    if not arguments.subgroups:
        record(arguments.output, report)


if __name__ == "__main__":
    main()
