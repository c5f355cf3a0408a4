"""The chart of act 1, line by line."""

import io

import pytest
from phalanx_simulator.demos.timeline import (
    Panel,
    PodOnNode,
    Scale,
    SlotHistory,
    axis,
    legend,
    letters,
    scale_for,
    side_by_side,
)
from rich.console import Console

SECOND = Scale(seconds=1.0, columns=10)


def history() -> SlotHistory:
    """One node of two slots: job a holds the first from 1 s and trains from 3 s to 5 s."""
    slots = SlotHistory(nodes=("node-1",), per_node=2)
    pod = PodOnNode(name="a-0", node="node-1", job="a")
    slots.note(1.0, [pod], training={})
    slots.note(3.0, [pod], training={"a": True})
    slots.note(5.0, [], training={})
    return slots


def test_letters_show_free_held_and_training_slots() -> None:
    assert letters(history(), end=7.0, scale=SECOND) == ["·aaAA··", "·······"]


def test_the_chart_ends_with_the_run() -> None:
    assert letters(history(), end=3.6, scale=SECOND)[0] == "·aaA"


@pytest.mark.parametrize(
    ("end", "columns", "seconds"),
    [(0.0, 40, 0.15), (6.0, 40, 0.15), (6.1, 40, 0.2), (8.1, 40, 0.25), (20.0, 40, 0.5), (900.0, 40, 5.0)],
)
def test_the_finest_scale_that_fits_is_chosen(end: float, columns: int, seconds: float) -> None:
    assert scale_for(end, columns=columns) == Scale(seconds=seconds, columns=columns)


@pytest.mark.parametrize(
    ("scale", "line"),
    [
        (Scale(seconds=0.2, columns=12), "0 s  1 s"),
        (Scale(seconds=0.2, columns=13), "0 s  1 s  2 s"),
        (Scale(seconds=0.5, columns=9), "0 s"),
        (Scale(seconds=1.0, columns=14), "0 s  5 s  10 s"),
    ],
)
def test_the_axis_has_only_whole_marks(scale: Scale, line: str) -> None:
    assert axis(scale) == line


def test_both_halves_are_side_by_side() -> None:
    left = Panel(title="left", history=history(), jobs={"a": "waits"}, outcome="stuck", succeeded=False)
    right = Panel(title="right", history=history(), jobs={"a": "done"}, outcome="well", succeeded=True)
    assert drawn(side_by_side(left, right, end=1.5, width=40), width=40) == [
        "left                 right",
        "node-1 ·······aaa    node-1 ·······aaa",
        "       ··········           ··········",
        "       0 s    1 s           0 s    1 s",
        "stuck                well",
        "job A  waits         job A  done",
    ]


def test_the_legend_fits_a_line() -> None:
    assert len(drawn(legend(), width=100)) == 1


def drawn(picture: object, *, width: int) -> list[str]:
    """As on a plain console."""
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(picture)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]
