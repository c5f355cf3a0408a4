"""Checks of boards and alert rules that need no program, so that they run without `make monitoring`."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from phalanx.observe.metrics import Metrics
from prometheus_client import Counter, Gauge, Histogram

from tests.deploy.manifests import REPOSITORY, Document, kustomization
from tests.monitoring.alert_cases import CASES
from tests.monitoring.programs import ALERTS, BOARDS, FOLDER, rules

PAGE = (REPOSITORY / "docs" / "observe.md").read_text()
SUFFIXES: dict[type, tuple[str, ...]] = {
    Counter: ("_total",),
    Gauge: ("",),
    Histogram: ("_bucket", "_sum", "_count"),
}
PROCESS = {"process_cpu_seconds_total": (), "process_resident_memory_bytes": ()}
TARGET = {"job", "instance", "namespace"}
UNITS = {"short", "s", "bytes", "percentunit", "ops", "opm", "reqps"}
PANELS_MAX = 13


@cache
def samples() -> dict[str, tuple[str, ...]]:
    """The labels of every sample that the scheduler exports."""
    found: dict[str, tuple[str, ...]] = dict(PROCESS)
    for collector in Metrics().registry._collector_to_names:
        for kind, suffixes in SUFFIXES.items():
            if isinstance(collector, kind):
                assert isinstance(collector, Counter | Gauge | Histogram)
                found |= {collector._name + suffix: tuple(collector._labelnames) for suffix in suffixes}
    return found


def panels(board: Path) -> list[Document]:
    found: list[Document] = json.loads(board.read_text())["panels"]
    return found


def expressions() -> list[str]:
    of_boards = [target["expr"] for board in BOARDS for each in panels(board) for target in each["targets"]]
    return [*of_boards, *(rule["expr"] for rule in rules())]


def test_expressions_name_metrics_and_labels_that_exist() -> None:
    for expression in expressions():
        named = re.findall(r"\b((?:phalanx|process)_\w+)(?:\{([^}]*)\})?", expression)
        assert named, expression
        for name, selectors in named:
            assert name in samples(), expression
            labels = set(re.findall(r"(\w+)\s*=", selectors))
            assert labels <= {*samples()[name], *TARGET}, expression
        groups = " ".join(re.findall(r"\b(?:by|on) \(([^)]*)\)", expression))
        known = {label for name, _ in named for label in samples()[name]}
        assert set(re.findall(r"\w+", groups)) <= {*known, *TARGET, "le"}, expression


def test_the_tests_of_alerts_use_metrics_and_labels_that_exist() -> None:
    for case in CASES:
        for series in case.series:
            name, labels = series.partition("{")[0], re.findall(r"(\w+)=", series)
            assert name in samples(), series
            assert set(labels) <= {*samples()[name], "instance", "le"}, series


def test_each_alert_has_a_test_and_a_row_of_the_page() -> None:
    severities = {rule["alert"]: rule["labels"]["severity"] for rule in rules()}
    assert {case.alert for case in CASES} == severities.keys()
    assert dict(re.findall(r"^\| `(Phalanx\w+)` \| (\w+) \|", PAGE, re.MULTILINE)) == severities


def test_each_alert_says_what_has_happened_and_what_to_look_at() -> None:
    for rule in rules():
        assert rule["annotations"].keys() == {"summary", "description"}
        assert all(text.endswith(".") for text in rule["annotations"].values()), rule["alert"]


def test_the_object_of_the_prometheus_operator_has_the_same_rules() -> None:
    rule = yaml.safe_load((FOLDER / "prometheus-rule.yaml").read_text())
    assert rule["spec"] == yaml.safe_load(ALERTS.read_text())


def test_the_component_names_every_file_of_its_folder() -> None:
    component = kustomization(FOLDER)
    (boards,) = component["configMapGenerator"]
    assert {*component["resources"], *boards["files"], ALERTS.name, "kustomization.yaml"} == {
        path.name for path in FOLDER.iterdir()
    }
    assert sorted(boards["files"]) == [board.name for board in BOARDS]


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.stem)
def test_each_panel_can_be_understood_alone(board: Path) -> None:
    document, found = json.loads(board.read_text()), panels(board)
    assert document["uid"] == f"phalanx-{board.stem}"
    assert f"`{board.name}`" in PAGE
    assert len(found) <= PANELS_MAX
    assert [panel["id"] for panel in found] == list(range(1, len(found) + 1))
    assert len({panel["title"] for panel in found}) == len(found)
    for panel in found:
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        assert all(target["legendFormat"] for target in panel["targets"]), panel["title"]


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.stem)
def test_variables_of_queries_are_declared_and_panels_do_not_overlap(board: Path) -> None:
    declared = {each["name"] for each in json.loads(board.read_text())["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", board.read_text()))
    assert used == declared
    cells: set[tuple[int, int]] = set()
    for panel in panels(board):
        at: dict[str, Any] = panel["gridPos"]
        mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not mine & cells, panel["title"]
        assert at["x"] + at["w"] <= 24
        cells |= mine
