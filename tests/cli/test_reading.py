"""Which inputs are equivalent: forms of files, and fields that an API server would have set."""

import json
from pathlib import Path

import pytest

from tests import fast_yaml
from tests.cli.conftest import Phalanx

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": 2}}}


def pod(name: str, **spec: object) -> dict[str, object]:
    containers = [{"name": "main", "resources": {"requests": {"cpu": 1}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": "phalanx", "containers": containers, **spec},
    }


OBJECTS = [NODE, pod("a"), pod("b"), pod("c")]


def without_kind(item: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}


FORMS = {
    "documents": fast_yaml.safe_dump_all(OBJECTS),
    "documents with empty ones": "---\n# nothing\n---\n" + fast_yaml.safe_dump_all(OBJECTS) + "\n---\n",
    "List in YAML": fast_yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": OBJECTS}),
    "List in JSON": json.dumps({"apiVersion": "v1", "kind": "List", "items": OBJECTS}),
    "lists of kinds": fast_yaml.safe_dump_all(
        [
            {"apiVersion": "v1", "kind": "NodeList", "items": [without_kind(NODE)]},
            {"apiVersion": "v1", "kind": "PodList", "items": [without_kind(each) for each in OBJECTS[1:]]},
        ]
    ),
    "lists in a list": json.dumps(
        {
            "apiVersion": "v1",
            "kind": "List",
            "items": [{"apiVersion": "v1", "kind": "List", "items": OBJECTS}],
        }
    ),
    "JSON documents": "\n---\n".join(map(json.dumps, OBJECTS)),
    "with a byte order mark": "\ufeff" + fast_yaml.safe_dump_all(OBJECTS),
    "with nulls": fast_yaml.safe_dump_all([{**each, "status": each.get("status")} for each in OBJECTS]),
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_every_form_of_input_gives_the_same_decision(text: str, phalanx: Phalanx, tmp_path: Path) -> None:
    path = tmp_path / "input.yaml"
    path.write_text(text)
    done = phalanx("decide", "-f", path)
    assert (done.code, done.err) == (0, "")
    assert done.binds == {"default/a": "n1", "default/b": "n1"}
    assert done.waiting == {"default/c": "InsufficientCapacity"}
    assert phalanx("decide", "-f", "-", stdin=text) == done


def test_several_files_and_folders(phalanx: Phalanx, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "1.yaml").write_text(json.dumps(OBJECTS[1]))
    (folder / "2.json").write_text(json.dumps(OBJECTS[2]))
    (folder / "notes.txt").write_text("not a manifest")
    nodes = tmp_path / "nodes.yml"
    nodes.write_text(json.dumps(NODE))
    together = phalanx("decide", "-f", nodes, folder)
    assert together.binds == {"default/a": "n1", "default/b": "n1"}
    assert phalanx("decide", "-f", nodes, "-f", folder) == together
    assert phalanx("decide", "-f", "-", folder, stdin=json.dumps(NODE)) == together


def decided(phalanx: Phalanx, *objects: object, arguments: tuple[str, ...] = ()) -> object:
    return phalanx("decide", "-f", "-", *arguments, stdin=fast_yaml.safe_dump_all(objects))


def test_the_order_of_documents_replaces_missing_timestamps(phalanx: Phalanx) -> None:
    assert decided(phalanx, NODE, pod("z"), pod("y"), pod("x")).waiting == {
        "default/x": "InsufficientCapacity"
    }


def test_objects_without_a_timestamp_are_the_youngest(phalanx: Phalanx) -> None:
    dated = pod("dated")
    dated["metadata"]["creationTimestamp"] = "2026-11-01T10:00:00Z"
    done = decided(phalanx, NODE, pod("first"), pod("second"), dated)
    assert done.waiting == {"default/second": "InsufficientCapacity"}


def test_timestamps_are_compared_as_times_not_as_text(phalanx: Phalanx) -> None:
    moments = {
        "early": "2026-11-01T12:30:00+02:00",
        "late": "2026-11-01T11:00:00Z",
        "last": "2026-11-01T11:00:01Z",
    }
    pods = []
    for name, moment in moments.items():
        pods.append(pod(name))
        pods[-1]["metadata"]["creationTimestamp"] = moment
    assert decided(phalanx, NODE, *reversed(pods)).waiting == {"default/last": "InsufficientCapacity"}


def test_a_node_without_a_pod_limit_has_the_default_of_kubelets(phalanx: Phalanx) -> None:
    node = {**NODE, "status": {"capacity": {"cpu": 1000}}}
    done = decided(phalanx, node, *(pod(f"p{number:03}") for number in range(112)))
    assert len(done.binds) == 110
    assert done.waiting == {"default/p110": "InsufficientCapacity", "default/p111": "InsufficientCapacity"}


def test_allocatable_takes_precedence_over_capacity(phalanx: Phalanx) -> None:
    node = {**NODE, "status": {"capacity": {"cpu": 4, "nvidia.com/gpu": 8}, "allocatable": {"cpu": 1}}}
    assert len(decided(phalanx, node, pod("a"), pod("b")).binds) == 1


def test_other_kinds_are_ignored_with_a_note(phalanx: Phalanx) -> None:
    daemons = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "web"}}
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
    group = {"apiVersion": "koordinator.sh/v1alpha1", "kind": "PodGroup", "metadata": {"name": "a"}}
    done = decided(phalanx, NODE, daemons, pod("a"), queue, group, daemons)
    assert done.code == 0
    assert done.binds == {"default/a": "n1"}
    assert done.err == (
        "note: -: ignored, because no decision depends on it: 2 DaemonSet (apps/v1), "
        "1 Queue (scheduling.volcano.sh/v1beta1), 1 PodGroup (koordinator.sh/v1alpha1)\n"
    )


def test_of_all_config_maps_the_one_with_records_is_read(phalanx: Phalanx) -> None:
    names = ("phalanx-records", "other")
    of_core = {"apiVersion": "v1", "kind": "ConfigMap", "data": {}}
    maps = [{**of_core, "metadata": {"name": name}} for name in names]
    done = decided(phalanx, NODE, pod("a"), *maps)
    assert done.code == 0
    assert done.err == "note: -: ignored, because no decision depends on it: 1 ConfigMap (v1)\n"
    wrong = {**maps[0], "data": {"team": 1}}
    done = decided(phalanx, NODE, pod("a"), wrong)
    assert done.code == 2
    assert "data[team]: expected a string" in done.err or "data.team" in done.err


def test_an_empty_list_is_an_empty_cluster(phalanx: Phalanx) -> None:
    done = decided(phalanx, {"apiVersion": "v1", "kind": "List", "items": []})
    assert done.code == 0
    assert len(done.cycles) == 1


def test_a_priority_set_by_admission_needs_no_class(phalanx: Phalanx) -> None:
    done = decided(
        phalanx,
        {**NODE, "status": {"allocatable": {"cpu": 1}}},
        pod("a"),
        pod("b", priorityClassName="x", priority=5),
    )
    assert done.binds == {"default/b": "n1"}


def test_the_scheduler_name_comes_from_the_configuration(phalanx: Phalanx, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("schedulerName: other")
    done = decided(
        phalanx, NODE, pod("a"), pod("b", schedulerName="other"), arguments=("--config", str(config))
    )
    assert done.binds == {"default/b": "n1"}


def test_yaml_numbers_and_times_that_are_text(phalanx: Phalanx) -> None:
    """Keys that YAML parses as numbers are text to Kubernetes, and times stay text."""
    text = (
        "apiVersion: v1\nkind: Node\n"
        'metadata: {name: n1, creationTimestamp: 2026-11-01T10:00:00Z, labels: {1: "2026-11-01"}}\n'
        "status: {allocatable: {cpu: 4}}\n---\n" + json.dumps(pod("a", nodeSelector={"1": "2026-11-01"}))
    )
    assert phalanx("decide", "-f", "-", stdin=text).binds == {"default/a": "n1"}


OWN_KIND = """
workloads:
  - apiVersion: training.example.com/v1
    kind: Training
    plural: trainings
    roles:
      - {pods: spec.size, template: spec.podTemplate.spec}
"""


def test_a_kind_of_the_configuration_is_read(phalanx: Phalanx, tmp_path: Path) -> None:
    """Its pods wait for a third one, which does not exist."""
    config = tmp_path / "config.yaml"
    config.write_text(OWN_KIND)
    identity = {"apiVersion": "training.example.com/v1", "kind": "Training"}
    size = {"size": 3, "podTemplate": {"spec": {"schedulerName": "phalanx"}}}
    item = {**identity, "metadata": {"name": "t"}, "spec": size}
    owned = [pod("a"), pod("b")]
    for each in owned:
        each["metadata"]["ownerReferences"] = [{**identity, "name": "t", "controller": True}]
    done = decided(phalanx, NODE, item, *owned, arguments=("--config", str(config)))
    assert done.waiting == {"default/t": "MembersMissing"}
    assert decided(phalanx, NODE, item, *owned).waiting != done.waiting
