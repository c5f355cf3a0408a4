"""Other schedulers: manifests of their gangs, the workloads that they run, missing programs."""

from pathlib import Path

import pytest
from phalanx_controlplane import components
from phalanx_controlplane.components import KubeScheduler, Places
from phalanx_controlplane.programs import Built, Program, ProgramMissing

from bench.harness import workloads
from bench.harness.contenders import Contender
from bench.harness.gangs import Gang, Role, pods
from bench.harness.machine import this_machine
from bench.harness.run import takes_part, try_once
from bench.harness.tables import Comparison, markdown
from bench.peers import ABSENT, PEERS
from bench.peers.coscheduling.contender import COSCHEDULING, CoschedulingDialect, configuration
from bench.peers.kube_scheduler.contender import KUBE_SCHEDULER_TOPOLOGY, NativeDialect
from bench.peers.programs import FOLDER, peer
from bench.peers.volcano.contender import VOLCANO, VOLCANO_CI
from bench.peers.volcano.dialect import VolcanoDialect, hyper_nodes
from tests import fake_go
from tests.bench.builders import WORKER, workload

ROLES = (
    Role("worker", 2, {"cpu": "1500m", "memory": "1Gi"}),
    Role("chief", 1, {"cpu": "1", "memory": "2Gi"}),
)
GANG = Gang("gang-7", ROLES, level="rack", priority=10, queue="owner")
SINGLE = Gang("gang-8", (Role("only", 1, {"cpu": "1"}),))


def test_kube_scheduler_has_a_pod_group_with_the_label_of_the_level() -> None:
    [group] = NativeDialect(levels=True).group(GANG)
    assert group["spec"] == {
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "schedulingConstraints": {"topology": [{"key": "cloud.provider.com/topology-rack"}]},
        "priorityClassName": "bench-10",
    }
    [without] = NativeDialect(levels=False).group(GANG)
    assert "schedulingConstraints" not in without["spec"]
    written = [NativeDialect(levels=True).pod(GANG, pod) for pod in pods(GANG)]
    assert [pod["spec"]["schedulingGroup"] for pod in written] == [{"podGroupName": "gang-7"}] * 3


def test_coscheduling_has_a_pod_group_and_a_label() -> None:
    [group] = CoschedulingDialect().group(GANG)
    assert (group["apiVersion"], group["spec"]) == ("scheduling.x-k8s.io/v1alpha1", {"minMember": 3})
    written = [CoschedulingDialect().pod(GANG, pod) for pod in pods(GANG)]
    assert {pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] for pod in written} == {"gang-7"}


def test_volcano_has_tasks_resources_a_queue_and_a_topology_tier() -> None:
    [group] = VolcanoDialect().group(GANG)
    assert group["spec"] == {
        "minMember": 3,
        "minTaskMember": {"worker": 2, "chief": 1},
        "minResources": {"cpu": "4000m", "memory": str(4 << 30)},
        "queue": "owner",
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
        "priorityClassName": "bench-10",
    }
    written = [VolcanoDialect().pod(GANG, pod)["metadata"]["annotations"] for pod in pods(GANG)]
    assert {each["scheduling.k8s.io/group-name"] for each in written} == {"gang-7"}
    assert [each["volcano.sh/task-spec"] for each in written] == ["worker", "worker", "chief"]


def test_only_volcano_creates_a_pod_group_for_a_single_pod() -> None:
    assert NativeDialect(levels=True).group(SINGLE) == []
    assert CoschedulingDialect().group(SINGLE) == []
    assert [group["spec"]["minMember"] for group in VolcanoDialect().group(SINGLE)] == [1]
    [plain] = pods(SINGLE)
    assert "schedulingGroup" not in NativeDialect(levels=True).pod(SINGLE, plain)["spec"]


def test_hyper_nodes_form_the_topology_tree() -> None:
    racks = [("z0", "s0", "r0"), ("z0", "s0", "r1"), ("z0", "s1", "r2"), ("z0", "s1", "r2")]
    made = hyper_nodes(
        {
            "topology.kubernetes.io/zone": zone,
            "cloud.provider.com/topology-spine": spine,
            "cloud.provider.com/topology-rack": rack,
        }
        for zone, spine, rack in racks
    )
    tiers = {each["metadata"]["name"]: each["spec"]["tier"] for each in made}
    assert tiers == {"r0": 1, "r1": 1, "r2": 1, "s0": 2, "s1": 2, "z0": 3}
    members = {each["metadata"]["name"]: each["spec"]["members"] for each in made}
    assert [each["selector"]["exactMatch"]["name"] for each in members["s0"]] == ["r0", "r1"]
    assert [each["selector"]["exactMatch"]["name"] for each in members["z0"]] == ["s0", "s1"]
    [rack] = members["r2"]
    assert rack == {
        "type": "Node",
        "selector": {"labelMatch": {"matchLabels": {"cloud.provider.com/topology-rack": "r2"}}},
    }


