"""Solves random gangs on partly full clusters: gaps, proofs, and CPU time.

    python -m bench.sweep [--instances N] [--first SEED]

Each instance draws 64 to 2,000 nodes and one gang of a random kind: one to three roles, optional members, a
required spine, preferred racks, subgroups that each require a rack, segments of four. The effort is the limit
of the product for one answer. Writes bench/results/sweep.json.

Per instance: the gap in unplaced pods, the gap in domains on the first level without a proof, whether the
answer is proven with and without the tightness term, the relative gap in tightness, whether greedy search
alone was worse, and CPU seconds of one thread.
"""

import argparse
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from phalanx.rules.levels import FewestDomains, SameDomain
from phalanx.rules.problem import PlacementProblem, RoleDemand, Rule
from phalanx.rules.subgroups import SubgroupDomain, SubgroupSegments
from phalanx.solver.answer import Placed
from phalanx.solver.engine import place
from phalanx.solver.objective import DOMAINS, UNPLACED, primary_terms, proven_but_tightness

from bench.instances import greedy_score, helpers, instance, workers
from bench.record import record

RESULTS = Path(__file__).parent / "results"
PREFER_RACK = FewestDomains("preferred", "rack")

Gang = tuple[Sequence[RoleDemand], Sequence[Rule]]


class Figures(Struct, frozen=True, rename="camel"):
    """One instance. `value_gap` is the gap in unplaced pods as a share of the requested pods."""

    make: str
    nodes: int
    pods: int
    placed: bool
    proven: bool
    proven_but_tightness: bool
    tightness_gap: float
    by: str
    value_gap: float
    domains_above: int
    beats_greedy: bool
    worse_than_greedy: bool
    seconds: float


def one_role(rng: random.Random, size: int) -> Gang:
    """One role of whole nodes or parts of nodes."""
    return (workers(size, rng.choice((8, 8, 4, 2, 1))),), _levels(rng)


