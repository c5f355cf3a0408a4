"""The work of a campaign: traces read or refused with place and field, drawn jobs, manifests that run."""

import asyncio
from pathlib import Path

import pytest
from phalanx.clock import seeded_random
from phalanx.model.names import LABEL_POD_GROUP, LABEL_QUEUE
from phalanx_simulator.campaigns.jobs import (
    TraceError,
    TraceJob,
    fitted,
    manifests,
    queues,
    read_trace,
    synthetic_jobs,
)
from phalanx_simulator.campaigns.philly import JOBS_BY_GPUS, burst_size, duration_s, fails
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.cluster import Controllers
from phalanx_simulator.embedded.manifests import node, tree_of_nodes
from phalanx_simulator.embedded.store import Key
from phalanx_simulator.hosts.event_loop import VirtualLoop
from phalanx_simulator.hosts.host import WorldClock

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster\n"
GOOD = HEADER + (
    "2017-10-09 07:01:55,66.0,1,66.0,11cb48\n"
    "2017-10-09 06:01:55,120,12,1440,team-a\n"
    "2017-10-09T07:02:55Z,3.5,8,28,team-a\n"
)
NODES = tree_of_nodes({"rack": 8, "kubernetes.io/hostname": 8})


def written(path: Path, text: str) -> Path:
    file = path / "jobs.csv"
    file.write_text(text)
    return file


def test_a_trace_is_read_in_order_of_time(tmp_path: Path) -> None:
    assert read_trace(written(tmp_path, GOOD)) == (
        TraceJob("job-3", 0.0, "team-a", pods=2, gpus_per_pod=6, run_s=120.0),
        TraceJob("job-2", 3600.0, "11cb48", pods=1, gpus_per_pod=1, run_s=66.0),
        TraceJob("job-4", 3660.0, "team-a", pods=1, gpus_per_pod=8, run_s=3.5),
    )


def test_pods_may_be_smaller(tmp_path: Path) -> None:
    jobs = read_trace(written(tmp_path, GOOD), gpus_per_pod=1)
    assert [(job.pods, job.gpus_per_pod) for job in jobs] == [(12, 1), (1, 1), (8, 1)]


@pytest.mark.parametrize(
    ("text", "place", "field"),
    [
        ("", "line 1", "timestamp, duration, num_gpus, cluster: there is no such column"),
        (HEADER, "line 2", "the first job: there is none"),
        ("timestamp,duration,cluster\n", "line 1", "num_gpus: there is no such column"),
        (HEADER + "yesterday,1,1,1,a\n", "line 2", "timestamp: 'yesterday' is not a time"),
        (HEADER + "2017-10-09 07:01:55,1,1,1,a\n2017-10-09 07:01:55,-1,1,1,a\n", "line 3", "duration: '-1'"),
        (HEADER + "2017-10-09 07:01:55,nan,1,1,a\n", "line 2", "duration: 'nan'"),
        (HEADER + "2017-10-09 07:01:55,inf,1,1,a\n", "line 2", "duration: 'inf'"),
        (HEADER + "2017-10-09 07:01:55,1,0,1,a\n", "line 2", "num_gpus: '0'"),
        (HEADER + "2017-10-09 07:01:55,1,1.5,1,a\n", "line 2", "num_gpus: '1.5'"),
        (HEADER + "2017-10-09 07:01:55,1,٣,1,a\n", "line 2", "num_gpus: '٣'"),
        (HEADER + "2017-10-09 07:01:55,1,1,1,Team A\n", "line 2", "cluster: 'Team A' cannot be the name"),
        (HEADER + "2017-10-09 07:01:55,1,1\n", "line 2", "cluster: is empty"),
    ],
)
def test_a_bad_trace_is_refused_with_file_line_and_field(
    tmp_path: Path, text: str, place: str, field: str
) -> None:
    file = written(tmp_path, text)
    with pytest.raises(TraceError) as caught:
        read_trace(file)
    assert str(caught.value).startswith(f"{file}, {place}, {field}")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_bytes(bytes(range(256)))
    with pytest.raises(TraceError, match="is no CSV in UTF-8"):
        read_trace(file)


def test_drawn_jobs_want_what_the_load_says() -> None:
    for hours, load in ((2, 0.5), (48, 0.9), (48, 2.0)):
        jobs = synthetic_jobs(random=seeded_random(1), hours=hours, nodes=NODES, load=load)
        wanted = sum(job.gpu_seconds for job in jobs) / (512 * hours * 3600)
        largest = max(job.gpu_seconds for job in jobs) / (512 * hours * 3600)
        assert load <= wanted <= load + largest
        times = [job.submit_s for job in jobs]
        assert times == sorted(times)
        assert 0 <= times[0] <= times[-1] < hours * 3600
        assert max(job.run_s for job in jobs) <= hours * 3600
        assert len({job.name for job in jobs}) == len(jobs)


def test_there_are_no_jobs_without_load_time_or_gpus() -> None:
    for hours, load, gpus in ((0, 1, 8), (1, 0, 8), (1, 1, 0)):
        nodes = [node("a", gpus=gpus)]
        assert synthetic_jobs(random=seeded_random(1), hours=hours, nodes=nodes, load=load) == ()


def test_no_job_is_larger_than_the_cluster() -> None:
    jobs = synthetic_jobs(random=seeded_random(1), hours=240, nodes=[node("a", gpus=4)], load=5)
    assert {job.pods * job.gpus_per_pod for job in jobs} <= {1, 2, 4}


