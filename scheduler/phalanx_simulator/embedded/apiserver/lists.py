"""Lists: selectors, pages of one revision, and the encoded answer."""

import base64
from typing import Any

import msgspec
from msgspec import Struct

from phalanx_simulator.embedded.apiserver import errors
from phalanx_simulator.embedded.apiserver.events import is_core_event, shown
from phalanx_simulator.embedded.apiserver.kinds import ResourceType
from phalanx_simulator.embedded.apiserver.requests import Request, Target
from phalanx_simulator.embedded.apiserver.selectors import everything, selector
from phalanx_simulator.embedded.store import Compacted, Entry, Store

_CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter."
)


class Token(Struct):
    """Continuation: the next page starts after path `after`, at the first page's revision."""

    revision: int
    after: str

    def encode(self) -> str:
        """The value of metadata.continue."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode()


class Page(Struct, frozen=True):
    """One answer to a list: `remaining` is None where selectors make it unknown."""

    entries: list[Entry]
    revision: int
    token: str = ""
    remaining: int | None = None


def wire(kind: ResourceType, entry: Entry) -> bytes:
    """An object as answers and watch events show it, with apiVersion and kind."""
    encoded = _encoded(kind, entry)
    if kind.custom:
        return encoded
    return f'{{"kind":"{kind.kind}","apiVersion":"{kind.api_version}",'.encode() + encoded[1:]


def _encoded(kind: ResourceType, entry: Entry) -> bytes:
    return msgspec.json.encode(shown(kind, entry.data)) if is_core_event(kind) else entry.encoded


def encode_page(kind: ResourceType, page: Page) -> bytes:
    """The encoded List.

    Items of built-in kinds carry no apiVersion and kind, as in kube-apiserver.
    """
    metadata: dict[str, Any] = {"resourceVersion": str(page.revision)}
    if page.token:
        metadata["continue"] = page.token
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
    head = f'{{"kind":"{kind.kind}List","apiVersion":"{kind.api_version}","metadata":'.encode()
    items = b",".join([_encoded(kind, entry) for entry in page.entries])
    return b"".join((head, msgspec.json.encode(metadata), b',"items":[', items, b"]}"))


def list_page(store: Store, target: Target, request: Request) -> Page:
    """The objects of a list request.

    Raises ApiError 400, 410 or 504.
    """
    if request.query.get("continue"):
        token = _decode_token(request.query["continue"])
        return _page(store, target, request, at=token.revision, after=token.after)
    return _page(store, target, request, at=_exact_revision(store, request))


def _page(store: Store, target: Target, request: Request, *, at: int | None, after: str = "") -> Page:
    query = request.query
    match = selector(target.type, query.get("labelSelector", ""), query.get("fieldSelector", ""))
    entries = _entries(store, target, at=at, is_continued=bool(after))
    if after:
        entries = [entry for entry in entries if entry.key.path > after]
    if match is not everything:
        entries = [entry for entry in entries if match(entry.data)]
    revision = store.revision if at is None else at
    limit = request.number("limit") or len(entries)
    if len(entries) <= limit:
        return Page(entries, revision)
    token = Token(revision, entries[limit - 1].key.path).encode()
    remaining = len(entries) - limit if match is everything else None
    return Page(entries[:limit], revision, token, remaining)


def _entries(store: Store, target: Target, *, at: int | None, is_continued: bool) -> list[Entry]:
    try:
        return store.entries(target.type.resource, target.namespace, at=at)
    except Compacted as compacted:
        if is_continued:
            raise errors.expired(_CONTINUE_TOO_OLD) from None
        raise errors.too_old_resource_version(at or 0, compacted.oldest) from None


def _exact_revision(store: Store, request: Request) -> int | None:
    """The revision to read at, None for the latest.

    A limit with a resourceVersion reads at exactly that version.
    """
    revision = request.number("resourceVersion") or 0
    if revision > store.revision:
        raise errors.too_large_resource_version(revision, store.revision)
    how = request.query.get("resourceVersionMatch", "")
    exact = how == "Exact" or (not how and request.number("limit"))
    return revision if revision and exact else None


def _decode_token(text: str) -> Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text), type=Token)
    except ValueError:
        raise errors.bad_request("continue key is not valid: it was not made by this server") from None
