"""Every verdict and eviction of these tests is looked at."""

import pytest

from tests.hidden_names import names_are_marked as names_are_marked


@pytest.fixture(autouse=True)
def _names_are_marked(names_are_marked: None) -> None:
    """Names in texts are marked."""
