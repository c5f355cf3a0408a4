"""StatefulSet and Deployment of Kubernetes: gangs if their pods have a label, which may set their minimum.

A rolling update replaces their pods one by one, and those of a Deployment have another ReplicaSet then: the
gang is that of the whole object.

The pods of a StatefulSet come one by one unless its pod management policy is Parallel: then capacity is
reserved for the later ones.
"""

from typing import Final

from phalanx.model.names import LABEL_GANG, LABEL_MIN_MEMBER
from phalanx.model.workloads.kind import PathValue, RolePaths, WorkloadKind

_LABELS: Final = (LABEL_GANG, LABEL_MIN_MEMBER)
_PODS: Final = (RolePaths(pods="spec.replicas", template="spec.template.spec"),)

STATEFUL_SET: Final = WorkloadKind(
    api_version="apps/v1",
    kind="StatefulSet",
    plural="statefulsets",
    roles=_PODS,
    only_with_labels=(*_LABELS, "leaderworkerset.sigs.k8s.io/name"),
    one_by_one=PathValue("spec.podManagementPolicy", "OrderedReady", is_default=True),
    reserves=True,
)

DEPLOYMENT: Final = WorkloadKind(
    api_version="apps/v1",
    kind="Deployment",
    plural="deployments",
    roles=_PODS,
    only_with_labels=_LABELS,
)

REPLICA_SET: Final = WorkloadKind(
    api_version="apps/v1",
    kind="ReplicaSet",
    plural="replicasets",
    roles=_PODS,
    only_with_labels=_LABELS,
)

COUNTED_BY_LABEL: Final = frozenset({STATEFUL_SET.name, DEPLOYMENT.name, REPLICA_SET.name})
"""The owners of pods whose label `min-member` sets the minimum of the workload."""
