"""`phalanx convert`: levels of HyperNodes, tasks, PriorityClasses, and pod templates at any depth."""

from pathlib import Path
from typing import Any

import pytest

from tests import fast_yaml
from tests.cli.conftest import Done, Phalanx

Object = dict[str, Any]

QUEUE = "scheduling.phalanx.dev/queue"
GROUP = "scheduling.k8s.io/group-name"
TOPOLOGY = {
    "apiVersion": "scheduling.phalanx.dev/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "net"},
    "spec": {"levels": [{"name": "pod", "nodeLabel": "net/pod"}, {"name": "rack", "nodeLabel": "net/rack"}]},
}
RACK, POD = (
    {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "tierName": name, "members": []},
    }
    for tier, name in ((1, "rack"), (2, "pod"))
)


def convert(phalanx: Phalanx, path: Path, *documents: Object) -> Done:
    file = path / "in.yaml"
    file.write_text(fast_yaml.safe_dump_all(documents))
    return phalanx("convert", "-f", str(file))


def converted(phalanx: Phalanx, path: Path, *documents: Object) -> Object:
    """The last object."""
    done = convert(phalanx, path, *documents)
    assert done.code == 0, done.err
    found: Object = list(fast_yaml.safe_load_all(done.out))[-1]
    return found


def volcano(**spec: Any) -> Object:
    meta = {"name": "g"}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec}


def kai(**spec: Any) -> Object:
    meta = {"name": "g"}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": meta, "spec": spec}


