"""JobSet of sigs.k8s.io: Jobs that make up one workload. Each replicated job is a role."""

from typing import Final

from phalanx.model.workloads.kind import PathValue, RolePaths, WorkloadKind

JOB_SET: Final = WorkloadKind(
    api_version="jobset.x-k8s.io/v1alpha2",
    kind="JobSet",
    plural="jobsets",
    roles=(
        RolePaths(
            at="spec.replicatedJobs",
            name="name",
            owners="replicas",
            pods="template.spec.parallelism",
            completions="template.spec.completions",
            template="template.spec.template.spec",
            annotations="template.metadata.annotations",
            depends_on="dependsOn",
        ),
    ),
    role_label="jobset.sigs.k8s.io/replicatedjob-name",
    in_order=PathValue("spec.startupPolicy.startupPolicyOrder", "InOrder"),
    suspended="spec.suspend",
    ended="status.terminalState",
    has_run=("status.restarts",),
    one_pod_first="alpha.jobset.sigs.k8s.io/exclusive-topology",
)
