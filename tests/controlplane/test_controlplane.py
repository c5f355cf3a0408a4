"""The local control plane: real etcd, kube-apiserver, kube-controller-manager and KWOK."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from phalanx_controlplane.components import KubeScheduler
from phalanx_controlplane.controlplane import ControlPlane

from tests.controlplane_fixture import require_binaries
from tests.fake_objects import create_many, fake_node, fake_pod

pytestmark = pytest.mark.controlplane

GPU_NODE = {"cpu": "8", "nvidia.com/gpu": "8"}


async def get(session: aiohttp.ClientSession, path: str) -> dict[str, Any]:
    async with session.get(path, raise_for_status=True) as answer:
        found: dict[str, Any] = await answer.json()
        return found


async def until(look: Callable[[], Awaitable[bool]]) -> None:
    """Check again until the condition holds; the limit only ends a test that would never end."""
    async with asyncio.timeout(120):
        while not await look():
            await asyncio.sleep(0.05)


async def bind(session: aiohttp.ClientSession, pod: str, node: str) -> None:
    binding = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
    path = f"/api/v1/namespaces/default/pods/{pod}/binding"
    async with session.post(path, json=binding, raise_for_status=True):
        pass


def condition(node: dict[str, Any], kind: str) -> str | None:
    found = [each["status"] for each in node["status"].get("conditions", []) if each["type"] == kind]
    return found[0] if found else None


async def test_the_version_is_the_one_of_the_module(control_plane: ControlPlane) -> None:
    async with control_plane.session() as session:
        assert (await get(session, "/version"))["gitVersion"].startswith("v1.37.")


async def test_a_fake_node_becomes_ready_and_keeps_its_allocatable(control_plane: ControlPlane) -> None:
    async with control_plane.session() as session:
        await create_many(session, [fake_node("ready-1", labels={"rack": "r1"}, allocatable=GPU_NODE)])

        async def ready() -> bool:
            node = await get(session, "/api/v1/nodes/ready-1")
            return condition(node, "Ready") == "True" and not node["spec"].get("taints")

        await until(ready)
        node = await get(session, "/api/v1/nodes/ready-1")
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert node["metadata"]["labels"]["rack"] == "r1"


async def test_a_pod_bound_by_a_client_runs(control_plane: ControlPlane) -> None:
    async with control_plane.session() as session:
        pod = fake_pod("by-hand", requests={"cpu": "1", "nvidia.com/gpu": "1"})
        await create_many(session, [fake_node("host-1", allocatable=GPU_NODE), pod])
        await bind(session, "by-hand", "host-1")

        async def running() -> bool:
            found = await get(session, "/api/v1/namespaces/default/pods/by-hand")
            return str(found["status"]["phase"]) == "Running"

        await until(running)


async def test_pods_bound_before_their_nodes_exist_run(control_plane: ControlPlane) -> None:
    names = [f"early-{number}" for number in range(100)]
    async with control_plane.session() as session:
        await create_many(session, [fake_pod(name) for name in names])
        await asyncio.gather(*(bind(session, name, name) for name in names))
        await create_many(session, [fake_node(name) for name in names])

        async def all_running() -> bool:
            found = await get(session, "/api/v1/namespaces/default/pods?fieldSelector=status.phase=Running")
            return set(names) <= {pod["metadata"]["name"] for pod in found["items"]}

        await until(all_running)


async def test_a_service_account_has_only_the_permissions_of_its_roles(control_plane: ControlPlane) -> None:
    path = await control_plane.service_account_kubeconfig("default", "nobody")
    token = next(line.split()[-1] for line in path.read_text().splitlines() if "token:" in line)
    async with control_plane.session() as session:
        headers = {"Authorization": f"Bearer {token}"}
        async with session.get("/api/v1/nodes", headers=headers) as answer:
            assert answer.status == 403
            assert "system:serviceaccount:default:nobody" in await answer.text()


async def test_two_control_planes_run_side_by_side_and_survive_an_apiserver_restart(
    control_plane: ControlPlane,
) -> None:
    async with ControlPlane.start(kube_scheduler=KubeScheduler()) as other:
        assert other.url != control_plane.url
        async with other.session() as session:
            await kube_scheduler_places_pods(session)
            await create_many(session, [fake_node("only-here")])
        await other.restart_apiserver(kill=True)
        async with other.session() as session, control_plane.session() as first:
            await get(session, "/api/v1/nodes/only-here")
            async with first.get("/api/v1/nodes/only-here") as answer:
                assert answer.status == 404
        await other.stop_component("kube-scheduler")
        logs = other.tail_logs()
        assert "--- kube-apiserver (runs;" in logs
        assert "--- kube-scheduler (has ended;" in logs
    assert not other.run_folder.exists()


async def kube_scheduler_places_pods(session: aiohttp.ClientSession) -> None:
    pods = [fake_pod(f"p{number}", scheduler_name="default-scheduler") for number in range(100)]
    await create_many(session, [*(fake_node(f"n{number}") for number in range(10)), *pods])

    async def all_running() -> bool:
        found = await get(session, "/api/v1/namespaces/default/pods?fieldSelector=status.phase=Running")
        return len(found["items"]) == len(pods)

    await until(all_running)


async def test_no_process_outlives_a_killed_owner_and_the_logs_of_a_failed_run_are_kept() -> None:
    require_binaries()
    up = [sys.executable, "-m", "phalanx_controlplane", "up"]
    owner = subprocess.Popen(up, stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None
        line = await asyncio.to_thread(owner.stdout.readline)
        run_folder = Path(line.strip().partition("=")[2]).parent
        assert len(processes_of(run_folder)) == 4
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.communicate()

    async def gone() -> bool:
        return not processes_of(run_folder)

    await until(gone)
    with pytest.raises(RuntimeError, match="folder of the dead owner exists: False") as failure:
        async with ControlPlane.start(kwok=False, controller_manager=False):
            raise RuntimeError(f"folder of the dead owner exists: {run_folder.exists()}")
    kept = Path(failure.value.__notes__[0].split()[-1])
    assert "kube-apiserver.log" in {path.name for path in kept.iterdir()}


def processes_of(run_folder: Path) -> list[int]:
    """Processes whose working directory is the run folder, even if it was removed."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str((entry / "cwd").readlink()).startswith(str(run_folder)):
                found.append(int(entry.name))
        except OSError:
            continue
    return found
