"""One thing that is wrong in a manifest, and how values are shown to people."""

import json
import re
from typing import Any, Final

from msgspec import Struct

from phalanx.limits import SHOWN_NAME_CHARACTERS, SHOWN_VALUE_CHARACTERS

_PLAIN_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*", re.ASCII)


class Finding(Struct, frozen=True):
    """`path` is the field, `spec.roles[0].count` say; what was expected there, and what was found."""

    path: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, found {self.found}"


def inside(path: str, key: str) -> str:
    """The path of a field of what `path` names; a key that is not a plain word goes into brackets."""
    key = shortened(key)
    if not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def shortened(name: str) -> str:
    """A name or a key as it is, but not ten thousand characters of it."""
    return name if len(name) <= SHOWN_NAME_CHARACTERS else f"{name[:SHOWN_NAME_CHARACTERS]}..."


def shown(value: Any) -> str:
    """A value as one would write it in JSON, shortened; lists and maps by their name only."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN_VALUE_CHARACTERS else f"{text[:SHOWN_VALUE_CHARACTERS]}..."
