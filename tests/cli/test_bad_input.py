"""Errors of user input: file, object, field, what was expected, what was found; exit code 2."""

import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import yaml
from phalanx.limits import BAD_INPUT_LINES_MAX
from phalanx.model.supplies.devices.expressions import Rules
from phalanx.resources import data_dir

from tests.cli.conftest import Phalanx

EXAMPLES = data_dir("crds") / "examples"
QUANTITY = 'a quantity such as 2, "500m", "1.5", "64Gi", "10G" or "1e3"'

POD = "{apiVersion: v1, kind: Pod, metadata: {name: a}, "
OURS = "{apiVersion: scheduling.phalanx.dev/v1alpha1, kind: "

MISTAKES = [
    ("", ": expected Kubernetes objects, found an empty file"),
    ("a: [", ": line 2, column 1: expected YAML or JSON, found: did not find expected node content"),
    ("a: 1\na: 2", ": line 2, column 1: expected YAML or JSON, found: a is given twice"),
    ("? [a, b]\n: c", ": line 1, column 3: expected YAML or JSON, found: a key that is not a word"),
    ("a: 0x_", ": line 1, column 4: expected YAML or JSON, found: 0x_ is not a valid int"),
    ("a: !!bool b", ": line 1, column 4: expected YAML or JSON, found: b is not a valid bool"),
    ("- 1", ": document 1: expected an object with apiVersion and kind, found a list"),
    ("just words", ': document 1: expected an object with apiVersion and kind, found "just words"'),
    (
        "{kind: List, items: [7]}",
        ": document 1, items[0]: expected an object with apiVersion and kind, found 7",
    ),
    ("{apiVersion: v1}", ": document 1: kind: expected a kind such as Pod, found nothing"),
    ("{kind: 7}", ": document 1: kind: expected a kind such as Pod, found 7"),
    ("{apiVersion: v1, kind: pod, metadata: {name: a}}", ': pod a: kind: expected Pod, found "pod"'),
    (
        "{apiVersion: scheduling.phalanx.dev/v1alpha1, kind: PodGroups, metadata: {name: a}}",
        ': PodGroups a: kind: expected PodGroup, found "PodGroups"',
    ),
    (
        "{apiVersion: scheduling.phalanx.dev/v1alpha1, kind: Tenant, metadata: {name: a}}",
        ': Tenant a: kind: expected PodGroup, Queue or Topology, found "Tenant"',
    ),
    ("{kind: Pod, metadata: {name: a}}", ": Pod a: apiVersion: expected v1, found nothing"),
    ("{apiVersion: v2, kind: Node, metadata: {name: a}}", ': Node a: apiVersion: expected v1, found "v2"'),
    (
        "{apiVersion: scheduling.phalanx.dev/v1, kind: Queue, metadata: {name: a}}",
        ': Queue a: apiVersion: expected scheduling.phalanx.dev/v1alpha1, found "scheduling.phalanx.dev/v1"',
    ),
    (
        "{apiVersion: scheduling.phalanx.com/v1alpha1, kind: Queue, metadata: {name: a}}",
        (
            ": Queue a: apiVersion: expected scheduling.phalanx.dev/v1alpha1, "
            'found "scheduling.phalanx.com/v1alpha1"'
        ),
    ),
    ("{apiVersion: v1, kind: Node}", ": document 1 (Node): metadata: expected a map, found nothing"),
    ("{apiVersion: v1, kind: Node, metadata: a}", ': document 1 (Node): metadata: expected a map, found "a"'),
    (
        "{apiVersion: v1, kind: Node, metadata: {}}",
        ": document 1 (Node): metadata.name: expected text, found nothing",
    ),
    (
        "{apiVersion: batch/v1, kind: Job, metadata: {namespace: x, name: a, labels: {b: true}}}",
        ": Job x/a: metadata.labels.b: expected text, found true",
    ),
    (
        "{apiVersion: v1, kind: Node, metadata: {name: a, labels: {example.com/b: c d}}}",
        (
            ": Node a: metadata.labels[example.com/b]: expected a label value of at most 63 letters, digits, "
            '-, _ and ., found "c d"'
        ),
    ),
    (
        "{apiVersion: v1, kind: Node, metadata: {name: A_1}}",
        (
            ": Node A_1: metadata.name: expected a name such as a.b-1 of lower-case letters, "
            'digits, - and ., found "A_1"'
        ),
    ),
    (
        "{apiVersion: v1, kind: Node, metadata: {name: a, creationTimestamp: 2026-13-01T00:00:00Z}}",
        (
            ": Node a: metadata.creationTimestamp: expected a time such as 2026-12-24T18:00:00Z, "
            'found "2026-13-01T00:00:00Z"'
        ),
    ),
    (
        POD + "spec: {containers: [{name: main, resources: {requests: {cpu: 1 core}}}]}}",
        f': Pod a: spec.containers[0].resources.requests.cpu: expected {QUANTITY}, found "1 core"',
    ),
    (
        "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {nvidia.com/gpu: -1}}}",
        ": Node a: status.allocatable[nvidia.com/gpu]: expected an amount that is not negative, found -1",
    ),
    (
        "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {memory: [1]}}}",
        f": Node a: status.allocatable.memory: expected {QUANTITY}, found a list",
    ),
    (
        POD + "spec: {containers: [{name: main}], tolerations: [{operator: Like}]}}",
        ': Pod a: spec.tolerations[0].operator: expected one of Equal, Exists, Lt, Gt, found "Like"',
    ),
    (
        "{apiVersion: v1, kind: Node, metadata: {name: a}, spec: {taints: [{key: a, effect: Never}]}}",
        (
            ": Node a: spec.taints[0].effect: expected one of NoSchedule, PreferNoSchedule, NoExecute, "
            'found "Never"'
        ),
    ),
    (
        "{apiVersion: v1, kind: Node, metadata: {name: a}, spec: {unschedulable: 'yes'}}",
        ': Node a: spec.unschedulable: expected true or false, found "yes"',
    ),
    (
        POD + "spec: {containers: [{name: main}], priority: 1.5}}",
        ": Pod a: spec.priority: expected a whole number, found 1.5",
    ),
    (
        POD + "spec: {containers: [{name: main}], priorityClassName: high}}",
        (
            ": Pod a: spec.priorityClassName: expected a PriorityClass of the input "
            '(system-cluster-critical, system-node-critical), found "high"'
        ),
    ),
    (
        POD + "spec: {containers: [{name: main}], priorityClassName: system-node-critical, priority: 5}}",
        (
            ": Pod a: spec.priority: expected 2000001000, the value of PriorityClass "
            "system-node-critical, found 5"
        ),
    ),
    (
        POD + "spec: {containers: [{name: main}], priority: true}}",
        ": Pod a: spec.priority: expected a whole number, found true",
    ),
    (
        POD + "spec: {containers: [{name: main}], nodeSelektor: {a: b}}}",
        ": Pod a: spec.nodeSelektor: expected nodeSelector, found a field that does not exist",
    ),
    (
        POD + "spec: {containers: [{name: main, resources: {request: {cpu: 1}}}]}}",
        (
            ": Pod a: spec.containers[0].resources.request: expected requests, "
            "found a field that does not exist"
        ),
    ),
    (
        OURS + "PodGroup, metadata: {name: a}, spec: {minMember: 1, prioritClassName: b}}",
        ": PodGroup a: spec.prioritClassName: expected priorityClassName, found a field that does not exist",
    ),
    (
        OURS + "Topology, metadata: {name: a}, spec: {levels: [{name: b, nodeLabel: c, xyz: 1}]}}",
        (
            ": Topology a: spec.levels[0].xyz: expected one of name, nodeLabel, "
            "found a field that does not exist"
        ),
    ),
    (
        OURS + "Queue, metadata: {name: a}, spec: {limit: {cpu: 1.5}}}",
        f": Queue a: spec.limit.cpu: expected {QUANTITY}, found 1.5",
    ),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_an_input_error_names_file_object_and_field(
    text: str, message: str, phalanx: Phalanx, tmp_path: Path
) -> None:
    path = tmp_path / "input.yaml"
    path.write_text(text)
    done = phalanx("decide", "-f", path)
    assert (done.code, done.out, done.err) == (2, "", f"{path}{message}\n")


@pytest.mark.parametrize("path", sorted((EXAMPLES / "invalid").glob("*.yaml")), ids=lambda path: path.stem)
def test_input_that_the_api_server_refuses_is_refused(path: Path, phalanx: Phalanx) -> None:
    done = phalanx("decide", "-f", path)
    assert done.code == 2
    assert done.err.startswith(f"{path}: ")


@pytest.mark.parametrize("path", sorted((EXAMPLES / "valid").glob("*.yaml")), ids=lambda path: path.stem)
def test_input_that_the_api_server_accepts_is_accepted(path: Path, phalanx: Phalanx) -> None:
    assert phalanx("decide", "-f", path).code == 0


def test_every_validation_rule_of_the_crds_can_be_evaluated() -> None:
    rules = set()

    def collect(schema: object) -> None:
        if isinstance(schema, dict):
            rules.update(rule["rule"] for rule in schema.get("x-kubernetes-validations", ()))
            for each in schema.values():
                collect(each)
        elif isinstance(schema, list):
            for each in schema:
                collect(each)

    for path in data_dir("crds").glob("*.yaml"):
        collect(yaml.safe_load(path.read_text()))
    assert len(rules) > 10
    evaluator = Rules()
    for rule in rules:
        evaluator.holds(rule, {})


def test_all_input_errors_are_reported_at_once(phalanx: Phalanx, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: a}, spec: {unschedulable: 1, taints: 2}}\n---\n"
        "{apiVersion: v1, kind: pod}"
    )
    (tmp_path / "b.yaml").write_text("a: [")
    done = phalanx("decide", "-f", tmp_path / "a.yaml", "-f", tmp_path / "b.yaml")
    assert done.code == 2
    assert len(done.err.splitlines()) == 4


