"""Each NAME.yaml here is a cluster with a workload, NAME.expect.yaml the expected output of `phalanx decide`.

Expectations:

- `placed` maps every pod that gets a node (glob patterns) to this node, or to a list of allowed nodes.
- `per` counts the placed pods by a node label (`node`: by node), as a map, or as a list of counts if any
  domain may have any of them.
- `gpus` maps every pod with a share of a GPU to the index of the GPU.
- `waiting` maps every group that waits in the end to its reason, and to text of its message, evidence or next
  step.
- `ever` lists reasons that appear in some cycle.
- `certificates` maps groups to fields of their certificates.
- `evictions` lists the evictions of all cycles.
- `exit` is the exit code.
"""

import json
import subprocess
import sys
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from phalanx.cli.app import main

from tests import fast_yaml

FOLDER = Path(__file__).parent
SCENARIOS = sorted(path for path in FOLDER.glob("*.yaml") if not path.name.endswith(".expect.yaml"))
AS_PROCESS = {"knavigator-topology", "swap", "five-jobs-nine-slots"}

Cycles = list[dict[str, Any]]


def decide(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run the command in this process; for a few scenarios, in another process."""
    command = ["decide", "-f", str(path)]
    if path.stem not in AS_PROCESS:
        return main(command), capsys.readouterr().out
    done = subprocess.run(
        [sys.executable, "-m", "phalanx.cli", *command], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = fast_yaml.safe_load(path.with_suffix(".expect.yaml").read_text())
    code, output = decide(path, capsys)
    assert code == expected.get("exit", 0)
    cycles: Cycles = json.loads(output)["cycles"]
    binds = {bind["pod"]: bind["node"] for cycle in cycles for bind in cycle["binds"]}
    assert len(binds) == sum(len(cycle["binds"]) for cycle in cycles), "a pod is bound twice"
    check_placed(binds, expected["placed"])
    check_gpus(cycles, expected.get("gpus", {}))
    check_counts(binds, expected.get("per", {}), path)
    check_waiting(cycles[-1]["verdicts"], expected.get("waiting", {}))
    reasons = {verdict["reason"] for cycle in cycles for verdict in cycle["verdicts"]}
    assert reasons.issuperset(expected.get("ever", []))
    check_certificates(cycles, expected.get("certificates", {}))
    assert [each for cycle in cycles for each in cycle["evictions"]] == expected.get("evictions", [])


def check_placed(binds: dict[str, str], expected: dict[str, str | list[str]]) -> None:
    allowed = {pattern: [nodes] if isinstance(nodes, str) else nodes for pattern, nodes in expected.items()}
    for pod, node in binds.items():
        patterns = [pattern for pattern in allowed if fnmatchcase(pod, pattern)]
        assert patterns, f"{pod} got node {node} and should wait"
        assert node in allowed[patterns[0]], f"{pod} got node {node}"
    unused = [pattern for pattern in allowed if not any(fnmatchcase(pod, pattern) for pod in binds)]
    assert unused == [], "pods that should have got a node"


def check_gpus(cycles: Cycles, expected: dict[str, int]) -> None:
    found = [bind for cycle in cycles for bind in cycle["binds"] if "gpuIndex" in bind]
    assert {bind["pod"]: bind["gpuIndex"] for bind in found} == expected


def check_counts(binds: dict[str, str], expected: dict[str, Any], path: Path) -> None:
    items = fast_yaml.safe_load(path.read_text())["items"] if expected else []
    labels = {
        item["metadata"]["name"]: {**item["metadata"].get("labels", {}), "node": item["metadata"]["name"]}
        for item in items
        if item["kind"] == "Node"
    }
    for label, counts in expected.items():
        found = Counter(labels[node][label] for node in binds.values())
        if isinstance(counts, dict):
            assert found == counts, label
        else:
            assert sorted(found.values(), reverse=True) == counts, label


def check_waiting(verdicts: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    found = {verdict["group"]: verdict for verdict in verdicts}
    wanted = {group: {"reason": each} if isinstance(each, str) else each for group, each in expected.items()}
    assert {group: verdict["reason"] for group, verdict in found.items()} == {
        group: each["reason"] for group, each in wanted.items()
    }
    for group, each in wanted.items():
        said = json.dumps([found[group]["message"], found[group]["evidence"]])
        assert [word for word in each.get("says", []) if word not in said] == [], said
        step = found[group]["nextStep"]
        assert [word for word in each.get("nextStep", []) if word not in step] == [], step


def check_certificates(cycles: Cycles, expected: dict[str, dict[str, Any]]) -> None:
    found = {each["group"]: each for cycle in cycles for each in cycle["certificates"]}
    for group, fields in expected.items():
        assert {name: found[group][name] for name in fields} == fields


def test_every_scenario_has_a_comment_and_expectations() -> None:
    expectations = {path.name.removesuffix(".expect.yaml") for path in FOLDER.glob("*.expect.yaml")}
    assert expectations == {path.stem for path in SCENARIOS}
    assert [path.stem for path in SCENARIOS if not path.read_text().startswith("# ")] == []
