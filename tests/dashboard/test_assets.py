"""The files that the browser loads are complete, ours or of a known origin, and show names as text."""

import hashlib
import json
import re
from pathlib import Path

import phalanx_dashboard
import pytest

ASSETS = Path(phalanx_dashboard.__file__).parent / "assets"
VENDOR = ASSETS / "vendor"
OURS = sorted(path for path in ASSETS.rglob("*.js"))
FILES = [*OURS, *sorted(ASSETS.rglob("*.mjs")), ASSETS / "index.html", *sorted(ASSETS.rglob("*.css"))]
REFERENCE = re.compile(
    r"""(?:from|import)\s*\(?\s*['"]([^'"]+)['"]|(?:src|href)="(/assets/[^"]+)"|url\("([^"]+)"\)"""
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_reference_leads_to_a_file_of_the_package(path: Path) -> None:
    for found in REFERENCE.findall(path.read_text()):
        name = next(filter(None, found))
        if name.startswith(("/assets/", ".")):
            target = ASSETS / name.removeprefix("/assets/") if name.startswith("/") else path.parent / name
            assert target.resolve().is_file(), name
        else:
            pytest.fail(f"{name} is not ours")


def test_files_of_others_are_what_their_packages_have() -> None:
    sources = json.loads((VENDOR / "sources.json").read_text())
    files = {path.name for path in VENDOR.iterdir() if path.suffix in (".mjs", ".css")}
    assert sources.keys() == files
    for name, source in sources.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == source["sha256"]
        assert (VENDOR / f"{source['package']}.LICENSE").is_file()


def test_texts_never_become_markup() -> None:
    """Preact shows what it is given as text, unless somebody uses one of these."""
    ways = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|srcdoc|eval\(|new Function|javascript:"
    )
    assert [path.name for path in OURS if ways.search(path.read_text())] == []


def test_the_start_page_has_no_code_of_its_own() -> None:
    page = (ASSETS / "index.html").read_text()
    assert re.findall(r"<script[^>]*>(?!</script>)|<style|\son\w+=|\sstyle=", page) == []
