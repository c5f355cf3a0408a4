"""Workflow files in the format of Knavigator."""

from pathlib import Path

import pytest

from bench.published.catalog import WORKFLOWS
from bench.published.knavigator.case import Workflows
from bench.published.knavigator.files import BadWorkflow, read, seconds
from bench.published.knavigator.go_templates import BadTemplate, integer, render
from bench.published.places import OURS, POD_BY_POD, simulated


@pytest.mark.parametrize("name", ["gang", "topology", "reclaim"])
def test_all_tasks_of_our_files_pass(name: str) -> None:
    played = simulated(Workflows(WORKFLOWS, (f"{name}.yaml",)), OURS)
    assert played.wrong == ()
    passed, _, tasks = str(played.figures["tasks that passed"]).partition(" of ")
    assert passed == tasks


@pytest.mark.parametrize(
    ("name", "task"), [("gang", "single-runs"), ("topology", "best-nodes"), ("reclaim", "b-runs")]
)
def test_pod_by_pod_a_task_of_each_file_fails(name: str, task: str) -> None:
    (wrong,) = simulated(Workflows(WORKFLOWS, (f"{name}.yaml",)), POD_BY_POD).wrong
    assert wrong.startswith(f"{task}: ")


# --- single tasks ------------------------------------------------------------------------------------------

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: "{{._NAME_}}", namespace: "{{.namespace}}"}
spec:
  completions: {{.pods}}
  parallelism: {{.pods}}
  completionMode: Indexed
  template:
    spec:
      containers: [{name: main, image: train:1, resources: {limits: {nvidia.com/gpu: "8"}}}]
      restartPolicy: Never
"""
HEAD = """
name: test
tasks:
- {id: cluster, type: Configure, params: {timeout: 1m, namespaces: [{name: team, op: create}],
   priorityClasses: [{name: high, value: 9, op: create}],
   configmaps: [{name: settings, namespace: team, op: create, data: {mode: fast, size: "3"}}],
   nodes: [{type: dgxh100.80g, count: 2, labels: {pool: a, good: true}},
           {type: small, count: 1, resources: {cpu: 4, nvidia.com/gpu: 8}, labels: {pool: b}}]}}
- {id: kind, type: RegisterObj, params: {template: job.yaml, nameFormat: "j{{._ENUM_}}",
   podNameFormat: "{{._NAME_}}-[0-9]-.*", podCount: "{{.pods}} * 1"}}
