"""MPIJob of Kubeflow's MPI operator: workers, and a launcher, whose pod a Job makes.

The launcher is made with the workers, or when they are ready. MPIJobs of the training operator are in
`training_v1.py`: they have the same API group, and version v1.
"""

from typing import Final

from phalanx.model.workloads.kind import PathValue, RolePaths, WorkloadKind

MPI_JOB: Final = WorkloadKind(
    api_version="kubeflow.org/v2beta1",
    kind="MPIJob",
    plural="mpijobs",
    roles=(
        RolePaths(
            at="spec.mpiReplicaSpecs.Worker",
            called="worker",
            pods="replicas",
            missing=0,
            template="template.spec",
        ),
        RolePaths(
            at="spec.mpiReplicaSpecs.Launcher", called="launcher", pods="replicas", template="template.spec"
        ),
    ),
    role_label="training.kubeflow.org/job-role",
    through=("Job.batch",),
    in_order=PathValue("spec.launcherCreationPolicy", "WaitForWorkersReady"),
    minimum=("spec.runPolicy.schedulingPolicy.minAvailable",),
    queue="spec.runPolicy.schedulingPolicy.queue",
    priority_class="spec.runPolicy.schedulingPolicy.priorityClass",
    suspended="spec.runPolicy.suspend",
    ended_conditions=("Succeeded", "Failed"),
    has_run=("status.replicaStatuses.Worker.failed", "status.replicaStatuses.Launcher.failed"),
)
