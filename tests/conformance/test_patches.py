"""Merge, strategic merge and JSON patches."""

from typing import Any

import pytest

from tests.conformance.api import JSON_PATCH, MERGE, STRATEGIC, Api, labelled, pod

NOW = "2026-01-02T03:04:05Z"


def condition(type_: str, status: str, **more: Any) -> dict[str, Any]:
    return {"type": type_, "status": status, "lastTransitionTime": NOW, **more}


async def test_merge_sets_and_null_removes(api: Api) -> None:
    await api.post(api.pods, labelled(pod("a"), one="1", two="2"))
    patched = await api.patch(f"{api.pods}/a", {"metadata": {"labels": {"one": None, "three": "3"}}})
    assert patched.metadata["labels"] == {"two": "2", "three": "3"}


async def test_merge_replaces_lists(api: Api) -> None:
    await api.create_pod("a")
    for type_ in ("Ready", "ContainersReady"):
        patch = {"status": {"conditions": [condition(type_, "True")]}}
        patched = await api.patch(f"{api.pods}/a/status", patch)
    assert [found["type"] for found in patched.object["status"]["conditions"]] == ["ContainersReady"]


async def test_strategic_merge_merges_conditions_by_type(api: Api) -> None:
    await api.create_pod("a")
    steps = [
        condition("Ready", "False", reason="A"),
        condition("Initialized", "True"),
        condition("Ready", "True"),
    ]
    for step in steps:
        patch = {"status": {"conditions": [step]}}
        patched = await api.patch(f"{api.pods}/a/status", patch, STRATEGIC)
    found = {one["type"]: one for one in patched.object["status"]["conditions"]}
    assert found.keys() == {"Ready", "Initialized"}
    assert (found["Ready"]["status"], found["Ready"]["reason"]) == ("True", "A")


async def test_strategic_merge_deletes_from_lists(api: Api) -> None:
    await api.create_pod("a", schedulingGates=[{"name": "g/one"}, {"name": "g/two"}])
    patch = {"spec": {"schedulingGates": [{"$patch": "delete", "name": "g/one"}]}}
    patched = await api.patch(f"{api.pods}/a", patch, STRATEGIC)
    assert patched.object["spec"]["schedulingGates"] == [{"name": "g/two"}]


async def test_strategic_merge_of_finalizers_adds(api: Api) -> None:
    await api.create_pod("a")
    for name in ("example.com/one", "example.com/two"):
        patched = await api.patch(f"{api.pods}/a", {"metadata": {"finalizers": [name]}}, STRATEGIC)
    assert sorted(patched.metadata["finalizers"]) == ["example.com/one", "example.com/two"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/one"]}}
    patched = await api.patch(f"{api.pods}/a", patch, STRATEGIC)
    assert patched.metadata["finalizers"] == ["example.com/two"]


async def test_strategic_merge_is_not_for_custom_resources(api: Api) -> None:
    await api.create_group("g")
    refused = await api.patch(f"{api.groups}/g", {"spec": {"minMember": 3}}, STRATEGIC)
    assert refused.refusal[:2] == (415, "UnsupportedMediaType")


async def test_json_patch_writes_a_complete_status(api: Api) -> None:
    await api.create_group("g")
    for status in ({"phase": "Pending", "reason": "Waiting"}, {"phase": "Running"}):
        patch = [{"op": "add", "path": "/status", "value": status}]
        patched = await api.patch(f"{api.groups}/g/status", patch, JSON_PATCH)
        assert patched.object["status"] == status


async def test_json_patch_operations(api: Api) -> None:
    await api.post(api.pods, labelled(pod("a"), one="1"))
    patch = [
        {"op": "test", "path": "/metadata/labels/one", "value": "1"},
        {"op": "add", "path": "/metadata/labels/example.com~1two", "value": "2"},
        {"op": "replace", "path": "/metadata/labels/one", "value": "uno"},
        {"op": "copy", "from": "/metadata/labels/one", "path": "/metadata/labels/copy"},
        {"op": "move", "from": "/metadata/labels/one", "path": "/metadata/labels/moved"},
        {"op": "remove", "path": "/metadata/labels/copy"},
    ]
    patched = await api.patch(f"{api.pods}/a", patch, JSON_PATCH)
    assert patched.metadata["labels"] == {"example.com/two": "2", "moved": "uno"}


async def test_json_patch_with_a_test_that_fails_changes_nothing(api: Api) -> None:
    created = await api.create_pod("a")
    patch = [
        {"op": "add", "path": "/metadata/labels", "value": {"x": "y"}},
        {"op": "test", "path": "/metadata/uid", "value": "other"},
    ]
    refused = await api.patch(f"{api.pods}/a", patch, JSON_PATCH)
    assert refused.refusal[:2] == (422, "Invalid")
    assert (await api.get(f"{api.pods}/a")).object == created


@pytest.mark.since(35)
@pytest.mark.parametrize("value", [[], 5, "x", None])
async def test_json_patch_must_result_in_an_object(api: Api, value: object) -> None:
    created = await api.create_pod("a")
    patch = [{"op": "replace", "path": "", "value": value}]
    refused = await api.patch(f"{api.pods}/a", patch, JSON_PATCH)
    assert refused.code in (400, 422, 500)
    assert (await api.get(f"{api.pods}/a")).object == created


async def test_a_patch_may_have_a_resource_version_precondition(api: Api) -> None:
    created = await api.create_pod("a")
    version = created["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version, "labels": {"x": "y"}}}
    assert (await api.patch(f"{api.pods}/a", patch)).code == 200
    code, reason, message = (await api.patch(f"{api.pods}/a", {**patch, "spec": {}})).refusal
    assert (code, reason) == (409, "Conflict")
    assert message.startswith('Operation cannot be fulfilled on pods "a": the object has been modified')


async def test_a_patch_cannot_change_the_uid(api: Api) -> None:
    await api.create_pod("a")
    refused = await api.patch(f"{api.pods}/a", {"metadata": {"uid": "other", "labels": {"x": "y"}}}, MERGE)
    message = 'Pod "a" is invalid: metadata.uid: Invalid value: "other": field is immutable'
    assert refused.refusal == (422, "Invalid", message)


async def test_a_patch_without_changes_keeps_the_resource_version(api: Api) -> None:
    created = await api.create_pod("a")
    patch = {"spec": {"schedulerName": created["spec"]["schedulerName"]}}
    assert (await api.patch(f"{api.pods}/a", patch)).object == created


async def test_a_patch_of_a_missing_object(api: Api) -> None:
    refused = await api.patch(f"{api.pods}/ghost", {})
    assert refused.refusal == (404, "NotFound", 'pods "ghost" not found')


async def test_an_unknown_patch_type(api: Api) -> None:
    await api.create_pod("a")
    refused = await api.patch(f"{api.pods}/a", {}, "application/yaml")
    assert refused.refusal[:2] == (415, "UnsupportedMediaType")
