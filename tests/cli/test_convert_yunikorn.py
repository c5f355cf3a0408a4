"""`phalanx convert` for YuniKorn: the same placements, Queues, and errors by path for the rest."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Phalanx

DOMAIN = "yunikorn.apache.org"
GROUP, GROUPS = f"{DOMAIN}/task-group-name", f"{DOMAIN}/task-groups"
PARAMETERS, ALLOW = f"{DOMAIN}/schedulingPolicyParameters", f"{DOMAIN}/allow-preemption"
OURS = "scheduling.phalanx.dev/v1alpha1"
Object = dict[str, Any]


def run(phalanx: Phalanx, folder: Path, *documents: Any) -> Any:
    file = folder / "in.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    return phalanx("convert", "-f", str(file))


def converted(phalanx: Phalanx, folder: Path, *documents: Any) -> list[Object]:
    done = run(phalanx, folder, *documents)
    assert (done.code, done.err) == (0, "")
    return list(yaml.safe_load_all(done.out))


def errors(phalanx: Phalanx, folder: Path, *documents: Any) -> str:
    done = run(phalanx, folder, *documents)
    assert (done.code, done.out) == (2, "")
    return str(done.err)


# --- pods ---------------------------------------------------------------------------------------------------


def task_group(name: str = "w", minimum: int = 3, **more: Any) -> Object:
    return {"name": name, "minMember": minimum, "minResource": {"cpu": 1}, **more}


def node(name: str, cores: int) -> Object:
    amounts = {"cpu": str(cores), "pods": "9"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": amounts},
    }


def template(*groups: Object, annotations: Object | None = None, app: str = "app", **spec: Any) -> Object:
    """What a pod and a pod template have in common; without groups it is of task group `w` all the same."""
    written = {GROUP: "w", **({GROUPS: json.dumps(groups)} if groups else {}), **(annotations or {})}
    labels = {"applicationId": app, "a": "b"}
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {"labels": labels, "annotations": {key: text for key, text in written.items() if text}},
        "spec": {"schedulerName": "phalanx", "containers": [container], **spec},
    }


def pod(name: str, *groups: Object, **rest: Any) -> Object:
    made = template(*groups, **rest)
    meta = {"name": name, "namespace": "default", **made["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", **made, "metadata": meta}


def job(*groups: Object, **rest: Any) -> Object:
    spec = {"parallelism": 3, "template": template(*groups, **rest)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "team"},
        "spec": spec,
    }


def test_templates_at_any_depth_define_and_join_an_application(phalanx: Phalanx, tmp_path: Path) -> None:
    head, workers = task_group("w", 1), task_group("e", 2)
    spec = {
        "headGroupSpec": {"template": template(head, workers)},
        "workerGroupSpecs": [{"groupName": "g", "template": template(annotations={GROUP: "e"})}],
    }
    meta = {"name": "r", "namespace": "team"}
    ray = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": meta, "spec": spec}
    group, made = converted(phalanx, tmp_path, ray)
    assert (group["metadata"], group["spec"]["minMember"]) == ({"name": "app", "namespace": "team"}, 3)
    inner = made["spec"]
    found = [inner["headGroupSpec"]["template"], inner["workerGroupSpecs"][0]["template"]]
    labels = [each["metadata"]["labels"] for each in found]
    assert {each["scheduling.phalanx.dev/pod-group"] for each in labels} == {"app"}
    assert [each["scheduling.phalanx.dev/role"] for each in labels] == ["w", "e"]


@pytest.mark.parametrize(
    ("cores", "pods", "placed"),
    [(3, 3, 3), (3, 1, 1), (2, 3, 0), (2, 1, 0), (4, 5, 4)],
    ids=["all exist", "others do not exist yet", "too small", "too small for those to come", "surplus"],
)
def test_the_placements_are_those_of_the_originals(
    phalanx: Phalanx, tmp_path: Path, cores: int, pods: int, placed: int
) -> None:
    before = [node("n", cores), *(pod(f"p{number}", task_group()) for number in range(pods))]
    after = tmp_path / "out.yaml"
    documents = converted(phalanx, tmp_path, *before)
    after.write_text(yaml.safe_dump_all(documents))
    assert [each["kind"] for each in documents][:2] == ["PodGroup", "Node"]
    first, second = phalanx("decide", "-f", str(tmp_path / "in.yaml")), phalanx("decide", "-f", str(after))
    assert (first.binds, first.waiting) == (second.binds, second.waiting)
    assert len(first.binds) == placed


def test_a_job_gets_a_pod_group_and_labels(phalanx: Phalanx, tmp_path: Path) -> None:
    executor = task_group("e", 2, minResource={"memory": "1Gi"}, nodeSelector={"x": "y"})
    level = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1}
    class_ = {**level, "metadata": {"name": "high", "annotations": {ALLOW: "false"}}}
    more = {
        f"{DOMAIN}/queue": "root.a.b",
        PARAMETERS: "gangSchedulingStyle=Hard",
        f"{DOMAIN}/user.info": "{}",
    }
    written = job(task_group("w", 1), executor, annotations=more, priorityClassName="high")
    group, _, made = converted(phalanx, tmp_path, class_, written)
    assert group == {
        "apiVersion": OURS,
        "kind": "PodGroup",
        "metadata": {"name": "app", "namespace": "team"},
        "spec": {
            "minMember": 3,
            "queue": "a.b",
            "priorityClassName": "high",
            "disruption": {"preemptible": False},
            "startWhen": "Reserved",
            "roles": [
                {"name": "w", "count": 1, "minMember": 1, "requests": {"cpu": 1}},
                {"name": "e", "count": 2, "minMember": 2, "requests": {"memory": "1Gi"}},
            ],
        },
    }
    assert made["spec"]["template"]["metadata"] == {
        "annotations": {f"{DOMAIN}/user.info": "{}"},
        "labels": {
            "applicationId": "app",
            "a": "b",
            "scheduling.phalanx.dev/pod-group": "app",
            "scheduling.phalanx.dev/role": "w",
            "scheduling.phalanx.dev/queue": "a.b",
        },
    }


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([job(task_group(later=1))], f"Job team/j: field metadata.annotations[{GROUPS}][0].later"),
        (
            [job(task_group(), annotations={PARAMETERS: "gangSchedulingStyle=Soft"})],
            "gangSchedulingStyle=Soft",
        ),
        (
            [job(task_group(), annotations={PARAMETERS: "placeholderTimeoutInSeconds=9"})],
            "placeholderTimeoutInSeconds 9 counts as 600",
        ),
        ([job(task_group(), annotations={GROUP: ""})], f"[{GROUP}]: expected a task group"),
        ([job(task_group(), app="")], "without an application ID: has no counterpart"),
        ([job(task_group(), app="My_App")], "application ID 'My_App': expected lower-case"),
        ([job(task_group("A"))], "task group 'A': expected lower-case"),
        ([pod("a", task_group()), pod("b", task_group(minimum=2))], f"Pod default/b: {GROUPS}: differs"),
        (
            [pod("a", task_group()), pod("b", annotations={GROUP: ""})],
            f"Pod default/b: {GROUP}: expected a task",
        ),
    ],
)
def test_what_has_no_counterpart_is_an_error(
    phalanx: Phalanx, tmp_path: Path, documents: list[Object], expected: str
) -> None:
    assert expected in errors(phalanx, tmp_path, *documents)


def test_a_pod_of_no_application_stays_as_it_is(phalanx: Phalanx, tmp_path: Path) -> None:
    written = pod("a", annotations={GROUP: ""})
    assert converted(phalanx, tmp_path, written) == [written]


# --- queues -------------------------------------------------------------------------------------------------


def queues(*top: Object, **partition: Any) -> Object:
    return {"partitions": [{"name": "default", "queues": list(top), **partition}]}


def configmap(content: Object, key: str = "queues.yaml", **data: str) -> Object:
    meta = {"name": "yunikorn-configs", "namespace": "yunikorn"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta,
        "data": {key: yaml.safe_dump(content), **data},
    }


TREE = queues(
    {
        "name": "root",
        "submitacl": "*",
        "queues": [
            {
                "name": "Prod",
                "parent": True,
                "resources": {"guaranteed": {"vcore": "500m", "memory": "1G"}, "max": {"vcore": 8}},
                "queues": [
                    {"name": "spark", "properties": {"priority.policy": "fence", "priority.offset": 5}}
                ],
            },
            {"name": "sandbox", "properties": {"application.sort.policy": "fifo"}},
        ],
    },
    placementrules=[{"name": "provided"}],
    preemption={"enabled": True},
)


@pytest.mark.parametrize(
    "document", [TREE, configmap(TREE), configmap(TREE, "mine.yaml", **{"service.policyGroup": "mine"})]
)
def test_queues_become_queues(phalanx: Phalanx, tmp_path: Path, document: Object) -> None:
    made = converted(phalanx, tmp_path, document)
    assert {each["metadata"]["name"]: each["spec"] for each in made} == {
        "prod": {"guarantee": {"cpu": "500m", "memory": "1G"}, "limit": {"cpu": 8}},
        "prod.spark": {"parent": "prod", "priority": 5},
        "sandbox": {},
    }
    assert {(each["apiVersion"], each["kind"]) for each in made} == {(OURS, "Queue")}
    (tmp_path / "out.yaml").write_text(yaml.safe_dump_all(made))
    assert phalanx("decide", "-f", str(tmp_path / "out.yaml")).code == 0


def test_queues_without_root_are_below_it(phalanx: Phalanx, tmp_path: Path) -> None:
    made = converted(phalanx, tmp_path, queues({"name": "a"}, {"name": "b", "queues": [{"name": "c"}]}))
    assert [each["metadata"]["name"] for each in made] == ["a", "b", "b.c"]


def in_queue(**fields: Any) -> Object:
    return queues({"name": "root", "queues": [{"name": "a", **fields}]})


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            in_queue(limits=[{"users": ["u"]}]),
            "partitions[default].queues[root.a].limits: has no counterpart",
        ),
        (in_queue(maxapplications=1), "queues[root.a].maxapplications: has no counterpart"),
        (in_queue(submitacl=" dev"), "queues[root.a].submitacl: has no counterpart"),
        (in_queue(childtemplate={}), "queues[root.a].childtemplate: has no counterpart"),
        (in_queue(parent=True), "queues[root.a].parent: has no counterpart"),
        (in_queue(resources={"min": {}}), "queues[root.a].resources.min: has no counterpart"),
        (in_queue(resources={"max": {"vcore": "x"}}), "queues[root.a].resources.max[cpu]"),
        (in_queue(resources={"max": {"cpu": 1}}), "queues[root.a].resources.max.cpu: expected vcore"),
        (in_queue(resources={"max": {"vcore": 0}}), "queues[root.a].resources.max: only zeros"),
        (in_queue(properties={"priority.offset": 5}), "properties[priority.offset]: 5: has no counterpart"),
        (
            in_queue(properties={"preemption.policy": "fence"}),
            "[preemption.policy]: fence: has no counterpart",
        ),
        (in_queue(properties={"application.sort.policy": "fair"}), "[application.sort.policy]: fair: has no"),
        (in_queue(properties={"preemption.delay": "10s"}), "[preemption.delay]: 10s: has no counterpart"),
        (in_queue(properties={"later": 1}), "[later]: 1: has no counterpart"),
        (queues({"name": "A_b"}), "queues[root.a_b].name: expected"),
        (queues(nodesortpolicy={"type": "fair"}), "partitions[default].nodesortpolicy: has no counterpart"),
        (queues(preemption={"enabled": False}), "preempt out of the actions"),
        (
            queues(placementrules=[{"name": "tag", "value": "namespace"}]),
            "placementrules[0]: has no counterpart",
        ),
        (
            queues(placementrules=[{"name": "provided", "create": True}]),
            "placementrules[0]: has no counterpart",
        ),
        ({"partitions": [{"name": "gpu", "queues": []}]}, "partitions[gpu]: has no counterpart"),
        ({"partitions": [{"name": "default", "queues": 1}]}, "queues: expected a list of objects"),
    ],
)
def test_what_queues_cannot_say_is_an_error_by_path(
    phalanx: Phalanx, tmp_path: Path, document: Object, expected: str
) -> None:
    assert expected in errors(phalanx, tmp_path, document)


def test_a_namespace_with_a_quota_gets_a_queue(phalanx: Phalanx, tmp_path: Path) -> None:
    annotations = {
        f"{DOMAIN}/namespace.quota": '{"cpu": "64", "nvidia.com/gpu": 8}',
        f"{DOMAIN}/namespace.guaranteed": '{"cpu": "8"}',
        f"{DOMAIN}/namespace.max.cpu": "1",
        f"{DOMAIN}/parentqueue": "root.prod",
        "other": "x",
    }
    meta = {"name": "finance", "annotations": annotations}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
    queue, space = converted(phalanx, tmp_path, namespace)
    assert queue["metadata"] == {"name": "prod.finance"}
    assert queue["spec"] == {
        "parent": "prod",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "finance"}},
        "guarantee": {"cpu": "8"},
        "limit": {"cpu": "64", "nvidia.com/gpu": 8},
    }
    labels = {"scheduling.phalanx.dev/queue": "prod.finance"}
    assert space["metadata"] == {"name": "finance", "annotations": {"other": "x"}, "labels": labels}


def test_what_is_not_read_is_an_error(phalanx: Phalanx, tmp_path: Path) -> None:
    packed = {**configmap(TREE), "data": {}, "binaryData": {"queues.yaml.gz": "H4sI"}}
    assert "binaryData[queues.yaml.gz]: expected queues.yaml as text" in errors(phalanx, tmp_path, packed)
    meta = {"name": "dev", "annotations": {f"{DOMAIN}/namespace.maxApps": "1"}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
    assert "namespace.maxApps]: has no counterpart" in errors(phalanx, tmp_path, namespace)


def test_the_old_quotas_of_a_namespace_count_alone(phalanx: Phalanx, tmp_path: Path) -> None:
    annotations = {f"{DOMAIN}/namespace.max.cpu": "1", f"{DOMAIN}/namespace.max.memory": "2Gi"}
    meta = {"name": "dev", "annotations": annotations}
    queue, _ = converted(phalanx, tmp_path, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    assert queue["spec"]["limit"] == {"cpu": "1", "memory": "2Gi"}
    meta["annotations"] = {f"{DOMAIN}/namespace.quota": "64"}
    found = errors(phalanx, tmp_path, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    assert "namespace.quota]: expected amounts of resources in JSON" in found
