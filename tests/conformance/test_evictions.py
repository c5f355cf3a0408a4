"""The eviction subresource, with and without PodDisruptionBudgets.

On the embedded server a fixture runs a disruption controller, as the real control plane does: cases wait for
the status that it writes.
"""

import asyncio
from typing import Any

import pytest
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.controllers.disruption import Disruption

from tests.conformance.api import Answer, Api, Object, labelled, pod
from tests.conformance.conftest import Server

VIOLATION = "Cannot evict pod as it would violate the pod's disruption budget."


@pytest.fixture(autouse=True)
async def disruption(server: Server) -> Any:
    """The disruption controller, if the server has none."""
    if server.embedded is None:
        yield
        return
    controller = Disruption(Client(server.embedded.server))
    yield
    controller.close()


def eviction(name: str, **options: Any) -> Object:
    body: Object = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return {**body, "deleteOptions": options} if options else body


async def evict(api: Api, name: str, **options: Any) -> Answer:
    return await api.post(f"{api.pods}/{name}/eviction", eviction(name, **options))


async def create_budget(api: Api, name: str, **spec: Any) -> str:
    path = f"/apis/policy/v1/namespaces/{api.namespace}/poddisruptionbudgets"
    selector = {"matchLabels": {"app": "train"}}
    body = {"metadata": {"name": name}, "spec": {"selector": selector, **spec}}
    assert (await api.post(path, body)).code == 201
    return f"{path}/{name}"


async def create_ready(api: Api, *names: str) -> None:
    """Running pods on a node that does not exist, so that no kubelet changes them."""
    for name in names:
        await api.post(api.pods, labelled(pod(name), app="train"))
        assert (await api.bind(name, f"node-{api.namespace}")).code == 201
        ready = {"type": "Ready", "status": "True"}
        status = {"phase": "Running", "conditions": [ready]}
        assert (await api.patch(f"{api.pods}/{name}/status", {"status": status})).code == 200


async def counted(api: Api, budget: str, **expected: int) -> Object:
    """The budget's status once it has these values."""
    while True:
        status: Object = (await api.get(budget)).object["status"]
        if {name: status.get(name) for name in expected} == expected:
            return status
        await asyncio.sleep(0.02)


def condition(item: Object, type_: str) -> Object:
    (found,) = [one for one in item["status"]["conditions"] if one["type"] == type_]
    assert isinstance(found, dict)
    return found


async def test_an_evicted_pod_gets_a_condition_and_is_deleted_gracefully(api: Api) -> None:
    await create_ready(api, "a")
    answer = await evict(api, "a")
    assert (answer.code, answer.body["status"]) == (201, "Success")
    assert answer.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    }
    found = (await api.get(f"{api.pods}/a")).object
    assert found["metadata"]["deletionGracePeriodSeconds"] == 30
    target = condition(found, "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")
    assert target["message"] == "Eviction API: evicting"


async def test_an_evicted_pod_without_a_node_is_gone(api: Api) -> None:
    await api.create_pod("a")
    assert (await evict(api, "a")).code == 201
    assert (await api.get(f"{api.pods}/a")).code == 404


async def test_delete_options_are_applied(api: Api) -> None:
    await create_ready(api, "a", "b")
    assert (await evict(api, "a", gracePeriodSeconds=5)).code == 201
    assert (await api.get(f"{api.pods}/a")).metadata["deletionGracePeriodSeconds"] == 5
    assert (await evict(api, "b", gracePeriodSeconds=0)).code == 201
    assert (await api.get(f"{api.pods}/b")).code == 404


async def test_a_pod_that_does_not_exist(api: Api) -> None:
    assert (await evict(api, "ghost")).refusal == (404, "NotFound", 'pods "ghost" not found')


async def test_the_name_must_be_that_of_the_path(api: Api) -> None:
    await api.create_pod("a")
    refused = await api.post(f"{api.pods}/a/eviction", eviction("b"))
    assert refused.refusal == (400, "BadRequest", "name in URL does not match name in Eviction object")


async def test_preconditions(api: Api) -> None:
    await create_ready(api, "a")
    metadata = (await api.get(f"{api.pods}/a")).metadata
    refused = await evict(api, "a", preconditions={"uid": "other"})
    assert refused.refusal[:2] == (409, "Conflict")
    assert "The object might have been deleted and then recreated" in refused.refusal[2]
    refused = await evict(api, "a", preconditions={"resourceVersion": "1"})
    assert refused.refusal[:2] == (409, "Conflict")
    found = (await api.get(f"{api.pods}/a")).object
    assert found["metadata"]["resourceVersion"] == metadata["resourceVersion"]
    wanted = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    assert (await evict(api, "a", preconditions=wanted)).code == 201


async def test_a_second_eviction_changes_nothing(api: Api) -> None:
    await create_ready(api, "a")
    assert (await evict(api, "a")).code == 201
    first = (await api.get(f"{api.pods}/a")).metadata
    assert (await evict(api, "a")).code == 201
    assert (await api.get(f"{api.pods}/a")).metadata["deletionTimestamp"] == first["deletionTimestamp"]


async def test_a_new_budget_has_no_status_yet(api: Api) -> None:
    """Without a status no eviction is allowed. The real controller is quick: only the refusal is compared."""
    budget = await create_budget(api, "b", minAvailable=1)
    status = await counted(api, budget, observedGeneration=1, expectedPods=0)
    assert status["disruptionsAllowed"] == 0
    assert condition((await api.get(budget)).object, "DisruptionAllowed")["reason"] == "InsufficientPods"


