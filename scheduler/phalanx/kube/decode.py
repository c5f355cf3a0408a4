"""What comes in, as typed structs: lines of a watch, pages of a list. One bad object spoils nothing else."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from phalanx.kube.errors import ApiError, error_of_status
from phalanx.kube.mend import decode_leniently
from phalanx.model.api.kinds import Kind, KubeObject
from phalanx.model.api.meta import (
    ApiStruct,
    BookmarkObject,
    ListMeta,
    ObjectList,
    Status,
    WatchEvent,
    WatchEventType,
)
from phalanx.model.events import Applied, Deleted

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
    """Nothing changed up to this resourceVersion. `ends_initial` closes the initial list of a WatchList."""

    version: str
    ends_initial: bool


class WatchFailed(Struct, frozen=True):
    """The server ends the watch with an error."""

    error: ApiError


class Unreadable(Struct, frozen=True):
    """An object of this name exists but does not decode. All names are empty when not even they do."""

    namespace: str
    name: str
    version: str
    why: str


WatchLine = ObjectEvent | Bookmark | WatchFailed | Unreadable


class Name(ApiStruct, frozen=True):
    """Which object, at which version."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class PartialObject(ApiStruct, frozen=True):
    """Any object, as far as it takes to name it."""

    metadata: Name = Name()


class Page(Struct, frozen=True):
    """One page of a list."""

    objects: tuple[KubeObject, ...]
    unreadable: tuple[Unreadable, ...]
    version: str


class _RawList(ApiStruct, frozen=True):
    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


class _ErrorEvent(ApiStruct, frozen=True):
    object: Status


class _BookmarkEvent(ApiStruct, frozen=True):
    object: BookmarkObject


class _NamedEvent(ApiStruct, frozen=True):
    object: PartialObject


_type_of: Final = msgspec.json.Decoder(WatchEventType).decode
_bookmark_of: Final = msgspec.json.Decoder(_BookmarkEvent).decode
_error_of: Final = msgspec.json.Decoder(_ErrorEvent).decode
_named_event_of: Final = msgspec.json.Decoder(_NamedEvent).decode
_named_of: Final = msgspec.json.Decoder(PartialObject).decode
_raw_list_of: Final = msgspec.json.Decoder(_RawList).decode


class KindDecoder:
    """Decodes one kind. A line costs about 4 microseconds: typed first, its envelope only when that fails."""

    def __init__(self, kind: Kind) -> None:
        struct: Any = kind.struct
        self._kind = kind.name
        self._event = msgspec.json.Decoder(WatchEvent[struct]).decode
        self._list = msgspec.json.Decoder(ObjectList[struct]).decode
        self._object = msgspec.json.Decoder(struct).decode

    def line(self, line: bytes) -> WatchLine:
        """One line of a watch. Raises Undecodable."""
        return decode_leniently(self._line, line)

    def page(self, body: bytes) -> Page:
        """One page of a list. Raises Undecodable."""
        return decode_leniently(self._page, body)

    def _line(self, line: bytes) -> WatchLine:
        try:
            event = self._event(line)
        except msgspec.ValidationError as error:
            return self._other_line(line, why=str(error))
        meta = event.object.metadata
        if event.type in _PRESENT:
            return ObjectEvent(Applied(event.object), meta.namespace, meta.name, meta.resource_version)
        return self._other_line(line, why="")

    def _page(self, body: bytes) -> Page:
        try:
            listed = self._list(body)
        except msgspec.ValidationError:
            return self._page_one_by_one(body)
        return Page(listed.items or (), (), listed.metadata.resource_version)

    def _other_line(self, line: bytes, *, why: str) -> WatchLine:
        kind = _type_of(line).type
        if kind == "BOOKMARK":
            meta = _bookmark_of(line).object.metadata
            return Bookmark(meta.resource_version, meta.annotations.get(INITIAL_EVENTS_END) == "true")
        if kind == "ERROR":
            return WatchFailed(error_of_status(_error_of(line).object))
        name = _name_in_event(line)
        if kind == _DELETED:
            gone = Deleted(self._kind, name.namespace, name.name, name.uid)
            return ObjectEvent(gone, name.namespace, name.name, name.resource_version)
        return Unreadable(name.namespace, name.name, name.resource_version, why or f"event of type {kind}")

    def _page_one_by_one(self, body: bytes) -> Page:
        listed = _raw_list_of(body)
        objects: list[KubeObject] = []
        unreadable: list[Unreadable] = []
        for raw in listed.items or ():
            try:
                objects.append(self._object(raw))
            except msgspec.ValidationError as error:
                name = _name_in(raw)
                unreadable.append(Unreadable(name.namespace, name.name, name.resource_version, str(error)))
        return Page(tuple(objects), tuple(unreadable), listed.metadata.resource_version)


def _name_in_event(line: bytes) -> Name:
    try:
        return _named_event_of(line).object.metadata
    except msgspec.ValidationError:
        return Name()


def _name_in(raw: msgspec.Raw) -> Name:
    try:
        return _named_of(raw).metadata
    except msgspec.ValidationError:
        return Name()
