"""Single keys and Ctrl-C of a live view on a terminal."""

import os
import re
import select
import signal
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_KEYS_READ: Final = 1024
"""Bytes of keys that `top` reads at once: far more than somebody types during a frame."""

_ESCAPE_SEQUENCE_S: Final = 0.05
"""Seconds between Esc and the next byte of an arrow key. Terminals send both at once; ssh may part them."""


ESCAPE: Final = "\x1b"

_KEY: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO.|\x1b[^\x1b]|.", re.DOTALL)
"""A key: the sequence of an arrow or function key, a key with Alt, or one character."""


class Keyboard:
    """What is typed at a terminal while `open_keyboard` holds it."""

    def __init__(self, terminal: int, signals: int) -> None:
        """`terminal`, `signals`: descriptors; from the latter come the numbers of signals, each as a byte."""
        self._terminal = terminal
        self._signals = signals
        self._raises = False

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let Ctrl-C raise KeyboardInterrupt at once. Outside, only `wait` raises it.

        An interrupt between two statements of rich can leave its count of open buffers too high. It then
        prints nothing any more, not even what restores the screen.
        """
        self._raises = True
        try:
            yield
        finally:
            self._raises = False

    def wait(self, timeout: float) -> list[str]:
        """The next keys; none after so many seconds without one. Escape if the terminal is gone.

        Raises KeyboardInterrupt for each Ctrl-C since the last call, also if it was raised before and lost,
        as Python ignores exceptions in finalizers.
        """
        ready, _, _ = select.select([self._terminal, self._signals], [], [], timeout)
        if self._signals in ready and signal.SIGINT in os.read(self._signals, _KEYS_READ):
            raise KeyboardInterrupt
        return self._keys() if self._terminal in ready else []

    def on_interrupt(self, *_: object) -> None:
        """Handle SIGINT."""
        if self._raises:
            raise KeyboardInterrupt

    def _keys(self) -> list[str]:
        try:
            typed = os.read(self._terminal, _KEYS_READ)
            while typed.endswith(b"\x1b") and select.select([self._terminal], [], [], _ESCAPE_SEQUENCE_S)[0]:
                more = os.read(self._terminal, _KEYS_READ)
                if not more:
                    break
                typed += more
        except OSError:
            typed = b""
        return _KEY.findall(typed.decode(errors="replace")) or [ESCAPE]


@contextmanager
def open_keyboard(terminal: int) -> Iterator[Keyboard]:
    """Read single keys while the context lasts; the terminal is as before afterwards, whatever happens.

    Only the main thread can use it, because it handles SIGINT. The C handler of Python writes each signal to
    a pipe, so that `wait` misses none: a signal that comes right before `select` does not interrupt it.
    """
    mode = termios.tcgetattr(terminal)
    signals, written = os.pipe()
    os.set_blocking(written, False)
    keyboard = Keyboard(terminal, signals)
    wakeup = signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    handler = signal.signal(signal.SIGINT, keyboard.on_interrupt)
    try:
        tty.setcbreak(terminal)
        yield keyboard
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(terminal, termios.TCSADRAIN, mode)
        signal.signal(signal.SIGINT, handler)
        signal.set_wakeup_fd(wakeup)
        os.close(signals)
        os.close(written)
