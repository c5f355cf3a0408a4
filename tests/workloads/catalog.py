"""Every workload of `deploy/examples/workloads`, and what its controller makes of it."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import yaml
from msgspec import Struct

from tests.deploy.manifests import DEPLOY
from tests.kwok.manifests import RACK, Manifest
from tests.kwok.site import Site, condition
from tests.workloads.spark_driver import spark_drivers

EXAMPLES = DEPLOY / "examples" / "workloads"


def has(kind: str) -> Callable[[Manifest], bool]:
    """Whether a condition of this type is true."""
    return lambda found: condition(found, kind) == "True"


@asynccontextmanager
async def nothing_beside(_site: Site) -> AsyncIterator[None]:
    """Nothing."""
    yield


Change = Callable[[Manifest], None]
"""Changes a document before it is applied."""


class Apart(Struct, frozen=True):
    """How a user asks for each group of pods in a rack of its own."""

    ask: Change
    group: str
    """The label of pods with the name of their group."""
    pods: int
    """Of all groups."""


class Elastic(Struct, frozen=True):
    """How a user allows fewer pods."""

    allow: Change
    nodes: int
    """On which `pods` can run, and no more."""
    pods: int
    """The fewest that it starts with."""


def annotated(key: str, value: str) -> Change:
    """Set an annotation."""
    return lambda document: document["metadata"].setdefault("annotations", {}).update({key: value})


def with_spec(**fields: object) -> Change:
    """Set fields of the spec."""
    return lambda document: document["spec"].update(fields)


class Workload(Struct, frozen=True, kw_only=True):
    """One file, of which the last document is the workload itself."""

    name: str
    """The file without its extension."""
    controllers: tuple[str, ...]
    """Beside those of Kubernetes."""
    pods: int
    """Pods that run at the same time."""
    waiting: int
    """Pods that exist while none is placed; 0 if it is no gang."""
    ends: Mapping[str, str] | None
    """Labels of the pods that end by themselves; without labels all do. None: it runs until it is deleted.
    `{name}` stands for the name of the workload."""
    done: Callable[[Manifest], bool]
    """Whether it has ended, or whether it serves if it has no end, by its status."""
    suspend: tuple[str, ...] = ()
    """The path of the field that suspends it; none if it cannot be suspended."""
    scaled: tuple[tuple[str, ...], object, int] | None = None
    """The path of a field, another value of it, and the number of pods by then; None if it keeps its pods."""
    apart: Apart | None = None
    """None if it has no groups."""
    elastic: Elastic | None = None
    """None if it always needs all of its pods."""
    smaller: Elastic | None = None
    """The same where it keeps fewer pods then; None if nobody can tell its controller."""
    replaced: Mapping[str, str] | None = {}
    """Labels of the pods that its controller replaces if they are evicted; without labels all. None: none."""
    beside: Callable[[Site], AbstractAsyncContextManager[None]] = nothing_beside
    """What runs for its pods in the test, where it matters: KWOK runs no programs."""
    pending: Mapping[str, str] = {}
    """Why an event cannot be tested yet, by the name of the event; `*` stands for all of them."""

    @property
    def file(self) -> Path:
        """The file."""
        return EXAMPLES / f"{self.name}.yaml"

    def manifests(self, space: str) -> list[Manifest]:
        """The documents of the file, in this namespace."""
        documents: list[Manifest] = list(yaml.safe_load_all(self.file.read_text()))
        for document in documents:
            document["metadata"]["namespace"] = space
        return documents


_SUSPEND = ("spec", "suspend")
_RUN_POLICY = ("spec", "runPolicy", "suspend")
_FAIL_WITH_A_POD = ("tfjob", "xgboostjob")
"""Their operator counts a deleted pod as failed. Other jobs restart then, by the restart policy OnFailure."""
_FAILS_BY_SUSPENSION = {
    "is_suspended_and_resumed": "its operator counts the pods that a suspension deletes as failed"
}


def _workers_apart(document: Manifest) -> None:
    """Without the driver: a rack with its pod would be free for no Job of workers."""
    del document["spec"]["replicatedJobs"][0]
    annotated("alpha.jobset.sigs.k8s.io/exclusive-topology", RACK)(document)


def _least_of_job(document: Manifest) -> None:
    template = document["spec"]["template"]
    template["metadata"] = {"labels": {"scheduling.phalanx.dev/min-member": "2"}}


WORKLOADS = (
    Workload(
        name="job",
        controllers=(),
        pods=4,
        waiting=4,
        ends={},
        done=has("Complete"),
        suspend=_SUSPEND,
        elastic=Elastic(_least_of_job, nodes=2, pods=2),
        smaller=Elastic(annotated("scheduling.phalanx.dev/min-parallelism", "2"), nodes=2, pods=2),
    ),
    Workload(
        name="cronjob",
        controllers=(),
        pods=2,
        waiting=2,
        ends={},
        done=lambda found: bool(found.get("status", {}).get("lastSuccessfulTime")),
        pending=dict.fromkeys(
            ("is_suspended_and_resumed", "loses_a_pod", "loses_a_node"),
            "its pods are those of a Job, and each test waits for a minute to begin",
        ),
    ),
    Workload(
        name="statefulset",
        controllers=(),
        pods=3,
        waiting=3,
        ends=None,
        done=lambda found: found.get("status", {}).get("availableReplicas") == 3,
        scaled=(("spec", "replicas"), 5, 5),
    ),
    Workload(
        name="deployment",
        controllers=(),
        pods=3,
        waiting=3,
        ends=None,
        done=lambda found: found.get("status", {}).get("availableReplicas") == 3,
        scaled=(("spec", "replicas"), 5, 5),
    ),
    Workload(
        name="jobset",
        controllers=("jobset",),
        pods=5,
        waiting=5,
        ends={},
        done=has("Completed"),
        suspend=_SUSPEND,
        apart=Apart(_workers_apart, group="jobset.sigs.k8s.io/job-key", pods=4),
    ),
    Workload(
        name="leaderworkerset",
        controllers=("lws",),
        pods=6,
        waiting=6,
        ends=None,
        done=has("Available"),
        scaled=(("spec", "replicas"), 1, 3),
        apart=Apart(
            annotated("leaderworkerset.sigs.k8s.io/exclusive-topology", RACK),
            group="leaderworkerset.sigs.k8s.io/group-index",
            pods=6,
        ),
    ),
    Workload(
        name="raycluster",
        controllers=("kuberay",),
        pods=4,
        waiting=4,
        ends=None,
        done=has("RayClusterProvisioned"),
        suspend=_SUSPEND,
        elastic=Elastic(with_spec(enableInTreeAutoscaling=True), nodes=1, pods=2),
    ),
    Workload(
        name="rayjob",
        controllers=("kuberay",),
        pods=4,
        waiting=3,
        ends={"batch.kubernetes.io/job-name": "{name}"},
        done=lambda found: found.get("status", {}).get("jobDeploymentStatus") == "Complete",
        suspend=_SUSPEND,
    ),
    Workload(
        name="rayservice",
        controllers=("kuberay",),
        pods=3,
        waiting=3,
        ends=None,
        done=lambda found: "rayClusterName" in found.get("status", {}).get("pendingServiceStatus", {}),
    ),
    Workload(
        name="mpijob",
        controllers=("mpi-operator",),
        pods=3,
        waiting=3,
        ends={"training.kubeflow.org/job-role": "launcher"},
        done=has("Succeeded"),
        suspend=_RUN_POLICY,
    ),
    Workload(
        name="trainjob",
        controllers=("trainer",),
        pods=3,
        waiting=3,
        ends={},
        done=has("Complete"),
        suspend=_SUSPEND,
    ),
    Workload(
        name="pytorchjob",
        controllers=("training-operator",),
        pods=3,
        waiting=3,
        ends={},
        done=has("Succeeded"),
        suspend=_RUN_POLICY,
        elastic=Elastic(with_spec(elasticPolicy={"minReplicas": 2, "maxReplicas": 3}), nodes=2, pods=2),
    ),
    *[
        Workload(
            name=name,
            controllers=("training-operator",),
            pods=3,
            waiting=3,
            ends={},
            done=has("Succeeded"),
            suspend=_RUN_POLICY,
            replaced=None if name in _FAIL_WITH_A_POD else {},
            pending=_FAILS_BY_SUSPENSION if name == "xgboostjob" else {},
        )
        for name in ("tfjob", "xgboostjob", "paddlejob", "jaxjob")
    ],
    Workload(
        name="sparkapplication",
        controllers=("spark-operator",),
        pods=3,
        waiting=1,
        ends={"spark-role": "driver"},
        elastic=Elastic(
            with_spec(
                dynamicAllocation={
                    "enabled": True,
                    "initialExecutors": 2,
                    "minExecutors": 1,
                    "maxExecutors": 2,
                }
            ),
            nodes=1,
            pods=2,
        ),
        replaced={"spark-role": "executor"},
        beside=spark_drivers,
        done=lambda found: found.get("status", {}).get("applicationState", {}).get("state") == "COMPLETED",
        pending={} if os.environ.get("SPARK_HOME") else {"*": "SPARK_HOME names no Spark"},
    ),
    Workload(
        name="volcanojob",
        controllers=("volcano",),
        pods=3,
        waiting=3,
        ends={},
        done=lambda found: found.get("status", {}).get("state", {}).get("phase") == "Completed",
    ),
)
