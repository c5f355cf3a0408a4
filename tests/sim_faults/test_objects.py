"""F9: objects edited, deleted and recreated, also in the moment of a bind; all is as before afterwards."""

import asyncio
from typing import Any

import pytest
from phalanx.model.names import LABEL_POD_GROUP
from phalanx_simulator.embedded.manifests import namespace, pod, pod_group, queue
from phalanx_simulator.faults.edits import NOTE

from tests.sim_faults.conftest import Play, Town

GPU = "nvidia.com/gpu"


def furnish(town: Town) -> None:
    town.create(
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


def group(town: Town, name: str = "g") -> Any:
    return town.get("PodGroup", name, "default")


@pytest.mark.parametrize(("delta", "then"), [(1, 5), (-1, 3), (-9, 1)])
def test_min_member_changes_and_comes_back(play: Play, delta: int, then: int) -> None:
    async def story(town: Town) -> None:
        furnish(town)
        task = town.start("group-min-member", "default/g", seconds=10, delta=delta)
        await asyncio.sleep(1)
        assert group(town)["spec"]["minMember"] == then
        await task
        assert group(town)["spec"]["minMember"] == 4
        assert NOTE not in group(town)["metadata"]["annotations"]

    play(story)


@pytest.mark.parametrize(
    ("kind", "field", "then"),
    [("group-queue", "queue", "blue"), ("group-priority", "priorityClassName", "low")],
)
def test_a_group_is_moved(play: Play, kind: str, field: str, then: str) -> None:
    async def story(town: Town) -> None:
        furnish(town)
        before = group(town)["spec"]
        task = town.start(kind, "default/g", seconds=10)
        await asyncio.sleep(1)
        assert group(town)["spec"][field] == then
        await task
        assert group(town)["spec"] == before

    play(story)


@pytest.mark.parametrize(
    ("kind", "resource", "name"),
    [("group-recreate", "PodGroup", "default/g"), ("queue-recreate", "Queue", "red")],
)
def test_an_object_is_recreated(play: Play, kind: str, resource: str, name: str) -> None:
    async def story(town: Town) -> None:
        furnish(town)
        where, _, short = name.rpartition("/")
        before = town.get(resource, short, where)
        task = town.start(kind, name, seconds=10)
        await asyncio.sleep(1)
        assert short not in town.names(resource)
        await task
        after = town.get(resource, short, where)
        assert after["spec"] == before["spec"]
        assert after["metadata"]["uid"] != before["metadata"]["uid"]

    play(story)


@pytest.mark.parametrize(
    ("kind", "resource", "name"),
    [("group-delete", "PodGroup", "default/g"), ("queue-delete", "Queue", "red")],
)
def test_an_object_is_deleted_for_good(play: Play, kind: str, resource: str, name: str) -> None:
    async def story(town: Town) -> None:
        furnish(town)
        await town.inject(kind, name)
        assert name.rpartition("/")[2] not in town.names(resource)

    play(story)


def test_an_object_recreated_during_an_edit_has_its_original_fields(play: Play) -> None:
    async def story(town: Town) -> None:
        furnish(town)
        edit = town.start("group-min-member", "default/g", seconds=60)
        await asyncio.sleep(1)
        await town.inject("group-recreate", "default/g", seconds=5)
        assert group(town)["spec"]["minMember"] == 4
        await edit
        assert group(town)["spec"]["minMember"] == 4

    play(story)


def test_a_limit_falls_below_what_is_used(play: Play) -> None:
    async def story(town: Town) -> None:
        furnish(town)
        key = next(key for key in town.client.keys("queues.scheduling.phalanx.dev") if key.name == "red")
        town.client.update_status(key, allocated={GPU: "10"})
        task = town.start("queue-limit", "red", seconds=10, percent=50)
        await asyncio.sleep(1)
        spec = town.get("Queue", "red")["spec"]
        assert (spec["limit"], spec["guarantee"]) == ({GPU: "5"}, {"cpu": "8"})
        await task
        spec = town.get("Queue", "red")["spec"]
        assert (spec["limit"], spec["guarantee"]) == ({GPU: "16"}, {GPU: "8", "cpu": "8"})

    play(story)


def test_two_queues_become_each_others_parents(play: Play) -> None:
    async def story(town: Town) -> None:
        furnish(town)
        task = town.start("queue-loop", seconds=10)
        await asyncio.sleep(1)
        parents = {name: town.get("Queue", name)["spec"].get("parent") for name in ("red", "blue")}
        assert parents == {"red": "blue", "blue": "red"}
        await task
        assert "parent" not in town.get("Queue", "red")["spec"]
        assert "parent" not in town.get("Queue", "blue")["spec"]

    play(story)


def test_a_priority_class_gets_another_value(play: Play) -> None:
    async def story(town: Town) -> None:
        furnish(town)
        task = town.start("priority-value", "low", seconds=10, value=1000)
        await asyncio.sleep(1)
        assert town.get("PriorityClass", "low")["value"] == 1000
        await task
        assert town.get("PriorityClass", "low")["value"] == 5
        assert "system-node-critical" in town.names("PriorityClass")

    play(story)


@pytest.mark.parametrize(
    ("settings", "then"), [({}, None), ({"label": "tenant", "value": "t2"}, "t2")], ids=["removed", "set"]
)
def test_a_namespaces_labels_change(play: Play, settings: dict[str, str], then: str | None) -> None:
    async def story(town: Town) -> None:
        furnish(town)
        task = town.start("namespace-labels", "team", seconds=10, **settings)
        await asyncio.sleep(1)
        labels = town.get("Namespace", "team")["metadata"]["labels"]
        assert labels.get("tenant") == then
        assert labels["kubernetes.io/metadata.name"] == "team"
        await task
        assert town.get("Namespace", "team")["metadata"]["labels"]["tenant"] == "t1"

    play(story)


def test_a_pod_says_that_it_belongs_to_another_group(play: Play) -> None:
    async def story(town: Town) -> None:
        furnish(town)
        await town.running("p", "a", group="g")
        task = town.start("pod-moved", "default/p", seconds=10)
        await asyncio.sleep(1)
        assert town.get("Pod", "p", "default")["metadata"]["labels"][LABEL_POD_GROUP] == "h"
        await task
        assert town.get("Pod", "p", "default")["metadata"]["labels"][LABEL_POD_GROUP] == "g"

    play(story)


def test_an_edit_can_wait_for_the_next_bind(play: Play) -> None:
    async def story(town: Town) -> None:
        furnish(town)
        town.create(pod("p", group="g"))
        task = town.start("group-delete", "default/g", bind_within_s=60)
        await asyncio.sleep(30)
        assert "g" in town.names("PodGroup")
        town.bind("p", "a")
        await asyncio.sleep(0.001)
        assert "g" not in town.names("PodGroup")
        await task

    play(story)


def test_an_edit_does_not_wait_for_ever(play: Play) -> None:
    async def story(town: Town) -> None:
        furnish(town)
        await town.inject("group-delete", "default/g", bind_within_s=60)
        assert "g" not in town.names("PodGroup")

    play(story)
