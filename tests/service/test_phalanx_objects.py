"""PodGroups and Queues as they were last observed in the API."""

from msgspec import convert
from phalanx.cache.events import Applied, Deleted, Relisted
from phalanx.model.api.pod_groups import PodGroup
from phalanx.model.api.queues import Queue
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.names import DEFAULT_QUEUE, GangId
from phalanx.service.cluster_state import PhalanxObjects


def group(name: str, uid: str) -> PodGroup:
    meta = {"name": name, "namespace": "team", "uid": uid}
    return convert({"metadata": meta, "spec": {"minMember": 1}}, PodGroup)


def queue(name: str) -> Queue:
    return convert({"metadata": {"name": name}}, Queue)


def gang(name: str, uid: str) -> Gang:
    return Gang(
        id=GangId(uid),
        kind=GangKind.POD_GROUP,
        namespace="team",
        name=name,
        queue=DEFAULT_QUEUE,
        min_member=1,
        priority=0,
        created=0,
        members=(),
    )


def test_a_recreated_pod_group_is_not_the_group_of_the_old_gang() -> None:
    known = PhalanxObjects()
    known.apply(Applied(group("train", "old")))
    assert known.pod_group(gang("train", "old")) is not None
    known.apply(Applied(group("train", "new")))
    assert known.pod_group(gang("train", "old")) is None
    assert known.pod_group(gang("train", "new")) is not None


def test_a_pod_group_is_found_by_its_uid_until_it_is_deleted() -> None:
    known = PhalanxObjects()
    known.apply(Applied(group("train", "old")))
    known.apply(Applied(group("train", "new")))
    assert known.pod_group_of(GangId("old")) is None
    assert known.pod_group_of(GangId("new")) == group("train", "new")
    known.apply(Relisted("PodGroup", (group("other", "o"),)))
    assert known.pod_group_of(GangId("new")) is None
    known.apply(Deleted(kind="PodGroup", namespace="team", name="other"))
    assert known.pod_group_of(GangId("o")) is None


def test_objects_that_are_deleted_or_missing_in_a_list_are_removed() -> None:
    known = PhalanxObjects()
    for each in (group("a", "a"), group("b", "b"), queue("q")):
        known.apply(Applied(each))
    known.apply(Deleted(kind="PodGroup", namespace="team", name="a"))
    assert known.pod_group(gang("a", "a")) is None
    known.apply(Relisted("PodGroup", (group("c", "c"),), unreadable=(("team", "b"),)))
    assert known.pod_group(gang("b", "b")) is not None
    known.apply(Relisted("PodGroup", (group("c", "c"),)))
    assert known.pod_group(gang("b", "b")) is None
    assert known.pod_group(gang("c", "c")) is not None
    assert known.queue("q") is not None
    known.apply(Relisted("Queue", ()))
    assert known.queue("q") is None
