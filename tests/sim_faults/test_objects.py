"""F9: objects edited, deleted and recreated, also in the moment of a bind; all is as before afterwards."""

import asyncio
from typing import Any

import pytest
from phalanx.model.names import LABEL_POD_GROUP
from phalanx_simulator.embedded.manifests import namespace, pod, pod_group, queue
from phalanx_simulator.faults.edits import NOTE

from tests.sim_faults.conftest import FaultCluster, Play

GPU = "nvidia.com/gpu"


def create_objects(cluster: FaultCluster) -> None:
    cluster.create(
        queue("red", limit={GPU: "16"}, guarantee={GPU: "8", "cpu": "8"}),
        queue("blue"),
        pod_group("g", min_member=4, queue="red"),
        pod_group("h", min_member=1, queue="blue"),
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "low"},
            "value": 5,
        },
        namespace("team", labels={"tenant": "t1"}),
    )


def group(cluster: FaultCluster, name: str = "g") -> Any:
    return cluster.get("PodGroup", name, "default")


@pytest.mark.parametrize(("delta", "then"), [(1, 5), (-1, 3), (-9, 1)])
def test_min_member_is_changed_and_restored(play: Play, delta: int, then: int) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        create_objects(cluster)
        task = cluster.start("group-min-member", "default/g", seconds=10, delta=delta)
        await asyncio.sleep(1)
        assert group(cluster)["spec"]["minMember"] == then
        await task
        assert group(cluster)["spec"]["minMember"] == 4
        assert NOTE not in group(cluster)["metadata"]["annotations"]

    play(scenario)


@pytest.mark.parametrize(
    ("kind", "field", "then"),
    [("group-queue", "queue", "blue"), ("group-priority", "priorityClassName", "low")],
)
def test_a_group_gets_another_queue_or_priority(play: Play, kind: str, field: str, then: str) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        create_objects(cluster)
        before = group(cluster)["spec"]
        task = cluster.start(kind, "default/g", seconds=10)
        await asyncio.sleep(1)
        assert group(cluster)["spec"][field] == then
        await task
        assert group(cluster)["spec"] == before

    play(scenario)


@pytest.mark.parametrize(
    ("kind", "resource", "name"),
    [("group-recreate", "PodGroup", "default/g"), ("queue-recreate", "Queue", "red")],
)
def test_an_object_is_recreated(play: Play, kind: str, resource: str, name: str) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        create_objects(cluster)
        where, _, short = name.rpartition("/")
        before = cluster.get(resource, short, where)
        task = cluster.start(kind, name, seconds=10)
        await asyncio.sleep(1)
        assert short not in cluster.names(resource)
        await task
        after = cluster.get(resource, short, where)
        assert after["spec"] == before["spec"]
        assert after["metadata"]["uid"] != before["metadata"]["uid"]

    play(scenario)


@pytest.mark.parametrize(
    ("kind", "resource", "name"),
    [("group-delete", "PodGroup", "default/g"), ("queue-delete", "Queue", "red")],
)
def test_an_object_is_deleted_and_not_recreated(play: Play, kind: str, resource: str, name: str) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        create_objects(cluster)
        await cluster.inject(kind, name)
        assert name.rpartition("/")[2] not in cluster.names(resource)

    play(scenario)


def test_an_object_recreated_during_an_edit_has_its_original_fields(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        create_objects(cluster)
        edit = cluster.start("group-min-member", "default/g", seconds=60)
        await asyncio.sleep(1)
        await cluster.inject("group-recreate", "default/g", seconds=5)
        assert group(cluster)["spec"]["minMember"] == 4
        await edit
        assert group(cluster)["spec"]["minMember"] == 4

    play(scenario)


def test_a_limit_is_set_below_the_usage(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        create_objects(cluster)
        key = next(key for key in cluster.client.keys("queues.scheduling.phalanx.dev") if key.name == "red")
        cluster.client.update_status(key, allocated={GPU: "10"})
        task = cluster.start("queue-limit", "red", seconds=10, percent=50)
        await asyncio.sleep(1)
        spec = cluster.get("Queue", "red")["spec"]
        assert (spec["limit"], spec["guarantee"]) == ({GPU: "5"}, {"cpu": "8"})
        await task
        spec = cluster.get("Queue", "red")["spec"]
        assert (spec["limit"], spec["guarantee"]) == ({GPU: "16"}, {GPU: "8", "cpu": "8"})

    play(scenario)


def test_two_queues_become_each_others_parents(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        create_objects(cluster)
        task = cluster.start("queue-loop", seconds=10)
        await asyncio.sleep(1)
        parents = {name: cluster.get("Queue", name)["spec"].get("parent") for name in ("red", "blue")}
        assert parents == {"red": "blue", "blue": "red"}
        await task
        assert "parent" not in cluster.get("Queue", "red")["spec"]
        assert "parent" not in cluster.get("Queue", "blue")["spec"]

    play(scenario)


def test_a_priority_class_gets_another_value(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        create_objects(cluster)
        task = cluster.start("priority-value", "low", seconds=10, value=1000)
        await asyncio.sleep(1)
        assert cluster.get("PriorityClass", "low")["value"] == 1000
        await task
        assert cluster.get("PriorityClass", "low")["value"] == 5
        assert "system-node-critical" in cluster.names("PriorityClass")

    play(scenario)


@pytest.mark.parametrize(
    ("settings", "then"), [({}, None), ({"label": "tenant", "value": "t2"}, "t2")], ids=["removed", "set"]
)
def test_namespace_labels_are_changed_and_restored(
    play: Play, settings: dict[str, str], then: str | None
) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        create_objects(cluster)
        task = cluster.start("namespace-labels", "team", seconds=10, **settings)
        await asyncio.sleep(1)
        labels = cluster.get("Namespace", "team")["metadata"]["labels"]
        assert labels.get("tenant") == then
        assert labels["kubernetes.io/metadata.name"] == "team"
        await task
        assert cluster.get("Namespace", "team")["metadata"]["labels"]["tenant"] == "t1"

    play(scenario)


def test_a_pod_label_names_another_group(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        create_objects(cluster)
        await cluster.running("p", "a", group="g")
        task = cluster.start("pod-moved", "default/p", seconds=10)
        await asyncio.sleep(1)
        assert cluster.get("Pod", "p", "default")["metadata"]["labels"][LABEL_POD_GROUP] == "h"
        await task
        assert cluster.get("Pod", "p", "default")["metadata"]["labels"][LABEL_POD_GROUP] == "g"

    play(scenario)


def test_an_edit_can_wait_for_the_next_bind(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        create_objects(cluster)
        cluster.create(pod("p", group="g"))
        task = cluster.start("group-delete", "default/g", bind_within_s=60)
        await asyncio.sleep(30)
        assert "g" in cluster.names("PodGroup")
        cluster.bind("p", "a")
        await asyncio.sleep(0.001)
        assert "g" not in cluster.names("PodGroup")
        await task

    play(scenario)


def test_the_wait_for_a_bind_is_bounded(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        create_objects(cluster)
        await cluster.inject("group-delete", "default/g", bind_within_s=60)
        assert "g" not in cluster.names("PodGroup")

    play(scenario)
