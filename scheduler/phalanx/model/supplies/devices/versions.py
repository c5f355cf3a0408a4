"""Semantic versions as Kubernetes compares them: strict ones of semver 2.0.0, or lenient ones."""

import re
from functools import lru_cache
from typing import Final

_NUMBER: Final = r"(0|[1-9][0-9]{0,18})"
_PART: Final = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_STRICT: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_PART}(?:\.{_PART})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
_NUMBER_COUNT: Final = 3

SortKey = tuple[int, int, int, tuple[tuple[int, int, str], ...]]
"""Compares as the version. A version without prerelease parts is larger than the same one with some."""


class InvalidVersion(ValueError):
    """The text is not a semantic version."""


@lru_cache(maxsize=1024)
def version_key(text: str, *, normalize: bool = False) -> SortKey:
    """The sort key of a version; build metadata does not count. Raises InvalidVersion.

    `normalize` accepts a leading v, leading zeros, and missing minor and patch numbers, as
    `semver(text, true)` in CEL does.
    """
    form = _STRICT.fullmatch(_normalized(text) if normalize else text)
    if form is None:
        raise InvalidVersion(f"{text[:64]!r} is not a semantic version")
    major, minor, patch, prerelease = form.groups()
    parts = prerelease.split(".") if prerelease else []
    # A number is smaller than a text, and the end of all parts smaller than any part.
    keys = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)
    return int(major), int(minor), int(patch), keys or ((2, 0, ""),)


def _normalized(text: str) -> str:
    """As Kubernetes does: without a prefix and leading zeros, and with three numbers."""
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < _NUMBER_COUNT and not {"+", "-"}.isdisjoint(parts[-1]):
        return ""  # a short version has neither prerelease parts nor build metadata
    return ".".join([*parts, *["0"] * (_NUMBER_COUNT - len(parts))])


def _without_zeros(part: str) -> str:
    rest = part.lstrip("0") if len(part) > 1 else part
    return rest if rest[:1] in set("0123456789") else f"0{rest}" if len(part) > 1 else part
