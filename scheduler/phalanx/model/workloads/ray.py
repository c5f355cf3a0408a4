"""RayCluster and RayJob of KubeRay: a head, and groups of workers, which an autoscaler may change.

The pod that submits the work of a RayJob has no role. It is made when the others run.
"""

from typing import Final

from phalanx.model.workloads.kind import RolePaths, WorkloadKind


def _roles(cluster: str) -> tuple[RolePaths, ...]:
    """The roles of the description of a cluster that stands at this path."""
    return (
        RolePaths(at=f"{cluster}.headGroupSpec", called="headgroup", template="template.spec"),
        RolePaths(
            at=f"{cluster}.workerGroupSpecs",
            name="groupName",
            pods="replicas",
            missing=0,
            least="minReplicas",
            most="maxReplicas",
            suspended="suspend",
            hosts="numOfHosts",
            hosts_label="ray.io/worker-group-replica-name",
            template="template.spec",
        ),
    )


RAY_CLUSTER: Final = WorkloadKind(
    api_version="ray.io/v1",
    kind="RayCluster",
    plural="rayclusters",
    roles=_roles("spec"),
    role_label="ray.io/group",
    elastic="spec.enableInTreeAutoscaling",
    suspended="spec.suspend",
    has_run=("status.availableWorkerReplicas",),
)

RAY_JOB: Final = WorkloadKind(
    api_version="ray.io/v1",
    kind="RayJob",
    plural="rayjobs",
    roles=_roles("spec.rayClusterSpec"),
    role_label="ray.io/group",
    elastic="spec.rayClusterSpec.enableInTreeAutoscaling",
    suspended="spec.suspend",
    has_run=("status.failed",),
)
