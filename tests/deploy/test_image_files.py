"""What the image is built from fits together. `tests/cluster` builds it and looks inside."""

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy.manifests import DEPLOY, REPOSITORY

DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
PINNED = re.compile(r"^([\w.-]+)==(\S+) \\$", re.MULTILINE)


def sent() -> set[str]:
    """What Docker sends to the build: the ignore file names it again with an exclamation mark."""
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    return {line[1:] for line in lines if line.startswith("!")}


def is_sent(path: str) -> bool:
    return any(path == each or path.startswith(f"{each}/") for each in sent())


def test_what_is_sent_to_the_build_exists() -> None:
    assert [path for path in sent() if not (REPOSITORY / path).exists()] == []


def test_what_the_dockerfile_copies_is_sent() -> None:
    lines = [line.split() for line in DOCKERFILE.splitlines() if line.startswith("COPY ")]
    copied = {path for words in lines if "--from=" not in words[1] for path in words[1:-1]} - {"."}
    assert copied
    assert [path for path in copied if not is_sent(path)] == []


def test_what_the_wheel_consists_of_is_sent() -> None:
    """Otherwise the wheel cannot be built in the image."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = ["pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]]
    assert [
        path for path in (*needed, *wheel["packages"], *wheel["force-include"]) if not is_sent(path)
    ] == []


def test_the_pinned_versions_are_those_that_the_project_allows() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    pinned = {
        canonicalize_name(name): version
        for name, version in PINNED.findall((DEPLOY / "image" / "requirements.txt").read_text())
    }
    for text in (*project["dependencies"], *project["optional-dependencies"]["uvloop"]):
        wanted = Requirement(text)
        assert wanted.specifier.contains(pinned[canonicalize_name(wanted.name)]), text


def test_the_base_is_pinned_by_its_digest() -> None:
    assert re.search(r"^ARG BASE=python:3\.11\S*@sha256:[0-9a-f]{64}$", DOCKERFILE, re.MULTILINE)
