"""Supplies of another distribution, which entry points bring: licences of each node, and of the cluster."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOREIGN = Path(__file__).parents[1] / "plugins" / "foreign"

NODE = """
kind: Node
apiVersion: v1
metadata: {name: %s}
status:
  allocatable: {cpu: "64", memory: 256Gi, pods: "110"}
  conditions: [{type: Ready, status: "True"}]
---
"""

POD = """
kind: Pod
apiVersion: v1
metadata:
  name: %s
  labels: {scheduling.phalanx.dev/min-member: "3"}
  annotations: {acme.example/licence: %s}
  ownerReferences: [{apiVersion: example.com/v1, kind: Run, name: run, uid: run, controller: true}]
spec:
  schedulerName: phalanx
  containers: [{name: main, image: main, resources: {requests: {cpu: "1"}}}]
---
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the distribution."""
    return install(tmp_path / "site", "licences:Licences")


def install(site: Path, supply: str) -> Path:
    module, _, _ = supply.partition(":")
    info = site / f"{module}-1.dist-info"
    info.mkdir(parents=True)
    shutil.copy(FOREIGN / f"{module}.py", site)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[phalanx.supplies]\n{module} = {supply}\n")
    return site


def decided(site: Path | None, manifests: str) -> str:
    """What `phalanx decide` prints of these manifests."""
    environment = {**os.environ, "PYTHONPATH": str(site or "")}
    command = [sys.executable, "-c", "from phalanx.cli.app import main; main()", "decide", "-f", "-"]
    done = subprocess.run(
        [*command, "-o", "json"],
        input=manifests,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_pods_get_no_more_of_it_than_a_node_offers(installed: Path) -> None:
    pods = "".join(POD % (f"w-{index}", "matlab") for index in range(3))
    alone = decided(installed, NODE % "n1" + pods)
    assert "2 of 3 pods fit the empty cluster" in alone
    assert "add 1 node like n1" in alone
    assert "2 of 3 pods fit" not in decided(installed, NODE % "n1" + NODE % "n2" + pods)
    assert "2 of 3 pods fit" not in decided(None, NODE % "n1" + pods)


def test_what_is_used_is_named(installed: Path) -> None:
    running = POD.replace("spec:\n", "spec:\n  nodeName: n1\n").replace('"3"', '"2"').replace("run", "old")
    pods = "".join(running % (f"r-{index}", "matlab") for index in range(2))
    pods += "".join(POD % (f"w-{index}", "matlab") for index in range(3))
    assert "licence matlab is in use on 1 node" in decided(installed, NODE % "n1" + NODE % "n2" + pods)


def test_pods_without_it_are_not_concerned(installed: Path) -> None:
    pods = "".join(POD % (f"w-{index}", "") for index in range(3))
    assert "of 3 pods fit" not in decided(installed, NODE % "n1" + pods)


def test_the_cluster_has_some_together(tmp_path: Path) -> None:
    """Three licences on two nodes: a gang of three starts, and the next one waits for it."""
    site = install(tmp_path, "floating_licences:FloatingLicences")
    nodes = NODE % "n1" + NODE % "n2"
    first = "".join(POD % (f"a-{index}", "matlab") for index in range(3))
    second = "".join((POD % (f"b-{index}", "matlab")).replace("run", "next") for index in range(3))
    cycles = json.loads(decided(site, nodes + first))["cycles"]
    assert len(cycles[0]["binds"]) == 3
    both = json.loads(decided(site, nodes + first + second))["cycles"]
    assert [bind["pod"] for bind in both[0]["binds"]] == [f"default/a-{index}" for index in range(3)]
    (verdict,) = both[0]["verdicts"]
    assert verdict["reason"] == "InsufficientCapacity"
    assert verdict["message"].startswith(
        "3 floating licences of matlab needed, 0 floating licences of matlab available"
    )
    assert "buy more" in verdict["nextStep"]
    four = first.replace('"3"', '"4"') + (POD % ("a-3", "matlab")).replace('"3"', '"4"')
    (alone,) = json.loads(decided(site, nodes + four))["cycles"][0]["verdicts"]
    assert "4 floating licences of matlab needed, 3 floating licences of matlab available" in alone["message"]
    running = first.replace("spec:\n", "spec:\n  nodeName: n1\n")
    (waiting,) = json.loads(decided(site, nodes + running + second))["cycles"][0]["verdicts"]
    assert "0 floating licences of matlab available" in waiting["message"]
