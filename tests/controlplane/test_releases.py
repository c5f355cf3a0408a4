"""Control planes of earlier releases of Kubernetes: which there are, and where their programs come from."""

from pathlib import Path

import pytest
from phalanx_controlplane import releases
from phalanx_controlplane.binaries import PACKAGES, BinariesMissing
from phalanx_controlplane.components import Places, Settings, command_lines

from tests import fake_go

GUARD = "podgroup-protection-controller"
PORTS = ("etcd", "etcd_peer", "apiserver", "controller_manager", "scheduler", "kwok")


def test_the_newest_release_comes_last() -> None:
    assert releases.known() == ("1.34", "1.35", "1.36", "1.37")
    assert releases.newest() == "1.37"


def test_the_environment_names_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(releases.VARIABLE, raising=False)
    assert releases.chosen() == "1.37"
    monkeypatch.setenv(releases.VARIABLE, "1.34")
    assert releases.chosen() == "1.34"
    monkeypatch.setenv(releases.VARIABLE, "1.3")
    with pytest.raises(BinariesMissing, match=r"1\.3 is none of 1\.34, .* \(see PHALANX_KUBERNETES\)"):
        releases.chosen()


def test_an_earlier_release_brings_the_programs_that_have_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = tmp_path / "kustomize" / "stage" / "pod" / "fast" / "pod-ready.yaml"
    stage.parent.mkdir(parents=True)
    stage.write_text("kind: Stage\n")
    fake_go.install(tmp_path, monkeypatch, source=tmp_path)
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    newest = releases.find_or_build_release("1.37", progress=lambda _line: None)
    (tmp_path / "journal").unlink()
    lines: list[str] = []
    earlier = releases.find_or_build_release("1.34", progress=lines.append)
    journal = (tmp_path / "journal").read_text()
    assert journal.count("build ") == len(releases.PROGRAMS)
    assert "gitVersion=v1.34." in journal
    assert any("1.34" in line for line in lines)
    assert earlier.stages == newest.stages
    differing = {name for name in PACKAGES if earlier.programs[name] != newest.programs[name]}
    assert differing == set(releases.PROGRAMS)
    (tmp_path / "journal").unlink()
    assert releases.find_or_build_release("1.34", progress=lambda _line: None) == earlier
    assert not (tmp_path / "journal").exists()


@pytest.mark.parametrize(("minor", "has_guard"), [(36, False), (37, True)])
def test_controllers_that_a_release_lacks_are_not_named(minor: int, has_guard: bool, tmp_path: Path) -> None:
    places = Places(run=tmp_path, **{f"{name}_port": number for number, name in enumerate(PORTS)})
    lines = command_lines(places, settings=Settings(kwok=False), stages=tmp_path, minor=minor)
    controllers = next(flag for flag in lines["kube-controller-manager"] if flag.startswith("--controllers="))
    assert "job-controller" in controllers
    assert (GUARD in controllers) == has_guard
