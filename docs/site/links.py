"""Links of pages to files of the repository outside of docs/.

The repository has no public address, so the site holds a copy of each file that a page links to.
"""

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

PAGES: Final = {
    "deploy/README.md": "how-to/install.md",
    "bench/README.md": "benchmarks/methods.md",
    "scheduler/README.md": "development/code.md",
    "CONTRIBUTING.md": "development/contributing.md",
}
"""Pages from outside of docs/: their place in the repository and in the site."""

_LINK: Final = re.compile(r"\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def place(source: str) -> str:
    """Where the site has a file of the repository; Markdown that is no page of the site is shown as text."""
    if source.startswith("docs/"):
        return source.removeprefix("docs/")
    if source in PAGES:
        return PAGES[source]
    return f"repository/{source}" + (".txt" if source.endswith(".md") else "")


def linked_files(pages: Mapping[str, str], repository: Path) -> set[str]:
    """The files outside of docs/ that these pages link to; pages by their place in the repository."""
    targets = {_target(source, link[0]) for source, text in pages.items() for link in _LINK.findall(text)}
    return {
        target
        for target in targets - PAGES.keys()
        if not target.startswith("docs/") and (repository / target).is_file()
    }


def rewritten(text: str, source: str, at: str, repository: Path) -> str:
    """The text of a page with the links of the site: `source` in the repository, `at` in the site.

    A link to a folder becomes its text. A link to nothing stays, and a strict build fails.
    """

    def replace(match: re.Match[str]) -> str:
        target, anchor = _target(source, match[1]), match[2] or ""
        if (repository / target).is_file():
            return f"]({posixpath.relpath(place(target), posixpath.dirname(at) or '.')}{anchor})"
        return "]" if (repository / target).is_dir() else match[0]

    return _LINK.sub(replace, text)


def _target(source: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
