"""`phalanx run`: run the scheduler; here its parts are created and wired."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec import Struct

from phalanx.cli.exits import BadInput, Exit
from phalanx.cli.kubeconfig_option import existing_kubeconfig
from phalanx.cli.listening import Address, listen_address
from phalanx.model.texts import printable

if TYPE_CHECKING:
    from phalanx.cache.cache import Cache
    from phalanx.deciders.port import Decider, RecordedCycle
    from phalanx.framework.config import SchedulerConfig
    from phalanx.kube.connect import Cluster
    from phalanx.kube.leader_election import Identity
    from phalanx.observe.metrics import Metrics
    from phalanx.observe.traces import Traces
    from phalanx.service.config_reload import ConfigFile
    from phalanx.service.scheduler import Scheduler

_LEASE_CONNECTIONS: Final = 2
"""Connections for the Lease alone: one in use, and one more while a hanging one is closed."""

_RIGHTS_CONNECTIONS: Final = 4
"""Connections for one object of each kind, before the scheduler has its own."""

_DEFAULT_NAMESPACE: Final = "phalanx-system"

DeciderName = Literal["thread", "process"]
LogLevel = Literal["debug", "info", "warning", "error"]


class Settings(Struct, frozen=True):
    """The validated command line."""

    config: "SchedulerConfig"
    config_file: Path | None
    identity: "Identity"
    http: Address
    debug: Address
    decider: DeciderName
    kubeconfig: str | None
    context: str | None


def run(
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    config: Path | None = None,
    http: str = "127.0.0.1:8080",
    debug: str = "127.0.0.1:8081",
    lease_namespace: str | None = None,
    identity: str | None = None,
    decider: DeciderName = "thread",
    log_level: LogLevel = "info",
) -> int:
    """Schedule the pods that ask for it with `schedulerName: phalanx`, until SIGTERM or Ctrl-C.

    Parameters
    ----------
    kubeconfig
        The kubeconfig file; default: the pod's service account, else $KUBECONFIG or ~/.kube/config.
    context
        The context in the kubeconfig; default: the current one.
    config
        The scheduler's configuration file; default: all defaults. A changed file is used without a restart.
    http
        Address of /healthz, /readyz and /metrics.
    debug
        Address of /debug/snapshot, /debug/error and /debug/inconclusive, which show cluster data: keep it on
        loopback.
    lease_namespace
        Namespace of the Lease; default: $POD_NAMESPACE, else phalanx-system.
    identity
        Name of this replica in the Lease; default: $POD_NAME, else host name and process id.
    decider
        Where cycles run: in a thread beside the event loop, or in a separate process.
    log_level
        Lowest level that is logged; debug logs every bind.
    """
    from phalanx.kube.leader_election import Identity
    from phalanx.observe.logs import configure_logs

    configure_logs(level=log_level)
    loaded = _config(config, listen_address("--http", http))
    if loaded is None:
        return Exit.OK
    settings = Settings(
        config=loaded,
        config_file=config,
        identity=Identity(
            name=identity or os.environ.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}",
            lease_namespace=lease_namespace or os.environ.get("POD_NAMESPACE") or _DEFAULT_NAMESPACE,
        ),
        http=listen_address("--http", http),
        debug=listen_address("--debug", debug),
        decider=decider,
        kubeconfig=existing_kubeconfig(kubeconfig),
        context=context,
    )
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_until_stopped(settings))


def _config(path: Path | None, http: Address) -> "SchedulerConfig | None":
    """The configuration; None if the process is stopped while it waits for one. Raises BadInput.

    In a pod it waits for a file without errors: a process that ends is started again later and later.
    """
    from phalanx.cli.configuration import read_config

    try:
        return read_config(path)
    except BadInput:
        if path is None or not path.is_file() or "POD_NAME" not in os.environ:
            raise
    from phalanx.cli.run_waiting import until_good

    return read_config(path) if asyncio.run(until_good(path, http)) else None


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory where installed: the API client needs about a quarter less CPU with it."""
    if find_spec("uvloop") is None:
        return None
    import uvloop

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _until_stopped(settings: Settings) -> int:
    from phalanx.kube.connect import connect
    from phalanx.kube.kubeconfig import NoCluster

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        async with AsyncExitStack() as stack:
            cluster = await stack.enter_async_context(
                connect(kubeconfig=settings.kubeconfig, context=settings.context)
            )
            problem = await _missing_rights(cluster)
            if problem:
                print(printable(f"run: {problem}"), file=sys.stderr)
                return Exit.FAILED
            return await _run(await _assemble(settings, cluster, stack), stop)
    except NoCluster as error:
        print(f"run: {error}", file=sys.stderr)
        return Exit.FAILED


async def _missing_rights(cluster: "Cluster") -> str:
    from phalanx.cli.run_rights import missing_rights
    from phalanx.kube.client import Client

    transport = cluster.transport(connections=_RIGHTS_CONNECTIONS)
    try:
        return await missing_rights(Client(transport))
    finally:
        await transport.close()


