"""TrainJob of Kubeflow's trainer (v2): it makes one JobSet, which has the roles of its pods.

It is read only to suspend it: it would resume its JobSet.
"""

from typing import Final

from phalanx.model.workloads.kind import WorkloadKind

TRAIN_JOB: Final = WorkloadKind(
    api_version="trainer.kubeflow.org/v1alpha1",
    kind="TrainJob",
    plural="trainjobs",
    roles=(),
    suspended="spec.suspend",
)
