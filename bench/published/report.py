"""The results as a page: for each topic what was published, and a table of what was measured."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from bench.published.catalog import Topic

Figure = float | int | str

COLUMNS: Final = (
    ("simulated", "Phalanx", "Phalanx, simulated"),
    ("simulated", "kube-scheduler", "model of kube-scheduler, simulated"),
    ("real", "Phalanx", "Phalanx, real"),
    ("real", "kube-scheduler", "kube-scheduler, real"),
)

_ABOUT: Final = (
    "Written by `python -m bench.published`. The cases and their sources are in "
    "`bench/published/catalog.py`. Simulated: the simulator in virtual time. The other columns: etcd, "
    "kube-apiserver, kube-controller-manager, KWOK and the scheduler as processes, where a minute of a case "
    "takes 3 s; workflow files are played in real time. Seconds are as measured on each."
)


class Row(Struct, frozen=True, rename="camel", kw_only=True):
    """One case on one cluster. `place`: simulated or real. `trouble`: why it could not be played.

    `busy_before`: the share of the cores that other processes used just before, for a real cluster.
    `made_with`: the day, the machine and the versions.
    """

    topic: str
    case: str
    place: str
    scheduler: str
    figures: dict[str, Figure] = {}
    wrong: tuple[str, ...] = ()
    trouble: str = ""
    busy_before: float = 0.0
    made_with: str = ""


def markdown(topics: Iterable[Topic], rows: Sequence[Row]) -> str:
    """The whole page."""
    parts = ["# Published cases, played again", _ABOUT]
    for topic in topics:
        found = [row for row in rows if row.topic == topic.name]
        if found:
            parts += _section(topic, found)
    return "\n\n".join(parts) + "\n"


def _section(topic: Topic, rows: Sequence[Row]) -> list[str]:
    return [
        f"## {topic.title}",
        f"**Published:** {topic.published} Source: {topic.source}.".replace("..", "."),
        f"**Played:** {topic.remarks}",
        f"**Measured:** {_measured(rows)}",
        _table(topic, rows),
        *(
            f"Not played: {row.case}, {row.scheduler}, {row.place}: {row.trouble}"
            for row in rows
            if row.trouble
        ),
    ]


def _measured(rows: Sequence[Row]) -> str:
    """When and on what, and how busy the machine was."""
    said = "; ".join(dict.fromkeys(row.made_with for row in rows))
    busy = [row.busy_before for row in rows if row.place == "real"]
    if not busy:
        return said
    shares = " to ".join(dict.fromkeys(f"{100 * share:.0f}" for share in (min(busy), max(busy))))
    return f"{said}. Before the real runs other processes used {shares} % of the cores."


def _table(topic: Topic, rows: Sequence[Row]) -> str:
    by_cell = {(row.case, row.place, row.scheduler): row for row in rows}
    lines = [
        "| case | figure | " + " | ".join(title for _, _, title in COLUMNS) + " |",
        "| --- | --- | " + " | ".join("---" for _ in COLUMNS) + " |",
    ]
    for case in topic.cases:
        cells = [by_cell.get((case.title, place, who)) for place, who, _ in COLUMNS]
        names = dict.fromkeys(name for row in cells if row is not None for name in row.figures)
        shown = case.title
        for name in names:
            values = ["–" if row is None else str(row.figures.get(name, "–")) for row in cells]
            lines.append(f"| {shown} | {name} | " + " | ".join(values) + " |")
            shown = ""
        if any(row is not None and row.wrong for row in cells):
            reasons = ["–" if row is None else "; ".join(row.wrong) or "nothing" for row in cells]
            lines.append(f"| {shown} | what went wrong | " + " | ".join(reasons) + " |")
    return "\n".join(lines)
