"""Gangs of plain pods, and the protocol that writes their manifests for a scheduler."""

from typing import Any, Final, Protocol

from msgspec import Struct

from bench.harness import rules
from bench.harness.rules import Rule

Manifest = dict[str, Any]

NAMESPACE: Final = "bench"
PODS_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"

GANG_LABEL: Final = "bench/gang"
"""The label with the name of the gang on every pod, for the observer; schedulers ignore it."""

UNOBSERVED_LABEL: Final = "bench/unobserved"
"""The label of existing pods, which the observer ignores."""

LEVELS: Final = {
    "zone": "topology.kubernetes.io/zone",
    "spine": "cloud.provider.com/topology-spine",
    "rack": "cloud.provider.com/topology-rack",
}
"""The levels of the workload's topology, widest first, and the node label of each."""


class Role(Struct, frozen=True, forbid_unknown_fields=True):
    """Interchangeable pods. `requests`: Kubernetes quantities of each."""

    name: str
    count: int
    requests: dict[str, str]


class Gang(Struct, frozen=True):
    """Pods that start together or not at all. `level`: "", "rack" or "spine", which all must share.

    `priority` above 0 becomes a PriorityClass of the pods. `queue`: "", "lender" or "owner", two queues of
    equal weight that may borrow from each other.
    """

    name: str
    roles: tuple[Role, ...]
    level: str = ""
    priority: int = 0
    queue: str = ""
    rule: Rule = Rule.NONE

    @property
    def priority_class(self) -> str:
        """The name of its PriorityClass; "" without a priority."""
        return f"bench-{self.priority}" if self.priority else ""

    @property
    def size(self) -> int:
        """The number of pods."""
        return sum(role.count for role in self.roles)


class Dialect(Protocol):
    """Writes the manifests of gangs for a scheduler, in NAMESPACE where they are namespaced."""

    def crds(self) -> list[Manifest]:
        """The CustomResourceDefinitions that it needs."""

    def setup(self) -> list[Manifest]:
        """Objects that are created once, after the CRDs are served and before the nodes. NAMESPACE exists."""

    def ready_path(self) -> str:
        """An API path that answers when its kinds are served; "" when it has none."""

    def group(self, gang: Gang) -> list[Manifest]:
        """Its PodGroup for one gang; empty for schedulers without gangs."""

    def pod(self, gang: Gang, pod: Manifest) -> Manifest:
        """The plain pod with its schedulerName, labels, annotations or fields of the spec."""


def pods(gang: Gang) -> list[Manifest]:
    """The plain pods of a gang, role by role, before any dialect."""
    return [_pod(gang, role, index) for role in gang.roles for index in range(role.count)]


def claims(gang: Gang) -> list[Manifest]:
    """The claims of the pods of a gang, which are created before them."""
    return [
        claim
        for pod in pods(gang)
        for claim in rules.claim(gang.rule, pod=pod["metadata"]["name"], namespace=NAMESPACE)
    ]


def role_of(gang: Gang, pod: Manifest) -> str:
    """The role of one of the gang's plain pods."""
    name: str = pod["metadata"]["name"]
    return name.removeprefix(f"{gang.name}-").rpartition("-")[0]


def _pod(gang: Gang, role: Role, index: int) -> Manifest:
    resources = {"requests": role.requests, "limits": role.requests}
    spec: Manifest = {"containers": [{"name": "main", "image": "none", "resources": resources}]}
    if gang.priority:
        spec["priorityClassName"] = gang.priority_class
    name = f"{gang.name}-{role.name}-{index:05d}"
    spec |= rules.fields(gang.rule, pod=name, selector={GANG_LABEL: gang.name})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {GANG_LABEL: gang.name},
        },
        "spec": spec,
    }
