"""Where the programs come from, with a fake Go toolchain that only writes empty programs."""

import threading
from pathlib import Path

import pytest
from phalanx_controlplane import binaries
from phalanx_controlplane.binaries import PACKAGES, BinariesMissing

from tests import fake_go
from tests.controlplane_fixture import require_binaries

GO_MOD = "require k8s.io/kubernetes v1.37.1 // indirect\nrequire sigs.k8s.io/kwok v0.8.0\n"


@pytest.fixture
def module(tmp_path: Path) -> Path:
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "go.mod").write_text(GO_MOD)
    (folder / "go.sum").write_text("")
    return folder


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All commands that Go was asked to run; the build finds no other program on PATH."""
    stages = tmp_path / "kwok" / "kustomize" / "stage" / "pod" / "fast"
    stages.mkdir(parents=True)
    (stages / "pod-ready.yaml").write_text("kind: Stage\n")
    (stages / "kustomization.yaml").write_text("")
    fake_go.install(tmp_path, monkeypatch, source=tmp_path / "kwok")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path / "journal"


def test_a_build_makes_all_programs_and_copies_the_stages(module: Path, journal: Path) -> None:
    lines: list[str] = []
    built = binaries.find_or_build(progress=lines.append, module=module)
    assert set(built.programs) == set(PACKAGES)
    assert [path.name for path in sorted(built.stages.glob("pod/fast/*"))] == ["pod-ready.yaml"]
    assert "gitVersion=v1.37.1" in journal.read_text()
    assert any("kube-apiserver" in line for line in lines)


def test_the_second_run_builds_and_prints_nothing(module: Path, journal: Path) -> None:
    first = binaries.find_or_build(progress=lambda _line: None, module=module)
    journal.unlink()
    lines: list[str] = []
    assert binaries.find_or_build(progress=lines.append, module=module) == first
    assert lines == []
    assert not journal.exists()


def test_concurrent_callers_build_once(module: Path, journal: Path) -> None:
    def build() -> None:
        binaries.find_or_build(progress=lambda _line: None, module=module)

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert journal.read_text().count("build ") == len(PACKAGES)


def test_a_changed_module_has_another_folder(module: Path) -> None:
    before = binaries.cache_folder(module=module)
    (module / "go.sum").write_text("example.org/changed v1.0.0 h1:x=\n")
    assert binaries.cache_folder(module=module) != before


@pytest.mark.usefixtures("journal")
def test_a_failed_build_shows_the_output_of_go(module: Path, tmp_path: Path) -> None:
    (tmp_path / "tools" / "go").write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    with pytest.raises(BinariesMissing, match="no such module"):
        binaries.find_or_build(progress=lambda _line: None, module=module)
    assert binaries.find(module=module) is None


def test_without_go_the_error_names_what_to_install(module: Path, journal: Path, tmp_path: Path) -> None:
    (tmp_path / "tools" / "go").unlink()
    with pytest.raises(BinariesMissing, match=r"install Go .* KUBEBUILDER_ASSETS"):
        binaries.find_or_build(progress=lambda _line: None, module=module)
    assert not journal.exists()


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
@pytest.mark.usefixtures("journal")
def test_a_test_without_programs_is_skipped_but_fails_in_ci(
    ci: str, outcome: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tools" / "go").unlink()
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no control plane"):
        require_binaries()


def test_an_incomplete_folder_of_assets_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(BinariesMissing, match="must hold etcd"):
        binaries.find()
