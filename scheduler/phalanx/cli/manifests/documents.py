"""Read manifest files into documents: one per object, lists split into their items, null fields removed.

The input is YAML or JSON in files, folders of files, or standard input.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from msgspec import Struct

from phalanx.cli.exits import BadInput
from phalanx.cli.manifests.findings import Finding, inside, shown, shown_name
from phalanx.framework.strict_yaml import FAST_LOADER, StrictConstructor, describe
from phalanx.limits import MANIFEST_VALUES_MAX

STDIN: Final = "-"
_STDIN_NAMES: Final = (STDIN, "/dev/stdin")
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1
_JSON_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*+"(\s*:)?', re.DOTALL)
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"


class Source(Struct, frozen=True):
    """A text, and its name in error messages."""

    name: str
    text: str


def read_sources(names: Sequence[str]) -> tuple[Source, ...]:
    """Read all texts in the given order; a folder stands for its manifests, by name. Raises BadInput."""
    times = sum(name in _STDIN_NAMES for name in names)
    if times > 1:
        raise BadInput(f"{STDIN}: expected standard input once, found it {times} times")
    sources: list[Source] = []
    missing: list[str] = []
    for name in names:
        try:
            sources.extend(_sources(name))
        except BadInput as problem:
            missing.extend(problem.lines)
    if missing:
        raise BadInput(*missing)
    return tuple(sources)


def _sources(name: str) -> Iterator[Source]:
    if name in _STDIN_NAMES:
        yield Source(STDIN, _decoded(STDIN, sys.stdin.buffer.read()))
    elif Path(name).is_dir():
        yield from _folder(Path(name))
    else:
        yield _file(Path(name))


def _folder(folder: Path) -> Iterator[Source]:
    """Yield the manifests directly in the folder, as `kubectl apply -f` does."""
    paths = sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES and path.is_file())
    if not paths:
        raise BadInput(f"{folder}: expected a folder with {', '.join(_SUFFIXES)} files, found none in it")
    yield from map(_file, paths)


def _file(path: Path) -> Source:
    try:
        return Source(str(path), _decoded(str(path), path.read_bytes()))
    except OSError as error:
        raise BadInput(f"{path}: expected a readable file, found: {error.strerror}") from error


def _decoded(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{name}: expected UTF-8 text, found other bytes at offset {error.start}") from error


class Document(Struct, frozen=True):
    """One object as written, with its source and its place there."""

    source: str
    place: str
    value: dict[str, Any]

    @property
    def kind(self) -> str:
        """The kind as written; empty where there is none."""
        return self.text("kind")

    @property
    def api_version(self) -> str:
        """The API version as written; empty where there is none."""
        return self.text("apiVersion")

    def text(self, field: str) -> str:
        """Return a top-level field if it is a string, else an empty string."""
        value = self.value.get(field)
        return value if isinstance(value, str) else ""

    def __str__(self) -> str:
        """Format as `FILE: Kind namespace/name`, as far as known, else by the place in the file."""
        metadata = self.value.get("metadata")
        parts = [metadata.get(key) for key in ("namespace", "name")] if isinstance(metadata, dict) else []
        name = "/".join(shown_name(part) for part in parts if isinstance(part, str) and part)
        kind = shown_name(self.kind)
        label = f"{kind} {name}" if kind and name else f"{self.place}{kind and f' ({kind})'}"
        return f"{self.source}: {label}"


def parse(source: Source) -> Iterator[Document]:
    """Yield the objects of one text in order. Raises BadInput, also for a text without any document."""
    budget = _Budget()
    is_empty = True
    keys = _json_keys(source.text)
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
    if keys > budget.keys:
        raise BadInput(*_repeated_keys(source))


def _values(source: Source) -> Iterator[Any]:
    """Parse the text; JSON is tried first where possible, because YAML is many times slower."""
    if _looks_like_json(source.text):
        try:
            yield msgspec.json.decode(source.text)
            return
        except msgspec.DecodeError:
            pass
        except RecursionError as error:
            raise BadInput(f"{source.name}: expected YAML or JSON, found: {error}") from error
    try:
        yield from yaml.load_all(source.text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        at, problem = describe(error)
        raise BadInput(f"{source.name}: {at}expected YAML or JSON, found: {problem}") from error


def _document(source: str, place: str, value: Any) -> Document:
    if not isinstance(value, dict):
        found = shown(value)
        raise BadInput(f"{source}: {place}: expected an object with apiVersion and kind, found {found}")
    return Document(source, place, value)


def _objects(document: Document) -> Iterator[Document]:
    """Yield the document, or the items of a list; items of a PodList need no kind of their own."""
    items = document.value.get("items")
    if not document.kind.endswith("List") or not isinstance(items, list):
        yield document
        return
    implied = {"apiVersion": document.api_version, "kind": document.kind.removesuffix("List")}
    implied = implied if implied["kind"] else {}
    for position, item in enumerate(items):
        value = {**implied, **item} if isinstance(item, dict) else item
        yield from _objects(_document(document.source, f"{document.place}, items[{position}]", value))


# --- keys that are given twice in JSON ----------------------------------------------------------------------


def _looks_like_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[")


def _json_keys(text: str) -> int:
    """The number of keys in a JSON text as written; 0 for YAML, whose loader refuses repeated keys itself."""
    if not _looks_like_json(text):
        return 0
    return sum(1 for found in _JSON_TEXT.finditer(text) if found[1])


class _Pairs(dict[str, Any]):
    """An object as the JSON decoder returns it, with the keys that it has several times."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]


