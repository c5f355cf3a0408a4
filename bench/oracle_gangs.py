"""`python -m bench.oracle_gangs`: compares decisions about gangs with kube-scheduler's plugins and a checker.

    python -m bench.oracle_gangs [--cases N] [--first SEED] [--jobs N]

Cases are random clusters of `tests/oracle/gangs`, 100 for each seed: a gang of up to five pods with spread
constraints, affinity, anti-affinity, ports, taints and selectors. A placement must be accepted pod by pod in
some order where the rules allow that, and must violate nothing in the end. A gang that is refused must have
no placement, which a search over all of them shows. The exit code is 1 if a decision was wrong.
"""

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Final

from hypothesis import HealthCheck, Phase, given, seed, settings
from msgspec import Struct

from tests.oracle.gangs.clusters import GangCase, gang_cases
from tests.oracle.gangs.comparison import GangComparison, compare_gang
from tests.oracle.plugins import running

CASES_PER_SEED: Final = 100


class Tally(Struct, frozen=True):
    """The results of one seed."""

    outcomes: Counter[str]
    problems: tuple[str, ...]


def examine(number: int, *, count: int = CASES_PER_SEED) -> Tally:
    """Compare all cases of one seed."""
    made: list[GangComparison] = []
    with running() as plugins:

        @seed(number)
        @settings(
            max_examples=count,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=gang_cases())
        def each(case: GangCase) -> None:
            made.append(compare_gang(plugins, case))

        each()
    problems = tuple(found.problem for found in made if found.problem)
    return Tally(Counter(found.outcome for found in made), problems)


def main(arguments: list[str] | None = None) -> int:
    """Print wrong decisions, then the totals."""
    parser = argparse.ArgumentParser(prog="python -m bench.oracle_gangs", description=__doc__)
    parser.add_argument("--cases", type=int, default=2_000, help="random clusters")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args(arguments)
    count = min(options.cases, CASES_PER_SEED)
    seeds = range(options.first, options.first + -(-options.cases // count))
    outcomes: Counter[str] = Counter()
    wrong = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        for done, tally in enumerate(pool.map(partial(examine, count=count), seeds), start=1):
            outcomes += tally.outcomes
            wrong += len(tally.problems)
            for problem in tally.problems:
                print(f"seed {seeds[done - 1]}: {problem}", flush=True)
            print(f"{done} of {len(seeds)} seeds: {dict(outcomes)}", file=sys.stderr, flush=True)
    for outcome, number in outcomes.most_common():
        print(f"{number} {outcome}")
    print(f"{outcomes.total()} gangs of seeds {seeds.start} to {seeds.stop - 1}: {wrong} wrong decisions")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
