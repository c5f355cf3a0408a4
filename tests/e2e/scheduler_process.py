"""`phalanx run` as a separate process, with exactly the permissions that `deploy/base` grants."""

import asyncio
import itertools
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from phalanx_controlplane import run_folder
from phalanx_controlplane.controlplane import ControlPlane
from phalanx_controlplane.process import Process

from tests.crds import api
from tests.crds.files import definitions
from tests.deploy.manifests import DEPLOY, resources
from tests.e2e.workloads import fetched

NAMESPACE = "phalanx-system"
ACCOUNT = "phalanx"
LEASE_PATH = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/phalanx"
RIGHTS = {"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
PROGRAM = Path(sys.executable).with_name("phalanx")
GRACE_S = 30.0
"""terminationGracePeriodSeconds of the deployment."""

_numbers = itertools.count(1)


async def install(plane: ControlPlane) -> Path:
    """Install CRDs and RBAC rules of `deploy/base`; return a kubeconfig of the service account."""
    async with plane.session() as session:
        await api.install(session, list(definitions().values()))
        for document in resources(DEPLOY / "base"):
            if document["kind"] in RIGHTS:
                await api.apply(session, document)
    return await plane.service_account_kubeconfig(NAMESPACE, ACCOUNT)


class Scheduler(Process):
    """A running `phalanx run`."""

    def __init__(
        self,
        plane: ControlPlane,
        *,
        kubeconfig: Path,
        identity: str,
        http: int,
        debug: int,
        log_level: str,
        config: str,
    ) -> None:
        self.identity = identity
        self.http = f"http://127.0.0.1:{http}"
        self.debug = f"http://127.0.0.1:{debug}"
        options = {
            "--kubeconfig": str(kubeconfig),
            "--lease-namespace": NAMESPACE,
            "--identity": identity,
            "--http": f"127.0.0.1:{http}",
            "--debug": f"127.0.0.1:{debug}",
            "--log-level": log_level,
        }
        log = plane.logs_folder / f"{identity}.log"
        if config:
            file = plane.run_folder / f"{identity}.yaml"
            file.write_text(config)
            options["--config"] = str(file)
        command = [str(PROGRAM), "run", *(word for pair in options.items() for word in pair)]
        super().__init__(name=identity, command=command, log=log, home=plane.run_folder)

    async def exit_code(self, *, within: float = GRACE_S) -> int | None:
        """Its exit code; None if it is still running after so many seconds."""
        await self._ended_within(within)
        return self._popen.poll()

    def knew(self) -> dict[str, int]:
        """By pod: the resourceVersion of pods observed before its last bind of this pod (debug logs)."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if "bind sent" in line]
        return {line["pod"]: int(line["pods_version"]) for line in lines if line["event"] == "bind sent"}

    async def answer(self, path: str) -> tuple[int, str]:
        """Status and body of one of its public pages; status 0 while nothing listens."""
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{self.http}{path}") as answer:
                return answer.status, await answer.text()
        except aiohttp.ClientError:
            return 0, ""

    async def until_ready(self, *, timeout: float = 60.0) -> None:
        """Wait for `/readyz`."""
        deadline = time.monotonic() + timeout
        status, body = 0, ""
        while status != 200:
            status, body = await self.answer("/readyz")
            assert self.running, f"{self.name} ended:\n{self.tail(30)}"
            assert time.monotonic() < deadline, f"{self.name} is not ready: {status} {body}\n{self.tail(30)}"
            await asyncio.sleep(0.05)


@asynccontextmanager
async def scheduler(
    plane: ControlPlane, kubeconfig: Path, *, log_level: str = "info", config: str = ""
) -> AsyncIterator[Scheduler]:
    """A scheduler that is ready, as leader or as standby."""
    async with _started(plane, kubeconfig, log_level=log_level, config=config) as process:
        await process.until_ready()
        yield process


@asynccontextmanager
async def kept_running(
    plane: ControlPlane, kubeconfig: Path, *, log_level: str = "info"
) -> AsyncIterator[list[Scheduler]]:
    """A scheduler that is restarted when it ends, as a kubelet does; the list of all that were started."""
    processes: list[Scheduler] = []

    async def restart_forever() -> None:
        while True:
            async with _started(plane, kubeconfig, log_level=log_level) as process:
                processes.append(process)
                while process.running:
                    await asyncio.sleep(0.1)

    task = asyncio.create_task(restart_forever())
    try:
        yield processes
    finally:
        task.cancel()
        await asyncio.wait((task,))


@asynccontextmanager
async def _started(
    plane: ControlPlane, kubeconfig: Path, *, log_level: str = "info", config: str = ""
) -> AsyncIterator[Scheduler]:
    """A process, killed at the end if it is still running; its log is with the control plane's."""
    lease = run_folder.reserve(2)
    http, debug = lease.ports
    identity = f"phalanx-{next(_numbers)}"
    process = Scheduler(
        plane,
        kubeconfig=kubeconfig,
        identity=identity,
        http=http,
        debug=debug,
        log_level=log_level,
        config=config,
    )
    try:
        yield process
    except BaseException as failure:
        failure.add_note(f"--- {process.name} ({process.log})\n{process.tail(30)}")
        raise
    finally:
        await process.kill()
        lease.release()


async def lease_holder(plane: ControlPlane) -> str:
    """The holder of the Lease; empty if it is free."""
    lease = await fetched(plane, LEASE_PATH)
    return lease["spec"].get("holderIdentity") or ""


async def until_led_by(plane: ControlPlane, process: Scheduler, *, timeout: float = 60.0) -> None:
    """Wait until this process holds the Lease."""
    async with asyncio.timeout(timeout):
        while await _holder_or_nobody(plane) != process.identity:
            await asyncio.sleep(0.1)


async def _holder_or_nobody(plane: ControlPlane) -> str:
    try:
        return await lease_holder(plane)
    except aiohttp.ClientResponseError:
        return ""
