"""The examples of docs/volumes.md are valid, and do what the page says."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from phalanx.cli.manifests.read import read_manifests
from phalanx.cli.static_cluster import StaticCluster
from phalanx.cycle import decide
from phalanx.framework.config import SchedulerConfig

from tests.deploy.manifests import REPOSITORY
from tests.fake_objects import fake_node

PAGE = (REPOSITORY / "docs" / "volumes.md").read_text()
BLOCKS = dict(re.findall(r"<!-- example: ([-.a-z]+) -->\n```yaml\n(.*?)```", PAGE, re.DOTALL))


def test_every_yaml_block_is_an_example() -> None:
    assert PAGE.count("```yaml") == len(BLOCKS) == 3


def test_the_gang_of_the_page_is_placed_in_the_zone_that_the_class_allows(tmp_path: Path) -> None:
    """The Job controller and kube-controller-manager have made pods and claims."""
    job = yaml.safe_load(BLOCKS["gang.yaml"])
    gpus = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8", "pods": "110"}
    nodes = [
        fake_node(f"{zone}-{number}", labels={"topology.kubernetes.io/zone": zone}, allocatable=gpus)
        for zone in "ab"
        for number in range(4)
    ]
    made = [document for index in range(4) for document in _pod_and_claim(job, index)]
    config = SchedulerConfig()
    (tmp_path / "class.yaml").write_text(BLOCKS["class.yaml"])
    (tmp_path / "made.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes, *made, job | {"metadata": META}]})
    )
    objects = read_manifests([str(file) for file in sorted(tmp_path.iterdir())]).objects
    result = decide(StaticCluster(objects, config=config, now=0).snapshot(), config)
    (placement,) = result.placements
    assert sorted(bind.node for bind in placement.binds) == ["a-0", "a-1", "a-2", "a-3"]


@pytest.mark.parametrize(("volumes", "fits"), [(4, True), (3, False)])
def test_a_gang_takes_volumes_that_exist_as_a_whole(tmp_path: Path, *, volumes: int, fits: bool) -> None:
    """One volume a node, like that of the page; the verdict is that of the page."""
    job = yaml.safe_load(BLOCKS["gang.yaml"].replace("zonal", "local"))
    storage_class, disk = yaml.safe_load_all(BLOCKS["local.yaml"])
    gpus = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8", "pods": "110"}
    names = [f"a-{number}" for number in range(4)]
    nodes = [fake_node(name, labels={"kubernetes.io/hostname": name}, allocatable=gpus) for name in names]
    disks = [
        json.loads(json.dumps(disk).replace("a-0", name).replace("disk-a-0", f"disk-{name}"))
        for name in names[:volumes]
    ]
    made = [document for index in range(4) for document in _pod_and_claim(job, index)]
    items = [storage_class, *disks, *nodes, *made, job | {"metadata": META}]
    (tmp_path / "made.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    config = SchedulerConfig()
    objects = read_manifests([str(tmp_path / "made.json")]).objects
    result = decide(StaticCluster(objects, config=config, now=0).snapshot(), config)
    if fits:
        (placement,) = result.placements
        assert sorted(bind.node for bind in placement.binds) == names
        assert all(name == f"disk-{bind.node}" for bind in placement.binds for _, name in bind.volumes)
        return
    (verdict,) = result.verdicts
    assert not result.placements
    assert f"    {verdict.message}\n" in PAGE


META = {"name": "train", "namespace": "default", "uid": "uid-train"}


def _pod_and_claim(job: dict[str, Any], index: int) -> list[dict[str, Any]]:
    """A pod of the Job as its controller makes it, and the claim of its ephemeral volume."""
    name = f"train-{index}-x"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-train", "controller": True}
    by_pod = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
    template = job["spec"]["template"]["spec"]
    index_label = {"batch.kubernetes.io/job-completion-index": str(index)}
    pod = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "labels": index_label,
        "ownerReferences": [owner],
    }
    claim = {"name": f"{name}-scratch", "namespace": "default", "ownerReferences": [by_pod]}
    spec = template["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["spec"]
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": template},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": claim, "spec": spec},
    ]