def test_drawn_jobs_have_the_statistics_of_the_trace() -> None:
    jobs = synthetic_jobs(random=seeded_random(2), hours=24 * 40, nodes=NODES, load=1)
    assert len(jobs) > 15_000
    total = sum(JOBS_BY_GPUS.values())
    for gpus in (1, 2, 4, 8):
        share = sum(job.pods * job.gpus_per_pod == gpus for job in jobs) / len(jobs)
        assert share == pytest.approx(JOBS_BY_GPUS[gpus] / total, rel=0.25), gpus
    badly = [job for job in jobs if job.exit_code]
    assert len(badly) / len(jobs) == pytest.approx(0.434, abs=0.04)
    assert sum(job.run_s <= 600 for job in badly) / len(badly) == pytest.approx(0.73, abs=0.05)
    times = sorted((job.gpu_seconds for job in jobs), reverse=True)
    assert sum(times[: len(times) // 100]) / sum(times) > 0.4


def test_durations_and_bursts_have_their_quantiles() -> None:
    random = seeded_random(3)
    times = sorted(duration_s(1, random) for _ in range(20_000))
    assert times[10_000] == pytest.approx(1117, rel=0.1)
    assert times[18_000] == pytest.approx(8512, rel=0.15)
    assert times[19_800] == pytest.approx(135_404, rel=0.4)
    assert sorted(duration_s(64, random) for _ in range(20_000))[10_000] > 10_000
    bursts = [burst_size(random) for _ in range(20_000)]
    assert sum(size == 1 for size in bursts) / len(bursts) > 0.7
    assert sum(size for size in bursts if size > 100) / sum(bursts) > 0.25
    early = sum(fails(60, random) for _ in range(10_000))
    assert early > 2 * sum(fails(6_000, random) for _ in range(10_000))


def test_a_trace_is_fitted_to_hours_and_load() -> None:
    trace = [TraceJob(f"job-{n}", n * 100.0, "q", 1 + n % 2, 8, 1800.0) for n in range(1000)]
    jobs = fitted(
        [*trace, TraceJob("huge", 1e6, "q", 999, 8, 1.0)],
        random=seeded_random(8),
        hours=2,
        nodes=NODES,
        load=0.5,
    )
    assert 0 < len(jobs) < 600
    assert jobs[0].submit_s == 0
    assert jobs[-1].submit_s < 7200
    assert sum(job.gpu_seconds for job in jobs) / (512 * 7200) == pytest.approx(0.5, abs=0.02)
    names = [job.name for job in jobs]
    assert names == [job.name for job in trace if job.name in set(names)]
    other = fitted(trace, random=seeded_random(9), hours=2, nodes=NODES, load=0.5)
    assert other[0].name != jobs[0].name
    assert fitted([], random=seeded_random(8), hours=2, nodes=NODES, load=0.5) == ()


def test_what_is_too_large_or_too_long_for_the_cluster_is_cut() -> None:
    trace = [TraceJob("huge", 0.0, "q", 65, 8, 60.0), TraceJob("long", 1.0, "q", 1, 1, 1e6)] * 50
    jobs = fitted(trace, random=seeded_random(1), hours=1, nodes=NODES, load=0.01)
    assert {(job.name, job.run_s) for job in jobs} == {("long", 3600.0)}


def test_a_gang_has_a_group_and_a_single_pod_a_queue() -> None:
    group, job = manifests(TraceJob("j", 0, "red", 4, 8, 60.0))
    assert group["spec"] == {"minMember": 4, "queue": "red"}
    template = job["spec"]["template"]
    assert template["metadata"]["labels"] == {LABEL_POD_GROUP: "j"}
    assert template["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] == "8"
    (alone,) = manifests(TraceJob("k", 0, "red", 1, 2, 60.0), namespace="team")
    assert alone["metadata"]["namespace"] == "team"
    assert alone["spec"]["template"]["metadata"]["labels"] == {LABEL_QUEUE: "red"}


def test_each_queue_is_made_once() -> None:
    jobs = [TraceJob(f"j{n}", 0, name, 1, 1, 1.0) for n, name in enumerate(("b", "a", "b"))]
    assert [one["metadata"]["name"] for one in queues(jobs)] == ["a", "b"]


@pytest.mark.parametrize(
    ("exit_code", "condition"), [(0, "Complete"), (3, "Failed")], ids=["succeeds", "fails"]
)
def test_a_job_ends_as_it_says(exit_code: int, condition: str) -> None:
    loop = VirtualLoop(seeded_random(1))

    async def story() -> None:
        server = ApiServer(clock=WorldClock(loop))
        client = Client(server)
        Controllers(server)
        client.create("nodes", "", node("a"))
        group, job = manifests(TraceJob("j", 0, "red", 2, 4, 60.0, exit_code))
        client.create("podgroups.scheduling.phalanx.dev", "default", group)
        client.create("jobs.batch", "default", job)
        await asyncio.sleep(1)
        for key in client.keys("pods"):
            pod = client.get(key) or {}
            client.bind(key, uid=pod["metadata"]["uid"], node="a")
        await asyncio.sleep(40)
        assert "conditions" not in (client.get(Key("jobs.batch", "default", "j")) or {})["status"]
        await asyncio.sleep(60)
        status = (client.get(Key("jobs.batch", "default", "j")) or {})["status"]
        assert condition in {one["type"] for one in status["conditions"]}

    try:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(story())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
