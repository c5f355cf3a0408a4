"""`python -m bench.oracle_tables`: replays all table tests of kube-scheduler's plugins through Phalanx.

    python -m bench.oracle_tables [--output PATH]

The tests are recorded once, from the source of the published module (`tests/oracle/tables`). The results say
how many rows became scenarios, how many agree, and why the others do not. The exit code is 1 if a row differs
and it is not known why.
"""

import argparse
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from bench.record import record
from tests.oracle.plugins import PROGRAM, running
from tests.oracle.tables.known import why_known
from tests.oracle.tables.recording import recorded
from tests.oracle.tables.replay import AGREEING, Outcome, Replay, replay
from tests.oracle.tables.rows import rows

RESULTS: Final = Path(__file__).parent / "results" / "oracle_tables"
_EXAMPLES: Final = 3
_EVERY: Final = 100


class Group(Struct, frozen=True):
    """Rows of one plugin with the same outcome."""

    plugin: str
    outcome: str
    rows: int
    examples: tuple[str, ...]


class Report(Struct, frozen=True):
    """The results of all rows."""

    source: str
    rows: int
    replayed: int
    agree: int
    differ: int
    groups: tuple[Group, ...]
    differing: dict[str, str]
    """By test: what differs, or why it is known to."""


def report(found: list[Replay]) -> Report:
    """Group the rows."""
    groups: defaultdict[tuple[str, str], list[Replay]] = defaultdict(list)
    for each in found:
        groups[each.plugin, each.outcome].append(each)
    agree = sum(each.outcome in AGREEING for each in found)
    differing = [each for each in found if each.outcome is Outcome.DIFFERS]
    return Report(
        source=f"k8s.io/kubernetes {PROGRAM.version}",
        rows=len(found),
        replayed=agree + len(differing),
        agree=agree,
        differ=len(differing),
        groups=tuple(
            Group(plugin, outcome, len(each), tuple(one.test for one in each[:_EXAMPLES]))
            for (plugin, outcome), each in sorted(groups.items())
        ),
        differing={each.test: why_known(each.test) or each.detail for each in differing},
    )


def markdown(made: Report) -> str:
    """A table with a row for each plugin, and why rows were not compared."""
    lines = [
        f"Table tests of the plugins of {made.source}: {made.rows} rows. {made.replayed} became scenarios",
        f"that mean the same; {made.agree} agree, {made.differ} differ.",
        "",
        "| plugin | rows | agree | differ | not replayed |",
        "| --- | --- | --- | --- | --- |",
    ]
    for plugin in sorted({each.plugin for each in made.groups}):
        mine = [each for each in made.groups if each.plugin == plugin]
        agree = sum(each.rows for each in mine if each.outcome in AGREEING)
        differ = sum(each.rows for each in mine if each.outcome == Outcome.DIFFERS)
        total = sum(each.rows for each in mine)
        lines.append(f"| {plugin} | {total} | {agree} | {differ} | {total - agree - differ} |")
    lines += ["", "| outcome | rows | plugins |", "| --- | --- | --- |"]
    for outcome in Outcome:
        mine = [each for each in made.groups if each.outcome == outcome]
        if mine:
            plugins = ", ".join(f"{each.plugin} {each.rows}" for each in mine)
            lines.append(f"| {outcome.value} | {sum(each.rows for each in mine)} | {plugins} |")
    why = Counter(made.differing.values())
    lines += ["", *(f"- {count} rows differ: {text}" for text, count in why.most_common())]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Replay all rows and write the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.oracle_tables", description=__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS, help="path without extension")
    options = parser.parse_args(arguments)
    known = rows(recorded(_progress))
    found = []
    with running() as plugins:
        for row in known:
            found.append(replay(plugins, row))
            if len(found) % _EVERY == 0:
                _progress(f"{len(found)} of {len(known)} rows")
    made = report(found)
    record(options.output.with_suffix(".json"), msgspec.to_builtins(made))
    options.output.with_suffix(".md").write_text(markdown(made))
    print(markdown(made))
    return int(any(each.outcome is Outcome.DIFFERS and not why_known(each.test) for each in found))


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
