"""Builds scenarios from a request: cluster size, duration, faults, workload."""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any, Final

from msgspec import Struct
from phalanx.clock import Random
from phalanx.framework.config import SchedulerConfig
from phalanx.model.names import LABEL_SUBGROUP
from phalanx.model.resources import GPU

from phalanx_simulator.campaigns import claims, queue_tree, tenants
from phalanx_simulator.campaigns.generator import campaign
from phalanx_simulator.campaigns.jobs import (
    TraceJob,
    fitted,
    gang_jobs,
    manifests,
    priority_classes,
    queues,
    synthetic_jobs,
)
from phalanx_simulator.campaigns.native import natively
from phalanx_simulator.campaigns.volcano import for_volcano
from phalanx_simulator.campaigns.yunikorn import for_yunikorn
from phalanx_simulator.embedded.apiserver.kinds import NATIVE_POD_GROUPS, VOLCANO_POD_GROUPS
from phalanx_simulator.embedded.manifests import node, topology
from phalanx_simulator.embedded.pod_requests import allocatable_of
from phalanx_simulator.embedded.store import Object
from phalanx_simulator.faults.fault import Fault
from phalanx_simulator.faults.profiles import PROFILES, claim_faults, driver_faults, plan
from phalanx_simulator.invariants.check import Check
from phalanx_simulator.runs.simulation import WARM_UP_S, Scenario, Submission

CAMPAIGNS: Final = {"life": 1, "life-x10": 10, "life-x100": 100}
"""Names of campaigns, with the factor by which they multiply realistic fault rates."""

FAULTS: Final = (*PROFILES, *CAMPAIGNS)
"""Names of all fault profiles and campaigns."""

WORKLOADS: Final = ("plain", "claims", "prepared", "shares", "queues", "native", "volcano", "yunikorn")
"""plain: jobs in queues without limits; in some seeds they claim volumes and devices. claims: they do so in
every seed. prepared: as claims, and drivers prepare allocated devices before pods are bound. shares: as
claims, and several claims have each device. queues: a tree of queues with limits, and gangs that use their
features. native, volcano, yunikorn: as plain, with PodGroups or task groups of these dialects, and without
claims."""

_BLOCK: Final = "network.topology.nvidia.com/block"
_RACK: Final = "cloud.provider.com/topology-rack"
GPUS_PER_NODE: Final = 8

_LARGE: Final = 32
"""Clusters with fewer nodes have smaller racks and blocks, so that they still have several."""

_NODES_PER_RACK: Final = 8
_RACKS_PER_BLOCK: Final = 4
_SMALL_RACKS: Final = 4
_SMALL_RACKS_PER_BLOCK: Final = 2
_TOPOLOGIES: Final[tuple[dict[str, str] | None, ...]] = (
    None,
    None,
    {"required": "rack"},
    {"preferred": "rack"},
    {"required": "block", "preferred": "rack"},
)
_RECOVERIES: Final[tuple[dict[str, str] | None, ...]] = (
    None,
    None,
    {"onNodeLoss": "Replace", "gracePeriod": "10s"},
    {"onNodeLoss": "Restart", "onMemberFailure": "Restart", "gracePeriod": "30s"},
    {"onNodeLoss": "Wait", "onMemberFailure": "Wait"},
)

_IGNORES_DISRUPTION: Final = 0.5
"""Share of the Jobs that do not count disrupted pods as retries."""

_IN_PAIRS: Final = 0.15
"""Share of the gangs with an even number of members whose members are placed in pairs."""

_PAIRS: Final = "pairs"

_AFFINITIES: Final = (*("",) * 8, "anti-affinity", "anti-affinity", "affinity")
"""The inter-pod affinity that a gang gets; one of them is drawn."""

_NOISY: Final = "example.com/noisy"
_JOB: Final = "example.com/job"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"

_CLAIMS_EVERY: Final = 17
_WITH_CLAIMS: Final = (5, 10, 12, 14, 15)
"""Of so many consecutive seeds, those whose jobs claim volumes and devices."""

_OBJECTIVES: Final = (None, None, "Spread", "LargestHole")
_GUARANTEED: Final = (False, True, True)


class Request(Struct, frozen=True, kw_only=True):
    """Options of a run. `workload` is one of WORKLOADS; with a trace it is plain."""

    seed: int
    nodes: int
    hours: float
    faults: str
    load: float
    trace: tuple[TraceJob, ...] = ()
    workload: str = "plain"


