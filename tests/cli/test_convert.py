"""`phalanx convert`: the same placements as the originals; what has no counterpart is an error by path."""

from pathlib import Path

import pytest

from tests import fast_yaml
from tests.cli.conftest import Phalanx

NODES = """
- {apiVersion: v1, kind: Node, metadata: {name: n1, labels: {net/rack: a}},
   status: {allocatable: {cpu: 1, pods: 9}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2, labels: {net/rack: b}},
   status: {allocatable: {cpu: 2, pods: 9}}}
- {apiVersion: v1, kind: Node, metadata: {name: n3, labels: {net/rack: a}},
   status: {allocatable: {cpu: 1, pods: 9}}}
- {apiVersion: scheduling.phalanx.dev/v1alpha1, kind: Topology, metadata: {name: net},
   spec: {levels: [{name: rack, nodeLabel: net/rack}, {name: host, nodeLabel: kubernetes.io/hostname}]}}
"""
SPEC = "schedulerName: phalanx, containers: [{name: main, resources: {requests: {cpu: 1}}}]"
POD = f"{{apiVersion: v1, kind: Pod, metadata: {{name: pNUMBER, META}}, spec: {{{SPEC}}}}}"
PODS = "".join(f"- {POD}\n".replace("NUMBER", str(number)) for number in range(3))

NATIVE = "scheduling.k8s.io/v1beta1"
PLUGINS = "scheduling.x-k8s.io/v1alpha1"
VOLCANO = "scheduling.volcano.sh/v1beta1"
KAI = "scheduling.run.ai/v2alpha2"
KAI_QUEUES = "scheduling.run.ai/v2"

PODS_OF = {
    NATIVE: PODS.replace(", META", "").replace(SPEC, f"{SPEC}, schedulingGroup: {{podGroupName: g}}"),
    PLUGINS: PODS.replace("META", "labels: {scheduling.x-k8s.io/pod-group: g}"),
    VOLCANO: PODS.replace(
        "META", "annotations: {scheduling.k8s.io/group-name: g, volcano.sh/task-spec: w}, labels: {a: b}"
    ),
    KAI: PODS.replace("META", "annotations: {pod-group-name: g}, labels: {kai.scheduler/subgroup-name: s}"),
}

RACK = "topologyConstraint: {topology: net, requiredTopologyLevel: net/rack}"
PART = "subGroups: [{name: s, minMember: 2}]"


def write(path: Path, version: str, spec: str) -> str:
    kai = "- {apiVersion: kai.scheduler/v1alpha1, kind: Topology, metadata: {name: net}, "
    kai += "spec: {levels: [{nodeLabel: net/rack}]}}"
    group = f"- {{apiVersion: {version}, kind: PodGroup, metadata: {{name: g}}, spec: {{{spec}}}}}\n"
    file = path / "in.yaml"
    text = NODES + (f"{kai}\n" if version == KAI else "") + group + PODS_OF[version]
    file.write_text(fast_yaml.safe_dump_all(fast_yaml.safe_load(text)))
    return str(file)


@pytest.mark.parametrize(
    ("version", "spec", "placed"),
    [
        (NATIVE, "schedulingPolicy: {gang: {minCount: 4}}", 0),
        (
            NATIVE,
            "schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: net/rack}]}",
            2,
        ),
        (PLUGINS, "minMember: 3", 3),
        (PLUGINS, "minMember: 4", 0),
        (VOLCANO, "minMember: 3, minTaskMember: {w: 3}", 3),
        (VOLCANO, "minMember: 3, minTaskMember: {w: 1}", 3),
        (VOLCANO, "minMember: 2, minTaskMember: {w: 4}", 3),
        (VOLCANO, "minMember: 4, minTaskMember: {w: 1}", 0),
        (VOLCANO, "minMember: 3, minTaskMember: {other: 1}", 0),
        (VOLCANO, "minMember: 1, subGroupPolicy: [{name: w, matchLabelKeys: [a], subGroupSize: 3}]", 3),
        (VOLCANO, "minMember: 1, subGroupPolicy: [{name: w, matchLabelKeys: [a], subGroupSize: 4}]", 0),
        (VOLCANO, "minMember: 3, queue: other", 0),
        (KAI, f"minMember: 1, {PART}", 3),
        (KAI, f"minMember: 1, {PART}, {RACK}", 2),
    ],
)
def test_the_placements_are_those_of_the_originals(
    phalanx: Phalanx, tmp_path: Path, version: str, spec: str, placed: int
) -> None:
    before = write(tmp_path, version, spec)
    converted = phalanx("convert", "-f", before)
    assert converted.code == 0
    documents = list(fast_yaml.safe_load_all(converted.out))
    groups = [each["apiVersion"] for each in documents if each["kind"] == "PodGroup"]
    assert groups == ["scheduling.phalanx.dev/v1alpha1"]
    after = tmp_path / "out.yaml"
    after.write_text(converted.out)
    first, second = phalanx("decide", "-f", before), phalanx("decide", "-f", str(after))
    assert (first.binds, first.waiting) == (second.binds, second.waiting)
    assert len(first.binds) == placed


