"""What tests measured, shown at the end of a run: whatever they gave to `record_property`."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line per figure."""
    passed: list[pytest.TestReport] = terminalreporter.stats.get("passed", [])
    figures = [(report.nodeid, name, value) for report in passed for name, value in report.user_properties]
    if figures:
        terminalreporter.section("measured")
    for test, name, value in figures:
        terminalreporter.write_line(f"{test.rpartition('::')[2]}: {name}: {value}")
