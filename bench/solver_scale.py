"""Measures the solver for one gang: CPU time, proofs, and the loss of greedy search alone.

    python -m bench.solver_scale [--seeds N]

The cluster is that of bench/instances.py: every node is a separate class, so no nodes are merged.
Times are CPU time of one thread, from the problem to the checked and certified answer. Writes
bench/results/solver_scale.json.
"""

import argparse
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from phalanx.rules.levels import FewestDomains, SameDomain
from phalanx.rules.problem import PlacementProblem, RoleDemand, Rule
from phalanx.solver.answer import Placed
from phalanx.solver.engine import place
from phalanx.solver.objective import primary_terms, proven_but_tightness

from bench.instances import greedy_score, helpers, instance, workers
from bench.record import record

RESULTS = Path(__file__).parent / "results"
PREFER_RACK = (FewestDomains("preferred", "rack"),)
IN_SPINE_PREFER_RACK = (SameDomain("required", "spine"), *PREFER_RACK)


class Case(Struct, frozen=True):
    """One line of the table."""

    name: str
    nodes: int
    roles: tuple[RoleDemand, ...]
    rules: tuple[Rule, ...]
    priced: bool = False


class Figures(Struct, frozen=True):
    """One seed of one case."""

    seconds: float
    by: str
    proven: bool
    objective: tuple[int, ...]
    greedy: tuple[int, ...] | None
    proven_but_tightness: bool = False
    firm: int = 0


CASES = (
    Case("one role, rack preferred", 1_000, (workers(64),), PREFER_RACK),
    Case("one role, rack preferred", 1_000, (workers(256),), PREFER_RACK),
    Case("one role, rack preferred", 10_000, (workers(64),), PREFER_RACK),
    Case("one role, rack preferred", 10_000, (workers(512),), PREFER_RACK),
    Case("one role, rack preferred", 10_000, (workers(2_048),), PREFER_RACK),
    Case("two roles, in a spine", 1_000, (workers(48), workers(16, 2)), IN_SPINE_PREFER_RACK),
    Case("two roles, in a spine", 1_000, (workers(56), helpers(8)), IN_SPINE_PREFER_RACK),
    Case("two roles, in a spine", 10_000, (workers(48), workers(16, 2)), IN_SPINE_PREFER_RACK),
    Case("two roles, rack preferred", 1_000, (workers(48), workers(16, 2)), PREFER_RACK),
    Case("two roles, in a spine, prices", 1_000, (workers(48), workers(16, 2)), IN_SPINE_PREFER_RACK, True),
    Case(
        "four roles, rack preferred",
        1_000,
        (workers(40), workers(30, 5), workers(30, 3), helpers(40)),
        PREFER_RACK,
    ),
)


def problem(case: Case, seed: int) -> PlacementProblem:
    """The case on the cluster of the seed."""
    return instance(random.Random(seed), case.nodes, case.roles, case.rules, priced=case.priced, seed=seed)


def measured(case: Case, seed: int) -> Figures:
    """One answer, and that of greedy search alone."""
    case_problem = problem(case, seed)
    start = time.process_time()
    answer = place(case_problem)
    seconds = time.process_time() - start
    if not isinstance(answer, Placed):
        return Figures(seconds, answer.by, answer.proven, (), None)
    certificate = answer.certificate
    return Figures(
        seconds=seconds,
        by=certificate.by,
        proven=certificate.proven,
        objective=certificate.objective,
        greedy=greedy_score(case_problem),
        proven_but_tightness=proven_but_tightness(certificate),
        firm=primary_terms(certificate.terms),
    )


def summary(case: Case, runs: Sequence[Figures]) -> dict[str, Any]:
    """The case's figures over all seeds."""
    times = sorted(run.seconds * 1000 for run in runs)
    return {
        "case": case.name,
        "nodes": case.nodes,
        "pods": "+".join(str(role.maximum) for role in case.roles),
        "seeds": len(runs),
        "proven": sum(run.proven for run in runs),
        "provenButTightness": sum(run.proven_but_tightness for run in runs),
        "greedyWorse": sum((run.greedy or ())[: run.firm] != run.objective[: run.firm] for run in runs),
        "millisecondsP50": round(statistics.median(times), 1),
        "millisecondsMax": round(times[-1], 1),
        "by": sorted({run.by for run in runs}),
        **_looser(runs),
    }


def _looser(runs: Sequence[Figures]) -> dict[str, float]:
    """The number of seeds in which greedy search is worse only in tightness, and the loss."""
    equal = [
        run for run in runs if run.greedy is not None and run.greedy[: run.firm] == run.objective[: run.firm]
    ]
    tightness = sum(run.objective[-1] for run in equal)
    more = sum(run.greedy[-1] for run in equal if run.greedy is not None) - tightness
    looser = sum(run.greedy != run.objective for run in equal)
    return {
        "greedyLooser": looser,
        "greedyTightnessPercent": round(100 * more / tightness, 1) if tightness else 0.0,
    }


def line(row: dict[str, Any]) -> str:
    """A line of the table."""
    seeds = row["seeds"]
    return (
        f"{row['case']:<30} {row['nodes']:>6} {row['pods']:>12} {row['millisecondsP50']:>9} "
        f"{row['millisecondsMax']:>8} {row['proven']:>4}/{seeds:<3} "
        f"{row['provenButTightness']:>6}/{seeds:<3} "
        f"{row['greedyWorse']:>9}/{seeds:<3} {row['greedyLooser']:>10}/{seeds:<3} "
        f"{row['greedyTightnessPercent']:>7} {','.join(row['by'])}"
    )


def main() -> None:
    """Print one line per case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    heading = f"{'case':<30} {'nodes':>6} {'pods':>12} {'median ms':>9} {'max ms':>8}"
    print(f"{heading} {'proven':>8} {'but tight.':>10} {'greedy worse':>13} {'looser':>14} {'by %':>7} by")
    measured(CASES[-1], 0)
    rows = []
    for case in CASES:
        rows.append(summary(case, [measured(case, seed) for seed in range(seeds)]))
        print(line(rows[-1]), flush=True)
    record(RESULTS / "solver_scale.json", rows)


if __name__ == "__main__":
    main()
