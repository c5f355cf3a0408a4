"""Watches: where they start, which events they send, how they end."""

import re

from phalanx_simulator.embedded.apiserver.server import ApiServer

from tests.conformance.api import Api, labelled, pod
from tests.conformance.conftest import Server

WATCH_LIST = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


async def test_a_watch_sends_every_change_after_a_version(api: Api) -> None:
    await api.create_pod("old")
    version = (await api.get(api.pods)).metadata["resourceVersion"]
    async with api.watch(api.pods, resourceVersion=version) as events:
        await api.create_pod("a")
        await api.bind("a", "node-a")
        await api.patch(f"{api.pods}/a/status", {"status": {"phase": "Running"}})
        await api.delete(f"{api.pods}/a", gracePeriodSeconds="5")
        await api.delete(f"{api.pods}/a", gracePeriodSeconds="0")
        types = ["ADDED", *["MODIFIED"] * 4, "DELETED"]
        assert await events.take(6) == [(type_, "a") for type_ in types]


async def test_a_watch_from_an_old_version_sends_missed_changes(api: Api) -> None:
    version = (await api.get(api.pods)).metadata["resourceVersion"]
    await api.create_pod("a")
    await api.bind("a", "node-a")
    async with api.watch(api.pods, resourceVersion=version) as events:
        assert await events.take(2) == [("ADDED", "a"), ("MODIFIED", "a")]


async def test_events_carry_complete_objects(api: Api) -> None:
    version = (await api.get(api.pods)).metadata["resourceVersion"]
    created = await api.create_pod("a")
    async with api.watch(api.pods, resourceVersion=version) as events:
        assert (await events.next())["object"] == created


async def test_a_pod_is_marked_as_deleting_even_if_deleted_at_once(api: Api) -> None:
    created = await api.create_pod("a")
    async with api.watch(api.pods, resourceVersion=created["metadata"]["resourceVersion"]) as events:
        await api.delete(f"{api.pods}/a")
        marked, deleted = [await events.next() for _ in range(2)]
    assert (marked["type"], deleted["type"]) == ("MODIFIED", "DELETED")
    assert marked["object"]["metadata"]["deletionGracePeriodSeconds"] == 0
    before, after = [int(event["object"]["metadata"]["resourceVersion"]) for event in (marked, deleted)]
    assert after > before
    assert deleted["object"]["spec"] == created["spec"]


async def test_other_objects_are_deleted_without_a_deletion_timestamp(api: Api) -> None:
    created = await api.create_group("g")
    version = created["metadata"]["resourceVersion"]
    async with api.watch(api.groups, resourceVersion=version) as events:
        await api.delete(f"{api.groups}/g")
        deleted = await events.next()
    assert deleted["type"] == "DELETED"
    assert deleted["object"]["spec"] == created["spec"]
    assert int(deleted["object"]["metadata"]["resourceVersion"]) > int(version)


async def test_a_deleted_event_has_the_last_stored_version_of_a_finalized_object(api: Api) -> None:
    created = await api.create_group("g", finalizers=["example.com/hold"])
    await api.delete(f"{api.groups}/g")
    async with api.watch(api.groups, resourceVersion=created["metadata"]["resourceVersion"]) as events:
        patch = {"metadata": {"finalizers": None, "labels": {"last": "yes"}}}
        await api.patch(f"{api.groups}/g", patch)
        assert await events.take(1) == [("MODIFIED", "g")]
        last = await events.next()
    assert last["type"] == "DELETED"
    assert "labels" not in last["object"]["metadata"]


async def test_without_a_version_a_watch_starts_with_existing_objects(api: Api) -> None:
    await api.create_pod("a")
    await api.create_pod("b")
    for query in ({}, {"resourceVersion": "0"}):
        async with api.watch(api.pods, **query) as events:
            assert sorted(await events.take(2)) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_list_marks_the_end_of_the_initial_events(api: Api) -> None:
    await api.create_pod("a")
    newest = await api.create_pod("b")
    async with api.watch(api.pods, **WATCH_LIST) as events:
        assert sorted(await events.take(2)) == [("ADDED", "a"), ("ADDED", "b")]
        mark = await events.next()
        await api.create_pod("c")
        assert await events.take(1) == [("ADDED", "c")]
    metadata = mark["object"]["metadata"]
    assert mark["type"] == "BOOKMARK"
    assert (mark["object"]["kind"], mark["object"]["apiVersion"]) == ("Pod", "v1")
    assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(metadata["resourceVersion"]) >= int(newest["metadata"]["resourceVersion"])


async def test_an_empty_watch_list_has_an_end_mark_too(api: Api) -> None:
    for path in (api.pods, api.groups):
        async with api.watch(path, **WATCH_LIST) as events:
            assert (await events.next())["type"] == "BOOKMARK"


