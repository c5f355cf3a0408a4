"""Fails a run of all selected seeds that misses a coverage point.

Seeds run in several processes, so that no single test sees all points; the reports of all come together here.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from tests.sim_runs.seeds import Selection

REACHED: Final = "seed and coverage points"
"""The property that test_seeds.py records for each seed: a list of the seed and the points."""


def unreached(reports: Iterable[pytest.TestReport], wanted: "Selection") -> list[str] | None:
    """Return the points that no seed reached, or None unless all selected seeds ran and passed."""
    runs = [value for report in reports for name, value in report.user_properties if name == REACHED]
    if not {seed for seed, *_ in runs} >= set(wanted.seeds):
        return None
    return sorted(wanted.points.keys() - {point for _, *points in runs for point in points})


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Set the exit code, and say what is missing and how to select other seeds."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return
    passed = reporter.stats.get("passed", ())
    if not any(name == REACHED for report in passed for name, _ in report.user_properties):
        return
    from tests.sim_runs.seeds import selection  # the simulator is not imported for every run of tests

    wanted = selection()
    missing = unreached(passed, wanted)
    if missing is None:
        return
    reporter.section("coverage points of simulated runs")
    reached = len(wanted.points) - len(missing)
    reporter.write_line(f"{reached} of {len(wanted.points)} reached by {len(wanted.seeds)} seeds")
    if missing:
        reporter.write_line(f"not reached: {', '.join(missing)}; run: python -m tests.sim_runs.select_seeds")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
