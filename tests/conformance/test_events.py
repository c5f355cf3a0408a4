"""Events, which two API groups serve with different field names."""

from typing import Any

import pytest

from tests.conformance.api import Api, Object

MICRO = "2026-01-02T03:04:05.678901Z"
NEW = "/apis/events.k8s.io/v1"


def paths(api: Api) -> tuple[str, str]:
    """Events of the core group, and of events.k8s.io."""
    return f"{api.root}/events", f"{NEW}/namespaces/{api.namespace}/events"


def core_event(api: Api, name: str = "a.1", **more: Any) -> Object:
    involved = {"kind": "Pod", "apiVersion": "v1", "name": "a", "namespace": api.namespace, "uid": "u-1"}
    return {
        "metadata": {"name": name},
        "involvedObject": involved,
        "reason": "Xid",
        "message": "GPU has fallen off the bus",
        "type": "Warning",
        "source": {"component": "node-problem-detector", "host": "n1"},
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "lastTimestamp": "2026-01-02T03:04:06Z",
        "count": 2,
        **more,
    }


def new_event(api: Api, name: str = "a.1", **more: Any) -> Object:
    return {
        "metadata": {"name": name},
        "eventTime": MICRO,
        "reportingController": "phalanx",
        "reportingInstance": "phalanx-1",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": "assigned",
        "regarding": {"kind": "Pod", "apiVersion": "v1", "name": "a", "namespace": api.namespace},
        **more,
    }


async def test_a_core_event_is_served_by_both_groups(api: Api) -> None:
    core, new = paths(api)
    manifest = core_event(api)
    created = (await api.post(core, manifest)).object
    version, uid = created["metadata"]["resourceVersion"], created["metadata"]["uid"]
    assert {name: created[name] for name in manifest if name != "metadata"} == {
        name: value for name, value in manifest.items() if name != "metadata"
    }
    assert (created["kind"], created["apiVersion"]) == ("Event", "v1")
    found = (await api.get(f"{new}/a.1")).object
    assert (found["kind"], found["apiVersion"]) == ("Event", "events.k8s.io/v1")
    assert (found["metadata"]["resourceVersion"], found["metadata"]["uid"]) == (version, uid)
    assert found["regarding"] == manifest["involvedObject"]
    assert found["note"] == manifest["message"]
    assert found["deprecatedSource"] == manifest["source"]
    assert found["deprecatedCount"] == 2
    assert found["deprecatedLastTimestamp"] == manifest["lastTimestamp"]


async def test_a_new_event_is_served_by_both_groups(api: Api) -> None:
    core, new = paths(api)
    manifest = new_event(api)
    await api.post(new, manifest)
    found = (await api.get(f"{core}/a.1")).object
    assert found["involvedObject"] == manifest["regarding"]
    assert (found["message"], found["reportingComponent"]) == ("assigned", "phalanx")
    assert (found["eventTime"], found["firstTimestamp"], found["source"]) == (MICRO, None, {})
    assert (await api.get(core)).names == (await api.get(new)).names == ["a.1"]


async def test_a_change_through_one_group_is_visible_in_the_other(api: Api) -> None:
    core, new = paths(api)
    await api.post(core, core_event(api))
    async with api.watch(new) as events:
        assert await events.take(1) == [("ADDED", "a.1")]
        patched = (await api.patch(f"{core}/a.1", {"count": 3, "message": "again"})).object
        assert (patched["count"], patched["message"]) == (3, "again")
        event = await events.next()
        assert (event["type"], event["object"]["deprecatedCount"]) == ("MODIFIED", 3)
        await api.delete(f"{core}/a.1")
        assert (await events.take(1)) == [("DELETED", "a.1")]


async def test_a_watch_of_core_events(api: Api) -> None:
    core, new = paths(api)
    async with api.watch(core) as events:
        await api.post(new, new_event(api))
        event = await events.next()
    assert (event["type"], event["object"]["message"]) == ("ADDED", "assigned")
    assert event["object"]["apiVersion"] == "v1"


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("involvedObject.name=a", ["a.1", "a.2"]),
        ("involvedObject.name=b", []),
        ("involvedObject.kind=Pod,reason=Xid", ["a.1"]),
        ("type=Normal", ["a.2"]),
        ("source=node-problem-detector", ["a.1"]),
        ("involvedObject.uid=u-1", ["a.1"]),
    ],
)
async def test_field_selectors_of_core_events(api: Api, selector: str, expected: list[str]) -> None:
    core, new = paths(api)
    await api.post(core, core_event(api))
    await api.post(new, new_event(api, "a.2"))
    assert (await api.get(core, fieldSelector=selector)).names == expected


async def test_each_group_selects_by_its_own_field_names(api: Api) -> None:
    core, new = paths(api)
    assert (await api.get(core, fieldSelector="regarding.name=a")).code == 400
    assert (await api.get(new, fieldSelector="regarding.name=a")).code == 200


async def test_the_namespace_of_an_event_is_that_of_its_object(api: Api) -> None:
    core, _ = paths(api)
    wrong = core_event(api, involvedObject={"kind": "Pod", "name": "a", "namespace": "other"})
    code, reason, message = (await api.post(core, wrong)).refusal
    assert (code, reason) == (422, "Invalid")
    assert 'involvedObject.namespace: Invalid value: "other": does not match event.namespace' in message


@pytest.mark.parametrize("field", ["eventTime", "reportingController", "reportingInstance", "action", "type"])
async def test_a_new_event_has_required_fields(api: Api, field: str) -> None:
    wrong = new_event(api)
    del wrong[field]
    code, reason, message = (await api.post(paths(api)[1], wrong)).refusal
    assert (code, reason) == (422, "Invalid")
    assert field in message
