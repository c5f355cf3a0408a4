"""How each kind of fault is drawn: targets, duration, settings.

Values are equally likely.

The kinds of REMOTE affect API requests, watches and leaders; `faults/schedulers.py` injects them:

| kind | settings |
| --- | --- |
| api-error | effect (refused, applied-but-refused), request, permille, status, retry_after_s |
| api-lost | effect (lost, applied-but-lost), request, permille: there is no answer |
| api-reset | request, permille: the connection is refused |
| api-slow | request, permille, slow_ms |
| watch-cut, -silent, -gone (410), -duplicate, -reorder, -bookmarks | resource, empty for all |
| watch-delay | resource, slow_ms |
| relist | resource |
| compaction | none; the server forgets its history |
| leader-kill, leader-pause, partition | replica (leader, follower) |
| clock-jump | replica, by_s |
| clock-rate | replica, percent that is added to the speed |
| claim-error, claim-lost | as api-error and api-lost, for writes of ResourceClaims |
| claim-leader-kill | after (made, allocated): the leader is killed after this step of a ResourceClaim |

A request is a method and a resource, empty for all. WATCH is the request that opens a watch; open watches are
cut so that it is sent.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from phalanx.clock import Random

from phalanx_simulator.faults import (
    claims,
    competing_work,
    correlated,
    foreign_pods,
    node_conditions,
    nodes,
    nvsentinel,
    objects,
    pods,
    preparation,
    xids,
)
from phalanx_simulator.faults.fault import Fault, FaultContext, Injector, Setting
from phalanx_simulator.faults.site import Site

Values = Sequence[Setting]
Targets = Callable[[Random, Site], tuple[str, ...]]


def no_targets(_random: Random, _site: Site) -> tuple[str, ...]:
    """No targets; the injector draws its own."""
    return ()


def a_node(random: Random, site: Site) -> tuple[str, ...]:
    """One node."""
    return (random.choice(site.nodes),) if site.nodes else ()


def all_nodes(_random: Random, site: Site) -> tuple[str, ...]:
    """Every node."""
    return site.nodes


def a_domain(depth: int) -> Targets:
    """One domain, of the widest level for 0, of the narrowest for -1."""
    return lambda random, site: site.domain(random, depth)


def a_share(*percents: int) -> Targets:
    """One of these shares of all nodes."""
    return lambda random, site: site.share(random, random.choice(percents))


class Kind(Struct, frozen=True):
    """A kind of fault.

    `seconds` is drawn uniformly; the site gives the values of `from_site`.
    """

    family: str
    seconds: tuple[float, float] = (0.0, 0.0)
    targets: Targets = no_targets
    settings: Mapping[str, Values] = {}
    from_site: Mapping[str, Callable[[Site], Values]] = {}


def drawn(name: str, *, at_s: float, random: Random, site: Site) -> Fault:
    """Draw a fault of the kind.

    Raises KeyError for a kind that is not in KINDS.
    """
    kind = KINDS[name]
    targets = kind.targets(random, site)
    seconds = round(random.uniform(*kind.seconds), 3)
    given = {setting: values(site) for setting, values in kind.from_site.items()}
    settings = {
        setting: random.choice(values) for setting, values in {**kind.settings, **given}.items() if values
    }
    return Fault(kind.family, name, at_s, targets, seconds, settings)


def _labels(site: Site) -> Values:
    return list(site.levels)


_MINUTES: Final = 60.0
WRITES: Final = (
    *("POST pods/binding", "PATCH pods", "DELETE pods", "PATCH podgroups", "PATCH queues"),
    *("PATCH leases", "PATCH configmaps", "POST events"),
)
"""Every kind of write that a scheduler sends, except the creation of its Lease, which happens once."""

REQUESTS: Final = (*WRITES, "GET", "WATCH pods", "WATCH nodes", "WATCH podgroups", "WATCH queues", "")
"""Kinds of requests that a scheduler sends. Most of its reads are of its Lease."""

_WATCHED: Final = ("pods", "nodes", "podgroups", "queues", "")
_STATUSES: Final = (401, 403, 404, 409, 410, 422, 429, 500, 503, 504)
_REQUESTS: Final[Mapping[str, Values]] = {
    "request": REQUESTS,
    "permille": (50, 200, 500, 1000),
}
_WRITE_REQUESTS: Final[Mapping[str, Values]] = {**_REQUESTS, "request": WRITES}
_CLAIM_WRITES: Final[Mapping[str, Values]] = {
    **_REQUESTS,
    "request": ("POST resourceclaims", "PATCH resourceclaims", "DELETE resourceclaims"),
}
_WATCH: Final[Mapping[str, Values]] = {"resource": _WATCHED}
_REPLICA: Final[Mapping[str, Values]] = {"replica": ("leader", "follower")}
_LEADER: Final[Mapping[str, Values]] = {"replica": ("leader",)}
_AT_A_BIND: Final[Mapping[str, Values]] = {"bind_within_s": (0, 60)}
_EACH: Final[Mapping[str, Values]] = {
    "each": ("node-lost", "node-not-ready", "node-cordon"),
    "within_s": (1, 60),
    "restarted": (0, 1),
}
_ENDS: Final[Mapping[str, Values]] = {
    "exit_code": (1, 2, 134, 137, 139, 143, 255),
    "reason": ("Error", "OOMKilled", "ContainerStatusUnknown", "StartError"),
    "message": ("", "Watchdog caught collective operation timeout", "CUDA error: uncorrectable ECC error"),
}
"""How containers end: with an exit code of the workload, by a signal, or with a reason of the kubelet."""

_PREFLIGHT_MESSAGES: Final = ("preflight-nccl-allreduce failed", "preflight-dcgm-diag failed", "")

REMOTE: Final[Mapping[str, Kind]] = {
    "api-error": Kind(
        "F3",
        (1, 60),
        settings={
            **_REQUESTS,
            "effect": ("refused", "refused", "applied-but-refused"),
            "status": _STATUSES,
            "retry_after_s": (1, 10),
        },
    ),
    "api-lost": Kind("F3", (1, 60), settings={**_WRITE_REQUESTS, "effect": ("lost", "applied-but-lost")}),
    "api-reset": Kind("F3", (1, 30), settings=_REQUESTS),
    "api-slow": Kind("F3", (5, 120), settings={**_REQUESTS, "slow_ms": (1_000, 5_000, 20_000, 60_000)}),
    "watch-cut": Kind("F4", settings=_WATCH),
    "watch-silent": Kind("F4", (30, 300), settings=_WATCH),
    "watch-gone": Kind("F4", settings=_WATCH),
    "watch-duplicate": Kind("F4", (10, 60), settings=_WATCH),
    "watch-reorder": Kind("F4", (10, 120), settings=_WATCH),
    "watch-delay": Kind("F4", (10, 120), settings={**_WATCH, "slow_ms": (500, 5_000, 30_000, 120_000)}),
    "watch-bookmarks": Kind("F4", (10, 120), settings=_WATCH),
    "compaction": Kind("F4"),
    "relist": Kind("F4", settings=_WATCH),
    "leader-kill": Kind("F5", (1, 60), settings=_LEADER),
    "leader-pause": Kind("F5", (5, 60), settings=_LEADER),
    "partition": Kind("F5", (1, 120), settings=_REPLICA),
    "clock-jump": Kind("F5", settings={**_REPLICA, "by_s": (-3600, -60, 60, 3600)}),
    "clock-rate": Kind("F5", (60, 600), settings={**_REPLICA, "percent": (-10, -1, 1, 10)}),
    "claim-error": Kind(
        "F14",
        (5, 60),
        settings={
            **_CLAIM_WRITES,
            "effect": ("refused", "applied-but-refused"),
            "status": _STATUSES,
            "retry_after_s": (1, 10),
        },
    ),
    "claim-lost": Kind("F14", (5, 60), settings={**_CLAIM_WRITES, "effect": ("lost", "applied-but-lost")}),
    "claim-leader-kill": Kind("F14", (120, 120), settings={"after": ("made", "allocated"), **_LEADER}),
}

_NODES: Final[Mapping[str, Kind]] = {
    "node-not-ready": Kind("F6", (5, 10 * _MINUTES), a_node),
    "node-lost": Kind("F6", (20, 20 * _MINUTES), a_node, {"restarted": (0, 1)}),
    "node-clock": Kind("F6", (60, 20 * _MINUTES), a_node, {"by_s": (-300, -60, -5, 5, 60, 300)}),
    "node-flap": Kind("F6", (60, 10 * _MINUTES), a_node, {"period_s": range(1, 301), "silent": (0, 0, 1)}),
    "node-delete": Kind("F6", targets=a_node),
    "node-recreate": Kind("F6", (0, 5 * _MINUTES), a_node, {"labels": ("same", nodes.ANOTHER)}),
    "node-cordon": Kind("F6", (10, 20 * _MINUTES), a_node),
    "node-taint": Kind(
        "F6",
        (10, 20 * _MINUTES),
        a_node,
        {
            "key": ("nvidia.com/gpu-error", "nvidia.com/gpu-xid-error", "example.com/maintenance"),
            "effect": ("NoSchedule", "PreferNoSchedule", "NoExecute"),
        },
    ),
    "node-allocatable": Kind("F6", (30, 10 * _MINUTES), a_node, {"walk": ("7,0", "0", "7", "6,4,7")}),
    "node-labels": Kind(
        "F6",
        (10, 20 * _MINUTES),
        a_node,
        {"to": (nodes.ANOTHER, nodes.REMOVED, "nowhere")},
        {"label": _labels},
    ),
    "node-condition": Kind(
        "F6",
        (10, 20 * _MINUTES),
        a_node,
        {
            "type": (*node_conditions.HEALTHY_STATUS, *node_conditions.UNKNOWN_TYPES),
            "status": ("", "", "", "Unknown"),
        },
    ),
    "node-heartbeat": Kind(
        "F6", (10, 60), a_node, {"type": tuple(node_conditions.HEALTHY_STATUS), "times": (1, 10)}
    ),
    "nvsentinel": Kind(
        "F6",
        (2 * _MINUTES, 60 * _MINUTES),
        a_node,
        {
            "type": node_conditions.NVSENTINEL,
            "drain": nvsentinel.DRAIN_MODES,
            "ends": nvsentinel.ENDS,
            "taint": ("", "", "nvidia.com/gpu-error"),
        },
    ),
}

_XIDS: Final[Mapping[str, Kind]] = {
    xids.kind_of(xids.IGNORE): Kind("F6", targets=a_node, settings={"code": xids.CODES[xids.IGNORE]}),
    xids.kind_of(xids.RESTART_APP): Kind(
        "F6", targets=a_node, settings={"code": xids.CODES[xids.RESTART_APP]}
    ),
    xids.kind_of(xids.RESET_GPU): Kind("F6", (60, 180), a_node, {"code": xids.CODES[xids.RESET_GPU]}),
    xids.kind_of(xids.RESTART_BM): Kind(
        "F6", (20 * _MINUTES, 60 * _MINUTES), a_node, {"code": xids.CODES[xids.RESTART_BM]}
    ),
    xids.kind_of(xids.NVLINK): Kind(
        "F6", (5 * _MINUTES, 60 * _MINUTES), a_domain(-1), {"code": xids.CODES[xids.NVLINK]}
    ),
    xids.kind_of(xids.CONTACT_SUPPORT): Kind(
        "F6", (30 * _MINUTES, 120 * _MINUTES), a_node, {"code": xids.CODES[xids.CONTACT_SUPPORT]}
    ),
    "xid-recovery-action": Kind("F6", (60, 600), a_node, {"text": tuple(xids.RECOVERY_ACTIONS)}),
}

_CORRELATED: Final[Mapping[str, Kind]] = {
    "rack-out": Kind("F7", (60, 20 * _MINUTES), a_domain(-1), _EACH),
    "switch-out": Kind("F7", (60, 20 * _MINUTES), a_domain(1), _EACH),
    "power-out": Kind("F7", (5 * _MINUTES, 30 * _MINUTES), a_domain(0), {**_EACH, "each": ("node-lost",)}),
    "share-out": Kind("F7", (60, 10 * _MINUTES), a_share(10, 30, 60, 100), _EACH),
    "mass-false-positive": Kind(
        "F7",
        (60, 10 * _MINUTES),
        a_share(30, 60, 100),
        {"type": tuple(node_conditions.HEALTHY_STATUS), "within_s": (1, 60)},
    ),
}

_PODS: Final[Mapping[str, Kind]] = {
    "pod-init-failure": Kind(
        "F8", (10, 120), settings={**_ENDS, "count": (1, 4), "message": _PREFLIGHT_MESSAGES}
    ),
    "pod-failure": Kind("F8", settings={**_ENDS, "count": (1, 1, 4), "delay_s": (0, 5)}),
    "pod-early-success": Kind("F8"),
    "pod-restarts": Kind("F8", (5 * _MINUTES, 20 * _MINUTES), settings={"times": (5, 35)}),
    "pod-eviction": Kind("F8", settings={"count": (1, 4)}),
    "pod-delete": Kind("F8", settings={"count": (1, 4)}),
    "pod-gpu-drain": Kind("F8", targets=a_node),
    "pod-delete-mid-bind": Kind("F8", (10, 120), settings={"count": (1, 4)}),
    "pod-kubelet-rejection": Kind("F8", (10, 120), a_share(1, 5)),
    "pod-stuck-terminating": Kind("F8", (30, 20 * _MINUTES)),
}

_OBJECTS: Final[Mapping[str, Kind]] = {
    "group-min-member": Kind("F9", (10, 300), settings={**_AT_A_BIND, "delta": (-1, 1)}),
    "group-queue": Kind("F9", (10, 300), settings=_AT_A_BIND),
    "group-priority": Kind("F9", (10, 300), settings=_AT_A_BIND),
    "group-delete": Kind("F9", settings=_AT_A_BIND),
    "group-recreate": Kind("F9", (0, 30), settings=_AT_A_BIND),
    "queue-limit": Kind("F9", (10, 300), settings={**_AT_A_BIND, "percent": (0, 50, 90)}),
    "queue-loop": Kind("F9", (10, 120), settings=_AT_A_BIND),
    "queue-delete": Kind("F9", settings=_AT_A_BIND),
    "queue-recreate": Kind("F9", (0, 30), settings=_AT_A_BIND),
    "priority-value": Kind("F9", (10, 300), settings={**_AT_A_BIND, "value": (-10, 0, 1_000)}),
    "namespace-labels": Kind("F9", (10, 300), settings=_AT_A_BIND),
    "pod-moved": Kind("F9", (10, 300), settings=_AT_A_BIND),
}

_LOAD: Final[Mapping[str, Kind]] = {
    "foreign-load": Kind(
        "F10",
        (2, 30),
        all_nodes,
        {
            "per_minute": (6, 60, 60, 600, 600, 12_000),
            "gpus": (0, 0, 1, 4),
            "milli_cpu": (0, 500),
            "hold_s": (5, 60),
        },
    ),
    "foreign-daemons": Kind("F10", (60, 30 * _MINUTES), all_nodes),
    "filler-thief": Kind("F11", (60, 600), settings={"pods": (1, 8), "gpus": (1, 8), "breaks": (1, 4)}),
    "priority-storm": Kind(
        "F11",
        (30, 600),
        settings={"gangs": (2, 8), "pods": (1, 4), "gpus": (1, 8), "value": (1_000, 1_000_000)},
    ),
    "interleaved-gangs": Kind(
        "F11",
        (60, 300),
        settings={
            "order": ("AB", "ACBD"),
            "pods": (2, 4),
            "gpus": (1, 8),
            "shuffled": (0, 1),
            "late": (0, 1),
            "pause_ms": (0, 50),
        },
    ),
}

_CLAIMS: Final[Mapping[str, Kind]] = {
    "provisioner-slow": Kind("F14", (60, 15 * _MINUTES), settings={"delay_s": (20, 120, 700)}),
    "provisioner-fails": Kind("F14", (10, 5 * _MINUTES), a_share(10, 50, 100)),
    "devices-fewer": Kind("F14", (30, 10 * _MINUTES), a_share(1, 50), {"count": (0, 1, 3)}),
    "devices-tainted": Kind("F14", (30, 10 * _MINUTES), a_share(1, 50), {"count": (1, 4, 6)}),
    "driver-stopped": Kind("F14", (5, 5 * _MINUTES), a_share(1, 50)),
    "claims-refused": Kind("F14", (5, 2 * _MINUTES), a_share(1, 50)),
    "volume-taken": Kind("F14", (10, 10 * _MINUTES), settings={"count": (1, 4, 16)}),
}

_PREPARATION: Final[Mapping[str, Kind]] = {
    "devices-prepared-late": Kind("F15", (60, 10 * _MINUTES), a_share(50, 100), {"delay_s": (10, 60, 300)}),
    "devices-never-prepared": Kind("F15", (60, 15 * _MINUTES), a_share(10, 50, 100)),
    "devices-not-preparable": Kind("F15", (10, 5 * _MINUTES), a_share(10, 50, 100)),
}

KINDS: Final[Mapping[str, Kind]] = {
    **REMOTE,
    **_NODES,
    **_XIDS,
    **_CORRELATED,
    **_PODS,
    **_OBJECTS,
    **_LOAD,
    **_CLAIMS,
    **_PREPARATION,
}
"""The kinds that profiles draw from. node-delete, group-delete and queue-delete are not undone."""


def kinds_of(*families: str) -> tuple[str, ...]:
    """The kinds of these families."""
    return tuple(name for name, kind in KINDS.items() if kind.family in families)


INJECTORS: Final[Mapping[str, Injector]] = {
    **nodes.INJECTORS,
    **node_conditions.INJECTORS,
    **nvsentinel.INJECTORS,
    **xids.INJECTORS,
    **correlated.INJECTORS,
    **pods.INJECTORS,
    **objects.INJECTORS,
    **foreign_pods.INJECTORS,
    **competing_work.INJECTORS,
    **claims.INJECTORS,
    **preparation.INJECTORS,
}
"""By kind. `schedulers.REMOTE_INJECTORS` has those of the network, the API, watches and leaders."""


async def inject(fault: Fault, context: FaultContext) -> None:
    """Inject a fault: wait until it is detectable (`detect_s`), do it, wait, undo it.

    It does not wait for `at_s`. Raises KeyError for a kind that is not in INJECTORS.
    """
    injector = INJECTORS[fault.kind]
    if fault.number("detect_s"):
        await context.sleep(fault.number("detect_s"))
    await injector(fault, context)
