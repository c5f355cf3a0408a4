"""Usage by pods of other schedulers, by controller."""

from typing import Any

from phalanx.cache.events import Applied, Deleted
from phalanx.model.resources import GPU

from tests.cache.world import new_cache, take_snapshot
from tests.model.written import label, native_pod_group, pod


def devices(*pods: Any) -> dict[str, int]:
    """Devices on all nodes, per owner."""
    foreign = take_snapshot(new_cache(*pods)).foreign
    return {owner: sum(used[GPU] for used in nodes.values()) for owner, nodes in foreign.items()}


def on_node(name: str, *, owner: str = "", scheduler: str = "other", **rest: Any) -> Any:
    requests = {GPU: "1"}
    return pod(name, owner=owner, requests=requests, nodeName="n1", schedulerName=scheduler, **rest)


def test_foreign_usage_is_grouped_by_controller_or_pod() -> None:
    pods = (on_node("a", owner="j"), on_node("b", owner="j"), on_node("c"))
    assert devices(*pods) == {"Job team/job-j": 2, "pod team/c": 1}


def test_waiting_ended_and_own_pods_are_not_foreign_usage() -> None:
    ended = on_node("a", status={"phase": "Succeeded"})
    waits = pod("b", requests={GPU: "1"}, schedulerName="other")
    assert devices(ended, waits, on_node("c", scheduler="phalanx")) == {}


def test_possible_gang_members_are_not_foreign_usage() -> None:
    grouped = on_node("a", labels={label("pod-group"): "g"})
    assert devices(grouped, on_node("b", owner="j", labels={label("min-member"): "2"})) == {}


def test_daemon_set_pods_are_not_foreign_usage() -> None:
    of = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    assert devices(on_node("a", meta={"ownerReferences": [of]})) == {}


def test_pods_of_other_schedulers_in_native_pod_groups_are_foreign_usage() -> None:
    member = on_node("a", owner="j", schedulingGroup={"podGroupName": "g"})
    assert devices(member) == {"Job team/job-j": 1}
    assert take_snapshot(new_cache(native_pod_group(), member)).gangs == {}


def test_owners_are_terminating_while_all_of_their_pods_are_being_deleted() -> None:
    gone = {"deletionTimestamp": "2026-01-01T00:00:30Z"}
    cache = new_cache(on_node("a", owner="j", meta=gone), on_node("b", owner="j"), on_node("c", meta=gone))
    assert take_snapshot(cache).foreign_terminating == ("pod team/c",)
    cache.apply(Applied(on_node("b", owner="j", meta=gone)))
    assert take_snapshot(cache).foreign_terminating == ("Job team/job-j", "pod team/c")
    cache.apply(Deleted("Pod", "team", "c"))
    assert take_snapshot(cache).foreign_terminating == ("Job team/job-j",)