async def test_a_watch_may_start_without_initial_events(api: Api) -> None:
    await api.create_pod("a")
    query = {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"}
    version = (await api.get(api.pods)).metadata["resourceVersion"]
    async with api.watch(api.pods, **query, resourceVersion=version) as events:
        await api.create_pod("b")
        assert await events.take(1) == [("ADDED", "b")]


async def test_options_of_a_watch_list_must_be_used_together(api: Api) -> None:
    for query in ({"sendInitialEvents": "true"}, {"resourceVersionMatch": "NotOlderThan"}):
        refused = await api.get(api.pods, watch="true", **query)
        code, reason, message = refused.refusal
        assert (code, reason) == (422, "Invalid")
        assert 'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: ' in message


async def test_bookmarks_come_before_a_watch_times_out(api: Api) -> None:
    """The real server guarantees none, so it gets several attempts."""
    await api.create_pod("a")
    for attempt in range(5):
        version = (await api.get(api.pods)).metadata["resourceVersion"]
        query = {"resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": "4"}
        async with api.watch(api.pods, **query) as events:
            changed = await api.patch(f"{api.pods}/a", {"metadata": {"labels": {"x": str(attempt)}}})
            first, *rest = await events.rest()
        assert first["type"] == "MODIFIED"
        if rest:
            break
    assert {event["type"] for event in rest} == {"BOOKMARK"}
    bookmark = rest[0]["object"]
    assert (bookmark["kind"], bookmark["spec"]) == ("Pod", {"containers": None})
    assert int(bookmark["metadata"]["resourceVersion"]) >= int(changed.metadata["resourceVersion"])


async def test_a_watch_ends_after_its_timeout(api: Api) -> None:
    await api.create_pod("a")
    async with api.watch(api.pods, resourceVersion="0", timeoutSeconds="1") as events:
        assert [event["type"] for event in await events.rest()] == ["ADDED"]


async def test_a_discarded_version_is_gone(api: Api, server: Server) -> None:
    await api.create_group("g")
    if server.embedded is not None:
        discard_history(server.embedded.server)
    async with api.watch(api.groups, resourceVersion="1") as events:
        (event,) = await events.rest()
    assert event["type"] == "ERROR"
    status = event["object"]
    assert (status["kind"], status["status"]) == ("Status", "Failure")
    assert (status["code"], status["reason"]) == (410, "Expired")
    assert re.fullmatch(r"too old resource version: 1 \(\d+\)", status["message"])


def discard_history(server: ApiServer) -> None:
    """Discard history, as compaction and time do on the real server."""
    server.store.compact()


async def test_a_watch_follows_a_selector(api: Api) -> None:
    version = (await api.get(api.pods)).metadata["resourceVersion"]
    query = {"labelSelector": "team=red", "resourceVersion": version}
    async with api.watch(api.pods, **query) as events:
        await api.post(api.pods, pod("other"))
        await api.post(api.pods, labelled(pod("a"), team="blue"))
        for team in ("red", "red", "blue", "red"):
            change = {"metadata": {"labels": {"team": team, "more": "x"}}}
            await api.patch(f"{api.pods}/a", change)
        await api.delete(f"{api.pods}/a")
        expected = ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]
        assert await events.take(5) == [(type_, "a") for type_ in expected]


async def test_an_object_that_leaves_the_selection_is_sent_as_deleted(api: Api) -> None:
    await api.post(api.pods, labelled(pod("a"), team="red"))
    version = (await api.get(api.pods)).metadata["resourceVersion"]
    async with api.watch(api.pods, labelSelector="team=red", resourceVersion=version) as events:
        changed = await api.patch(f"{api.pods}/a", {"metadata": {"labels": {"team": "blue"}}})
        left = (await events.next())["object"]["metadata"]
    assert left["labels"] == {"team": "red"}
    assert left["resourceVersion"] == changed.metadata["resourceVersion"]


async def test_a_watch_follows_a_field(api: Api) -> None:
    version = (await api.get(api.pods)).metadata["resourceVersion"]
    async with api.watch(api.pods, fieldSelector="spec.nodeName=", resourceVersion=version) as events:
        await api.create_pod("a")
        await api.bind("a", "node-a")
        assert await events.take(2) == [("ADDED", "a"), ("DELETED", "a")]


async def test_a_watch_of_one_object(api: Api) -> None:
    version = (await api.get(api.pods)).metadata["resourceVersion"]
    async with api.watch(api.pods, fieldSelector="metadata.name=b", resourceVersion=version) as events:
        await api.create_pod("a")
        await api.create_pod("b")
        assert await events.take(1) == [("ADDED", "b")]


async def test_a_watch_of_a_namespace_sends_no_events_of_others(api: Api) -> None:
    version = (await api.get(api.pods)).metadata["resourceVersion"]
    async with api.watch(api.pods, resourceVersion=version) as events:
        other = pod(f"in-{api.namespace}")
        await api.post("/api/v1/namespaces/default/pods", other)
        await api.create_pod("here")
        assert await events.take(1) == [("ADDED", "here")]
        await api.delete(f"/api/v1/namespaces/default/pods/in-{api.namespace}")


async def test_a_version_that_is_not_a_number(api: Api) -> None:
    refused = await api.get(api.pods, resourceVersion="None")
    assert refused.refusal[:2] == (400, "BadRequest")
    assert (await api.get(api.pods, watch="true", resourceVersion="None")).code in (400, 500)
