"""The text of `phalanx config explain`: one key, and the keys below it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from textwrap import fill
from typing import Final

from phalanx.cli.config_file.keys import Key
from phalanx.cli.exits import BadInput

_WIDTH: Final = 100
_INDENT: Final = "    "
_SIMILAR_MAX: Final = 3
_UNITS: Final = {
    "Milliseconds": "milliseconds",
    "Seconds": "seconds",
    "Minutes": "minutes",
    "Percent": "percent",
}


def explanation(path: str, keys: Sequence[Key]) -> str:
    """The documentation of a key; of all keys of the top level for an empty path. Raises BadInput."""
    if not path:
        return "\n".join(_list(key for key in keys if re.fullmatch(r"\w+", key.path)))
    wanted = _plain(path)
    found = next((key for key in keys if _plain(key.path) == wanted), None)
    if found is None:
        raise BadInput(f"KEY: expected a key of the configuration file, found {path}{_similar(path, keys)}")
    below = [key for key in keys if key.path.startswith((f"{found.path}.", f"{found.path}["))]
    return "\n".join([*_head(found), "", _paragraphs(found), *_below(below)])


def _head(key: Key) -> Iterator[str]:
    yield f"KEY:      {key.path}"
    yield f"TYPE:     {key.type}"
    if key.is_required:
        yield "DEFAULT:  none, this key is required"
    elif key.default is not None:
        unit = next((unit for end, unit in _UNITS.items() if key.path.endswith(end)), "")
        yield f"DEFAULT:  {key.default} {unit if key.default != 'null' else ''}".rstrip()


def _paragraphs(key: Key) -> str:
    """The meaning: a docstring of a plugin has lines and paragraphs of its own."""
    return key.meaning if "\n" in key.meaning else fill(key.meaning, _WIDTH)


def _below(keys: Iterable[Key]) -> Iterator[str]:
    lines = list(_list(keys))
    if lines:
        yield ""
        yield "KEYS:"
        yield from lines


def _list(keys: Iterable[Key]) -> Iterator[str]:
    for key in keys:
        yield f"{key.path}  <{key.type}>"
        yield fill(_first_paragraph(key), _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)


def _first_paragraph(key: Key) -> str:
    return key.meaning.partition("\n\n")[0]


def _plain(path: str) -> str:
    """The path without brackets: `plugins.drf.arguments` is as good as `plugins[drf].arguments`."""
    return re.sub(r"\[([^\]]+)\]", r".\1", path).replace("[]", "").strip(".")


def _similar(path: str, keys: Iterable[Key]) -> str:
    similar = get_close_matches(path, [key.path for key in keys], n=_SIMILAR_MAX)
    return f"; similar are {', '.join(similar)}" if similar else "; `phalanx config explain` lists the keys"
