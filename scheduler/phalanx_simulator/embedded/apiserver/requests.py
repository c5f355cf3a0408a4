"""A request to the API server; its path gives resource, object and subresource."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from phalanx_simulator.embedded.apiserver.errors import bad_request, no_such_path
from phalanx_simulator.embedded.apiserver.kinds import ResourceType, Types
from phalanx_simulator.embedded.store import Object


class Request(Struct, frozen=True):
    """One HTTP request without its transport."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: bytes = b""
    content_type: str = "application/json"

    @property
    def is_watch(self) -> bool:
        """Whether the answer is a stream."""
        return self.method == "GET" and self.flag("watch")

    def flag(self, name: str) -> bool:
        """A query parameter that is true or 1."""
        return self.query.get(name, "") in ("true", "1", "True")

    def number(self, name: str) -> int | None:
        """An integer query parameter; None when absent or empty.

        Raises ApiError 400.
        """
        text = self.query.get(name, "")
        if not text:
            return None
        try:
            return int(text)
        except ValueError:
            raise bad_request(f"{name} must be a whole number, not {text!r}") from None

    def json(self) -> Object:
        """The body as a JSON object; null means absent. Raises ApiError 400."""
        found = self.any_json()
        if not isinstance(found, dict):
            raise bad_request("the body of the request must be a JSON object")
        try:
            return _without_nulls(found) if b"null" in self.body else found
        except RecursionError:
            raise bad_request("the object provided is nested too deeply") from None

    def any_json(self) -> object:
        """The body as JSON. Raises ApiError 400."""
        try:
            return msgspec.json.decode(self.body)
        except (ValueError, RecursionError) as error:
            raise bad_request(f"the object provided is unrecognized: {error}") from None


_WRITTEN_AS_NULL: Final = "lastProbeTime"
"""The real server itself writes this field as null."""


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: item for name, item in value.items() if item is not None or name == _WRITTEN_AS_NULL}
        return {name: _without_nulls(item) for name, item in kept.items()}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


class Target(Struct, frozen=True):
    """The target of a path.

    An empty `namespace` means cluster scope or all namespaces, an empty `name` the collection.
    """

    type: ResourceType
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target_of(path: str, types: Types) -> Target:
    """Read a resource path. Raises ApiError 404 where nothing is served."""
    group, version, rest = _split_version(path)
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and types.find(group, version, rest[2]) is not None:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = _pad(rest)
    kind = types.find(group, version, plural)
    if kind is None or bool(namespace) > kind.namespaced:
        raise no_such_path()
    if name and kind.namespaced and not namespace:
        raise no_such_path()
    return Target(kind, namespace, name, subresource)


def _split_version(path: str) -> tuple[str, str, list[str]]:
    parts = [part for part in path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        return "", parts[1], parts[2:]
    if len(parts) >= 4 and parts[0] == "apis":
        return parts[1], parts[2], parts[3:]
    raise no_such_path()


def _pad(rest: list[str]) -> tuple[str, str, str]:
    if len(rest) > 3:
        raise no_such_path()
    plural, name, subresource = [*rest, "", "", ""][:3]
    return plural, name, subresource
