"""The commands on a real API server with the rights of two tenants: each sees its own.

`vision` may use its namespace only. `speech` may also read nodes and the cluster-wide kinds of Phalanx.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from phalanx.cli.app import main
from phalanx_controlplane.controlplane import ControlPlane

from tests.cli.conftest import Done
from tests.cli.verbs.conftest import STEP, gpu_node, gpu_pod, pod_group, queue, waiting_status
from tests.crds import api
from tests.crds.files import definitions
from tests.deploy.manifests import base
from tests.fake_objects import Manifest, collection_path, namespace

pytestmark = [pytest.mark.controlplane, pytest.mark.asyncio(loop_scope="session")]

RBAC = "rbac.authorization.k8s.io/v1"
VISION, SPEECH = "verbs-vision", "verbs-speech"
ROLES = ("system:aggregate-to-view", "phalanx-view", "phalanx-edit")
CLUSTER: Manifest = {
    "apiVersion": RBAC,
    "kind": "ClusterRole",
    "metadata": {"name": "verbs-cluster"},
    "rules": [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
        {"apiGroups": ["scheduling.phalanx.dev"], "resources": ["queues", "topologies"], "verbs": ["list"]},
    ],
}


def bound(role: str, user: str, *, space: str = "") -> Manifest:
    """The binding of a role to the service account of a tenant, in its namespace or for the cluster."""
    kind = "RoleBinding" if space else "ClusterRoleBinding"
    return {
        "apiVersion": RBAC,
        "kind": kind,
        "metadata": {"name": f"verbs-{role.replace(':', '-')}", **({"namespace": space} if space else {})},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": user}],
    }


def gangs(space: str) -> list[Manifest]:
    """A gang that runs and one that waits."""
    status = waiting_status("InsufficientCapacity", f"secret of {space}", position=4, step=STEP)
    return [
        pod_group("runs", space=space, minMember=1, queue="verbs-queue", status={"phase": "Running"}),
        gpu_pod(f"{space}-runs", space=space, group="runs", node="verbs-node", gpus=2),
        pod_group("waits", space=space, minMember=1, queue="verbs-queue", status=status),
        gpu_pod(f"{space}-waits", space=space, group="waits", gpus=9),
    ]


async def put(session: aiohttp.ClientSession, *objects: Manifest) -> None:
    """Create objects with their statuses."""
    for item in objects:
        path = f"{collection_path(item)}/{item['metadata']['name']}"
        plain = {key: value for key, value in item.items() if key != "status"}
        await send(session, f"{path}?fieldManager=tests&force=true", plain, "apply-patch+yaml")
        if item.get("status"):
            await send(session, f"{path}/status", {"status": item["status"]}, "merge-patch+json")


async def send(session: aiohttp.ClientSession, path: str, body: Manifest, how: str) -> None:
    headers = {"Content-Type": f"application/{how}"}
    async with session.patch(path, json=body, headers=headers) as answer:
        assert answer.status < 300, await answer.text()


def with_namespace(kubeconfig: Path, space: str) -> Path:
    """The same file, whose context names the namespace as a tenant's does."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = space
    kubeconfig.write_text(yaml.safe_dump(config))
    return kubeconfig


