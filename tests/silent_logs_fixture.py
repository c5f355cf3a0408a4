"""Disables logs for tests that run a scheduler in this process for simulated hours."""

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture
def quiet() -> Iterator[None]:
    """Log nothing during a test, and restore the configuration for tests that read logs."""
    before = structlog.get_config()
    silent = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=silent, cache_logger_on_first_use=False)
    yield
    structlog.configure(**before)
