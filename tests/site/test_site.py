"""The documentation site is built without a warning, and its reference pages have what the code has."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from phalanx.cli.commands import commands_for

from docs.site import links, reference
from tests.crds.files import definitions, subschemas, version

ROOT = Path(__file__).resolve().parents[2]


def build(folder: Path, *, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    """Build the site. Without `--quiet`, with which MkDocs does not count the warnings."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. A broken link or anchor, or a page that no navigation names, is an error."""
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_every_page_of_the_documentation_is_in_the_navigation(site: Path) -> None:
    home = (site / "index.html").read_text()
    pages = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")]
    assert len(pages) > 20
    assert [page for page in pages if f'href="{page}"' not in home and str(page) != "index.html"] == []


@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_the_site_loads_nothing_from_other_sites(site: Path) -> None:
    loaded = re.compile(
        r'<(?:script|img|iframe)[^>]* src="?(https?:[^" >]*)|<link[^>]*rel="?stylesheet"?[^>]*https?:'
    )
    assert [page for page in site.rglob("*.html") if loaded.search(page.read_text())] == []


@pytest.mark.parametrize("kind", ["PodGroup", "Queue", "Topology"])
def test_the_page_of_a_kind_has_every_field(kind: str) -> None:
    page = reference.pages()[f"reference/{kind.lower()}.md"]
    properties = version(kind)["schema"]["openAPIV3Schema"]["properties"]
    fields = {
        path.removesuffix("[]").removesuffix("{}")
        for part in {"spec", "status"} & properties.keys()
        for path, _ in subschemas(properties[part], part)
    }
    assert len(fields) > 2
    assert fields == set(re.findall(r"^\| `([^`]*)` \| [a-z]", page, re.MULTILINE)) - {""}
    assert definitions().keys() == {"PodGroup", "Queue", "Topology"}


def test_the_page_of_the_command_line_has_every_command() -> None:
    page = reference.pages()["reference/command-line.md"]
    assert set(commands_for([])) == set(re.findall(r"^## phalanx ([\w-]+)$", page, re.MULTILINE))
    assert "`--filename, -f STR...`" in page


def test_a_link_that_leaves_the_documentation_leads_to_a_copy_in_the_site() -> None:
    text = "[a](../README.md) [b](../bench/README.md#x) [c](../crds/examples) [d](objects.md) [e](../none)"
    assert links.linked_files({"docs/how.md": text}, ROOT) == {"README.md"}
    assert links.rewritten(text, "docs/how.md", "how.md", ROOT) == (
        "[a](repository/README.md.txt) [b](benchmarks/methods.md#x) [c] [d](objects.md) [e](../none)"
    )
    assert links.rewritten("[a](base/config.yaml)", "deploy/README.md", "how-to/install.md", ROOT) == (
        "[a](../repository/deploy/base/config.yaml)"
    )


@pytest.mark.slow
def test_a_broken_link_and_a_broken_anchor_fail_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Home\n\n[a](none.md) [b](#none) [c](/absolute.md)\n")
    config = tmp_path / "mkdocs.yml"
    own = f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: docs\nsite_dir: site\nhooks: []\nnav: [index.md]\n"
    config.write_text(own)
    done = build(tmp_path / "site", config=config)
    assert done.returncode == 1
    assert done.stderr.count("WARNING") == 3