def member(name: str, **annotations: str) -> Object:
    meta = {"name": name, "annotations": {GROUP: "g", **annotations}}
    spec = {"schedulerName": "volcano", "containers": [{"name": "main"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


# --- levels -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "topology"),
    [
        ({"highestTierName": "pod"}, {"name": "net", "required": "pod", "preferred": "rack"}),
        ({"highestTierAllowed": 2}, {"name": "net", "required": "pod", "preferred": "rack"}),
        ({"mode": "hard", "highestTierAllowed": 1}, {"name": "net", "required": "rack"}),
        ({"mode": "soft"}, {"name": "net", "preferred": "rack"}),
    ],
)
def test_a_tier_becomes_the_level_of_its_name(
    phalanx: Phalanx, tmp_path: Path, wanted: Object, topology: Object
) -> None:
    group = volcano(minMember=1, networkTopology=wanted)
    assert converted(phalanx, tmp_path, TOPOLOGY, RACK, POD, group)["spec"]["topology"] == topology


@pytest.mark.parametrize(
    ("wanted", "others", "named"),
    [
        ({"highestTierName": "pod"}, (), "name of the tier: pod"),
        ({"highestTierName": "spine"}, (TOPOLOGY,), "name of the tier: spine"),
        ({"highestTierAllowed": 1}, (TOPOLOGY, POD), "the tierName of its HyperNodes"),
    ],
)
def test_a_tier_without_a_level_is_an_error(
    phalanx: Phalanx, tmp_path: Path, wanted: Object, others: tuple[Object, ...], named: str
) -> None:
    done = convert(phalanx, tmp_path, *others, volcano(minMember=1, networkTopology=wanted))
    assert (done.code, done.out) == (2, "")
    assert "PodGroup g: spec.networkTopology: " in done.err
    assert named in done.err


def test_a_hard_tier_needs_no_lower_one(phalanx: Phalanx, tmp_path: Path) -> None:
    done = convert(
        phalanx, tmp_path, TOPOLOGY, volcano(minMember=1, networkTopology={"highestTierName": "pod"})
    )
    (_, group) = fast_yaml.safe_load_all(done.out)
    assert group["spec"]["topology"] == {"name": "net", "required": "pod"}
    assert "note: " in done.err
    assert "no level is preferred" in done.err


def hyper_node(name: str, tier: int, *members: str, kind: str = "Node") -> Object:
    inside = [{"type": kind, "selector": {"exactMatch": {"name": each}}} for each in members]
    return {**RACK, "metadata": {"name": name}, "spec": {"tier": tier, "members": inside}}


def node(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": 8}},
    }


TREE = (
    *map(node, ("n1", "n2", "n3")),
    hyper_node("a", 1, "n1", "n2"),
    hyper_node("b", 1, "n3"),
    hyper_node("all", 2, "a", "b", kind="HyperNode"),
)


@pytest.mark.parametrize(
    ("wanted", "topology"),
    [
        ({"highestTierAllowed": 1}, {"name": "hypernodes", "required": "tier-1"}),
        ({"highestTierAllowed": 2}, {"name": "hypernodes", "required": "tier-2", "preferred": "tier-1"}),
        ({"highestTierAllowed": 3}, {"name": "hypernodes", "preferred": "tier-1"}),  # above all: the cluster
        ({"mode": "soft"}, {"name": "hypernodes", "preferred": "tier-1"}),
    ],
)
def test_hyper_nodes_become_a_topology_where_there_is_none(
    phalanx: Phalanx, tmp_path: Path, wanted: Object, topology: Object
) -> None:
    done = convert(phalanx, tmp_path, *TREE, volcano(minMember=1, networkTopology=wanted))
    assert done.code == 0, done.err
    made, *nodes, _, _, _, group = fast_yaml.safe_load_all(done.out)
    assert [level["name"] for level in made["spec"]["levels"]] == ["tier-2", "tier-1"]
    tier = "topology.volcano.sh/tier-1"
    assert [each["metadata"]["labels"][tier] for each in nodes] == ["a", "a", "b"]
    assert group["spec"]["topology"] == topology
    assert "note: Topology hypernodes: " in done.err
    (tmp_path / "in.yaml").write_text(done.out)
    assert phalanx("decide", "-f", str(tmp_path / "in.yaml")).code == 0


def test_a_topology_of_kai_becomes_one_where_there_is_none(phalanx: Phalanx, tmp_path: Path) -> None:
    levels = [{"nodeLabel": label} for label in ("example.com/Zone_1", "kubernetes.io/hostname")]
    meta = {"name": "net"}
    theirs = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": meta,
        "spec": {"levels": levels},
    }
    wanted = {"topology": "net", "requiredTopologyLevel": "example.com/Zone_1"}
    done = convert(phalanx, tmp_path, theirs, kai(minMember=1, topologyConstraint=wanted))
    made, _, group = fast_yaml.safe_load_all(done.out)
    assert made["spec"]["levels"] == [
        {"name": "zone-1", "nodeLabel": "example.com/Zone_1"},
        {"name": "hostname", "nodeLabel": "kubernetes.io/hostname"},
    ]
    assert group["spec"]["topology"] == {"name": "net", "required": "zone-1"}


@pytest.mark.parametrize(
    ("preferred", "kept"), [("net/pod", False), ("net/rack", False), ("kubernetes.io/hostname", True)]
)
def test_a_preference_that_a_required_level_includes_is_left_out(
    phalanx: Phalanx, tmp_path: Path, preferred: str, kept: bool
) -> None:
    wide = [*TOPOLOGY["spec"]["levels"], {"name": "host", "nodeLabel": "kubernetes.io/hostname"}]
    ours = {**TOPOLOGY, "spec": {"levels": wide}}
    levels = {"requiredTopologyLevel": "net/rack", "preferredTopologyLevel": preferred}
    group = kai(minMember=1, topologyConstraint={"topology": "net", **levels})
    found = converted(phalanx, tmp_path, ours, group)["spec"]["topology"]
    assert found == {"name": "net", "required": "rack", **({"preferred": "host"} if kept else {})}


# --- tasks, resources, classes ------------------------------------------------------------------------------


def test_other_tasks_of_the_pods_are_roles_without_a_minimum(phalanx: Phalanx, tmp_path: Path) -> None:
    pods = [member("a", **{"volcano.sh/task-spec": "ps"}), member("b", **{"volcano.sh/task-spec": "extra"})]
    found = converted(phalanx, tmp_path, *pods, volcano(minMember=4, minTaskMember={"ps": 1, "w": 1}))
    assert found["spec"]["roles"] == [
        {"name": "ps", "count": 3, "minMember": 1},
        {"name": "w", "count": 3, "minMember": 1},
        {"name": "extra", "count": 2, "minMember": 0},
    ]


@pytest.mark.parametrize(
    ("group", "field"),
    [
        (volcano(minMember=1, minTaskMember={"w": 4}), "spec.minTaskMember"),
        (volcano(minMember=1, minResources={"cpu": 1}), "spec.minResources"),
        (volcano(minMember=1, networkTopology={"mode": "soft"}), "spec.networkTopology"),
    ],
)
def test_what_is_left_out_is_a_note(phalanx: Phalanx, tmp_path: Path, group: Object, field: str) -> None:
    done = convert(phalanx, tmp_path, group)
    (found,) = fast_yaml.safe_load_all(done.out)
    assert found["spec"] == {"minMember": 1}
    assert done.err.startswith("note: ")
    assert f"PodGroup g: {field}: is left out" in done.err


@pytest.mark.parametrize(
    ("name", "value", "disruption"),
    [
        ("own", 99, None),
        ("own", 100, {"preemptible": False}),
        ("train", None, None),
        ("build", None, {"preemptible": False}),
        ("system-node-critical", None, {"preemptible": False}),
    ],
)
def test_the_priority_class_of_kai_decides_on_preemption(
    phalanx: Phalanx, tmp_path: Path, name: str, value: int | None, disruption: Object | None
) -> None:
    classes = [{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}]
    classes[0]["metadata"] = {"name": name}
    found = converted(
        phalanx,
        tmp_path,
        *(classes if value is not None else ()),
        kai(minMember=1, priorityClassName=name),
    )
    assert found["spec"].get("disruption") == disruption
    assert found["spec"]["priorityClassName"] == name
    written = converted(
        phalanx, tmp_path, kai(minMember=1, priorityClassName="other", preemptibility="non-preemptible")
    )
    assert written["spec"]["disruption"] == {"preemptible": False}


# --- pod templates ------------------------------------------------------------------------------------------


def template(scheduler: str = "volcano", **meta: Any) -> Object:
    return {"metadata": meta, "spec": {"schedulerName": scheduler, "containers": [{"name": "main"}]}}


def of_kind(api_version: str, kind: str, spec: Object, **meta: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", **meta}, "spec": spec}


IN_GROUP = {"annotations": {GROUP: "g", "volcano.sh/task-spec": "w"}}
JOB_SET = of_kind(
    "jobset.x-k8s.io/v1alpha2",
    "JobSet",
    {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": template(**IN_GROUP)}}}]},
)
CLUSTER = {
    "headGroupSpec": {"template": template(**IN_GROUP)},
    "workerGroupSpecs": [{"groupName": "a", "template": template(**IN_GROUP)}],
}
RAY_JOB = of_kind(
    "ray.io/v1", "RayJob", {"rayClusterSpec": CLUSTER, "submitterPodTemplate": template(**IN_GROUP)}
)
POD_TEMPLATE = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}}
POD_TEMPLATE["template"] = template(**IN_GROUP)
CRON_JOB = of_kind("batch/v1", "CronJob", {"jobTemplate": {"spec": {"template": template(**IN_GROUP)}}})
LWS = of_kind(
    "leaderworkerset.x-k8s.io/v1",
    "LeaderWorkerSet",
    {
        "leaderWorkerTemplate": {
            "leaderTemplate": template(**IN_GROUP),
            "workerTemplate": template(**IN_GROUP),
        }
    },
)


def templates(value: object) -> list[Object]:
    if isinstance(value, list):
        return [found for each in value for found in templates(each)]
    if not isinstance(value, dict):
        return []
    if "containers" in value.get("spec", {}):
        return [value]
    return [found for each in value.values() for found in templates(each)]


@pytest.mark.parametrize(
    ("written", "count"), [(JOB_SET, 1), (RAY_JOB, 3), (CRON_JOB, 1), (POD_TEMPLATE, 1), (LWS, 2)]
)
def test_templates_are_converted_at_any_depth(
    phalanx: Phalanx, tmp_path: Path, written: Object, count: int
) -> None:
    found = templates(converted(phalanx, tmp_path, written))
    assert len(found) == count
    for each in found:
        assert each["spec"]["schedulerName"] == "phalanx"
        assert each["metadata"]["labels"] == {
            "scheduling.phalanx.dev/pod-group": "g",
            "scheduling.phalanx.dev/role": "w",
        }
        assert GROUP not in each["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("scheduler", "meta"),
    [
        ("kai-scheduler", {"labels": {"kai.scheduler/queue": "team"}}),
        ("volcano", {"annotations": {"scheduling.volcano.sh/queue-name": "team"}}),
    ],
)
def test_the_queue_of_pods_and_of_their_owner(
    phalanx: Phalanx, tmp_path: Path, scheduler: str, meta: Object
) -> None:
    job = of_kind("batch/v1", "Job", {"template": template(scheduler, **meta)}, **meta)
    found = converted(phalanx, tmp_path, job)
    assert found["metadata"]["labels"][QUEUE] == "team"
    assert found["spec"]["template"]["metadata"]["labels"][QUEUE] == "team"
    assert found["spec"]["template"]["spec"]["schedulerName"] == "phalanx"


def test_the_queue_of_a_namespace(phalanx: Phalanx, tmp_path: Path) -> None:
    """Volcano's webhook writes it into PodGroups that name none."""
    meta = {"annotations": {"scheduling.volcano.sh/queue-name": "team"}}
    found = converted(phalanx, tmp_path, of_kind("v1", "Namespace", {}, **meta))
    assert found["metadata"]["labels"] == {QUEUE: "team"}


def test_the_minimum_that_a_deployment_names_for_volcano(phalanx: Phalanx, tmp_path: Path) -> None:
    meta = {"annotations": {"scheduling.volcano.sh/group-min-member": "3"}}
    found = converted(phalanx, tmp_path, of_kind("apps/v1", "Deployment", {"template": template()}, **meta))
    assert found["spec"]["template"]["metadata"]["labels"] == {"scheduling.phalanx.dev/min-member": "3"}


def test_pods_of_spark_have_no_template(phalanx: Phalanx, tmp_path: Path) -> None:
    pod = {"schedulerName": "volcano", "labels": {"kai.scheduler/queue": "team"}}
    spec = {"driver": dict(pod), "executor": {**pod, "instances": 2}}
    found = converted(phalanx, tmp_path, of_kind("sparkoperator.k8s.io/v1beta2", "SparkApplication", spec))
    for name in ("driver", "executor"):
        assert found["spec"][name]["schedulerName"] == "phalanx"
        assert found["spec"][name]["labels"][QUEUE] == "team"
        assert "metadata" not in found["spec"][name]
    batch = of_kind("sparkoperator.k8s.io/v1beta2", "SparkApplication", {**spec, "batchScheduler": "volcano"})
    assert "SparkApplication x: spec.batchScheduler: volcano" in convert(phalanx, tmp_path, batch).err


@pytest.mark.parametrize(
    ("written", "path"),
    [
        (
            of_kind("example.com/v1", "Run", {"pods": [{"template": template()}]}),
            "spec.pods[0].template.spec.schedulerName: volcano is not converted",
        ),
        (
            of_kind(
                "trainer.kubeflow.org/v1alpha1",
                "TrainingRuntime",
                {"template": {"spec": JOB_SET["spec"]}},
            ),
            "spec.template.spec.replicatedJobs[0].template.spec.template.spec.schedulerName: volcano",
        ),
        (
            of_kind("example.com/v1", "Run", {"podLabels": {"scheduling.x-k8s.io/pod-group": "g"}}),
            "spec.podLabels[scheduling.x-k8s.io/pod-group]: names PodGroup g",
        ),
        (
            of_kind("ray.io/v1", "RayCluster", CLUSTER, labels={"ray.io/scheduler-name": "volcano"}),
            "metadata.labels[ray.io/scheduler-name]: volcano is not converted",
        ),
        (of_kind("scheduling.run.ai/v1alpha2", "BindRequest", {}), "kind: BindRequest of scheduling.run.ai"),
    ],
)
def test_what_is_not_understood_is_an_error_by_path(
    phalanx: Phalanx, tmp_path: Path, written: Object, path: str
) -> None:
    done = convert(phalanx, tmp_path, written)
    assert (done.code, done.out) == (2, "")
    assert f"{written['kind']} x: {path}" in done.err


def test_a_template_at_the_usual_place_is_converted_in_any_kind(phalanx: Phalanx, tmp_path: Path) -> None:
    found = converted(phalanx, tmp_path, of_kind("example.com/v1", "Run", {"template": template(**IN_GROUP)}))
    assert found["spec"]["template"]["spec"]["schedulerName"] == "phalanx"


def test_what_stays_and_means_nothing_is_a_note(phalanx: Phalanx, tmp_path: Path) -> None:
    labels = {"kai.scheduler/node-pool": "a"}
    done = convert(
        phalanx, tmp_path, of_kind("batch/v1", "Job", {"template": template(labels=labels)}, labels=labels)
    )
    assert done.code == 0
    for path in ("metadata", "spec.template.metadata"):
        assert f"Job x: {path}.labels[kai.scheduler/node-pool]: is left as it is" in done.err
    (found,) = fast_yaml.safe_load_all(done.out)
    assert found["metadata"]["labels"] == labels


def test_a_member_that_another_scheduler_keeps_is_a_note(phalanx: Phalanx, tmp_path: Path) -> None:
    done = convert(phalanx, tmp_path, of_kind("batch/v1", "Job", {"template": template("mine", **IN_GROUP)}))
    assert done.code == 0
    assert "Job x: spec.template.spec.schedulerName: mine stays" in done.err


def test_an_object_of_no_other_scheduler_stays_as_it_is(phalanx: Phalanx, tmp_path: Path) -> None:
    objects = [
        of_kind("batch/v1", "Job", {"template": template("default-scheduler", labels={"a": "b"})}),
        of_kind("example.com/v1", "Run", {"schedulerName": "mine", "deep": [{"labels": {"a": "b"}}]}),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"volcano.sh/x": "y"}},
    ]
    done = convert(phalanx, tmp_path, *objects)
    assert (list(fast_yaml.safe_load_all(done.out)), done.err) == (objects, "")


