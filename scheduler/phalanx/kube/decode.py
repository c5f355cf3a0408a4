"""Decode watch lines and list pages into typed structs, leniently: one bad object does not affect the others.

An API server written in Go sends no malformed JSON and no number out of range; but such a line, or such an
object in a list, must neither stop the scheduler nor hide the other objects. Decoding that fails is repeated
on sanitized bytes, in which the values that no decoder accepts are replaced.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from phalanx.kube.errors import ApiError, error_of_status
from phalanx.limits import QUANTITY_LENGTH_MAX
from phalanx.model.api.kind import Kind
from phalanx.model.api.meta import (
    ApiStruct,
    BookmarkObject,
    KubeObject,
    ListMeta,
    ObjectList,
    Status,
    WatchEvent,
    WatchEventType,
)
from phalanx.model.api.unknown_fields import names_unknown_fields, with_unknown_fields
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.events import Applied, Deleted
from phalanx.model.named_parts import unmarked_json

_JSON_DEPTH_MAX: Final = 100
"""Nesting levels that are read of an object too deep for the decoder. Kubernetes kinds have about 15."""

T = TypeVar("T")

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the initial list of a WatchList."""

_DELETED: Final = "DELETED"
_PRESENT: Final = ("ADDED", "MODIFIED")


class ObjectEvent(Struct, frozen=True):
    """An object was added, modified or deleted."""

    event: Applied | Deleted
    namespace: str
    name: str
    version: str


class Bookmark(Struct, frozen=True):
    """Nothing else changed up to this resourceVersion."""

    version: str
    ends_initial: bool
    """Whether it ends the initial list of a WatchList."""


class WatchFailed(Struct, frozen=True):
    """The server ended the watch with an error."""

    error: ApiError


class Unreadable(Struct, frozen=True):
    """An object exists but cannot be decoded. The names are empty where they cannot be decoded either."""

    namespace: str
    name: str
    version: str
    error: str


WatchLine = ObjectEvent | Bookmark | WatchFailed | Unreadable


