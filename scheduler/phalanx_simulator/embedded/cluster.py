"""The embedded cluster: API server over HTTP on loopback, kubelets, controllers of
kube-controller-manager."""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

from msgspec import Struct
from phalanx.clock import Clock

from phalanx_simulator.embedded.apiserver.http import Endpoint, serving
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.controllers.disruption import Disruption
from phalanx_simulator.embedded.controllers.garbage_collector import GarbageCollector
from phalanx_simulator.embedded.controllers.jobs import JobController
from phalanx_simulator.embedded.controllers.node_lifecycle import NodeLifecycle
from phalanx_simulator.embedded.controllers.pod_by_pod_scheduler import PodByPodScheduler
from phalanx_simulator.embedded.controllers.pod_garbage_collector import PodGarbageCollector
from phalanx_simulator.embedded.controllers.taint_eviction import TaintEviction
from phalanx_simulator.embedded.controllers.volumes import VolumeController
from phalanx_simulator.embedded.kubelets.kubelet import Kubelets


class EmbeddedCluster(Struct, frozen=True):
    """A running embedded cluster.

    `endpoint.write_kubeconfig` writes a kubeconfig for it.
    """

    server: ApiServer
    endpoint: Endpoint


@asynccontextmanager
async def embedded_cluster(
    *, clock: Clock, token: str = "", pod_by_pod: bool = False
) -> AsyncIterator[EmbeddedCluster]:
    """Run a cluster without nodes while the context lasts.

    `pod_by_pod` adds a scheduler that places pods of default-scheduler one by one.
    """
    server = ApiServer(clock=clock)
    with running_controllers(server, pod_by_pod=pod_by_pod):
        async with serving(server, token=token) as endpoint:
            yield EmbeddedCluster(server, endpoint)


class Controllers(ExitStack):
    """All controllers and kubelets of a cluster, running until closed."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__()
        client = Client(server)
        resources = [kind.resource for kind in server.types.all()]
        self.kubelets = Kubelets(client)
        parts = (
            GarbageCollector(client, resources=resources),
            JobController(client),
            self.kubelets,
            NodeLifecycle(client, self.kubelets),
            TaintEviction(client),
            PodGarbageCollector(client),
            Disruption(client),
            VolumeController(client),
        )
        for part in parts:
            self.callback(part.close)


def running_controllers(server: ApiServer, *, pod_by_pod: bool = False) -> Controllers:
    """Start the controllers.

    `pod_by_pod` adds a scheduler for pods of default-scheduler.
    """
    controllers = Controllers(server)
    if pod_by_pod:
        controllers.callback(PodByPodScheduler(Client(server)).close)
    return controllers
