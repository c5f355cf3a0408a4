"""Work of other schedulers, by who made it."""

from typing import Any

from phalanx.model.resources import GPU

from tests.cache.world import new_cache, take_snapshot
from tests.model.written import label, pod


def devices(*pods: Any) -> dict[str, int]:
    """Per owner, devices on all nodes."""
    foreign = take_snapshot(new_cache(*pods)).foreign
    return {owner: sum(used[GPU] for used in nodes.values()) for owner, nodes in foreign.items()}


def on_node(name: str, *, owner: str = "", scheduler: str = "other", **rest: Any) -> Any:
    requests = {GPU: "1"}
    return pod(name, owner=owner, requests=requests, nodeName="n1", schedulerName=scheduler, **rest)


def test_work_is_known_by_its_controller_or_else_by_its_pod() -> None:
    pods = (on_node("a", owner="j"), on_node("b", owner="j"), on_node("c"))
    assert devices(*pods) == {"Job team/job-j": 2, "pod team/c": 1}


def test_what_waits_what_has_ended_and_what_is_ours_is_not_there() -> None:
    ended = on_node("a", status={"phase": "Succeeded"})
    waits = pod("b", requests={GPU: "1"}, schedulerName="other")
    assert devices(ended, waits, on_node("c", scheduler="phalanx")) == {}


def test_pods_that_may_be_members_of_a_gang_are_not_there() -> None:
    grouped = on_node("a", labels={label("pod-group"): "g"})
    assert devices(grouped, on_node("b", owner="j", labels={label("min-member"): "2"})) == {}


def test_pods_that_stay_with_their_node_are_not_there() -> None:
    of = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    assert devices(on_node("a", meta={"ownerReferences": [of]})) == {}
