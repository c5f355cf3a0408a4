"""Coverage points: rare events that campaigns must reach.

Without them the absence of violations means little.
"""

from collections.abc import Mapping
from typing import Final

COVERAGE_POINTS: Final[Mapping[str, str]] = {
    "unknown-bind-read-back-bound": "a bind's outcome was unknown, and reading the pod showed it bound",
    "unknown-bind-read-back-free": "a bind's outcome was unknown, and reading the pod showed it free",
    "bind-conflict": "a bind was answered with 409",
    "bind-refused": "a bind was refused for another reason than a conflict",
    "bind-throttled": "a bind was answered with 429",
    "bind-server-error": "a bind was answered with 5xx",
    "bind-applied-but-refused": "a bind was applied, and answered with an error",
    "bind-landed-late": "a bind was applied after its sender had to consider it lost",
    "bind-landed-after-failover": "a bind was applied after another process had taken the Lease",
    "pod-deleted-while-binding": "a pod was deleted after its bind was sent and before it was applied",
    "pod-bound-by-another-while-binding": "another scheduler bound a pod whose bind was in flight",
    "node-gone-while-binding": "a node was deleted after a bind to it was sent and before it was applied",
    "node-unusable-before-bind": "a bind was sent to a node whose fault its sender could not know yet",
    "node-unusable-while-binding": "a node became unusable while a bind to it was in flight",
    "foreign-over-commit": "a bind was applied to a node that another scheduler had filled meanwhile",
    "leader-lost-mid-gang": "the leader died, froze or was cut off while a gang was partly bound",
    "lease-taken": "a process took the Lease",
    "lease-given-back": "a process that was asked to stop released the Lease",
    "lease-renewal-failed": "a renewal of the Lease failed or was of unknown outcome",
    "two-candidates-raced": "two processes tried to take the Lease at once, and one got a conflict",
    "process-ended-by-lost-lease": "a process ended because it had lost its Lease",
    "relisted": "a leader listed a kind again",
    "half-open-watch": "a watch was silent without being closed",
    "events-late": "the newest pod event was more than ten seconds old, and a host had not received it",
    "gang-partly-bound": "a gang was partly bound for more than ten seconds",
    "gang-released": "all members of a gang that never started were evicted",
    "gang-preempted": "a gang was evicted so that another one can start",
    "gang-reclaimed": "a gang was evicted for one of another queue",
    "gang-moved": "a gang was evicted to start again elsewhere, so that another one can start",
    "capacity-freed": "a gang was bound after victims were evicted for it",
    "gang-broken": "a gang that had started fell below its minimum",
    "gang-repaired": "a broken gang reached its minimum again, and some members were never lost",
    "gang-restarted": "a broken gang reached its minimum again with new members only",
    "gang-shrunk-mid-flight": "minMember was lowered while a gang waited or was partly bound",
    "gang-grown-mid-flight": "minMember was raised while a gang waited or was partly bound",
    "pod-group-recreated": "a PodGroup was recreated under the same name while members existed",
    "kubelet-rejection": "a kubelet rejected one of our pods",
    "member-failed": "a member's containers failed",
    "member-succeeded-early": "a member succeeded while others of its gang had not finished",
    "node-lost": "a node's Ready became Unknown or False while pods were bound to it",
    "node-recreated": "a node was recreated under the same name while pods were bound to it",
    "breaker-had-to-be-open": "a cycle decided something while most nodes had turned bad recently",
    "mass-fault": "more than half of the nodes were bad at once",
    "allocatable-below-use": "the allocatable of a node fell below the usage of its pods",
    "status-conflict": "a status write was answered with 409",
    "eviction-failed": "an eviction was refused or of unknown outcome",
    "eviction-throttled": "an eviction was answered with 429",
    "node-avoided": "a gang was placed without a node that had failed it",
    "failed-node-was-the-only-one": "a gang was placed on a node that had failed it, for lack of others",
    "volume-provisioned": "a pod was bound after a volume was provisioned for its node",
    "volume-reserved": "a pod was bound after its claim was bound to a volume that existed already",
    "volume-late": "a volume was provisioned more than a minute after its node was selected",
    "volume-given-up": "a scheduler took the selected node of a claim back",
    "provisioner-failed": "a provisioner created no volume for the selected node",
    "devices-reserved": "a pod was bound after devices were allocated to its claim",
    "claim-shared": "a pod was bound whose claim to devices was reserved for another pod too",
    "devices-given-back": "a scheduler took back devices that were allocated for a pod without a node",
    "devices-left-by-leader": "a claim was reserved for a pod without a node when the leader changed",
    "devices-prepared": "a driver prepared devices of a claim after their allocation",
    "device-not-preparable": "a driver said that an allocated device cannot be prepared",
    "devices-prepared-too-late": "devices that were not prepared in time were taken back",
    "devices-prepared-at-failover": "the leader changed while a driver prepared devices",
    "device-withdrawn": "a driver withdrew a device that was allocated",
    "device-tainted": "a driver tainted a device that was allocated",
    "pool-incomplete": "a cycle placed pods with claims while a pool was incomplete",
    "special-claim-used": "a pod was bound after a claim for its extended resources was made",
    "special-claim-refused": "a claim for extended resources was not created, or with unknown outcome",
    "special-claim-made-before": "a claim for extended resources was created again, and existed already",
    "special-claim-given-back": "a scheduler deleted the claim for extended resources of a waiting pod",
    "special-claim-left-by-leader": "such a claim of a pod without a node existed when the leader changed",
    "claims-refused": "a kubelet did not start a bound pod, since its claims could not be prepared",
}
"""By name, what it means."""

ACCESS_POINT_PREFIX: Final = "rbac "
"""Prefix of the points of `writes.LeastPrivilege`: a verb and a resource follow."""


def missing(seen: Mapping[str, int]) -> list[str]:
    """The coverage points that no run has reached."""
    return [point for point in COVERAGE_POINTS if point not in seen]
