"""Random histories by seed: how many contradict docs/guarantees.md, by property.

python -m tests.actions.guarantees_campaign --first 0 --cases 10000 [--show 3] [--only right]
"""

import argparse
from collections import Counter

from tests.actions.guarantees_cases import chooser_of_seed, make_case
from tests.actions.guarantees_history import History, findings


def main() -> None:
    """Run the campaign and print the counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--show", type=int, default=2, help="examples to print for each property")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for seed in range(options.first, options.first + options.cases):
        case = make_case(chooser_of_seed(seed))
        history = History(case).play()
        found = list(findings(history))
        if found:
            counts["cases with a finding"] += 1
        if seed % 500 == 499:
            print(f"... up to seed {seed}: {dict(sorted(counts.items()))}", flush=True)
        for name in sorted({each.property for each in found}):
            counts[name] += 1
            if counts[name] <= options.show and (not options.only or name == options.only):
                print(f"--- seed {seed}: {name}", *case.lines, *history.log, sep="\n  ")
                print(*(each.text for each in found if each.property == name), sep="\n  => ", flush=True)
    print(f"{options.cases} cases from seed {options.first}:", dict(sorted(counts.items())))


if __name__ == "__main__":
    main()