def scenario_of(request: Request, *, checks: tuple[type[Check], ...]) -> Scenario:
    """The scenario of a request, generated from its seed. Raises KeyError if the faults are not in FAULTS."""
    if request.workload == "queues":
        return _with_queues(request, checks)
    nodes = _nodes(request, _nodes_per_rack(request.nodes))
    jobs = _jobs(request, nodes)
    faults, has_claims = _faults(request, nodes), _has_claims(request)
    cluster = (*nodes, *priority_classes(jobs), *_queues(request, jobs))
    if has_claims:
        cluster = (*cluster, *claims.manifests(nodes, block=_BLOCK))
        cluster = tuple(claims.in_shares(cluster)) if request.workload == "shares" else cluster
        faults = (*faults, *_claim_faults(request, nodes))
    if prepares := request.workload == "prepared":
        faults = (*faults, *_driver_faults(request, nodes))
    return Scenario(
        seed=request.seed,
        seconds=request.hours * 3600,
        cluster=cluster,
        submissions=_submissions(request, jobs),
        faults=faults,
        has_claims=has_claims,
        prepares_devices=prepares,
        checks=checks,
        config=SchedulerConfig(),
        rival=_has_rivals(faults),
        dialect={"native": NATIVE_POD_GROUPS, "volcano": VOLCANO_POD_GROUPS}.get(request.workload),
    )


def _with_queues(request: Request, checks: tuple[type[Check], ...]) -> Scenario:
    nodes = queue_tree.sharing(_nodes(request, queue_tree.NODES_PER_RACK))
    gpus = sum(allocatable_of(node).get(GPU, 0) for node in nodes)
    faults = _faults(request, nodes)
    random = _random(request, "tenants")
    arrivals = tenants.arrivals(
        random=random, hours=request.hours, nodes=nodes, load=request.load, began_s=WARM_UP_S
    )
    queues = queue_tree.tree(_random(request, "tree"), gpus=gpus)
    fabric = topology(tenants.FABRIC, block=_BLOCK, rack=_RACK)
    return Scenario(
        seed=request.seed,
        seconds=request.hours * 3600,
        cluster=(*nodes, fabric, *queue_tree.priority_classes(), *queues, *queue_tree.budgets()),
        submissions=tuple(Submission(arrival.at_s, arrival.manifests) for arrival in arrivals),
        faults=faults,
        checks=checks,
        config=queue_tree.config(_random(request, "config")),
        rival=_has_rivals(faults),
    )


def _has_rivals(faults: Iterable[Fault]) -> bool:
    return any(fault.family in ("F8", "F10", "F11") for fault in faults)


def _random(request: Request, purpose: str) -> Random:
    return Random(f"{request.seed}/{purpose}")


