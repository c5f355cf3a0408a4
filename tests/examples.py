"""How many examples hypothesis tries: few in `make check`, some in `make test`, 2,000 in `make properties`.

PHALANX_EXAMPLES sets the number."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import settings

Test = TypeVar("Test", bound=Callable[..., Any])

EXAMPLES = int(os.environ.get("PHALANX_EXAMPLES", "0"))


def examples(quick: int) -> int:
    """Return the number of examples: PHALANX_EXAMPLES if it is set, else this number."""
    return EXAMPLES or quick


def holds(quick: int, **more: Any) -> Callable[[Test], Test]:
    """Mark a property and set its number of examples; `more` are other settings of hypothesis."""

    def marked(test: Test) -> Test:
        found: Test = settings(max_examples=examples(quick), deadline=None, **more)(test)
        return pytest.mark.properties(found)

    return marked