def test_the_number_of_reported_errors_is_limited(phalanx: Phalanx, tmp_path: Path) -> None:
    path = tmp_path / "many.yaml"
    path.write_text("---\n".join("{apiVersion: v1, kind: Node}\n" for _ in range(BAD_INPUT_LINES_MAX + 5)))
    lines = phalanx("decide", "-f", path).err.splitlines()
    assert len(lines) == BAD_INPUT_LINES_MAX + 1
    assert lines[-1] == "and 5 more"


def test_the_same_object_twice(phalanx: Phalanx, tmp_path: Path) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: a}}\n---\n"
        "{apiVersion: v1, kind: Node, metadata: {name: a, labels: {x: y}}}"
    )
    done = phalanx("decide", "-f", path)
    assert done.code == 2
    assert (
        done.err == f"{path}: Node a: metadata.name: expected each object once, found it in {path} before\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-f", "missing.yaml"], "missing.yaml: expected a readable file, found: No such file or directory"),
        (["-f", "."], ".: expected a folder with .yaml, .yml, .json files, found none in it"),
        (["-f", "-", "-"], "-: expected standard input once, found it 2 times"),
        (["-f", "binary"], "binary: expected UTF-8 text, found other bytes at offset 1"),
        (["-f", "ok", "--now", "today"], "--now: expected a time such as 2026-12-24T18:00:00Z, found today"),
        (
            ["-f", "ok", "--config", "gone"],
            "gone: expected a readable file, found: No such file or directory",
        ),
        (
            ["-f", "ok", "--config", "config"],
            "config: line 1, column 1: seeds: Object contains unknown field `seeds`",
        ),
        (["-f", "bomb"], "bomb: document 1: expected a document of reasonable size, found one that is"),
        (["-f", "knot"], "knot: document 1: expected a document of reasonable size, found one that is"),
        (["-f", "deep"], "deep: expected YAML or JSON, found: maximum recursion depth exceeded"),
    ],
)
def test_arguments(
    arguments: list[str], message: str, phalanx: Phalanx, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("phalanx.cli.manifests.documents.MANIFEST_VALUES_MAX", 10_000)
    (tmp_path / "binary").write_bytes(b"a\xff")
    (tmp_path / "ok").write_text("{apiVersion: v1, kind: Node, metadata: {name: a}}")
    (tmp_path / "config").write_text("seeds: 1")
    levels = "\n".join(f"l{n + 1}: &l{n + 1} [{', '.join([f'*l{n}'] * 9)}]" for n in range(12))
    (tmp_path / "bomb").write_text(f"l0: &l0 [x]\n{levels}")
    (tmp_path / "knot").write_text("a: &a [*a]")
    (tmp_path / "deep").write_text('{"a":' * 100_000)
    done = phalanx("decide", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(message)


_UNREACHABLE: Final = """
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
users: [{name: a, user: {}}]
"""


@pytest.mark.parametrize("flag", ["http", "debug"])
def test_a_port_that_is_in_use(flag: str, tmp_path: Path) -> None:
    """In a separate process, because `phalanx run` configures logs and signals of its process."""
    (tmp_path / "kubeconfig").write_text(_UNREACHABLE)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = {"http": "127.0.0.1:0", "debug": "127.0.0.1:0", flag: f"127.0.0.1:{taken.getsockname()[1]}"}
        words = [f"--{name}={address}" for name, address in ports.items()]
        command = [
            sys.executable,
            "-m",
            "phalanx.cli",
            "run",
            f"--kubeconfig={tmp_path / 'kubeconfig'}",
            *words,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert f"--{flag}: cannot listen on this address: " in done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_usage(phalanx: Phalanx) -> None:
    assert phalanx("decide").code == 2
    assert phalanx("decide", "-f", "x", "-o", "xml").code == 2
    assert phalanx("decode").code == 2
