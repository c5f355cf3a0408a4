"""The coscheduling plugin of scheduler-plugins, in the configuration of its manifests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from msgspec import Struct
from phalanx_controlplane.controlplane import ControlPlane
from phalanx_controlplane.programs import Built

from bench.harness.contenders import Contender, Running, program
from bench.harness.dialects import pod_group, with_scheduler
from bench.harness.gangs import Gang, Manifest
from bench.peers.programs import peer

API_VERSION = "scheduling.x-k8s.io/v1alpha1"
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
CLIENT_LIMIT = 5000
CRD = "manifests/coscheduling/crd.yaml"
CONFIGURATION = "manifests/coscheduling/scheduler-config.yaml"

PROGRAM = peer(
    "coscheduling",
    source="sigs.k8s.io/scheduler-plugins",
    package="sigs.k8s.io/scheduler-plugins/cmd/scheduler",
    files=(CRD, CONFIGURATION),
)


class CoschedulingDialect(Struct, frozen=True):
    """Its PodGroups have no roles, levels or queues. A gang of one pod is a pod without a PodGroup."""

    def crds(self) -> list[Manifest]:
        """Its PodGroup."""
        return PROGRAM.built().read(CRD)

    def setup(self) -> list[Manifest]:
        """Nothing."""
        return []

    def ready_path(self) -> str:
        """The path of PodGroups."""
        return f"/apis/{API_VERSION}/podgroups"

    def group(self, gang: Gang) -> list[Manifest]:
        """A PodGroup that needs all pods."""
        if gang.size == 1:
            return []
        return [pod_group(API_VERSION, gang, {"minMember": gang.size})]

    def pod(self, gang: Gang, pod: Manifest) -> Manifest:
        """The pod with the label of its PodGroup."""
        labels = {POD_GROUP_LABEL: gang.name} if gang.size > 1 else {}
        return with_scheduler(pod, "default-scheduler", labels=labels)


def configuration(built: Built, *, kubeconfig: Path) -> Manifest:
    """The configuration of its manifests, with higher client limits."""
    (config,) = built.read(CONFIGURATION)
    connection = {"kubeconfig": str(kubeconfig), "qps": CLIENT_LIMIT, "burst": CLIENT_LIMIT}
    return {**config, "clientConnection": connection}


@asynccontextmanager
async def _start(plane: ControlPlane) -> AsyncIterator[Running]:
    built = PROGRAM.built()
    path = plane.run_folder / "coscheduling.yaml"
    path.write_text(yaml.safe_dump(configuration(built, kubeconfig=plane.kubeconfig_path)))
    command = (str(built.program), f"--config={path}", "--secure-port=0")
    async with program(*command, log=plane.logs_folder / "coscheduling.log") as running:
        yield running


COSCHEDULING = Contender(
    name="coscheduling",
    dialect=CoschedulingDialect(),
    start=_start,
    deviation="client limits of 5,000 requests a second; no health and metrics pages; no controller",
    build=PROGRAM.build,
    version=PROGRAM.version,
)
