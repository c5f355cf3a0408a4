"""Watches: the changes of a resource as lines of JSON."""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from phalanx_simulator.embedded.apiserver import errors
from phalanx_simulator.embedded.apiserver.errors import ApiError, Cause, Subject
from phalanx_simulator.embedded.apiserver.lists import wire
from phalanx_simulator.embedded.apiserver.requests import Request, Target
from phalanx_simulator.embedded.apiserver.selectors import Match, selector
from phalanx_simulator.embedded.store import Change, ChangeType, Compacted, Entry, Object, Store

Deliver = Callable[[bytes], None]
"""Takes whole lines, each ended by a newline."""

_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_BOOKMARK_BODIES: Final[dict[str, Object]] = {"pods": {"spec": {"containers": None}, "status": {}}}
"""Fields of the real server's bookmark objects that a decoder may depend on."""

_LIST_OPTIONS: Final = Subject("listoptions", "ListOptions", "meta.k8s.io")


class Watch:
    """One open watch. It delivers events during the writes, until it is closed."""

    def __init__(self, *, store: Store, target: Target, match: Match, deliver: Deliver) -> None:
        self._store = store
        self._target = target
        self._match = match
        self._deliver = deliver
        self._unsubscribe: Callable[[], None] | None = None

    def start_now(self, *, initial_events: bool, end_mark: bool) -> None:
        """Begin with the present state, sent as ADDED events or not at all."""
        lines: list[bytes] = []
        if initial_events:
            entries = self._store.entries(self._target.type.resource, self._target.namespace)
            lines = [self._line("ADDED", entry) for entry in entries if self._match(entry.data)]
            if end_mark:
                lines.append(self._bookmark({_INITIAL_EVENTS_END: "true"}))
        self._begin(lines)

    def start_after(self, revision: int) -> None:
        """Begin with the changes after a revision.

        An error is sent as an event, as kube-apiserver does.
        """
        try:
            if revision > self._store.revision:
                raise errors.too_large_resource_version(revision, self._store.revision)
            changes = self._store.changes_since(self._target.type.resource, revision)
        except Compacted as compacted:
            self._fail(errors.too_old_resource_version(revision, compacted.oldest))
        except ApiError as error:
            self._fail(error)
        else:
            self._begin(filter(None, map(self._event, changes)))

    def bookmark(self) -> None:
        """Send a bookmark with the current revision."""
        self._deliver(self._bookmark({}))

    @property
    def is_open(self) -> bool:
        """Whether more events follow."""
        return self._unsubscribe is not None

    def close(self) -> None:
        """Deliver nothing more."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _begin(self, lines: Iterable[bytes]) -> None:
        first = b"".join(lines)
        if first:
            self._deliver(first)
        self._unsubscribe = self._store.subscribe(self._target.type.resource, self._on_change)

    def _fail(self, error: ApiError) -> None:
        self._deliver(b'{"type":"ERROR","object":' + msgspec.json.encode(error.status) + b"}\n")

    def _on_change(self, change: Change) -> None:
        line = self._event(change)
        if line:
            self._deliver(line)

    def _event(self, change: Change) -> bytes:
        """The change as an event of this watch; empty if it does not match."""
        if self._target.namespace and change.entry.key.namespace != self._target.namespace:
            return b""
        before = change.previous is not None and self._match(change.previous.data)
        after = change.type is not ChangeType.DELETED and self._match(change.entry.data)
        if after:
            return self._line("MODIFIED" if before else "ADDED", change.entry)
        if not before:
            return b""
        return self._line("DELETED", _last_seen(change))

    def _line(self, type_: str, entry: Entry) -> bytes:
        return f'{{"type":"{type_}","object":'.encode() + wire(self._target.type, entry) + b"}\n"

    def _bookmark(self, annotations: dict[str, str]) -> bytes:
        metadata: Object = {"resourceVersion": str(self._store.revision)}
        if annotations:
            metadata["annotations"] = annotations
        kind = self._target.type
        item = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        item |= _BOOKMARK_BODIES.get(kind.resource, {})
        return b'{"type":"BOOKMARK","object":' + msgspec.json.encode(item) + b"}\n"


def _last_seen(change: Change) -> Entry:
    """The DELETED event of an object that is gone or no longer matches the selector."""
    if change.type is ChangeType.DELETED or change.previous is None:
        return change.entry
    metadata = {**change.previous.data["metadata"], "resourceVersion": str(change.entry.revision)}
    return Entry(change.entry.key, {**change.previous.data, "metadata": metadata}, change.entry.revision)


def open_watch(store: Store, target: Target, request: Request, deliver: Deliver) -> Watch:
    """Start a watch.

    Raises ApiError 400 or 422.
    """
    query = request.query
    _check_options(request)
    fields = query.get("fieldSelector", "")
    if target.name:
        fields = ",".join(filter(None, (fields, f"metadata.name={target.name}")))
    match = selector(target.type, query.get("labelSelector", ""), fields)
    watch = Watch(store=store, target=target, match=match, deliver=deliver)
    revision = request.number("resourceVersion") or 0
    asked = query.get("sendInitialEvents")
    if request.flag("sendInitialEvents"):
        watch.start_now(initial_events=True, end_mark=request.flag("allowWatchBookmarks"))
    elif revision:
        watch.start_after(revision)
    else:
        watch.start_now(initial_events=asked is None, end_mark=False)
    return watch


def _check_options(request: Request) -> None:
    asked, how = "sendInitialEvents" in request.query, request.query.get("resourceVersionMatch", "")
    why = ""
    if how and not asked:
        why = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    elif asked and how != "NotOlderThan":
        why = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    if why:
        raise errors.invalid(_LIST_OPTIONS, "", [Cause("FieldValueForbidden", why, "resourceVersionMatch")])
