"""Histories: what is read from each format, and what is refused, with file, line and column."""

from pathlib import Path

import pytest
from phalanx_simulator.lab.engine.cluster import Pool
from phalanx_simulator.lab.engine.jobs import RecordedJob
from phalanx_simulator.lab.history.history import HistoryError, QueueNames
from phalanx_simulator.lab.history.pod_runs import PodRun, jobs_of
from phalanx_simulator.lab.history.sources import read_history
from phalanx_simulator.lab.history.spec import Format, HistorySpec

PHILLY = "timestamp,duration,num_gpus,cluster\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time\n"
)
NODES = "sn,cpu_milli,memory_mib,gpu,model\n"
SACCT = "JobIDRaw|Account|Submit|ElapsedRaw|NNodes|AllocTRES|ReqTRES|TimelimitRaw|State\n"


def read(
    file_format: Format, path: Path, text: str, *, nodes: str | None = None, queue_column: str = "Account"
) -> tuple[tuple[RecordedJob, ...], tuple[Pool, ...], tuple[str, ...]]:
    file = path / "history"
    file.write_text(text)
    nodes_file = None
    if nodes is not None:
        nodes_file = str(path / "nodes")
        Path(nodes_file).write_text(nodes)
    spec = HistorySpec(str(file), file_format, nodes_file=nodes_file, queue_column=queue_column)
    found = read_history(spec)
    return found.jobs, found.pools, found.notes


def test_a_row_of_philly_is_a_job_of_equal_pods_with_cpu_and_memory_for_its_gpus(tmp_path: Path) -> None:
    rows = "2017-10-09 08:00:00,60,12,b\n2017-10-09 07:00:00,1.5,1,a\n"
    jobs, pools, notes = read(Format.PHILLY, tmp_path, PHILLY + rows)
    assert jobs == (
        RecordedJob("job-3", "a", 0, 1500, 1, 1, cpu_milli=4000, memory_mib=32768),
        RecordedJob("job-2", "b", 3_600_000, 60_000, 2, 6, cpu_milli=24_000, memory_mib=196_608),
    )
    assert (pools, notes) == ((), ())


def test_a_row_of_alibaba_is_a_pod_that_ran_from_its_scheduling_to_its_deletion(tmp_path: Path) -> None:
    rows = (
        "p0,12000,16384,1,460,,LS,Running,100,900,150\n"
        "p1,8000,4096,8,1000,V100M16|V100M32,BE,Running,40,50,45\n"
        "p2,8000,4096,1,1000,,BE,Pending,40,50,\n"
        "p3,500,4096,0,0,,Burstable,Failed,60,80,60\n"
    )
    nodes = "n0,64000,262144,2,P100\nn1,96000,393216,8,V100M32\nn2,64000,262144,2,P100\n"
    jobs, pools, notes = read(Format.ALIBABA, tmp_path, PODS + rows, nodes=NODES + nodes)
    assert jobs == (
        RecordedJob("job-3", "be", 0, 5000, 1, 8, 8000, 4096, models=("V100M16", "V100M32")),
        RecordedJob("job-5", "burstable", 20_000, 20_000, 1, 0, 500, 4096),
        RecordedJob("job-2", "ls", 60_000, 750_000, 1, 1, 12_000, 16_384),
    )
    assert pools == (
        Pool("p1-", 1, 8, 96_000, 393_216, "V100M32"),
        Pool("p2-", 2, 2, 64_000, 262_144, "P100"),
    )
    assert notes == (
        "1 job left out: they were not scheduled, or ended at once",
        "1 job with a part of a GPU, which counts as a whole one",
    )