async def test_a_budget_limits_the_number_of_evictions(api: Api) -> None:
    await create_ready(api, "a", "b", "c")
    budget = await create_budget(api, "b", minAvailable=2)
    await counted(api, budget, disruptionsAllowed=1, currentHealthy=3, desiredHealthy=2, expectedPods=3)
    assert condition((await api.get(budget)).object, "DisruptionAllowed")["reason"] == "SufficientPods"
    assert (await evict(api, "a")).code == 201
    refused = await evict(api, "b")
    assert refused.refusal == (429, "TooManyRequests", VIOLATION)
    await counted(api, budget, disruptionsAllowed=0, currentHealthy=2)
    refused = await evict(api, "b")
    cause = {
        "reason": "DisruptionBudget",
        "message": "The disruption budget b needs 2 healthy pods and has 2 currently",
    }
    assert refused.body["details"] == {"causes": [cause]}
    assert "deletionTimestamp" not in (await api.get(f"{api.pods}/b")).metadata


async def test_a_refused_eviction_does_not_change_the_pod(api: Api) -> None:
    await create_ready(api, "a")
    budget = await create_budget(api, "b", minAvailable=1)
    await counted(api, budget, expectedPods=1, currentHealthy=1)
    before = (await api.get(f"{api.pods}/a")).object
    assert (await evict(api, "a")).code == 429
    assert (await api.get(f"{api.pods}/a")).object == before


async def test_a_deletion_ignores_budgets(api: Api) -> None:
    await create_ready(api, "a")
    budget = await create_budget(api, "b", minAvailable=1)
    await counted(api, budget, expectedPods=1)
    assert (await api.delete(f"{api.pods}/a")).code == 200


async def test_pods_that_do_not_run_are_not_protected(api: Api) -> None:
    await create_ready(api, "a")
    for name, phase in (("pending", "Pending"), ("failed", "Failed"), ("succeeded", "Succeeded")):
        await api.post(api.pods, labelled(pod(name), app="train"))
        await api.patch(f"{api.pods}/{name}/status", {"status": {"phase": phase}})
    budget = await create_budget(api, "b", minAvailable=4)
    await counted(api, budget, expectedPods=4, currentHealthy=1)
    for name in ("pending", "failed", "succeeded"):
        assert (await evict(api, name)).code == 201, name
    assert (await evict(api, "a")).code == 429


@pytest.mark.parametrize(("policy", "code"), [("", 429), ("IfHealthyBudget", 429), ("AlwaysAllow", 201)])
async def test_running_pods_that_are_not_ready(api: Api, policy: str, code: int) -> None:
    await create_ready(api, "a", "b")
    unready = {"conditions": [{"type": "Ready", "status": "False"}]}
    await api.patch(f"{api.pods}/a/status", {"status": unready})
    spec = {"unhealthyPodEvictionPolicy": policy} if policy else {}
    budget = await create_budget(api, "b", minAvailable=2, **spec)
    await counted(api, budget, expectedPods=2, currentHealthy=1, observedGeneration=1)
    assert (await evict(api, "a")).code == code
    assert (await evict(api, "b")).code == 429


async def test_evicting_an_unready_pod_does_not_use_a_healthy_budget(api: Api) -> None:
    await create_ready(api, "a", "b")
    unready = {"conditions": [{"type": "Ready", "status": "False"}]}
    await api.patch(f"{api.pods}/a/status", {"status": unready})
    budget = await create_budget(api, "b", minAvailable=1)
    await counted(api, budget, expectedPods=2, currentHealthy=1, disruptionsAllowed=0)
    assert (await evict(api, "a")).code == 201
    assert (await evict(api, "b")).code == 429


async def test_several_budgets_are_an_error(api: Api) -> None:
    await create_ready(api, "a")
    for name in ("b", "c"):
        await counted(api, await create_budget(api, name, minAvailable=0), observedGeneration=1)
    refused = await evict(api, "a")
    assert refused.code == 500
    why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    assert refused.body["message"] == why
    assert "reason" not in refused.body


async def test_selectors_of_budgets(api: Api) -> None:
    await create_ready(api, "a")
    others = [
        {"selector": {"matchLabels": {"app": "other"}}},
        {"selector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["train"]}]}},
        {"selector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}},
        {"selector": None},
    ]
    for index, spec in enumerate(others):
        budget = await create_budget(api, f"other-{index}", minAvailable=1, **spec)
        await counted(api, budget, observedGeneration=1, expectedPods=0)
    budget = await create_budget(api, "every", minAvailable=1, selector={})
    await counted(api, budget, observedGeneration=1, expectedPods=1)
    assert (await evict(api, "a")).code == 429


@pytest.mark.parametrize(
    "spec", [{"minAvailable": 1, "maxUnavailable": 1}, {"minAvailable": "some"}, {"maxUnavailable": "1"}]
)
async def test_invalid_budgets(api: Api, spec: Object) -> None:
    path = f"/apis/policy/v1/namespaces/{api.namespace}/poddisruptionbudgets"
    body = {"metadata": {"name": "b"}, "spec": {"selector": {}, **spec}}
    assert (await api.post(path, body)).refusal[:2] == (422, "Invalid")


async def test_the_eviction_subresource_is_discovered_and_only_created(api: Api) -> None:
    await api.create_pod("a")
    assert (await api.get(f"{api.pods}/a/eviction")).code == 405
    found = [one for one in (await api.get("/api/v1")).object["resources"] if one["name"] == "pods/eviction"]
    (described,) = found
    assert (described["group"], described["version"], described["kind"]) == ("policy", "v1", "Eviction")
