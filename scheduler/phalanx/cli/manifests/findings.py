"""An error in a manifest, and how values are shown in messages."""

import json
import re
from typing import Any, Final

from msgspec import Struct

from phalanx.limits import SHOWN_VALUE_CHARACTERS

_SHOWN_NAME_CHARACTERS: Final = 320
"""Characters of a name or key in an error message. The longest label key of Kubernetes has 317."""

_PLAIN_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*", re.ASCII)


class Finding(Struct, frozen=True):
    """What was expected at a field, and what was found there."""

    path: str
    """The field, such as `spec.roles[0].count`."""
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, found {self.found}"


def inside(path: str, key: str) -> str:
    """Return the path of a field inside `path`; a key that is not a plain word is put in brackets."""
    key = shown_name(key)
    if not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def shown_name(name: str) -> str:
    """Format a name or a key, cut at _SHOWN_NAME_CHARACTERS."""
    return name if len(name) <= _SHOWN_NAME_CHARACTERS else f"{name[:_SHOWN_NAME_CHARACTERS]}..."


def shown(value: Any) -> str:
    """Format a value as JSON, cut at SHOWN_VALUE_CHARACTERS; lists and maps by type only."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN_VALUE_CHARACTERS else f"{text[:SHOWN_VALUE_CHARACTERS]}..."
