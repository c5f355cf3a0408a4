"""Histories in a Prometheus server: the pods with GPUs that kube-state-metrics showed.

Metrics: https://github.com/kubernetes/kube-state-metrics/blob/main/docs/metrics/workload/pod-metrics.md.
HTTP API: https://prometheus.io/docs/prometheus/latest/querying/api/#instant-queries.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final

import msgspec
from msgspec import Struct
from phalanx.clock import SystemClock

from phalanx_simulator.lab.engine.cluster import Pool
from phalanx_simulator.lab.history.history import (
    History,
    HistoryError,
    QueueNames,
    in_order,
    notes_of,
    pools_of,
)
from phalanx_simulator.lab.history.pod_runs import PodRun, jobs_of

PROMETHEUS_DAYS: Final = 14
"""Days of a history in Prometheus without `since`; it keeps data for 15 days by default."""

PROMETHEUS_QUERY_S: Final = 6 * 3600
"""Seconds that one query of Prometheus covers. It loads at most 50 million samples by default: six hours of
35,000 series with a sample in 15 seconds."""

PROMETHEUS_TIMEOUT_S: Final = 150
"""Seconds for an answer of Prometheus, which ends a query after two minutes by default."""

PROMETHEUS_ANSWER_BYTES_MAX: Final = 1 << 30
"""Bytes of one answer of Prometheus at most."""

_SCHEMES: Final = ("http://", "https://")
_DAY_S: Final = 24 * 3600
_LOOK_BACK_S: Final = 300
"""How old the last sample of what still exists may be: as long as Prometheus looks back by default."""

_MIB: Final = 1 << 20

_GPUS: Final = ("nvidia_com_gpu", "amd_com_gpu")
"""Names of resources as kube-state-metrics writes them."""

_GANG: Final = "label_scheduling_phalanx_dev_pod_group"
_QUEUE: Final = "label_scheduling_phalanx_dev_queue"
_MODEL: Final = "label_nvidia_com_gpu_product"
"""Labels of objects. kube-state-metrics has them if its --metric-labels-allowlist names them."""

_RESOURCES: Final = f'resource=~"cpu|memory|{"|".join(_GPUS)}"'


class _Sample(Struct, frozen=True):
    """A series with its value at a time, which is text."""

    metric: dict[str, str]
    value: tuple[float, str]

    @property
    def amount(self) -> Fraction | None:
        """The value; None if it is no number."""
        try:
            return Fraction(self.value[1])
        except ValueError:
            return None

    def label(self, name: str) -> str:
        """A label of the exporter, which Prometheus renames if its target has a label of that name."""
        return self.metric.get(f"exported_{name}") or self.metric.get(name, "")

    @property
    def pod(self) -> str:
        """Names the pod."""
        return self.label("uid") or f"{self.label('namespace')}/{self.label('pod')}"


class _Data(Struct, frozen=True):
    result: list[_Sample] = []


class _Answer(Struct, frozen=True):
    data: _Data = _Data()
    error: str = ""


class _Seen(Struct):
    """What is known of a pod. Times in milliseconds; amounts by container and resource."""

    sample: _Sample
    created: int = 0
    started: int | None = None
    ended: int | None = None
    last: int = 0
    owner: str = ""
    labels: dict[str, str] = {}
    requests: dict[tuple[str, str], Fraction] = {}

    def total(self, *resources: str) -> Fraction:
        """The sum over its containers."""
        amounts = [amount for (_, name), amount in self.requests.items() if name in resources]
        return sum(amounts, Fraction(0))


def read_prometheus(url: str, *, since: str | None, until: str | None) -> History:
    """Ask a Prometheus server for a time, by default the last 14 days. Raises HistoryError and OSError.

    Times are ISO 8601. A pod without a completion time ended when it was seen for the last time.
    """
    if not url.lower().startswith(_SCHEMES):
        raise HistoryError(f"expected an address that starts with {' or '.join(_SCHEMES)}, found {url}")
    end = SystemClock().now_ms() // 1000 if until is None else _seconds("until", until)
    start = end - PROMETHEUS_DAYS * _DAY_S if since is None else _seconds("since", since)
    if not 0 < end - start <= 10 * 366 * _DAY_S:
        raise HistoryError("since, until: expected since before until, and at most ten years")
    return _Reader(_Server(url), start, end).history(url)


def _seconds(key: str, text: str) -> int:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise HistoryError(f"{key}: expected a time such as 2026-01-05T07:00:00Z, found {text!r}") from None
    return math.floor((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())


class _Server:
    """The HTTP API of a Prometheus server."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def query(self, expression: str, at: int) -> list[_Sample]:
        """The series of an instant query. Raises HistoryError and OSError."""
        from urllib.error import HTTPError
        from urllib.parse import urlencode
        from urllib.request import urlopen

        address = f"{self._url}/api/v1/query?{urlencode({'query': expression, 'time': at})}"
        try:
            with urlopen(address, timeout=PROMETHEUS_TIMEOUT_S) as response:
                content: bytes = response.read(PROMETHEUS_ANSWER_BYTES_MAX + 1)
        except HTTPError as error:
            content = error.read(PROMETHEUS_ANSWER_BYTES_MAX)
        if len(content) > PROMETHEUS_ANSWER_BYTES_MAX:
            raise self._error(expression, f"answer above {PROMETHEUS_ANSWER_BYTES_MAX} bytes")
        try:
            answer = msgspec.json.decode(content, type=_Answer)
        except msgspec.DecodeError as error:
            raise self._error(expression, f"expected an answer of Prometheus, found: {error}") from None
        if answer.error:
            raise self._error(expression, answer.error)
        return answer.data.result

    def _error(self, expression: str, why: str) -> HistoryError:
        return HistoryError(f"{self._url}: {expression}: {why}")


