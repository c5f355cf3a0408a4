"""Durations as users write them: hours, minutes and seconds, such as "1h30m"."""

import re
from typing import Final

_FORM: Final = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})s)?", re.ASCII)
_SECONDS: Final = (3600, 60, 1)


def milliseconds(text: str) -> int | None:
    """None for what is no duration; an empty text is none."""
    found = _FORM.fullmatch(text) if text else None
    if found is None:
        return None
    parts = zip(found.groups(), _SECONDS, strict=True)
    return sum(int(part or 0) * seconds for part, seconds in parts) * 1000