def _nodes_per_rack(nodes: int) -> int:
    return _NODES_PER_RACK if nodes >= _LARGE else max(2, nodes // _SMALL_RACKS)


def _nodes(request: Request, per_rack: int) -> tuple[Object, ...]:
    """Servers of eight GPUs in racks; memory sizes differ slightly."""
    random = _random(request, "nodes")
    per_block = _RACKS_PER_BLOCK if request.nodes >= _LARGE else _SMALL_RACKS_PER_BLOCK
    made = []
    for number in range(request.nodes):
        rack = number // per_rack
        labels = {_BLOCK: f"b{rack // per_block}", _RACK: f"r{rack % per_block}"}
        memory = f"{(1 << 30) * 1000 - random.randrange(1 << 24)}"
        made.append(node(f"n{number:04d}", gpus=GPUS_PER_NODE, labels=labels, memory=memory, cpu="128"))
    return tuple(made)


def _jobs(request: Request, nodes: Iterable[Object]) -> tuple[TraceJob, ...]:
    random = _random(request, "jobs")
    if request.trace:
        return fitted(request.trace, random=random, hours=request.hours, nodes=nodes, load=request.load)
    drawn = synthetic_jobs if request.faults in CAMPAIGNS else gang_jobs
    return drawn(random=random, hours=request.hours, nodes=nodes, load=request.load)


def _faults(request: Request, nodes: Iterable[Object]) -> tuple[Fault, ...]:
    random, scale = _random(request, "faults"), CAMPAIGNS.get(request.faults)
    if scale is not None:
        return campaign(random=random, nodes=nodes, hours=request.hours, scale=scale)
    return plan(request.faults, random=random, nodes=nodes, hours=request.hours)


def _has_claims(request: Request) -> bool:
    if request.workload in ("claims", "prepared", "shares"):
        return True
    is_drawn = request.workload == "plain" and not request.trace and request.faults in PROFILES
    return is_drawn and request.seed % _CLAIMS_EVERY in _WITH_CLAIMS


def _claim_faults(request: Request, nodes: Iterable[Object]) -> tuple[Fault, ...]:
    random = _random(request, "claim faults")
    return claim_faults(request.faults, random=random, nodes=nodes, hours=request.hours)


def _driver_faults(request: Request, nodes: Iterable[Object]) -> tuple[Fault, ...]:
    random = _random(request, "driver faults")
    return driver_faults(request.faults, random=random, nodes=nodes, hours=request.hours)


def _queues(request: Request, jobs: Iterable[TraceJob]) -> Iterator[Object]:
    """Queues; some set `objective`, some a guarantee of as many GPUs as there are nodes."""
    random = _random(request, "queues")
    for made in queues(jobs):
        objective, is_guaranteed = random.choice(_OBJECTIVES), random.choice(_GUARANTEED)
        guarantee = {GPU: str(request.nodes)} if is_guaranteed else None
        drawn = {"objective": objective, "guarantee": guarantee}
        fields = {name: value for name, value in drawn.items() if value is not None}
        yield {**made, "spec": {**made["spec"], **fields}}


def _submissions(request: Request, jobs: Iterable[TraceJob]) -> tuple[Submission, ...]:
    # These names seed the random streams: other names would change the jobs of every seed.
    fields, affinity, retries = (_random(request, purpose) for purpose in ("wishes", "company", "retries"))
    natives, claimed = _random(request, "native"), _random(request, "claims")
    submissions, has_claims = [], _has_claims(request)
    for job in jobs:
        made = _with_affinity(_manifests(job, fields), affinity.choice(_AFFINITIES))
        if request.workload == "native":
            made = natively(made, natives, {"rack": _RACK, "block": _BLOCK})
        elif request.workload == "volcano":
            made = for_volcano(made)
        elif request.workload == "yunikorn":
            made = for_yunikorn(made)
        elif has_claims:
            made = claims.with_claims(made, claimed)
            made = tuple(claims.in_shares(made)) if request.workload == "shares" else made
        submissions.append(Submission(job.submit_s, _with_failure_policy(made, retries)))
    return tuple(submissions)


def _with_failure_policy(made: tuple[Object, ...], random: Random) -> tuple[Object, ...]:
    """Some Jobs do not count disrupted pods as failures."""
    if random.random() >= _IGNORES_DISRUPTION:
        return made
    job = deepcopy(made[-1])
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    job["spec"]["podFailurePolicy"] = {"rules": [rule]}
    return (*made[:-1], job)


def _with_affinity(made: tuple[Object, ...], kind: str) -> tuple[Object, ...]:
    """Add anti-affinity to pods of other such gangs, rack affinity to the own gang, or nothing."""
    job = deepcopy(made[-1])
    template, name = job["spec"]["template"], job["metadata"]["name"]
    if kind == "anti-affinity":
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {_NOISY: "true"}}}
        template["metadata"]["labels"][_NOISY] = "true"
        template["spec"]["affinity"] = {"podAntiAffinity": {_REQUIRED: [term]}}
    elif kind == "affinity":
        term = {"topologyKey": _RACK, "labelSelector": {"matchLabels": {_JOB: name}}}
        template["metadata"]["labels"][_JOB] = name
        template["spec"]["affinity"] = {"podAffinity": {_REQUIRED: [term]}}
    return (*made[:-1], job)


def _manifests(job: TraceJob, random: Random) -> tuple[Object, ...]:
    """The manifests of a job; some gangs get a topology, `recovery`, or pairs."""
    made = tuple(_with_spec_fields(manifest, random) for manifest in manifests(job))
    in_pairs = job.pods > 1 and job.pods % 2 == 0 and random.random() < _IN_PAIRS
    return tuple(map(_in_pairs, made)) if in_pairs else made


def _in_pairs(manifest: Object) -> Object:
    """Put all members into one subgroup with an even number of members in each rack."""
    made = deepcopy(manifest)
    if made["kind"] == "PodGroup":
        part = {"name": _PAIRS, "minMember": made["spec"]["minMember"], "segmentSize": 2}
        made["spec"]["subGroups"] = [{**part, "topology": {"required": "rack"}}]
    else:
        made["spec"]["template"]["metadata"]["labels"][LABEL_SUBGROUP] = _PAIRS
    return made


def _with_spec_fields(manifest: Object, random: Random) -> Object:
    """Draw the topology and `recovery` of a PodGroup."""
    if manifest["kind"] != "PodGroup":
        return manifest
    drawn: dict[str, Any] = {
        "topology": random.choice(_TOPOLOGIES),
        "recovery": random.choice(_RECOVERIES),
    }
    spec = {**manifest["spec"], **{name: value for name, value in drawn.items() if value is not None}}
    return {**manifest, "spec": spec}
