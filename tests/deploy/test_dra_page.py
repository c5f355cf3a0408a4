"""The examples of docs/dra.md are valid, and do what the page says."""

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
from phalanx.model.decisions import Bind

from tests.deploy.manifests import REPOSITORY
from tests.fake_objects import fake_node

PAGE = (REPOSITORY / "docs" / "dra.md").read_text()
BLOCKS = dict(re.findall(r"<!-- example: ([-.a-z]+) -->\n```yaml\n(.*?)```", PAGE, re.DOTALL))
VERSION = "resource.k8s.io/v1"

Document = dict[str, Any]


def test_every_yaml_block_is_an_example() -> None:
    assert PAGE.count("```yaml") == len(BLOCKS) == 5


def test_members_get_two_large_devices_of_one_numa_node(tmp_path: Path) -> None:
    """Node b has only devices that are too small, and each NUMA node of the others has two that are not."""
    template, job = yaml.safe_load_all(BLOCKS["claims.yaml"])
    made = _members(job, template, "gpus", 4)
    slices = [_gpus("a", "80Gi"), _gpus("b", "40Gi"), _gpus("c", "80Gi")]
    binds = _binds(tmp_path, job, [*made, *slices, _class("gpu.example.com")])
    assert sorted(bind.node for bind in binds) == ["a", "a", "c", "c"]
    devices = [sorted(each.device[2] for each in _devices(bind)) for bind in binds]
    assert sorted(devices) == [["gpu-0", "gpu-2"]] * 2 + [["gpu-1", "gpu-3"]] * 2


def test_members_have_shares_of_devices(tmp_path: Path) -> None:
    """Four of 20Gi fit a device; the small one on node b takes two."""
    template, job = yaml.safe_load_all(BLOCKS["shares.yaml"])
    shared = {"allowMultipleAllocations": True}
    slices = [
        _slice("a", "gpu.example.com", [_gpu(0, "80Gi") | shared], {"nodeName": "a"}),
        _slice("b", "gpu.example.com", [_gpu(0, "79Gi") | shared], {"nodeName": "b"}),
    ]
    made = _members(job, template, "gpu", 8)
    assert not _binds(tmp_path, job, [*made, *slices, _class("gpu.example.com")])
    slices[1] = _slice("b", "gpu.example.com", [_gpu(0, "80Gi") | shared], {"nodeName": "b"})
    binds = _binds(tmp_path, job, [*made, *slices, _class("gpu.example.com")])
    assert sorted(bind.node for bind in binds) == ["a"] * 4 + ["b"] * 4
    assert len({each.share_id for bind in binds for each in _devices(bind)}) == 8


def test_members_share_the_channel_that_reaches_enough_nodes(tmp_path: Path) -> None:
    """Channel "left" reaches one node, which fits one member; channel "right" the two others."""
    claim, job = yaml.safe_load_all(BLOCKS["shared.yaml"])
    channels = []
    for name, nodes in (("left", ["a"]), ("right", ["b", "c", "d", "e"])):
        key = {"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}
        spec = {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [key]}]}}
        channels.append(_slice(name, "channel.example.com", [{"name": "channel"}], spec))
    claim["metadata"] |= {"namespace": "default", "uid": "uid-channel"}
    pods = [_pod(job, index) for index in range(4)]
    binds = _binds(tmp_path, job, [*pods, claim, *channels, _class("channel.example.com")])
    assert sorted(bind.node for bind in binds) == ["b", "c", "d", "e"]
    assert {each.device[1] for bind in binds for each in _devices(bind)} == {"right"}


def test_members_get_devices_for_an_extended_resource(tmp_path: Path) -> None:
    """Each node has four devices, so it takes two members."""
    device_class, job = yaml.safe_load_all(BLOCKS["extended.yaml"])
    pods = [_pod(job, index) for index in range(4)]
    slices = [_gpus("a", "80Gi"), _gpus("b", "80Gi")]
    binds = _binds(tmp_path, job, [*pods, device_class, *slices])
    assert sorted(bind.node for bind in binds) == ["a", "a", "b", "b"]
    assert all(len(_devices(bind)) == 2 for bind in binds)


