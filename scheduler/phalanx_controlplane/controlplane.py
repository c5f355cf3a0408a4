"""Starts and stops a control plane."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
from phalanx.kube.connections import Connector

from phalanx_controlplane import components, credentials, limits, releases, run_folder
from phalanx_controlplane.binaries import Binaries
from phalanx_controlplane.components import START_ORDER, KubeScheduler, Places, Settings
from phalanx_controlplane.go_modules import Progress
from phalanx_controlplane.process import ComponentFailed, Process
from phalanx_controlplane.run_folder import RunFolder

_USERS: Final = {
    "admin": ("admin", credentials.ADMINS),
    "kube-controller-manager": ("controller-manager", credentials.ADMINS),
    "kwok": ("kwok", credentials.ADMINS),
    "kube-scheduler": ("system:kube-scheduler", "system:authenticated"),
}
"""User and group of each kubeconfig. Every API server binds roles to the name of kube-scheduler."""


class ControlPlane:
    """A running control plane. It can be used from any event loop."""

    def __init__(self, *, run: RunFolder, places: Places, programs: dict[str, Path]) -> None:
        self.url = places.url
        self.port = places.apiserver_port
        self.run_folder = run.path
        self.logs_folder = run.folder("logs")
        self.kubeconfig_path = places.kubeconfig("admin")
        self.certificate = places.certificate
        self.certificate_key = places.certificate_key
        self.admin_token = ""
        self._run = run
        self._places = places
        self._programs = programs
        self._flags: dict[str, list[str]] = {}
        self._processes: dict[str, Process] = {}

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        *,
        kwok: bool = True,
        stages: tuple[str, ...] = components.DEFAULT_STAGES,
        controller_manager: bool = True,
        kube_scheduler: KubeScheduler | None = None,
        real_nodes: tuple[str, ...] = (),
        node_lease_seconds: int | None = None,
        apiserver_flags: tuple[str, ...] = (),
        controller_manager_flags: tuple[str, ...] = (),
        release: str | None = None,
        progress: Progress = lambda _line: None,
    ) -> "AsyncIterator[ControlPlane]":
        """Run a control plane while the context lasts; all components are ready when it starts.

        `release` of Kubernetes: by default the one that PHALANX_KUBERNETES names, else the newest.
        If the body raises, the logs are kept, and a note on the exception names their folder. Raises
        BinariesMissing and ComponentFailed.
        """
        settings = Settings(
            kwok=kwok,
            stages=stages,
            controller_manager=controller_manager,
            kube_scheduler=kube_scheduler,
            real_nodes=real_nodes,
            node_lease_seconds=node_lease_seconds,
            apiserver_flags=apiserver_flags,
            controller_manager_flags=controller_manager_flags,
        )
        release = release or releases.chosen()
        found = await asyncio.to_thread(releases.find_or_build_release, release, progress=progress)
        async with _run_folder_and_ports() as (run, places):
            plane = cls(run=run, places=places, programs=found.programs)
            try:
                await plane._start(settings, found, releases.minor(release))
                yield plane
            finally:
                await plane._stop()

    async def _start(self, settings: Settings, found: Binaries, minor: int) -> None:
        nodes = {name: (f"system:node:{name}", credentials.NODES) for name in settings.real_nodes}
        known = {**_USERS, **nodes}
        tokens = {name: credentials.token() for name in known}
        self.admin_token = tokens["admin"]
        users = {user: (tokens[name], group) for name, (user, group) in known.items()}
        credentials.write_token_file(self._places.tokens, users)
        credentials.write_service_account_key(self._places.service_account_key)
        self._flags = components.command_lines(
            self._places, settings=settings, stages=found.stages, minor=minor
        )
        await self.start_component("etcd")
        await self.start_component("kube-apiserver")
        for name in known:
            self._write_kubeconfig(self._places.kubeconfig(name), user=name, secret=tokens[name])
        clients = [name for name in self._flags if name not in self._processes]
        await asyncio.gather(*(self.start_component(name) for name in clients))

    async def _stop(self) -> None:
        """Stop in reverse order. Clients of the API server stop together."""
        clients = [name for name in START_ORDER[2:] if name in self._processes]
        await asyncio.gather(*(self.stop_component(name) for name in clients))
        for name in reversed(START_ORDER[:2]):
            if name in self._processes:
                await self.stop_component(name)

    async def start_component(
        self, name: str, *, within: float = limits.CONTROL_PLANE_START_TIMEOUT_S
    ) -> None:
        """Start a component and wait until it is ready.

        Raises ComponentFailed.
        """
        command = [str(self._programs[name]), *self._flags[name]]
        url = components.ready_urls(self._places)[name]
        await self.start_program(name, command=command, ready_url=url, within=within)

    async def start_program(
        self,
        name: str,
        *,
        command: Sequence[str],
        ready_url: str,
        home: Path | None = None,
        environment: Mapping[str, str] | None = None,
        within: float = limits.CONTROL_PLANE_START_TIMEOUT_S,
    ) -> None:
        """Start a program whose log is with those of the components, and wait until it is ready.

        Who starts one that is no component stops it with `stop_component`. Raises ComponentFailed.
        """
        process = Process(
            name=name,
            command=command,
            log=self.logs_folder / f"{name}.log",
            home=home or self.run_folder,
            environment=environment,
        )
        self._processes[name] = process
        await _wait_ready(process, url=ready_url, within=within)

    async def stop_component(self, name: str, *, kill: bool = False) -> None:
        """Stop one component gracefully, or kill it, as in a crash."""
        process = self._processes[name]
        await (process.kill() if kill else process.stop())

    async def restart_apiserver(self, *, kill: bool = False) -> None:
        """Restart the API server with the same port, data and certificate."""
        await self.stop_component("kube-apiserver", kill=kill)
        await self.start_component("kube-apiserver")

    def require_running(self, name: str) -> None:
        """Raise ComponentFailed if a component has ended."""
        process = self._processes[name]
        if not process.running:
            raise ComponentFailed(f"{name} ended:\n{process.tail(20)}")

    def pid(self, name: str) -> int:
        """The process ID of a component."""
        return self._processes[name].pid

    def tail_logs(self, lines: int = 20) -> str:
        """The last lines of the log of each component, for the message of a failed test."""
        parts = [
            f"--- {name} ({'runs' if process.running else 'has ended'}; {process.log})\n{process.tail(lines)}"
            for name, process in self._processes.items()
        ]
        return "\n".join(parts)

    def keep_logs(self) -> Path:
        """Copy the logs to a folder that remains after this control plane stops."""
        return self._run.keep_logs()

    def session(self) -> aiohttp.ClientSession:
        """An HTTP session of the admin user. Requests pass paths only.

        The caller closes it.
        """
        trust = ssl.create_default_context(cafile=str(self._places.certificate))
        return aiohttp.ClientSession(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self.admin_token}"},
            connector=Connector(ssl=trust, limit=limits.BULK_CREATE_CONCURRENCY),
            timeout=aiohttp.ClientTimeout(total=limits.BULK_CREATE_TIMEOUT_S),
        )

    def node_kubeconfig(self, name: str) -> Path:
        """The kubeconfig of a node with a real kubelet."""
        return self._places.kubeconfig(name)

    async def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig of a service account, which is created if it does not exist.

        Its namespace must exist.
        """
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        request: dict[str, Any] = {"spec": {"expirationSeconds": 24 * 3600}}
        async with self.session() as session:
            async with session.post(accounts, json={"metadata": {"name": name}}) as created:
                if created.status != 409:
                    created.raise_for_status()
            async with session.post(f"{accounts}/{name}/token", json=request) as answer:
                answer.raise_for_status()
                secret = (await answer.json())["status"]["token"]
        path = self._places.kubeconfig(f"{namespace}-{name}")
        self._write_kubeconfig(path, user=name, secret=secret)
        return path

    def _write_kubeconfig(self, path: Path, *, user: str, secret: str) -> None:
        credentials.write_kubeconfig(
            path, url=self.url, certificate=self._places.certificate, user=user, secret=secret
        )


