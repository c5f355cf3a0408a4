"""The jobs of Kubeflow's training operator (v1): their pods have roles by replica type.

An elastic PyTorchJob may start with `minReplicas` pods. The others are surplus.
"""

from typing import Final

from phalanx.model.workloads.kind import RolePaths, WorkloadKind

_POLICY: Final = "spec.runPolicy.schedulingPolicy"


def _job(kind: str, replicas: str, types: tuple[str, ...], minimum: tuple[str, ...] = ()) -> WorkloadKind:
    """A kind with these replica types, those that every job needs first; `replicas` is their field."""
    return WorkloadKind(
        api_version="kubeflow.org/v1",
        kind=kind,
        plural=f"{kind.lower()}s",
        only_this_version=kind == "MPIJob",
        roles=tuple(
            RolePaths(
                at=f"spec.{replicas}.{each}",
                called=each.lower(),
                pods="replicas",
                missing=0 if (kind, each) == ("MPIJob", "Worker") else 1,
                template="template.spec",
            )
            for each in types
        ),
        role_label="training.kubeflow.org/replica-type",
        minimum=(f"{_POLICY}.minAvailable", *minimum),
        queue=f"{_POLICY}.queue",
        priority_class=f"{_POLICY}.priorityClass",
        suspended="spec.runPolicy.suspend",
        ended_conditions=("Succeeded", "Failed"),
        has_run=tuple(f"status.replicaStatuses.{each}.failed" for each in types),
    )


TRAINING_JOBS: Final = (
    _job("PyTorchJob", "pytorchReplicaSpecs", ("Master", "Worker"), ("spec.elasticPolicy.minReplicas",)),
    _job("TFJob", "tfReplicaSpecs", ("Chief", "Master", "PS", "Worker", "Evaluator")),
    _job("MPIJob", "mpiReplicaSpecs", ("Launcher", "Worker")),
    _job("XGBoostJob", "xgbReplicaSpecs", ("Master", "Worker")),
    _job("PaddleJob", "paddleReplicaSpecs", ("Master", "Worker")),
    _job("JAXJob", "jaxReplicaSpecs", ("Worker",)),
)
