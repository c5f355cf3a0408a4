"""StatefulSet and Deployment of Kubernetes: gangs if their pods have a label.

The pods of a StatefulSet come one by one unless its pod management policy is Parallel: then capacity is
reserved for the later ones.
"""

from typing import Final

from phalanx.model.names import LABEL_GANG
from phalanx.model.workloads.kind import PathValue, RolePaths, WorkloadKind

_PODS: Final = (RolePaths(pods="spec.replicas", template="spec.template.spec"),)

STATEFUL_SET: Final = WorkloadKind(
    api_version="apps/v1",
    kind="StatefulSet",
    plural="statefulsets",
    roles=_PODS,
    only_with_labels=(LABEL_GANG, "leaderworkerset.sigs.k8s.io/name"),
    one_by_one=PathValue("spec.podManagementPolicy", "OrderedReady"),
    reserves=True,
)

DEPLOYMENT: Final = WorkloadKind(
    api_version="apps/v1",
    kind="Deployment",
    plural="deployments",
    roles=_PODS,
    only_with_labels=(LABEL_GANG,),
)

REPLICA_SET: Final = WorkloadKind(
    api_version="apps/v1",
    kind="ReplicaSet",
    plural="replicasets",
    roles=_PODS,
    only_with_labels=(LABEL_GANG,),
)
