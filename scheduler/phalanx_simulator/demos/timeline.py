"""The slots of act 1 over time: which pod held which slot when, drawn as a chart of letters."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from rich.table import Table
from rich.text import Text

from phalanx_simulator.demos.cluster import DemoFailed


class Held(Struct, frozen=True):
    """A slot in use by a job; `trains` if all pods of the job run."""

    job: str
    trains: bool


class PodOnNode(Struct, frozen=True):
    """A pod that occupies its node."""

    name: str
    node: str
    job: str


Slots = tuple[Held | None, ...]
"""What each slot holds, in the order of the nodes; None is a free slot."""


class SlotHistory:
    """Assigns each pod a slot of its node while it stays, and records all slots by time.

    Raises DemoFailed when a node holds more pods than it has slots.
    """

    def __init__(self, *, nodes: Sequence[str], per_node: int) -> None:
        self.nodes: Final = tuple(nodes)
        self.per_node: Final = per_node
        self._slot_of: dict[str, int] = {}
        self._seen: list[tuple[float, Slots]] = [(0.0, (None,) * (len(nodes) * per_node))]

    @property
    def now(self) -> Slots:
        """The last recorded slots."""
        return self._seen[-1][1]

    def at(self, seconds: float) -> Slots:
        """The slots as they were then."""
        return next(slots for when, slots in reversed(self._seen) if when <= max(0.0, seconds))

    def note(self, seconds: float, pods: Sequence[PodOnNode], *, training: Mapping[str, object]) -> None:
        """Record the pods on nodes at this time, and the jobs that train."""
        present = {pod.name for pod in pods}
        self._slot_of = {name: slot for name, slot in self._slot_of.items() if name in present}
        held: list[Held | None] = [None] * len(self.now)
        for pod in pods:
            held[self._slot(pod)] = Held(job=pod.job, trains=pod.job in training)
        if tuple(held) != self.now:
            self._seen.append((seconds, tuple(held)))

    def _slot(self, pod: PodOnNode) -> int:
        if pod.name not in self._slot_of:
            first = self.nodes.index(pod.node) * self.per_node
            taken = set(self._slot_of.values())
            free = [slot for slot in range(first, first + self.per_node) if slot not in taken]
            if not free:
                raise DemoFailed(f"{pod.node} holds more than {self.per_node} pods")
            self._slot_of[pod.name] = free[0]
        return self._slot_of[pod.name]


_STYLES: Final = ("cyan", "green", "yellow", "magenta", "bright_blue")
_BUCKETS: Final = (0.15, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0)
_TICKS: Final = (1, 2, 5, 10, 20)
_TICK_COLUMNS_MIN: Final = 5
FREE: Final = "·"


class Scale(Struct, frozen=True):
    """How time becomes columns: seconds per column, and how many columns there are."""

    seconds: float
    columns: int


class Panel(Struct, frozen=True):
    """One scheduler's half of the screen.

    `jobs` describes the progress of each job.
    """

    title: str
    history: SlotHistory
    jobs: Mapping[str, str]
    outcome: str
    succeeded: bool


def scale_for(end: float, *, columns: int) -> Scale:
    """The finest scale on which `end` seconds fit."""
    seconds = next((step for step in _BUCKETS if end <= step * columns), _BUCKETS[-1])
    return Scale(seconds=seconds, columns=columns)


def side_by_side(left: Panel, right: Panel, *, end: float, width: int) -> Table:
    """Both charts on one time scale, up to `end` seconds."""
    half = (width - 2) // 2
    label = max(len(node) for node in (*left.history.nodes, *right.history.nodes)) + 1
    scale = scale_for(end, columns=half - label)
    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    for _ in range(2):
        grid.add_column(width=half, no_wrap=True, overflow="ellipsis")
    for rows in zip(
        _lines(left, end=end, scale=scale, label=label),
        _lines(right, end=end, scale=scale, label=label),
        strict=True,
    ):
        grid.add_row(*rows)
    return grid


def letters(history: SlotHistory, *, end: float, scale: Scale) -> list[str]:
    """A row of letters for each slot: upper case trains, lower case only holds the slot."""
    return ["".join(_letter(held) for held in row) for row in _rows(history, end=end, scale=scale)]


def axis(scale: Scale) -> str:
    """The seconds below the chart."""
    per_second = 1 / scale.seconds
    tick = next((step for step in _TICKS if step * per_second >= _TICK_COLUMNS_MIN), _TICKS[-1])
    line = ""
    for second in range(0, int(scale.columns * scale.seconds) + 1, tick):
        longer = f"{line:<{round(second * per_second)}}{second} s"
        line = longer if len(longer) <= scale.columns else line
    return line


def legend() -> Text:
    """The legend of the chart."""
    return Text.assemble(
        ("A", _style(Held(job="a", trains=True))),
        " a slot in which job A trains   ",
        ("a", _style(Held(job="a", trains=False))),
        " held by a pod of job A that waits for the rest of A   ",
        (FREE, "dim"),
        " free",
    )


def _lines(panel: Panel, *, end: float, scale: Scale, label: int) -> Iterator[Text]:
    yield Text(panel.title, style="bold")
    for slot, row in enumerate(_rows(panel.history, end=end, scale=scale)):
        node, first = divmod(slot, panel.history.per_node)
        name = "" if first else panel.history.nodes[node]
        yield Text.assemble(f"{name:<{label}}", *((_letter(held), _style(held)) for held in row))
    yield Text(" " * label + axis(scale), style="dim")
    yield Text(panel.outcome, style="bold green" if panel.succeeded else "bold red")
    for job, words in panel.jobs.items():
        yield Text(f"{'job ' + job.upper():<{label}}{words}")


def _rows(history: SlotHistory, *, end: float, scale: Scale) -> list[list[Held | None]]:
    """The state of each slot in the middle of each column's time."""
    times = [(column + 0.5) * scale.seconds for column in range(scale.columns)]
    seen = [history.at(time) for time in times if time <= end]
    return [[slots[slot] for slots in seen] for slot in range(len(history.now))]


def _letter(held: Held | None) -> str:
    if held is None:
        return FREE
    return held.job.upper() if held.trains else held.job.lower()


def _style(held: Held | None) -> str:
    if held is None:
        return "dim"
    colour = _STYLES[ord(held.job[0].lower()) % len(_STYLES)]
    return f"bold black on {colour}" if held.trains else colour
