"""The manifests of gangs for Volcano, as its job controller creates them for a Volcano Job."""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct
from phalanx.model.resources import CPU, request_amount

from bench.harness.dialects import pod_group, with_scheduler
from bench.harness.gangs import LEVELS, Gang, Manifest, role_of
from bench.peers.programs import peer

API_VERSION = "scheduling.volcano.sh/v1beta1"
TOPOLOGY_API_VERSION = "topology.volcano.sh/v1alpha1"
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
TASK_ANNOTATION = "volcano.sh/task-spec"
DEFAULT_QUEUE = "default"
QUEUES = (DEFAULT_QUEUE, "lender", "owner")

CRDS = "config/crd/volcano/bases/*.yaml"
CONFIGURATION = "installer/helm/chart/volcano/config/volcano-scheduler.conf"
CI_CONFIGURATION = "installer/helm/chart/volcano/config/volcano-scheduler-ci.conf"

PROGRAM = peer(
    "volcano",
    source="volcano.sh/volcano",
    package="volcano.sh/volcano/cmd/scheduler",
    files=(CRDS, CONFIGURATION, CI_CONFIGURATION),
)

TIERS = {level: tier for tier, level in enumerate(reversed(LEVELS), start=1)}
"""The tiers of Volcano, counted from the narrowest level."""


class VolcanoDialect(Struct, frozen=True):
    """PodGroups with roles as tasks; a single pod has a PodGroup too, as its controller would create it."""

    def crds(self) -> list[Manifest]:
        """All CRDs, since the scheduler waits for some that are not used here."""
        return PROGRAM.built().read(CRDS)

    def setup(self) -> list[Manifest]:
        """Queues of equal weight; they are opened in their status when the scheduler starts."""
        return [
            {"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 1}}
            for name in QUEUES
        ]

    def ready_path(self) -> str:
        """The path of PodGroups."""
        return f"/apis/{API_VERSION}/podgroups"

    def group(self, gang: Gang) -> list[Manifest]:
        """A PodGroup that needs all pods of each task; without the total requests it is best-effort."""
        spec: Manifest = {
            "minMember": gang.size,
            "minTaskMember": {role.name: role.count for role in gang.roles},
            "minResources": _requests(gang),
            "queue": gang.queue or DEFAULT_QUEUE,
        }
        if gang.level:
            spec["networkTopology"] = {"mode": "hard", "highestTierAllowed": TIERS[gang.level]}
        if gang.priority:
            spec["priorityClassName"] = gang.priority_class
        return [pod_group(API_VERSION, gang, spec)]

    def pod(self, gang: Gang, pod: Manifest) -> Manifest:
        """The pod with the annotations of its PodGroup and task."""
        made = with_scheduler(pod, "volcano")
        made["metadata"]["annotations"] = {GROUP_ANNOTATION: gang.name, TASK_ANNOTATION: role_of(gang, pod)}
        return made


def _requests(gang: Gang) -> dict[str, str]:
    """The total requests of all pods as quantities."""
    total: Counter[str] = Counter()
    for role in gang.roles:
        for resource, written in role.requests.items():
            total[resource] += role.count * request_amount(resource, written)
    return {name: f"{amount}m" if name == CPU else str(amount) for name, amount in total.items()}


def hyper_nodes(nodes: Iterable[Mapping[str, str]]) -> list[Manifest]:
    """One HyperNode for each domain of the workload's levels, from the labels of all nodes."""
    labels = list(nodes)
    made = []
    for level, tier in TIERS.items():
        for domain in dict.fromkeys(each[LEVELS[level]] for each in labels):
            inside = [each for each in labels if each[LEVELS[level]] == domain]
            made.append(_hyper_node(domain, level, tier, _members(level, domain, inside)))
    return made


def _members(level: str, domain: str, nodes: list[Mapping[str, str]]) -> list[Manifest]:
    """The members of a domain: nodes for the narrowest level, otherwise the domains one level below."""
    tier = TIERS[level]
    if tier == 1:
        match = {"matchLabels": {LEVELS[level]: domain}}
        return [{"type": "Node", "selector": {"labelMatch": match}}]
    below = next(LEVELS[each] for each, number in TIERS.items() if number == tier - 1)
    domains = dict.fromkeys(each[below] for each in nodes)
    return [{"type": "HyperNode", "selector": {"exactMatch": {"name": each}}} for each in domains]


def _hyper_node(name: str, level: str, tier: int, members: list[Manifest]) -> Manifest:
    return {
        "apiVersion": TOPOLOGY_API_VERSION,
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "tierName": level, "members": members},
    }
