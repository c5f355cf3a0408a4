"""docs/doctor.md lists every check and every severity."""

import re
from pathlib import Path

from phalanx.cli.doctor import limits
from phalanx.cli.doctor.examination import CHECKS
from phalanx.cli.doctor.finding import Severity

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "doctor.md").read_text()


def first_cells(header: str) -> list[str]:
    table = re.findall(rf"^\| {header} \|.*\n\| ---.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)[0]
    return [line.split("|")[1].strip(" `") for line in table.splitlines()]


def test_the_page_lists_the_checks_in_their_order() -> None:
    assert first_cells("check") == [check.name for check in CHECKS]
    assert f"{len(CHECKS)} checks: " in PAGE


def test_the_page_lists_the_severities() -> None:
    assert first_cells("severity") == [severity.value for severity in Severity]


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    assert f"more than {limits.CLOCK_SKEW_S} s" in PAGE
    assert (limits.VERDICT_S, limits.TERMINATING_S) == (60, 5 * 60)