@pytest.mark.parametrize(("limit", "fits"), [(8, True), (7, False)])
def test_a_limit_counts_the_devices_of_claims(limit: int, fits: bool, tmp_path: Path) -> None:
    """Four members with two devices each, in the queue of the page."""
    device_class, queue = yaml.safe_load_all(BLOCKS["limited.yaml"])
    template, job = yaml.safe_load_all(BLOCKS["claims.yaml"])
    assert queue["spec"]["limit"] == {"example.com/gpu": 16}
    queue["spec"]["limit"]["example.com/gpu"] = limit
    queue["metadata"]["name"] = "default"
    objects = [*_members(job, template, "gpus", 4), _gpus("a", "80Gi"), _gpus("b", "80Gi")]
    binds = _binds(tmp_path, job, [*objects, device_class, queue])
    assert len(binds) == (4 if fits else 0)


def _binds(folder: Path, job: Document, objects: list[Document]) -> list[Bind]:
    job["metadata"] |= {"namespace": "default", "uid": "uid-job"}
    offer = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    nodes = [fake_node(name, labels={"kubernetes.io/hostname": name}, allocatable=offer) for name in "abcde"]
    items = {"apiVersion": "v1", "kind": "List", "items": [*nodes, job, *objects]}
    (folder / "all.json").write_text(json.dumps(items))
    found = read_manifests([str(folder / "all.json")]).objects
    config = SchedulerConfig()
    placements = decide(StaticCluster(found, config=config, now=0).snapshot(), config).placements
    return [bind for placement in placements for bind in placement.binds]


def _devices(bind: Bind) -> list[Any]:
    return [
        each for grant in bind.grants if grant.allocation is not None for each in grant.allocation.devices
    ]


def _object(kind: str, meta: Document, spec: Document) -> Document:
    return {"apiVersion": VERSION, "kind": kind, "metadata": meta, "spec": spec}


def _class(name: str) -> Document:
    selector = {"cel": {"expression": f'device.driver == "{name}"'}}
    return _object("DeviceClass", {"name": name}, {"selectors": [selector]})


def _slice(pool: str, driver: str, devices: list[Document], where: Document) -> Document:
    about = {"name": pool, "generation": 1, "resourceSliceCount": 1}
    return _object(
        "ResourceSlice", {"name": pool}, {"driver": driver, "pool": about, "devices": devices, **where}
    )


def _gpus(node: str, memory: str) -> Document:
    devices = [_gpu(index, memory) for index in range(4)]
    return _slice(node, "gpu.example.com", devices, {"nodeName": node})


def _gpu(index: int, memory: str) -> Document:
    return {
        "name": f"gpu-{index}",
        "attributes": {"numa": {"int": index % 2}},
        "capacity": {"memory": {"value": memory}},
    }


def _members(job: Document, template: Document, entry: str, count: int) -> list[Document]:
    """Pods of the Job with the claims that its template makes."""
    made = []
    for index in range(count):
        pod = _pod(job, index)
        name = f"{pod['metadata']['name']}-{entry}-x"
        pod["status"] = {"resourceClaimStatuses": [{"name": entry, "resourceClaimName": name}]}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}
        meta = {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "ownerReferences": [{**owner, "controller": True}],
        }
        made += [pod, _object("ResourceClaim", meta, template["spec"]["spec"])]
    return made


def _pod(job: Document, index: int) -> Document:
    """A pod of the Job as its controller makes it."""
    name = f"{job['metadata']['name']}-{index}-x"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "uid": "uid-job"}
    meta = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "labels": {"batch.kubernetes.io/job-completion-index": str(index)},
        "ownerReferences": [{**owner, "controller": True}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": job["spec"]["template"]["spec"]}
