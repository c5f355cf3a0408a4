"""Bytes that a decoder of types cannot take, mended: the bad parts are replaced, the rest stays.

An API server written in Go takes and sends none of this; but one such line, or one such object in a list,
must not end the scheduler or hide all other objects.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from phalanx.limits import JSON_DEPTH_MAX, QUANTITY_LENGTH_MAX

T = TypeVar("T")

_WRONG: Final[list[Any]] = [[]]
"""What no field of any kind takes: no number, no text, no map, and no list of either."""

_BROKEN: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_PARTS: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', re.DOTALL)


class Undecodable(Exception):
    """This is no JSON, or not even an envelope: the stream or the answer is broken."""


def decode_leniently(decode: Callable[[bytes], T], body: bytes) -> T:
    """`decode(body)`, or of the mended body where that fails. Raises Undecodable when both fail."""
    try:
        return decode(body)
    except _BROKEN as broken:
        try:
            return decode(_mended(body))
        except (ValueError, *_BROKEN):
            raise Undecodable(str(broken)) from broken


def _mended(body: bytes) -> bytes:
    """The same value: U+FFFD for what is no Unicode, _WRONG for what is no number or nested too deep.

    Where a decoder looks at it, that is then an ordinary wrong value with the name of its field. Raises
    ValueError or RecursionError.
    """
    value = json.loads(
        _shallow(body.decode(errors="replace")),
        strict=False,
        parse_constant=_number,
        parse_float=_number,
        parse_int=_number,
    )
    text = json.dumps(value, ensure_ascii=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _number(text: str) -> Any:
    """The number, _WRONG for one that does not exist or has too many digits."""
    if len(text) > QUANTITY_LENGTH_MAX:
        return _WRONG
    try:
        return int(text)
    except ValueError:
        number = float(text)
        return number if math.isfinite(number) else _WRONG


def _shallow(text: str) -> str:
    return "".join(_kept(text))


def _kept(text: str) -> Iterator[str]:
    """The text without what lies deeper than JSON_DEPTH_MAX."""
    depth = begin = 0
    for part in _PARTS.finditer(text):
        sign = part[0]
        if sign in "[{":
            depth += 1
            if depth == JSON_DEPTH_MAX + 1:
                yield text[begin : part.start()] + json.dumps(_WRONG)
        elif sign in "]}":
            depth -= 1
            if depth == JSON_DEPTH_MAX:
                begin = part.end()
    if depth <= JSON_DEPTH_MAX:
        yield text[begin:]
