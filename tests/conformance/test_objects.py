"""Creating, reading and replacing objects."""

import pytest

from tests.conformance.api import Api, group, labelled, pod

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


async def test_create_sets_server_owned_fields(api: Api) -> None:
    created = await api.create_pod("a")
    metadata = created["metadata"]
    assert (created["apiVersion"], created["kind"]) == ("v1", "Pod")
    assert metadata["namespace"] == api.namespace
    assert len(metadata["uid"]) == 36
    assert int(metadata["resourceVersion"]) > 0
    assert metadata["creationTimestamp"].endswith("Z")
    assert metadata["generation"] == 1
    assert created["status"] == {"phase": "Pending", "qosClass": "Burstable"}


async def test_a_created_object_can_be_read(api: Api) -> None:
    created = await api.create_pod("a")
    assert (await api.get(f"{api.pods}/a")).object == created


async def test_a_client_cannot_set_server_owned_fields(api: Api) -> None:
    manifest = pod("a")
    manifest["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
    manifest["status"] = {"phase": "Running"}
    created = (await api.post(api.pods, manifest)).object
    assert created["metadata"]["uid"] != "mine"
    assert created["metadata"]["generation"] == 1
    assert not created["metadata"]["creationTimestamp"].startswith("2001")
    assert created["status"]["phase"] == "Pending"


async def test_a_name_can_be_used_once(api: Api) -> None:
    await api.create_pod("a")
    refused = await api.post(api.pods, pod("a"))
    assert refused.refusal == (409, "AlreadyExists", 'pods "a" already exists')
    assert refused.body["details"] == {"name": "a", "kind": "pods"}


async def test_errors_of_custom_resources_name_the_group(api: Api) -> None:
    await api.create_group("a")
    refused = await api.post(api.groups, group("a"))
    resource = "podgroups.scheduling.phalanx.dev"
    assert refused.refusal == (409, "AlreadyExists", f'{resource} "a" already exists')
    assert refused.body["details"] == {"name": "a", "group": "scheduling.phalanx.dev", "kind": "podgroups"}


async def test_generate_name(api: Api) -> None:
    manifest = pod("")
    manifest["metadata"] = {"generateName": "worker-"}
    first, second = [(await api.post(api.pods, manifest)).metadata for _ in range(2)]
    assert first["name"] != second["name"]
    assert first["name"].startswith("worker-")
    assert len(first["name"]) == len("worker-") + 5
    assert first["generateName"] == "worker-"


async def test_the_namespace_must_exist(api: Api) -> None:
    refused = await api.post("/api/v1/namespaces/nowhere/pods", pod("a"))
    assert refused.refusal == (404, "NotFound", 'namespaces "nowhere" not found')


async def test_the_namespace_of_the_object_must_be_that_of_the_path(api: Api) -> None:
    manifest = pod("a")
    manifest["metadata"]["namespace"] = "default"
    message = "the namespace of the provided object does not match the namespace sent on the request"
    assert (await api.post(api.pods, manifest)).refusal == (400, "BadRequest", message)


async def test_a_name_is_required(api: Api) -> None:
    code, reason, message = (await api.post(api.pods, pod(""))).refusal
    assert (code, reason) == (422, "Invalid")
    assert "metadata.name: Required value: name or generateName is required" in message


async def test_a_name_must_be_a_subdomain(api: Api) -> None:
    refused = await api.post(api.pods, pod("Not_a_name"))
    code, reason, message = refused.refusal
    assert (code, reason) == (422, "Invalid")
    assert (
        'metadata.name: Invalid value: "Not_a_name": a lowercase RFC 1123 subdomain must consist' in message
    )
    assert refused.body["details"]["causes"][0]["field"] == "metadata.name"


async def test_containers_are_required(api: Api) -> None:
    refused = await api.post(api.pods, pod("a", containers=[]))
    assert refused.refusal == (422, "Invalid", 'Pod "a" is invalid: spec.containers: Required value')
    assert refused.body["details"] == {
        "name": "a",
        "kind": "Pod",
        "causes": [{"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers"}],
    }


async def test_an_object_to_be_created_has_no_resource_version(api: Api) -> None:
    manifest = pod("a")
    manifest["metadata"]["resourceVersion"] = "1"
    refused = await api.post(api.pods, manifest)
    assert refused.code == 500
    assert refused.body["message"] == "resourceVersion should not be set on objects to be created"


@pytest.mark.parametrize(("field", "value"), [("kind", "Node"), ("apiVersion", "v2")])
async def test_the_object_must_be_of_the_kind_of_the_path(api: Api, field: str, value: str) -> None:
    assert (await api.post(api.pods, {**pod("a"), field: value})).refusal[:2] == (400, "BadRequest")


async def test_a_body_that_is_not_json_is_a_bad_request(api: Api) -> None:
    assert (await api.post(api.pods, b"{")).refusal[:2] == (400, "BadRequest")


async def test_a_missing_object_is_not_found(api: Api) -> None:
    refused = await api.get(f"{api.pods}/ghost")
    assert refused.refusal == (404, "NotFound", 'pods "ghost" not found')
    assert refused.body["details"] == {"name": "ghost", "kind": "pods"}


async def test_an_unknown_resource_is_not_found(api: Api) -> None:
    assert (await api.get("/api/v1/ghosts")).code == 404
    assert (await api.get("/apis/ghosts.example.com/v1/ghosts")).code == 404
    assert (await api.get(f"{api.pods}/a/ghost")).code == 404


async def test_replace(api: Api) -> None:
    created = await api.create_pod("a")
    replaced = (await api.put(f"{api.pods}/a", labelled(created, step="two"))).object
    old, new = created["metadata"], replaced["metadata"]
    assert new["labels"] == {"step": "two"}
    assert int(new["resourceVersion"]) > int(old["resourceVersion"])
    assert (new["uid"], new["creationTimestamp"]) == (old["uid"], old["creationTimestamp"])
    assert new["generation"] == 1


async def test_replacing_with_the_same_changes_nothing(api: Api) -> None:
    created = await api.create_pod("a")
    assert (await api.put(f"{api.pods}/a", created)).object == created


async def test_replacing_with_the_same_and_no_version_changes_nothing(api: Api) -> None:
    created = await api.create_pod("a")
    unversioned = {key: value for key, value in created["metadata"].items() if key != "resourceVersion"}
    assert (await api.put(f"{api.pods}/a", {**created, "metadata": unversioned})).object == created


async def test_replace_with_an_old_version_is_a_conflict(api: Api) -> None:
    created = await api.create_pod("a")
    await api.put(f"{api.pods}/a", labelled(created, step="two"))
    refused = await api.put(f"{api.pods}/a", labelled(created, step="three"))
    message = f'Operation cannot be fulfilled on pods "a": {MODIFIED}'
    assert refused.refusal == (409, "Conflict", message)
    assert refused.body["details"] == {"name": "a", "kind": "pods"}


async def test_replace_of_a_recreated_object_is_a_conflict(api: Api) -> None:
    created = await api.create_pod("a")
    other = {**created, "metadata": {"name": "a", "uid": "other"}}
    message = (
        'Operation cannot be fulfilled on pods "a": StorageError: invalid object, Code: 4, '
        f"Key: /registry/pods/{api.namespace}/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition "
        f"failed: UID in precondition: other, UID in object meta: {created['metadata']['uid']}"
    )
    assert (await api.put(f"{api.pods}/a", other)).refusal == (409, "Conflict", message)


async def test_replace_without_a_version_depends_on_the_kind(api: Api) -> None:
    created = await api.create_pod("a")
    manifest = {**created, "metadata": {"name": "a", "labels": {"x": "y"}}}
    assert (await api.put(f"{api.pods}/a", manifest)).metadata["labels"] == {"x": "y"}
    await api.create_group("g")
    refused = await api.put(f"{api.groups}/g", group("g"))
    why = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    assert refused.refusal == (422, "Invalid", f'podgroups.scheduling.phalanx.dev "g" is invalid: {why}')


async def test_replace_of_a_missing_object(api: Api) -> None:
    refused = await api.put(f"{api.pods}/ghost", pod("ghost"))
    assert refused.refusal == (404, "NotFound", 'pods "ghost" not found')


async def test_the_name_of_the_object_must_be_that_of_the_path(api: Api) -> None:
    await api.create_pod("a")
    message = "the name of the object (b) does not match the name on the URL (a)"
    assert (await api.put(f"{api.pods}/a", pod("b"))).refusal == (400, "BadRequest", message)


async def test_the_spec_of_a_pod_is_immutable(api: Api) -> None:
    created = await api.create_pod("a")
    moved = {**created, "spec": {**created["spec"], "nodeName": "node-a"}}
    code, reason, message = (await api.put(f"{api.pods}/a", moved)).refusal
    assert (code, reason) == (422, "Invalid")
    assert message.startswith('Pod "a" is invalid: spec: Forbidden: pod updates may not change fields other')


async def test_generation_counts_changes_of_the_spec(api: Api) -> None:
    await api.create_group("g")
    labelled_ = await api.patch(f"{api.groups}/g", {"metadata": {"labels": {"a": "b"}}})
    assert labelled_.metadata["generation"] == 1
    changed = await api.patch(f"{api.groups}/g", {"spec": {"minMember": 3}})
    assert changed.metadata["generation"] == 2
    judged = await api.patch(f"{api.groups}/g/status", {"status": {"phase": "Pending"}})
    assert judged.metadata["generation"] == 2


async def test_a_verb_that_a_resource_does_not_have(api: Api) -> None:
    refused = await api.put(api.pods, pod("a"))
    assert refused.refusal[:2] == (405, "MethodNotAllowed")
