"""`python -m tests.bugbank.search [PART ...]`: the first seed that catches each mutant, for `seeds.py`.

For all mutants, or those with one of these words in their name. Each has its own process, in which it is run
with seeds 1 to `--last` of each kind of runs. The bank itself checks that the unchanged code passes them.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec.structs import replace

from tests.bugbank.apply import apply_mutant, seen_by
from tests.bugbank.bank import Mutant, Simulated
from tests.bugbank.children import ROOT
from tests.bugbank.mutants import MUTANTS
from tests.bugbank.seeds import ALL, LEADERS, STORM


def main(arguments: Sequence[str] | None = None) -> int:
    """One line for each mutant that was caught, with the seed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bugbank.search", description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of names")
    parser.add_argument("--last", type=int, default=3, help="the last seed that is tried")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.only is not None:
        return _search(next(one for one in MUTANTS if one.name == asked.only), asked.last)
    names = [one.name for one in MUTANTS if not asked.words or any(word in one.name for word in asked.words)]
    with ThreadPoolExecutor(asked.jobs) as threads:
        for line in threads.map(lambda name: _in_a_process(name, asked.last), names):
            print(line, end="", flush=True)
    return 0


def _in_a_process(name: str, last: int) -> str:
    command = [sys.executable, "-m", "tests.bugbank.search", "--only", name, "--last", str(last)]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    return ended.stdout if ended.returncode == 0 else ""


def _search(mutant: Mutant, last: int) -> int:
    apply_mutant(mutant)
    for seed in range(1, last + 1):
        for runs in (STORM, LEADERS, ALL):
            seen = _seen(replace(runs, first=seed, last=seed))
            if seen is not None:
                print(f"{mutant.name}: {runs.faults} {seed}: {seen}")
                return 0
    return 1


def _seen(runs: Simulated) -> str | None:
    try:
        return seen_by(runs)
    except Exception as crash:  # a mutant that crashes the scheduler's own code is caught too
        return f"crash: {crash!r}"


if __name__ == "__main__":
    sys.exit(main())
