"""PodGroups and Queues as they were last observed in the API."""

from msgspec import convert
from phalanx.cache.events import Applied, Deleted, Relisted
from phalanx.model.api.pod_groups import PodGroup
from phalanx.model.api.queues import Queue
from phalanx.model.dialects.native import NATIVE
from phalanx.model.names import GangId
from phalanx.service.cluster_state import PhalanxObjects

from tests.model.written import native_pod_group


def group(name: str, uid: str) -> PodGroup:
    meta = {"name": name, "namespace": "team", "uid": uid}
    return convert({"metadata": meta, "spec": {"minMember": 1}}, PodGroup)


def queue(name: str) -> Queue:
    return convert({"metadata": {"name": name}}, Queue)


def test_a_recreated_pod_group_is_not_the_group_of_the_old_gang() -> None:
    known = PhalanxObjects()
    known.apply(Applied(group("train", "old")))
    assert known.pod_group(GangId("old")) is not None
    known.apply(Applied(group("train", "new")))
    assert known.pod_group(GangId("old")) is None
    assert known.pod_group(GangId("new")) is not None


def test_a_pod_group_is_found_by_its_uid_until_it_is_deleted() -> None:
    known = PhalanxObjects()
    known.apply(Applied(group("train", "old")))
    known.apply(Applied(group("train", "new")))
    assert known.pod_group(GangId("old")) is None
    assert known.pod_group(GangId("new")) == group("train", "new")
    known.apply(Relisted("PodGroup", (group("other", "o"),)))
    assert known.pod_group(GangId("new")) is None
    known.apply(Deleted(kind="PodGroup", namespace="team", name="other"))
    assert known.pod_group(GangId("o")) is None


def test_objects_that_are_deleted_or_missing_in_a_list_are_removed() -> None:
    known = PhalanxObjects()
    for each in (group("a", "a"), group("b", "b"), queue("q")):
        known.apply(Applied(each))
    known.apply(Deleted(kind="PodGroup", namespace="team", name="a"))
    assert known.pod_group(GangId("a")) is None
    known.apply(Relisted("PodGroup", (group("c", "c"),), unreadable=(("team", "b"),)))
    assert known.pod_group(GangId("b")) is not None
    known.apply(Relisted("PodGroup", (group("c", "c"),)))
    assert known.pod_group(GangId("b")) is None
    assert known.pod_group(GangId("c")) is not None
    assert known.queue("q") is not None
    known.apply(Relisted("Queue", ()))
    assert known.queue("q") is None


def test_a_native_pod_group_of_the_same_name_is_another_object() -> None:
    known = PhalanxObjects()
    known.apply(Applied(group("g", "ours")))
    known.apply(Applied(native_pod_group("g", uid="native")))
    assert known.pod_group(GangId("ours")) is not None
    assert known.pod_group_of(NATIVE, GangId("native")) is not None
    assert known.pod_group(GangId("native")) is None
    assert known.pod_group_of(NATIVE, GangId("ours")) is None
    known.apply(Relisted("NativePodGroup", (), (("team", "g"),)))
    assert known.pod_group_of(NATIVE, GangId("native")) is not None
    known.apply(Deleted("NativePodGroup", "team", "g"))
    assert known.pod_group_of(NATIVE, GangId("native")) is None
    assert known.pod_group(GangId("ours")) is not None
