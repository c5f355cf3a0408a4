"""Alert rules with the real promtool, and boards with Grafana's published types: `make monitoring`."""

from pathlib import Path

import pytest
import yaml
from phalanx.model.decisions import CycleResult
from phalanx.observe.metrics import Metrics
from phalanx.observe.ports import ClusterFigures
from prometheus_client import generate_latest

from tests.monitoring.alert_cases import CASES
from tests.monitoring.programs import ALERTS, BOARD_CHECK, BOARDS, PROMTOOL, run

pytestmark = pytest.mark.monitoring


def test_the_rules_are_valid() -> None:
    checked = run(PROMTOOL, "check", "rules", "--lint=all", "--lint-fatal", str(ALERTS))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len({case.alert for case in CASES})} rules found" in checked.stdout


def test_each_alert_fires_by_its_fault_and_not_before(tmp_path: Path) -> None:
    tests = [case.as_test() for case in CASES]
    file = tmp_path / "tests.yaml"
    file.write_text(
        yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "30s", "tests": tests})
    )
    tested = run(PROMTOOL, "test", "rules", str(file))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_names_and_types_of_the_metrics_follow_the_rules_of_prometheus() -> None:
    metrics = Metrics()
    metrics.cycle_finished(CycleResult(cycle=1), seconds=0.1)
    metrics.follow_cluster(lambda: ClusterFigures(nodes={"ready": 1}, free={"cpu": 1}))
    checked = run(PROMTOOL, "check", "metrics", stdin=generate_latest(metrics.registry).decode())
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_the_boards_have_the_published_types_of_grafana(tmp_path: Path) -> None:
    checked = run(BOARD_CHECK, *map(str, BOARDS))
    assert (checked.returncode, checked.stdout) == (0, "")
    wrong = tmp_path / "wrong.json"
    wrong.write_text(BOARDS[0].read_text().replace('"gridPos"', '"gridPosition"', 1))
    refused = run(BOARD_CHECK, str(wrong))
    assert refused.returncode == 1
    assert "gridPosition" in refused.stdout
