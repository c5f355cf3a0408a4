"""Lists: form, order, selectors, pages, resource versions."""

import pytest

from tests.conformance.api import PODGROUPS, Api, group, labelled, pod


async def create_all(api: Api, *names: str) -> None:
    for name in names:
        await api.create_pod(name)


async def test_the_form_of_a_list(api: Api) -> None:
    await create_all(api, "b", "a")
    found = (await api.get(api.pods)).object
    assert (found["kind"], found["apiVersion"]) == ("PodList", "v1")
    assert [item["metadata"]["name"] for item in found["items"]] == ["a", "b"]
    newest = max(int(item["metadata"]["resourceVersion"]) for item in found["items"])
    assert int(found["metadata"]["resourceVersion"]) >= newest
    assert all("kind" not in item and "apiVersion" not in item for item in found["items"])


async def test_items_of_custom_resources_have_their_kind(api: Api) -> None:
    await api.create_group("g")
    found = (await api.get(api.groups)).object
    assert found["kind"] == "PodGroupList"
    assert [item["kind"] for item in found["items"]] == ["PodGroup"]


async def test_an_empty_list_has_items(api: Api) -> None:
    assert (await api.get(api.pods)).object["items"] == []
    assert (await api.get(api.groups)).object["items"] == []


async def test_a_list_of_all_namespaces(api: Api) -> None:
    await api.create_group("g")
    found = (await api.get(f"{PODGROUPS}/podgroups")).object["items"]
    assert [item["metadata"]["name"] for item in found if item["metadata"]["namespace"] == api.namespace] == [
        "g"
    ]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("team=red", ["a"]),
        ("team==red", ["a"]),
        ("team!=red", ["b", "c"]),
        ("team", ["a", "b"]),
        ("!team", ["c"]),
        ("team in (red, blue)", ["a", "b"]),
        ("team notin (red)", ["b", "c"]),
        ("team in (red,blue),size=2", ["b"]),
        ("team,size!=1", ["b"]),
        ("example.com/x=1,team=red", []),
    ],
)
async def test_label_selectors(api: Api, selector: str, expected: list[str]) -> None:
    await api.post(api.pods, labelled(pod("a"), team="red", size="1"))
    await api.post(api.pods, labelled(pod("b"), team="blue", size="2"))
    await api.post(api.pods, pod("c"))
    assert (await api.get(api.pods, labelSelector=selector)).names == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=a", ["a"]),
        ("metadata.name!=a", ["b", "c"]),
        ("spec.nodeName=node-b", ["b"]),
        ("spec.nodeName=", ["a", "c"]),
        ("spec.nodeName!=", ["b"]),
        ("status.phase=Pending,spec.nodeName=", ["a", "c"]),
        ("spec.schedulerName=other", ["c"]),
    ],
)
async def test_field_selectors_of_pods(api: Api, selector: str, expected: list[str]) -> None:
    await api.create_pod("a")
    await api.create_bound_pod("b", "node-b")
    await api.create_pod("c", schedulerName="other")
    assert (await api.get(api.pods, fieldSelector=selector)).names == expected


async def test_a_field_that_cannot_be_selected(api: Api) -> None:
    refused = await api.get(api.pods, fieldSelector="spec.ghost=1")
    code, reason, message = refused.refusal
    assert (code, reason) == (400, "BadRequest")
    assert "field label not supported: spec.ghost" in message


async def test_an_invalid_selector(api: Api) -> None:
    assert (await api.get(api.pods, labelSelector="a in b")).refusal[:2] == (400, "BadRequest")


async def test_pages(api: Api) -> None:
    await create_all(api, "a", "b", "c", "d", "e")
    names, remaining, token = [], [], ""
    while True:
        query = {"limit": "2", **({"continue": token} if token else {})}
        page = await api.get(api.pods, **query)
        names.append(page.names)
        remaining.append(page.metadata.get("remainingItemCount"))
        token = page.metadata.get("continue", "")
        if not token:
            break
    assert names == [["a", "b"], ["c", "d"], ["e"]]
    assert remaining == [3, 1, None]


async def test_all_pages_show_the_same_version(api: Api) -> None:
    await create_all(api, "a", "b", "c")
    first = await api.get(api.pods, limit="1")
    await api.delete(f"{api.pods}/b")
    await api.patch(f"{api.pods}/c", {"metadata": {"labels": {"late": "yes"}}})
    await create_all(api, "d")
    second = await api.get(api.pods, **{"continue": first.metadata["continue"]})
    assert second.names == ["b", "c"]
    assert "labels" not in second.object["items"][1]["metadata"]
    assert second.metadata["resourceVersion"] == first.metadata["resourceVersion"]


async def test_pages_of_a_selection_have_no_remaining_item_count(api: Api) -> None:
    for name in ("a", "b", "c"):
        await api.post(api.groups, labelled(group(name), team="red"))
    page = await api.get(api.groups, limit="2", labelSelector="team=red")
    assert page.names == ["a", "b"]
    assert "remainingItemCount" not in page.metadata


async def test_a_continue_token_must_be_the_servers_own(api: Api) -> None:
    refused = await api.get(api.pods, **{"continue": "ghost"})
    assert refused.refusal[:2] == (400, "BadRequest")


async def test_a_list_at_an_exact_version(api: Api) -> None:
    await create_all(api, "a")
    version = (await api.get(api.pods)).metadata["resourceVersion"]
    await create_all(api, "b")
    query = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    old = await api.get(api.pods, **query)
    assert old.names == ["a"]
    assert old.metadata["resourceVersion"] == version


@pytest.mark.parametrize("version", ["0", "past"])
async def test_a_list_not_older_than_a_version(api: Api, version: str) -> None:
    created = await api.create_pod("a")
    asked = created["metadata"]["resourceVersion"] if version == "past" else version
    found = await api.get(api.pods, resourceVersion=asked, resourceVersionMatch="NotOlderThan")
    assert found.names in (["a"], [] if version == "0" else ["a"])


async def test_a_version_that_the_server_does_not_have_yet(api: Api) -> None:
    version = (await api.get(api.pods)).metadata["resourceVersion"]
    refused = await api.get(api.pods, resourceVersion=str(int(version) + 1_000_000))
    code, reason, message = refused.refusal
    assert (code, reason) == (504, "Timeout")
    assert message.startswith("Timeout: Too large resource version: ")
    details = refused.body["details"]
    assert details["retryAfterSeconds"] == 1
    assert details["causes"] == [
        {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    ]
