"""The binding subresource: its effect on a pod, and all its refusals."""

from typing import Final

import pytest

from tests.conformance.api import Api, binding, pod

BINDS_MAX: Final = 1000
"""Until the API server has seen a new node in its own watch: milliseconds, and a bind takes one of them."""


async def test_a_bound_pod_has_its_node_and_condition(api: Api) -> None:
    created = await api.create_pod("a")
    answer = await api.bind("a", "node-a")
    assert answer.code == 201
    assert answer.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    }
    bound = (await api.get(f"{api.pods}/a")).object
    assert bound["spec"] == {**created["spec"], "nodeName": "node-a"}
    assert bound["metadata"]["generation"] == created["metadata"]["generation"]
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert "reason" not in condition
    assert bound["status"]["phase"] == "Pending"


@pytest.mark.since(35)
async def test_binding_sets_the_condition_and_clears_the_nomination(api: Api) -> None:
    await api.create_pod("a")
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}
    status = {"nominatedNodeName": "node-b", "conditions": [unschedulable]}
    assert (await api.patch(f"{api.pods}/a/status", {"status": status})).code == 200
    assert (await api.bind("a", "node-a")).code == 201
    bound = (await api.get(f"{api.pods}/a")).object
    (condition,) = bound["status"]["conditions"]
    assert condition["status"] == "True"
    assert not condition.get("reason")
    assert not condition.get("message")
    assert "nominatedNodeName" not in bound["status"]


async def test_annotations_of_the_binding_are_added_to_the_pod(api: Api) -> None:
    await api.create_pod("a")
    assert (await api.bind("a", "node-a", annotations={"example.com/why": "test"})).code == 201
    assert (await api.get(f"{api.pods}/a")).metadata["annotations"] == {"example.com/why": "test"}


async def test_annotations_of_the_binding_are_merged_with_those_of_the_pod(api: Api) -> None:
    """Node and annotations are in one version, so that a kubelet that sees the pod sees its device too."""
    manifest = pod("a")
    index = "scheduling.phalanx.dev/gpu-index"
    manifest["metadata"]["annotations"] = {"scheduling.phalanx.dev/gpu-share": "500", index: "7"}
    version = (await api.post(api.pods, manifest)).metadata["resourceVersion"]
    async with api.watch(api.pods, resourceVersion=version) as events:
        assert (await api.bind("a", "node-a", annotations={index: "3"})).code == 201
        changed = (await events.next())["object"]
    assert changed["metadata"]["annotations"] == {"scheduling.phalanx.dev/gpu-share": "500", index: "3"}
    assert changed["spec"]["nodeName"] == "node-a"


async def test_annotations_of_a_refused_binding_are_not_applied(api: Api) -> None:
    await api.create_bound_pod("a", "node-a")
    assert (await api.bind("a", "node-b", annotations={"example.com/why": "test"})).code == 409
    assert "annotations" not in (await api.get(f"{api.pods}/a")).metadata


@pytest.mark.since(35)
async def test_zone_and_region_labels_of_the_node_are_copied_to_the_pod(api: Api) -> None:
    name, zone, region = (
        f"node-{api.namespace}",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
    )
    labels = {zone: "z1", region: "r1", "example.com/rack": "k1"}
    await api.post("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
    found = None
    for attempt in range(BINDS_MAX):
        pod_name = f"p{attempt}"
        await api.create_bound_pod(pod_name, name)
        found = (await api.get(f"{api.pods}/{pod_name}")).metadata.get("labels")
        if found is not None:
            break
    assert found == {zone: "z1", region: "r1"}
    await api.delete(f"/api/v1/nodes/{name}")


async def test_a_bound_pod_is_not_bound_again(api: Api) -> None:
    await api.create_bound_pod("a", "node-a")
    for node in ("node-a", "node-b"):
        refused = await api.bind("a", node)
        why = 'pod a is already assigned to node "node-a"'
        message = f'Operation cannot be fulfilled on pods/binding "a": {why}'
        assert refused.refusal == (409, "Conflict", message)
        assert refused.body["details"] == {"name": "a", "kind": "pods/binding"}


async def test_a_deleting_pod_is_not_bound(api: Api) -> None:
    held = pod("a")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await api.post(api.pods, held)
    await api.delete(f"{api.pods}/a")
    refused = await api.bind("a", "node-a")
    why = "pod a is being deleted, cannot be assigned to a host"
    message = f'Operation cannot be fulfilled on pods/binding "a": {why}'
    assert refused.refusal == (409, "Conflict", message)


async def test_a_gated_pod_is_not_bound(api: Api) -> None:
    await api.create_pod("a", schedulingGates=[{"name": "example.com/gate"}])
    why = "pod a has non-empty .spec.schedulingGates"
    message = f'Operation cannot be fulfilled on pods/binding "a": {why}'
    assert (await api.bind("a", "node-a")).refusal == (409, "Conflict", message)


async def test_the_uid_must_be_that_of_the_pod(api: Api) -> None:
    created = await api.create_pod("a")
    uid = created["metadata"]["uid"]
    refused = await api.bind("a", "node-a", uid="other")
    why = (
        f"StorageError: invalid object, Code: 4, Key: /registry/pods/{api.namespace}/a, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: other, UID in object meta: {uid}"
    )
    assert refused.refusal == (409, "Conflict", f'Operation cannot be fulfilled on pods "a": {why}')
    assert (await api.bind("a", "node-a", uid=uid)).code == 201


async def test_the_version_must_be_that_of_the_pod(api: Api) -> None:
    created = await api.create_pod("a")
    refused = await api.bind("a", "node-a", resourceVersion="1")
    code, reason, message = refused.refusal
    assert (code, reason) == (409, "Conflict")
    assert (
        "Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta" in message
    )
    version = created["metadata"]["resourceVersion"]
    assert (await api.bind("a", "node-a", resourceVersion=version)).code == 201


async def test_a_pod_that_does_not_exist(api: Api) -> None:
    refused = await api.bind("ghost", "node-a")
    assert refused.refusal == (404, "NotFound", 'pods "ghost" not found')


async def test_the_name_must_be_that_of_the_path(api: Api) -> None:
    await api.create_pod("a")
    refused = await api.post(f"{api.pods}/a/binding", binding("b", "node-a"))
    assert refused.refusal[:2] == (400, "BadRequest")


async def test_the_target_must_be_a_node(api: Api) -> None:
    await api.create_pod("a")
    manifest = binding("a", "node-a")
    manifest["target"]["kind"] = "Rack"
    refused = await api.post(f"{api.pods}/a/binding", manifest)
    assert refused.code == 500
    manifest = binding("a", "")
    refused = await api.post(f"{api.pods}/a/binding", manifest)
    assert refused.code == 500
    assert "nodeName" not in (await api.get(f"{api.pods}/a")).object["spec"]


async def test_the_binding_subresource_can_only_be_created(api: Api) -> None:
    await api.create_pod("a")
    assert (await api.get(f"{api.pods}/a/binding")).refusal[:2] == (405, "MethodNotAllowed")
