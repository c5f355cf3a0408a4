"""`phalanx lab` reads a history from a real Prometheus, whose data are metrics of kube-state-metrics.

The data are written by promtool as if Prometheus had scraped them every 30 seconds.
"""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from phalanx_simulator.lab.engine.cluster import Pool
from phalanx_simulator.lab.engine.jobs import RecordedJob
from phalanx_simulator.lab.history.history import History, HistoryError
from phalanx_simulator.lab.history.sources import read_history
from phalanx_simulator.lab.history.spec import Format, HistorySpec

from tests.monitoring.programs import PROMETHEUS, PROMTOOL, run

pytestmark = pytest.mark.monitoring

START = 1_767_571_200
"""2026-01-05T00:00:00Z."""

PERIOD_S = 30
HOUR_S = 3600
END = START + 24 * HOUR_S
WINDOW = {"since": "2026-01-05T00:00:00Z", "until": "2026-01-06T00:00:00Z"}


class Metrics:
    """Samples of metrics, every 30 seconds from one time to another, both in seconds after START."""

    def __init__(self) -> None:
        self._samples: dict[str, list[str]] = {}

    def add(self, metric: str, labels: str, value: float, first: int, last: int) -> None:
        lines = self._samples.setdefault(metric, [])
        for at in range(START + first, START + last, PERIOD_S):
            lines.append(f"{metric}{{{labels}}} {value} {at}")

    def add_pod(
        self,
        name: str,
        namespace: str = "team-a",
        *,
        times: tuple[int, int | None, int | None, int],
        gpus: int = 8,
        owner: str = "Job/train",
        labels: str = "",
    ) -> None:
        """A pod that was created, started and completed, and whose last sample is before the last time."""
        created, started, ended, last = times
        pod = f'namespace="{namespace}",pod="{name}",uid="uid-{name}"'
        kind, _, controller = owner.partition("/")
        about = f'{pod},created_by_kind="{kind}",created_by_name="{controller}"'
        self.add("kube_pod_created", pod, START + created, created, last)
        self.add("kube_pod_info", about, 1, created, last)
        if labels:
            self.add("kube_pod_labels", f"{pod},{labels}", 1, created, last)
        if started is not None:
            self.add("kube_pod_start_time", pod, START + started, started, last)
        if ended is not None:
            self.add("kube_pod_completion_time", pod, START + ended, ended, last)
        for container, resource, amount in (
            ("main", "nvidia_com_gpu", gpus),
            ("main", "cpu", 7.5),
            ("main", "memory", 2**30),
            ("sidecar", "cpu", 0.5),
        ):
            requested = f'{pod},container="{container}",resource="{resource}",node="n0"'
            if amount:
                self.add("kube_pod_container_resource_requests", requested, amount, created, last)

    def write(self, file: Path) -> None:
        parts = [
            "\n".join([f"# TYPE {metric} gauge", *lines]) for metric, lines in sorted(self._samples.items())
        ]
        file.write_text("\n".join([*parts, "# EOF", ""]))


