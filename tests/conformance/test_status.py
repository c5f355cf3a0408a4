"""Status subresources: the main resource does not write status, the subresource writes nothing else."""

from tests.conformance.api import Api, group, labelled


async def test_create_ignores_the_status_of_custom_resources(api: Api) -> None:
    created = (await api.post(api.groups, {**group("g"), "status": {"phase": "Running"}})).object
    assert "status" not in created


async def test_the_main_resource_ignores_status(api: Api) -> None:
    created = await api.create_pod("a")
    manifest = {**labelled(created, x="y"), "status": {"phase": "Running"}}
    replaced = (await api.put(f"{api.pods}/a", manifest)).object
    assert replaced["status"] == created["status"]
    assert replaced["metadata"]["labels"] == {"x": "y"}
    patched = await api.patch(f"{api.pods}/a", {"status": {"phase": "Running"}})
    assert patched.object == replaced


async def test_the_status_subresource_ignores_spec(api: Api) -> None:
    created = await api.create_pod("a")
    patch = {"spec": {"nodeName": "node-a"}, "status": {"phase": "Running"}}
    patched = (await api.patch(f"{api.pods}/a/status", patch)).object
    assert patched["spec"] == created["spec"]
    assert patched["status"]["phase"] == "Running"


async def test_the_status_of_a_custom_resource_ignores_spec_and_labels(api: Api) -> None:
    await api.create_group("g")
    patch = {"metadata": {"labels": {"x": "y"}}, "spec": {"minMember": 9}, "status": {"phase": "Pending"}}
    patched = (await api.patch(f"{api.groups}/g/status", patch)).object
    assert patched["spec"] == {"minMember": 2}
    assert "labels" not in patched["metadata"]
    assert patched["status"] == {"phase": "Pending"}


async def test_status_can_be_replaced_and_read(api: Api) -> None:
    created = await api.create_group("g")
    replaced = await api.put(f"{api.groups}/g/status", {**created, "status": {"phase": "Pending"}})
    assert replaced.object["status"] == {"phase": "Pending"}
    assert (await api.get(f"{api.groups}/g/status")).object == replaced.object


async def test_a_status_write_with_an_old_version_is_a_conflict(api: Api) -> None:
    created = await api.create_group("g")
    await api.patch(f"{api.groups}/g/status", {"status": {"phase": "Pending"}})
    refused = await api.put(f"{api.groups}/g/status", {**created, "status": {"phase": "Running"}})
    assert refused.refusal[:2] == (409, "Conflict")


async def test_a_kind_without_status_has_no_status_subresource(api: Api) -> None:
    await api.post(f"{api.root}/configmaps", {"metadata": {"name": "c"}})
    assert (await api.get(f"{api.root}/configmaps/c/status")).code == 404
