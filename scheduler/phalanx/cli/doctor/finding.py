"""What a check has found."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct

_SHOWN_NAMES: Final = 5
"""Names of objects that one finding lists. Enough to look at some."""


class Severity(StrEnum):
    """How bad it is. Only notes leave the exit code at 0."""

    ERROR = "error"
    """Gangs do not start, or start where they must not."""
    WARNING = "warning"
    """It may be intended, or it hurts some gangs, or it could not be checked."""
    NOTE = "note"
    """Nothing is wrong with the installation."""


class Finding(Struct, frozen=True):
    """One finding, with what to do about it."""

    severity: Severity
    object: str
    """The object that it is about, such as `Node n1`."""
    problem: str
    action: str


class CheckFindings(Struct, frozen=True):
    check: str
    findings: tuple[Finding, ...]


def names(found: Iterable[str]) -> str:
    """The first names in their order, and the number of the others."""
    listed = sorted(found)
    more = len(listed) - _SHOWN_NAMES
    return ", ".join(listed[:_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")
