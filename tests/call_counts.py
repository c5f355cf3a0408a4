"""Measures work as a number of function calls, which is the same on every machine."""

import sys
from collections.abc import Callable
from typing import Any


def counted(work: Callable[[], Any]) -> int:
    """Count the calls that `work` makes; resuming a generator counts as one."""
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