async def _assemble(settings: Settings, cluster: "Cluster", stack: AsyncExitStack) -> "Scheduler":
    """Create the scheduler and its parts; `stack` closes them."""
    from phalanx.clock import SystemClock
    from phalanx.deciders.port import new_cache
    from phalanx.kube.client import Client
    from phalanx.kube.garbage_collection import GarbageCollection
    from phalanx.observe.metrics import Metrics
    from phalanx.service.scheduler import Scheduler, SchedulerDependencies

    transport, lease_transport = cluster.transport(), cluster.transport(connections=_LEASE_CONNECTIONS)
    stack.push_async_callback(transport.close)
    stack.push_async_callback(lease_transport.close)
    cache, metrics = new_cache(settings.config), Metrics()
    decider = _decider(settings, cache, metrics)
    stack.push_async_callback(decider.close)
    garbage_collection = GarbageCollection()
    scheduler = Scheduler(
        SchedulerDependencies(
            client=Client(transport),
            lease_client=Client(lease_transport),
            cache=cache,
            decider=decider,
            clock=SystemClock(),
            metrics=metrics,
            identity=settings.identity,
            controller=settings.config.scheduler_name,
            seed=settings.config.seed,
            config=settings.config,
            config_file=_watched(settings.config_file),
            garbage_collection=garbage_collection,
            traces=_traces(settings.config, settings.identity.name, stack),
            on_synced=garbage_collection.freeze,
        )
    )
    await _serve(settings, scheduler, decider, metrics, stack)
    return scheduler


def _traces(config: "SchedulerConfig", instance: str, stack: AsyncExitStack) -> "Traces | None":
    """Start the export of traces if the configuration asks for it. Raises BadInput."""
    endpoint = config.tracing.endpoint
    if endpoint is None:
        return None
    try:
        from phalanx.observe.traces import Traces, otlp_exporter

        exporter = otlp_exporter(endpoint)
    except ImportError as error:
        raise BadInput(
            f"tracing.endpoint: needs OpenTelemetry: pip install 'phalanx-scheduler[otel]' ({error})"
        ) from error
    traces = Traces(exporter, instance=instance)
    stack.push_async_callback(asyncio.to_thread, traces.close)
    return traces


def _watched(path: Path | None) -> "ConfigFile | None":
    """The configuration file, to be read again while the scheduler runs; standard input cannot be."""
    from phalanx.cli.configuration import parse_checked
    from phalanx.service.config_reload import ConfigFile

    if path is None or not path.is_file():
        return None
    return ConfigFile(read=path.read_bytes, parse=parse_checked)


def _decider(settings: Settings, cache: "Cache", metrics: "Metrics") -> "Decider":
    """Create the decider; one in a thread needs shorter turns of the interpreter in this process."""
    from phalanx.deciders.process import ProcessDecider
    from phalanx.deciders.thread import SWITCH_INTERVAL_S, ThreadDecider

    if settings.decider == "process":
        return ProcessDecider(config=settings.config, on_steps=metrics.steps_timed)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    return ThreadDecider(cache=cache, config=settings.config, on_steps=metrics.steps_timed)


async def _serve(
    settings: Settings, scheduler: "Scheduler", decider: "Decider", metrics: "Metrics", stack: AsyncExitStack
) -> None:
    import structlog

    from phalanx.observe.recording import Recording, encode
    from phalanx.web.server import debug_app, public_app, serving

    def recorded(cycle: "RecordedCycle | None") -> bytes | None:
        if cycle is None:
            return None
        config, snapshot, result = cycle
        encoded = msgspec.Raw(msgspec.json.encode(config))
        return encode(
            Recording(
                version=version("phalanx-scheduler"),
                config=encoded,
                snapshot=snapshot,
                result=result,
                defers_advice=True,
            )
        )

    async def last() -> bytes | None:
        return recorded(await decider.last())

    async def last_error() -> bytes | None:
        return recorded(scheduler.last_error)

    async def last_inconclusive() -> bytes | None:
        return recorded(scheduler.last_inconclusive)

    public = public_app(
        liveness_error=scheduler.liveness_error,
        readiness_error=scheduler.readiness_error,
        registry=metrics.registry,
    )
    debug = debug_app(last=last, last_error=last_error, last_inconclusive=last_inconclusive)
    ports = {}
    for name, app, address in (("http", public, settings.http), ("debug", debug, settings.debug)):
        try:
            server = serving(app, host=address.host, port=address.port)
            ports[name] = await stack.enter_async_context(server)
        except OSError as error:
            raise BadInput(f"--{name}: cannot listen on this address: {error.strerror or error}") from error
    structlog.get_logger(__name__).info("HTTP endpoints started", identity=settings.identity.name, **ports)


async def _run(scheduler: "Scheduler", stop: asyncio.Event) -> int:
    import structlog

    from phalanx.kube.leader_election import LostLease

    log, code = structlog.get_logger(__name__), Exit.OK
    try:
        await scheduler.run(stop)
    except* LostLease as lost:
        log.error("leadership lost, exiting; the process must be restarted", error=str(lost.exceptions[0]))
        code = Exit.FAILED
    log.info("scheduler stopped")
    return code
