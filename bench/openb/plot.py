"""Allocation and fragmentation against arrived demand, one row of charts per list. Needs matplotlib.

python -m bench.openb.plot bench/results/openb.json bench/results/openb.png
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import msgspec

from bench.openb.measure import CURVE_STEP, Figures

mpl.use("Agg")

from matplotlib import pyplot as plt


class Curves(msgspec.Struct, frozen=True):
    """The part of the results that is plotted."""

    lists: dict[str, tuple[Figures, ...]]


def draw(lists: Mapping[str, Sequence[Figures]], to: Path) -> None:
    """Write a PNG."""
    chart, axes = plt.subplots(len(lists), 2, figsize=(11, 3 * len(lists)), squeeze=False)
    for (name, rows), (left, right) in zip(lists.items(), axes, strict=True):
        for row in rows:
            arrived = [CURVE_STEP * (index + 1) for index in range(len(row.allocated_curve))]
            left.plot(arrived, row.allocated_curve, label=row.policy)
            right.plot(arrived, row.fragmented_curve, label=row.policy)
        left.set_xlim(left=60)
        left.set_ylim(bottom=60)
        right.set_xlim(left=60)
        left.set_ylabel(f"{name}\n% of GPUs")
        left.set_title("allocated")
        right.set_title("idle and unusable for the typical pod")
        left.legend()
    for axis in axes[-1]:
        axis.set_xlabel("demand arrived, % of GPUs")
    chart.tight_layout()
    chart.savefig(to, dpi=110)


if __name__ == "__main__":
    draw(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Curves).lists, Path(sys.argv[2]))