@pytest.mark.parametrize(
    ("version", "spec", "path"),
    [
        (NATIVE, "schedulingPolicy: {basic: {}}", "spec.schedulingPolicy.basic"),
        (
            NATIVE,
            "schedulingPolicy: {gang: {minCount: 1}}, schedulingConstraints: {topology: [{key: x}]}",
            "spec.schedulingConstraints.topology: expected a Topology",
        ),
        (VOLCANO, "minMember: 1, subGroupPolicy: [{name: a}]", "spec.subGroupPolicy"),
        (VOLCANO, "minMember: 1, networkTopology: {highestTierAllowed: 1}", "spec.networkTopology"),
        (
            VOLCANO,
            "minMember: 1, subGroupPolicy: [{name: w, matchLabelKeys: [a], minSubGroups: 2}]",
            "spec.subGroupPolicy[w] needs 2 subgroups, and pods of 1 exist",
        ),
        (KAI, f"{PART}, later: 1", "spec.later"),
        (KAI, f"{PART}, priorityClassName: other", "spec.preemptibility"),
    ],
)
def test_what_has_no_counterpart_is_an_error_by_path(
    phalanx: Phalanx, tmp_path: Path, version: str, spec: str, path: str
) -> None:
    done = phalanx("convert", "-f", write(tmp_path, version, spec))
    assert (done.code, done.out) == (2, "")
    assert "PodGroup g: " in done.err
    assert path in done.err