def test_a_row_of_sacct_is_a_job_of_a_pod_per_node(tmp_path: Path) -> None:
    rows = (
        "7|Team_A|2026-01-05T08:00:00|7200|2|cpu=64,mem=1T,node=2,gres/gpu=16,gres/gpu:a100=16||240|TIMEOUT\n"
        "7.batch||2026-01-05T08:00:00|7200|1|cpu=32,mem=512G,node=1|||TIMEOUT\n"
        "8|team-a|2026-01-05T07:00:00|60|1|cpu=4,gres/gpu:h100=2||UNLIMITED|FAILED\n"
        "9|team-a|2026-01-05T09:00:00|0|1|||60|CANCELLED by 1000\n"
    )
    jobs, _, notes = read(Format.SACCT, tmp_path, SACCT + rows)
    assert jobs == (
        RecordedJob("job-4", "team-a-2", 0, 60_000, 1, 2, cpu_milli=4000, memory_mib=65_536),
        RecordedJob("job-2", "team-a", 3_600_000, 7_200_000, 2, 8, 32_000, 524_288, limit_s=14_400),
    )
    assert notes == ("1 job left out: they did not run, or have no allocation",)


def test_gpus_that_nodes_cannot_share_equally_are_rounded_up(tmp_path: Path) -> None:
    row = "7|a|1767600000|7200|2|cpu=3,node=2,gres/gpu=3||240|COMPLETED\n"
    jobs, _, notes = read(Format.SACCT, tmp_path, SACCT + row)
    assert [(job.pods, job.gpus, job.cpu_milli) for job in jobs] == [(2, 2, 1500)]
    assert notes == ("1 job with GPUs that cannot be divided equally between the nodes: rounded up on each",)


def test_another_column_can_name_the_queue(tmp_path: Path) -> None:
    text = "Submit|ElapsedRaw|NNodes|AllocTRES|Partition\n1767600000|60|1|gres/gpu=1|big\n"
    jobs, _, _ = read(Format.SACCT, tmp_path, text, queue_column="Partition")
    assert [job.tenant for job in jobs] == ["big"]


@pytest.mark.parametrize(
    ("file_format", "text", "place"),
    [
        (Format.PHILLY, "a,b\n1,2\n", "line 1, timestamp, duration, num_gpus, cluster: there is no such"),
        (Format.PHILLY, PHILLY + "2017-10-09 08:00:00,-60,1,b\n", "line 2, duration: '-60'"),
        (Format.ALIBABA, "a,b\n1,2\n", "line 1: expected the columns name, cpu_milli, "),
        (
            Format.ALIBABA,
            PODS + "p,1,1,1,1,,LS,R,-5,9,1\n",
            "line 2, creation_time: expected a number of sec",
        ),
        (
            Format.ALIBABA,
            PODS + "p,1,1,1,1,,LS,R,5,9,1\n",
            "line 2, scheduled_time: expected creation_time, 5",
        ),
        (
            Format.ALIBABA,
            PODS + "p,1,1,1,1,,LS,R,5,6,9\n",
            "line 2, deletion_time: expected scheduled_time, 9",
        ),
        (Format.ALIBABA, PODS + "p,1,1,-1,1,,LS,R,5,9,6\n", "line 2, num_gpu: expected a whole number, 0 or"),
        (Format.ALIBABA, PODS + "p,1,1\n", "line 2: expected 11 values separated by ',', found another"),
        (Format.ALIBABA, PODS, "expected a pod that was scheduled and ran, found none"),
        (Format.SACCT, "JobID|Submit\n1|2\n", "there is no ElapsedRaw, NNodes, AllocTRES, Account"),
        (Format.SACCT, "7 2026\n", "line 1: expected the columns Submit, ElapsedRaw, NNodes, AllocTRES, Acc"),
        (Format.SACCT, SACCT + "7|a|Unknown|9|1|cpu=1||60|R\n", "line 2, Submit: expected a time such as"),
        (Format.SACCT, SACCT + "7|a|2026-01-05|-9|1|cpu=1||60|R\n", "line 2, ElapsedRaw: expected a whole"),
        (
            Format.SACCT,
            SACCT + "7|a|2026-01-05|9|0|cpu=1||60|R\n",
            "line 2, NNodes: expected a whole number, 1",
        ),
        (
            Format.SACCT,
            SACCT + "7|a|2026-01-05|9|1|cpu||60|R\n",
            "line 2, AllocTRES: expected NAME=AMOUNT,...",
        ),
        (Format.SACCT, SACCT, "expected a job that ran, found none"),
    ],
)
def test_a_bad_file_is_refused_with_its_place(
    tmp_path: Path, file_format: Format, text: str, place: str
) -> None:
    with pytest.raises(HistoryError) as caught:
        read(file_format, tmp_path, text)
    assert str(tmp_path / "history") in str(caught.value)
    assert place in str(caught.value)


