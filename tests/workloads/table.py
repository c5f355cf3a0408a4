"""The table of all workloads and events that a whole run of `make workloads` writes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.workloads.catalog import WORKLOADS
from tests.workloads.events import EVENTS

TABLE: Final = Path(__file__).parent / "MATRIX.md"

_WORDS: Final = {"passed": "yes", "failed": "**no**", "skipped": "-"}
_HEAD: Final = """# What `make workloads` has seen

Each row is a file of [deploy/examples/workloads](../../deploy/examples/workloads) with its real controller.
`yes`: the test has passed, and nothing was left in the namespace. `-`: the event does not apply, or it cannot
be tested yet ([catalog.py](catalog.py) says why). `no`: it has failed. A whole run writes this file;
`ARGS=--last-failed` runs again what has failed, and replaces these cells.

"""


def cell(workload: str, event: str) -> str:
    """The name of one test."""
    return f"{workload}-{event}"


def expected_cells() -> set[str]:
    """All of them."""
    return {cell(workload.name, event.__name__) for workload in WORKLOADS for event in EVENTS}


def read_table() -> dict[str, str]:
    """The outcomes in the table."""
    outcomes = {word: outcome for outcome, word in _WORDS.items()}
    lines = [line.strip("| \n").split(" | ") for line in TABLE.read_text().splitlines() if line[:1] == "|"]
    names = [name.replace(" ", "_") for name in lines[0][1:]]
    return {
        cell(workload, name): outcomes[word]
        for workload, *words in lines[2:]
        for name, word in zip(names, words, strict=True)
    }


def write_table(outcomes: Mapping[str, str]) -> None:
    """Write the outcomes of all cells."""
    names = [event.__name__ for event in EVENTS]
    rows = [
        ["workload", *(name.replace("_", " ") for name in names)],
        ["---"] * (len(names) + 1),
        *[
            [workload.name, *(_WORDS[outcomes[cell(workload.name, name)]] for name in names)]
            for workload in WORKLOADS
        ],
    ]
    TABLE.write_text(_HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows))
