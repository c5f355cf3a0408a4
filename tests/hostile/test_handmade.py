"""Constructed hostile objects, most of them from bugs of other schedulers, each with its expected outcome.

Outcomes: `verdict` (the verdict of a gang reports it), `queue` (a condition of a queue reports it), `note`
(logged once by name), `log` (skipped and logged once by name), `harmless` (accepted without a report).
"""

import json
from pathlib import Path
from typing import Any

import pytest
from phalanx.cli.app import main
from phalanx.model.api.kinds import KINDS

from tests import fast_yaml
from tests.hostile.harness import Cluster, add_healthy, check_healthy, event

FOLDER = Path(__file__).resolve().parent / "handmade"
CASES: list[dict[str, Any]] = [
    case for path in sorted(FOLDER.glob("*.yaml")) for case in fast_yaml.safe_load(path.read_text())
]


def manifests(case: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The objects of a case, with default names and UIDs."""
    return [(kind, _whole(kind, given)) for entry in case["objects"] for kind, given in entry.items()]


def _whole(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    meta = {"name": "bad", "uid": f"{kind}-bad", **({"namespace": "team"} if KINDS[kind].namespaced else {})}
    rest = {key: value for key, value in given.items() if key != "meta"}
    if kind == "Pod":
        rest["spec"] = {"schedulerName": "phalanx", "priority": 0, **rest.get("spec", {})}
    identity = {"apiVersion": KINDS[kind].api_version, "kind": kind}
    return {**identity, "metadata": {**meta, **given.get("meta", {})}, **rest}


def bodies(case: dict[str, Any]) -> list[tuple[str, bytes]]:
    if "raw" in case:
        return [("Pod", case["raw"].encode())]
    return [(kind, json.dumps(manifest).encode()) for kind, manifest in manifests(case)]


def test_there_are_at_least_100_cases() -> None:
    assert len(CASES) >= 100
    assert all(case["from"] and case["outcome"] for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_outcome_of_a_case(case: dict[str, Any]) -> None:
    cluster = Cluster()
    add_healthy(cluster)
    for number, (kind, body) in enumerate(bodies(case)):
        cluster.exists(kind, str(number), body)
        cluster.send(kind, event("ADDED", body))
    await cluster.deliver()
    snapshot, result = cluster.cycle()
    check_healthy(snapshot, result)
    assert cluster.unreported() == []
    said = {
        "verdict": [f"{verdict.reason}: {verdict.message}" for verdict in result.verdicts],
        "queue": [problem.message for report in result.queues.values() for problem in report.problems],
        "log": [line["error"] for line in cluster.warnings if line["event"] == "object skipped"],
        "note": [line["error"] for line in cluster.warnings if line["event"] != "object skipped"],
    }
    wanted = case["outcome"]
    assert [outcome for outcome in said if said[outcome]] == ([] if wanted == "harmless" else [wanted]), said
    if wanted != "harmless":
        assert case["message"] in said[wanted][0]
        assert set(cluster.logs.values()) <= {1}
    await cluster.delete_everything()


@pytest.mark.parametrize("case", [case for case in CASES if "objects" in case], ids=lambda case: case["name"])
def test_phalanx_decide_accepts_or_names_a_case(
    case: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.json"
    items = [manifest for _, manifest in manifests(case)]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    code = main(["decide", "-f", str(path)])
    output, errors = capsys.readouterr()
    assert code in (0, 2, 3)
    assert "Traceback" not in errors
    if code == 2:
        kinds = tuple(kind for kind, _ in manifests(case))
        assert all(any(kind in line for kind in kinds) for line in errors.splitlines()), errors
    else:
        json.loads(output)