def test_pod_templates_are_converted(phalanx: Phalanx, tmp_path: Path) -> None:
    meta = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    template = {"metadata": meta, "spec": {"schedulerName": "phalanx", "containers": [{"name": "main"}]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
    file = tmp_path / "in.yaml"
    file.write_text(fast_yaml.safe_dump(job))
    converted = fast_yaml.safe_load(phalanx("convert", "-f", str(file)).out)
    assert converted["spec"]["template"]["metadata"] == {
        "annotations": {},
        "labels": {"scheduling.phalanx.dev/pod-group": "g"},
    }


def queue(**spec: object) -> str:
    root = {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": "root"}, "spec": {"weight": 1}}
    return fast_yaml.safe_dump_all([root, {**root, "metadata": {"name": "q"}, "spec": spec}])


def test_queues_of_volcano_are_converted(phalanx: Phalanx, tmp_path: Path) -> None:
    file = tmp_path / "in.yaml"
    amounts = {"capability": {"cpu": "8"}, "deserved": {"cpu": 4}}
    file.write_text(queue(weight=2, parent="root", reclaimable=True, priority=3, guarantee={}, **amounts))
    done = phalanx("convert", "-f", str(file))
    (converted,) = fast_yaml.safe_load_all(done.out)
    assert (converted["kind"], converted["metadata"], done.err) == ("Queue", {"name": "q"}, "")
    assert converted["spec"] == {"weight": 2, "priority": 3, "limit": {"cpu": "8"}, "guarantee": {"cpu": 4}}
    file.write_text(done.out)
    assert phalanx("decide", "-f", str(file)).code == 0


@pytest.mark.parametrize(
    "body",
    [
        {"apiVersion": VOLCANO, "spec": {"capability": {"cpu": 1}, "reclaimable": False, "priority": 2}},
        {"apiVersion": VOLCANO, "spec": {"deserved": {"cpu": 1}}, "status": {"state": "Closed"}},
        {"apiVersion": KAI_QUEUES, "spec": {"resources": {"cpu": {"quota": 500, "limit": 1500}}}},
        {"apiVersion": KAI_QUEUES, "spec": {"reclaimMinRuntime": "1h", "resources": {"gpu": {"limit": -1}}}},
    ],
)
def test_a_converted_queue_decides_as_the_one_that_is_read(
    phalanx: Phalanx, tmp_path: Path, body: dict[str, object]
) -> None:
    """The scheduler and the command use the same mapping."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"scheduling.phalanx.dev/queue": "q"}}}
    main = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": "phalanx", "containers": [main]}
    pods = [{**pod, "metadata": {**pod["metadata"], "name": name}, "spec": spec} for name in "ab"]  # type: ignore[dict-item]
    text = fast_yaml.safe_dump_all([*fast_yaml.safe_load(NODES), *pods])
    read, converted, config = (tmp_path / name for name in ("read.yaml", "converted.yaml", "config.yaml"))
    read.write_text(fast_yaml.safe_dump({**body, "kind": "Queue", "metadata": {"name": "q"}}))
    done = phalanx("convert", "-f", str(read))
    assert done.code == 0
    converted.write_text(f"{text}---\n{done.out}")
    read.write_text(f"{text}---\n{read.read_text()}")
    config.write_text("queueDialects: [scheduling.volcano.sh, scheduling.run.ai]")
    live = phalanx("decide", "-f", str(read), "--config", str(config))
    ours = phalanx("decide", "-f", str(converted))
    assert (live.binds, live.waiting) == (ours.binds, ours.waiting)
    without = phalanx("decide", "-f", str(read))
    assert without.waiting == {"default/a": "QueueNotFound", "default/b": "QueueNotFound"}
    assert "1 Queue" in without.err


def test_what_a_field_means_here_is_a_note(phalanx: Phalanx, tmp_path: Path) -> None:
    file = tmp_path / "in.yaml"
    file.write_text(queue(weight=1, guarantee={"resource": {"cpu": 1}}))
    done = phalanx("convert", "-f", str(file))
    assert done.code == 0
    assert done.err.startswith("note: ")
    assert "Queue q: spec.guarantee.resource: is lent" in done.err
    config = tmp_path / "config.yaml"
    config.write_text("queueDialects: [scheduling.volcano.sh]")
    assert phalanx("decide", "-f", str(file), "--config", str(config)).err == done.err


@pytest.mark.parametrize(
    ("field", "value"), [("dequeueStrategy", "last"), ("capability", {"cpu": "many"}), ("later", 1)]
)
def test_other_fields_of_queues_are_errors(
    phalanx: Phalanx, tmp_path: Path, field: str, value: object
) -> None:
    file = tmp_path / "in.yaml"
    file.write_text(queue(weight=1, **{field: value}))
    done = phalanx("convert", "-f", str(file))
    assert (done.code, done.out) == (2, "")
    assert f"Queue q: spec.{field}" in done.err


def test_a_quota_of_nothing_protects_nothing(phalanx: Phalanx, tmp_path: Path) -> None:
    """What is not preemptible starts only inside the quota; -1 bounds nothing."""
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    waiting = {}
    for quota in (0, 1, -1, None):
        gpu = {"limit": -1, "overQuotaWeight": 1} | ({"quota": quota} if quota is not None else {})
        resources = {"gpu": gpu, "cpu": free, "memory": free}
        spec = {"schedulerName": "kai-scheduler", "containers": [GPU_CONTAINER]}
        meta = {"name": "p", "annotations": {"pod-group-name": "g"}}
        group = {"queue": "q", "minMember": 1, "preemptibility": "non-preemptible"}
        allocatable = {"cpu": "8", "nvidia.com/gpu": "1", "pods": "9"}
        objects = [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "n"},
                "status": {"allocatable": allocatable},
            },
            {
                "apiVersion": KAI_QUEUES,
                "kind": "Queue",
                "metadata": {"name": "q"},
                "spec": {"resources": resources},
            },
            {"apiVersion": KAI, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": group},
            {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec},
        ]
        file = tmp_path / "in.yaml"
        file.write_text(fast_yaml.safe_dump_all(objects))
        done = phalanx("convert", "-f", str(file))
        assert done.code == 0, done.err
        file.write_text(done.out)
        waiting[quota] = phalanx("decide", "-f", str(file)).waiting
    assert waiting == {
        0: {"default/g": "AboveQueueLimit"},
        1: {},
        -1: {},
        None: {"default/g": "AboveQueueLimit"},
    }


GPU_CONTAINER = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