@asynccontextmanager
async def two_tenants(
    plane: ControlPlane, spaces: tuple[str, str] = (VISION, SPEECH)
) -> AsyncIterator[dict[str, Path]]:
    """The kubeconfig of the tenant of each namespace, the second of whom may read the cluster.

    The namespaces remain for a while afterwards, so no other test can use them.
    """
    files: dict[str, Path] = {}
    async with plane.session() as session:
        await api.install(session, list(definitions().values()))
        for name in ("phalanx-view", "phalanx-edit"):
            await api.apply(session, base("ClusterRole", name))
        await put(session, CLUSTER, queue("verbs-queue", status={"allocated": {"nvidia.com/gpu": "4"}}))
        node = gpu_node("verbs-node", rack="a")
        await put(session, {**node, "metadata": {**node["metadata"], "annotations": {}}})
        for space in spaces:
            await put(session, namespace(space))
            files[space] = with_namespace(await plane.service_account_kubeconfig(space, "tenant"), space)
            await put(session, *(bound(role, space, space=space) for role in ROLES), *gangs(space))
        await put(session, bound("verbs-cluster", spaces[1]))
        try:
            yield files
        finally:
            for path in (
                *(f"/api/v1/namespaces/{space}" for space in spaces),
                "/api/v1/nodes/verbs-node",
                "/apis/scheduling.phalanx.dev/v1alpha1/queues/verbs-queue",
                f"/apis/{RBAC}/clusterrolebindings/verbs-verbs-cluster",
            ):
                async with session.delete(path) as answer:
                    assert answer.status < 300, await answer.text()


class Tenant:
    """Runs commands as one tenant."""

    def __init__(self, kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._options = ["--kubeconfig", str(kubeconfig)]
        self._capsys = capsys

    async def run(self, *arguments: str) -> Done:
        self._capsys.readouterr()
        code = await asyncio.to_thread(main, [*arguments, *self._options])
        return Done(code, *self._capsys.readouterr())

    async def json(self, *arguments: str) -> Any:
        return json.loads((await self.run(*arguments, "-o", "json")).out)


async def test_each_tenant_sees_its_own_and_no_more(
    control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    async with two_tenants(control_plane) as files:
        vision = Tenant(files[VISION], capsys)
        speech = Tenant(files[SPEECH], capsys)
        await check_gangs(vision, speech)
        await check_hold(vision)
        await check_cluster(vision, speech)


async def check_gangs(vision: Tenant, speech: Tenant) -> None:
    for tenant, own, other in ((vision, VISION, SPEECH), (speech, SPEECH, VISION)):
        rows = await tenant.json("jobs")
        assert [(row["namespace"], row["name"]) for row in rows] == [(own, "waits"), (own, "runs")]
        screen = await tenant.run("why", "waits")
        assert (screen.code, f"secret of {own}" in screen.out) == (5, True)
        asked = await tenant.run("why", "waits", "-n", other)
        assert (asked.code, asked.out) == (1, "")
        assert asked.err == f"why: pods are left out: you may not list them in namespace {other}\n"
        everywhere = await tenant.run("jobs", "-A")
        assert everywhere.code == 0
        assert f"pods of other namespaces than {own} are left out" in everywhere.err
        assert own in everywhere.out
        assert other not in everywhere.out


async def check_hold(vision: Tenant) -> None:
    held = await vision.run("hold", "waits")
    assert (held.code, held.out) == (0, f"podgroup {VISION}/waits held\n"), held.err
    refused = await vision.run("hold", "waits", "-n", SPEECH)
    assert (refused.code, refused.out) == (1, "")
    released = await vision.run("release", "waits")
    assert (released.code, released.out) == (0, f"podgroup {VISION}/waits released\n")


async def check_cluster(vision: Tenant, speech: Tenant) -> None:
    """Queues, nodes and the topology: only with the right to read them, and never with the use of others."""
    for verb, needed in (("queues", "queues"), ("nodes", "nodes"), ("topo", "nodes")):
        refused = await vision.run(verb)
        assert (refused.code, refused.out) == (1, "")
        assert f"{needed}" in refused.err
        assert "you may not list them" in refused.err
    names = [row["name"] for row in (await speech.json("queues"))["queues"]]
    assert "verbs-queue" in names
    nodes = await speech.run("nodes", "verbs-node")
    assert nodes.code == 0
    assert "?/8" in nodes.out
    assert VISION not in nodes.out
    assert "pods of other namespaces than verbs-speech are left out" in nodes.err
    frame = await vision.run("top")
    assert (frame.code, SPEECH in frame.out) == (0, False)
    refused = await speech.run("what-if", "--drain", "verbs-node")
    assert (refused.code, refused.out) == (1, "")
