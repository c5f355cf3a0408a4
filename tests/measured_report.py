"""What tests measured, shown at the end of a run: whatever they gave to `record_property`."""

from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line per figure; counts of the tests of one function are added up."""
    passed: list[pytest.TestReport] = terminalreporter.stats.get("passed", [])
    lines: list[str] = []
    sums: dict[str, Counter[str]] = {}
    for report in passed:
        test = report.nodeid.rpartition("::")[2]
        for name, value in report.user_properties:
            if isinstance(value, dict):
                sums.setdefault(f"{test.partition('[')[0]}: {name}", Counter()).update(value)
            else:
                lines.append(f"{test}: {name}: {value}")
    lines += [f"{figure}: {_told(counts)}" for figure, counts in sums.items()]
    if lines:
        terminalreporter.section("measured")
    for line in lines:
        terminalreporter.write_line(line)


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {counts[name]:g}" for name in sorted(counts))
