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
    "bind-applied-but-refused": "a bind was applied and answered with an error all the same",
    "bind-landed-late": "a bind landed after its sender had to take it for lost",
    "bind-landed-after-failover": "a bind landed after another process had taken the Lease",
    "pod-deleted-while-binding": "a pod was deleted between the sending and the landing of its bind",
    "pod-bound-by-another-while-binding": "somebody else bound a pod whose bind was on its way",
    "node-gone-while-binding": "a node went away between the sending and the landing of a bind to it",
    "node-spoilt-before-bind": "a bind was sent to a node whose fault its sender could not know yet",
    "node-spoilt-while-binding": "a node was well when a bind to it was sent, and not when it landed",
    "foreign-over-commit": "a bind of ours landed on a node that somebody else had filled meanwhile",
    "leader-lost-mid-gang": "the leader died, froze or was cut off while a gang was partly bound",
    "lease-taken": "a process took the Lease",
    "lease-given-back": "a process that was asked to stop gave the Lease back",
    "lease-renewal-failed": "a renewal of the Lease failed or was of unknown outcome",
    "two-candidates-raced": "two processes tried to take the Lease at once, and one got a conflict",
    "process-ended-by-lost-lease": "a process ended because it had lost its Lease",
    "relisted": "a process listed a kind anew that it had listed before, while it led",
    "half-open-watch": "a watch was silent without being closed",
    "events-late": "a host knew pods that were more than ten seconds old, and not what came since",
    "gang-partly-bound": "a gang was partly bound for more than ten seconds",
    "gang-released": "a gang that never started was evicted whole",
    "gang-preempted": "a gang was evicted so that another one can start",
    "gang-reclaimed": "a gang was evicted for one of another queue",
    "gang-moved": "a gang was evicted to start again elsewhere, so that another one can start",
    "capacity-freed": "a gang was bound for which others had been evicted",
    "gang-broken": "a gang that had started fell below its minimum",
    "gang-repaired": "a broken gang became whole again, with members that had never gone",
    "gang-restarted": "a broken gang became whole again with new members only",
    "gang-shrunk-mid-flight": "minMember was lowered while a gang waited or was partly bound",
    "gang-grown-mid-flight": "minMember was raised while a gang waited or was partly bound",
    "pod-group-recreated": "a PodGroup was made again under the same name while members existed",
    "kubelet-rejection": "a kubelet refused a pod of ours",
    "member-failed": "a member's containers failed",
    "member-succeeded-early": "a member succeeded while others of its gang still waited or ran",
    "node-lost": "a node's Ready became Unknown or False while pods of ours were on it",
    "node-recreated": "a node was made again under the same name while pods of ours were bound to it",
    "breaker-had-to-be-open": "something was decided while most nodes had turned bad lately",
    "mass-fault": "more than half of the nodes were bad at once",
    "allocatable-below-use": "a node offered less than its pods use",
    "status-conflict": "a status write was answered with 409",
    "eviction-failed": "an eviction was refused or of unknown outcome",
    "eviction-throttled": "an eviction was answered with 429",
    "node-avoided": "a gang was placed without a node that had failed it",
    "failed-node-was-the-only-one": "a gang went back to a node that had failed it, for want of others",
}
"""By name, what it means."""

ACCESS_POINT_PREFIX: Final = "rbac "
"""Prefix of the points of `writes.Access`: a verb and a resource follow."""


def missing(seen: Mapping[str, int]) -> list[str]:
    """The coverage points that no run has reached."""
    return [point for point in COVERAGE_POINTS if point not in seen]
