"""`python -m tests.bugbank [PART ...]`: the whole bank, or what has one of these words in its name."""

import sys

from tests.bugbank.mutants import MUTANTS
from tests.bugbank.run import RESULTS, run, write


def main(words: list[str]) -> int:
    """0 when at least 95 of 100 were caught."""
    chosen = [one for one in MUTANTS if not words or any(word in one.name for word in words)]
    results = []
    for result in run(chosen):
        mark = "caught" if result.caught else "MISSED"
        print(f"{mark} {result.seconds:5.1f} s  {result.mutant.name}: {result.seen[:120]}", flush=True)
        results.append(result)
    missed = [one.mutant.name for one in results if not one.caught]
    print(f"caught {len(results) - len(missed)} of {len(results)}")
    for name in missed:
        print(f"not caught: {name}")
    if not words:
        write(results)
        print(f"written to {RESULTS}")
    return 0 if len(missed) * 20 <= len(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
