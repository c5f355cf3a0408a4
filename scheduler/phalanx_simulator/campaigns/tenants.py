"""Gangs of tenants that use all PodGroup features that concern queues.

Some gangs are elastic. Some reserve capacity for members that are created later. Some set a runtime, a start
deadline, a disruption policy or a recovery policy. Some request shares of GPUs. Some share a
PodDisruptionBudget.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import Struct
from phalanx.clock import Random
from phalanx.model.names import ANNOTATION_GPU_SHARE
from phalanx.model.resources import CPU, GPU

from phalanx_simulator.embedded.apiserver.objects import rfc3339
from phalanx_simulator.embedded.kubelets.kubelet import STOP_SECONDS
from phalanx_simulator.embedded.manifests import job, pod_group
from phalanx_simulator.embedded.pod_requests import allocatable_of
from phalanx_simulator.embedded.store import Object
from phalanx_simulator.hosts.host import EPOCH_MS

QUEUES: Final = ("vision", "language", "production", "students", "notebooks")
"""The queues that take work."""

USER: Final = "example.com/user"
GUARDED: Final = "example.com/guarded"
"""Labels of pods: their user, and the PodDisruptionBudget that covers them."""

FABRIC: Final = "fabric"
"""The Topology of the cluster. Some gangs name it; for the others it is the default."""

_PODS: Final = (1, 2, 3, 4, 4, 6, 8, 8, 12)
_GPUS: Final = (1, 1, 2, 4, 8)
_RACKFUL: Final = 24
"""Most GPUs of a gang with a topology: three nodes of a rack."""

_MEDIAN_S: Final = 150.0
_SIGMA: Final = 0.8
_BURST: Final = (1, 1, 2, 4)
_SHARES: Final = ("250", "500")
_LATER_S: Final = (5, 20, 60, 240, 700)
"""Seconds after which members with reserved capacity are created; the reservation ends after 600 seconds."""

_KINDS: Final = (*("plain",) * 6, "elastic", "elastic", "reserved", "shares")
_PRIORITIES: Final = (*(None,) * 5, "urgent", "urgent", "batch", "batch")
_POLICIES: Final = (*(None,) * 7, "Never")
_DISRUPTIONS: Final[tuple[dict[str, Any] | None, ...]] = (
    *(None,) * 4,
    {"mode": "Single"},
    {"minRuntime": "1m"},
    {"preemptible": False},
)
_TOPOLOGIES: Final[tuple[dict[str, str] | None, ...]] = (
    *(None,) * 3,
    {"required": "rack"},
    {"preferred": "rack"},
    {"required": "block", "preferred": "rack"},
    {"name": FABRIC, "required": "rack"},
    {"name": FABRIC, "required": "block", "preferred": "rack"},
)
_RECOVERIES: Final[tuple[dict[str, str] | None, ...]] = (
    *(None,) * 2,
    {"onNodeLoss": "Replace", "gracePeriod": "10s"},
    {"onNodeLoss": "Restart", "onMemberFailure": "Restart", "gracePeriod": "30s"},
    {"onNodeLoss": "Wait", "onMemberFailure": "Wait"},
)
_STOPS_S: Final = (None, None, "3", "25")
"""Seconds that pods take to end once they are deleted; their grace period is 30."""

_GUARDS: Final = (*(None,) * 4, "a", "b")


class Arrival(Struct, frozen=True):
    """Objects that a tenant creates together.

    `at_s` counts from the first submission.
    """

    at_s: float
    manifests: tuple[Object, ...]


class _Gang(Struct, frozen=True):
    """`pods` of `gpus` GPUs each, which run for `run_s` seconds."""

    name: str
    submit_s: float
    kind: str
    queue: str
    pods: int
    gpus: int
    run_s: float


def arrivals(
    *, random: Random, hours: float, nodes: Iterable[Object], load: float, began_s: float
) -> Iterator[Arrival]:
    """Gangs that request the share `load` of all GPU time, some of them in bursts.

    `began_s`: simulated time of the first submissions; start deadlines are relative to it.
    """
    gpus, seconds = sum(allocatable_of(node).get(GPU, 0) for node in nodes), hours * 3600
    wanted, index = load * gpus * seconds, 0
    while wanted > 0:
        submit_s = random.uniform(0, seconds)
        for _ in range(random.choice(_BURST)):
            gang = _drawn(index, submit_s, gpus, seconds, random)
            wanted -= gang.pods * gang.gpus * gang.run_s
            index += 1
            yield from _arrivals_of(gang, random, began_s)


def _drawn(index: int, submit_s: float, cluster_gpus: int, seconds: float, random: Random) -> _Gang:
    """Draw a gang of at most half of the cluster, so that it fits while some nodes are out of service."""
    kind, gpus = random.choice(_KINDS), random.choice(_GPUS)
    pods = max(1, min(random.choice(_PODS), cluster_gpus // 2 // gpus))
    return _Gang(
        name=f"gang-{index}",
        submit_s=round(submit_s, 3),
        kind=kind,
        queue="notebooks" if kind == "shares" else random.choice(QUEUES[:-1]),
        pods=pods,
        gpus=gpus,
        run_s=round(min(seconds, _MEDIAN_S * random.lognormvariate(0, _SIGMA)), 3),
    )


def _arrivals_of(gang: _Gang, random: Random, began_s: float) -> Iterator[Arrival]:
    spec = _optional_fields(gang, random, began_s)
    guard, user = random.choice(_GUARDS), random.choice(("ada", "bob", "eve"))
    labels = {USER: user, **({GUARDED: guard} if guard else {})}
    if gang.kind == "reserved":
        yield from _reserved(gang, spec, labels, random)
        return
    least = max(1, gang.pods // 2) if gang.kind == "elastic" else gang.pods
    whole = _job(gang, gang.name, gang.pods, gang.run_s, labels, spec)
    stop_s = random.choice(_STOPS_S)
    if stop_s is not None:
        whole["spec"]["template"]["metadata"]["annotations"][STOP_SECONDS] = stop_s
    if gang.kind == "shares":
        template = whole["spec"]["template"]["metadata"]
        template["annotations"][ANNOTATION_GPU_SHARE] = random.choice(_SHARES)
    yield Arrival(gang.submit_s, (pod_group(gang.name, min_member=least, **spec), whole))


def _reserved(gang: _Gang, spec: Object, labels: dict[str, str], random: Random) -> Iterator[Arrival]:
    """A driver and, later, its executors; capacity for at least one is reserved from the start."""
    executors = max(1, gang.pods - 1)
    least = random.randint(1, executors)
    roles = [
        {"name": "driver", "count": 1},
        {"name": "executor", "count": executors, "minMember": least, "requests": _requests(gang)},
    ]
    group = pod_group(gang.name, min_member=1 + least, startWhen="Reserved", roles=roles, **spec)
    later_s = random.choice(_LATER_S)
    driver = _job(gang, gang.name, 1, gang.run_s + later_s, labels, spec, role="driver")
    others = _job(gang, f"{gang.name}-executors", executors, gang.run_s, labels, spec, role="executor")
    yield Arrival(gang.submit_s, (group, driver))
    yield Arrival(gang.submit_s + later_s, (others,))


def _job(
    gang: _Gang,
    name: str,
    members: int,
    run_s: float,
    labels: dict[str, str],
    spec: Object,
    *,
    role: str = "",
) -> Object:
    """A Job with a large backoffLimit, since the simulator makes it fail often."""
    named = {"priorityClassName": spec["priorityClassName"]} if "priorityClassName" in spec else {}
    made = job(
        name, members=members, group=gang.name, role=role, requests=_requests(gang), run_s=run_s, **named
    )
    made["spec"]["backoffLimit"] = 10_000
    made["spec"]["template"]["metadata"]["labels"].update(labels)
    return made


def _requests(gang: _Gang) -> dict[str, str]:
    cores = {CPU: str(4 * gang.gpus)}
    return cores if gang.kind == "shares" else {GPU: str(gang.gpus), **cores}


def _optional_fields(gang: _Gang, random: Random, began_s: float) -> Object:
    """Optional PodGroup fields.

    All are drawn in a fixed order, so that one choice does not shift the others.
    """
    topology, recovery = random.choice(_TOPOLOGIES), random.choice(_RECOVERIES)
    priority, policy = random.choice(_PRIORITIES), random.choice(_POLICIES)
    disruption, runtime = random.choice(_DISRUPTIONS), _runtime(gang, random)
    start_by_s = began_s + gang.submit_s + random.uniform(60, 1800)
    fields = {
        "queue": gang.queue,
        "topology": topology if gang.pods * gang.gpus <= _RACKFUL else None,
        "recovery": recovery,
        "priorityClassName": priority,
        "preemptionPolicy": policy,
        "disruption": disruption,
        "runtime": runtime,
        "startBy": rfc3339(EPOCH_MS + int(start_by_s) * 1000) if not random.randrange(8) else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _runtime(gang: _Gang, random: Random) -> dict[str, str] | None:
    """A runtime estimate: absent, too low, too high, or an upper bound."""
    guess = max(1, round(gang.run_s * random.lognormvariate(0, 0.5)))
    lot = random.randrange(4)
    if not lot:
        return None
    return {"estimate": f"{guess}s", "max": f"{2 * guess}s"} if lot == 1 else {"estimate": f"{guess}s"}