@pytest.mark.parametrize("file_format", [each for each in Format if each is not Format.PROMETHEUS])
def test_a_history_that_is_not_there_is_refused(tmp_path: Path, file_format: Format) -> None:
    with pytest.raises(HistoryError, match="nowhere: cannot be read: No such file"):
        read_history(HistorySpec(str(tmp_path / "nowhere"), file_format))


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "history").write_bytes(bytes(range(256)))
    with pytest.raises(HistoryError, match="expected a text file in UTF-8"):
        read_history(HistorySpec(str(tmp_path / "history"), Format.SACCT))


def test_different_tenants_have_different_queues_whose_names_are_labels() -> None:
    names = QueueNames()
    found = [names.name_of(each) for each in ("Team A", "team-a", "team a", "_", "", "x" * 80, "x" * 81)]
    assert found == ["team-a", "team-a-2", "team-a-3", "none", "none-2", "x" * 63, "x" * 61 + "-2"]
    assert names.name_of("team-a") == "team-a-2"


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(HistoryError, match="expected an address that starts with http:// or https://"):
        read_history(HistorySpec("file:///etc/passwd", Format.PROMETHEUS))


@pytest.mark.parametrize(
    ("since", "until", "why"),
    [
        ("yesterday", None, "since: expected a time such as"),
        ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z", "since, until: expected since before until"),
        ("1970-01-01", "2026-01-01", "at most ten years"),
    ],
)
def test_a_time_that_cannot_be_read_from_prometheus_is_refused(
    since: str, until: str | None, why: str
) -> None:
    with pytest.raises(HistoryError, match=why):
        read_history(HistorySpec("http://127.0.0.1:1", Format.PROMETHEUS, since=since, until=until))


def test_a_server_that_does_not_answer_is_named() -> None:
    with pytest.raises(HistoryError, match=r"http://127.0.0.1:1: cannot be read: .*refused"):
        read_history(HistorySpec("http://127.0.0.1:1", Format.PROMETHEUS))


def test_a_time_without_prometheus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="since, until: expected with the format prometheus"):
        read_history(HistorySpec(str(tmp_path), Format.SNAPSHOTS, since="2026-01-01"))


def run_of(gang: str, started: int, ended: int, *, gpus: int = 1) -> PodRun:
    return PodRun(gang, "q", 0, 1000 * started, 1000 * ended, gpus, 100, 200)


@pytest.mark.parametrize(
    ("runs", "jobs"),
    [
        ([(0, 10), (1, 9), (2, 5)], [(3, 10)]),
        ([(0, 10), (10, 20)], [(1, 20)]),
        ([(0, 10), (11, 20)], [(1, 10), (1, 9)]),
        ([(11, 20), (0, 10), (12, 15)], [(1, 10), (2, 9)]),
        ([(0, 0)], [(1, 0.001)]),
    ],
)
def test_pods_of_a_gang_are_divided_at_times_at_which_none_ran(
    runs: list[tuple[int, int]], jobs: list[tuple[int, float]]
) -> None:
    found = jobs_of([run_of("g", *times) for times in runs])
    assert [(job.pods, job.run_ms / 1000) for job in found] == jobs


def test_gangs_do_not_mix() -> None:
    found = jobs_of([run_of("a", 0, 10), run_of("b", 0, 10, gpus=4), run_of("a", 0, 10, gpus=2)])
    assert [(job.name, job.pods, job.gpus) for job in found] == [("job-1", 2, 2), ("job-2", 1, 4)]
