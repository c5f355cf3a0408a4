"""Starts published controllers against a running control plane, and stops them."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import aiohttp
import yaml

from phalanx_controlplane import limits, run_folder
from phalanx_controlplane.controllers import api, catalog, crds, webhooks
from phalanx_controlplane.controllers.definition import Controller, Manifest, Place
from phalanx_controlplane.controlplane import ControlPlane
from phalanx_controlplane.process import ComponentFailed
from phalanx_controlplane.programs import Built


@asynccontextmanager
async def running(
    plane: ControlPlane, names: Sequence[str], *, environment: Mapping[str, str] | None = None
) -> AsyncIterator[None]:
    """Run these controllers, and those that they need, while the context lasts.

    `environment`: more environment variables. With HTTP_PROXY a test can answer requests to Services.

    When it starts, the API server serves their kinds and calls their webhooks. When it ends, the webhooks are
    removed and the processes have ended; the CRDs remain. Logs are beside those of the control plane. Raises
    ProgramMissing, UnknownController, PortsTaken, Refused and ComponentFailed.
    """
    chosen = [(each, each.program.built()) for each in catalog.named(names)]
    async with plane.session() as session, AsyncExitStack() as stack:
        await api.install(session, [crd for each, built in chosen for crd in crds.of(each, built)])
        for controller, built in chosen:
            place = await stack.enter_async_context(_place(plane, session, controller))
            for each in controller.objects(place):
                await api.apply(session, each)
            await stack.enter_async_context(_process(plane, controller, built, place, environment or {}))
            await stack.enter_async_context(_webhooks(plane, session, controller, built, place))
        yield


@asynccontextmanager
async def _place(
    plane: ControlPlane, session: aiohttp.ClientSession, controller: Controller
) -> AsyncIterator[Place]:
    """Ports, a folder with certificate and configuration, and a service account that may do everything."""
    with contextlib.ExitStack() as leases:
        lease = leases.enter_context(run_folder.reserve(3))
        for port in controller.fixed_ports:
            leases.enter_context(run_folder.reserve_port(port))
        health, metrics, webhook = lease.ports
        place = Place(
            folder=plane.run_folder / "controllers" / controller.name,
            kubeconfig=await _account(plane, session, controller),
            api_port=plane.port,
            health_port=health,
            metrics_port=metrics,
            webhook_port=webhook,
        )
        place.certificates.mkdir(parents=True, exist_ok=True)
        shutil.copy(plane.certificate, place.certificates / "tls.crt")
        shutil.copy(plane.certificate_key, place.certificates / "tls.key")
        for file in map(Path, controller.fixed_files):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        place.configuration.write_text(yaml.safe_dump(controller.configuration(place)))
        yield place


async def _account(plane: ControlPlane, session: aiohttp.ClientSession, controller: Controller) -> Path:
    """The kubeconfig of a service account of its own, so that an audit log shows which writes are its."""
    name, space = controller.name, controller.namespace
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"controller-{name}"},
        "roleRef": role,
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": space}],
    }
    await api.apply(session, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    await api.apply(session, binding)
    return await plane.service_account_kubeconfig(space, name)


@asynccontextmanager
async def _process(
    plane: ControlPlane, controller: Controller, built: Built, place: Place, environment: Mapping[str, str]
) -> AsyncIterator[None]:
    """The process, ready."""
    own = {"KUBECONFIG": str(place.kubeconfig), "TMPDIR": str(place.folder), **controller.environment(place)}
    ready = controller.ready_url.format(health_port=place.health_port)
    try:
        await plane.start_program(
            controller.name,
            command=[str(built.program), *controller.command(place)],
            ready_url=ready,
            home=place.folder,
            environment={**own, **environment},
        )
        yield
    finally:
        await plane.stop_component(controller.name)


@asynccontextmanager
async def _webhooks(
    plane: ControlPlane, session: aiohttp.ClientSession, controller: Controller, built: Built, place: Place
) -> AsyncIterator[None]:
    """The webhooks, in effect. They are removed at the end: without the process they refuse every object."""
    url = f"https://127.0.0.1:{place.webhook_port}"
    found = webhooks.configurations(controller, built, url=url, authority=plane.certificate)
    try:
        for configuration in found:
            for each in webhooks.urls(configuration):
                await _until(partial(_has_handler, each), plane, controller, f"{each} to be served")
            await api.apply(session, configuration)
            probe = webhooks.probe_object(configuration)
            await _until(partial(_refused, session, probe), plane, controller, f"webhooks at {url}")
        yield
    finally:
        for configuration in found:
            with contextlib.suppress(aiohttp.ClientError):  # the API server may have ended before
                await api.delete(session, configuration)


async def _until(
    so: Callable[[], Awaitable[bool]], plane: ControlPlane, controller: Controller, what: str
) -> None:
    """Wait until the condition holds. Raises ComponentFailed if it does not, or if the process ends."""
    try:
        async with asyncio.timeout(limits.CONTROL_PLANE_START_TIMEOUT_S):
            while not await so():
                plane.require_running(controller.name)
                await asyncio.sleep(limits.CONTROL_PLANE_POLL_S)
    except TimeoutError:
        raise ComponentFailed(f"{controller.name}: waited in vain for {what}") from None


async def _has_handler(url: str) -> bool:
    """Whether the controller has a handler for this URL; it registers them one after the other."""
    async with aiohttp.ClientSession() as session:
        with contextlib.suppress(aiohttp.ClientConnectionError):
            async with session.post(url, json={}, ssl=False) as answer:
                return answer.status != 404
    return False


async def _refused(session: aiohttp.ClientSession, probe: Manifest) -> bool:
    """Whether the API server calls the webhooks yet: it learns of a new configuration by a watch."""
    path = f"/api/v1/namespaces/{probe['metadata']['namespace']}/configmaps"
    async with session.post(path, json=probe, params={"dryRun": "All"}) as answer:
        return not answer.ok
