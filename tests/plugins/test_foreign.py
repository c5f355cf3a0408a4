"""Plugins of another distribution, which is installed with pip, change decisions."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("foreign plugins")]
"""One process installs the distribution."""

FOREIGN = Path(__file__).parent / "foreign"
POOL = "acme.example/pool"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the distribution as pip installs it."""
    target = tmp_path_factory.mktemp("installed")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
    isolation = ("--no-build-isolation",) if find_spec("hatchling") else ()
    subprocess.run([*pip, *isolation, "--target", str(target), str(FOREIGN)], check=True)
    return target


def decided(folder: Path, installed: Path, *plugins: str) -> dict[str, Any]:
    """What `phalanx decide` prints for the manifests in a folder, with these plugins in the configuration."""
    config = folder / "config.yaml"
    config.write_text(json.dumps({"plugins": [{"name": name} for name in plugins]}))
    command = [
        sys.executable,
        "-c",
        "import sys; from phalanx.cli.app import main; sys.exit(main())",
        "decide",
    ]
    arguments = ["-f", str(folder / "objects.json"), "--config", str(config), "-o", "json"]
    paths = os.pathsep.join([str(installed), *filter(None, [os.environ.get("PYTHONPATH")])])
    ended = subprocess.run(
        [*command, *arguments],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert ended.stdout, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def node(name: str, pool: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {POOL: pool}},
        "status": {
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def job(name: str, *, created: str, estimate: str, pool: str) -> list[dict[str, Any]]:
    """A PodGroup, and its only pod, which needs a whole node."""
    group: dict[str, Any] = {
        "apiVersion": "scheduling.phalanx.dev/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "team", "uid": f"group-{name}", "creationTimestamp": created},
        "spec": {"minMember": 1, "runtime": {"estimate": estimate}},
    }
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"pod-{name}",
            "creationTimestamp": created,
            "labels": {"scheduling.phalanx.dev/pod-group": name},
            "annotations": {POOL: pool},
        },
        "spec": {
            "schedulerName": "phalanx",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "8"}}}],
        },
    }
    return [group, pod]


def placed(folder: Path, installed: Path, objects: list[dict[str, Any]], *plugins: str) -> dict[str, str]:
    """The node of each pod that is placed."""
    content = {"apiVersion": "v1", "kind": "List", "items": objects}
    (folder / "objects.json").write_text(json.dumps(content))
    found = decided(folder, installed, *plugins)
    binds = [bind for cycle in found["cycles"] for bind in cycle["binds"]]
    return {bind["pod"].removeprefix("team/"): bind["node"] for bind in binds}


def test_shortest_job_first_changes_which_gang_starts(tmp_path: Path, installed: Path) -> None:
    objects = [
        node("a", "blue"),
        *job("long", created="2026-01-01T00:00:00Z", estimate="10h", pool="blue"),
        *job("short", created="2026-01-01T00:00:10Z", estimate="5m", pool="blue"),
    ]
    assert placed(tmp_path, installed, objects) == {"long": "a"}
    assert placed(tmp_path, installed, objects, "shortest-job-first") == {"short": "a"}


def test_a_filter_by_annotation_changes_where_pods_go(tmp_path: Path, installed: Path) -> None:
    objects = [
        node("a", "blue"),
        node("b", "red"),
        *job("first", created="2026-01-01T00:00:00Z", estimate="1h", pool="red"),
        *job("second", created="2026-01-01T00:00:10Z", estimate="1h", pool="blue"),
    ]
    assert placed(tmp_path, installed, objects) == {"first": "a", "second": "b"}
    assert placed(tmp_path, installed, objects, "node-pool") == {"first": "b", "second": "a"}


@pytest.mark.parametrize("plugin", ["rack-cap", "most-per-rack"])
def test_a_rule_that_caps_racks_explains_itself(tmp_path: Path, installed: Path, plugin: str) -> None:
    objects = [node("a", "blue"), node("b", "blue"), node("c", "blue")]
    for index, each in enumerate(objects):
        each["metadata"]["labels"]["acme.example/rack"] = str(index // 2)
    group, first = job("g", created="2026-01-01T00:00:00Z", estimate="1h", pool="blue")
    group["spec"]["minMember"] = 5
    pods = [json.loads(json.dumps(first)) for _ in range(5)]
    for index, pod in enumerate(pods):
        pod["metadata"] |= {"name": f"g-{index}", "uid": f"g-{index}"}
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
    content = {"apiVersion": "v1", "kind": "List", "items": [*objects, group, *pods]}
    (tmp_path / "objects.json").write_text(json.dumps(content))
    assert not decided(tmp_path, installed)["cycles"][0]["verdicts"]
    (verdict,) = decided(tmp_path, installed, plugin)["cycles"][0]["verdicts"]
    assert verdict["reason"] == "AbovePluginLimit"
    assert verdict["message"] == (
        "4 of 5 pods fit the empty cluster; at most 2 pods of a gang run in each rack"
    )


def test_a_foreign_plugin_is_off_until_the_configuration_names_it(tmp_path: Path, installed: Path) -> None:
    (tmp_path / "objects.json").write_text(json.dumps(node("a", "blue")))
    with pytest.raises(AssertionError, match=r"there is no plugin closed; known are .*closed-until.*drf"):
        decided(tmp_path, installed, "closed")
