"""Texts in YAML or JSON as documents: one for each object, lists of any kind taken apart, nulls left out."""

from collections.abc import Hashable, Iterator
from typing import Any, Final

import msgspec
import yaml
from msgspec import Struct

from phalanx.cli.exits import BadInput
from phalanx.cli.manifests.findings import shortened, shown
from phalanx.cli.manifests.sources import Source
from phalanx.limits import MANIFEST_VALUES_MAX

_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Document(Struct, frozen=True):
    """One object as it was written, where it was found, and its place among all documents."""

    source: str
    place: str
    value: dict[str, Any]

    @property
    def kind(self) -> str:
        """The kind as written, empty when there is none."""
        return self.text("kind")

    @property
    def api_version(self) -> str:
        """The API version as written, empty when there is none."""
        return self.text("apiVersion")

    def text(self, field: str) -> str:
        """A top-level field if it is a string."""
        value = self.value.get(field)
        return value if isinstance(value, str) else ""

    def __str__(self) -> str:
        """`FILE: Kind namespace/name`, with as much of it as is known, else which document of the file."""
        metadata = self.value.get("metadata")
        parts = [metadata.get(key) for key in ("namespace", "name")] if isinstance(metadata, dict) else []
        name = "/".join(shortened(part) for part in parts if isinstance(part, str) and part)
        kind = shortened(self.kind)
        who = f"{kind} {name}" if kind and name else f"{self.place}{kind and f' ({kind})'}"
        return f"{self.source}: {who}"


def parse(source: Source) -> Iterator[Document]:
    """The objects of one text, in their order. Raises BadInput; a text without any document is bad input."""
    budget = _Budget()
    is_empty = True
    for number, value in enumerate(_values(source), start=1):
        if value is None:
            continue
        is_empty = False
        try:
            cleaned = budget.without_nulls(value)
        except (RecursionError, OverflowError) as error:
            found = "one that is nested or repeated without end"
            raise BadInput(
                f"{source.name}: document {number}: expected a document of reasonable size, found {found}"
            ) from error
        yield from _objects(_document(source.name, f"document {number}", cleaned))
    if is_empty:
        raise BadInput(f"{source.name}: expected Kubernetes objects, found an empty file")


def _values(source: Source) -> Iterator[Any]:
    """JSON is tried first where it could be: it is many times faster to read, and YAML includes it."""
    if source.text.lstrip()[:1] in ("{", "["):
        try:
            yield msgspec.json.decode(source.text)
            return
        except msgspec.DecodeError:
            pass
        except RecursionError as error:
            raise BadInput(f"{source.name}: expected YAML or JSON, found: {error}") from error
    try:
        yield from yaml.load_all(source.text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise BadInput(f"{source.name}: {at}expected YAML or JSON, found: {error.problem}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadInput(f"{source.name}: expected YAML or JSON, found: {error}") from error


def _document(source: str, place: str, value: Any) -> Document:
    if not isinstance(value, dict):
        found = shown(value)
        raise BadInput(f"{source}: {place}: expected an object with apiVersion and kind, found {found}")
    return Document(source, place, value)


def _objects(document: Document) -> Iterator[Document]:
    """The document itself, or the items of a List; items of a PodList need not say that they are pods."""
    items = document.value.get("items")
    if not document.kind.endswith("List") or not isinstance(items, list):
        yield document
        return
    implied = {"apiVersion": document.api_version, "kind": document.kind.removesuffix("List")}
    implied = implied if implied["kind"] else {}
    for position, item in enumerate(items):
        value = {**implied, **item} if isinstance(item, dict) else item
        yield from _objects(_document(document.source, f"{document.place}, items[{position}]", value))


class _Budget:
    """Bounds what YAML's aliases can blow up: each value counts as often as it is used."""

    def __init__(self) -> None:
        self._left = MANIFEST_VALUES_MAX

    def without_nulls(self, value: Any) -> Any:
        """A copy in which a field that is null is absent, as the API server reads it.

        Numbers beyond 64 bits become text: no field holds one, and as amounts both are the same.
        """
        self._left -= 1
        if self._left < 0:
            raise OverflowError
        if isinstance(value, dict):
            return {key: self.without_nulls(each) for key, each in value.items() if each is not None}
        if isinstance(value, list):
            return [self.without_nulls(each) for each in value]
        if isinstance(value, int) and not _INT64_MIN <= value <= _INT64_MAX:
            return str(value)
        return value


class _Loader(_BaseLoader):  # type: ignore[misc]
    """Reads YAML as Kubernetes does: times stay text, keys are text, a key given twice is an error."""

    yaml_implicit_resolvers: Final = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Check before the base class would keep the last of two equal keys."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a key that is not a word", problem_mark=key.start_mark)
            if key.value in seen and key.value != "<<":
                raise yaml.MarkedYAMLError(problem=f"{key.value} twice", problem_mark=key.start_mark)
            seen.add(key.value)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return {_as_text(key): value for key, value in mapping.items()}


def _as_text(key: Hashable) -> str:
    """Keys such as 1 and true are numbers and truth values to YAML, and text to Kubernetes."""
    return ("false", "true")[key] if isinstance(key, bool) else str(key)