def test_contenders_for_levels_or_queues_run_only_workloads_with_them() -> None:
    level = workload(gangs=[{"count": 1, "level": "rack", "roles": [WORKER]}])
    queue = workload(gangs=[{"count": 1, "queue": "owner", "roles": [WORKER]}])
    taken = {
        each.name: [takes_part(each, load) for load in (workload(), level, queue)]
        for each in (KUBE_SCHEDULER_TOPOLOGY, VOLCANO, VOLCANO_CI)
    }
    assert taken == {
        "kube-scheduler (gangs, topology)": [False, True, False],
        "volcano": [True, True, True],
        "volcano (topology, reclaim)": [False, True, True],
    }


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake Go program and an empty cache; the source of every module has one file, `config/a.yaml`."""
    (tmp_path / "source" / "config").mkdir(parents=True)
    (tmp_path / "source" / "config" / "a.yaml").write_text("kind: A\n---\nkind: B\n")
    return fake_go.install(tmp_path, monkeypatch, source=tmp_path / "source")


def program(*files: str) -> Program:
    source = "sigs.k8s.io/scheduler-plugins"
    return peer("coscheduling", source=source, package="example.org/scheduler", files=files)


def test_a_program_is_built_once_with_the_files_of_its_module(go: Path, tmp_path: Path) -> None:
    mine, lines = program("config/*.yaml"), []
    mine.build(lines.append)
    built = mine.built()
    assert built.program.is_file()
    assert [each["kind"] for each in built.read("config/*.yaml")] == ["A", "B"]
    assert "coscheduling v0.34.7" in lines[0]
    journal = tmp_path / "journal"
    assert "example.org/scheduler" in journal.read_text()
    journal.unlink()
    mine.build(lines.append)
    assert not journal.exists()


@pytest.mark.usefixtures("go")
def test_a_module_without_the_required_files_is_not_built() -> None:
    with pytest.raises(ProgramMissing, match=r"has not all of config/\*\.yaml, config/b\.yaml"):
        program("config/*.yaml", "config/b.yaml").build(lambda _line: None)
    with pytest.raises(ProgramMissing, match="is not built"):
        program("config/*.yaml", "config/b.yaml").built()


async def test_a_scheduler_that_cannot_be_built_is_a_row_with_the_reason(go: Path) -> None:
    go.write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    failed = await try_once(COSCHEDULING, workloads.load("smoke"), number=1, report=lambda _line: None)
    assert "could not be run: ProgramMissing: coscheduling v0.34.7: `go build` failed" in failed.trouble
    go.unlink()
    missing = await try_once(VOLCANO, workloads.load("smoke"), number=1, report=lambda _line: None)
    assert "volcano v1.14.1 is not built, and there is no Go to build it with" in missing.trouble


def test_coscheduling_uses_the_configuration_of_its_manifests_with_our_client_limits(tmp_path: Path) -> None:
    path = tmp_path / "manifests" / "coscheduling" / "scheduler-config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(
        "clientConnection: {kubeconfig: REPLACE_ME}\nprofiles: [{schedulerName: default-scheduler}]\n"
    )
    made = configuration(Built(program=tmp_path, files=tmp_path), kubeconfig=Path("/some/kubeconfig"))
    assert made["profiles"] == [{"schedulerName": "default-scheduler"}]
    assert made["clientConnection"] == {"kubeconfig": "/some/kubeconfig", "qps": 5000, "burst": 5000}


def test_no_lock_file_names_the_host_of_a_registry() -> None:
    files = sorted(FOLDER.glob("*/go.*"))
    assert {path.name for path in files} == {"go.mod", "go.sum"}
    hosts = ("http://", "https://", "proxy.golang.org", "sum.golang.org")
    assert [path for path in files if any(host in path.read_text() for host in hosts)] == []


@pytest.mark.parametrize("peer", PEERS, ids=lambda each: each.name)
def test_every_peer_documents_its_deviations(peer: Contender) -> None:
    assert "client limits" in peer.deviation


def test_schedulers_that_cannot_be_compared_are_listed_with_the_reason() -> None:
    machine = this_machine({"volcano": "v1.14.1"})
    text = markdown(Comparison(machine=machine, deviations={}, workloads={}, runs=[], absent=ABSENT))
    assert "volcano v1.14.1" in text
    assert [name for name, reason in ABSENT.items() if f"- {name}: {reason}" not in text] == []


@pytest.mark.parametrize(
    ("gates", "expected"), [((), []), (("A=true", "B=true"), ["--feature-gates=A=true,B=true"])]
)
def test_kube_scheduler_is_started_with_its_feature_gates(
    gates: tuple[str, ...], expected: list[str], tmp_path: Path
) -> None:
    places = Places(
        run=tmp_path,
        etcd_port=1,
        etcd_peer_port=2,
        apiserver_port=3,
        controller_manager_port=4,
        scheduler_port=5,
        kwok_port=6,
    )
    flags = components.scheduler(places, settings=KubeScheduler(feature_gates=gates))
    assert [flag for flag in flags if "gates" in flag] == expected