# --- shares of GPUs -----------------------------------------------------------------------------------------

SHARE, MEMORY = "scheduling.phalanx.dev/gpu-share", "scheduling.phalanx.dev/gpu-memory"


def pod_of_kai(annotations: Object) -> Object:
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "main"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": annotations},
        "spec": spec,
    }


@pytest.mark.parametrize("group", [{}, {"pod-group-name": "g"}])
@pytest.mark.parametrize(
    ("written", "share"),
    [
        ({"gpu-fraction": "0.5"}, {SHARE: "500"}),
        ({"gpu-fraction": "0.3333", "gpu-fraction-num-devices": "1"}, {SHARE: "334"}),
        ({"gpu-fraction": "1"}, {SHARE: "1000"}),
        ({"gpu-memory": "4000"}, {MEMORY: "4000Mi"}),
    ],
)
def test_a_share_of_a_gpu_becomes_one_of_phalanx(
    phalanx: Phalanx, tmp_path: Path, written: Object, share: Object, group: Object
) -> None:
    found = converted(phalanx, tmp_path, pod_of_kai({**written, **group}))
    assert found["metadata"]["annotations"] == share


@pytest.mark.parametrize("group", [{}, {"pod-group-name": "g"}])
@pytest.mark.parametrize(
    ("written", "named"),
    [
        ({"gpu-fraction": "1.5"}, "[gpu-fraction]: expected a number up to 1"),
        ({"gpu-fraction": "half"}, "[gpu-fraction]: expected a number up to 1"),
        ({"gpu-memory": "0"}, "[gpu-memory]: expected a number of MiB"),
        ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}, "[gpu-fraction-num-devices]"),
        ({"gpu-fraction": "0.5", "gpu-memory": "1"}, "[gpu-memory]"),
        ({"mps": "true"}, "[mps]"),
    ],
)
def test_other_parts_of_gpus_are_errors(
    phalanx: Phalanx, tmp_path: Path, written: Object, named: str, group: Object
) -> None:
    done = convert(phalanx, tmp_path, pod_of_kai({**written, **group}))
    assert (done.code, done.out) == (2, "")
    assert f"Pod p: metadata.annotations{named}" in done.err
