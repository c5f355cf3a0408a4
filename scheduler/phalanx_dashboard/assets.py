"""The files that the browser loads. They are part of the package, so that installing needs no Node."""

from collections.abc import Mapping
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from msgspec import Struct

_TYPES: Final = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "mjs": "text/javascript",
    "svg": "image/svg+xml",
}


class Asset(Struct, frozen=True):
    content: bytes
    content_type: str
    etag: str


def read_assets(folder: Traversable | None = None) -> Mapping[str, Asset]:
    """The files by path, such as `pages/gangs.js`: those of the package, unless there is a folder."""
    return dict(_read(folder or files("phalanx_dashboard") / "assets", ""))


def _read(folder: Traversable, path: str) -> list[tuple[str, Asset]]:
    found: list[tuple[str, Asset]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _read(entry, f"{path}{entry.name}/")
        elif (kind := _TYPES.get(entry.name.rpartition(".")[2])) is not None:
            found.append((path + entry.name, asset(entry.read_bytes(), kind)))
    return found


def asset(content: bytes, content_type: str) -> Asset:
    """A file with the tag of its content."""
    return Asset(content, content_type, blake2b(content, digest_size=12).hexdigest())
