"""Random histories by seed: how many contradict docs/guarantees.md, by property.

python -m tests.actions.guarantees_campaign --first 0 --cases 10000 [--show 3] [--only right]
"""

import argparse
from collections import Counter

from tests.actions.guarantees_cases import chooser_of_seed, make_case
from tests.actions.guarantees_history import History, findings

EVERY = 100
"""Cases between two lines of progress."""


def main() -> None:
    """Run the campaign and print the counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--show", type=int, default=2, help="examples to print for each property")
    parser.add_argument("--only", default="", help="print the examples of this property only")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    seeds: list[int] = []
    evictions = 0
    for seed in range(options.first, options.first + options.cases):
        case = make_case(chooser_of_seed(seed))
        history = History(case).play()
        found = list(findings(history))
        evictions += sum(len(pods) for cycle in history.cycles for pods in cycle.evicted.values())
        if found:
            seeds.append(seed)
        for name in sorted({each.property for each in found}):
            counts[name] += 1
            if counts[name] <= options.show and options.only in ("", name):
                print(f"--- seed {seed}: {name}", *case.lines, *history.log, sep="\n  ")
                print(*(each.text for each in found if each.property == name), sep="\n  => ", flush=True)
        if (seed - options.first) % EVERY == EVERY - 1:
            print(f"... up to seed {seed}: {_text(counts)}", flush=True)
    print(f"seeds with findings: {seeds}")
    print(f"{options.cases} cases from seed {options.first}, {evictions} evicted pods: {_text(counts)}")


def _text(counts: Counter[str]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in sorted(counts.items())) or "no findings"


if __name__ == "__main__":
    main()
