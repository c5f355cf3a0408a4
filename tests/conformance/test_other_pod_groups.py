"""PodGroups of other projects, with CustomResourceDefinitions of the same names."""

import asyncio
from typing import Any

import msgspec
import pytest
from phalanx.kube.decode import KindDecoder
from phalanx.model.api.kinds import KINDS

from tests import dialect_crds
from tests.conformance.api import MERGE, Answer, Api, Object

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def serve(api: Api, crd: Object) -> None:
    """Serve a kind, unless it is already, and wait until it is."""
    assert (await api.post(CRDS, crd)).code in (201, 409)
    spec = crd["spec"]
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    while (await api.get(path)).code != 200:
        await asyncio.sleep(0.05)


def group(kind: str, **spec: Any) -> Object:
    read = KINDS[kind]
    return {
        "apiVersion": read.api_version,
        "kind": read.api_name,
        "metadata": {"name": "g"},
        "spec": {"minMember": 2, **({} if kind == "KaiPodGroup" else {"minResources": {"cpu": "2"}}), **spec},
    }


@pytest.mark.parametrize(
    ("kind", "crd"),
    [
        ("SchedulerPluginsPodGroup", dialect_crds.SCHEDULER_PLUGINS),
        ("VolcanoPodGroup", dialect_crds.VOLCANO),
        ("KaiPodGroup", dialect_crds.KAI),
    ],
)
async def test_a_list_is_decoded_as_the_scheduler_does(api: Api, kind: str, crd: Object) -> None:
    await serve(api, crd)
    path = KINDS[kind].path(namespace=api.namespace)
    body = group(kind)
    assert (await api.post(path, body)).code == 201
    page = KindDecoder(KINDS[kind]).page(msgspec.json.encode((await api.get(path)).object))
    (decoded,) = page.objects
    assert page.unreadable == ()
    assert (decoded.metadata.name, decoded.metadata.namespace) == ("g", api.namespace)
    assert msgspec.to_builtins(decoded)["spec"] == body["spec"]


@pytest.mark.parametrize(
    ("kind", "crd", "spec"),
    [
        (
            "VolcanoQueue",
            dialect_crds.VOLCANO_QUEUES,
            {"weight": 2, "capability": {"cpu": "8"}, "reclaimable": False, "parent": "root"},
        ),
        (
            "KaiQueue",
            dialect_crds.KAI_QUEUES,
            {"parentQueue": "all", "resources": {"gpu": {"quota": 2.5, "limit": -1}}},
        ),
    ],
)
async def test_queues_are_decoded_as_the_scheduler_does(
    api: Api, kind: str, crd: Object, spec: Object
) -> None:
    """They have no namespace. A field that the structs lack is named."""
    await serve(api, crd)
    read = KINDS[kind]
    name = f"q-{api.namespace}"
    body = {"apiVersion": read.api_version, "kind": "Queue", "metadata": {"name": name}}
    assert (await api.post(read.path(), {**body, "spec": {**spec, "later": 1}})).code == 201
    page = KindDecoder(read).page(msgspec.json.encode((await api.get(read.path())).object))
    (decoded,) = [each for each in page.objects if each.metadata.name == name]
    assert msgspec.to_builtins(decoded)["spec"] == spec
    assert getattr(decoded, "unknown_fields") == ("spec.later",)  # noqa: B009


async def test_the_status_of_scheduler_plugins_is_a_subresource(api: Api) -> None:
    await serve(api, dialect_crds.SCHEDULER_PLUGINS)
    kind = KINDS["SchedulerPluginsPodGroup"]
    status = {"status": {"phase": "Running", "running": 2}}
    created = await api.post(kind.path(namespace=api.namespace), {**group(kind.name), **status})
    assert "status" not in created.object
    path = kind.path(namespace=api.namespace, name="g")
    assert "status" not in (await api.call("PATCH", path, status, content_type=MERGE)).object
    patched = await api.call("PATCH", f"{path}/status", status, content_type=MERGE)
    assert patched.object["status"] == status["status"]


async def test_the_status_of_volcano_is_patched_with_the_object(api: Api) -> None:
    """A patch of the status keeps the spec, replaces the conditions, and is refused on another version."""
    await serve(api, dialect_crds.VOLCANO)
    kind = KINDS["VolcanoPodGroup"]
    created = await api.post(
        kind.path(namespace=api.namespace), {**group(kind.name), "status": {"phase": "Pending", "running": 3}}
    )
    assert created.object["status"] == {"phase": "Pending", "running": 3}
    path = kind.path(namespace=api.namespace, name="g")
    assert (await api.call("PATCH", f"{path}/status", {}, content_type=MERGE)).code == 404

    async def patch(version: str, **status: Any) -> Answer:
        body = {"metadata": {"resourceVersion": version}, "status": status}
        return await api.call("PATCH", path, body, content_type=MERGE)

    one = {"type": "Unschedulable", "status": "True", "reason": "r", "message": "m"}
    version = created.metadata["resourceVersion"]
    first = await patch(version, phase="Inqueue", running=0, conditions=[one])
    assert first.object["status"] == {"phase": "Inqueue", "running": 0, "conditions": [one]}
    assert first.object["spec"] == created.object["spec"]
    assert (await patch(version, phase="Running")).refusal[:2] == (409, "Conflict")
    other = {**one, "type": "Scheduled"}
    second = await patch(first.metadata["resourceVersion"], conditions=[other])
    assert second.object["status"] == {"phase": "Inqueue", "running": 0, "conditions": [other]}


async def test_the_scheduling_conditions_of_kai_are_a_list_of_the_status(api: Api) -> None:
    """A patch replaces the list, keeps what other writers have written, and may empty it."""
    await serve(api, dialect_crds.KAI)
    kind = KINDS["KaiPodGroup"]
    await api.post(kind.path(namespace=api.namespace), group(kind.name))
    path = kind.path(namespace=api.namespace, name="g", subresource="status")

    async def patch(**status: Any) -> Object:
        found: Object = (await api.call("PATCH", path, {"status": status}, content_type=MERGE)).object[
            "status"
        ]
        return found

    used = {"requested": {"cpu": "2"}}
    one = {
        "type": "UnschedulableOnNodePool",
        "status": "True",
        "transitionID": "1",
        "reasons": [{"reason": "r"}],
    }
    await patch(resourcesStatus=used)
    assert await patch(schedulingConditions=[one]) == {"resourcesStatus": used, "schedulingConditions": [one]}
    assert await patch(schedulingConditions=[]) == {"resourcesStatus": used, "schedulingConditions": []}
