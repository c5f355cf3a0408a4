"""The README is short, its links lead somewhere, and its figures and output are the real ones."""

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

from tests.site.console import Command, steps

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text()
CHARACTERS_MAX = 8_000

CONTENDERS = {
    "Phalanx": "phalanx",
    "kube-scheduler, no gangs": "kube-scheduler (no gangs)",
    "Volcano 1.14.1": "volcano",
    "coscheduling 0.34.7": "coscheduling",
    "kube-scheduler 1.37.1, gangs (beta)": "kube-scheduler (gangs)",
}
"""Rows of the table, and their names in the results."""

WITH_RACKS = {
    "volcano": "volcano (topology, reclaim)",
    "kube-scheduler (gangs)": "kube-scheduler (gangs, topology)",
}
"""The same schedulers where gangs require a rack."""


def test_the_readme_is_one_short_page_that_begins_with_a_picture() -> None:
    assert len(TEXT) <= CHARACTERS_MAX
    assert re.search(r"^!\[.+\]\(docs/pictures/demo-1.svg\)$", TEXT[:1_000], re.MULTILINE)


def test_every_link_leads_to_a_file() -> None:
    linked = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert len(linked) > 20
    assert [link for link in linked if not (ROOT / link).is_file()] == []


def runs(result: str, workload: str, contender: str) -> list[dict[str, Any]]:
    """The finished runs of a scheduler, in the committed results."""
    found = json.loads((ROOT / "bench" / "results" / f"{result}.json").read_text())["runs"]
    return [
        run
        for run in found
        if (run["workload"], run["contender"]) == (workload, contender) and not run["trouble"]
    ]


def median(found: list[dict[str, Any]], *path: str) -> str:
    values = []
    for run in found:
        value: Any = run
        for key in path:
            value = value[key]
        values.append(value)
    return f"{statistics.median(values):.{0 if 'peakMib' in path else 1}f}"


@pytest.mark.parametrize(("row", "contender"), CONTENDERS.items())
def test_the_figures_are_those_of_the_committed_results(row: str, contender: str) -> None:
    backlog = runs("side_by_side", "100x100", contender)
    racks = runs("levels", "100x100-rack", WITH_RACKS.get(contender, contender))
    [deadlock] = runs("gangs", "deadlock", contender)
    torn = {run["figures"]["tornGangs"] for run in racks}
    assert torn <= {0, 100}
    in_racks = median(racks, "figures", "lastBindS") if racks else "no racks"
    expected = [
        row,
        median(backlog, "figures", "lastBindS"),
        median(backlog, "used", "scheduler", "cpuS"),
        median(backlog, "used", "scheduler", "peakMib"),
        in_racks + (", all gangs across racks" if torn == {100} else ""),
        f"{deadlock['figures']['podsInPartialGangs']} of 9",
    ]
    assert f"| {' | '.join(expected)} |" in TEXT.splitlines()


def test_the_commands_print_what_a_tutorial_that_is_played_shows() -> None:
    commands = {step.line: step.output for step in steps(TEXT) if isinstance(step, Command)}
    page = (ROOT / "docs" / "tutorials" / "start.md").read_text()
    played = {step.line: step.output for step in steps(page) if isinstance(step, Command)}
    shown = {line: output for line, output in commands.items() if output}
    assert {line.split()[1] for line in shown} == {"jobs", "why"}
    assert shown.items() <= played.items()
