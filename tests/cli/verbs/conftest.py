"""A small cluster of two tenants on the embedded API server, and commands against it."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from phalanx.cli.app import main
from phalanx.clock import SystemClock
from phalanx.model.api.values import utc
from phalanx.ports import Response
from phalanx_simulator.embedded.apiserver.http import serving
from phalanx_simulator.embedded.apiserver.requests import Request
from phalanx_simulator.embedded.apiserver.server import ApiServer, json_response

from tests.cli.conftest import Done
from tests.fake_objects import Manifest, collection_path, fake_node, fake_pod, namespace

PHALANX = "scheduling.phalanx.dev/v1alpha1"
GROUP = "scheduling.phalanx.dev/pod-group"


def ago(seconds: int) -> str:
    """The time so many seconds before now, as the API writes it."""
    return utc(SystemClock().now_ms() // 1000 - seconds).isoformat().replace("+00:00", "Z")


class GuardedServer(ApiServer):
    """An API server that refuses what starts with one of these paths."""

    forbidden: tuple[str, ...] = ()

    def handle(self, request: Request) -> Response:
        if request.path.startswith(self.forbidden) and self.forbidden:
            message = f"you may not use {request.path}"
            status = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "message": message}
            return json_response({**status, "code": 403}, status=403)
        return super().handle(request)


class World:
    """The server, and the commands that a user with its kubeconfig runs."""

    def __init__(self, server: GuardedServer, kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.server = server
        self.kubeconfig = kubeconfig
        self._capsys = capsys

    def create(self, *objects: Manifest) -> None:
        """Create objects, with their statuses."""
        for item in objects:
            path = collection_path(item)
            self.send("POST", path, item)
            if item["kind"] == "Node":
                # Its admission marks a new node as not ready; a node controller would take that back.
                taints = item.get("spec", {}).get("taints")
                self.send("PATCH", f"{path}/{item['metadata']['name']}", {"spec": {"taints": taints}})
            if "status" in item:
                name = item["metadata"]["name"]
                self.send("PATCH", f"{path}/{name}/status", {"status": item["status"]})

    def send(self, method: str, path: str, body: Any) -> Any:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = ApiServer.handle(self.server, Request(method, path, {}, json.dumps(body).encode(), kind))
        assert answer.status < 300, answer.body
        return json.loads(answer.body)

    async def run(self, *arguments: str) -> Done:
        self._capsys.readouterr()
        given = [*arguments, "--kubeconfig", str(self.kubeconfig)]
        code = await asyncio.to_thread(main, given)
        out, err = self._capsys.readouterr()
        return Done(code, out, err)

    async def json(self, *arguments: str) -> Any:
        """What the command prints with -o json."""
        done = await self.run(*arguments, "-o", "json")
        return json.loads(done.out)


@pytest_asyncio.fixture
async def world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[World]:
    server = GuardedServer(clock=SystemClock())
    async with serving(server, token="verbs") as endpoint:
        kubeconfig = await asyncio.to_thread(endpoint.write_kubeconfig, tmp_path / "kubeconfig")
        yield World(server, kubeconfig, capsys)


def queue(name: str, *, status: Manifest | None = None, **spec: Any) -> Manifest:
    meta = {"name": name}
    return {"apiVersion": PHALANX, "kind": "Queue", "metadata": meta, "spec": spec, "status": status or {}}


def pod_group(name: str, *, space: str, status: Manifest | None = None, **spec: Any) -> Manifest:
    meta = {"name": name, "namespace": space}
    body = {"minMember": 2, **spec}
    return {"apiVersion": PHALANX, "kind": "PodGroup", "metadata": meta, "spec": body, "status": status or {}}


def gpu_pod(
    name: str, *, space: str, group: str = "", node: str = "", gpus: int = 4, **meta: Any
) -> Manifest:
    labels = {GROUP: group} if group else {}
    item = fake_pod(name, namespace=space, labels=labels, requests={"nvidia.com/gpu": str(gpus)})
    item["metadata"] |= meta
    if node:
        item["spec"]["nodeName"] = node
        item["status"] = {"phase": "Running", "startTime": ago(600)}
    return item


def gpu_node(name: str, *, rack: str, gpus: int = 8, **status: Any) -> Manifest:
    node = fake_node(name, labels={"rack": rack}, allocatable={"nvidia.com/gpu": str(gpus)})
    node["status"] |= status
    return node


def waiting_status(reason: str, message: str, *, position: int, step: str) -> Manifest:
    condition = {
        "type": "Scheduled",
        "status": "False",
        "reason": reason,
        "message": f"{message}. nodes: 3 insufficient nvidia.com/gpu; rack a: fits 1 of 2 pods. {step}",
        "lastTransitionTime": ago(100),
    }
    return {
        "phase": "Pending",
        "reason": reason,
        "message": message,
        "nextStep": step,
        "queuePosition": position,
        "conditions": [condition],
        "expectedStart": {"at": ago(-3600), "method": "runtime.max of running gangs"},
    }


MESSAGE = "16 nvidia.com/gpu needed, 4 free"
STEP = "Wait until vision/busy ends; to start now, lower minMember to 1"


def two_tenants() -> Iterable[Manifest]:
    """Two namespaces: in `vision` a gang runs and another waits, in `speech` there is a single pod."""
    yield namespace("vision", labels={"scheduling.phalanx.dev/queue": "vision"})
    yield namespace("speech")
    used = {"allocated": {"nvidia.com/gpu": "8"}, "borrowed": {"nvidia.com/gpu": "4"}, "pendingGangs": 1}
    yield queue("all", weight=1, status={"allocated": {"nvidia.com/gpu": "8"}, "pendingGangs": 1})
    yield queue(
        "vision",
        parent="all",
        weight=3,
        guarantee={"nvidia.com/gpu": "4"},
        limit={"nvidia.com/gpu": "32"},
        status={**used, "fairShare": {"nvidia.com/gpu": "12"}, "pendingPods": 2},
    )
    for name, rack in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        yield gpu_node(name, rack=rack)
    topology = {"levels": [{"name": "rack", "nodeLabel": "rack"}]}
    yield {"apiVersion": PHALANX, "kind": "Topology", "metadata": {"name": "default"}, "spec": topology}
    running = {"phase": "Running", "queue": "vision", "startedAt": ago(600)}
    yield pod_group("busy", space="vision", status={**running, "placement": {"level": "rack", "domain": "a"}})
    yield gpu_pod("busy-0", space="vision", group="busy", node="a1")
    yield gpu_pod("busy-1", space="vision", group="busy", node="a2")
    waits = waiting_status("InsufficientCapacity", MESSAGE, position=1, step=STEP)
    yield pod_group("large", space="vision", status=waits)
    yield gpu_pod("large-0", space="vision", group="large", gpus=8)
    yield gpu_pod("large-1", space="vision", group="large", gpus=8)
    yield gpu_pod("note", space="speech", node="b1", gpus=1)


@pytest.fixture
def tenants(world: World) -> World:
    """The world with two tenants in it."""
    world.create(*two_tenants())
    return world
