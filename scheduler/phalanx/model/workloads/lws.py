"""LeaderWorkerSet of sigs.k8s.io: each group of a leader and its workers is a gang.

Leaders are pods of one StatefulSet, and each leader owns the StatefulSet of its workers. With the startup
policy LeaderReady the workers are created when their leader is ready, and capacity is reserved for them.
"""

from typing import Final

from phalanx.model.workloads.kind import PathValue, RolePaths, WorkloadKind

LEADER_WORKER_SET: Final = WorkloadKind(
    api_version="leaderworkerset.x-k8s.io/v1",
    kind="LeaderWorkerSet",
    plural="leaderworkersets",
    roles=(
        RolePaths(
            at="spec.leaderWorkerTemplate",
            called="leader",
            template="leaderTemplate.spec",
            other_template="workerTemplate.spec",
        ),
        RolePaths(
            at="spec.leaderWorkerTemplate",
            called="worker",
            pods="size",
            including=1,
            template="workerTemplate.spec",
        ),
    ),
    role_label="leaderworkerset.sigs.k8s.io/worker-index",
    role_of_label={"0": "leader", "*": "worker"},
    part_label="leaderworkerset.sigs.k8s.io/group-index",
    in_order=PathValue("spec.startupPolicy", "LeaderReady"),
    in_order_annotation="leaderworkerset.sigs.k8s.io/exclusive-topology",
    reserves=True,
)
