"""The checks find what they should, on histories written by hand."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.e2e.audit_log import AuditLog, BindRequest, Permission, granted
from tests.e2e.findings import allocatable, amount, bound_twice, check_binds, overcommitted, partial, spans
from tests.e2e.pod_history import GROUP_LABEL, Container, Metadata, Pod, Resources, Seen, Spec, Status

CAPACITY = allocatable(
    [{"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "3"}}}]
)


def pod(
    name: str,
    *,
    node: str = "n",
    gang: str = "",
    cpu: str = "1",
    by: str = "phalanx",
    version: int = 1,
    **more: Any,
) -> Pod:
    labels = {GROUP_LABEL: gang} if gang else {}
    return Pod(
        Metadata(name, uid=name, resource_version=str(version), namespace="t", labels=labels),
        Spec([Container(Resources({"cpu": cpu, **more.pop("also", {})}))], node, by),
        Status(**more),
    )


def seen(*pods: Pod) -> list[Seen]:
    return [Seen("MODIFIED", each, at=float(i)) for i, each in enumerate(pods)]


def bind(name: str, *, accepted: bool = True) -> BindRequest:
    return BindRequest(f"t/{name}", "u", accepted)


@pytest.mark.parametrize(
    ("text", "value"), [("3", 3), ("1500m", 1.5), ("2Ki", 2048), ("1Gi", 2**30), ("5G", 5 * 10**9)]
)
def test_amounts(text: str, value: float) -> None:
    assert amount(text) == value


def test_a_full_node_is_not_overcommitted() -> None:
    assert overcommitted(CAPACITY, [pod("a", cpu="1500m"), pod("b", cpu="500m")]) == []


@pytest.mark.parametrize(
    "pods",
    [
        [pod("a", cpu="1500m"), pod("b", cpu="501m")],
        [pod("a", also={"memory": "1025Mi"})],
        [pod("a", also={"nvidia.com/gpu": "1"})],
        [pod(name, cpu="0") for name in "abcd"],
    ],
)
def test_an_overcommitted_node_is_found(pods: list[Pod]) -> None:
    assert len(overcommitted(CAPACITY, pods)) == 1


def test_ended_and_waiting_pods_use_no_capacity() -> None:
    assert overcommitted(CAPACITY, [pod("a", cpu="2"), pod("b", phase="Succeeded"), pod("c", node="")]) == []


def test_a_pod_on_two_nodes_is_found() -> None:
    assert bound_twice(seen(pod("a"), pod("b")), []) == []
    assert len(bound_twice(seen(pod("a"), pod("a", node="m")), [])) == 1


def test_a_pod_with_two_accepted_binds_is_found() -> None:
    assert bound_twice([], [bind("a"), bind("a", accepted=False), bind("b")]) == []
    assert len(bound_twice([], [bind("a"), bind("a")])) == 1


def test_spans_distinguish_interleaved_from_consecutive_gangs() -> None:
    sizes = {"t/x": 2, "t/y": 2}
    x1, x2, y1, y2 = (pod(f"{gang}{i}", gang=gang) for gang in "xy" for i in (1, 2))
    apart = spans(seen(pod("x1", node="", gang="x"), x1, x1, x2, y1, y2), sizes=sizes)
    assert [(each.gang, each.others, each.together) for each in apart] == [("t/x", 0, 1), ("t/y", 0, 1)]
    mixed = spans(seen(x1, y1, x2, y2), sizes=sizes)
    assert [(each.gang, each.others, each.together) for each in mixed] == [("t/x", 1, 2), ("t/y", 1, 2)]
    assert spans(seen(x1, x1, y1), sizes=sizes) == []


def test_a_partial_gang_is_found() -> None:
    sizes = {"t/x": 2}
    assert partial([pod("a", gang="x"), pod("b", gang="x")], sizes=sizes) == []
    assert partial([pod("a", gang="x", node=""), pod("b", gang="x", node="")], sizes=sizes) == []
    assert len(partial([pod("a", gang="x"), pod("b", gang="x", node="")], sizes=sizes)) == 1


@pytest.mark.parametrize(
    ("pods", "knew", "excused", "unexcused"),
    [
        (["other", "other", "ours"], 1, 1, 0),
        (["other", "other", "ours"], 2, 0, 1),
        (["other", "ours", "other"], 0, 0, 0),
        (["ours", "ours", "ours"], 0, 0, 1),
        (["ours", "other", "ours"], 1, 1, 0),
        (["ours", "other", "ours"], 2, 0, 1),
    ],
)
def test_a_bind_is_excused_only_by_foreign_binds_that_were_not_observed(
    pods: list[str], knew: int, excused: int, unexcused: int
) -> None:
    """The node has capacity for two pods."""
    history = seen(*(pod(f"{i}", version=i + 1, by=who) for i, who in enumerate(pods)))
    judged = check_binds(CAPACITY, history, ours="ours", knew={each.pod.key: knew for each in history})
    assert (len(judged.excused), len(judged.unexcused)) == (excused, unexcused)


def test_the_audit_log_has_binds_refusals_and_permissions(tmp_path: Path) -> None:
    user = {"username": "system:serviceaccount:phalanx-system:phalanx"}
    entry = {
        "user": user,
        "stage": "ResponseComplete",
        "objectRef": {"resource": "pods", "namespace": "t", "name": "a", "subresource": "binding"},
        "verb": "create",
        "responseStatus": {"code": 201},
    }
    forbidden = {
        **entry,
        "objectRef": {"resource": "secrets"},
        "verb": "get",
        "responseStatus": {"code": 403},
        "annotations": {"authorization.k8s.io/decision": "forbid"},
    }
    log = AuditLog(tmp_path)
    lines = b"\n".join([msgspec.json.encode(entry), msgspec.json.encode(forbidden), b'{"cut'])
    (tmp_path / "audit.log").write_bytes(lines)
    assert [(each.pod, each.accepted) for each in log.binds()] == [("t/a", True)]
    assert len(log.denied()) == 1
    assert log.used() == {Permission("", "pods/binding", "create"), Permission("", "secrets", "get")}


def test_granted_permissions_are_every_combination() -> None:
    role = {"rules": [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list", "watch"]}]}
    assert len(granted(role)) == 4
