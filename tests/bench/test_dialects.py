"""The manifests of gangs: as this scheduler's own objects, and as plain pods."""

import msgspec
import pytest
from phalanx.model.api.pod_groups import PodGroupSpec

from bench.harness.arrivals import due_after, pods_in_order
from bench.harness.contenders import ALL, BARE, PHALANX
from bench.harness.dialects import PhalanxDialect, PlainDialect
from bench.harness.gangs import NAMESPACE, Dialect, Gang, Role, pods
from bench.harness.run import takes_part
from bench.peers import PEERS
from tests.bench.builders import workload

ROLES = (Role("worker", 2, {"cpu": "1"}), Role("param-server", 1, {"cpu": "2"}))
OURS = PhalanxDialect()


def test_a_gang_becomes_a_pod_group_and_pods_that_name_it() -> None:
    gang = Gang("gang-7", ROLES, level="rack", priority=10, queue="owner")
    [group] = OURS.group(gang)
    spec = msgspec.convert(group["spec"], PodGroupSpec)
    assert (spec.min_member, spec.queue, spec.priority_class_name) == (3, "owner", "bench-10")
    assert spec.topology is not None
    assert spec.topology.required == "rack"
    assert [(role.name, role.count) for role in spec.roles] == [("worker", 2), ("param-server", 1)]
    written = [OURS.pod(gang, pod) for pod in pods(gang)]
    assert {pod["metadata"]["labels"]["scheduling.phalanx.dev/pod-group"] for pod in written} == {"gang-7"}
    assert [pod["metadata"]["labels"]["scheduling.phalanx.dev/role"] for pod in written] == [
        "worker",
        "worker",
        "param-server",
    ]
    assert {pod["spec"]["priorityClassName"] for pod in written} == {"bench-10"}


def test_a_gang_of_one_is_a_pod_without_a_pod_group() -> None:
    gang = Gang("gang-7", (Role("only", 1, {"cpu": "1"}),))
    assert OURS.group(gang) == []
    [pod] = pods(gang)
    assert OURS.pod(gang, pod)["metadata"]["labels"] == {"bench/gang": "gang-7"}


@pytest.mark.parametrize("contender", [*ALL, *PEERS], ids=lambda each: each.name)
def test_every_dialect_writes_pods_that_the_harness_can_observe(contender) -> None:  # type: ignore[no-untyped-def]
    dialect: Dialect = contender.dialect
    gang = Gang("gang-7", ROLES)
    for plain in pods(gang):
        name, requests = plain["metadata"]["name"], plain["spec"]["containers"]
        pod = dialect.pod(gang, plain)
        assert (pod["metadata"]["name"], pod["metadata"]["namespace"]) == (name, NAMESPACE)
        assert pod["metadata"]["labels"]["bench/gang"] == "gang-7"
        assert pod["spec"]["schedulerName"]
        assert pod["spec"]["containers"] == requests


def test_names_of_contenders_are_unique() -> None:
    names = [each.name for each in (*ALL, *PEERS)]
    assert len(set(names)) == len(names)


def test_pods_arrive_gang_by_gang_or_interleaved() -> None:
    plain = PlainDialect(scheduler_name="any")
    after = [pod["metadata"]["name"][5:10] for _, pod in pods_in_order(workload(), plain)]
    turn = workload(arrival={"interleaved": True})
    in_turn = [pod["metadata"]["name"][5:10] for _, pod in pods_in_order(turn, plain)]
    assert after == ["00000", "00000", "00001", "00001"]
    assert in_turn == ["00000", "00001", "00000", "00001"]


def test_at_a_rate_pods_of_a_gang_arrive_together_unless_interleaved() -> None:
    assert list(due_after(workload(clock="live", arrival={"perSecond": 4}))) == [0, 0, 0.5, 0.5]
    in_turn = workload(clock="live", arrival={"perSecond": 4, "interleaved": True})
    assert list(due_after(in_turn)) == [0, 0.25, 0.5, 0.75]


def test_pods_that_end_have_a_run_time_annotation() -> None:
    found = [pod for _, pod in pods_in_order(workload(runSeconds=10), OURS)]
    assert {pod["metadata"]["annotations"]["bench/run-time"] for pod in found} == {"10s"}


def test_bare_binds_run_only_backlogs() -> None:
    assert takes_part(BARE, workload())
    assert not takes_part(BARE, workload(clock="live"))
    assert not takes_part(BARE, workload(until="answered"))
    assert takes_part(PHALANX, workload(clock="live", until="answered"))