def several_roles(rng: random.Random, size: int) -> Gang:
    """Two or three roles that share nodes."""
    roles = [workers(max(1, size // 2), rng.choice((8, 4))), workers(max(1, size // 3), rng.choice((2, 1)))]
    return (*roles, *([helpers(max(1, size // 8))] if rng.random() < 0.5 else [])), _levels(rng)


def elastic(rng: random.Random, size: int) -> Gang:
    """A role whose maximum is twice its minimum."""
    gpus = rng.choice((8, 4))
    return (workers(2 * size, gpus, least=size), workers(max(1, size // 2), 1, least=0)), _levels(rng)


def subgroups(rng: random.Random, size: int) -> Gang:
    """Two to six subgroups that each require one rack."""
    count = rng.randint(2, 6)
    each = max(1, min(24, size // count))
    names = [f"part-{number}" for number in range(count)]
    roles = [workers(each, rng.choice((4, 2, 1)), subgroups=(name,)) for name in names]
    return roles, (*_levels(rng), *(SubgroupDomain(name, name, "rack") for name in names))


def segments(rng: random.Random, size: int) -> Gang:
    """A subgroup in segments of four per rack, and a role without a constraint."""
    ranks = workers(4 * max(1, size // 4), rng.choice((8, 4)), subgroups=("ranks",))
    roles = (ranks, workers(max(1, size // 8), 1))
    return roles, (*_levels(rng), SubgroupSegments("segments", "ranks", "rack", 4))


MAKES: tuple[Callable[[random.Random, int], Gang], ...] = (
    one_role,
    several_roles,
    elastic,
    subgroups,
    segments,
)


def _levels(rng: random.Random) -> tuple[Rule, ...]:
    spine = (SameDomain("required", "spine"),) if rng.random() < 0.4 else ()
    return (*spine, *((PREFER_RACK,) if rng.random() < 0.8 else ()))


def drawn(seed: int) -> tuple[str, PlacementProblem]:
    """The kind and the problem of a seed."""
    rng = random.Random(seed)
    nodes = rng.randint(64, 2000)
    make = MAKES[seed % len(MAKES)]
    roles, rules = make(rng, max(1, round(nodes * rng.uniform(0.01, 0.15))))
    return make.__name__, instance(rng, nodes, roles, rules, priced=rng.random() < 0.2, seed=seed)


def measured(seed: int) -> Figures:
    """One answer, and that of greedy search alone."""
    make, problem = drawn(seed)
    began = time.process_time()
    answer = place(problem)
    seconds = time.process_time() - began
    pods = sum(role.maximum for role in problem.roles)
    greedy = greedy_score(problem)
    if not isinstance(answer, Placed):
        return Figures(make, len(problem.classes), pods, False, answer.proven, answer.proven, 0.0, answer.by,
                       0.0, 0, False, greedy is not None, seconds)  # fmt: skip
    certificate = answer.certificate
    firm = primary_terms(certificate.terms)
    is_firm = proven_but_tightness(certificate)
    gaps = [each - bound for each, bound in zip(certificate.objective, certificate.bound, strict=True)]
    return Figures(
        make=make,
        nodes=len(problem.classes),
        pods=pods,
        placed=True,
        proven=certificate.proven,
        proven_but_tightness=is_firm,
        tightness_gap=sum(gaps[firm:]) / max([1, *certificate.objective[firm:]]) if is_firm else 0.0,
        by=certificate.by,
        value_gap=gaps[0] / pods if certificate.terms[:1] == (UNPLACED,) else 0.0,
        domains_above=_first_gap(certificate.terms, gaps),
        beats_greedy=greedy is None or certificate.objective < greedy,
        worse_than_greedy=greedy is not None and certificate.objective > greedy,
        seconds=seconds,
    )


def _first_gap(terms: Sequence[str], gaps: Sequence[int]) -> int:
    """Domains above the bound on the first level with a gap; later terms are not comparable."""
    for term, gap in zip(terms, gaps, strict=True):
        if gap:
            return gap if term.startswith(DOMAINS) else 0
    return 0


def at(values: Sequence[float], part: float) -> float:
    """The quantile of the values; 0 without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def summary(runs: Sequence[Figures]) -> dict[str, object]:
    """The row of the table for these instances."""
    placed = [run for run in runs if run.placed]
    return {
        "instances": len(runs),
        "placed": len(placed),
        "proven": sum(run.proven for run in runs),
        "provenButTightness": sum(run.proven_but_tightness for run in runs),
        "tightnessGapP95": round(at([run.tightness_gap for run in placed], 0.95), 4),
        "valueGapP99": round(at([run.value_gap for run in placed], 0.99), 4),
        "domainsAboveP95": at([run.domains_above for run in placed], 0.95),
        "domainsAboveMax": max((run.domains_above for run in placed), default=0),
        "betterThanGreedy": sum(run.beats_greedy for run in placed),
        "worseThanGreedy": sum(run.worse_than_greedy for run in runs),
        "millisecondsP50": round(1000 * statistics.median([run.seconds for run in runs]), 1),
        "millisecondsP99": round(1000 * at([run.seconds for run in runs], 0.99), 1),
        "by": dict(sorted(Counter(run.by for run in runs).items())),
    }


def main() -> None:
    """Print one line per kind and one for all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    runs = [measured(seed) for seed in range(options.first, options.first + options.instances)]
    table = {make.__name__: summary([run for run in runs if run.make == make.__name__]) for make in MAKES}
    table["all"] = summary(runs)
    shown = [name for name in table["all"] if name != "by"]
    print(f"{'':<14}" + " ".join(f"{name:>16}" for name in shown))
    for make, row in table.items():
        print(f"{make:<14}" + " ".join(f"{row[name]!s:>16}" for name in shown))
    record(RESULTS / "sweep.json", table)


if __name__ == "__main__":
    main()
