"""Progress on standard error: a bar on a terminal, otherwise a line at intervals."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_LINE_EVERY_S: Final = 30.0


@contextmanager
def progress(what: str, *, total: float | None) -> Iterator[Callable[[float], None]]:
    """Yields a function that takes the amount done.

    `total` is None if it is unknown.
    """
    if not sys.stderr.isatty():
        yield _lines(what, total)
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


def _lines(what: str, total: float | None) -> Callable[[float], None]:
    """Print a line every _LINE_EVERY_S; short work prints nothing."""
    from phalanx.clock import SystemClock

    clock = SystemClock()
    due = clock.monotonic() + _LINE_EVERY_S

    def advance(done: float) -> None:
        nonlocal due
        if clock.monotonic() >= due:
            due = clock.monotonic() + _LINE_EVERY_S
            of_all = f" of {total:.0f}" if total is not None else ""
            print(f"{what}: {done:.0f}{of_all}", file=sys.stderr, flush=True)

    return advance
