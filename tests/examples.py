"""How many examples hypothesis tries: few in `make check`, some in `make test`, 2,000 in `make properties`.

PHALANX_EXAMPLES sets the number. Each run tries other examples, but those of CI are always the same."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import settings

Test = TypeVar("Test", bound=Callable[..., Any])

EXAMPLES = int(os.environ.get("PHALANX_EXAMPLES", "0"))

ONE_OF = 3
"""`make test` tries one of so many of a property's examples: all of them took a quarter of its CPU time."""

FEWEST = 5
"""Examples of a property that `make test` tries at least, if it has as many."""


def examples(quick: int) -> int:
    """Return the number of seeds that a test plays: PHALANX_EXAMPLES if it is set, else this number."""
    return EXAMPLES or quick


def holds(count: int, **more: Any) -> Callable[[Test], Test]:
    """Mark a property that tries `count` examples in a second or two, and set how many it tries now.

    `more` are other settings of hypothesis.
    """
    tried = EXAMPLES or max(count // ONE_OF, min(count, FEWEST))

    def marked(test: Test) -> Test:
        found: Test = settings(max_examples=tried, deadline=None, **more)(test)
        return pytest.mark.properties(found)

    return marked