def _repeated_keys(source: Source) -> list[str]:
    """An error for each key that an object has several times, of which the last one would count."""
    document = _document(source.name, "document 1", json.loads(source.text, object_pairs_hook=_Pairs))
    inside = [
        f"{each}: {Finding(path, 'this key once', 'it again')}"
        for each in _objects(document)
        for path in _paths_of_repeated(each.value, "")
    ]
    return inside or [
        f"{document}: {Finding(path, 'this key once', 'it again')}"
        for path in _paths_of_repeated(document.value, "")
    ]


def _paths_of_repeated(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (inside(path, key) for key in getattr(value, "repeated", ()))
        for key, item in value.items():
            yield from _paths_of_repeated(item, inside(path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths_of_repeated(item, f"{path}[{index}]")


class _Budget:
    """Bounds the expansion of YAML aliases: each value counts as often as it is used."""

    def __init__(self) -> None:
        self._left = MANIFEST_VALUES_MAX
        self.keys = 0
        """The number of keys in all objects."""

    def without_nulls(self, value: Any) -> Any:
        """Return a copy without null fields, as the API server reads it.

        Numbers beyond 64 bits become text: no field holds one, and as quantities both are equal.
        """
        self._left -= 1
        if self._left < 0:
            raise OverflowError
        if isinstance(value, dict):
            self.keys += len(value)
            return {key: self.without_nulls(item) for key, item in value.items() if item is not None}
        if isinstance(value, list):
            return [self.without_nulls(item) for item in value]
        if isinstance(value, int) and not _INT64_MIN <= value <= _INT64_MAX:
            return str(value)
        return value


class _Loader(StrictConstructor, FAST_LOADER):  # type: ignore[misc]
    """Loads YAML as Kubernetes does: times stay text, keys are text, a duplicate key is an error."""

    yaml_implicit_resolvers: Final = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Convert all keys to text."""
        return {_as_text(key): value for key, value in super().construct_mapping(node, deep).items()}


def _as_text(key: Hashable) -> str:
    """Convert a key such as 1 or true, a number or a boolean in YAML, to text as Kubernetes does."""
    return ("false", "true")[key] if isinstance(key, bool) else str(key)
