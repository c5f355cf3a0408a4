"""Keys and Ctrl-C of a live view, on a terminal of the test."""

import os
import pty
import signal
import sys
import termios
from collections.abc import Iterator

import pytest
from phalanx.cli.verbs.keyboard import open_keyboard

LONG_S = 60.0
"""Longer than any of these tests lasts."""


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """The end of the person, and the end of the program."""
    person, program = pty.openpty()
    yield person, program
    os.close(person)
    os.close(program)


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        (b"q", ["q"]),
        (b"jq", ["j", "q"]),
        (b"\x1b", ["\x1b"]),
        (b"\x1b[A", ["\x1b[A"]),
        (b"\x1bOPx", ["\x1bOP", "x"]),
        (b"\x1b[1;5Cq", ["\x1b[1;5C", "q"]),
        (b"\x1bq", ["\x1bq"]),
        (b"\x1b\x1b", ["\x1b", "\x1b"]),
        ("ä".encode(), ["ä"]),
        (b"\xff", ["\ufffd"]),
    ],
)
def test_each_key_is_one_text(terminal: tuple[int, int], typed: bytes, keys: list[str]) -> None:
    person, program = terminal
    with open_keyboard(program) as keyboard:
        os.write(person, typed)
        assert keyboard.wait(LONG_S) == keys
        assert keyboard.wait(0) == []


def test_a_terminal_that_is_gone_ends_the_view() -> None:
    reading, writing = pty.openpty()
    with open_keyboard(writing) as keyboard:
        os.close(reading)
        assert keyboard.wait(LONG_S) == ["\x1b"]
    os.close(writing)


def test_ctrl_c_while_a_frame_is_drawn_ends_the_next_wait(terminal: tuple[int, int]) -> None:
    """Nothing is raised in the middle of drawing, and the signal is not lost."""
    _, program = terminal
    with open_keyboard(program) as keyboard:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            keyboard.wait(LONG_S)
        assert keyboard.wait(0) == []


def test_ctrl_c_while_the_cluster_is_read_raises_at_once(terminal: tuple[int, int]) -> None:
    _, program = terminal
    with open_keyboard(program) as keyboard:
        with pytest.raises(KeyboardInterrupt), keyboard.interruptible():
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            keyboard.wait(LONG_S)


class Interrupted:
    """Ctrl-C comes while it is deleted, where Python ignores exceptions."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_that_python_ignored_ends_the_next_wait(
    terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, program = terminal
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: ignored.append(found.exc_type))
    with open_keyboard(program) as keyboard:
        with keyboard.interruptible():
            Interrupted()
        assert ignored == [KeyboardInterrupt]
        with pytest.raises(KeyboardInterrupt):
            keyboard.wait(LONG_S)


def descriptor_of_signals() -> int:
    """Where Python writes signals."""
    descriptor = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(descriptor)
    return descriptor


def test_signals_and_the_terminal_are_as_before(terminal: tuple[int, int]) -> None:
    _, program = terminal

    def state() -> list[object]:
        return [signal.getsignal(signal.SIGINT), descriptor_of_signals(), termios.tcgetattr(program)]

    before = state()
    with open_keyboard(program):
        assert all(now != then for now, then in zip(state(), before, strict=True))
    assert state() == before
