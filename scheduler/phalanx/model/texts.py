"""Texts for people: what tenants write into them must not control the terminal that shows them."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_NEAR: Final = 0.7
"""The part of two names that is equal if one is the other misspelt; in `visoin` it is 0.83."""

_NAMES_SHOWN: Final = 10
"""Names that a list of alternatives has. The nearest come first."""


def printable(text: str) -> str:
    """The text with control characters escaped, such as those that move the cursor of a terminal.

    A text that was escaped stays as it is.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def that_wait(count: int) -> str:
    """Such as "1 waits" or "2 wait"."""
    return f"{count} wait{'s' if count == 1 else ''}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Such as "Did you mean vision? "; empty if no known name is near."""
    near = get_close_matches(name, list(known), n=1, cutoff=_NEAR)
    return f"Did you mean {near[0]}? " if near else ""


def alternatives(name: str, known: Iterable[str]) -> str:
    """The known names, those that are near this one first; of many, the first ones and a number."""
    names = list(known)
    near = get_close_matches(name, names, n=_NAMES_SHOWN, cutoff=_NEAR)
    listed = [*near, *(each for each in names if each not in near)]
    more = len(listed) - _NAMES_SHOWN
    return ", ".join(listed[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
