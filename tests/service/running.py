"""A complete scheduler in the process of the test, on the embedded API server, with optional faults."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from phalanx.cache.cache import Cache
from phalanx.clock import SystemClock
from phalanx.deciders.inline import InlineDecider
from phalanx.framework.config import SchedulerConfig
from phalanx.kube.client import Client
from phalanx.kube.leader_election import Identity
from phalanx.observe.metrics import Metrics
from phalanx.observe.ports import StartReports
from phalanx.service.scheduler import Scheduler, SchedulerDependencies
from phalanx_simulator.embedded.apiserver.requests import Request
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.in_memory_transport import InMemoryTransport
from tests.kube.faults import FaultyTransport

Manifest = dict[str, Any]

NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
POD_GROUPS = "/apis/scheduling.phalanx.dev/v1alpha1/namespaces/default/podgroups"
PODS = "/api/v1/namespaces/default/pods"


class World:
    """The API server, the scheduler's transport to it, and its stored objects."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.server = ApiServer(clock=self.clock)
        self.transport = FaultyTransport(InMemoryTransport(self.server))
        self.metrics = Metrics()
        self.stop = asyncio.Event()
        self._created: set[str] = set()

    def create(self, path: str, *manifests: Manifest) -> None:
        """Create objects in a collection."""
        for manifest in manifests:
            self._ask("POST", path, manifest)
            if path == PODS:
                self._created.add(manifest["metadata"]["name"])

    def get(self, path: str) -> Manifest:
        """One object, or a list, as it is now."""
        return self._ask("GET", path, None)

    def nodes_of_pods(self) -> dict[str, str]:
        """Node by pod, of the pods that are bound."""
        pods = self.get(PODS)["items"]
        return {p["metadata"]["name"]: p["spec"]["nodeName"] for p in pods if p["spec"].get("nodeName")}

    def deleting(self) -> set[str]:
        """Names of the pods that are being deleted, or are gone."""
        pods = self.get(PODS)["items"]
        staying = {p["metadata"]["name"] for p in pods if "deletionTimestamp" not in p["metadata"]}
        return self._created - staying

    def put(self, path: str, manifest: Manifest) -> None:
        """Replace an object, as another client would."""
        self._ask("PUT", path, manifest)

    def delete(self, path: str) -> None:
        """Delete an object without a grace period, as another client would."""
        request = Request("DELETE", path, {"gracePeriodSeconds": "0"}, b"", "application/json")
        assert self.server.handle(request).status < 300

    def untaint(self, node: str) -> None:
        """Remove the taint, as the node lifecycle controller does once the node is ready."""
        found = self.get(f"/api/v1/nodes/{node}")
        found["spec"]["taints"] = []
        self._ask("PUT", f"/api/v1/nodes/{node}", found)

    def overwrite_status(self, path: str, **fields: Any) -> None:
        """Write the status, as another client would."""
        found = self.get(path)
        found.setdefault("status", {}).update(fields)
        self._ask("PUT", f"{path}/status", found)

    async def until(self, so: Callable[[], bool]) -> None:
        """Check after each turn of the event loop; the limit only ends a test that would never end."""
        async with asyncio.timeout(20):
            while not so():
                await asyncio.sleep(0.005)

    def _ask(self, method: str, path: str, manifest: Manifest | None) -> Manifest:
        body = b"" if manifest is None else json.dumps(manifest).encode()
        answer = self.server.handle(Request(method, path, {}, body, "application/json"))
        assert answer.status < 300, answer.body
        found: Manifest = json.loads(answer.body)
        return found


@asynccontextmanager
async def running(traces: StartReports | None = None) -> AsyncIterator[World]:
    """A scheduler that leads. It must stop without an error at the end."""
    world, config = World(), SchedulerConfig()
    cache = Cache(scheduler_name=config.scheduler_name)
    scheduler = Scheduler(
        SchedulerDependencies(
            client=Client(world.transport),
            lease_client=Client(InMemoryTransport(world.server)),
            cache=cache,
            decider=InlineDecider(cache=cache, config=config, on_steps=world.metrics.steps_timed),
            clock=world.clock,
            metrics=world.metrics,
            traces=traces,
            identity=Identity(name="one", lease_namespace="default"),
            controller=config.scheduler_name,
        )
    )
    task = asyncio.create_task(scheduler.run(world.stop))
    try:
        yield world
    finally:
        world.stop.set()
        await task
        check_cache(cache)
