"""For any value in any place, `decide` and `convert` print a result or an input error."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from phalanx.cli.app import main
from phalanx.resources import data_dir

from tests import fast_yaml
from tests.cli.test_convert_objects import JOB_SET, RAY_JOB, of_kind
from tests.examples import holds

SCENARIOS = Path(__file__).resolve().parent.parent / "scenarios"
NAMES = ("bound-volume", "inconsistent-gang", "node-affinity-operators", "queue-limit-per-flavor", "taints")
OBJECTS = [
    item for name in NAMES for item in fast_yaml.safe_load((SCENARIOS / f"{name}.yaml").read_text())["items"]
] + [
    document
    for path in sorted((data_dir("crds") / "examples" / "valid").glob("*.yaml"))
    for document in fast_yaml.safe_load_all(path.read_text())
]
SPARK = of_kind(
    "sparkoperator.k8s.io/v1beta2",
    "SparkApplication",
    {"driver": {"schedulerName": "volcano", "labels": {"a": "b"}, "annotations": {"pod-group-name": "g"}}},
)
VOLCANO_QUEUE = of_kind(
    "scheduling.volcano.sh/v1beta1",
    "Queue",
    {"capability": {"cpu": "1"}, "guarantee": {"resource": {"cpu": 1}}},
)
KAI_QUEUE = of_kind(
    "scheduling.run.ai/v2", "Queue", {"resources": {"gpu": {"quota": 1, "limit": 2, "overQuotaWeight": 1}}}
)
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(
        [[], {}, [{}], [None], {"": ""}, {"a": {}}, "8", "1Gi", "9" * 400, "2026-11-01T10:00:00Z"]
    )
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, each in inner for found in places(each, (*path, key)))]


VOLCANO_JOB = of_kind(
    "batch.volcano.sh/v1alpha1",
    "Job",
    {"schedulerName": "volcano", "tasks": [{"template": {"spec": {"schedulerName": "volcano"}}}]},
)
OTHERS = [
    item
    for name in ("volcano-subgroups", "volcano-topology", "kai")
    for item in fast_yaml.safe_load((SCENARIOS / f"{name}.yaml").read_text())["items"]
] + [JOB_SET, RAY_JOB, SPARK, VOLCANO_QUEUE, KAI_QUEUE, VOLCANO_JOB]
"""Objects of other projects, and workloads with pods of theirs."""


@st.composite
def broken(draw: st.DrawFn, valid: list[Any]) -> list[Any]:
    objects = copy.deepcopy(draw(st.lists(st.sampled_from(valid), min_size=1, max_size=3)))
    for item in objects:
        path = draw(st.sampled_from(places(item)[1:]))
        inner = item
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = copy.deepcopy(draw(VALUES))
    return objects


def outcome(
    command: str, path: Path, objects: list[Any], capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    """The exit code of a command about these objects, and what it writes to both streams."""
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    code = main([command, "-f", str(path)])
    return code, *capsys.readouterr()


@holds(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(objects=broken(OBJECTS))
def test_no_input_causes_a_traceback(
    objects: list[Any], capsys: pytest.CaptureFixture[str], tmp_path_factory: Any
) -> None:
    path = tmp_path_factory.getbasetemp() / "broken.yaml"
    code, output, errors = outcome("decide", path, objects, capsys)
    assert code in (0, 2)
    assert bool(output) == (code == 0)
    assert code == 0 or all(line.startswith((str(path), "and ")) for line in errors.splitlines())


@holds(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(objects=broken(OTHERS))
def test_no_input_of_convert_causes_a_traceback(
    objects: list[Any], capsys: pytest.CaptureFixture[str], tmp_path_factory: Any
) -> None:
    path = tmp_path_factory.getbasetemp() / "broken-others.yaml"
    code, output, errors = outcome("convert", path, objects, capsys)
    assert code in (0, 2)
    assert code == 0 or (errors and not output)
