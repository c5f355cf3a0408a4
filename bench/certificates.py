"""Compares certificates with a search over all placements, on random small clusters.

    python -m bench.certificates [--cases N] [--first SEED] [--kind KIND]

Each case is decided by `phalanx decide`; each certificate of its placements is compared with the objective as
docs/certificates.md defines it and with all placements that are possible (tests/certificates). So is what
verdicts say of the number and the cost of victims and of moves, with all sets of gangs. Prints one line per
kind of case, the first disagreements with their seeds, and the counts of all cases in the last line. "wrong"
counts statements with any disagreement, "notBest" those that are called proven although something is better.
Seeds begin at `--first`; the exit code is 1 if a statement is wrong.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tests.certificates import move_cases, victim_cases
from tests.certificates.cases import MAKES, drawn
from tests.certificates.compare import Checked, checked

SHOWN = 10
"""Statements of a kind whose disagreements are printed."""

EVERY = 100
"""Cases between two lines of progress."""

COLUMNS = ("cases", "statements", "wrong", "proven", "optimal", "notBest", "placements")

Check = Callable[[int], Sequence[Checked]]


def _of_kind(number: int, seed: int) -> Sequence[Checked]:
    return checked(drawn(seed * len(MAKES) + number))


KINDS: Mapping[str, Check] = {
    **{make.__name__: partial(_of_kind, number) for number, make in enumerate(MAKES)},
    "victims": lambda seed: victim_cases.checked(victim_cases.drawn(seed)),
    "moves": lambda seed: move_cases.checked(move_cases.drawn(seed)),
}


def main() -> int:
    """Return 1 if a statement is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=200, help="cases of each kind")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kind", choices=[*KINDS], action="append", help="only cases of this kind")
    options = parser.parse_args()
    total: Counter[str] = Counter()
    print(f"{'':<16}" + " ".join(f"{column:>12}" for column in COLUMNS))
    for kind in options.kind or KINDS:
        count = _checked(kind, range(options.first, options.first + options.cases))
        total += count
        _show(kind, count)
    _show("all", total)
    return 1 if total["wrong"] else 0


def _checked(kind: str, seeds: range) -> Counter[str]:
    """The counts of these cases; prints disagreements, and the progress to standard error."""
    count: Counter[str] = Counter()
    for seed in seeds:
        found = KINDS[kind](seed)
        errors = [error for each in found for error in each.errors]
        count += _counted(found)
        if errors and count["wrong"] <= SHOWN:
            print(*(f"{kind} {seed}: {error}" for error in errors), sep="\n", flush=True)
        if not count["cases"] % EVERY:
            print(f"{kind}: {count['cases']} of {len(seeds)} cases", file=sys.stderr, flush=True)
    return count


def _counted(found: Sequence[Checked]) -> Counter[str]:
    return Counter(
        cases=1,
        statements=len(found),
        wrong=sum(bool(each.errors) for each in found),
        proven=sum(each.proven for each in found),
        optimal=sum(each.optimal for each in found),
        notBest=sum(each.proven and not each.optimal for each in found),
        placements=sum(each.compared for each in found),
    )


def _show(kind: str, row: Counter[str]) -> None:
    print(f"{kind:<16}" + " ".join(f"{row[column]:>12}" for column in COLUMNS), flush=True)


if __name__ == "__main__":
    sys.exit(main())
