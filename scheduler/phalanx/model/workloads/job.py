"""Job of Kubernetes: its pods start together. docs/workloads.md states how many that are."""

from typing import Final

from phalanx.model.workloads.kind import RolePaths, WorkloadKind

JOB: Final = WorkloadKind(
    api_version="batch/v1",
    kind="Job",
    plural="jobs",
    roles=(
        RolePaths(
            pods="spec.parallelism",
            completions="spec.completions",
            template="spec.template.spec",
        ),
    ),
    suspended="spec.suspend",
    ended_conditions=("SuccessCriteriaMet", "FailureTarget", "Complete", "Failed"),
    succeeded="status.succeeded",
    failed_indexes="status.failedIndexes",
    has_run=("status.succeeded", "status.failed"),
)
