"""The programs that `make monitoring` runs, built once from Go modules that pin versions.

`python -m tests.monitoring.programs` builds them. The exit code is 2 if one cannot be built.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import yaml
from phalanx_controlplane.programs import Program

from tests.deploy.manifests import DEPLOY, Document
from tests.program_builds import build_all

HERE: Final = Path(__file__).parent
FOLDER: Final = DEPLOY / "monitoring"
ALERTS: Final = FOLDER / "alerts.yaml"
BOARDS: Final = sorted(FOLDER.glob("*.json"))
TIMEOUT_S: Final = 120.0
_SOURCE: Final = "github.com/prometheus/prometheus"
_NO_DISCOVERY: Final = ("remove_all_sd",)
"""Without the clients of all clouds, which are most of the program."""

PROMTOOL: Final = Program(
    name="promtool",
    module=HERE / "prometheus",
    cache="monitoring/promtool",
    source=_SOURCE,
    package=f"{_SOURCE}/cmd/promtool",
    tags=_NO_DISCOVERY,
)
PROMETHEUS: Final = Program(
    name="prometheus",
    module=HERE / "prometheus",
    cache="monitoring/prometheus",
    source=_SOURCE,
    package=f"{_SOURCE}/cmd/prometheus",
    tags=_NO_DISCOVERY,
)
BOARD_CHECK: Final = Program(
    name="board_check",
    module=HERE / "board_check",
    cache="monitoring/board_check",
    source="github.com/grafana/grafana-foundation-sdk/go",
    package=".",
)
COLLECTOR: Final = Program(
    name="collector",
    module=HERE / "collector",
    cache="monitoring/collector",
    source="go.opentelemetry.io/collector/otelcol",
    package=".",
)


def run(program: Program, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command, whatever its exit code."""
    return subprocess.run(
        [program.built().program, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def rules() -> list[Document]:
    """All alert rules."""
    found: list[Any] = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in found for rule in group["rules"]]


if __name__ == "__main__":
    sys.exit(build_all(BOARD_CHECK, PROMTOOL, PROMETHEUS, COLLECTOR))
