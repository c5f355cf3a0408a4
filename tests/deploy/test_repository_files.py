"""The files by which GitHub and contributors know the project name what exists."""

import re
from pathlib import Path

import pytest
import yaml
from phalanx.cli.commands import commands_for

from tests.deploy.manifests import REPOSITORY

PAGES = ("SECURITY", "CODE_OF_CONDUCT", "GOVERNANCE", "MAINTAINERS", "ROADMAP", "CHANGELOG", "CONTRIBUTING")
GITHUB = REPOSITORY / ".github"


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_to_a_file(page: str) -> None:
    links = re.findall(r"\]\((?!https:)([^)#\s]+)[^)]*\)", (REPOSITORY / f"{page}.md").read_text())
    assert [link for link in links if not (REPOSITORY / link).exists()] == []


@pytest.mark.parametrize("path", sorted(GITHUB.rglob("*.y*ml")), ids=lambda path: path.name)
def test_files_for_github_are_yaml(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_updates_of_dependencies_cover_every_go_module() -> None:
    updates = yaml.safe_load((GITHUB / "dependabot.yml").read_text())["updates"]
    globs = [
        glob for update in updates if update["package-ecosystem"] == "gomod" for glob in update["directories"]
    ]
    covered = {path for glob in globs for path in REPOSITORY.glob(glob.lstrip("/"))}
    assert {path.parent for path in REPOSITORY.glob("deploy/**/go.mod")} <= covered


def test_a_bug_report_asks_for_what_commands_print() -> None:
    text = (GITHUB / "ISSUE_TEMPLATE" / "bug.yaml").read_text()
    named = set(re.findall(r"`phalanx ([a-z-]+)", text))
    assert named
    assert named <= commands_for([]).keys()
