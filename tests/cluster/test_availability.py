"""Where there can be no real nodes, one line says why; what is broken in this checkout is never skipped."""

from pathlib import Path

import pytest
from phalanx_controlplane.nodes import programs
from phalanx_controlplane.nodes.programs import ProgramsMissing

from deploy.image import build
from deploy.image.storage import CannotBuild
from tests.cluster import availability
from tests.cluster.availability import Unavailable

APT = """`mmdebstrap` failed:
I: running apt-get update...
W: Failed to fetch http://deb.debian.org/debian/InRelease  Temporary failure resolving 'deb.debian.org'
E: Unable to locate package python3"""
PIP = """`buildah` failed:
WARNING: Retrying after connection broken by 'NewConnectionError(Failed to connect)': /simple/
ERROR: No matching distribution found for hatchling==1.27.0"""
GO = """`go build` failed in deploy/nodes/kubernetes:
k8s.io/kubernetes@v1.37.1: Get "https://proxy.golang.org/": dial tcp: lookup proxy.golang.org: no such host"""


@pytest.fixture(autouse=True)
def everything_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (programs, build):
        monkeypatch.setattr(module, "missing", lambda: "")
    monkeypatch.setattr(availability, "untried", lambda: "")


def failing(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    def fail(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(programs, "find_or_build", fail)


@pytest.mark.parametrize(
    ("failure", "line"),
    [(CannotBuild(APT), 2), (CannotBuild(PIP), 1), (ProgramsMissing(GO), 1)],
    ids=["apt", "pip", "go"],
)
def test_without_a_network_the_line_of_the_program_says_so(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, line: int
) -> None:
    failing(monkeypatch, failure)
    with pytest.raises(Unavailable) as raised:
        availability.prepare(print)
    expected = str(failure).splitlines()[line]
    assert str(raised.value) == f"not built before, and there is no network: {expected}"


def test_a_broken_build_is_not_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, CannotBuild("`buildah` failed:\nSyntaxError: invalid syntax"))
    with pytest.raises(CannotBuild):
        availability.prepare(print)


def test_a_missing_package_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "missing", lambda: "not installed: buildah")
    with pytest.raises(Unavailable, match=r"^not installed: buildah$"):
        availability.prepare(print)


def test_control_groups_of_version_2_are_left_to_those_who_ask(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()
    assert availability.untried(tmp_path) == ""
    (tmp_path / "cgroup.controllers").touch()
    assert availability.untried(tmp_path) != ""
