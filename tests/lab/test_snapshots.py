"""Histories from files of `phalanx snapshot`: when gangs ran, and the cluster of the last file."""

from pathlib import Path

import msgspec
import pytest
from phalanx.framework.config import SchedulerConfig
from phalanx.model.api.pod_groups import PodGroupSpec, Runtime
from phalanx.model.decisions import CycleResult
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.names import GangId, NodeName, PodUid, QueueName, ShapeKey
from phalanx.model.nodes import Node, NodeState
from phalanx.model.pods import Pod, PodPhase, PodShape
from phalanx.model.queues import Queue
from phalanx.model.snapshot import Snapshot
from phalanx.observe.recording import Recording, encode
from phalanx_simulator.lab.engine.cluster import Pool
from phalanx_simulator.lab.engine.jobs import RecordedJob
from phalanx_simulator.lab.history.history import HistoryError, RecordedQueue
from phalanx_simulator.lab.history.snapshots import read_snapshots

MINUTE_S = 60
GIB = 1 << 30


def pod(name: str, *, gpus: int = 8, at: int | None = None, **fields: object) -> Pod:
    """`at`: the minute since which it runs; None while it waits."""
    requests = {"cpu": 4000, "memory": 32 * GIB, "pods": 1, **({"nvidia.com/gpu": gpus} if gpus else {})}
    whole = Pod(PodUid(name), "team", name, PodShape(ShapeKey(str(gpus)), requests), "phalanx", created=0)
    if at is not None:
        running = {"node": NodeName("a"), "phase": PodPhase.RUNNING, "running_since": at * MINUTE_S}
        whole = msgspec.structs.replace(whole, **running)
    return msgspec.structs.replace(whole, **fields)


def gang(name: str, *members: Pod, created: int = 0, limit: str | None = None) -> Gang:
    """`created`: its minute."""
    spec = PodGroupSpec(min_member=len(members), runtime=Runtime(max=limit) if limit else None)
    return Gang(
        *(GangId(name), GangKind.POD_GROUP, "team", name, QueueName("red"), len(members)),
        priority=5,
        created=created * MINUTE_S,
        members=members,
        spec=spec,
    )


def taken(folder: Path, minute: int, *gangs: Gang, nodes: int = 2) -> None:
    """A file as `phalanx snapshot` writes it at this minute."""
    offered = {"cpu": 64_000, "memory": 512 * GIB, "nvidia.com/gpu": 8}
    labels = {"cloud.provider.com/topology-rack": "r1", "nvidia.com/gpu.product": "H100"}
    names = [NodeName(f"n{index}") for index in range(nodes)]
    cordoned = Node(NodeName("c"), "c", labels, allocatable=offered, unschedulable=True)
    whole = [Node(name, name, labels, allocatable=offered) for name in names]
    snapshot = Snapshot(
        now=minute * MINUTE_S * 1000,
        seed=0,
        nodes={node.name: NodeState(node) for node in (*whole, cordoned)},
        gangs={each.id: each for each in gangs},
        queues={
            QueueName("all"): Queue(QueueName("all")),
            QueueName("red"): Queue(
                QueueName("red"), QueueName("all"), weight=3, guarantee={"nvidia.com/gpu": 8}
            ),
        },
    )
    config = msgspec.Raw(msgspec.json.encode(SchedulerConfig()))
    recording = Recording("0", config, snapshot, CycleResult(cycle=1))
    (folder / f"{99 - minute:02}.json.gz").write_bytes(encode(recording))  # names say nothing of the order


def jobs_of(folder: Path) -> dict[int, RecordedJob]:
    """By the minute of the submission."""
    return {job.submit_ms // 60_000: job for job in read_snapshots(folder).jobs}


def test_a_gang_runs_from_its_start_until_it_is_gone(tmp_path: Path) -> None:
    taken(tmp_path, 5, gang("a", pod("a1"), pod("a2")))
    taken(tmp_path, 10, gang("a", pod("a1", at=6), pod("a2", at=7)))
    taken(tmp_path, 20, gang("a", pod("a1", at=6), pod("a2", at=7)), gang("b", pod("b1"), created=19))
    taken(tmp_path, 30, gang("b", pod("b1", at=21), created=19), nodes=3)
    assert jobs_of(tmp_path) == {
        0: RecordedJob("job-1", "red", 0, (25 - 6) * 60_000, 2, 8, 4000, 32 << 10, priority=5),
        19: RecordedJob("job-2", "red", 19 * 60_000, 9 * 60_000, 1, 8, 4000, 32 << 10, priority=5),
    }
    found = read_snapshots(tmp_path)
    assert found.pools == (Pool("p1-", 3, 8, 64_000, 512 << 10, "H100", 1),), "without the cordoned node"
    assert found.queues == {"red": RecordedQueue(8, 3)}, "only queues that take work"
    assert found.notes == (
        "1 job that still ran at the last snapshot: assumed to end then, or at their maximum run time",
    )


def test_the_end_that_pods_report_counts(tmp_path: Path) -> None:
    ended = pod("a1", at=1, phase=PodPhase.SUCCEEDED, ran=(60, 240))
    taken(tmp_path, 2, gang("a", pod("a1", at=1)))
    taken(tmp_path, 9, gang("a", ended))
    taken(tmp_path, 12)
    assert [job.run_ms for job in read_snapshots(tmp_path).jobs] == [180_000]


def test_a_gang_that_still_runs_ends_at_its_maximum_run_time(tmp_path: Path) -> None:
    taken(tmp_path, 2, gang("a", pod("a1", at=1), limit="1h"))
    taken(tmp_path, 9, gang("a", pod("a1", at=1), limit="1h"))
    (job,) = read_snapshots(tmp_path).jobs
    assert (job.run_ms, job.limit_s) == (3_600_000, 3600)


def test_members_without_gpus_are_left_out_of_gangs_that_have_others(tmp_path: Path) -> None:
    mixed = gang("a", pod("launcher", gpus=0, at=1), pod("w1", gpus=4, at=1), pod("w2", gpus=4, at=1))
    taken(tmp_path, 2, mixed, gang("b", pod("cpu", gpus=0, at=1)))
    taken(tmp_path, 9)
    assert sorted((job.pods, job.gpus) for job in read_snapshots(tmp_path).jobs) == [(1, 0), (2, 4)]


def test_gangs_that_no_file_shows_run_are_left_out_and_counted(tmp_path: Path) -> None:
    taken(tmp_path, 2, gang("a", pod("a1", at=1)), gang("b", pod("b1")))
    taken(tmp_path, 9)
    assert read_snapshots(tmp_path).notes == ("1 job left out: no snapshot shows them run",)


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="expected at least two files of `phalanx snapshot`, found 0"):
        read_snapshots(tmp_path)
    (tmp_path / "notes.txt").write_text("no snapshot")
    with pytest.raises(HistoryError, match=r"notes.txt: expected a file written by `phalanx snapshot`"):
        read_snapshots(tmp_path)
