"""Fixtures for every test, and additions to the reports of tests."""

from hypothesis import HealthCheck, settings

from tests.controlplane_fixture import (
    control_plane,
    pytest_collection_modifyitems,
    pytest_runtest_makereport,
    pytest_runtest_teardown,
)
from tests.embedded_fixture import embedded_api
from tests.garbage_collection import pytest_collection_finish
from tests.measured_report import pytest_terminal_summary
from tests.silent_logs_fixture import quiet
from tests.sim_runs.seeds_report import pytest_sessionfinish

__all__ = [
    "control_plane",
    "embedded_api",
    "pytest_collection_finish",
    "pytest_collection_modifyitems",
    "pytest_runtest_makereport",
    "pytest_runtest_teardown",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "quiet",
]

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
"""Property tests must not fail on a slow or busy machine."""