@contextmanager
def server_with(metrics: Metrics, folder: Path) -> Iterator[str]:
    """The address of a Prometheus that has these samples."""
    metrics.write(folder / "samples")
    data = folder / "data"
    blocks = ("tsdb", "create-blocks-from", "openmetrics", str(folder / "samples"), str(data))
    assert run(PROMTOOL, *blocks).returncode == 0
    (folder / "prometheus.yaml").write_text("{}")
    command = [
        str(PROMETHEUS.built().program),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=100y",
        "--web.listen-address=127.0.0.1:0",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            yield f"http://{_ready(server.stderr)}"
        finally:
            server.terminate()


def _ready(log: Iterator[str]) -> str:
    """The address on which it listens, when it is ready for queries."""
    address, is_ready = "", False
    for line in log:
        if found := re.search(r'msg="Listening on".* address=(\S+)', line):
            address = found[1]
        is_ready = is_ready or "Server is ready to receive web requests" in line
        if is_ready and address:
            return address
    raise AssertionError("Prometheus ended")


def history_of(metrics: Metrics, folder: Path) -> History:
    with server_with(metrics, folder) as address:
        return read_history(HistorySpec(address, Format.PROMETHEUS, **WINDOW))


def test_pods_of_a_controller_that_run_at_the_same_time_are_a_job(tmp_path: Path) -> None:
    metrics = Metrics()
    for number in range(2):
        metrics.add_pod(f"train-{number}", times=(600, 900, 900 + 2 * HOUR_S, 4 * HOUR_S))
    # a later run of the same Job, one pod of which is evicted and replaced; it has no completion time
    metrics.add_pod("again-0", times=(5 * HOUR_S, 5 * HOUR_S + 60, 8 * HOUR_S, 9 * HOUR_S))
    metrics.add_pod("again-1", times=(5 * HOUR_S, 5 * HOUR_S + 60, None, 6 * HOUR_S))
    metrics.add_pod("again-2", times=(6 * HOUR_S, 6 * HOUR_S + 60, 7 * HOUR_S, 9 * HOUR_S))
    found = history_of(metrics, tmp_path)
    size = {"gpus": 8, "cpu_milli": 8000, "memory_mib": 1024}
    assert found.jobs == (
        RecordedJob("job-1", "team-a", 0, 2 * HOUR_S * 1000, 2, **size),
        RecordedJob("job-2", "team-a", (5 * HOUR_S - 600) * 1000, (3 * HOUR_S - 60) * 1000, 2, **size),
    )
    assert found.notes == ()


def test_labels_name_the_gang_and_its_queue_if_they_are_exported(tmp_path: Path) -> None:
    metrics = Metrics()
    labels = 'label_scheduling_phalanx_dev_pod_group="g",label_scheduling_phalanx_dev_queue="research"'
    for number in range(3):
        times = (0, 60, 3660, 2 * HOUR_S)
        metrics.add_pod(f"p-{number}", times=times, gpus=1, owner=f"Job/{number}", labels=labels)
    assert [(job.tenant, job.pods, job.gpus) for job in history_of(metrics, tmp_path).jobs] == [
        ("research", 3, 1)
    ]


def test_other_pods_are_left_out_and_what_still_runs_ends_with_the_history(tmp_path: Path) -> None:
    metrics = Metrics()
    metrics.add_pod("web-0", times=(0, 0, None, 24 * HOUR_S), gpus=0, owner="ReplicaSet/web")
    metrics.add_pod("waits-0", times=(0, None, None, 24 * HOUR_S), owner="Job/waits")
    metrics.add_pod("lone", times=(23 * HOUR_S, 23 * HOUR_S, None, 24 * HOUR_S), owner="<none>/<none>")
    found = history_of(metrics, tmp_path)
    (job,) = found.jobs
    assert (job.pods, job.tenant) == (1, "team-a")
    assert HOUR_S * 1000 - 60_000 <= job.run_ms <= HOUR_S * 1000
    assert found.notes == ("1 job whose pods still ran at the end: assumed to end then",)


def test_nodes_with_gpus_are_pools(tmp_path: Path) -> None:
    metrics = Metrics()
    metrics.add_pod("p", times=(0, 60, 3660, 2 * HOUR_S))
    for node, gpus, model in (("n0", 8, "H100"), ("n1", 8, "H100"), ("n2", 4, ""), ("n3", 0, "")):
        for resource, amount in (("nvidia_com_gpu", gpus), ("cpu", 64), ("memory", 2**39)):
            offered = f'node="{node}",resource="{resource}",unit="x"'
            metrics.add("kube_node_status_allocatable", offered, amount, 0, 24 * HOUR_S)
        if model:
            product = f'node="{node}",label_nvidia_com_gpu_product="{model}"'
            metrics.add("kube_node_labels", product, 1, 0, 24 * HOUR_S)
    assert history_of(metrics, tmp_path).pools == (
        Pool("p1-", 2, 8, 64_000, 2**19, "H100"),
        Pool("p2-", 1, 4, 64_000, 2**19, ""),
    )


def test_a_server_without_such_metrics_is_refused(tmp_path: Path) -> None:
    metrics = Metrics()
    metrics.add("up", 'job="x"', 1, 0, HOUR_S)
    with pytest.raises(HistoryError, match="expected kube_pod_start_time and kube_pod_container_resource"):
        history_of(metrics, tmp_path)