@asynccontextmanager
async def _run_folder_and_ports() -> AsyncIterator[tuple[RunFolder, Places]]:
    run, lease = RunFolder(), run_folder.reserve(6)
    etcd, peer, apiserver, controller_manager, scheduler, kwok = lease.ports
    places = Places(
        run=run.path,
        etcd_port=etcd,
        etcd_peer_port=peer,
        apiserver_port=apiserver,
        controller_manager_port=controller_manager,
        scheduler_port=scheduler,
        kwok_port=kwok,
    )
    try:
        yield run, places
    except asyncio.CancelledError:
        raise  # the user interrupts: nothing has failed, so no logs are kept
    except BaseException as failure:
        failure.add_note(f"The control plane's logs are in {run.keep_logs()}")
        raise
    finally:
        lease.release()
        run.remove()


async def _wait_ready(process: Process, *, url: str, within: float) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    timeout = aiohttp.ClientTimeout(total=limits.CONTROL_PLANE_PROBE_TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        while not await _answers(session, url=url):
            if not process.running:
                raise ComponentFailed(f"{process.name} ended:\n{process.tail(20)}")
            if loop.time() >= deadline:
                raise ComponentFailed(f"{process.name} is not ready at {url}:\n{process.tail(20)}")
            await asyncio.sleep(limits.CONTROL_PLANE_POLL_S)


async def _answers(session: aiohttp.ClientSession, *, url: str) -> bool:
    with contextlib.suppress(aiohttp.ClientError, TimeoutError):
        async with session.get(url, ssl=False) as answer:
            return answer.status == 200
    return False
