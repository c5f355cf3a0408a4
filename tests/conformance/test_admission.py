"""What the server adds to new objects, and what it refuses because of other objects."""

import asyncio
from typing import Any

import pytest

from tests.conformance.api import Api, Object, pod

PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


async def create_class(api: Api, value: int, **more: Any) -> str:
    name = f"class-{api.namespace}"
    assert (
        await api.post(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value, **more})
    ).code == 201
    return name


async def test_the_priority_is_that_of_the_priority_class(api: Api) -> None:
    name = await create_class(api, 1000, preemptionPolicy="Never")
    spec = (await api.create_pod("a", priorityClassName=name))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")


async def test_without_a_class_the_priority_is_zero(api: Api) -> None:
    spec = (await api.create_pod("a"))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert "priorityClassName" not in spec


async def test_system_classes_exist(api: Api) -> None:
    found = (await api.get(f"{PRIORITY_CLASSES}/system-node-critical")).object
    assert found["value"] == 2_000_001_000


async def test_an_unknown_priority_class_is_forbidden(api: Api) -> None:
    refused = await api.post(api.pods, pod("a", priorityClassName="ghost"))
    message = 'pods "a" is forbidden: no PriorityClass with name ghost was found'
    assert refused.refusal == (403, "Forbidden", message)


async def test_a_priority_cannot_be_chosen(api: Api) -> None:
    refused = await api.post(api.pods, pod("a", priority=5))
    message = (
        'pods "a" is forbidden: the integer value of priority (5) must not be provided in pod spec; '
        "priority admission controller computed 0 from the given PriorityClass name"
    )
    assert refused.refusal == (403, "Forbidden", message)


async def test_the_value_of_a_class_is_immutable(api: Api) -> None:
    name = await create_class(api, 7)
    code, reason, message = (await api.patch(f"{PRIORITY_CLASSES}/{name}", {"value": 8})).refusal
    assert (code, reason) == (422, "Invalid")
    assert "value: Forbidden: may not be changed in an update." in message


async def test_defaults_of_a_pod(api: Api) -> None:
    manifest = pod("a")
    del manifest["spec"]["schedulerName"]
    manifest["spec"]["nodeSelector"] = {"no": "such-node"}
    spec = (await api.post(api.pods, manifest)).object["spec"]
    defaults = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "enableServiceLinks": True,
    }
    assert {field: spec[field] for field in defaults} == defaults
    container = spec["containers"][0]
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["terminationMessagePolicy"] == "File"


async def test_a_minimal_pod_with_all_defaults(api: Api) -> None:
    manifest = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    manifest["spec"]["schedulerName"] = "phalanx-conformance"  # type: ignore[index]
    created = (await api.post(api.pods, manifest)).object
    assert created["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert sorted(created["spec"]) == sorted(
        [
            "containers",
            "dnsPolicy",
            "enableServiceLinks",
            "preemptionPolicy",
            "priority",
            "restartPolicy",
            "schedulerName",
            "securityContext",
            "terminationGracePeriodSeconds",
            "tolerations",
        ]
    )
    assert created["spec"]["containers"] == [
        {
            "name": "c",
            "image": "i",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always",
        }
    ]


async def test_not_ready_and_unreachable_nodes_are_tolerated_for_a_time(api: Api) -> None:
    tolerations = (await api.create_pod("a"))["spec"]["tolerations"]
    assert tolerations == [eviction_delay("not-ready", 300), eviction_delay("unreachable", 300)]


async def test_tolerations_of_the_pod_come_first(api: Api) -> None:
    own = eviction_delay("unreachable", 5)
    tolerations = (await api.create_pod("a", tolerations=[own]))["spec"]["tolerations"]
    assert tolerations == [own, eviction_delay("not-ready", 300)]


def eviction_delay(state: str, seconds: int) -> Object:
    key = f"node.kubernetes.io/{state}"
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}


