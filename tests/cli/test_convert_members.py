"""`phalanx convert`: what PodGroups of Volcano and KAI say for their pods, and their pods for them."""

from pathlib import Path
from typing import Any

import pytest

from tests import fast_yaml
from tests.cli.conftest import Done, Phalanx

Object = dict[str, Any]

VOLCANO = "scheduling.volcano.sh/v1beta1"
KAI = "scheduling.run.ai/v2alpha2"
LABELS = "scheduling.phalanx.dev/"
TASK = "volcano.sh/task-spec"
PREEMPTABLE = "volcano.sh/preemptable"


def convert(phalanx: Phalanx, path: Path, *documents: Object) -> tuple[Done, dict[str, Object]]:
    """What the command prints, and the objects by name."""
    file = path / "in.yaml"
    file.write_text(fast_yaml.safe_dump_all(documents))
    done = phalanx("convert", "-f", str(file))
    return done, {each["metadata"]["name"]: each for each in fast_yaml.safe_load_all(done.out)}


def group(version: str = VOLCANO, *, meta: Object | None = None, **spec: Any) -> Object:
    return {
        "apiVersion": version,
        "kind": "PodGroup",
        "metadata": {"name": "g", **(meta or {})},
        "spec": spec,
    }


def pod(name: str, *, kai: bool = False, labels: Object | None = None, **annotations: str) -> Object:
    names = {"pod-group-name" if kai else "scheduling.k8s.io/group-name": "g"}
    meta = {"name": name, "labels": labels or {}, "annotations": {**names, **annotations}}
    container = {"name": "main", "resources": {"requests": {"cpu": 1}}}
    spec = {"schedulerName": "kai-scheduler" if kai else "volcano", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def node(name: str, cpu: int) -> Object:
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": {"cpu": cpu}}}


# --- subgroups of Volcano -----------------------------------------------------------------------------------

PARTS = {"name": "w", "matchLabelKeys": ["part"], "subGroupSize": 2}


def test_pods_with_equal_labels_become_a_subgroup(phalanx: Phalanx, tmp_path: Path) -> None:
    pods = [pod(f"p{index}", labels={"part": part}) for index, part in enumerate(("A", "A", "b_1", "b_1"))]
    done, found = convert(phalanx, tmp_path, *pods, group(minMember=4, subGroupPolicy=[PARTS]))
    assert done.code == 0, done.err
    parts = [{"name": "w-a", "minMember": 2}, {"name": "w-b-1", "minMember": 2}]
    assert found["g"]["spec"] == {"minMember": 4, "subGroups": parts}
    named = [found[f"p{index}"]["metadata"]["labels"][f"{LABELS}subgroup"] for index in range(4)]
    assert named == ["w-a", "w-a", "w-b-1", "w-b-1"]


def test_one_of_two_subgroups_is_enough_after_the_conversion_too(phalanx: Phalanx, tmp_path: Path) -> None:
    pods = [pod(f"p{index}", labels={"part": str(index // 2)}) for index in range(4)]
    policy = {**PARTS, "minSubGroups": 1}
    documents = [node("n", 3), *pods, group(minMember=2, subGroupPolicy=[policy])]
    done, found = convert(phalanx, tmp_path, *documents)
    assert found["g"]["spec"]["minSubGroups"] == 1
    file = tmp_path / "out.yaml"
    file.write_text(done.out)
    assert phalanx("decide", "-f", str(file)).binds == {"default/p0": "n", "default/p1": "n"}


def test_names_of_subgroups_differ(phalanx: Phalanx, tmp_path: Path) -> None:
    pods = [pod("a", labels={"part": "x.y"}), pod("b", labels={"part": "x-y"})]
    _, found = convert(
        phalanx, tmp_path, *pods, group(minMember=2, subGroupPolicy=[{**PARTS, "subGroupSize": 1}])
    )
    assert len({part["name"] for part in found["g"]["spec"]["subGroups"]}) == 2


def test_subgroups_of_templates_are_an_error(phalanx: Phalanx, tmp_path: Path) -> None:
    template = {key: value for key, value in pod("t").items() if key in ("metadata", "spec")}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
    done, _ = convert(phalanx, tmp_path, job, group(minMember=1, subGroupPolicy=[PARTS]))
    assert done.code == 2
    assert (
        "PodGroup g: spec.subGroupPolicy: expected all of its pods in the input and no templates" in done.err
    )


# --- tasks, marks, classes ----------------------------------------------------------------------------------


def test_pods_without_a_task_have_a_role_beside_minimums_of_tasks(phalanx: Phalanx, tmp_path: Path) -> None:
    pods = [pod("a", **{TASK: "ps"}), pod("b")]
    done, found = convert(phalanx, tmp_path, *pods, group(minMember=2, minTaskMember={"ps": 1}))
    assert done.code == 0, done.err
    assert [role["name"] for role in found["g"]["spec"]["roles"]] == ["ps", "no-task"]
    assert found["b"]["metadata"]["labels"][f"{LABELS}role"] == "no-task"


def test_a_minimum_of_pods_without_a_task(phalanx: Phalanx, tmp_path: Path) -> None:
    _, found = convert(phalanx, tmp_path, pod("a"), group(minMember=1, minTaskMember={"": 1}))
    assert found["g"]["spec"]["roles"] == [{"name": "no-task", "count": 1, "minMember": 1}]


@pytest.mark.parametrize(
    ("written", "said", "preemptible", "noted"),
    [
        (None, ("false", "false"), False, False),
        (None, ("true", "true"), None, False),
        (None, ("true", "false"), None, True),
        ("false", ("false", "false"), False, False),
        ("false", ("true", "false"), False, True),
    ],
)
def test_what_all_pods_say_about_evictions_is_said_by_the_pod_group(
    phalanx: Phalanx,
    tmp_path: Path,
    written: str | None,
    said: tuple[str, str],
    preemptible: bool | None,
    noted: bool,
) -> None:
    pods = [pod(f"p{index}", **{PREEMPTABLE: value}) for index, value in enumerate(said)]
    meta = {"annotations": {PREEMPTABLE: written}} if written else None
    done, found = convert(phalanx, tmp_path, *pods, group(minMember=2, meta=meta))
    assert done.code == 0, done.err
    assert found["g"]["spec"].get("disruption", {}).get("preemptible") == preemptible
    assert ("of single pods is left out" in done.err) == noted


@pytest.mark.parametrize("version", [VOLCANO, KAI])
def test_pods_get_the_class_of_their_pod_group(phalanx: Phalanx, tmp_path: Path, version: str) -> None:
    known = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
    own = pod("own", kai=version == KAI)
    own["spec"]["priorityClassName"] = "low"
    documents = [{**known, "value": 9}, own, pod("a", kai=version == KAI)]
    spec = {"minMember": 2, "priorityClassName": "high"}
    _, found = convert(phalanx, tmp_path, *documents, group(version, **spec))
    assert found["a"]["spec"]["priorityClassName"] == "high"
    assert found["own"]["spec"]["priorityClassName"] == "low"
    done, found = convert(
        phalanx, tmp_path, *documents[1:], group(version, preemptibility="preemptible", **spec)
    )
    if version == KAI:
        assert "spec.priorityClassName: high must also be named by its pods" in done.err
        assert "priorityClassName" not in found["a"]["spec"]


# --- KAI ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stalenessGracePeriod", "60s"),
        ("schedulingBackoff", 1),
        ("markUnschedulable", False),
    ],
)
def test_fields_of_kai_that_start_nothing_else_are_notes(
    phalanx: Phalanx, tmp_path: Path, field: str, value: object
) -> None:
    done, found = convert(phalanx, tmp_path, group(KAI, minMember=1, **{field: value}))
    assert found["g"]["spec"] == {"minMember": 1}
    assert f"PodGroup g: spec.{field}: is left out" in done.err


def test_semi_preemptible_protects_the_whole_gang(phalanx: Phalanx, tmp_path: Path) -> None:
    done, found = convert(phalanx, tmp_path, group(KAI, minMember=1, preemptibility="semi-preemptible"))
    assert found["g"]["spec"]["disruption"] == {"preemptible": False}
    assert "semi-preemptible counts for surplus members too" in done.err


def test_pods_of_a_subgroup_that_needs_none_are_surplus_members(phalanx: Phalanx, tmp_path: Path) -> None:
    pods = [pod(name, kai=True, labels={"kai.scheduler/subgroup-name": name}) for name in ("a", "b")]
    parts = [
        {"name": "a", "minMember": 1},
        {"name": "b", "minMember": 0},
        {"name": "c", "parent": "d", "minMember": 0},
    ]
    parts.append({"name": "d"})
    done, found = convert(phalanx, tmp_path, *pods, group(KAI, minSubGroup=3, subGroups=parts))
    assert done.code == 0, done.err
    assert found["g"]["spec"] == {"subGroups": [{"name": "a", "minMember": 1}], "minSubGroups": 1}
    assert f"{LABELS}subgroup" not in found["b"]["metadata"]["labels"]
    assert found["a"]["metadata"]["labels"][f"{LABELS}subgroup"] == "a"


def test_a_gang_without_needed_subgroups_starts_with_one_pod(phalanx: Phalanx, tmp_path: Path) -> None:
    _, found = convert(phalanx, tmp_path, group(KAI, subGroups=[{"name": "a", "minMember": 0}]))
    assert found["g"]["spec"] == {"minMember": 1}


def test_pods_of_a_node_pool_select_its_nodes(phalanx: Phalanx, tmp_path: Path) -> None:
    pool = {"kai.scheduler/node-pool": "big"}
    documents = [pod("a", kai=True, labels=dict(pool)), group(KAI, meta={"labels": dict(pool)}, minMember=1)]
    done, found = convert(phalanx, tmp_path, *documents)
    assert done.code == 0, done.err
    assert found["a"]["spec"]["nodeSelector"] == pool


@pytest.mark.parametrize(
    ("weights", "counted"),
    [((0.5, 2), (1, 4)), ((0.25, 0.1), (5, 2)), ((1, 3), (1, 3)), ((1 / 3, 1), (1, 3)), ((0, 2), (1, 2000))],
)
def test_weights_of_queues_keep_their_ratios(
    phalanx: Phalanx, tmp_path: Path, weights: tuple[float, float], counted: tuple[int, int]
) -> None:
    queues = [
        {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": f"q{index}"},
            "spec": {"resources": {"gpu": {"quota": 1, "limit": -1, "overQuotaWeight": weight}}},
        }
        for index, weight in enumerate(weights)
    ]
    done, found = convert(phalanx, tmp_path, *queues)
    assert done.code == 0, done.err
    assert (found["q0"]["spec"]["weight"], found["q1"]["spec"]["weight"]) == counted


# --- Jobs of Volcano ----------------------------------------------------------------------------------------


def job(**template: Any) -> Object:
    tasks = [{"name": "w", "replicas": 2, "template": {"spec": {"containers": [{"name": "c"}]}, **template}}]
    meta = {"name": "j"}
    spec = {"minAvailable": 2, "schedulerName": "volcano", "tasks": tasks}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec}


def test_a_job_of_volcano_names_phalanx_for_all_tasks(phalanx: Phalanx, tmp_path: Path) -> None:
    spec = {"schedulerName": "volcano", "containers": [{"name": "c"}]}
    done, found = convert(phalanx, tmp_path, job(spec=spec))
    assert done.code == 0, done.err
    assert found["j"]["spec"]["schedulerName"] == "phalanx"
    assert "schedulerName" not in found["j"]["spec"]["tasks"][0]["template"]["spec"]
    assert "Volcano's controllers make its pods and its PodGroup" in done.err


def test_a_field_of_a_job_that_its_pod_group_could_not_have_is_an_error(
    phalanx: Phalanx, tmp_path: Path
) -> None:
    done, _ = convert(phalanx, tmp_path, job(metadata={"annotations": {"volcano.sh/revocable-zone": "z"}}))
    assert done.code == 2
    assert "Job j: spec.tasks[0].template.metadata.annotations[volcano.sh/revocable-zone]" in done.err
