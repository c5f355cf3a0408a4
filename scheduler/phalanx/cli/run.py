"""`phalanx run`: the scheduler itself."""

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
from phalanx.limits import LEASE_CONNECTIONS

if TYPE_CHECKING:
    from phalanx.cache.cache import Cache
    from phalanx.deciders.port import Decider
    from phalanx.framework.config import SchedulerConfig
    from phalanx.kube.connect import Cluster
    from phalanx.model.decisions import CycleResult
    from phalanx.model.snapshot import Snapshot
    from phalanx.observe.metrics import Metrics
    from phalanx.service.scheduler import Identity, Scheduler

_DEFAULT_NAMESPACE: Final = "phalanx-system"

DeciderName = Literal["thread", "process"]
LogLevel = Literal["debug", "info", "warning", "error"]


class Address(Struct, frozen=True):
    """Where to listen; port 0 asks for a free one."""

    host: str
    port: int


class Settings(Struct, frozen=True):
    """The command line, checked."""

    config: "SchedulerConfig"
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
        File that says how to reach the cluster; without it the pod's service account, else $KUBECONFIG or
        ~/.kube/config.
    context
        Context of the kubeconfig, when not the current one.
    config
        The scheduler's configuration; without it every setting has its default.
    http
        Address of /healthz, /readyz and /metrics.
    debug
        Address of /debug/snapshot, /debug/defect and /debug/unsettled, which show cluster data: keep it on
        loopback.
    lease_namespace
        Where the Lease of the replicas lies; $POD_NAMESPACE, else phalanx-system.
    identity
        This replica's name in the Lease; $POD_NAME, else host name and process id.
    decider
        Where cycles run: in a thread beside the event loop, or in a process of their own.
    log_level
        The least important messages that are logged; debug tells of every bind.
    """
    from phalanx.cli.configuration import read_config
    from phalanx.observe.logs import configure_logs
    from phalanx.service.scheduler import Identity

    settings = Settings(
        config=read_config(config),
        identity=Identity(
            name=identity or os.environ.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}",
            lease_namespace=lease_namespace or os.environ.get("POD_NAMESPACE") or _DEFAULT_NAMESPACE,
        ),
        http=_address("--http", http),
        debug=_address("--debug", debug),
        decider=decider,
        kubeconfig=_existing(kubeconfig),
        context=context,
    )
    configure_logs(level=log_level)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_until_stopped(settings))


def _existing(kubeconfig: Path | None) -> str | None:
    if kubeconfig is not None and not kubeconfig.is_file():
        raise BadInput(f"--kubeconfig: expected a readable file, found none at {kubeconfig}")
    return str(kubeconfig) if kubeconfig else None


def _address(flag: str, text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise BadInput(f"{flag}: expected HOST:PORT, found {text}")
    return Address(host=host.strip("[]") or "0.0.0.0", port=int(port))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed: it needs about a quarter less CPU for the API client."""
    if find_spec("uvloop") is None:
        return None
    import uvloop

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _until_stopped(settings: Settings) -> int:
    from phalanx.kube.connect import NoCluster, connect

    stop = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    try:
        async with AsyncExitStack() as stack:
            cluster = await stack.enter_async_context(
                connect(kubeconfig=settings.kubeconfig, context=settings.context)
            )
            return await _run(await _assemble(settings, cluster, stack), stop)
    except NoCluster as error:
        print(f"run: {error}", file=sys.stderr)
        return Exit.FAILED


async def _assemble(settings: Settings, cluster: "Cluster", stack: AsyncExitStack) -> "Scheduler":
    """Everything that a scheduler stands on; `stack` closes it."""
    from phalanx.clock import SystemClock
    from phalanx.deciders.port import new_cache
    from phalanx.kube.client import Client
    from phalanx.kube.garbage_collection import freeze
    from phalanx.observe.metrics import Metrics
    from phalanx.service.scheduler import Scheduler, SchedulerDependencies

    transport, lease_transport = cluster.transport(), cluster.transport(connections=LEASE_CONNECTIONS)
    stack.push_async_callback(transport.close)
    stack.push_async_callback(lease_transport.close)
    cache = new_cache(settings.config)
    decider = _decider(settings, cache)
    stack.push_async_callback(decider.close)
    metrics = Metrics()
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
            on_synced=freeze,
        )
    )
    await _serve(settings, scheduler, decider, metrics, stack)
    return scheduler


def _decider(settings: Settings, cache: "Cache") -> "Decider":
    from phalanx.deciders.process import ProcessDecider
    from phalanx.deciders.thread import SWITCH_INTERVAL_S, ThreadDecider

    if settings.decider == "process":
        return ProcessDecider(config=settings.config)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    return ThreadDecider(cache=cache, config=settings.config)


async def _serve(
    settings: Settings, scheduler: "Scheduler", decider: "Decider", metrics: "Metrics", stack: AsyncExitStack
) -> None:
    import structlog

    from phalanx.observe.recording import Recording, encode
    from phalanx.web.server import debug_app, public_app, serving

    def recorded(cycle: "tuple[Snapshot, CycleResult] | None") -> bytes | None:
        if cycle is None:
            return None
        config = msgspec.Raw(msgspec.json.encode(settings.config))
        snapshot, result = cycle
        return encode(
            Recording(version=version("phalanx-scheduler"), config=config, snapshot=snapshot, result=result)
        )

    async def last() -> bytes | None:
        return recorded(await decider.last())

    async def defect() -> bytes | None:
        return recorded(scheduler.defect)

    async def unsettled() -> bytes | None:
        return recorded(scheduler.unsettled)

    public = public_app(
        liveness_error=scheduler.liveness_error,
        readiness_error=scheduler.readiness_error,
        registry=metrics.registry,
    )
    ports = {}
    for name, app, address in (
        ("http", public, settings.http),
        ("debug", debug_app(last=last, defect=defect, unsettled=unsettled), settings.debug),
    ):
        try:
            server = serving(app, host=address.host, port=address.port)
            ports[name] = await stack.enter_async_context(server)
        except OSError as error:
            raise BadInput(f"--{name}: cannot listen there: {error.strerror or error}") from error
    structlog.get_logger(__name__).info("serving", identity=settings.identity.name, **ports)


async def _run(scheduler: "Scheduler", stop: asyncio.Event) -> int:
    import structlog

    from phalanx.kube.leader_election import LostLease

    log, code = structlog.get_logger(__name__), Exit.OK
    try:
        await scheduler.run(stop)
    except* LostLease as lost:
        log.error("leadership lost; whoever started this process starts it anew", why=str(lost.exceptions[0]))
        code = Exit.FAILED
    log.info("stopped")
    return code
