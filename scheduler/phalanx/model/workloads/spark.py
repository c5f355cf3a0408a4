"""SparkApplication of the Spark operator: a driver, which makes the executors when it runs.

The driver starts only with capacity for its executors, which is reserved; with dynamic allocation for the
least number of them. `model/conversion/spark.py` completes these fields by the defaults of Spark, and by
`sparkConf`.
"""

from typing import Final

from phalanx.model.workloads.kind import RequestPaths, RolePaths, WorkloadKind


def _scheduler(role: str) -> tuple[str, ...]:
    """The operator's own field goes before Spark's configuration, and that before the pod template."""
    conf = "/spec.sparkConf"
    return (
        "schedulerName",
        f"{conf}.[spark.kubernetes.{role}.scheduler.name]",
        f"{conf}.[spark.kubernetes.scheduler.name]",
        "template.spec.schedulerName",
    )


SPARK_APPLICATION: Final = WorkloadKind(
    api_version="sparkoperator.k8s.io/v1beta2",
    kind="SparkApplication",
    plural="sparkapplications",
    roles=(
        RolePaths(at="spec.driver", called="driver", scheduler=_scheduler("driver")),
        RolePaths(
            at="spec.executor",
            called="executor",
            pods="instances",
            least="/spec.dynamicAllocation.minExecutors",
            scheduler=_scheduler("executor"),
            later=True,
            requests=RequestPaths(
                cpu=("coreRequest", "cores"),
                java_memory="memory",
                java_overhead="memoryOverhead",
                device_name="gpu.name",
                device_count="gpu.quantity",
            ),
        ),
    ),
    role_label="spark-role",
    elastic="spec.dynamicAllocation.enabled",
    reserves=True,
    ended="status.applicationState.state",
    ended_values=("COMPLETED", "FAILED", "SUCCEEDING", "FAILING"),
)
