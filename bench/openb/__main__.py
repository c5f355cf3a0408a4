"""Online placement of single pods with GPU shares on OpenB: LookAhead, FGD, BestFit and Random.

    python -m bench.openb --traces PATH [--lists default,cpu100] [--seeds 42..51] [--policies FGD,LookAhead]

PATH is the folder with OpenB's node list and pod lists. Prints one table per list; `--output` writes the
figures and curves as JSON, and `--plot` draws them (needs matplotlib from the extra `bench`).
"""

import argparse
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.openb.measure import POLICIES, Figures, figures, run_once
from bench.openb.published import ALLOCATED_AT_130, SOURCE
from bench.openb.traces import TUNED_PERCENT, machines_of, pods_of

AT = (90, 100, TUNED_PERCENT)
LISTS = ("default", "cpu100", "gpushare100", "gpuspec33", "multigpu50")
"""The default list, and one of each family of altered lists."""


class Report(Struct, frozen=True):
    """The JSON of `--output`: figures by list, and the published ones with their source."""

    seeds: tuple[int, ...]
    lists: dict[str, tuple[Figures, ...]]
    published: dict[str, dict[str, float]]
    source: str


def seeds_of(text: str) -> tuple[int, ...]:
    """`42..51`, `7` or `1,2,3`."""
    first, dots, last = text.partition("..")
    return tuple(range(int(first), int(last) + 1)) if dots else tuple(map(int, text.split(",")))


def table(name: str, rows: tuple[Figures, ...]) -> str:
    """One list as Markdown: mean and deviation in percent of all devices."""
    heads = [f"{what} @{at}" for what in ("allocated", "fragmented") for at in AT]
    columns = ["policy", *heads, "first dropped @", "published @130"]
    lines = [f"\n{name}\n", f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for row in rows:
        cells = [
            f"{spread.mean:.2f} ({spread.sd:.2f})"
            for by_percent in (row.allocated, row.fragmented)
            for spread in by_percent.values()
        ]
        published = ALLOCATED_AT_130.get(name, {}).get(row.policy)
        ends = [f"{row.first_dropped.mean:.1f}", "-" if published is None else f"{published:.2f}"]
        lines.append(f"| {' | '.join((row.policy, *cells, *ends))} |")
    return "\n".join(lines)


def measured(folder: Path, name: str, policies: list[str], seeds: tuple[int, ...]) -> tuple[Figures, ...]:
    """Every policy on one list."""
    machines, pods = machines_of(folder), pods_of(folder, name)
    return tuple(
        figures(policy, [run_once(machines, pods, policy, seed) for seed in seeds], AT) for policy in policies
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--lists", default=",".join(LISTS))
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("42..51"))
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--output", type=Path)
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()
    found = {}
    for name in args.lists.split(","):
        found[name] = measured(args.traces, name, args.policies.split(","), args.seeds)
        print(table(name, found[name]), flush=True)
    published = {name: ALLOCATED_AT_130[name] for name in found if name in ALLOCATED_AT_130}
    report = Report(args.seeds, found, published, SOURCE)
    if args.output:
        args.output.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    if args.plot:
        # Only the plot needs matplotlib.
        from bench.openb.plot import draw

        draw(report.lists, args.plot)


if __name__ == "__main__":
    main()
