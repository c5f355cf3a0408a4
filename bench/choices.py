"""Compares decisions with exhaustive searches that follow the documentation.

    python -m bench.choices members|starts|evictions [--cases N] [--seed N] [--show N]

`members`: random gangs with roles, subgroups and members that can run nowhere, on up to three nodes. A gang
must start if and only if some sufficient set of its members fits, with the first such set, and its verdict
must name the members that can run on no node (tests/actions/member_cases.py). `starts`: random clusters that
up to four queues share. No start that guarantees would not cover may go before one of another queue that they
would cover (tests/actions/start_cases.py). `evictions`: such clusters. No running gang may be evicted, and no
gang may wait, if it is enough to give up starts of the same cycle that the gang may evict
(tests/actions/eviction_cases.py). Case n of seed s is the same on every machine.
"""

import argparse
import sys
import time
from collections.abc import Callable
from random import Random
from typing import Any

from tests.actions import eviction_cases, member_cases, start_cases

KINDS: dict[str, tuple[Callable[[Random], Any], Callable[[Any], list[str]], Callable[[Any], str]]] = {
    "members": (member_cases.member_case, member_cases.disagreements, member_cases.described),
    "starts": (start_cases.start_case, start_cases.disorders, start_cases.described),
    "evictions": (eviction_cases.eviction_case, eviction_cases.regrets, start_cases.described),
}
"""By name, what makes a case, checks it, and describes it."""


def main() -> None:
    """Print the first disagreements and their number; exit code 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=3)
    arguments = parser.parse_args()
    make, check, describe = KINDS[arguments.kind]
    began, wrong = time.perf_counter(), 0
    for number in range(arguments.cases):
        case = make(Random(f"{arguments.seed}-{number}"))
        found = check(case)
        wrong += bool(found)
        if found and wrong <= arguments.show:
            print(f"case {number}: {found}\n{describe(case)}\n", flush=True)
    seconds = time.perf_counter() - began
    print(f"{wrong} of {arguments.cases} cases disagree, seed {arguments.seed}, {seconds:.0f} s")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
