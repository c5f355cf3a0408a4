"""A real Prometheus and real schedulers, with an embedded cluster whose API server can refuse requests."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from phalanx.clock import SystemClock
from phalanx.ports import Response
from phalanx_controlplane import run_folder
from phalanx_controlplane.process import Process
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.apiserver.requests import Request
from phalanx_simulator.embedded.cluster import EmbeddedCluster, embedded_cluster

from tests.deploy.manifests import REPOSITORY, Document
from tests.monitoring.prometheus_server import PrometheusServer, prometheus, until_ready

GROUPS: Final = "/apis/scheduling.phalanx.dev/v1alpha1/namespaces/default/podgroups"
QUEUES: Final = "/apis/scheduling.phalanx.dev/v1alpha1/queues"
TOPOLOGIES: Final = "/apis/scheduling.phalanx.dev/v1alpha1/topologies"
PODS: Final = "/api/v1/namespaces/default/pods"
NODES: Final = "/api/v1/nodes"


class Refusal(Struct, frozen=True):
    """Requests that are answered with an error: by method and end of the path."""

    method: str
    end: str
    code: int
    reason: str

    def answer(self, request: Request) -> Response | None:
        """The answer to one of them."""
        if request.method != self.method or not request.path.endswith(self.end):
            return None
        body = {"kind": "Status", "code": self.code, "reason": self.reason, "message": "refused by the test"}
        return Response(self.code, json.dumps(body).encode())


BINDS_FORBIDDEN: Final = Refusal("POST", "/binding", 403, "Forbidden")
BINDS_UNAVAILABLE: Final = Refusal("POST", "/binding", 503, "ServiceUnavailable")
STATUSES_FORBIDDEN: Final = Refusal("PATCH", "/status", 403, "Forbidden")

_SCHEDULER: Final = """
import phalanx.kube.events
phalanx.kube.events.EVENT_SERIES_MAX = 120  # more than the first gangs have, and so few that it is reached
from phalanx.cli.app import main
main()
"""


class Site:
    """The running parts, and the faults that the test may switch on."""

    def __init__(self, folder: Path, cluster: EmbeddedCluster, measured: PrometheusServer) -> None:
        self.folder = folder
        self.prometheus = measured
        self.faults = folder / "faults"
        self.faults.mkdir()
        self.config = folder / "config.yaml"
        self.config.write_text("plugins: [{name: faulty}]\n")
        self._refusals: set[Refusal] = set()
        self._handle = cluster.server.handle
        cluster.server.handle = self._answer  # type: ignore[method-assign]

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Document:
        """A request of somebody else than the scheduler."""
        content = b"" if body is None else json.dumps(body).encode()
        answer = self._handle(Request(method, path, {}, content, kind))
        assert answer.status < 300, answer.body
        found: Document = json.loads(answer.body)
        return found

    def add_gang(self, name: str, size: int, *, queue: str, priority_class: str = "") -> None:
        """A gang of pods with one GPU each."""
        options: dict[str, Any] = {"priorityClassName": priority_class} if priority_class else {}
        self.ask("POST", GROUPS, manifests.pod_group(name, min_member=size, queue=queue))
        for number in range(size):
            self.ask("POST", PODS, manifests.pod(f"{name}-{number}", group=name, **options))

    def break_nodes(self, *names: str) -> None:
        """Write the fault of a GPU as a condition of these nodes, as their health checker does."""
        for name in names:
            conditions = self.ask("GET", f"{NODES}/{name}")["status"].get("conditions", [])
            body = {"status": {"conditions": [*conditions, {"type": "GpuXidError", "status": "True"}]}}
            self.ask("PATCH", f"{NODES}/{name}/status", body, "application/merge-patch+json")

    @contextmanager
    def refusing(self, refusal: Refusal) -> Iterator[None]:
        """Refuse requests meanwhile, as missing rights or a busy server do."""
        self._refusals.add(refusal)
        try:
            yield
        finally:
            self._refusals.discard(refusal)

    @contextmanager
    def plugin_fault(self, name: str) -> Iterator[None]:
        """Let the faulty plugin fail (error) or take long (slow) meanwhile."""
        (self.faults / name).touch()
        try:
            yield
        finally:
            (self.faults / name).unlink()

    def _answer(self, request: Request) -> Response:
        refused = (refusal.answer(request) for refusal in self._refusals)
        return next((answer for answer in refused if answer is not None), None) or self._handle(request)


class Scheduler(Process):
    """A process of the scheduler."""

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop it meanwhile, as a node without CPU does."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)


@asynccontextmanager
async def site(folder: Path) -> AsyncIterator[tuple[Site, AsyncExitStack]]:
    """The cluster and Prometheus, without a scheduler. The stack, when it is closed, stops the API server."""
    async with prometheus(folder) as measured, AsyncExitStack() as running:
        cluster = await running.enter_async_context(embedded_cluster(clock=SystemClock(), token="monitoring"))
        await asyncio.to_thread(cluster.endpoint.write_kubeconfig, folder / "kubeconfig")
        yield Site(folder, cluster, measured), running


@asynccontextmanager
async def scheduler(made: Site, name: str, *, lease_namespace: str = "default") -> AsyncIterator[Scheduler]:
    """A real `phalanx run`, which Prometheus scrapes from now on."""
    with run_folder.reserve(2) as lease:
        http, debug = (f"127.0.0.1:{port}" for port in lease.ports)
        options = {
            "--kubeconfig": str(made.folder / "kubeconfig"),
            "--config": str(made.config),
            "--lease-namespace": lease_namespace,
            "--identity": name,
            "--http": http,
            "--debug": debug,
        }
        words = [word for option in options.items() for word in option]
        process = Scheduler(
            name=name,
            command=[sys.executable, "-c", _SCHEDULER, "run", *words],
            log=made.folder / f"{name}.log",
            home=made.folder,
            environment=_environment(made),
        )
        try:
            await until_ready(process, f"http://{http}/readyz")
            made.prometheus.scrape(name, http)
            yield process
        finally:
            await process.stop()
            made.prometheus.scrape(name, None)


def _environment(made: Site) -> Mapping[str, str]:
    """With an entry point for the faulty plugin, as an installed distribution has it."""
    info = made.folder / "entry" / "faulty-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[phalanx.plugins]\nfaulty = tests.monitoring.faulty_plugin:Faulty\n"
    )
    return {"PYTHONPATH": f"{info.parent}:{REPOSITORY}", "FAULTS": str(made.faults)}