class _Reader:
    """Asks for short times one after the other, since Prometheus bounds the samples of a query."""

    def __init__(self, server: _Server, start: int, end: int) -> None:
        self._server = server
        self._start = start
        self._end = end
        self._pods: dict[str, _Seen] = {}

    def history(self, place: str) -> History:
        """The jobs, and the nodes at the end."""
        for at in range(self._end, self._start, -PROMETHEUS_QUERY_S):
            self._read(at, min(PROMETHEUS_QUERY_S, at - self._start))
        with_gpus = [pod for pod in self._pods.values() if pod.total(*_GPUS) > 0]
        ran = [pod for pod in with_gpus if pod.started is not None]
        jobs = jobs_of(self._runs(ran))
        if not jobs:
            raise HistoryError(
                f"{place}: expected kube_pod_start_time and kube_pod_container_resource_requests of pods with"
                f" GPUs between {_text(self._start)} and {_text(self._end)}, found {len(self._pods)} pods,"
                f" {len(with_gpus)} of them with GPUs, and none that started"
            )
        recent = 1000 * (self._end - _LOOK_BACK_S)
        running = sum(pod.ended is None and pod.last >= recent for pod in ran)
        notes = notes_of((running, "whose pods still ran at the end: assumed to end then"))
        return History(in_order(jobs), self._pools(), notes=notes)

    def _read(self, at: int, width: int) -> None:
        """Read the pods that were seen in the seconds before a time. Later times are read first."""
        for sample in self._last("kube_pod_start_time", at, width):
            self._seen(sample).started = _ms(sample)
        for sample in self._server.query(f"max_over_time(timestamp(kube_pod_start_time)[{width}s:60s])", at):
            pod = self._seen(sample)
            pod.last = max(pod.last, _ms(sample) or 0)
        for sample in self._last("kube_pod_created", at, width):
            self._seen(sample).created = _ms(sample) or 0
        for sample in self._last("kube_pod_completion_time", at, width):
            pod = self._seen(sample)
            pod.ended = pod.ended or _ms(sample)
        for sample in self._last("kube_pod_info", at, width):
            kind, name = sample.label("created_by_kind"), sample.label("created_by_name")
            self._seen(sample).owner = f"{kind}/{name}" if name not in ("", "<none>") else ""
        for sample in self._last("kube_pod_labels", at, width):
            self._seen(sample).labels = sample.metric
        for sample in self._last(f"kube_pod_container_resource_requests{{{_RESOURCES}}}", at, width):
            if (amount := sample.amount) is not None:
                key = (sample.label("container"), sample.label("resource"))
                pod = self._seen(sample)
                pod.requests = {key: amount, **pod.requests}

    def _last(self, metric: str, at: int, width: int) -> list[_Sample]:
        return self._server.query(f"last_over_time({metric}[{width}s])", at)

    def _seen(self, sample: _Sample) -> _Seen:
        return self._pods.setdefault(sample.pod, _Seen(sample))

    def _runs(self, pods: Sequence[_Seen]) -> Iterator[PodRun]:
        names = QueueNames()
        for pod in pods:
            namespace, started = pod.sample.label("namespace"), pod.started or 0
            gang = pod.labels.get(_GANG) or pod.owner or pod.sample.pod
            yield PodRun(
                gang=f"{namespace}/{gang}",
                tenant=names.name_of(pod.labels.get(_QUEUE) or namespace),
                created_ms=pod.created or started,
                started_ms=started,
                ended_ms=max(started, pod.ended if pod.ended is not None else pod.last),
                gpus=math.ceil(pod.total(*_GPUS)),
                cpu_milli=math.ceil(1000 * pod.total("cpu")),
                memory_mib=math.ceil(pod.total("memory") / _MIB),
            )

    def _pools(self) -> tuple[Pool, ...]:
        """Equal nodes with GPUs as one pool, the most GPUs first."""
        offered: dict[str, dict[str, Fraction]] = {}
        for sample in self._last(f"kube_node_status_allocatable{{{_RESOURCES}}}", self._end, _LOOK_BACK_S):
            if (amount := sample.amount) is not None:
                offered.setdefault(sample.label("node"), {})[sample.label("resource")] = amount
        models = {
            sample.label("node"): sample.metric.get(_MODEL, "")
            for sample in self._last("kube_node_labels", self._end, _LOOK_BACK_S)
        }
        kinds = Counter(
            (
                math.floor(sum((amounts.get(name, Fraction(0)) for name in _GPUS), Fraction(0))),
                models.get(node, ""),
                math.floor(1000 * amounts.get("cpu", Fraction(0))),
                math.floor(amounts.get("memory", Fraction(0)) / _MIB),
            )
            for node, amounts in offered.items()
        )
        return pools_of({kind: count for kind, count in kinds.items() if kind[0]})


def _ms(sample: _Sample) -> int | None:
    """A time in seconds, in milliseconds."""
    amount = sample.amount
    return None if amount is None else math.floor(1000 * amount)


def _text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
