"""How many examples a property is tried with: some in `make test`, thousands in `make properties`."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import settings

Test = TypeVar("Test", bound=Callable[..., Any])

AT_LENGTH = int(os.environ.get("PHALANX_EXAMPLES", "0"))


def examples(quick: int) -> int:
    """So many, or what PHALANX_EXAMPLES says if that is more."""
    return max(quick, AT_LENGTH)


def holds(quick: int, **more: Any) -> Callable[[Test], Test]:
    """Marks a property that `make properties` tries at length; `more` as those of hypothesis' settings."""

    def marked(test: Test) -> Test:
        found: Test = settings(max_examples=examples(quick), deadline=None, **more)(test)
        return pytest.mark.properties(found)

    return marked
