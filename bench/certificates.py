"""Compares certificates with a search over all placements, on random small clusters.

    python -m bench.certificates [--cases N] [--first SEED] [--make KIND]

Each case is decided by `phalanx decide`; each certificate of its placements is compared with the objective as
docs/objects.md defines it and with all placements that are possible (tests/certificates). Prints one line per
kind of case, and the first disagreements with their seeds.
"""

import argparse
import sys
from collections import Counter

from tests.certificates.cases import MAKES, drawn
from tests.certificates.compare import Checked, checked

SHOWN = 10


def main() -> int:
    """Exit code 1 if a certificate is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--make", choices=[make.__name__ for make in MAKES], help="only cases of this kind")
    options = parser.parse_args()
    count: dict[str, Counter[str]] = {make.__name__: Counter() for make in MAKES}
    wrong: list[str] = []
    for seed in range(options.first, options.first + options.cases):
        make = MAKES[seed % len(MAKES)].__name__
        if options.make in (None, make):
            found = checked(drawn(seed))
            count[make] += _counted(found)
            wrong += [f"{make} {seed}: {error}" for each in found for error in each.errors]
    _show(count)
    print("\n".join(wrong[:SHOWN]))
    return 1 if wrong else 0


def _counted(found: list[Checked]) -> Counter[str]:
    return Counter(
        cases=1,
        certificates=len(found),
        wrong=sum(bool(each.errors) for each in found),
        proven=sum(each.proven for each in found),
        optimal=sum(each.optimal for each in found),
        placements=sum(each.compared for each in found),
    )


def _show(count: dict[str, Counter[str]]) -> None:
    columns = ("cases", "certificates", "wrong", "proven", "optimal", "placements")
    print(f"{'':<16}" + " ".join(f"{column:>12}" for column in columns))
    total: Counter[str] = Counter()
    for make, row in count.items():
        total += row
        print(f"{make:<16}" + " ".join(f"{row[column]:>12}" for column in columns))
    print(f"{'all':<16}" + " ".join(f"{total[column]:>12}" for column in columns))


if __name__ == "__main__":
    sys.exit(main())
