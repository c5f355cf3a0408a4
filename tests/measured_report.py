"""Prints at the end of a run what tests measured and passed to `record_property`, except lists."""

from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line for each figure; add up the counts of the tests of one function."""
    passed: list[pytest.TestReport] = terminalreporter.stats.get("passed", [])
    lines: list[str] = []
    sums: dict[str, Counter[str]] = {}
    for report in passed:
        test = report.nodeid.rpartition("::")[2]
        for name, value in report.user_properties:
            if isinstance(value, dict):
                sums.setdefault(f"{test.partition('[')[0]}: {name}", Counter()).update(value)
            elif not isinstance(value, list):
                lines.append(f"{test}: {name}: {value}")
    lines += [f"{figure}: {_formatted(counts)}" for figure, counts in sums.items()]
    if lines:
        terminalreporter.section("measured")
    for line in lines:
        terminalreporter.write_line(line)


def _formatted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {counts[name]:g}" for name in sorted(counts))