async def test_requests_default_to_limits(api: Api) -> None:
    resources = {"limits": {"cpu": "2", "nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}}
    container = {"name": "main", "image": "busybox:1", "resources": resources}
    created = await api.create_pod("a", containers=[container])
    assert created["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "nvidia.com/gpu": "1"}


async def test_quality_of_service(api: Api) -> None:
    amounts = {"cpu": "1", "memory": "1Gi"}
    for name, resources, expected in (
        ("a", {}, "BestEffort"),
        ("b", {"requests": {"cpu": "1"}}, "Burstable"),
        ("c", {"limits": amounts}, "Guaranteed"),
        ("d", {"limits": amounts, "requests": {"cpu": "500m"}}, "Burstable"),
    ):
        container = {"name": "main", "image": "busybox:1", "resources": resources}
        created = await api.create_pod(name, containers=[container])
        assert created["status"]["qosClass"] == expected, name


async def test_an_invalid_quantity_is_a_bad_request(api: Api) -> None:
    resources = {"requests": {"cpu": "lots"}}
    container = {"name": "main", "image": "busybox:1", "resources": resources}
    code, reason, message = (await api.post(api.pods, pod("a", containers=[container]))).refusal
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith('Pod in version "v1" cannot be handled as a Pod: ')


@pytest.mark.parametrize(
    "wrong",
    [
        {"metadata": {"name": "a", "labels": ["x"]}},
        {"metadata": {"name": "a", "labels": {"x": 1}}},
        {"metadata": {"name": "a", "finalizers": "x"}},
        {"metadata": {"name": "a", "ownerReferences": {}}},
        {"metadata": {"name": 5}},
        {"metadata": []},
        {"spec": []},
        {"spec": {"containers": {}}},
        {"spec": {"containers": [{"name": "c", "image": 7}]}},
        {"spec": {"containers": [{"name": "c", "image": "i", "resources": []}]}},
        {"spec": {"containers": [{"name": "c", "image": "i"}], "priority": "high"}},
        {"spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": 1}},
        {"spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": ["x"]}},
        {"spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"x": True}}},
    ],
    ids=str,
)
async def test_a_pod_with_wrong_types_is_a_bad_request(api: Api, wrong: Object) -> None:
    assert (await api.post(api.pods, {**pod("a"), **wrong})).refusal[:2] == (400, "BadRequest")


async def test_null_means_absent(api: Api) -> None:
    manifest = pod("a", nodeName=None, tolerations=None, priority=None, initContainers=None)
    manifest["metadata"] |= {"labels": None, "annotations": None, "finalizers": None, "ownerReferences": None}
    created = (await api.post(api.pods, manifest)).object
    assert "nodeName" not in created["spec"]
    assert "labels" not in created["metadata"]
    assert created["spec"]["priority"] == 0


async def test_a_status_with_wrong_types_is_a_bad_request(api: Api) -> None:
    await api.create_pod("a")
    for wrong in ({"conditions": ["x"]}, {"phase": 1}, ["x"]):
        refused = await api.patch(f"{api.pods}/a/status", {"status": wrong})
        assert refused.code in (400, 422), wrong
    cleared = await api.patch(f"{api.pods}/a/status", {"status": {"conditions": None}})
    assert cleared.code == 200


async def test_scheduling_gates_set_a_condition(api: Api) -> None:
    created = await api.create_pod("a", schedulingGates=[{"name": "example.com/gate"}])
    (condition,) = created["status"]["conditions"]
    del condition["lastTransitionTime"]
    assert condition == {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


async def test_gates_can_only_be_removed(api: Api) -> None:
    await api.create_pod("a", schedulingGates=[{"name": "example.com/one"}])
    more = {"spec": {"schedulingGates": [{"name": "example.com/one"}, {"name": "example.com/two"}]}}
    code, reason, message = (await api.patch(f"{api.pods}/a", more)).refusal
    assert (code, reason) == (422, "Invalid")
    assert "spec.schedulingGates[1].name: Forbidden: only deletion is allowed" in message
    freed = await api.patch(f"{api.pods}/a", {"spec": {"schedulingGates": None}})
    assert "schedulingGates" not in freed.object["spec"]


async def test_a_pod_may_be_created_on_a_node(api: Api) -> None:
    created = await api.create_pod("a", nodeName="node-a")
    assert created["spec"]["nodeName"] == "node-a"
    assert "conditions" not in created["status"]


async def test_a_new_node_is_tainted_until_it_is_ready(api: Api) -> None:
    name = f"node-{api.namespace}"
    status = {"allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"}}
    created = await api.post("/api/v1/nodes", {"metadata": {"name": name}, "status": status})
    assert created.object["spec"]["taints"] == [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    ]
    assert created.object["status"]["allocatable"] == {"cpu": "4"}
    assert "generation" not in created.metadata
    await api.delete(f"/api/v1/nodes/{name}")


async def test_a_terminating_namespace_accepts_no_new_objects(api: Api) -> None:
    held = pod("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await api.post(api.pods, held)
    namespace = f"/api/v1/namespaces/{api.namespace}"
    assert (await api.delete(namespace)).object["status"]["phase"] == "Terminating"
    while True:
        refused = await api.post(api.pods, pod("a"))
        if refused.code == 403:
            break
        await asyncio.sleep(0.05)
    why = f"unable to create new content in namespace {api.namespace} because it is being terminated"
    assert refused.refusal == (403, "Forbidden", f'pods "a" is forbidden: {why}')
    await api.patch(f"{api.pods}/held", {"metadata": {"finalizers": None}})
