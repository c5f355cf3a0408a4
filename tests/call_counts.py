"""How much work something is, counted in calls of functions: the same on every machine."""

import sys
from collections.abc import Callable
from typing import Any


def counted(work: Callable[[], Any]) -> int:
    """Calls until it is done; going on with a generator is one too."""
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls
