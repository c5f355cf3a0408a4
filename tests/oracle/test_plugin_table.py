"""docs/kube-scheduler.md has a row for each plugin of kube-scheduler 1.37 and each extension point.

`DEFAULT` and `GATED` are from pkg/scheduler/apis/config/v1/default_plugins.go of k8s.io/kubernetes 1.37.1.
The extension points are from the interfaces that plugins declare below pkg/scheduler/framework/plugins,
without EnqueueExtensions and SignPlugin. Where the module is present, both are compared with it.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from phalanx.framework.profile import DEFAULT_PROFILE
from phalanx_controlplane import go_modules

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs" / "kube-scheduler.md").read_text()

_FILTER: Final = ("PreFilter", "Filter")
_SCORE: Final = ("PreScore", "Score")

DEFAULT: Final = {
    "SchedulingGates": ("PreEnqueue",),
    "PrioritySort": ("QueueSort",),
    "NodeName": _FILTER,
    "NodeUnschedulable": _FILTER,
    "TaintToleration": (*_FILTER, *_SCORE),
    "NodeAffinity": (*_FILTER, *_SCORE),
    "NodePorts": _FILTER,
    "NodeResourcesFit": (*_FILTER, *_SCORE, "PlacementScore"),
    "VolumeRestrictions": _FILTER,
    "NodeVolumeLimits": _FILTER,
    "VolumeBinding": (*_FILTER, *_SCORE, "Reserve", "PreBind"),
    "VolumeZone": _FILTER,
    "PodTopologySpread": (*_FILTER, *_SCORE),
    "InterPodAffinity": (*_FILTER, *_SCORE),
    "DynamicResources": (
        "PreEnqueue",
        *_FILTER,
        "PostFilter",
        "PodGroupPostFilter",
        "Score",
        "Reserve",
        "PreBind",
    ),
    "DefaultPreemption": ("PreEnqueue", "PostFilter"),
    "NodeResourcesBalancedAllocation": _SCORE,
    "ImageLocality": ("Score",),
    "DefaultBinder": ("Bind",),
    "NodeDeclaredFeatures": _FILTER,
}
"""Plugins of the default profile with the default feature gates."""

GATED: Final = {
    "DeferredPodScheduling": (*_FILTER, "Permit"),
    "GangScheduling": ("PreEnqueue", "Permit", "PlacementFeasible"),
    "TopologyPlacementGenerator": ("PlacementGenerate",),
    "PodGroupPodsCount": ("PlacementScore",),
}
"""Plugins that feature gates add which are off by default."""

_TYPES: Final = {
    "Fit": "NodeResourcesFit",
    "BalancedAllocation": "NodeResourcesBalancedAllocation",
    "CSILimits": "NodeVolumeLimits",
    "TopologyPlacement": "TopologyPlacementGenerator",
}
"""Names of Go types that are not those of their plugins."""


def _rows(heading: str) -> list[list[str]]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def _points(rows: list[list[str]]) -> Iterator[tuple[str, str]]:
    return ((row[0], point) for row in rows for point in row[1].split(", "))


@pytest.mark.parametrize(
    ("heading", "plugins"),
    [("Default profile", DEFAULT), ("Behind feature gates that are off by default", GATED)],
)
def test_each_extension_point_has_one_row(heading: str, plugins: dict[str, tuple[str, ...]]) -> None:
    expected = [(plugin, point) for plugin, points in plugins.items() for point in points]
    assert sorted(_points(_rows(heading))) == sorted(expected)


def test_rows_name_plugins_and_files_that_exist() -> None:
    rows = [*_rows("Default profile"), *_rows("Behind feature gates that are off by default")]
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row[2])]
    files = [name for name in named if name.endswith(".py")]
    assert not [name for name in files if not (ROOT / "scheduler" / "phalanx" / name).is_file()]
    assert not [name for name in named if name not in (*files, *DEFAULT_PROFILE)]


def _source() -> Path:
    """The sources of kube-scheduler, of the version that the control plane is built from."""
    go_mod = (ROOT / "deploy" / "controlplane" / "go.mod").read_text()
    version = re.search(r"k8s\.io/kubernetes (v\S+)", go_mod)
    assert version is not None
    if not go_modules.can_build():
        pytest.skip("no Go toolchain, so no module cache")
    asked = subprocess.run(["go", "env", "GOMODCACHE"], check=True, capture_output=True, text=True)
    folder = Path(asked.stdout.strip()) / f"k8s.io/kubernetes@{version[1]}" / "pkg" / "scheduler"
    if not folder.is_dir():
        pytest.skip("the Go module k8s.io/kubernetes is not in the module cache")
    return folder


def test_the_plugins_are_those_of_the_default_profile() -> None:
    text = (_source() / "apis" / "config" / "v1" / "default_plugins.go").read_text()
    named = re.findall(r"v1\.Plugin\{Name: names\.(\w+)|\{Name: names\.(\w+)", text)
    assert {first or second for first, second in named} - {*DEFAULT, *GATED} == set()
    listed = (_source() / "framework" / "plugins" / "names" / "names.go").read_text()
    assert set(re.findall(r"^\t(\w+)\s+= \"", listed, re.MULTILINE)) == {*DEFAULT, *GATED}


def test_the_extension_points_are_those_of_the_source() -> None:
    declared = re.compile(r"^(?:var )?\s*_ (?:fwk|framework)\.(\w+)Plugin\s+= &(\w+)\{\}", re.MULTILINE)
    found = {
        (_TYPES.get(kind, kind), point)
        for file in (_source() / "framework" / "plugins").rglob("*.go")
        if not file.name.endswith("_test.go") and "testing" not in file.parts
        for point, kind in declared.findall(file.read_text())
        if point != "Sign"
    }
    plugins = {**DEFAULT, **GATED}
    assert found == {(plugin, point) for plugin, points in plugins.items() for point in points}
