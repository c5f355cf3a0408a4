"""Events of MkDocs: add generated pages, files from outside of docs/, and pages that `nav` does not name.

`mkdocs.yml` names this file. `python -m mkdocs build --strict` in the folder of the checkout runs it.
"""

from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.site import links, reference

REPOSITORY: Final = Path(__file__).resolve().parents[2]
MORE: Final = "More how-to"
"""The section of `nav` that gets the pages that it does not name."""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are no files of docs/, and every file that a page links to."""
    for path, text in reference.pages().items():
        files.append(File.generated(config, path, content=text))
    for source, path in links.PAGES.items():
        files.append(File.generated(config, path, content=(REPOSITORY / source).read_text()))
    written = {_source(file.src_uri): file.content_string for file in files.documentation_pages()}
    for source in sorted(links.linked_files(written, REPOSITORY)):
        content = (REPOSITORY / source).read_bytes()
        files.append(File.generated(config, links.place(source), content=content))
    named, more = set(_named(config.nav)), _section(config.nav)
    if more is not None:
        more += [file.src_uri for file in files.documentation_pages() if file.src_uri not in named]
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links that leave docs/."""
    return links.rewritten(markdown, _source(page.file.src_uri), page.file.src_uri, REPOSITORY)


def _source(path: str) -> str:
    """Where the text of a page of the site is in the repository."""
    sources = {place: source for source, place in links.PAGES.items()}
    return sources.get(path, f"docs/{path}")


def _named(nav: Any) -> list[str]:
    """All pages that `nav` names."""
    if isinstance(nav, str):
        return [nav]
    children = nav.values() if isinstance(nav, dict) else nav or ()
    return [name for child in children for name in _named(child)]


def _section(nav: Any) -> list[Any] | None:
    """The list of the section MORE, if it is in this part of `nav`."""
    for item in nav:
        for title, children in item.items() if isinstance(item, dict) else ():
            if title == MORE:
                found: list[Any] = children
                return found
            if isinstance(children, list) and (inside := _section(children)) is not None:
                return inside
    return None