class PartialMetadata(ApiStruct, frozen=True):
    """The metadata that identifies an object and its version."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class PartialObject(ApiStruct, frozen=True):
    """Any object, of which only the identifying metadata is decoded."""

    metadata: PartialMetadata = PartialMetadata()


class _WrittenSpec(ApiStruct, frozen=True):
    """Any object, of which only the spec is decoded, as it is written."""

    spec: Any = None


class Page(Struct, frozen=True):
    objects: tuple[KubeObject, ...]
    unreadable: tuple[Unreadable, ...]
    version: str


class _ListWithoutItems(ApiStruct, frozen=True):
    metadata: ListMeta = ListMeta()


class _RawList(_ListWithoutItems, frozen=True):
    items: list[msgspec.Raw] | None = None


_type_of: Final = msgspec.json.Decoder(WatchEventType).decode
_bookmark_of: Final = msgspec.json.Decoder(WatchEvent[BookmarkObject]).decode
_error_of: Final = msgspec.json.Decoder(WatchEvent[Status]).decode
_partial_event_of: Final = msgspec.json.Decoder(WatchEvent[PartialObject]).decode
_partial_of: Final = msgspec.json.Decoder(PartialObject).decode
_written_in_event: Final = msgspec.json.Decoder(WatchEvent[_WrittenSpec]).decode
_written_in_list: Final = msgspec.json.Decoder(ObjectList[_WrittenSpec]).decode
_written_of: Final = msgspec.json.Decoder(_WrittenSpec).decode
_list_without_items_of: Final = msgspec.json.Decoder(_ListWithoutItems).decode
_raw_list_of: Final = msgspec.json.Decoder(_RawList).decode


class KindDecoder:
    """Decodes the objects of one kind, at about 4 microseconds a line.

    The typed decoder comes first; the envelope alone is decoded only when that fails. Kinds that name their
    unknown fields are decoded a second time.
    """

    def __init__(self, kind: Kind) -> None:
        struct: Any = kind.struct
        self._kind = kind.name
        self._is_workload = kind.struct is WorkloadObject
        self._names_unknown = names_unknown_fields(struct)
        self._is_incomplete = self._is_workload or self._names_unknown
        self._event = msgspec.json.Decoder(WatchEvent[struct]).decode
        self._list = msgspec.json.Decoder(ObjectList[struct]).decode
        self._object = msgspec.json.Decoder(struct).decode

    def line(self, line: bytes) -> WatchLine:
        """Decode one line of a watch. Raises Undecodable."""
        return decode_leniently(self._line, line)

    def page(self, body: bytes) -> Page:
        """Decode one page of a list. Raises Undecodable."""
        return decode_leniently(self._page, body)

    def _line(self, line: bytes) -> WatchLine:
        try:
            event = self._event(line)
        except msgspec.ValidationError as error:
            return self._other_line(line, error=str(error))
        meta = event.object.metadata
        if event.type in _PRESENT:
            present = event.object
            if self._is_incomplete:
                present = self._completed(present, partial(_spec_in_event, line))
            return ObjectEvent(Applied(present), meta.namespace, meta.name, meta.resource_version)
        return self._other_line(line, error="")

    def _page(self, body: bytes) -> Page:
        try:
            listed = self._list(body)
        except msgspec.ValidationError:
            return self._page_one_by_one(body)
        objects = listed.items or ()
        if self._names_unknown:
            written = _written_in_list(body).items or ()
            objects = tuple(map(with_unknown_fields, objects, (each.spec for each in written)))
        elif self._is_workload:
            objects = tuple(self._named(item) for item in objects)
        return Page(objects, (), listed.metadata.resource_version)

    def _other_line(self, line: bytes, *, error: str) -> WatchLine:
        kind = _type_of(line).type
        if kind == "BOOKMARK":
            bookmark = _bookmark_of(line).object.metadata
            return Bookmark(bookmark.resource_version, bookmark.annotations.get(INITIAL_EVENTS_END) == "true")
        if kind == "ERROR":
            return WatchFailed(error_of_status(_error_of(line).object))
        meta = _metadata_in_event(line)
        if kind == _DELETED:
            deleted = Deleted(self._kind, meta.namespace, meta.name, meta.uid)
            return ObjectEvent(deleted, meta.namespace, meta.name, meta.resource_version)
        error = error or f"event of type {kind}"
        return Unreadable(meta.namespace, meta.name, meta.resource_version, error)

    def _completed(self, item: KubeObject, spec: Callable[[], object]) -> KubeObject:
        """The object with the names of its kind and of unknown fields, where its struct has them.

        `spec` gives the spec as it is written.
        """
        if self._is_workload:
            return self._named(item)
        return with_unknown_fields(item, spec()) if self._names_unknown else item

    def _named(self, item: KubeObject) -> KubeObject:
        return replace(item, kind_name=self._kind) if isinstance(item, WorkloadObject) else item

    def _page_one_by_one(self, body: bytes) -> Page:
        listed = _raw_list_of(body)
        objects: list[KubeObject] = []
        unreadable: list[Unreadable] = []
        for raw in listed.items or ():
            try:
                present = self._object(raw)
                objects.append(self._completed(present, partial(_spec_of, raw)))
            except msgspec.ValidationError as error:
                meta = _metadata_in(raw)
                unreadable.append(Unreadable(meta.namespace, meta.name, meta.resource_version, str(error)))
        return Page(tuple(objects), tuple(unreadable), listed.metadata.resource_version)


def continue_token(page: bytes) -> str:
    """The token of the next page of a list; empty for the last one. Raises Undecodable."""
    return decode_leniently(_list_without_items_of, page).metadata.continue_token


def _spec_in_event(line: bytes) -> object:
    return _written_in_event(line).object.spec


def _spec_of(raw: msgspec.Raw) -> object:
    return _written_of(raw).spec


def _metadata_in_event(line: bytes) -> PartialMetadata:
    try:
        return _partial_event_of(line).object.metadata
    except msgspec.ValidationError:
        return PartialMetadata()


def _metadata_in(raw: msgspec.Raw) -> PartialMetadata:
    try:
        return _partial_of(raw).metadata
    except msgspec.ValidationError:
        return PartialMetadata()


# --- sanitizing ---------------------------------------------------------------------------------------------


class Undecodable(Exception):
    """The bytes are not JSON, or not even an envelope: the stream or the response is broken."""


_INVALID: Final[list[Any]] = [[]]
"""A value that no field accepts: not a number, a text or a map, and not a list of any of them."""

_DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', re.DOTALL)


def decoder_of(struct: type[T]) -> Callable[[bytes], T]:
    """A decoder of single objects, without marks, for answers to requests."""
    decode = msgspec.json.Decoder(struct).decode
    return lambda body: decode(unmarked_json(body))


def decode_leniently(decode: Callable[[bytes], T], body: bytes) -> T:
    """Return `decode(body)`, or where that fails of the sanitized body. Raises Undecodable.

    Neither has marks: no object forges a name in a text.
    """
    try:
        return decode(unmarked_json(body))
    except _DECODE_ERRORS as error:
        try:
            return decode(unmarked_json(_sanitized(body)))
        except (ValueError, *_DECODE_ERRORS):
            raise Undecodable(str(error)) from error


def _sanitized(body: bytes) -> bytes:
    """Replace invalid Unicode by U+FFFD, and invalid numbers and too deep values by _INVALID.

    A decoder then reports an ordinary wrong value with the name of its field. Raises ValueError or
    RecursionError.
    """
    value = json.loads(
        "".join(_shallow(body.decode(errors="replace"))),
        strict=False,
        parse_constant=_number,
        parse_float=_number,
        parse_int=_number,
    )
    text = json.dumps(value, ensure_ascii=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _number(text: str) -> Any:
    """Parse a number; _INVALID for one that is not finite or has too many digits."""
    if len(text) > QUANTITY_LENGTH_MAX:
        return _INVALID
    try:
        return int(text)
    except ValueError:
        number = float(text)
        return number if math.isfinite(number) else _INVALID


def _shallow(text: str) -> Iterator[str]:
    """Yield the text with _INVALID in place of values nested deeper than _JSON_DEPTH_MAX."""
    depth = begin = 0
    for token in _TOKENS.finditer(text):
        sign = token[0]
        if sign in "[{":
            depth += 1
            if depth == _JSON_DEPTH_MAX + 1:
                yield text[begin : token.start()] + json.dumps(_INVALID)
        elif sign in "]}":
            depth -= 1
            if depth == _JSON_DEPTH_MAX:
                begin = token.end()
    if depth <= _JSON_DEPTH_MAX:
        yield text[begin:]
