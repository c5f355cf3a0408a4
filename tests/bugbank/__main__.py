"""`python -m tests.bugbank [PART ...]`: the bank, or mutants with one of these words in their name."""

import sys

from tests.bugbank.bank import words_of
from tests.bugbank.mutants import MUTANTS
from tests.bugbank.run import RESULTS, run, write


def main(words: list[str]) -> int:
    """0 if at least 95 of 100 were caught, and each of those with seeds by these too."""
    chosen = [one for one in MUTANTS if not words or any(word in one.name for word in words)]
    results = []
    for result in run(chosen):
        mark = "caught" if result.caught else "MISSED"
        how = words_of(result.by)
        print(f"{mark} {result.seconds:5.1f} s  {result.mutant.name}, {how}: {result.seen[:120]}", flush=True)
        results.append(result)
    own = [one for one in results if one.by is one.mutant.caught_by]
    missed = [one for one in own if not one.caught]
    blind = [one for one in results if not one.caught and one not in missed]
    print(f"caught {len(own) - len(missed)} of {len(own)}")
    print(f"by seeds too: {len(results) - len(own) - len(blind)} of {len(results) - len(own)}")
    for one in (*missed, *blind):
        print(f"not caught: {one.mutant.name}, {words_of(one.by)}")
    if not words:
        write(results)
        print(f"written to {RESULTS}")
    return 0 if len(missed) * 20 <= len(own) and not blind else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