- {id: jobs, type: SubmitObj, params: {refTaskId: kind, count: 2, params: {namespace: team, pods: 1}}}
- {id: run, type: CheckPod, params: {refTaskId: jobs, status: Running, timeout: 10s}}
"""
GOOD = {
    "labels of nodes": "{id: x, type: CheckPod, params: {refTaskId: jobs, status: Running, timeout: 5s}}",
    "status": "{id: x, type: CheckObj, params: {refTaskId: jobs, state: {status: {active: 1}}, timeout: 5s}}",
    "configmap": (
        "{id: x, type: CheckConfigmap, params: {name: settings, namespace: team, op: subset, "
        "data: {mode: fast}}}"
    ),
    "whole configmap": (
        "{id: x, type: CheckConfigmap, params: {name: settings, namespace: team, op: equal, "
        'data: {mode: fast, size: "3"}}}'
    ),
    "update": (
        "{id: x, type: UpdateObj, params: {refTaskId: jobs, state: {metadata: {labels: {seen: a}}}}}\n"
        "- {id: y, type: CheckObj, params: {refTaskId: jobs, state: {metadata: {labels: {seen: a}}}}}"
    ),
    "suspend": (
        "{id: x, type: UpdateObj, params: {refTaskId: jobs, state: {spec: {suspend: true}}}}\n"
        "- {id: s, type: Sleep, params: {timeout: 1m}}\n"
        "- {id: y, type: SubmitObj, params: {refTaskId: kind, params: {namespace: team, pods: 3}}}\n"
        "- {id: z, type: CheckPod, params: {refTaskId: y, status: Running, timeout: 60s}}"
    ),
    "delete": (
        "{id: x, type: DeleteObj, params: {refTaskId: jobs}}\n"
        "- {id: y, type: SubmitObj, params: {refTaskId: kind, params: {namespace: team, pods: 3}}}\n"
        "- {id: z, type: CheckPod, params: {refTaskId: y, status: Running, timeout: 60s}}"
    ),
    "nodes": ("{id: x, type: UpdateNodes, params: {selectors: [{good: true}], state: {spec: {}}}}"),
    "pause and sleep": "{id: x, type: Sleep, params: {timeout: 1m30s}}\n- {id: y, type: Pause}",
    "fewer nodes": (
        "{id: x, type: Configure, params: {timeout: 1m, nodes: [{type: small, count: 0}]}}\n"
        "- {id: y, type: DeleteObj, params: {refTaskId: jobs}}"
    ),
}
BAD = {
    "labels of nodes": (
        "{id: x, type: CheckPod, params: {refTaskId: jobs, status: Running, nodeLabels: {pool: c}}}"
    ),
    "phase": "{id: x, type: CheckPod, params: {refTaskId: jobs, status: Succeeded, timeout: 5s}}",
    "status": "{id: x, type: CheckObj, params: {refTaskId: jobs, state: {status: {active: 7}}, timeout: 5s}}",
    "configmap": (
        "{id: x, type: CheckConfigmap, params: {name: settings, namespace: team, op: equal, "
        "data: {mode: fast}}}"
    ),
    "nodes": "{id: x, type: UpdateNodes, params: {selectors: [{pool: c}], state: {spec: {}}}}",
    "deleted twice": (
        "{id: y, type: DeleteObj, params: {refTaskId: jobs}}\n"
        "- {id: s, type: Sleep, params: {timeout: 2m}}\n"
        "- {id: x, type: DeleteObj, params: {refTaskId: jobs}}"
    ),
    "too many pods": (
        "{id: y, type: SubmitObj, params: {refTaskId: kind, params: {namespace: team, pods: 4}}}\n"
        "- {id: x, type: CheckPod, params: {refTaskId: y, status: Running, timeout: 5s}}"
    ),
    "unknown reference": "{id: x, type: DeleteObj, params: {refTaskId: nothing}}",
}


def played(folder: Path, tasks: str) -> tuple[str, ...]:
    (folder / "job.yaml").write_text(JOB)
    (folder / "test.yaml").write_text(f"{HEAD}- {tasks}\n")
    return simulated(Workflows(folder, ("test.yaml",)), OURS).wrong


@pytest.mark.parametrize("name", GOOD)
def test_a_task_passes(name: str, tmp_path: Path) -> None:
    assert played(tmp_path, GOOD[name]) == ()


@pytest.mark.parametrize("name", BAD)
def test_a_task_fails_and_is_named(name: str, tmp_path: Path) -> None:
    (wrong,) = played(tmp_path, BAD[name])
    assert wrong.startswith("x: ")


# --- files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("{id: x, type: Explode}", "the type Explode is not known"),
        ("{id: x, type: Sleep, params: {timeout: 1s, speed: 2}}", "speed"),
        ("{id: x, type: Sleep}", "timeout"),
    ],
)
def test_what_is_not_known_is_named(task: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "test.yaml"
    path.write_text(f"name: test\ntasks:\n- {task}\n")
    with pytest.raises(BadWorkflow, match=message):
        read(path)


@pytest.mark.parametrize(("text", "value"), [("90s", 90), ("1m30s", 90), ("1.5h", 5400), ("100ms", 0.1)])
def test_durations(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["5", "5 s", "s", "1m30"])
def test_no_durations(text: str) -> None:
    with pytest.raises(BadWorkflow):
        seconds(text)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{.name}} {{ .deep.value }}", "a 3"),
        ("[{{if .name}}yes{{else}}no{{end}}]", "[yes]"),
        ("[{{if .missing}}yes{{else}}no{{end}}]", "[no]"),
        ("[ {{- if .empty }} x {{- end }} ]", "[ ]"),
        ("[{{if .name}}{{if .empty}}both{{end}}one{{end}}]", "[one]"),
        ("{{.flag}}", "true"),
        ("a\n  {{- if .name }}\n  b\n  {{- end }}\nc", "a\n  b\nc"),
    ],
)
def test_templates(template: str, text: str) -> None:
    assert render(template, {"name": "a", "deep": {"value": 3}, "empty": "", "flag": True}) == text


@pytest.mark.parametrize("template", ["{{.missing}}", "{{range .x}}{{end}}", "{{if .a}}", "{{end}}"])
def test_templates_that_are_refused(template: str) -> None:
    with pytest.raises(BadTemplate):
        render(template, {"a": 1, "x": [1]})


def test_numbers_of_pods() -> None:
    assert integer('"2 * 3 + 1"') == 7
    with pytest.raises(BadTemplate):
        integer("__import__('os')")
