"""The texts that the user named: files, folders of files, standard input."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from phalanx.cli.exits import BadInput

STDIN: Final = "-"
_STDIN_NAMES: Final = (STDIN, "/dev/stdin")
_SUFFIXES: Final = (".yaml", ".yml", ".json")


class Source(Struct, frozen=True):
    """A text and the name under which errors mention it."""

    name: str
    text: str


def read_sources(names: Sequence[str]) -> tuple[Source, ...]:
    """Every text, in the order given; a folder stands for its manifests by name. Raises BadInput."""
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
    """The manifests directly in the folder, as `kubectl apply -f` takes them."""
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
