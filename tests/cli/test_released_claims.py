"""Devices of claims whose pods have ended or were evicted, in cycles without a cluster.

The oracle of the property is the same cluster with devices of a device plugin: as many pods are evicted,
start and wait there, since each has one device in both.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from phalanx.cli.app import main
from phalanx.cli.manifests.documents import Document
from phalanx.cli.manifests.read import read_documents
from phalanx.cli.static_cluster import StaticCluster, run_until_stable
from phalanx.framework.config import SchedulerConfig

from tests.examples import holds

GPU = "example.com/gpu"
CLAIMS = "resource.k8s.io/v1"
REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}


class Cluster(Struct, frozen=True):
    """One node with devices. Pods of queue `a` run or have ended, pods of queue `b` wait."""

    devices: int
    running: int
    ended: int
    waiting: int
    guarantee: int

    def objects(self, *, with_claims: bool) -> list[dict[str, Any]]:
        plugin = {} if with_claims else {GPU: str(self.devices)}
        allocatable = {"cpu": "64", "memory": "64Gi", "pods": "110", **plugin}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n"},
            "status": {"allocatable": allocatable},
        }
        found = [node, queue("a"), queue("b", guarantee={GPU: self.guarantee})]
        if with_claims:
            found += [device_class(), slice_of(self.devices)]
        used = self.running + self.ended
        for place in range(used):
            phase = "Running" if place < self.running else "Succeeded"
            found += pod(f"a{place}", "a", with_claim=with_claims, phase=phase, device=f"gpu-{place}")
        for place in range(self.waiting):
            found += pod(f"b{place}", "b", with_claim=with_claims)
        return found


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.phalanx.dev/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def device_class() -> dict[str, Any]:
    return {
        "apiVersion": CLAIMS,
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"extendedResourceName": GPU},
    }


def slice_of(devices: int) -> dict[str, Any]:
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    names = [{"name": f"gpu-{place}"} for place in range(devices)]
    spec = {"driver": "gpu.example.com", "nodeName": "n", "pool": pool, "devices": names}
    return {"apiVersion": CLAIMS, "kind": "ResourceSlice", "metadata": {"name": "n"}, "spec": spec}


def pod(
    name: str, queue_name: str, *, with_claim: bool, phase: str = "Pending", device: str = ""
) -> list[dict[str, Any]]:
    """A pod for one device, and its claim; it has a node if it has a device."""
    main_container: dict[str, Any] = {"name": "main", "image": "i", "resources": {"requests": {"cpu": 1}}}
    spec: dict[str, Any] = {"schedulerName": "phalanx", "containers": [main_container]}
    status: dict[str, Any] = {"phase": phase}
    found = []
    if with_claim:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
        main_container["resources"]["claims"] = [{"name": "gpu"}]
        status["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
        found.append(claim(f"{name}-gpu", owner=name, device=device, users=[name] if device else []))
    else:
        main_container["resources"]["limits"] = {GPU: 1}
    if device:
        spec["nodeName"] = "n"
    labels = {"scheduling.phalanx.dev/queue": queue_name}
    meta = {"name": name, "namespace": "default", "labels": labels}
    return [*found, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}]


def claim(name: str, *, owner: str = "", device: str = "", users: list[str]) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "namespace": "default"}
    if owner:
        meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "controller": True}]
    found = {
        "apiVersion": CLAIMS,
        "kind": "ResourceClaim",
        "metadata": meta,
        "spec": {"devices": {"requests": [REQUEST]}},
    }
    if device:
        result = {"request": "gpu", "driver": "gpu.example.com", "pool": "n", "device": device}
        only = {"key": "metadata.name", "operator": "In", "values": ["n"]}
        where = {"nodeSelectorTerms": [{"matchFields": [only]}]}
        found["status"] = {
            "allocation": {"devices": {"results": [result]}, "nodeSelector": where},
            "reservedFor": [{"resource": "pods", "name": each} for each in users],
        }
    return found


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    devices = draw(st.integers(1, 4))
    running = draw(st.integers(0, devices))
    ended = draw(st.integers(0, devices - running))
    guarantee = draw(st.integers(0, devices))
    return Cluster(devices, running, ended, draw(st.integers(0, 4)), guarantee)


def outcome(objects: list[dict[str, Any]]) -> tuple[int, int, int, bool]:
    """How many pods were bound, evicted, and wait in the end."""
    documents = [Document("input", number, value) for number, value in enumerate(objects)]
    config = SchedulerConfig()
    cluster = StaticCluster(read_documents(documents).objects, config=config, now=10**12)
    results, has_converged = run_until_stable(cluster, config)
    bound = sum(len(placement.binds) for result in results for placement in result.placements)
    evicted = sum(len(result.evictions) for result in results)
    return bound, evicted, len(results[-1].verdicts), has_converged


@holds(30)
@given(clusters())
def test_claims_give_back_what_a_device_plugin_gives_back(cluster: Cluster) -> None:
    assert outcome(cluster.objects(with_claims=True)) == outcome(cluster.objects(with_claims=False))


def decided(objects: list[dict[str, Any]], path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The nodes of bound pods."""
    file = path / "input.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    assert main(["decide", "-f", str(file)]) == 0
    cycles = json.loads(capsys.readouterr().out)["cycles"]
    return {bind["pod"]: bind["node"] for cycle in cycles for bind in cycle["binds"]}


@pytest.mark.parametrize("users", [["gone"], ["gone", "a"], ["a"]])
def test_a_shared_claim_is_given_back_with_its_last_pod(
    users: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = Cluster(devices=1, running=0, ended=0, waiting=1, guarantee=0).objects(with_claims=True)
    shared = claim("shared", device="gpu-0", users=users)
    runs = pod("a", "a", with_claim=False)[0]
    runs["spec"] |= {"nodeName": "n", "resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]}
    runs["spec"]["containers"][0]["resources"] = {"requests": {"cpu": 1}, "claims": [{"name": "gpu"}]}
    runs["status"] = {"phase": "Running"}
    found = decided([*base, shared, runs], tmp_path, capsys)
    assert found == ({} if "a" in users else {"default/b0": "n"})


@pytest.mark.parametrize(
    ("change", "starts"),
    [
        ({}, False),
        ({"status": {"phase": "Failed"}}, True),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, False),  # it still runs
    ],
)
def test_devices_are_free_when_the_pod_has_ended(
    change: dict[str, Any], starts: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = Cluster(devices=1, running=1, ended=0, waiting=1, guarantee=0).objects(with_claims=True)
    (runs,) = (each for each in objects if each["kind"] == "Pod" and each["metadata"]["name"] == "a0")
    for key, fields in change.items():
        runs[key] |= fields
    assert bool(decided(objects, tmp_path, capsys)) is starts
