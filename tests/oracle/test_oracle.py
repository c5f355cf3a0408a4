"""The nodes that Phalanx finds for a single pod are those of kube-scheduler's own Filter plugins."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from phalanx.framework.config import SchedulerConfig
from phalanx_controlplane import go_modules
from phalanx_controlplane.programs import ProgramMissing

from tests import fake_go
from tests.examples import holds
from tests.oracle.build import main
from tests.oracle.cluster_rows import ROWS, Row, space_for_one_claim
from tests.oracle.clusters import POD, Case, cases
from tests.oracle.comparison import compare, opinion
from tests.oracle.plugins import PROGRAM, Answer, Plugins, require_program

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@holds(25, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_random_clusters(plugins: Plugins, case: Case) -> None:
    found = compare(plugins, case.objects, POD, hard_weight=case.hard_weight)
    assert not found.problem


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_cluster(plugins: Plugins, row: Row) -> None:
    """Each plugin refuses what it must, so the oracle does not pass everything, and Phalanx agrees."""
    found = compare(plugins, row.objects, POD)
    assert not found.answer.error
    assert not found.problem
    assert not found.left_out or row.unsupported
    assert found.answer.feasible == row.feasible
    assert found.costs == row.costs
    assert {each.plugin for each in found.answer.refused.values()} == set(row.plugins)


def test_claims_that_fit_published_space_one_by_one_are_left_out(plugins: Plugins) -> None:
    """kube-scheduler accepts the node, where only one of the volumes can be provisioned."""
    objects = space_for_one_claim()
    found = compare(plugins, objects, POD)
    assert found.answer.feasible == ("b",)
    assert found.left_out == "its claims fit the published space one by one, not together"
    assert opinion(objects, POD, SchedulerConfig()).feasible == ()


def test_what_the_api_server_refuses_is_an_error(plugins: Plugins) -> None:
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "asker", "namespace": "default"},
        "spec": {"containers": []},
    }
    answer = plugins.ask([pod], POD)
    assert "spec.containers: Required value" in answer.error
    assert plugins.ask([], POD) == Answer(error='no object is the pod "default/asker" to be placed')


def test_the_versions_are_those_of_the_control_plane() -> None:
    pinned = _versions(ROOT / "deploy" / "controlplane" / "go.mod")
    assert pinned.items() >= _versions(PROGRAM.module / "go.mod").items()


def _versions(go_mod: Path) -> dict[str, str]:
    lines = (line.split() for line in go_mod.read_text().splitlines() if line.startswith("\t"))
    return {words[0]: words[1] for words in lines if len(words) > 1}


def test_changed_sources_are_another_build(tmp_path: Path) -> None:
    for file in ("go.mod", "go.sum", "main.go"):
        (tmp_path / file).write_text("")
    before = go_modules.cache_folder(tmp_path, name="oracle")
    (tmp_path / "main.go").write_text("package main\n")
    assert go_modules.cache_folder(tmp_path, name="oracle") != before


@pytest.fixture
def no_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is built, and there is no Go."""
    fake_go.install(tmp_path, monkeypatch, source=tmp_path).unlink()


@pytest.mark.usefixtures("no_go")
@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_without_go_tests_are_skipped_but_fail_in_ci(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no oracle"):
        require_program()


@pytest.mark.usefixtures("no_go")
@pytest.mark.parametrize(("ci", "code"), [("true", 2), ("", 0)])
def test_without_go_the_build_says_so_in_one_line(
    ci: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CI", ci)
    assert main() == code
    assert capsys.readouterr().err.count("\n") == 1


def test_a_failed_build_is_an_error_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = fake_go.install(tmp_path, monkeypatch, source=tmp_path)
    tool.write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    monkeypatch.setenv("CI", "")
    assert main() == 2
    assert "no such module" in capsys.readouterr().err
    with pytest.raises(ProgramMissing):
        PROGRAM.built()
