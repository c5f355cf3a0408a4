"""Worker processes of a command; they end with it."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, connection, parent_process
from threading import Thread
from typing import Any

from phalanx.cli.exits import Exit

_SHOW_CURSOR = "\x1b[?25h"


class WorkersLost(Exception):
    """Runs cannot be finished, because their workers ended."""


@contextmanager
def workers(
    count: int, *, prepare: Callable[..., None] | None = None, given: tuple[Any, ...] = ()
) -> Iterator[ProcessPoolExecutor]:
    """A pool of worker processes.

    Workers end immediately when the command is interrupted, ends or is killed. Each calls `prepare` with
    `given` first.
    """
    with ProcessPoolExecutor(count, initializer=_begin, initargs=(prepare, given)) as pool:
        try:
            yield pool
        except BaseException:
            for child in active_children():
                child.terminate()
            raise


def _begin(prepare: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a terminal sends it to all processes; the command ends its workers
    Thread(target=_end_with_parent, daemon=True).start()
    if prepare is not None:
        prepare(*given)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(Exit.INTERRUPTED)


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """End this process at Ctrl-C without an exception.

    An exception could be raised at any point of a computation, also where other code would handle it.
    """
    before = signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _leave(_signal: int, _frame: object) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"{_SHOW_CURSOR}\n")
        sys.stderr.flush()
    os._exit(Exit.INTERRUPTED)
