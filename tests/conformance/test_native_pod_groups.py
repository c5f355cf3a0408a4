"""Kubernetes' own PodGroups, behind the feature gate GenericWorkload."""

from typing import Any

import pytest

from tests.conformance.api import STRATEGIC, Api, Object

pytestmark = pytest.mark.since(37)

VERSION = "scheduling.k8s.io/v1beta1"


def path_of(api: Api, name: str = "", subresource: str = "") -> str:
    parts = ["/apis", VERSION, "namespaces", api.namespace, "podgroups", name, subresource]
    return "/".join(part for part in parts if part)


def group(**spec: Any) -> Object:
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    return {"apiVersion": VERSION, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {**policy, **spec}}


def condition(status: str, reason: str) -> Object:
    return {
        "type": "PodGroupInitiallyScheduled",
        "status": status,
        "reason": reason,
        "message": "m",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }


async def test_defaults_and_a_status_of_the_client_is_dropped(api: Api) -> None:
    created = (
        await api.post(path_of(api), {**group(), "status": {"conditions": [condition("True", "x")]}})
    ).object
    assert created["spec"]["disruptionMode"] == {"single": {}}
    assert not created.get("status")
    assert "generation" not in created["metadata"]


async def test_only_the_minimum_may_change(api: Api) -> None:
    await api.post(path_of(api), group())
    larger = {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
    changed = await api.patch(path_of(api, "g"), larger)
    assert changed.object["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
    unset = await api.patch(path_of(api, "g"), {"spec": {"disruptionMode": None}})
    assert unset.object["spec"]["disruptionMode"] == {"single": {}}
    refused = await api.patch(path_of(api, "g"), {"spec": {"disruptionMode": {"single": None, "all": {}}}})
    code, reason, message = refused.refusal
    assert (code, reason) == (422, "Invalid")
    assert "spec.disruptionMode" in message


async def test_a_policy_is_required(api: Api) -> None:
    code, reason, message = (await api.post(path_of(api), group(schedulingPolicy={}))).refusal
    assert (code, reason) == (422, "Invalid")
    assert "spec.schedulingPolicy" in message


async def test_a_condition_is_set_by_a_strategic_patch_with_the_uid(api: Api) -> None:
    created = (await api.post(path_of(api), group())).object
    uid, path = created["metadata"]["uid"], path_of(api, "g", "status")

    def patch(*conditions: Object, uid: str = uid) -> Object:
        return {"metadata": {"uid": uid}, "status": {"conditions": list(conditions)}}

    other = {**condition("True", "PreemptionByScheduler"), "type": "DisruptionTarget"}
    for each in (other, condition("False", "Unschedulable"), condition("True", "Scheduled")):
        answer = await api.patch(path, patch(each), STRATEGIC)
        assert answer.code == 200, answer
    found = {each["type"]: each for each in answer.object["status"]["conditions"]}
    assert found == {"DisruptionTarget": other, "PodGroupInitiallyScheduled": condition("True", "Scheduled")}
    refused = await api.patch(path, patch(condition("False", "x"), uid="another"), STRATEGIC)
    assert refused.refusal[:2] == (422, "Invalid")


async def test_a_pod_keeps_its_scheduling_group(api: Api) -> None:
    created = await api.create_pod("a", schedulingGroup={"podGroupName": "g"})
    assert created["spec"]["schedulingGroup"] == {"podGroupName": "g"}
