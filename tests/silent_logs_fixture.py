"""Silence for tests that run a scheduler in this process for simulated hours."""

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture
def quiet() -> Iterator[None]:
    """Nothing is logged, and nobody remembers that afterwards: other tests look at what is logged."""
    before = structlog.get_config()
    silent = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=silent, cache_logger_on_first_use=False)
    yield
    structlog.configure(**before)
