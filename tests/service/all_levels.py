"""Logs of every level, for tests that read what one module logs."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest
import structlog


@contextmanager
def all_levels_of(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Log every level, whatever earlier tests have configured, by a logger that none of them has bound."""
    before = structlog.get_config()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(0), cache_logger_on_first_use=False
    )
    monkeypatch.setattr(module, "_log", structlog.get_logger())
    yield
    structlog.configure(**before)
