"""Nodes as kubelets, controllers and administrators write them."""

from collections.abc import AsyncIterator

import pytest

from tests.conformance.api import JSON_PATCH, STRATEGIC, Api, Object

NOW = "2026-01-02T03:04:05Z"


@pytest.fixture
async def node(api: Api) -> AsyncIterator[str]:
    """The path of a node for one test. The real node lifecycle controller sees it too."""
    name = f"node-{api.namespace}"
    status = {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}}
    labels = {"topology.kubernetes.io/zone": "z1"}
    body = {"metadata": {"name": name, "labels": labels}, "status": status}
    assert (await api.post("/api/v1/nodes", body)).code == 201
    yield f"/api/v1/nodes/{name}"
    await api.delete(f"/api/v1/nodes/{name}")


def gpu_condition(type_: str, status: str) -> Object:
    return {"type": type_, "status": status, "reason": "R", "message": "m", "lastTransitionTime": NOW}


def gpu_conditions(item: Object) -> dict[str, str]:
    return {
        one["type"]: one["status"] for one in item["status"].get("conditions", []) if "Gpu" in one["type"]
    }


async def test_conditions_of_other_writers_are_merged_by_type(api: Api, node: str) -> None:
    for type_, status in (("GpuHWSlowDown", "True"), ("GpuXid", "False"), ("GpuHWSlowDown", "False")):
        patch = {"status": {"conditions": [gpu_condition(type_, status)]}}
        assert (await api.patch(f"{node}/status", patch, STRATEGIC)).code == 200
    assert gpu_conditions((await api.get(node)).object) == {"GpuHWSlowDown": "False", "GpuXid": "False"}


async def test_a_condition_can_be_deleted(api: Api, node: str) -> None:
    patch = {"status": {"conditions": [gpu_condition("GpuXid", "True")]}}
    await api.patch(f"{node}/status", patch, STRATEGIC)
    gone = {"status": {"conditions": [{"type": "GpuXid", "$patch": "delete"}]}}
    patched = (await api.patch(f"{node}/status", gone, STRATEGIC)).object
    assert gpu_conditions(patched) == {}


async def test_allocatable_shrinks_and_grows(api: Api, node: str) -> None:
    for amount in ("7", "0", "8"):
        patch = {"status": {"allocatable": {"nvidia.com/gpu": amount}}}
        patched = (await api.patch(f"{node}/status", patch, STRATEGIC)).object
        assert patched["status"]["allocatable"] == {"nvidia.com/gpu": amount}
        assert patched["status"]["capacity"] == {"nvidia.com/gpu": "8"}


async def test_the_main_resource_does_not_write_status(api: Api, node: str) -> None:
    patched = (await api.patch(node, {"status": {"allocatable": {"nvidia.com/gpu": "1"}}})).object
    assert patched["status"]["allocatable"] == {"nvidia.com/gpu": "8"}


async def test_the_status_does_not_write_the_spec(api: Api, node: str) -> None:
    patched = (await api.patch(f"{node}/status", {"spec": {"unschedulable": True}})).object
    assert "unschedulable" not in patched["spec"]


async def test_cordon_and_uncordon(api: Api, node: str) -> None:
    patched = (await api.patch(node, {"spec": {"unschedulable": True}}, STRATEGIC)).object
    assert patched["spec"]["unschedulable"] is True
    found = await api.get("/api/v1/nodes", fieldSelector="spec.unschedulable=true")
    assert node.rpartition("/")[2] in found.names
    patched = (await api.patch(node, {"spec": {"unschedulable": None}}, STRATEGIC)).object
    assert "unschedulable" not in patched["spec"]


async def test_the_list_of_taints_is_replaced(api: Api, node: str) -> None:
    taint = {"key": "example.com/broken", "value": "xid-79", "effect": "NoExecute"}
    patched = (await api.patch(node, {"spec": {"taints": [taint]}}, STRATEGIC)).object
    assert taint in patched["spec"]["taints"]
    other = {"key": "example.com/drain", "effect": "NoSchedule"}
    patched = (await api.patch(node, {"spec": {"taints": [other]}})).object
    assert taint not in patched["spec"]["taints"]
    assert other in patched["spec"]["taints"]


async def test_labels_are_edited(api: Api, node: str) -> None:
    patch = {"metadata": {"labels": {"topology.kubernetes.io/zone": "z2", "example.com/rack": "r1"}}}
    assert (await api.patch(node, patch, STRATEGIC)).code == 200
    gone = [{"op": "remove", "path": "/metadata/labels/example.com~1rack"}]
    patched = (await api.patch(node, gone, JSON_PATCH)).metadata
    assert patched["labels"]["topology.kubernetes.io/zone"] == "z2"
    assert "example.com/rack" not in patched["labels"]


async def test_a_recreated_node_has_a_new_uid(api: Api, node: str) -> None:
    old = (await api.get(node)).metadata["uid"]
    assert (await api.delete(node)).code == 200
    new = await api.post("/api/v1/nodes", {"metadata": {"name": node.rpartition("/")[2]}})
    assert new.metadata["uid"] != old
    stale = {"preconditions": {"uid": old}}
    assert (await api.delete(node, stale)).refusal[:2] == (409, "Conflict")


async def test_pods_of_a_deleted_node_stay_bound(api: Api, node: str) -> None:
    name = node.rpartition("/")[2]
    await api.create_bound_pod("a", name)
    await api.delete(node)
    found = (await api.get(f"{api.pods}/a")).object
    assert found["spec"]["nodeName"] == name
    assert "deletionTimestamp" not in found["metadata"]
