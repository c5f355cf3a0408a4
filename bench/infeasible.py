"""Checks explanations of infeasible gangs: conflicts, missing capacity, raised limits, and CPU time.

    python -m bench.infeasible [--instances N] [--sized N]

Each instance plants one conflict in a cluster of 64 to 2,000 nodes: more pods than fit in a rack, a spine,
the budget of a queue, the eligible nodes or all nodes; a subgroup or segments that fit in no rack; or two
roles for which each rack has enough GPUs in total but not per node. It is explained as in a cycle: if the
gang does not fit on the empty nodes either, it is impossible, and that is explained; otherwise it waits. The
named rules must be infeasible together and feasible after any one of them is dropped. A raise of limits, or
else missing capacity that is freed, must make the gang fit. A gang that is reported as waiting must fit on
the empty nodes. All this is verified by the solver with ten times the effort of an answer. The last line
shows other instances, all on 1,000 nodes.
Writes bench/results/infeasible.json.
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct, structs
from phalanx.limits import EXPLANATION_DETERMINISTIC_LIMIT, SOLVE_DETERMINISTIC_LIMIT
from phalanx.rules.budget import Budget
from phalanx.rules.levels import SameDomain
from phalanx.rules.problem import PlacementProblem, Rule
from phalanx.rules.subgroups import SubgroupDomain, SubgroupSegments
from phalanx.solver.answer import Placed, SolveLimits
from phalanx.solver.engine import place
from phalanx.solver.infeasibility.explain import Explanation, explain, fits_when_empty, with_only_rules
from phalanx.solver.infeasibility.feasibility import feasibility_problem
from phalanx.solver.infeasibility.relaxations import with_free, with_raised_budgets

from bench.instances import instance, workers
from bench.record import record
from bench.sweep import at

RESULTS = Path(__file__).parent / "results"
BUDGET_S = 1.0
"""The CPU seconds in which an explanation should finish."""

_LIMITS = SolveLimits(deterministic=EXPLANATION_DETERMINISTIC_LIMIT)
_THOROUGH = SolveLimits(deterministic=10 * SOLVE_DETERMINISTIC_LIMIT)
_SPINE, _RACK = SameDomain("required spine", "spine"), SameDomain("required rack", "rack")


class Figures(Struct, frozen=True):
    """One instance. `is_conflict`: infeasible together; `is_minimal`: feasible after any one was dropped.

    `standing_is_right`: the report as impossible or as waiting is correct.
    """

    plant: str
    nodes: int
    is_impossible: bool
    standing_is_right: bool
    claimed_irreducible: bool
    is_conflict: bool
    is_minimal: bool
    first_helps: bool | None
    seconds: float


def rack_too_small(rng: random.Random, nodes: int) -> PlacementProblem:
    """More whole nodes than the largest rack has."""
    return instance(rng, nodes, [workers(33)], [_RACK])


def spine_too_small(rng: random.Random, nodes: int) -> PlacementProblem:
    """More whole nodes than the largest spine has, where there is more than one spine."""
    return instance(rng, max(nodes, 1100), [workers(400)], [_SPINE])


def budget_too_small(rng: random.Random, nodes: int) -> PlacementProblem:
    """Eight GPUs more than the queue may use, with a required level that is not in conflict."""
    count = rng.randint(2, 6)
    rules: list[Rule] = [_SPINE, Budget("limit", {"nvidia.com/gpu": 8 * (count - 1)})]
    return instance(rng, nodes, [workers(count)], rules)


def too_few_eligible(rng: random.Random, nodes: int) -> PlacementProblem:
    """Five pods that may use four nodes."""
    problem = instance(rng, nodes, [workers(5, 1)], [])
    free = [index for index, group in enumerate(problem.classes) if group.free[3] >= 1]
    chosen = set(rng.sample(free, min(4, len(free))))
    classes = tuple(
        structs.replace(group, eligible=(index in chosen,), free=(*group.free[:3], min(1, group.free[3])))
        for index, group in enumerate(problem.classes)
    )
    return structs.replace(problem, classes=classes)


def cluster_too_small(rng: random.Random, nodes: int) -> PlacementProblem:
    """One pod more than fits on all nodes."""
    problem = instance(rng, nodes, [workers(1)], [])
    return structs.replace(
        problem, roles=(workers(sum(group.free[3] == 8 for group in problem.classes) + 1),)
    )


def subgroup_too_large(rng: random.Random, nodes: int) -> PlacementProblem:
    """A subgroup that fits in no rack, and one that fits in any rack."""
    roles = [workers(33, subgroups=("large",)), workers(1, 1, subgroups=("small",))]
    rules = [SubgroupDomain("large in a rack", "large", "rack"), SubgroupDomain("small", "small", "rack")]
    return instance(rng, max(nodes, 400), roles, rules)


def segment_too_large(rng: random.Random, nodes: int) -> PlacementProblem:
    """Segments of 36 whole nodes, which fit in no rack."""
    rules = [SubgroupSegments("segments of 36", "ranks", "rack", 36)]
    return instance(rng, max(nodes, 400), [workers(36, subgroups=("ranks",))], rules)


def odd_packing(rng: random.Random, nodes: int) -> PlacementProblem:
    """Pods of 7 and of 2 GPUs that require one rack; one pod of 2 GPUs more than fits in the best rack.

    As many pods of 7 as fit in any rack; the GPU that each leaves on a node of 8 is unusable.
    """
    rules: list[Rule] = [_RACK, Budget("limit", {"nvidia.com/gpu": 8 * nodes})]
    problem = instance(rng, max(nodes, 200), [workers(1, 7), workers(1, 2)], rules)
    racks: dict[tuple[str, ...], list[int]] = {}
    for group in problem.classes:
        racks.setdefault(group.path, []).append(group.free[3])
    large = max(sum(gpus >= 7 for gpus in each) for each in racks.values())
    small = max(_beside(each, large) for each in racks.values()) + 1
    return structs.replace(problem, roles=(workers(large, 7), workers(small, 2)))


def _beside(free: Sequence[int], large: int) -> int:
    """How many pods of 2 GPUs fit beside `large` pods of 7; -1 when those do not fit."""
    takers = sorted(gpus for gpus in free if gpus >= 7)
    if len(takers) < large:
        return -1
    others = [gpus for gpus in free if gpus < 7]
    return sum(gpus // 2 for gpus in (*others, *takers[large:]))


PLANTS: tuple[Callable[[random.Random, int], PlacementProblem], ...] = (
    rack_too_small,
    spine_too_small,
    budget_too_small,
    too_few_eligible,
    cluster_too_small,
    subgroup_too_large,
    segment_too_large,
    odd_packing,
)


def vacant(problem: PlacementProblem) -> PlacementProblem:
    """The problem on the empty nodes, with an unused budget of the queue, which is 64 GPUs larger."""
    classes = tuple(
        structs.replace(group, free=(180_000, group.free[1], group.free[2], 8)) for group in problem.classes
    )
    rules = tuple(_unused(rule) if isinstance(rule, Budget) else rule for rule in problem.rules)
    return structs.replace(problem, classes=classes, rules=rules)


def _unused(budget: Budget) -> Budget:
    return structs.replace(
        budget, remaining={name: 64 + solves_left for name, solves_left in budget.remaining.items()}
    )


def measured(seed: int, nodes: int | None = None) -> Figures:
    """One explanation and its verification. `nodes`: the number of nodes, unless the conflict needs more."""
    rng = random.Random(seed)
    plant = PLANTS[seed % len(PLANTS)]
    now = plant(rng, nodes or rng.randint(64, 2000))
    empty = vacant(now)
    began = time.process_time()
    is_impossible = fits_when_empty(empty, limits=_LIMITS) is False
    facts = explain(empty, limits=_LIMITS) if is_impossible else explain(now, empty=empty, limits=_LIMITS)
    seconds = time.process_time() - began
    core = feasibility_problem(empty if is_impossible else now)
    without = [[each for each in facts.conflict if each != name] for name in facts.conflict]
    return Figures(
        plant=plant.__name__,
        nodes=len(now.classes),
        is_impossible=is_impossible,
        standing_is_right=_fits(feasibility_problem(empty)) is not is_impossible,
        claimed_irreducible=facts.irreducible,
        is_conflict=not _fits(with_only_rules(core, facts.conflict)),
        is_minimal=bool(facts.conflict) and all(_fits(with_only_rules(core, names)) for names in without),
        first_helps=_first_helps(core, facts),
        seconds=seconds,
    )


def _first_helps(core: PlacementProblem, facts: Explanation) -> bool | None:
    """Whether the first raise, or else the missing capacity, makes the gang fit; None without either."""
    if facts.raised:
        return _fits(feasibility_problem(with_raised_budgets(core, facts.raised[0])))
    if facts.missing is None:
        return None
    freed = {each.node: each.amounts for each in facts.missing.capacity}
    return _fits(feasibility_problem(with_free(core, freed)))


def _fits(problem: PlacementProblem) -> bool:
    return isinstance(place(problem, limits=_THOROUGH), Placed)


def summary(runs: Sequence[Figures]) -> dict[str, object]:
    """The row of the table for these instances."""
    return {
        "instances": len(runs),
        "impossible": sum(run.is_impossible for run in runs),
        "standing": sum(run.standing_is_right for run in runs),
        "conflict": sum(run.is_conflict for run in runs),
        "minimal": sum(run.is_minimal for run in runs),
        "advice": sum(run.first_helps is not None for run in runs),
        "adviceHelps": sum(bool(run.first_helps) for run in runs),
        "inBudget": sum(run.seconds <= BUDGET_S for run in runs),
        "millisecondsP50": round(1000 * at([run.seconds for run in runs], 0.5), 1),
        "millisecondsP95": round(1000 * at([run.seconds for run in runs], 0.95), 1),
        "millisecondsMax": round(1000 * max((run.seconds for run in runs), default=0.0), 1),
    }


def main() -> None:
    """Print one line per plant and one for all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=200)
    parser.add_argument("--sized", type=int, default=80, help="instances on 1,000 nodes")
    options = parser.parse_args()
    runs = [measured(seed) for seed in range(options.instances)]
    sized = [measured(seed, 1000) for seed in range(options.sized)]
    table = {
        plant.__name__: summary([run for run in runs if run.plant == plant.__name__]) for plant in PLANTS
    }
    table["all"] = summary(runs)
    table["1,000 nodes"] = summary(sized)
    print(f"{'':<20}" + " ".join(f"{name:>15}" for name in table["all"]))
    for plant_name, row in table.items():
        print(f"{plant_name:<20}" + " ".join(f"{each!s:>15}" for each in row.values()))
    record(RESULTS / "infeasible.json", table)


if __name__ == "__main__":
    main()
